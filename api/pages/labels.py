"""The words, signs and number formats of pages (design §2, "On pages"); templates take everything from here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup, escape

from pipeline.sweeps.models import CheckpointStatus
from pipeline.work.environment import environment_digest


class Mark(NamedTuple):
    """A status as people read it: a sign, a word, the style that goes with both, and a remark."""

    sign: str
    word: str
    style: str
    remark: str = ""


MARKS: dict[str, Mark] = {
    "passed": Mark("✓", "passes", "good"),
    "failed": Mark("✗", "fails", "bad"),
    "waiting": Mark("◐", "waits for review", "wait"),
    "unknown": Mark("?", "unknown", "dim"),
    "void": Mark("∅", "does not count", "dim"),
    "infra": Mark("↻", "our fault, will be retried", "dim"),
    "not_run": Mark("·", "not run yet", "dim"),
    "queued": Mark("…", "queued", "dim"),
    "claimed": Mark("▸", "running", "wait"),
    "running": Mark("▸", "running", "wait"),
    "done": Mark("■", "done", "dim"),
    "ready": Mark("✓", "ready", "good"),
    "review": Mark("◐", "waits for review", "wait"),
    "cancelled": Mark("–", "cancelled", "dim"),
    "verifying": Mark("▸", "being verified", "wait"),
    "refused": Mark("✗", "refused by the gate", "bad"),
    "inconclusive": Mark("?", "not enough evidence", "dim"),
    "accepted": Mark("✓", "accepted", "good"),
    "rejected": Mark("✗", "rejected", "bad"),
    "changes": Mark("↺", "changes asked for", "wait"),
    "superseded": Mark("–", "replaced by a smaller set", "dim"),
    "released": Mark("✓", "released", "good"),
    "withdrawn": Mark("–", "withdrawn", "bad"),
}
CHANGES: dict[str, Mark] = {
    "new": Mark("✗", "fails now", "bad"),
    "persisting": Mark("✗", "still fails", "bad"),
    "fixed": Mark("✓", "passes now", "good"),
    "entered": Mark("+", "only in the second", "dim"),
    "left": Mark("–", "only in the first", "dim"),
    "undecided": Mark("?", "not decided in both", "dim"),
}
STAGE_MARKS = {"passed": Mark("✓", "ok", "good"), "failed": Mark("✗", "stops here", "bad")}
OUTCOMES = {
    "": "all",
    "passed": "pass",
    "failed": "fail",
    "waiting": "of these wait for review",
    "unknown": "unknown",
    "infra": "our fault",
    "not_run": "not run yet",
}
KINDS = {
    "unsupported_op": "operation not supported",
    "unsupported_dtype": "number format not supported",
    "layout": "memory layout not possible",
    "shape_limit": "shape beyond a limit",
    "memory_limit": "too much memory",
    "graph_break": "cannot be compiled in one graph",
    "dynamic_shape": "shape depends on data",
    "runtime_abort": "device stops",
    "wrong_values": "wrong values, no error",
    "non_finite": "not finite",
    "cpu_fallback": "runs on the CPU",
    "cpu_reference": "no CPU reference",
    "unknown_architecture": "unknown architecture",
    "remote_code": "needs code of its own",
    "gated": "gated",
    "quantised": "quantised",
    "no_native_weights": "no native weights",
    "pickle_weights": "pickle weights only",
    "malformed": "broken files",
    "too_large": "too large",
    "timeout": "took too long",
    "crashed": "crashed",
    "adapter_misfit": "adapter is for other sizes",
    "unclassified": "unclassified",
}
FIGURES = {
    "worst_token_cosine": "lowest token cosine",
    "lowest_token_cosine": "lowest token cosine",
    "pooled_cosine": "pooled cosine",
    "centred_pooled_cosine": "mean-centred pooled cosine",
    "error_ratio": "error ratio to an ideal DL16 device",
    "worst_draw_error_ratio": "the same, in the draw that had most",
    "spearman": "rank correlation (Spearman)",
    "fallbacks": "operations on the CPU",
    "cases": "cases",
    "void_cases": "cases not counted",
}
STAGES = {
    "inspect": "inspect",
    "capture": "capability",
    "execute": "execute and compare",
    "diagnose": "diagnose",
    "draft": "draft",
    "verify": "verify",
}
EXACTNESS = {"exact": "exact: equal in real arithmetic", "bounded": "bounded: within the stated bound"}
DRAFTERS = {"rules": "rewrite rules", "llm": "coding agent", "hand": "a person"}


def status_mark(item: Mapping[str, Any]) -> Mark:
    """Where a model stands (an item of `api.model_list` or `api.presentation`): sign, word, and a remark.

    The remark tells weights, depth, staleness and whether it counts.
    """
    if item["revision"] is None:
        is_left_out = item["outcome"] == "failed"
        return Mark("✗", "left out", "bad", kind_word(item["kind"])) if is_left_out else MARKS["not_run"]
    waits = item["waiting_candidate"] and item["outcome"] == "failed"
    return MARKS["waiting" if waits else item["outcome"]]._replace(remark=", ".join(_remarks(item)))


def _remarks(item: Mapping[str, Any]) -> list[str]:
    passed = item["outcome"] == "passed"
    remarks = {
        f"{item['weights']} weights": passed and item["weights"],
        f"depth {item['depth']}": item["depth"] and item["depth"] != "full",
        "as another of its group": item["derived_from"],
        "scripted, counts in no figure": item["scripted"],
        "stale": item["stale"],
    }
    return [text for text, holds in remarks.items() if holds]


def is_stale(status: CheckpointStatus) -> bool:
    """True if the verdict's environment is not today's."""
    return status.environment != environment_digest(status.profile)


def kind_word(kind: str | None) -> str:
    """A failure kind in words; an unknown one as it is stored."""
    return KINDS.get(kind or "", kind or "")


def mark_of(word: str) -> Mark:
    """The mark of a stored state or outcome."""
    return MARKS.get(word, Mark("?", word, "dim"))


def stage_mark(outcome: str) -> Mark:
    """The mark of one stage: that a stage went well does not mean that the model passes."""
    return STAGE_MARKS.get(outcome) or mark_of(outcome)


def ratio(value: Any) -> str:
    """A ratio in two decimals."""
    return "not measured" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def with_code(text: str) -> Markup:
    """A sentence of a docstring: what stands between backticks is set as code, everything is escaped."""
    parts = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def figure_word(name: str) -> str:
    """A measurement's name in words."""
    return FIGURES.get(name, name.replace("_", " "))


