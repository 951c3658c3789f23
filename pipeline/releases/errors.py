"""Errors of releases.

NotFound
└── UnknownAdapter
Conflict
└── AlreadyWithdrawn
BadInput
└── ManifestUnreadable
"""

from __future__ import annotations

from pipeline.errors import BadInput, Conflict, NotFound


class UnknownAdapter(NotFound):
    """No adapter has this number or name."""

    code, status = "unknown_adapter", 404


class AlreadyWithdrawn(Conflict):
    """The adapter is withdrawn already."""

    code, status = "already_withdrawn", 409


class ManifestUnreadable(BadInput):
    """A bundled manifest cannot be used."""

    code, status = "manifest_unreadable", 422
