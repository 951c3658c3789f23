"""Why a document of a model is refused."""

from __future__ import annotations

from ..errors import AdapterError


class DocumentRefused(AdapterError):
    """A document breaks a rule. `where` names the part (`constants`, `graph 0`, `skeleton`, `output`) and the node."""

    code = "document_refused"

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason, self.where = reason, where