def number(value: Any) -> str:
    """A count with thin separators; "–" for unknown."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def short_number(value: int | float) -> str:
    """A large count in three digits: 167 M."""
    for size, unit in ((1e9, "\u202fG"), (1e6, "\u202fM"), (1e3, "\u202fk")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return str(int(value))


def cosine(value: Any) -> str:
    """A similarity or ratio in five decimals; counts and texts as they are; "not measured" for None."""
    if value is None:
        return "not measured"
    if isinstance(value, dict):
        return ", ".join(f"{k}: {v}" for k, v in value.items()) or "none"
    return f"{value:.5f}" if isinstance(value, float) else str(value)


def small(value: Any) -> str:
    """A small error in two digits; "not finite" for None."""
    return "not finite" if value is None else f"{value:.1e}" if isinstance(value, float) else str(value)


def percent(part: float, whole: float) -> str:
    """A share in whole percent; "–" of nothing."""
    return f"{100 * part / whole:.0f}\u202f%" if whole else "–"


def spent(found: Any) -> str:
    """What was charged, with how much of it is not known (`api.standing.Spent`)."""
    if not found.calls:
        return "no call"
    unknown = f", {found.unknown} of unknown cost at what was reserved" if found.unknown else ""
    return f"US${found.usd:.2f} in {number(found.calls)} call{'s' if found.calls != 1 else ''}{unknown}"


def moment(value: datetime | str | None) -> str:
    """A time to the minute, in UTC, with its zone."""
    if value is None:
        return "–"
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def age(seconds: float | None) -> str:
    """A duration in the largest unit that fits."""
    if seconds is None:
        return "–"
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}\u202f{unit}"
    return f"{seconds:.1f}\u202fs" if seconds < 10 else f"{seconds:.0f}\u202fs"


def pretty(value: Any) -> str:
    """Data as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@lru_cache(maxsize=20_000)
def model_url(name: str) -> str:
    """The page of a model."""
    return f"/models/{quote(name, safe='/')}"


def breakable(name: str) -> Markup:
    """A dotted or underscored name that a narrow column may break after its dots and underscores only."""
    return Markup(re.sub(r"([._])", r"\1<wbr>", str(escape(name))))  # noqa: S704 - escaped before


def plain_value(value: Any) -> str:
    """A setting or parameter in words; nothing, an empty text and an empty list are "not set"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ("", [], (), {}):
        return "not set"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {plain_value(part)}" for key, part in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(plain_value(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "short": short_number,
    "cosine": cosine,
    "small": small,
    "percent": percent,
    "spent": spent,
    "moment": moment,
    "age": age,
    "pretty": pretty,
    "kind": kind_word,
    "mark": mark_of,
    "stage_mark": stage_mark,
    "ratio": ratio,
    "with_code": with_code,
    "figure": figure_word,
    "stage": lambda name: STAGES.get(name, name),
    "exactness": lambda name: EXACTNESS.get(name, name),
    "drafter": lambda name: DRAFTERS.get(name, name),
    "model_url": model_url,
    "breakable": breakable,
    "plain": plain_value,
}
NAVIGATION = {
    "/": "Overview",
    "/models": "Models",
    "/coverage": "Coverage",
    "/ops": "Operations",
    "/review": "Review",
    "/requests": "Requests",
    "/adapters": "Adapters",
    "/sweeps": "Sweeps",
}
MORE_NAVIGATION = {
    "/profiles": "Device profiles",
    "/scores": "Scores and costs",
    "/audit": "Audit",
    "/settings": "Settings and tokens",
}
GLOBALS: dict[str, Any] = {
    "outcomes": OUTCOMES,
    "changes": CHANGES,
    "navigation": NAVIGATION.items(),
    "more_navigation": list(MORE_NAVIGATION.items()),
}
