# GNU make 3.81 or newer. Every target makes the virtual environment that it needs; see .ci/venv.
#
#   make demo                         the main job
#   make test ARGS="-k quantile"      options for the command behind a target
#   make test PYTHON=python3.12       another interpreter (3.11 to 3.13)
#   make test UV=                     venv and pip, although uv is installed

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo dashboard test test-long lint format bench image image-test lock clean

VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
export VENV
# The environment is installed without bytecode: what is imported must be allowed to keep its own.
export PYTHONDONTWRITEBYTECODE =

# Two sets: what a user needs, and that plus what the tests need. requirements-test.lock holds all of requirements.lock.
# Files of tests are shared among processes, because the suite waits for engines and pages and one process cannot use two
# cores. A file stays whole: what its tests share is made once. `make test SHARED=` runs them one after another.
SHARED ?= --numprocesses logical --maxprocesses 4 --dist loadfile

USE := $(VENV)/.use-is-up-to-date
DEV := $(VENV)/.dev-is-up-to-date

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: $(USE) ## compare a small model with its variants and print the table (the main job)
	@$(BIN)/drift demo $(ARGS)

dashboard: $(USE) ## show the stored results in a browser
	@$(BIN)/drift dashboard $(ARGS)

test: $(DEV) ## all tests but the long ones
	@$(BIN)/python -m pytest -m "not long" $(SHARED) $(ARGS)

test-long: $(DEV) ## only the long tests
	@$(BIN)/python -m pytest -m long $(ARGS)

lint: $(DEV) ## style, format and the order of imports
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/lint-imports --no-cache

format: $(DEV) ## mend what lint can mend by itself
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

bench: $(DEV) ## the benchmarks; ARGS names some of them
	@$(BIN)/python -m benchmarks $(ARGS)

image: ## a container image with the dashboard and the command line (docker, podman or buildah)
	@bash .ci/image build

image-test: ## build the image and try it inside (as root where only buildah is there; opt-in)
	@bash .ci/image test

# The versions that the locks already name are kept; to move to newer ones: make lock ARGS=--upgrade
COMPILE = uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --group build --extra llama-cpp

lock: ## compile both locks again after a change of pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv on PATH" >&2; exit 2; }
	@$(COMPILE) $(ARGS) --output-file requirements.lock
	@$(COMPILE) $(ARGS) --extra test --constraint requirements.lock --output-file requirements-test.lock

clean: ## remove the virtual environment, caches and builds; stored results stay
	@rm -rf "$(VENV)" dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(USE): requirements.lock pyproject.toml .ci/venv
	@sh .ci/venv requirements.lock
	@touch $@

$(DEV): requirements-test.lock pyproject.toml .ci/venv
	@sh .ci/venv requirements-test.lock
	@touch $@ $(USE)
