"""Every claim about speed, size or coverage, as a command that prints it with its target."""
