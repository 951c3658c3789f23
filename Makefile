# make run    sets everything up, serves the dashboard and sweeps the starter catalogue
# make test   sets everything up and runs every test of the quick suite
PY := .venv/bin/python
JOBS ?= 2

.PHONY: setup run test test-long lint format

setup:
	@requirements/setup.sh

run: setup
	@.venv/bin/spyre-factory up --workers 2 --sweep starter --top 12

test: setup lint
	@$(PY) -m pytest -n $(JOBS) --dist worksteal -m "not long"

test-long: setup
	@$(PY) -m pytest -n $(JOBS) --dist worksteal -m long

lint: setup
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports

format: setup
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .
