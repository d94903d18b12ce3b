# The set-up of .venv runs again only when pyproject.toml, constraints.txt, TORCH or a given PYTHON changed.
# TORCH=cpu or TORCH=cuda names one build of torch. Without it, it is the build that pip finds first.
# uv is quicker than pip, but may find another build, so it is used only where the build is named and
# a dry run has found it.

PYTHON ?= python3
TORCH ?=
ifeq ($(filter $(TORCH),cpu cuda),)
ifneq ($(TORCH),)
$(error TORCH is cpu or cuda, got $(TORCH))
endif
endif
LABEL_cpu := +cpu
# "===" takes a version without a label alone; "==" would take one with any label.
NAMED = s/^torch==\(.*\)$$/torch===\1$(LABEL_$(TORCH))/
BIN := .venv/bin
# Tests start hundreds of processes: without bytecode each would compile Drumline anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
PARALLEL := -n logical --maxprocesses 4 --dist loadfile
# Those of faults wait for processes half of the time.
WAITING := -n 4 --dist loadfile
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
UV := uv pip install -q --python $(BIN)/python
WHAT := -c .venv/constraints.txt -e '.[dev]'
CPU_BUILDS := the page pytorch.org/get-started/locally names the index of the CPU builds, for PIP_EXTRA_INDEX_URL

.PHONY: demo smoke test test-faults test-slow test-gpu lint site setup clean
.DEFAULT_GOAL := setup

demo: setup
	@$(BIN)/drumline train es HalfCheetah-v5 --total-steps 1000000
	@$(BIN)/drumline plot last

smoke: setup
	@$(BIN)/python tests/smoke.py

test: setup
	@$(PYTEST) -m 'not slow and not faults and not gpu' $(PARALLEL)

test-faults: setup
	@$(PYTEST) -m 'faults and not slow and not gpu' $(WAITING)

test-slow: setup
	@$(PYTEST) -m 'slow and not gpu'

# Where there is no CUDA device, each of its tests is skipped with the reason.
test-gpu: setup
	@$(PYTEST) -m gpu tests/functional/test_recorded_work.py tests/algorithms/test_device_learners.py \
		tests/training/test_device_promise.py

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright

site: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

setup: .venv/installed

ifneq ($(TORCH),)
ifneq ($(TORCH),$(shell cat .venv/torch 2>/dev/null))
.venv/installed: another-torch
.PHONY: another-torch
endif
endif

# PYTHON is compared where it is given: another python3 on the path leaves .venv alone.
OTHER :=
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(BIN)/python),)
ifneq ($(shell $(PYTHON) -V 2>&1),$(shell $(BIN)/python -V 2>&1))
OTHER := yes
.venv/installed: another-python
.PHONY: another-python
endif
endif
endif

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "Drumline needs Python 3.11 to 3.13: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@{ [ -z "$(OTHER)" ] && $(BIN)/python -m pip --version >/dev/null 2>&1; } || \
		{ echo "making .venv (once)"; $(PYTHON) -m venv --clear .venv; }
	@echo "installing the versions of constraints.txt (about a minute, longer where torch is downloaded)"
	@sed -e '$(if $(TORCH),$(NAMED))' constraints.txt > .venv/constraints.txt
	@if [ -n "$(TORCH)" ] && command -v uv >/dev/null && $(UV) --dry-run $(WHAT) 2>/dev/null; then \
		echo "with uv"; $(UV) $(WHAT); \
	else \
		$(PIP) install $(WHAT) || { [ "$(TORCH)" != cpu ] || echo "where torch was not found: $(CPU_BUILDS)"; exit 1; }; \
	fi
	@echo "$(TORCH)" > .venv/torch
	@touch $@

clean:
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis
