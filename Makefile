# Two commands for newcomers:
#
#   make demo    set up this machine, build palisade, show what it does
#   make test    set up this machine, run every test
#
# Set-up means installing packages: root has it done, everybody else gets the one apt-get
# line to run. Builds go to ./target unless CARGO_TARGET_DIR says otherwise.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Cargo puts binaries below the target's name, because .cargo/config.toml names one.
host = $(shell rustc -vV | sed -n 's/^host: //p')
built = $${CARGO_TARGET_DIR:-target}/$(host)

# Two calls: in one, palisade-worker and palisade-host would be linked with the compiler too, and start 40 µs later.
define build
cargo build --release --locked --package palisade-cli --package palisade-engine --package palisade-host --package palisade-lab --bins && \
	cargo build --release --locked --package palisade-compiler --package palisade-lab-calls --package palisade-lab-load
endef

.PHONY: help demo test stories build lint ci vm

RELEASE ?= bookworm

help: ## Print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 14

demo: ## Set up this machine, build palisade, show what it does
	@tools/setup demo
	@$(build)
	@demo/run "$(built)/release/palisade"

test: ## Set up this machine, run every test
	@tools/setup test
	@tools/real-programs || echo "make: some tests of programs in WebAssembly will be ignored"
	@tools/real-filters || echo "make: some tests of filters and services of others will be ignored"
	@tools/protocol-suites || echo "make: h2spec will not be run"
	@lab/sources/fetch || echo "make: the rows that compile bzip2 and lame will be left out"
	@cargo build --locked --workspace --bins --tests
	@cargo test --locked --workspace --no-fail-fast
	@cargo test --locked --workspace --doc --features palisade/wasm

stories: ## What people do on their first day: plain commands, then what palisade advises
	@tools/setup stories || echo "make: some stories will be skipped"
	@$(build)
	@tools/stories "$(built)/release/palisade"

build: ## Build palisade for use: its path is printed, and its helpers lie beside it
	@$(build)
	@echo "$(built)/release/palisade"

lint: ## Check form: rustfmt, clippy and rustdoc, warnings denied
	@tools/lint

ci: ## Everything that CI runs
	@.ci/run

vm: ## Run palisade with an older kernel, in a virtual machine
	@tools/vm-test $(RELEASE)
