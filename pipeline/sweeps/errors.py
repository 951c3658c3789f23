"""Errors of catalogues and sweeps.

NotFound
├── UnknownModel
└── UnknownSweep
BadInput
└── EmptyCatalogue
"""

from __future__ import annotations

from pipeline.errors import BadInput, NotFound


class UnknownModel(NotFound):
    """No catalogue lists a model of this name."""

    code, status = "unknown_model", 404


class UnknownSweep(NotFound):
    """There is no such sweep."""

    code, status = "unknown_sweep", 404


class EmptyCatalogue(BadInput):
    """A catalogue that lists nothing is an error, never a sweep of nothing."""

    code, status = "empty_catalogue", 422
