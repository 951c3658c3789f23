"""The service's HTTP side: REST under /api/v1 and the dashboard. Imports pipeline only, never torch."""
