"""What an error of the Hub means for us: a fault of the model, of the request, or of the world around us.

    no such model or revision, or
    private and asked for anonymously -> NotFound (the caller's fault)
    gated, access refused by owner    -> CheckpointProblem("gated") (the model's)
    anything else: network, 5xx, 429,
    401 (a bad token), offline mode   -> EnvironmentProblem (ours: tried again, counts against no model)

Classified by exception class, status and the Hub's `X-Error-Code`, never by the text of a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agents.types import FailureKind
from pipeline.errors import CheckpointProblem, EnvironmentProblem, FactoryError, NotFound


class Unauthorised(EnvironmentProblem):
    """401. To an anonymous question for one model it may also mean that the model is missing or private."""


@contextmanager
def hub_errors(subject: str, endpoint: str) -> Iterator[None]:
    """Turns errors of `huggingface_hub` raised inside into ours. `subject` is the model id, or what was asked for."""
    import httpx2
    from huggingface_hub import errors

    try:
        yield
    except errors.HfHubHTTPError as error:
        raise translate(error, subject, endpoint) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, errors.OfflineModeIsEnabled) as error:
        raise unreachable(endpoint, error) from error


def unreachable(endpoint: str, error: Exception) -> EnvironmentProblem:
    """The Hub did not answer, or not to the end."""
    what = next((text for kind, text in _TRANSPORT.items() if kind in type(error).__name__), "cannot be reached")
    return EnvironmentProblem(
        f"the Hub at {endpoint} {what}; check the network and HF_ENDPOINT, or use `--catalog starter`"
    )


_TRANSPORT = {
    "ConnectTimeout": "cannot be reached",
    "Timeout": "did not answer in time",
    "Protocol": "broke off its answer",
    "Read": "broke off its answer",
    "Offline": "may not be asked, HF_HUB_OFFLINE is set",
}
"""What happened, by a word of the exception's class name; the first that fits."""


def translate(error: Exception, subject: str, endpoint: str) -> FactoryError:
    """Our error for a `HfHubHTTPError`."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        text = f"{subject!r}: its owner must grant access; accept its terms on the Hub and set HF_TOKEN."
        return CheckpointProblem(str(FailureKind.GATED), text)
    if _header(error, "X-Error-Code") == "RepoNotFound":
        return missing(subject, endpoint)
    if isinstance(error, errors.RevisionNotFoundError):
        return NotFound(f"{subject!r} has no such revision on the Hub at {endpoint}; leave it out to take the newest")
    return _refused(error, endpoint)


def missing(subject: str, endpoint: str) -> NotFound:
    """The model is not there, for this client."""
    return NotFound(f"{subject!r} is not on the Hub at {endpoint} (or is private); check the spelling")


def _refused(error: Exception, endpoint: str) -> EnvironmentProblem:
    status = _status(error)
    remedy = _REMEDIES.get(status or 0, "it is tried again later")
    kind = Unauthorised if status == 401 else EnvironmentProblem
    return kind(f"the Hub at {endpoint} answered {status or 'nothing usable'}; {remedy}")


_REMEDIES = {
    401: "HF_TOKEN is not accepted, set a valid one or unset it",
    403: "HF_TOKEN does not permit this, set one that may read the model",
    429: "too many requests, it is tried again later",
}


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _header(error: Exception, name: str) -> str | None:
    response = getattr(error, "response", None)
    return response.headers.get(name) if response is not None else None
