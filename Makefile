# Every command that a person or CI runs on this repository. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

CACHE := $(or $(PLEXUS_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plexus)
# Outside the clone, so that a second clone reuses the built dependencies.
export CARGO_TARGET_DIR ?= $(CACHE)/target

NEXTEST_VERSION := 0.9.143
NEXTEST := $(or $(shell command -v cargo-nextest),$(CACHE)/tools/bin/cargo-nextest)

# scripts/fuzz reads the version here.
CARGO_FUZZ_VERSION := 0.13.2
CARGO_FUZZ := $(CACHE)/tools/bin/cargo-fuzz-$(CARGO_FUZZ_VERSION)
# Outside the workspace, so cargo fmt does not see them.
FUZZ_SOURCES := $(wildcard fuzz/src/*.rs fuzz/fuzz_targets/*.rs)

# The phases of `make test`, cheapest first; the first that fails ends the run.
PHASES := fmt-check clippy tidy doctest third-party nextest fuzz

.PHONY: help run test check bench profile soak generated fmt toolchain target-owner $(PHASES)

help: ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)$$/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

run: target-owner ## build and start the hub: make run ARGS="--help"
	cargo run --package plexus -- up $(ARGS)

test: toolchain ## everything CI runs: format, lints, tidy, tests, doc tests
	@times=''; trap 'printf "\nphase         seconds\n%b" "$$times"' EXIT; \
	for phase in $(PHASES); do \
	  printf '\n== %s\n' "$$phase"; began=$$SECONDS; failed=''; \
	  $(MAKE) "$$phase" || failed=' (failed)'; \
	  times+="$$(printf '%-12s %8d%s' "$$phase" $$((SECONDS - began)) "$$failed")\n"; \
	  [[ -z $$failed ]] || exit 1; \
	done

check: target-owner $(NEXTEST) ## the fast loop: cargo check, lints, tidy, unit tests of the libraries
	cargo check --workspace
	@$(MAKE) clippy tidy
	$(NEXTEST) nextest run --workspace --lib

bench: target-owner ## measure the hub beside other gateways: make bench ARGS="--help"
	scripts/bench $(ARGS)

profile: target-owner ## where the time of a call goes, by perf: make profile ARGS="--help"
	scripts/profile $(ARGS)

soak: target-owner $(NEXTEST) ## the long tests, which are ignored otherwise
	scripts/postgres run $(NEXTEST) nextest run --workspace --profile soak --run-ignored only
	PLEXUS_TEST_DATABASE=postgres scripts/postgres run $(NEXTEST) nextest run --package plexus-mcp --profile soak

fuzz: $(CARGO_FUZZ) ## hostile input, 10 s per target: make fuzz ARGS="600 jsonrpc"
	scripts/fuzz $(ARGS)

generated: target-owner $(NEXTEST) ## write anew what is made from the code: reference, OpenAPI, schema, help texts
	UPDATE_DOCS=1 INSTA_UPDATE=always $(NEXTEST) nextest run -p plexus-auth -p plexus-tools -p plexus-kit -p plexus-mcp -p plexus-node -p plexus-hub -p plexus \
	  -E 'test(~docs) | test(~the_committed_document) | test(~help::)'

fmt: toolchain ## format the code
	cargo fmt --all
	rustfmt --edition 2024 $(FUZZ_SOURCES)

fmt-check: toolchain
	cargo fmt --all --check
	rustfmt --edition 2024 --check $(FUZZ_SOURCES)

clippy: target-owner
	cargo clippy --workspace --all-targets -- -D warnings

tidy: target-owner ## the rules the compiler does not know (crate edges, file sizes, ...)
	cargo xtask tidy

third-party: ## install what the tests run of others: SDKs, agents, the conformance suite
	scripts/third-party

nextest: target-owner $(NEXTEST) ## the tests, or some of them: make nextest ARGS="-p plexus-mcp typescript"
	scripts/postgres run $(NEXTEST) nextest run $(or $(ARGS),--workspace)

doctest: target-owner
	cargo test --workspace --doc

toolchain:
	@scripts/prerequisites

# Cargo tells workspace members apart by their path inside the workspace and by file times only: with a shared
# target folder it would take another clone's build of `plexus` for this one's. So the members are built anew
# when the clone changes; dependencies stay. One `cargo clean` of members is for one profile.
target-owner: toolchain
	@owner='$(CARGO_TARGET_DIR)/.clone'; \
	if [[ "$$(cat "$$owner" 2>/dev/null)" != '$(CURDIR)' ]]; then \
	  if [[ -d '$(CARGO_TARGET_DIR)' ]]; then \
	    cargo clean --quiet --workspace; cargo clean --quiet --workspace --release; \
	  fi; \
	  mkdir -p '$(CARGO_TARGET_DIR)'; printf '%s\n' '$(CURDIR)' >"$$owner"; \
	fi

# Built only where cargo-nextest is not on the PATH.
$(CACHE)/tools/bin/cargo-nextest: | toolchain
	@echo 'cargo-nextest is not installed: building $(NEXTEST_VERSION) once into $(CACHE)/tools'
	CARGO_TARGET_DIR='$(CACHE)/tools/build' cargo install cargo-nextest \
	  --version $(NEXTEST_VERSION) --locked --root '$(CACHE)/tools'
	rm -rf '$(CACHE)/tools/build'

# By its version, so that a new one is built. Not from the PATH: its flags are part of what is cached.
$(CARGO_FUZZ): | toolchain
	@echo 'building cargo-fuzz $(CARGO_FUZZ_VERSION) once into $(CACHE)/tools'
	CARGO_TARGET_DIR='$(CACHE)/tools/build-fuzz' cargo install cargo-fuzz \
	  --version $(CARGO_FUZZ_VERSION) --locked --root '$(CACHE)/tools/cargo-fuzz'
	mkdir -p '$(dir $(CARGO_FUZZ))'
	mv '$(CACHE)/tools/cargo-fuzz/bin/cargo-fuzz' '$(CARGO_FUZZ)'
	rm -rf '$(CACHE)/tools/build-fuzz' '$(CACHE)/tools/cargo-fuzz'
