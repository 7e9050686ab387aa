# Every target makes .venv itself when it is missing or older than pyproject.toml. Another Python: make PYTHON=python3.12 test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help venv demo paper test nightly mutate bench lint format clean

help:
	@echo "make demo     derive, evaluate and compare one attention layer; writes build/demo"
	@echo "make paper    the experiments of the founding paper again; writes build/paper (QUICK=--quick: in two minutes)"
	@echo "make test     the fast test suite"
	@echo "make lint     ruff check, ruff format --check, mypy --strict"
	@echo "make format   let ruff rewrite the code"
	@echo "make nightly  the slow tests"
	@echo "make mutate   small wrong versions of rules/ and algebra/: which does no test notice? (an hour)"
	@echo "make bench    time the engines and the expectations; see benchmarks/README.md"
	@echo "make clean    remove what the other targets wrote, except $(VENV)"

venv: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("netsor needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/netsor demo -o build/demo

paper: $(READY)
	$(BIN)/netsor paper $(QUICK) --out build/paper

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS)

nightly: $(READY)
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -n $(WORKERS) -m nightly

mutate: $(READY)
	$(BIN)/python tests/mutate.py netsor/algebra/*.py netsor/rules/*.py

bench: $(READY)
	$(BIN)/python benchmarks/simulation/bench.py
	$(BIN)/python benchmarks/expectations/bench.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find netsor programs tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
