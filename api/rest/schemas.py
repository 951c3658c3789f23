"""What REST takes and gives. Bodies and queries refuse unknown fields; answers are what the OpenAPI document says."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from api.model_filter import Sort, Wanted

MODEL_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?$"
PROFILE = r"^profile-[a-z0-9-]{1,40}$"
OutcomeFilter = Literal["passed", "failed", "infra", "unknown", "not_run", "waiting"]
OutcomeWord = Literal["passed", "failed", "infra", "unknown", "not_run"]
REVISION = r"^[0-9a-f]{40}$"
REQUEST_ID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
NO_NUL = r"^[^\x00]*$"
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=4_000, pattern=NO_NUL)]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000, pattern=NO_NUL)]


def _hub_id(name: str) -> str:
    """What the Hub forbids in a name besides the pattern."""
    if "--" in name or ".." in name or name.endswith((".git", ".", "-")):
        raise ValueError("not a Hub id: `--`, `..`, and names that end in `.git`, `.` or `-` are not allowed")
    return name


def _callback(url: str) -> str:
    """An https address of a host, without a name and password and without a fragment."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError("a callback is an https URL without user name and fragment")
    if parts.port == 0 or any(character.isspace() or not character.isprintable() for character in url):
        raise ValueError("a callback is one https URL")
    return url


HubId = Annotated[
    str,
    Field(pattern=MODEL_ID, max_length=200, examples=["sentence-transformers/all-MiniLM-L6-v2"]),
    AfterValidator(_hub_id),
]
ProfileName = Annotated[str, Field(pattern=PROFILE, examples=["profile-2026-08"])]
RowId = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Strict(BaseModel):
    """What callers send: a field nobody knows is an error, not a silence."""

    model_config = ConfigDict(extra="forbid")


class ModelsFilter(Strict):
    """What a list of models is narrowed to, and its order."""

    search: Annotated[str, Field(max_length=200, pattern=NO_NUL, description="Part of the name.")] = ""
    outcome: OutcomeFilter | None = None
    family: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="As coverage names it.")] = None
    kind: Annotated[str | None, Field(pattern=r"^[a-z_]{1,32}$", description="Kind of the failure.")] = None
    op: Annotated[str | None, Field(max_length=120, pattern=NO_NUL, description="A failing operation.")] = None
    weights: Literal["real", "synthetic"] | None = None
    supported: bool | None = None
    adapter: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="Number of an adapter.")] = None
    stale: Annotated[bool, Field(description="Only verdicts of another environment than today's.")] = False
    sort: Sort = "downloads"
    reverse: Annotated[bool, Field(description="The other way round; models without a value stay last.")] = False
    profile: ProfileName | None = None

    @property
    def wanted(self) -> Wanted:
        """The filters and the order, as the list takes them."""
        given = {name: getattr(self, name) for name in Wanted._fields}
        return Wanted(**{name: value for name, value in given.items() if value is not None})


class ExportQuery(ModelsFilter):
    """The form of an export."""

    format: Literal["csv", "jsonl"] = "jsonl"


class ModelsQuery(ModelsFilter):
    """A page of the list of models."""

    cursor: Annotated[str | None, Field(max_length=600, description="`next` of the page before.")] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class CoverageQuery(Strict):
    """How coverage is grouped."""

    by: Literal["family", "op", "release", "profile"] | None = None
    profile: ProfileName | None = None


class ProfileQuery(Strict):
    """The device profile an answer is about; the configured one if it is not given."""

    profile: ProfileName | None = None


class ReviewsQuery(Strict):
    """Which candidates."""

    state: Literal["waiting", "all"] = "waiting"


