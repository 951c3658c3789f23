"""The pattern library: one module per subject. `patch_from` in `registry` makes a patch from its plain data."""
