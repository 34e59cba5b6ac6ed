# localpv: `make` shows this menu.
.DEFAULT_GOAL := help
.PHONY: help setup setup-programs run test quick fresh steady check format size bench seeds generate mutants clean cluster test-kubernetes setup-kubernetes test-vm conformance
.PHONY: kubernetes-contract kubernetes-placing kubernetes-manager kubernetes-workloads kubernetes-cluster

VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.ready
NODES := 1
RUNS := 10
# They do themselves what controllers of a cluster would do, so none may run beside them.
MANAGER_TESTS := $(addprefix tests/journey/test_,publish.py release.py held.py drop_in.py rights.py operator.py)
# All of tests/placing passes there; these are what a claim that waits for its pod needs.
PLACING_ON_LOCALPV := $(addprefix tests/placing/test_,bind.py waiting.py schedule_volumes.py)

# Tests start programs hundreds of times: each would compile all its modules anew, half of the time that a start takes.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show this menu
	@echo "localpv: local disks as Kubernetes volumes"
	@echo
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv and install all that is needed (as root also system packages)

$(STAMP): pyproject.toml tools/setup.sh tools/packages.sh
	@bash tools/setup.sh $(VENV)
	@touch $@

run: setup ## Start localpv on this machine with demo disks (Ctrl-C stops it)
	@$(VENV)/bin/localpv up --demo

test: setup-programs ## Run all tests that need no cluster
	@$(PYTHON) tools/run_tests.py $(ARGS)

quick: setup-programs ## Run the tests that need nothing of the machine, in parallel
	@$(PYTHON) tools/run_tests.py --quick $(ARGS)

fresh: setup ## Run the README's two commands in a new Debian with nothing but make, as a stranger would (as root)
	@bash tools/setup_kubernetes.sh
	@$(PYTHON) tools/fresh.py $(ARGS)

steady: setup-programs ## Run a suite again and again beside other work, to find tests that fail now and then (SUITE=..., RUNS=10)
	@$(PYTHON) tools/steady.py --runs $(RUNS) $(SUITE)

setup-programs: setup
	@$(PYTHON) -m tests.kubernetes.build kubectl informer csi-sanity csi-peer

test-kubernetes: kubernetes-contract kubernetes-placing kubernetes-manager kubernetes-workloads kubernetes-cluster ## Run the contract and all that needs a cluster on a real Kubernetes (as root)

kubernetes-contract: setup-kubernetes
	@$(PYTHON) -m tests.kubernetes.control_plane --controllers --run $(PYTHON) -m pytest tests/contract $(ARGS)

kubernetes-placing: setup-kubernetes
	@$(PYTHON) -m tests.kubernetes.control_plane --controllers --scheduler --run $(PYTHON) -m pytest tests/placing $(ARGS)
	@$(PYTHON) -m tests.kubernetes.on_localpv --run $(PYTHON) -m pytest $(PLACING_ON_LOCALPV) $(ARGS)

kubernetes-manager: setup-kubernetes
	@$(PYTHON) -m tests.kubernetes.control_plane --run $(PYTHON) -m pytest $(MANAGER_TESTS) $(ARGS)

kubernetes-workloads: setup-kubernetes
	@$(PYTHON) -m tests.kubernetes.control_plane --workloads --run $(PYTHON) -m pytest tests/workloads $(ARGS)

kubernetes-cluster: setup-kubernetes
	@$(PYTHON) -m pytest tests/kubernetes tests/e2e --on kubernetes $(ARGS)

test-vm: setup ## Run all that needs SCSI, SATA and NVMe disks, in a virtual machine (as root)
	@bash tools/setup_vm.sh
	@$(PYTHON) -m tests.vm $(ARGS)

conformance: setup ## Run Kubernetes' own end-to-end tests against the embedded engine (as root; FOCUS=PATTERN, or FOCUS=fixed for CI's part)
	@bash tools/setup_kubernetes.sh
	@$(PYTHON) -m tests.kubernetes.build kubectl ginkgo agnhost nnp e2e
	@$(PYTHON) -m tests.conformance $(if $(FOCUS),'$(FOCUS)') $(ARGS)

cluster: setup-kubernetes ## Run a real Kubernetes cluster on this machine (as root; NODES=1, 2 or 3; Ctrl-C removes it)
	@$(PYTHON) -m tests.kubernetes.cluster --image --nodes $(NODES)

setup-kubernetes: setup
	@bash tools/setup_kubernetes.sh
	@$(PYTHON) -m tests.kubernetes.build

check: setup ## Run ruff, mypy, import-linter and see that all code is in use, no word of the API spelled twice, generated files up to date
	@$(VENV)/bin/ruff format --check src tests tools
	@$(VENV)/bin/ruff check src tests tools
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-cache
	@$(PYTHON) tools/unused.py --check
	@$(PYTHON) tools/size.py --check
	@$(PYTHON) tools/generate_schema.py --check
	@$(PYTHON) tools/generate_protobuf.py --check
	@$(PYTHON) tools/generate_csi.py --check
	@$(PYTHON) tools/generate_crds.py --check
	@$(PYTHON) tools/generate_docs.py --check

format: setup ## Format the code
	@$(VENV)/bin/ruff format src tests tools
	@$(VENV)/bin/ruff check --fix src tests tools

generate: setup ## Write generated files anew
	@$(PYTHON) tools/generate_schema.py
	@$(PYTHON) tools/generate_protobuf.py
	@$(PYTHON) tools/generate_csi.py
	@$(PYTHON) tools/generate_crds.py
	@$(PYTHON) tools/generate_docs.py

size: setup ## Tell how large the code is, what is there twice, and what a new disk costs (as root; RECORD=TITLE writes it to docs/size.md)
	@$(PYTHON) tools/size.py $(if $(RECORD),--record "$(RECORD)") $(ARGS)

bench: setup ## Measure the engine and print the figures beside their targets
	@$(PYTHON) tools/bench.py
	@$(PYTHON) tools/bench_circle.py
	@$(PYTHON) tools/bench_bind.py
	@$(PYTHON) tools/bench_schedule.py
	@$(PYTHON) tools/bench_pods.py
	@$(PYTHON) tools/bench_pools.py
	@$(PYTHON) tools/bench_udev.py
	@$(PYTHON) tools/bench_operator.py

mutants: setup ## Change code that protects data at random and tell what no test notices (as root; MODULES=, COUNT=, SEED=, JOBS=1)
	@$(PYTHON) tools/mutants.py $(if $(MODULES),--modules "$(MODULES)") $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

seeds: setup ## Show every requirement with its tests and their last results
	@$(PYTHON) tools/seeds.py

clean: ## Remove what the targets above made in this folder
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .seeds .bench .steady .mutants .conformance build/out src/*.egg-info