class NewRequest(Strict):
    """A request for an adapter: for a model of the Hub, or for a configuration alone (the weights stay at home)."""

    model: HubId | None = None
    config: Annotated[dict[str, Any] | None, Field(description="The content of the model's config.json.")] = None
    revision: Annotated[str | None, Field(pattern=REVISION, description="A commit of the model, 40 hex digits.")] = None
    profile: ProfileName | None = None
    callback_url: Annotated[str, Field(max_length=2_000), AfterValidator(_callback)] | None = None
    note: Text = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.model is None) == (self.config is None):
            raise ValueError("give either `model` or `config`")
        if self.config is not None and self.revision is not None:
            raise ValueError("`revision` is a model's; a configuration has none")
        return self


class DecisionBody(Strict):
    """Why."""

    reason: Reason


class SeenCandidate(Strict):
    """A candidate and what was seen of it."""

    id: RowId
    seen: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class ApprovalBody(DecisionBody):
    """Why; and the same patches in other families that this approval covers."""

    also: Annotated[list[SeenCandidate], Field(max_length=50)] = []


class StrikeBody(DecisionBody):
    """Which patch (counted from 1) is taken out, and why."""

    position: Annotated[int, Field(ge=1, le=1_000)]


class ModelItem(BaseModel):
    """A model and where it stands on a profile."""

    model: str
    rank: int | None
    downloads: int
    revision: str | None
    outcome: OutcomeWord
    reason: str
    kind: str | None
    stage: str | None
    supported: bool
    adapter: str | None
    adapter_id: int | None
    scripted: bool
    weights: str | None
    tier: str | None
    depth: str | None
    fingerprint: str | None
    stale: bool
    waiting_candidate: int | None
    updated_at: datetime | None
    page: str


class ModelsPage(BaseModel):
    """One page of models; `next` is the cursor of the following one, or null."""

    profile: str
    models: list[ModelItem]
    next: str | None


class FailureItem(BaseModel):
    """One reason a model does not pass."""

    kind: str
    op: str
    source: str
    module: str
    place: str
    count: int
    after: bool
    message: str


class RunItem(BaseModel):
    """One execution of one stage."""

    id: int
    stage: str
    state: str
    outcome: str | None
    kind: str | None
    reason: str
    seconds: float | None
    weights: str | None
    tier: str
    depth: str | None
    adapter_id: int | None
    candidate_id: int | None
    environment: str
    measurements: dict[str, Any]
    artefacts: list[Any]
    failures: list[FailureItem]
    finished_at: datetime | None


class RunDetails(RunItem):
    """A run with its evidence and the versions it ran under."""

    profile: str
    request_id: str | None
    evidence: dict[str, Any]
    versions: dict[str, Any]
    peak_rss_mb: float | None


class ModelDetails(ModelItem):
    """A model with its failures and runs on a profile, newest first.

    `derived_from` is the model that was executed for it, where its verdict is that of another one of its group.
    """

    profile: str
    derived_from: str | None
    failures: list[FailureItem]
    runs: list[RunItem]
    same_fingerprint: list[str]


class Figures(BaseModel):
    """The five figures of coverage; real and synthetic weights are never added up."""

    total: int
    supported: int
    passing_real: int
    passing_synthetic: int
    truncated: int


class Group(Figures):
    """The figures of one family, operation or release."""

    name: str
    by_downloads: Figures


class Coverage(Figures):
    """Coverage by count, and by downloads; `demo` says that the figures mean nothing."""

    profile: str
    demo: bool
    by_downloads: Figures
    groups: list[Group]


class Known(BaseModel):
    """What is known already about the model."""

    outcome: OutcomeWord
    failures: list[FailureItem]


class AdapterLink(BaseModel):
    """The adapter to use."""

    id: int
    name: str
    version: int
    digest: str
    download: str


class RequestAnswer(BaseModel):
    """A request and how far it is. `expected_wait_s` is null while nothing has been timed."""

    id: str
    model: str
    revision: str | None
    profile: str
    state: Literal["queued", "running", "review", "ready", "failed", "unknown", "cancelled"]
    position: int | None
    expected_wait_s: float | None
    known: Known
    waiting_candidate: int | None
    adapter: AdapterLink | None
    use: str | None
    next: str
    page: str
    events: str
    created_at: datetime


