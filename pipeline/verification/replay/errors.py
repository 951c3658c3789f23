"""Why a captured document is refused."""

from __future__ import annotations

from pipeline.errors import BadInput


class DocumentRefused(BadInput):
    """A document breaks a rule. `where` names the part (`constants`, `graph 0`, `skeleton`, `output`) and the node."""

    code, status = "document_refused", 422

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason, self.where = reason, where
