"""The dashboard: server-rendered pages that work without script."""
