"""Where a model's weights come from: the trusted fetcher, or calibrated synthetic weights."""
