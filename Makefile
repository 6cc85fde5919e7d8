# make demo    install into .venv, run five small tasks twice, show the results
# make test    the whole suite          make lint    every gate
# make bench   measure, write docs/benchmarks.md
#
# PYTHON=/path/to/python3.12 chooses the interpreter; VENV=dir another place than .venv.

VENV   ?= .venv
PYTHON ?=
JOBS   ?= 2
SHELL  := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench format clean

BIN := $(VENV)/bin
DISTS := $(shell sed -n 's/^-e //p' requirements-dev.txt)
PROJECTS := $(addsuffix /pyproject.toml,$(DISTS))
SOURCES := $(addsuffix /src,$(DISTS))
EDITABLE := $(addprefix -e ./,$(DISTS))

help:
	@sed -n 's/^# //p' Makefile | head -4

demo: $(VENV)/.installed
	$(BIN)/agentix-run --dataset harbor --dataset-opt path=docs/examples/tasks --agent oracle --provider local --out runs
	$(BIN)/agentix-run --dataset harbor --dataset-opt path=docs/examples/tasks --agent command \
	    --agent-opt script=docs/examples/agents/scripted.sh --provider local --out runs

test: $(VENV)/.tools
	$(BIN)/pytest -n $(JOBS) --dist loadfile -q $(ARGS)

# Every gate runs, also after one that failed.
lint: $(VENV)/.tools
	@failed=0; gate() { printf -- '-- %s\n' "$$*"; $(BIN)/"$$@" || failed=1; }; \
	gate ruff check --quiet .; \
	gate ruff format --quiet --check .; \
	gate python tests/packaging/house.py; \
	gate lint-imports --no-logo; \
	for source in $(SOURCES); do gate mypy $$source; done; \
	gate mypy conftest.py tests/bench tests/docs/snippets.py tests/packaging/house.py; \
	gate pyright --pythonpath $(BIN)/python; \
	exit $$failed

bench: $(VENV)/.installed
	$(BIN)/python tests/bench/all.py

format: $(VENV)/.tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# The two stamps tell an install that is as new as every pyproject.toml from one that is not.

$(VENV)/bin/python:
	@PYTHON='$(PYTHON)' VENV='$(VENV)' bash .ci/venv

$(VENV)/.installed: $(VENV)/bin/python $(PROJECTS)
	@echo "installing agentix into $(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null  # uv makes none
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EDITABLE)
	@touch $@

$(VENV)/.tools: $(VENV)/.installed requirements-dev.txt
	@echo "installing the tools of requirements-dev.txt into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@
