"""All settings of the service: one typed class, prefix `SPYRE_FACTORY_`, read once; nothing else reads them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from platformdirs import user_data_path
from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Settings with their defaults. An invalid value refuses to start and names the variable."""

    model_config = SettingsConfigDict(env_prefix="SPYRE_FACTORY_", extra="ignore")

    data_dir: Path = Field(default_factory=lambda: user_data_path("spyre-factory"))
    database_url: str | None = None
    """SQLAlchemy URL; unset means SQLite in the data directory."""
    broker_url: str | None = None
    """Celery broker; unset means the filesystem transport in the data directory."""
    signing_key: Path | None = None
    """The private key that signs bundles; unset means one in the data directory, made at the first start."""
    profile: str = "profile-2026-08"
    drafters: Literal["rules,llm", "llm", "both", "rules", "none"] = "rules,llm"
    """Who drafts patches; `none` stops at the verdicts: nothing is diagnosed or drafted."""
    releases: Literal["bundled", "none"] = "bundled"
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    allowed_hosts: str = "127.0.0.1,localhost,[::1]"
    workers: int = Field(default=1, ge=1, le=64)
    llm_model: str | None = None
    llm_daily_budget_usd: float = Field(default=0.0, ge=0)
    llm_request_budget_usd: float | None = Field(default=None, ge=0)
    """What one request may cost in all; unset means only the other budgets hold."""
    llm_requester_budget_usd: float | None = Field(default=None, ge=0)
    """What one requester may cost in a day; unset means only the other budgets hold."""
    llm_price: tuple[float, float] | None = None
    """US dollars per million prompt and completion tokens, as `[0.5, 1.5]`; unset means unknown, never 0."""
    llm_protocol: Literal["auto", "tools", "text"] = "auto"
    """How tools are called; `auto` is what `agents doctor` found, and else what the endpoint accepts."""
    llm_parallel: int = Field(default=1, ge=1, le=8)
    """Drafts of one target at the same time; the first accepted one ends the others. Each costs money."""
    llm_reviewer: bool = True
    """Ask the model for advice on each patch that passed, in a conversation without its author's opinion."""
    demo: bool = False
    """True marks the database as a demonstration; its figures are never published."""
    reproducers_s: float = Field(default=15.0, ge=0)
    """Seconds of the processor that a diagnosis may spend on its scripts; with 0 it makes none. The command has no
    limit."""
    child_module: str = "pipeline.execution.child"
    """What runs a stage's body: a module, or a file that ends in `.py`."""
    free_disk_floor_mb: int = Field(default=512, ge=0)
    memory_mb: int | None = Field(default=None, ge=256)
    """What children of one machine may fill together; unset means four fifths of the machine."""
    catalog_refresh_hours: float = Field(default=0.0, ge=0)
    """The Hub is listed once in every such period; 0 means only when told to."""
    sweep_hours: float = Field(default=0.0, ge=0)
    """The newest catalogue is swept once in every such period; 0 means only when told to."""
    artefact_store: Literal["file", "database"] = "file"
    """Where evidence and plots are kept: files of the data directory, or the database that several hosts share."""
    retention_days: dict[str, int] = Field(default_factory=lambda: {"evidence": 365, "plot": 90, "log": 30})
    """How long `gc` leaves artefacts of a kind, and logs; a kind that is not named stays for ever."""
    lease_seconds: float = Field(default=60.0, ge=2)
    """A worker that is lost is noticed within this; a lease is renewed four times within it."""
    test_mode: bool = False
    """True permits `fault`: for the tests of this program only."""
    fault: str | None = Field(default=None, pattern=r"^[a-z_]+:(kill|stop|fail)(:[0-9]+)?$")
    """`POINT:ACTION[:N]` breaks this process at the N-th passage of a named point; refused outside test mode."""
    scheduled_top: int = Field(default=1000, ge=1)
    """Models of a scheduled refresh or sweep."""
    quota_open_requests: int = Field(default=100, ge=1)
    quota_requests_per_day: int = Field(default=1000, ge=1)
    """What one requester may have open at a time, and ask for within 24 hours."""
    event_streams: int = Field(default=20, ge=1)
    """Event streams that one principal may have open in one API process."""
    public_url: str = "http://127.0.0.1:8000"
    """Where browsers find this service: an issuer sends them back there."""
    oidc_issuer: str | None = None
    """The issuer of single sign-on (OpenID Connect); unset means login links only."""
    oidc_client_id: str = "spyre-factory"
    oidc_client_secret: str | None = None
    oidc_claim: str = "groups"
    oidc_roles: dict[str, list[Literal["viewer", "requester", "reviewer", "admin"]]] = Field(default_factory=dict)
    """Values of the claim to the roles they give, as `{"spyre-reviewers": ["reviewer"]}`."""
    two_persons: bool = False
    """True lets an adapter be released only when two persons have approved the same digest."""
    writes_per_minute: int = Field(default=6_000, ge=0)
    """Writes of one caller within a minute; 0 means no limit."""
    webhooks: bool = False
    """True sends the end of a request to the `callback_url` it named."""
    webhook_private_hosts: str = ""
    """Names, with commas between, of receivers that may have private addresses."""
    webhook_key: Path | None = None
    """The key that clients' secrets are derived from; unset means one in the data directory, made when needed."""
    notify: str = ""
    """Addresses (`https://...`, `mailto:...`), with commas between, that are told when something waits for review."""
    smtp_server: str = "localhost:25"
    smtp_from: str = "spyre-factory@localhost"
    """Who hands on notices to `mailto:` addresses, and whom they come from."""
    token: str | None = None
    """The bearer token that commands with `--server` send."""

    @model_validator(mode="after")
    def _no_faults_outside_tests(self) -> Settings:
        if self.fault is not None and not self.test_mode:
            raise ValueError("SPYRE_FACTORY_FAULT breaks this program on purpose: it needs SPYRE_FACTORY_TEST_MODE")
        return self

    @property
    def private_webhook_hosts(self) -> frozenset[str]:
        """The names of `webhook_private_hosts`."""
        return frozenset(name.strip().lower() for name in self.webhook_private_hosts.split(",") if name.strip())

    @property
    def sqlalchemy_url(self) -> str:
        """The database to use."""
        return self.database_url or f"sqlite:///{self.data_dir / 'factory.sqlite3'}"


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """The settings of this process, read at the first call."""
    return Settings()