class ReviewItem(BaseModel):
    """A candidate in one line; `seen` is what an approval names in If-Match."""

    id: int
    state: str
    family: str
    profile: str
    dtype: str
    digest: str
    seen: str
    patches: list[str]
    drafters: list[str]
    scripted: bool
    reason: str
    models: list[str]
    created_at: datetime


class Reviews(BaseModel):
    """Candidates, oldest first."""

    reviews: list[ReviewItem]


class PassItem(BaseModel):
    """A model that would then pass."""

    model: str
    downloads: int


class SameItem(BaseModel):
    """A candidate that waits with the same patches for another family; one approval can cover both."""

    id: int
    family: str
    seen: str


class ReviewDetails(BaseModel):
    """Everything there is to see of a candidate."""

    id: int
    state: str
    family: str
    profile: str
    dtype: str
    digest: str
    seen: str
    patches: list[dict[str, Any]]
    drafters: list[str]
    scripted: bool
    reason: str
    models: list[str]
    created_at: datetime
    evidence: list[dict[str, Any]]
    reviews: list[dict[str, Any]]
    would_then_pass: list[PassItem]
    claimed_until: datetime | None
    struck_from: int | None
    same_patches: list[SameItem]
    previous_round: dict[str, Any] | None


class ReleasedAnswer(BaseModel):
    """What an approval or a withdrawal caused; no adapter while a second person has to approve.

    `also`: what was released elsewhere with it.
    """

    adapter: AdapterLink | None
    runs: list[int]
    also: list[AdapterLink] = []


class AdapterItem(BaseModel):
    """A released adapter."""

    id: int
    name: str
    version: int
    origin: str
    state: str
    family: str
    profile: str
    digest: str
    scripted: bool
    candidate_id: int | None
    created_at: datetime
    withdrawn_at: datetime | None
    withdrawn_reason: str
    download: str


class Adapters(BaseModel):
    """Adapters, newest first."""

    adapters: list[AdapterItem]


class AdapterDetails(AdapterItem):
    """An adapter with its manifest."""

    manifest: dict[str, Any]


class SweepItem(BaseModel):
    """A model in a sweep."""

    model: str
    rank: int
    downloads: int
    fingerprint: str | None
    outcome: str
    reason: str
    kind: str | None
    adapter: str | None
    weights: str | None
    tier: str
    depth: str | None
    causes: int | None = None
    waiting_candidate: int | None = None


class SweepAnswer(BaseModel):
    """A sweep: what it found, and how far it is in the runs known so far."""

    sweep: int
    profile: str
    state: str
    models: list[SweepItem]
    funnel: dict[str, int]
    executed: int
    runs_done: int
    runs_known: int


class SweepLine(BaseModel):
    """A sweep in the list."""

    sweep: int
    profile: str
    state: str
    source: str
    top: int | None
    created_at: datetime
    finished_at: datetime | None


class Sweeps(BaseModel):
    """Sweeps, newest first; those of requests are not among them."""

    sweeps: list[SweepLine]


class ComparisonQuery(Strict):
    """Two sweeps by number."""

    first: RowId
    second: RowId


class ComparedSweep(BaseModel):
    """One side of a comparison."""

    sweep: int
    profile: str
    state: str


class ComparedModel(BaseModel):
    """A model that fails in both sweeps or whose place differs."""

    model: str
    downloads: int
    change: Literal["new", "persisting", "fixed", "entered", "left", "undecided"]
    first: str | None
    second: str | None
    reason: str


class SweepComparison(BaseModel):
    """What fails newly, what still fails, what was mended."""

    first: ComparedSweep
    second: ComparedSweep
    counts: dict[str, int]
    passing_in_both: int
    models: list[ComparedModel]


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """The database can be used; how long the oldest claimable run has waited."""

    status: Literal["ok"]
    oldest_claimable_age_s: float | None
    runs: dict[str, int]
    paused: bool
    failed_chore: Annotated[str | None, Field(description="Why the last scheduled work was given up, if it was.")]
