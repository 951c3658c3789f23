"""Bundled adapters (manifests as JSON, made by the factory's loop) and how they are found."""
