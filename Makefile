# Every target explains itself: `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
LOCK := requirements.lock
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint $(LOCK)
ROOMS := agentrl benchmarks certloop extract scripts serve synth templates tests train validators
EXAMPLES = $(sort $(wildcard examples/*.jpg examples/*.jpeg examples/*.png examples/*.pdf))
export NO_ALBUMENTATIONS_UPDATE := 1

.PHONY: help demo test slow check fix bench lock clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-7s %s\n", $$1, $$2}'

demo: $(VENV)/.base ## install the product and read the example certificates into a table and out/demo.jsonl
	@mkdir -p out
	$(BIN)/certloop extract $(EXAMPLES) --format table --annotate out/demo --workers 2
	$(BIN)/certloop extract $(EXAMPLES) --format jsonl --output out/demo.jsonl --workers 2
	@echo "JSON: out/demo.jsonl   pictures with boxes: out/demo/"

test: $(VENV)/.dev ## fast tests (minutes on two cores)
	$(BIN)/python -m pytest

slow: $(VENV)/.dev ## slow tests: Postgres, faults, a browser, the whole product end to end
	bash scripts/need_chromium.sh
	$(BIN)/python -m pytest -m slow

check: $(VENV)/.dev ## lint, format, types and import rule; reads only
	$(BIN)/ruff check $(ROOMS)
	$(BIN)/ruff format --check $(ROOMS)
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(VENV)/.dev ## let ruff repair and format what it can
	$(BIN)/ruff check --fix $(ROOMS)
	$(BIN)/ruff format $(ROOMS)

bench: $(VENV)/.dev ## benchmarks that take minutes: reading beside stock OCR, rewards, store, data engine
	$(BIN)/python benchmarks/extract.py
	$(BIN)/python benchmarks/rewards.py
	$(BIN)/python benchmarks/nano.py
	$(BIN)/python benchmarks/store.py --trajectories 10000
	$(BIN)/python benchmarks/synth.py --images 12

lock: $(VENV)/.dev ## resolve requirements.lock anew: one set for the base install and all extras
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --fork-strategy fewest --python-version 3.11 \
		--upgrade --no-annotate --no-header --quiet --output-file $(LOCK)

clean: ## remove the virtual environment, caches and outputs
	rm -rf $(VENV) build dist out *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	PYTHON="$(PYTHON)" bash scripts/make_venv.sh $(VENV)

$(VENV)/.base: pyproject.toml $(LOCK) | $(BIN)/python
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP_INSTALL) --editable '.[dev,train,ui]'
	@touch $@
