.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
DIST ?= dist
SITE ?= site
PY_FILES := headwater clients embedded tests benches deploy setup.py
DENO := $(CURDIR)/$(BIN)/deno
CONSOLE := headwater/api/console_files/index.html
CONSOLE_SOURCES := $(shell find console clients/typescript/src -type f -not -path '*/node_modules/*')
IN_GROUPS := --dist loadscope --no-loadscope-reorder
# Without bytecode files, each of the many processes of a test run would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup up demo fmt check test test-unit coverage test-all test-kubernetes bench chaos soak run docs dashboards conformance dist pictures site

help:  ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: .venv/ready $(CONSOLE)  ## Create the virtual environment .venv, and install what the other commands need

.venv/ready: requirements/dev.txt requirements/run.in pyproject.toml setup.py clients/python/pyproject.toml headwater/api/swagger_ui/deno.lock \
		$(wildcard headwater/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit("Headwater needs Python 3.11 or newer; set PYTHON=python3.11 or the like." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --require-hashes -r requirements/dev.txt
	for package in . clients/python; do $(BIN)/pip install --quiet --no-deps --no-build-isolation -e $$package || exit 1; done
	$(BIN)/headwater fetch
	@touch $@

$(CONSOLE): $(CONSOLE_SOURCES) | .venv/ready
	$(BIN)/python setup.py --quiet build_console

up: setup  ## Start Headwater on this machine (UP_FLAGS="--port 8081")
	$(BIN)/headwater up $(UP_FLAGS)

run: up  ## The same as up

demo: setup  ## Run the demo on a generated stream; it ends by itself (DEMO_FLAGS=--keep, DEMO_FLAGS="--file F")
	$(BIN)/headwater demo $(DEMO_FLAGS)

fmt: setup  ## Format the code
	$(BIN)/ruff format $(PY_FILES)
	$(BIN)/ruff check --fix $(PY_FILES)

check: setup  ## Check format, lint, types and layers
	$(BIN)/ruff format --check $(PY_FILES)
	$(BIN)/ruff check $(PY_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd clients/typescript && $(DENO) fmt --check --quiet && $(DENO) lint --quiet && $(DENO) check --quiet src
	cd console && $(DENO) fmt --check --quiet && $(DENO) lint --quiet && $(DENO) check --quiet src

test: setup  ## All tests except the slow ones, and except the long ones outside of CI (TEST_FLAGS="-k name")
	$(BIN)/pytest -n $(if $(CI),2,4) $(IN_GROUPS) -m "not kubernetes and not slow$(if $(CI),, and not long)" $(TEST_FLAGS)

test-unit: setup  ## The unit tests, in a minute
	$(BIN)/pytest -n 4 $(IN_GROUPS) -o timeout_method=signal -m "not slow and not long" tests/unit $(TEST_FLAGS)

coverage: setup  ## Show what the unit tests cover, by file and branch
	$(BIN)/pytest -n 2 $(IN_GROUPS) -m "not slow and not long" --cov=headwater --cov-branch \
		--cov-report=term:skip-covered tests/unit $(TEST_FLAGS)

test-all: setup  ## All tests, slow ones too
	$(BIN)/pytest -n 4 $(IN_GROUPS) -m "not kubernetes" $(TEST_FLAGS)

test-kubernetes: setup  ## The tests on a Kubernetes cluster of this machine, as root; the first run builds it in 15 minutes
	$(BIN)/python -m tests.kubernetes.cluster $(BIN)/pytest -m "kubernetes and not slow" tests/kubernetes $(TEST_FLAGS)

bench: setup  ## All benchmarks; each prints its figure and a ratio to a reference of the same run
	@for bench in benches/[a-z]*.py; do \
		name=$$(basename $$bench .py); echo "== $$name"; $(BIN)/python -m benches.$$name || exit 1; \
	done

chaos: setup  ## Copy a stream while processes are killed, and compare all outputs (RECORDS=1000000 KILLS=60 SEED=7 KIND=v8 DELIVERY=at_least_once)
	$(BIN)/python -m tests.chaos copy --records $(or $(RECORDS),0) --kills $(or $(KILLS),60) --seed $(or $(SEED),0) \
		--kind $(or $(KIND),v8) --delivery $(or $(DELIVERY),at_least_once) $(CHAOS_FLAGS)

soak: setup  ## Check that no process grows in hours of load and changes (HOURS=2)
	$(BIN)/python -m tests.chaos soak --hours $(or $(HOURS),2) --seed $(or $(SEED),0) $(CHAOS_FLAGS)

docs: setup  ## Write the reference pages that are generated from the code
	$(BIN)/headwater docs

site: setup  ## Build the documentation as a site that needs no network (SITE=site)
	$(BIN)/python -m deploy.website.build $(SITE)

pictures: setup $(CONSOLE)  ## Write the pictures of the console in docs/pictures, with Debian's chromium
	$(BIN)/python -m deploy.website.pictures

dashboards: setup  ## Write the Grafana dashboards that are generated from the code
	$(BIN)/python -m deploy.grafana.dashboards

dist: setup  ## Build the wheels of the server, the client and the embedded Kafka, with pinned requirements (DIST=dist)
	rm -rf $(DIST)
	for package in . clients/python embedded; do \
		rm -rf build && mkdir build && printf '[build]\nbuild_base=$(CURDIR)/build/wheel\n' > build/wheel.cfg && \
		DIST_EXTRA_CONFIG=$(CURDIR)/build/wheel.cfg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
			$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(DIST) ./$$package || exit 1; \
	done
	cat requirements/run.txt requirements/embedded.txt requirements/client.txt > $(DIST)/requirements.txt

conformance: setup  ## Run the acceptance tests, and write which of them prove which line of the interface
	$(BIN)/pytest -m "not slow or proves" --write-conformance tests/acceptance
