# Plain pip in .venv; the set-up runs again only when pyproject.toml or constraints.txt changed.

PYTHON ?= python3
BIN := .venv/bin
# Tests start hundreds of processes: without bytecode each would compile Drumline anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
PARALLEL := -n logical --maxprocesses 4 --dist loadfile
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input

.PHONY: demo test test-faults test-slow lint site setup clean
.DEFAULT_GOAL := setup

demo: setup
	@$(BIN)/drumline train es HalfCheetah-v5 --total-steps 1000000
	@$(BIN)/drumline plot last

test: setup
	@$(PYTEST) -m 'not slow and not faults' $(PARALLEL)

test-faults: setup
	@$(PYTEST) -m 'faults and not slow' $(PARALLEL)

test-slow: setup
	@$(PYTEST) -m slow

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright

site: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Drumline needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
		{ echo "making .venv (once)"; $(PYTHON) -m venv --clear .venv; }
	@echo "installing the versions of constraints.txt (about a minute, longer where torch is downloaded)"
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis
