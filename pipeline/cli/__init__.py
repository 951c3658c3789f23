"""The `spyre-factory` command, one module per group of commands."""
