"""Catalogue, stages, verification, review, releases, sweeps and the command line."""
