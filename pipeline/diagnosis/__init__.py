"""From failures to causes: classification, silent wrong values, and the patterns that could apply. Black box."""
