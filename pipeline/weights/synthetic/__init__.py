"""Calibrated synthetic weights (recipe `calibrated-1`): random weights under which breaking the model shows.

`calibrate` fills a stock model in place; `synthesise` builds one from a config. Deterministic per parameter name, no
model types: decisions come from module classes, shapes and traced passes. What it does not fit it refuses
(`RecipeRefused`).
Importing this package does not import torch; the functions live in `fit` and `build`.
"""
