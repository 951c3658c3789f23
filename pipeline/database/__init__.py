"""Tables every domain shares, the engine, transactions, migrations and the artefact store."""
