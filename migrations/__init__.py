"""Alembic migrations of the factory's database, shipped with the package."""
