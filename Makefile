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

# Cargo puts binaries below the target's name, because .cargo/config.toml names one. Asked for where it is used: before the set-up
# there may be no compiler to ask.
host = $$(rustc -vV | sed -n 's/^host: //p')
built = $${CARGO_TARGET_DIR:-target}/$(host)

packages = $(shell tools/packages)

# By tools/release, which has the compiler know the ways that the programs take. Two calls: in one, palisade-worker and
# palisade-host would be linked with the compiler too, and start 40 µs later.
# The compiler has a profile of its own, and so a folder: Cargo.toml says why.
define build
tools/release $(packages) --bins && \
	cargo build --profile compiler --locked --package palisade-compiler && \
	install "$(built)/compiler/palisade-compiler" "$(built)/release/" && \
	tools/no-compiler "$(built)/release" && \
	$(call settle,palisade) && $(call settle,palisade-worker) && $(call settle,palisade-oci)
endef

# A linker leaves its program in single pages of the page cache, and each start maps them one by one; a copy lies there as an
# installed program does.
settle = install "$(built)/release/$(1)" "$(built)/release/$(1).new" && mv "$(built)/release/$(1).new" "$(built)/release/$(1)"

.PHONY: help demo test stories containers container-attacks command build lab lint ci nightly third-wall vm k8s

RELEASE ?= bookworm

help: ## Print this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

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
	@tools/shipped "$(built)"
	@PALISADE_BIN=$$(realpath "$(built)/shipped/palisade") cargo test --locked --workspace --tests --no-fail-fast
	@cargo test --locked --workspace --doc --features palisade/wasm
	@tools/stories "$(built)/shipped/palisade" git make nginx npm python sqlite

third-wall: ## Run the command's suite behind a third wall, which hands everything on to the process wall
	@tools/setup test
	@cargo test --locked --package palisade-walls --features stub
	@cargo build --locked --workspace --features palisade-cli/stub-wall --bins
	@cargo test --locked --workspace --features palisade-cli/stub-wall --test cli
	@cargo build --locked --workspace --bins

stories: ## What people do on their first day: plain commands, then what palisade advises; and the page for operators
	@tools/setup stories || echo "make: some stories will be skipped"
	@$(build)
	@tools/stories "$(built)/release/palisade"
	@if command -v node >/dev/null; then tools/page-test "$(built)/release/palisade"; \
		else echo "make: nobody looks at the page of the admin socket: there is no node"; fi

containers: ## Images of Debian's packages by podman, behind palisade-oci: it takes podman and debootstrap
	@$(build)
	@tools/containers "$(built)/release/palisade-oci" "$${CARGO_TARGET_DIR:-target}/containers"

container-attacks: ## The attack suite against containers by podman: palisade-oci, runc and crun. It takes root and half an hour
	@$(build)
	@tools/container-attacks "$(built)/release/palisade-oci" "$${CARGO_TARGET_DIR:-target}/container-attacks"

command: ## Build the command alone: it runs programs, and neither WebAssembly nor a server
	@tools/release $(packages) --bin palisade
	@$(call settle,palisade)
	@echo "$(built)/release/palisade"

build: ## Build palisade for use: its path is printed, and its helpers lie beside it
	@$(build)
	@echo "$(built)/release/palisade"

lab: ## The same, and the programs that some rows of `palisade bench` take
	@$(build)
	@tools/release --package palisade-lab-calls --package palisade-lab-load
	@echo "$(built)/release/palisade"

lint: ## Check form: rustfmt, clippy and rustdoc, warnings denied
	@tools/lint

ci: ## Everything that CI runs
	@.ci/run

nightly: ## What CI runs each night, for it takes hours: the whole matrix, make stories, third-wall, containers, container-attacks, k8s, each make vm
	@.ci/nightly

vm: ## Run palisade with an older kernel, in a virtual machine
	@tools/vm-test $(RELEASE)

k8s: ## A Kubernetes of one node in a virtual machine, with pods behind palisade-oci: it takes Go and an hour
	@tools/release $(packages) --bin palisade-oci
	@tools/k8s "$(built)/release/palisade-oci"
