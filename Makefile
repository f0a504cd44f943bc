# Every task of this repository; `make help` lists them.
PYTHON ?= python3

.PHONY: help setup lock
.DEFAULT_GOAL := help

help:  ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup:  ## make .venv and find or build the Pulumi engine
	@$(PYTHON) -m toolchain.setup

lock:  ## resolve pyproject.toml into requirements.lock
	.venv/bin/uv pip compile pyproject.toml --all-extras --group dev --universal \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock" \
	  --quiet -o requirements.lock
