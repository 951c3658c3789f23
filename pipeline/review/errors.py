"""Errors of the review.

NotFound
└── UnknownCandidate
Conflict
├── StaleApproval      what was seen is not what is stored now
├── NotReviewable      the candidate does not wait for a decision
├── ClaimedByOther     another reviewer holds the lease
├── NothingToReplay    the evidence has no document that can be run again
└── ScriptedOutsideDemo what a script drafted is released in a demonstration only
BadInput
└── ReasonMissing
"""

from __future__ import annotations

from pipeline.errors import BadInput, Conflict, NotFound


class UnknownCandidate(NotFound):
    """There is no such candidate."""

    code, status = "unknown_candidate", 404


class StaleApproval(Conflict):
    """The approved content differs from the content now stored."""

    code, status = "stale_approval", 409


class NotReviewable(Conflict):
    """The candidate does not wait for a decision."""

    code, status = "not_reviewable", 409


class ClaimedByOther(Conflict):
    """Another reviewer is at work on the candidate."""

    code, status = "claimed_by_other", 409


class SecondPersonNeeded(Conflict):
    """The first of two approvals was this reviewer's."""

    code, status = "second_person_needed", 409


class NotTheSamePatches(BadInput):
    """The candidates decided on together do not hold the same patches."""

    code, status = "not_the_same_patches", 422


class NothingToReplay(Conflict):
    """The evidence has no stored document that can be run again."""

    code, status = "nothing_to_replay", 409


class ReasonMissing(BadInput):
    """Every decision needs a reason."""

    code, status = "reason_missing", 422


class PatchNotInSet(NotFound):
    """The candidate has no patch at this position."""

    code, status = "patch_not_in_set", 404


class ScriptedOutsideDemo(Conflict):
    """A patch came from the scripted endpoint, and this database is no demonstration."""

    code, status = "scripted_outside_demo", 409
