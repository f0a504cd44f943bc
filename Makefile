# Every task of this repository; `make help` lists them.
PYTHON ?= python3
ROUNDS ?= 50

.PHONY: help setup setup-kubernetes demo test lint crash cluster cluster-stop bench lock
.DEFAULT_GOAL := help

help:  ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup:  ## make .venv and find or build the Pulumi engine
	@$(PYTHON) -m toolchain.setup

setup-kubernetes: setup  ## build Pulumi's Kubernetes plugin, where no official Pulumi downloads it
	@$(PYTHON) -m toolchain.setup kubernetes

demo: setup  ## run the hosted service's example here to its end, and print its curve
	@.venv/bin/paddock demo

test: setup  ## run every stage that CI runs; PADDOCK_SKIP=e2e,crash leaves stages out
	@PADDOCK_CRASH_ROUNDS=5 PADDOCK_CONTROL_ROUNDS=50 .venv/bin/python -m tests.run_stages

lint: setup  ## ruff, import contracts, the tree's rules, the wheel, pyright
	@.venv/bin/python -m tests.run_stages lint

crash: setup  ## kill runs, servers and engines at random moments, ROUNDS=50 times; nothing may be left
	@PADDOCK_CRASH_ROUNDS=$(ROUNDS) PADDOCK_CONTROL_ROUNDS=$(ROUNDS) \
	  .venv/bin/python -m pytest -m "crash and not e2e" -s

cluster: setup  ## a real Kubernetes cluster on this machine, for tests; prints its KUBECONFIG
	@.venv/bin/python -m tests.testbed start

cluster-stop:  ## end that cluster and remove all that it left
	@.venv/bin/python -m tests.testbed stop

bench: setup  ## reading a config, `pulumi up` in pods, a log of a gigabyte, 10,000 runs, 240 in pods
	@failed=; for one in config lists logs served_logs cluster pods; do \
	  .venv/bin/python -m bench.$$one || failed="$$failed $$one"; \
	done; test -z "$$failed" || { echo "over a limit:$$failed"; exit 1; }

lock:  ## resolve pyproject.toml into requirements.lock
	.venv/bin/uv pip compile pyproject.toml --all-extras --group dev --universal \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock" \
	  --quiet -o requirements.lock
