"""Tables of the first road."""

# ruff: noqa: E501 - one constraint per line, as the database holds it
from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_29_first"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "artefacts",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("media_type", sa.String(length=80), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_artefacts")),
    )
    op.create_table(
        "capabilities",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("graph_key", sa.String(length=64), nullable=False),
        sa.Column("adapter_digest", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("profile", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=True),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_capabilities")),
        sa.UniqueConstraint(
            "graph_key",
            "adapter_digest",
            "environment",
            name=op.f("uq_capabilities_graph_key_adapter_digest_environment"),
        ),
    )
    op.create_index(op.f("ix_capabilities_fingerprint"), "capabilities", ["fingerprint"], unique=False)
    op.create_table(
        "catalogue_snapshots",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(length=200), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("listed", sa.Integer(), nullable=False),
        sa.Column("dropped", sa.Integer(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalogue_snapshots")),
        sa.UniqueConstraint("digest", name=op.f("uq_catalogue_snapshots_digest")),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("downloads", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("name", name=op.f("uq_models_name")),
    )
    op.create_index(op.f("ix_models_rank"), "models", ["rank"], unique=False)
    op.create_table(
        "outbox_events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("topic", sa.String(length=64), nullable=False),
        sa.Column("subject_kind", sa.String(length=32), nullable=False),
        sa.Column("subject_id", sa.String(length=64), nullable=False),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox_events")),
    )
    op.create_index(
        op.f("ix_outbox_events_subject_kind_subject_id"), "outbox_events", ["subject_kind", "subject_id"], unique=False
    )
    op.create_table(
        "principals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind IN ('human', 'service', 'agent')", name=op.f("ck_principals_kind_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_principals")),
        sa.UniqueConstraint("id", "kind", name=op.f("uq_principals_id_kind")),
        sa.UniqueConstraint("name", name=op.f("uq_principals_name")),
    )
    op.create_table(
        "settings_kv",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_settings_kv")),
    )
    op.create_table(
        "checkpoints",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.String(length=64), nullable=False),
        sa.Column("config", sa.JSON(), nullable=True),
        sa.Column("config_digest", sa.String(length=64), nullable=True),
        sa.Column("family", sa.String(length=64), nullable=True),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("local_path", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_checkpoints_model_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoints")),
        sa.UniqueConstraint("model_id", "revision", name=op.f("uq_checkpoints_model_id_revision")),
    )
    op.create_index(op.f("ix_checkpoints_config_digest"), "checkpoints", ["config_digest"], unique=False)
    op.create_index(op.f("ix_checkpoints_family"), "checkpoints", ["family"], unique=False)
    op.create_table(
        "principal_roles",
        sa.Column("principal_id", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("principal_kind", sa.String(length=16), nullable=False),
        sa.CheckConstraint(
            "role <> 'reviewer' OR principal_kind = 'human'", name=op.f("ck_principal_roles_reviewer_is_human")
        ),
        sa.CheckConstraint(
            "role IN ('viewer', 'requester', 'reviewer', 'admin')", name=op.f("ck_principal_roles_role_known")
        ),
        sa.ForeignKeyConstraint(
            ["principal_id", "principal_kind"],
            ["principals.id", "principals.kind"],
            name=op.f("fk_principal_roles_principal_id_principal_kind"),
        ),
        sa.PrimaryKeyConstraint("principal_id", "role", name=op.f("pk_principal_roles")),
    )
    op.create_table(
        "requests",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("profile", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("principal_id", sa.Integer(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("body_digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('open', 'done', 'cancelled')", name=op.f("ck_requests_state_known")),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_requests_principal_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_requests_idempotency_key")),
    )
    op.create_index(op.f("ix_requests_model"), "requests", ["model"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("principal_id", sa.Integer(), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("csrf_token", sa.String(length=64), nullable=True),
        sa.Column("label", sa.String(length=120), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("kind IN ('login', 'cookie', 'bearer')", name=op.f("ck_sessions_kind_known")),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_sessions_principal_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_sessions_token_hash")),
    )
    op.create_index(op.f("ix_sessions_principal_id"), "sessions", ["principal_id"], unique=False)
    op.create_table(
        "candidates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("family", sa.String(length=64), nullable=False),
        sa.Column("profile", sa.String(length=64), nullable=False),
        sa.Column("dtype", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("scripted", sa.Boolean(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("draft_run_id", sa.Integer(), nullable=True),
        sa.Column("struck_from_id", sa.Integer(), nullable=True),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("claimed_by_id", sa.Integer(), nullable=True),
        sa.Column("claim_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "state IN ('verifying', 'refused', 'inconclusive', 'waiting', 'rejected', 'changes', 'superseded', 'released', 'withdrawn')",
            name=op.f("ck_candidates_state_known"),
        ),
        sa.ForeignKeyConstraint(["claimed_by_id"], ["principals.id"], name=op.f("fk_candidates_claimed_by_id")),
        sa.ForeignKeyConstraint(["draft_run_id"], ["runs.id"], name="fk_candidates_draft_run_id", use_alter=True),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=op.f("fk_candidates_request_id")),
        sa.ForeignKeyConstraint(["struck_from_id"], ["candidates.id"], name=op.f("fk_candidates_struck_from_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidates")),
        sa.UniqueConstraint("digest", name=op.f("uq_candidates_digest")),
    )
    op.create_index(op.f("ix_candidates_draft_run_id"), "candidates", ["draft_run_id"], unique=False)
    op.create_index(op.f("ix_candidates_family_profile"), "candidates", ["family", "profile"], unique=False)
    op.create_index(op.f("ix_candidates_request_id"), "candidates", ["request_id"], unique=False)
    op.create_index(op.f("ix_candidates_state_id"), "candidates", ["state", "id"], unique=False)
    op.create_index(op.f("ix_candidates_struck_from_id"), "candidates", ["struck_from_id"], unique=False)
    op.create_table(
        "catalogue_entries",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("snapshot_id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", sa.Integer(), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("downloads", sa.BigInteger(), nullable=False),
        sa.Column("dropped_kind", sa.String(length=32), nullable=True),
        sa.Column("dropped_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_catalogue_entries_checkpoint_id")),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_catalogue_entries_model_id")),
        sa.ForeignKeyConstraint(
            ["snapshot_id"], ["catalogue_snapshots.id"], name=op.f("fk_catalogue_entries_snapshot_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalogue_entries")),
        sa.UniqueConstraint("snapshot_id", "model_id", name=op.f("uq_catalogue_entries_snapshot_id_model_id")),
    )
    op.create_index(op.f("ix_catalogue_entries_checkpoint_id"), "catalogue_entries", ["checkpoint_id"], unique=False)
    op.create_index(op.f("ix_catalogue_entries_model_id"), "catalogue_entries", ["model_id"], unique=False)
    op.create_table(
        "sweeps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("snapshot_id", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("profile", sa.String(length=64), nullable=False),
        sa.Column("weights_mode", sa.String(length=16), nullable=False),
        sa.Column("releases_mode", sa.String(length=16), nullable=False),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("top", sa.Integer(), nullable=True),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('running', 'done', 'cancelled')", name=op.f("ck_sweeps_state_known")),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=op.f("fk_sweeps_request_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["catalogue_snapshots.id"], name=op.f("fk_sweeps_snapshot_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
    )
    op.create_index(op.f("ix_sweeps_request_id"), "sweeps", ["request_id"], unique=False)
    op.create_index(op.f("ix_sweeps_snapshot_id"), "sweeps", ["snapshot_id"], unique=False)
    op.create_table(
        "adapters",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("family", sa.String(length=64), nullable=False),
        sa.Column("profile", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("scripted", sa.Boolean(), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("predicate", sa.JSON(), nullable=False),
        sa.Column("artefact_digest", sa.String(length=64), nullable=True),
        sa.Column("candidate_id", sa.Integer(), nullable=True),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("withdrawn_reason", sa.Text(), nullable=False),
        sa.CheckConstraint("origin IN ('bundled', 'service')", name=op.f("ck_adapters_origin_known")),
        sa.CheckConstraint("state IN ('released', 'withdrawn')", name=op.f("ck_adapters_state_known")),
        sa.ForeignKeyConstraint(["artefact_digest"], ["artefacts.digest"], name=op.f("fk_adapters_artefact_digest")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidates.id"], name=op.f("fk_adapters_candidate_id")),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=op.f("fk_adapters_request_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_adapters")),
        sa.UniqueConstraint("digest", name=op.f("uq_adapters_digest")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_adapters_name_version")),
    )
    op.create_index(op.f("ix_adapters_candidate_id"), "adapters", ["candidate_id"], unique=False)
    op.create_index(op.f("ix_adapters_family"), "adapters", ["family"], unique=False)
    op.create_index(op.f("ix_adapters_profile_state"), "adapters", ["profile", "state"], unique=False)
    op.create_table(
        "candidate_checkpoints",
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_candidate_checkpoints_candidate_id")
        ),
        sa.ForeignKeyConstraint(
            ["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_candidate_checkpoints_checkpoint_id")
        ),
        sa.PrimaryKeyConstraint("candidate_id", "checkpoint_id", name=op.f("pk_candidate_checkpoints")),
    )
    op.create_index(
        op.f("ix_candidate_checkpoints_checkpoint_id"), "candidate_checkpoints", ["checkpoint_id"], unique=False
    )
    op.create_table(
        "patches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("pattern", sa.String(length=64), nullable=False),
        sa.Column("drafter", sa.String(length=16), nullable=False),
        sa.Column("model", sa.String(length=120), nullable=True),
        sa.Column("exactness", sa.String(length=16), nullable=False),
        sa.Column("bound", sa.Double(), nullable=True),
        sa.Column("trajectory_id", sa.String(length=64), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.CheckConstraint("drafter IN ('rules', 'llm', 'hand')", name=op.f("ck_patches_drafter_known")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidates.id"], name=op.f("fk_patches_candidate_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_patches")),
        sa.UniqueConstraint("candidate_id", "position", name=op.f("uq_patches_candidate_id_position")),
    )
    op.create_table(
        "reviews",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("principal_id", sa.Integer(), nullable=False),
        sa.Column("principal_kind", sa.String(length=16), nullable=False),
        sa.Column("decision", sa.String(length=16), nullable=False),
        sa.Column("candidate_digest", sa.String(length=64), nullable=False),
        sa.Column("evidence_digest", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "decision IN ('approve', 'reject', 'changes', 'strike', 'withdraw')", name=op.f("ck_reviews_decision_known")
        ),
        sa.CheckConstraint("principal_kind = 'human'", name=op.f("ck_reviews_reviewer_is_human")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidates.id"], name=op.f("fk_reviews_candidate_id")),
        sa.ForeignKeyConstraint(
            ["principal_id", "principal_kind"],
            ["principals.id", "principals.kind"],
            name=op.f("fk_reviews_principal_id_principal_kind"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviews")),
    )
    op.create_index(op.f("ix_reviews_candidate_id"), "reviews", ["candidate_id"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("content_key", sa.String(length=64), nullable=False),
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=True),
        sa.Column("adapter_id", sa.Integer(), nullable=True),
        sa.Column("parent_run_id", sa.Integer(), nullable=True),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("profile", sa.String(length=64), nullable=False),
        sa.Column("weights_mode", sa.String(length=16), nullable=False),
        sa.Column("releases_mode", sa.String(length=16), nullable=False),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_owner", sa.String(length=120), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("deliveries", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("kind", sa.String(length=32), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("weights", sa.String(length=16), nullable=True),
        sa.Column("depth", sa.String(length=32), nullable=True),
        sa.Column("fingerprint", sa.String(length=64), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("peak_rss_mb", sa.Double(), nullable=True),
        sa.Column("measurements", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("artefacts", sa.JSON(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("outcome IN ('passed', 'failed', 'infra', 'unknown')", name=op.f("ck_runs_outcome_known")),
        sa.CheckConstraint(
            "stage IN ('inspect', 'capture', 'execute', 'diagnose', 'draft', 'verify')",
            name=op.f("ck_runs_stage_known"),
        ),
        sa.CheckConstraint("state IN ('queued', 'claimed', 'done')", name=op.f("ck_runs_state_known")),
        sa.ForeignKeyConstraint(["adapter_id"], ["adapters.id"], name=op.f("fk_runs_adapter_id")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidates.id"], name=op.f("fk_runs_candidate_id")),
        sa.ForeignKeyConstraint(["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_runs_checkpoint_id")),
        sa.ForeignKeyConstraint(["parent_run_id"], ["runs.id"], name=op.f("fk_runs_parent_run_id")),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=op.f("fk_runs_request_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("content_key", name=op.f("uq_runs_content_key")),
    )
    op.create_index(op.f("ix_runs_adapter_id"), "runs", ["adapter_id"], unique=False)
    op.create_index(op.f("ix_runs_candidate_id"), "runs", ["candidate_id"], unique=False)
    op.create_index("ix_runs_claimable", "runs", ["state", "priority", "id"], unique=False)
    op.create_index(op.f("ix_runs_fingerprint"), "runs", ["fingerprint"], unique=False)
    op.create_index(op.f("ix_runs_parent_run_id"), "runs", ["parent_run_id"], unique=False)
    op.create_index(op.f("ix_runs_request_id"), "runs", ["request_id"], unique=False)
    op.create_index("ix_runs_subject", "runs", ["checkpoint_id", "profile", "stage"], unique=False)
    op.create_table(
        "budget_ledger",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("purpose", sa.String(length=120), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("reserved_usd", sa.Double(), nullable=False),
        sa.Column("settled_usd", sa.Double(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("reserved_usd >= 0", name=op.f("ck_budget_ledger_reserved_not_negative")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_budget_ledger_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budget_ledger")),
    )
    op.create_index(op.f("ix_budget_ledger_day"), "budget_ledger", ["day"], unique=False)
    op.create_index(op.f("ix_budget_ledger_run_id"), "budget_ledger", ["run_id"], unique=False)
    op.create_table(
        "checkpoint_status",
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("profile", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("adapter_id", sa.Integer(), nullable=True),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("supported", sa.Boolean(), nullable=False),
        sa.Column("scripted", sa.Boolean(), nullable=False),
        sa.Column("weights", sa.String(length=16), nullable=True),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("depth", sa.String(length=32), nullable=True),
        sa.Column("fingerprint", sa.String(length=64), nullable=True),
        sa.Column("stock_causes", sa.Integer(), nullable=True),
        sa.Column("stock_reason", sa.Text(), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["adapter_id"], ["adapters.id"], name=op.f("fk_checkpoint_status_adapter_id")),
        sa.ForeignKeyConstraint(["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_checkpoint_status_checkpoint_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_checkpoint_status_run_id")),
        sa.PrimaryKeyConstraint("checkpoint_id", "profile", name=op.f("pk_checkpoint_status")),
    )
    op.create_index(op.f("ix_checkpoint_status_adapter_id"), "checkpoint_status", ["adapter_id"], unique=False)
    op.create_index(op.f("ix_checkpoint_status_fingerprint"), "checkpoint_status", ["fingerprint"], unique=False)
    op.create_index(
        op.f("ix_checkpoint_status_profile_outcome"), "checkpoint_status", ["profile", "outcome"], unique=False
    )
    op.create_index(op.f("ix_checkpoint_status_run_id"), "checkpoint_status", ["run_id"], unique=False)
    op.create_table(
        "diagnoses",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("op", sa.String(length=120), nullable=False),
        sa.Column("no_patch", sa.Text(), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_diagnoses_checkpoint_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_diagnoses_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_diagnoses")),
    )
    op.create_index(op.f("ix_diagnoses_checkpoint_id"), "diagnoses", ["checkpoint_id"], unique=False)
    op.create_index(op.f("ix_diagnoses_run_id"), "diagnoses", ["run_id"], unique=False)
    op.create_table(
        "evidence",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("candidate_digest", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("weights", sa.String(length=16), nullable=True),
        sa.Column("measurements", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("artefacts", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "outcome IN ('passed', 'failed', 'infra', 'unknown')", name=op.f("ck_evidence_outcome_known")
        ),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidates.id"], name=op.f("fk_evidence_candidate_id")),
        sa.ForeignKeyConstraint(["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_evidence_checkpoint_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_evidence_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence")),
        sa.UniqueConstraint(
            "candidate_id",
            "checkpoint_id",
            "environment",
            "tier",
            name=op.f("uq_evidence_candidate_id_checkpoint_id_environment_tier"),
        ),
    )
    op.create_index(op.f("ix_evidence_checkpoint_id"), "evidence", ["checkpoint_id"], unique=False)
    op.create_index(op.f("ix_evidence_run_id"), "evidence", ["run_id"], unique=False)
    op.create_table(
        "failures",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("op", sa.String(length=120), nullable=False),
        sa.Column("source", sa.String(length=240), nullable=False),
        sa.Column("module", sa.String(length=240), nullable=False),
        sa.Column("place", sa.String(length=16), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("after", sa.Boolean(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_failures_checkpoint_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_failures_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_failures")),
    )
    op.create_index(op.f("ix_failures_checkpoint_id"), "failures", ["checkpoint_id"], unique=False)
    op.create_index(op.f("ix_failures_kind"), "failures", ["kind"], unique=False)
    op.create_index(op.f("ix_failures_op"), "failures", ["op"], unique=False)
    op.create_index(op.f("ix_failures_run_id"), "failures", ["run_id"], unique=False)
    op.create_table(
        "sweep_runs",
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_sweep_runs_run_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_sweep_runs_sweep_id")),
        sa.PrimaryKeyConstraint("sweep_id", "run_id", name=op.f("pk_sweep_runs")),
    )
    op.create_index(op.f("ix_sweep_runs_run_id"), "sweep_runs", ["run_id"], unique=False)
    op.create_table(
        "trajectories",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("model", sa.String(length=120), nullable=False),
        sa.Column("scripted", sa.Boolean(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_trajectories_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trajectories")),
    )
    op.create_index(op.f("ix_trajectories_run_id"), "trajectories", ["run_id"], unique=False)
    op.create_table(
        "trajectory_steps",
        sa.Column("trajectory_id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectories.id"], name=op.f("fk_trajectory_steps_trajectory_id")),
        sa.PrimaryKeyConstraint("trajectory_id", "position", name=op.f("pk_trajectory_steps")),
    )
    if op.get_bind().dialect.name == "postgresql":  # SQLite has it inline; here the two tables name each other
        op.create_foreign_key("fk_candidates_draft_run_id", "candidates", "runs", ["draft_run_id"], ["id"])


def downgrade() -> None:
    """Undo `upgrade`."""
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("fk_candidates_draft_run_id", "candidates", type_="foreignkey")
    op.drop_table("trajectory_steps")
    op.drop_index(op.f("ix_trajectories_run_id"), table_name="trajectories")
    op.drop_table("trajectories")
    op.drop_index(op.f("ix_sweep_runs_run_id"), table_name="sweep_runs")
    op.drop_table("sweep_runs")
    op.drop_index(op.f("ix_failures_run_id"), table_name="failures")
    op.drop_index(op.f("ix_failures_op"), table_name="failures")
    op.drop_index(op.f("ix_failures_kind"), table_name="failures")
    op.drop_index(op.f("ix_failures_checkpoint_id"), table_name="failures")
    op.drop_table("failures")
    op.drop_index(op.f("ix_evidence_run_id"), table_name="evidence")
    op.drop_index(op.f("ix_evidence_checkpoint_id"), table_name="evidence")
    op.drop_table("evidence")
    op.drop_index(op.f("ix_diagnoses_run_id"), table_name="diagnoses")
    op.drop_index(op.f("ix_diagnoses_checkpoint_id"), table_name="diagnoses")
    op.drop_table("diagnoses")
    op.drop_index(op.f("ix_checkpoint_status_run_id"), table_name="checkpoint_status")
    op.drop_index(op.f("ix_checkpoint_status_profile_outcome"), table_name="checkpoint_status")
    op.drop_index(op.f("ix_checkpoint_status_fingerprint"), table_name="checkpoint_status")
    op.drop_index(op.f("ix_checkpoint_status_adapter_id"), table_name="checkpoint_status")
    op.drop_table("checkpoint_status")
    op.drop_index(op.f("ix_budget_ledger_run_id"), table_name="budget_ledger")
    op.drop_index(op.f("ix_budget_ledger_day"), table_name="budget_ledger")
    op.drop_table("budget_ledger")
    op.drop_index("ix_runs_subject", table_name="runs")
    op.drop_index(op.f("ix_runs_request_id"), table_name="runs")
    op.drop_index(op.f("ix_runs_parent_run_id"), table_name="runs")
    op.drop_index(op.f("ix_runs_fingerprint"), table_name="runs")
    op.drop_index("ix_runs_claimable", table_name="runs")
    op.drop_index(op.f("ix_runs_candidate_id"), table_name="runs")
    op.drop_index(op.f("ix_runs_adapter_id"), table_name="runs")
    op.drop_table("runs")
    op.drop_index(op.f("ix_reviews_candidate_id"), table_name="reviews")
    op.drop_table("reviews")
    op.drop_table("patches")
    op.drop_index(op.f("ix_candidate_checkpoints_checkpoint_id"), table_name="candidate_checkpoints")
    op.drop_table("candidate_checkpoints")
    op.drop_index(op.f("ix_adapters_profile_state"), table_name="adapters")
    op.drop_index(op.f("ix_adapters_family"), table_name="adapters")
    op.drop_index(op.f("ix_adapters_candidate_id"), table_name="adapters")
    op.drop_table("adapters")
    op.drop_index(op.f("ix_sweeps_snapshot_id"), table_name="sweeps")
    op.drop_index(op.f("ix_sweeps_request_id"), table_name="sweeps")
    op.drop_table("sweeps")
    op.drop_index(op.f("ix_catalogue_entries_model_id"), table_name="catalogue_entries")
    op.drop_index(op.f("ix_catalogue_entries_checkpoint_id"), table_name="catalogue_entries")
    op.drop_table("catalogue_entries")
    op.drop_index(op.f("ix_candidates_struck_from_id"), table_name="candidates")
    op.drop_index(op.f("ix_candidates_state_id"), table_name="candidates")
    op.drop_index(op.f("ix_candidates_request_id"), table_name="candidates")
    op.drop_index(op.f("ix_candidates_family_profile"), table_name="candidates")
    op.drop_index(op.f("ix_candidates_draft_run_id"), table_name="candidates")
    op.drop_table("candidates")
    op.drop_index(op.f("ix_sessions_principal_id"), table_name="sessions")
    op.drop_table("sessions")
    op.drop_index(op.f("ix_requests_model"), table_name="requests")
    op.drop_table("requests")
    op.drop_table("principal_roles")
    op.drop_index(op.f("ix_checkpoints_family"), table_name="checkpoints")
    op.drop_index(op.f("ix_checkpoints_config_digest"), table_name="checkpoints")
    op.drop_table("checkpoints")
    op.drop_table("settings_kv")
    op.drop_table("principals")
    op.drop_index(op.f("ix_outbox_events_subject_kind_subject_id"), table_name="outbox_events")
    op.drop_table("outbox_events")
    op.drop_index(op.f("ix_models_rank"), table_name="models")
    op.drop_table("models")
    op.drop_table("catalogue_snapshots")
    op.drop_index(op.f("ix_capabilities_fingerprint"), table_name="capabilities")
    op.drop_table("capabilities")
    op.drop_table("artefacts")
