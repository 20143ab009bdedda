# Every target makes its own .venv; nothing but python3 (3.11 or newer) and pip is assumed.
PYTHON ?= python3
BIN := .venv/bin
# What running takes, and what working on it takes besides.
RUNNABLE := .venv/.runnable
INSTALLED := .venv/.installed

.PHONY: run test parity parity-devices adversary faults soak controlplane e2e helm conformance manifests lint format docs pictures bench bench-sync bench-core bench-plugins bench-decisions bench-what-if bench-stalls what-if-cases clean help

help: ## what can be made
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 17

$(RUNNABLE): pyproject.toml kscheduler/version.py
	@$(PYTHON) -m venv .venv
	@.ci/install .
	@touch $(RUNNABLE)

$(INSTALLED): $(RUNNABLE)
	@.ci/install '.[dev]'
	@touch $(INSTALLED)

run: $(RUNNABLE) ## watch pods being placed on an embedded cluster
	$(BIN)/kscheduler sandbox $(ARGS)

test: $(INSTALLED) ## all tests (ARGS="-m 'not slow'" the quick ones); on a real API server, too, with KSCHEDULER_BUILD_CONTROLPLANE=1
	$(BIN)/python -m pytest -n 2 $(ARGS)

parity: $(INSTALLED) ## replay all that was recorded of kube-scheduler (ARGS: files of decisions, for those alone)
	$(BIN)/python -m tests.parity.run $(ARGS)
	$(BIN)/python -m tests.parity.variants $(ARGS)
	$(BIN)/python -m tests.parity.records $(ARGS)
ifeq ($(ARGS),)
	$(BIN)/python -m tests.parity.wire
	$(BIN)/python -m tests.parity.config
	$(BIN)/python -m tests.parity.endpoints
	$(BIN)/python -m tests.parity.metrics
	$(BIN)/python -m tests.parity.cel
endif

parity-devices: controlplane ## random devices and claims, decided by kube-scheduler and by ours (ARGS="--seeds 1-200")
	$(BIN)/python -m tests.parity.devices_beside $(ARGS)

controlplane: $(INSTALLED) ## build etcd, kube-apiserver, kubectl and kube-scheduler for the tests, once
	$(BIN)/python -m tests.controlplane.build

e2e: controlplane ## the daemon on a real API server and on the embedded one
	KSCHEDULER_BUILD_CONTROLPLANE=1 $(BIN)/python -m pytest -n 2 tests/controlplane tests/e2e tests/helm $(ARGS)

helm: $(INSTALLED) ## build helm for the tests of the chart, once
	$(BIN)/python -m tests.helm.programs

conformance: $(INSTALLED) ## Kubernetes' own e2e tests, with kube-scheduler and with ours (ARGS=--scheduler, --suite, --focus, …)
	$(BIN)/python -m tests.conformance.run $(ARGS)

manifests: $(INSTALLED) ## the same 20 manifests in the sandbox and on a real API server, with either scheduler (ARGS=--case, --only, …)
	$(BIN)/python -m tests.sandbox.manifests.run $(ARGS)

adversary: $(INSTALLED) ## hostile objects, beside kube-scheduler on a real API server (ARGS=--small, --rows, …)
	$(BIN)/python -m tests.adversary.beside $(ARGS)

faults: $(INSTALLED) ## the same faults for kube-scheduler and ours, on a real API server (ARGS=--rows, --small, --seed, …)
	$(BIN)/python -m tests.faults.matrix $(ARGS)

soak: $(INSTALLED) ## pods that come and go at full rate, 200,000 of them: memory, files, tasks and latency stay flat (ARGS=--pods, …)
	$(BIN)/python -m tests.faults.soak $(ARGS)

lint: $(INSTALLED) ## ruff, format check, mypy strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## apply ruff's fixes and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: $(INSTALLED) ## take the pictures of the board and the page for the docs anew; needs tmux and Chromium
	$(BIN)/python docs/pictures/board.py
	$(BIN)/python docs/pictures/take.py

docs: $(INSTALLED) ## write the reference pages anew from the code
	$(BIN)/python docs/reference/generate.py

bench: $(INSTALLED) ## kscheduler beside kube-scheduler on a real API server (ARGS=--targets, --small, …)
	$(BIN)/python -m tests.bench.beside $(ARGS)

bench-sync: $(INSTALLED) ## list, sync and placement cost on the embedded cluster
	$(BIN)/python -m tests.bench.run $(ARGS)

bench-plugins: $(INSTALLED) ## a rule of one's own: over columns, node by node, as an extender
	$(BIN)/python -m tests.bench.outside $(ARGS)

bench-core: $(INSTALLED) ## CPU per decision by workload and cluster size, in process
	$(BIN)/python -m tests.bench.core $(ARGS)

bench-decisions: $(INSTALLED) ## keeping decisions: CPU per pod with and without, and how many 64 MiB hold
	$(BIN)/python -m tests.bench.decisions $(ARGS)

bench-what-if: $(INSTALLED) ## a review of 1,000 pods while a backlog is decided: throughput and latency with and without
	$(BIN)/python -m tests.bench.what_if $(ARGS)

what-if-cases: $(INSTALLED) ## random placement reviews, and what then happens (ARGS="--cases 1000 --api-server")
	$(BIN)/python -m tests.what_if.cases $(ARGS)

bench-stalls: $(INSTALLED) ## the longest step of any task at start, on relist, when many pods wake
	$(BIN)/python -m tests.bench.stalls $(ARGS)

clean: ## remove everything that was made
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
