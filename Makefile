# Every target sets itself up: the first one to run makes .venv (see tools/setup.sh), later ones find it ready.
#   make verify ARGS=--quick      make replay FILE=…      make explore SPEC=replication ARGS="brokers=2 Crash=1"
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
READY := .venv/.ready
ARGS ?=
WORKERS ?= 3
SPEC ?= replication
STATES ?= states
SPREAD := --dist loadfile --no-loadscope-reorder
export PYTHON
# Hundreds of processes start in a run: without byte code each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

$(READY): pyproject.toml tools/setup.sh
	@tools/setup.sh
	@touch $@

.PHONY: setup verify test deep fuzz mutants clients nightly three-brokers bench explore simulate replay lint types docs api-docs format coverage clean distclean help

setup: $(READY) ## make .venv with all that is needed, Java included
	@:

verify: $(READY) ## the main job: explore, drive, simulate, check, Spark, report (one to three minutes on two idle cores; ARGS=--quick: half of that; ARGS="--seeds 200": more clusters)
	@$(BIN)/tidegauge verify $(ARGS)

test: $(READY) ## run the tests, in three processes, since some of them wait (ARGS="-k name" and other pytest options; WORKERS=0: in one)
	@$(BIN)/python -m pytest -n $(WORKERS) $(SPREAD) $(ARGS)

deep: $(READY) ## run the long searches too, in three processes, and try a tenth of the mutants
	@$(BIN)/python -m pytest --deep -n $(WORKERS) $(SPREAD) $(ARGS)
	@$(BIN)/python -m tidegauge.model_tests.mutants --share 10 --rounds 1 --workers 2 --least 75

mutants: $(READY) ## the mutation score: every change of one rule, and what notices it (ARGS="--room partition --share 10 --seed 2")
	@$(BIN)/python -m tidegauge.model_tests.mutants $(ARGS)

fuzz: $(READY) ## a million damaged inputs, guided by coverage (ARGS="--inputs N --target NAME"); part of the nightly run
	@$(BIN)/python -m pip install -q -e '.[fuzz]'
	@$(BIN)/python -m tidegauge.model_tests.fuzzing $(ARGS)

clients: $(READY) ## the tests with real clients, those of JavaScript included (needs npm)
	@npm install --no-audit --no-fund --silent --prefix model_tests/clients/javascript
	@$(BIN)/python -m pytest model_tests/clients $(ARGS)

# A checkpoint of other source is refused with status 2: the search begins anew then.
three-brokers: $(READY) ## explore three brokers with two records and two expired sessions, for four hours at most; the next run goes on from its checkpoint in $(STATES)/
	@three() { $(BIN)/tidegauge explore replication brokers=3 max_records=2 ExpireSession=2 ShrinkIsr=0 \
	    --no-liveness --memory 8g --max-seconds 14400 $(ARGS) "$$@"; }; \
	if test -e $(STATES)/checkpoint.json; then \
	    three --resume $(STATES) || { test $$? = 2 && rm -r $(STATES) && three --checkpoint $(STATES); }; \
	else three --checkpoint $(STATES); fi

nightly: $(READY) ## everything that takes long: deep searches, new examples, a million damaged inputs, all mutants
	@HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest --deep -n $(WORKERS) $(SPREAD) $(ARGS)
	@$(MAKE) --no-print-directory three-brokers ARGS=
	@$(MAKE) --no-print-directory fuzz ARGS=
	@$(MAKE) --no-print-directory mutants ARGS='--workers 2 --least 75'

bench: $(READY) ## run every benchmark and print its table
	@set -e; for file in benchmarks/*.py; do \
	    name=$$(basename $$file .py); \
	    [ "$$name" = options ] && continue; \
	    printf '\n== %s ==\n' "$$name"; \
	    $(BIN)/python -m benchmarks.$$name; \
	done

explore: $(READY) ## explore a spec exhaustively (SPEC=replication, ARGS="--bug NAME")
	@$(BIN)/tidegauge explore $(SPEC) $(ARGS)

simulate: $(READY) ## run clusters under random faults and check what their clients saw (ARGS="--seed 7 --seeds 100")
	@$(BIN)/tidegauge simulate $(ARGS)

replay: $(READY) ## replay a counterexample (FILE=model_tests/counterexamples/….json)
	@test -n "$(FILE)" || { echo 'replay: which file? make replay FILE=model_tests/counterexamples/NAME.json' >&2; exit 2; }
	@$(BIN)/tidegauge replay "$(FILE)" $(ARGS)

lint: $(READY) ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY) ## mypy, strict
	@$(BIN)/mypy

docs: $(READY) ## run the code blocks of README.md and docs/
	@$(BIN)/python -m pytest -q model_tests/docs

api-docs: $(READY) ## write the API's documentation, made from the docstrings, to api-docs/index.html
	@$(BIN)/pdoc -o api-docs tidegauge tidegauge.linearizability tidegauge.spark_check tidegauge.spec.kernel \
	    tidegauge.spec.registry tidegauge.model_tests.harness tidegauge.impl.cluster

format: $(READY) ## let ruff rewrite the code
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

coverage: $(READY) ## run the tests and write htmlcov/index.html
	@$(BIN)/coverage run -m pytest $(ARGS)
	@$(BIN)/coverage html
	@$(BIN)/coverage report --skip-covered --sort=cover

clean: ## remove what runs leave behind
	@rm -rf report api-docs htmlcov build dist .coverage .coverage.* .hypothesis .mypy_cache .ruff_cache .pytest_cache \
	    spark-warehouse metastore_db derby.log benchmarks/results mutants
	@find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## the same, and .venv
	@rm -rf .venv *.egg-info

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
