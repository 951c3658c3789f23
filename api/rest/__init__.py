"""REST under /api/v1: one module per noun, HTTP only; decisions are the services'."""

from __future__ import annotations

PREFIX = "/api/v1"
