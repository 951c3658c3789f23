"""Rewrite rules that come from accepted patches of language models: proposed, reviewed, then used by `rules`."""
