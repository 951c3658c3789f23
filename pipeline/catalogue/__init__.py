"""Which models there are: the Hub, the bundled starter catalogue, or an imported file. Nothing here runs a model."""
