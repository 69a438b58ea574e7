# The commands that developers and CI run on this repository. `make` without arguments lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

CACHE := $(or $(PLEXUS_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plexus)
# Outside the clone, so that a second clone reuses what is built.
export CARGO_TARGET_DIR := $(CACHE)/target

NEXTEST_VERSION := 0.9.143
NEXTEST := $(or $(shell command -v cargo-nextest),$(CACHE)/tools/bin/cargo-nextest)

# scripts/fuzz reads the version from this line.
CARGO_FUZZ_VERSION := 0.13.2
CARGO_FUZZ := $(CACHE)/tools/bin/cargo-fuzz-$(CARGO_FUZZ_VERSION)
# Outside the workspace, so `cargo fmt` skips them.
FUZZ_SOURCES := $(wildcard fuzz/src/*.rs fuzz/fuzz_targets/*.rs)

# The phases of `make test`, cheapest first; the run stops at the first failure.
PHASES := fmt-check clippy tidy doctest third-party nextest fuzz

.PHONY: help run test check bench profile soak fresh-machine generated fmt toolchain $(PHASES)

help: ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)$$/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

run: toolchain ## build and start the hub: make run ARGS="--help"
	@scripts/tree cargo build --package plexus
	'$(CARGO_TARGET_DIR)/debug/plexus' up $(ARGS)

# Everything that compiles runs in a copy of the clone at a fixed path, which all clones share; see scripts/tree.
ifneq ($(realpath $(CURDIR)),$(realpath $(CACHE)/tree))

test: toolchain ## everything CI runs: format, lints, tidy, tests, doc tests
check: toolchain ## fast checks: cargo check, lints, tidy, unit tests of the libraries
bench: toolchain ## compare the hub with other gateways: make bench ARGS="--help"
profile: toolchain ## profile calls with perf: make profile ARGS="--help"
soak: toolchain ## long-running tests, which `make test` skips
fuzz: toolchain ## fuzz every target for 10 s: make fuzz ARGS="600 jsonrpc"
generated: toolchain ## regenerate files made from code: reference, OpenAPI, schemas, help texts

test: checked_for := test
test check bench profile soak generated $(PHASES): toolchain
	@scripts/tree $(MAKE) $@

else

test:
	@times=''; trap 'printf "\nphase         seconds\n%b" "$$times"' EXIT; \
	for phase in $(PHASES); do \
	  printf '\n== %s\n' "$$phase"; began=$$SECONDS; failed=''; \
	  $(MAKE) "$$phase" || failed=' (failed)'; \
	  times+="$$(printf '%-12s %8d%s' "$$phase" $$((SECONDS - began)) "$$failed")\n"; \
	  [[ -z $$failed ]] || exit 1; \
	done

check: $(NEXTEST)
	cargo check --workspace
	@$(MAKE) clippy tidy
	$(NEXTEST) nextest run --workspace --lib

bench:
	scripts/bench $(ARGS)

profile:
	scripts/profile $(ARGS)

soak: $(NEXTEST)
	scripts/postgres run $(NEXTEST) nextest run --workspace --profile soak --run-ignored only
	PLEXUS_TEST_DATABASE=postgres scripts/postgres run $(NEXTEST) nextest run --package plexus-mcp --package plexus-upstream --profile soak

fuzz: $(CARGO_FUZZ)
	scripts/fuzz $(ARGS)

generated: $(NEXTEST)
	UPDATE_DOCS=1 INSTA_UPDATE=always $(NEXTEST) nextest run --workspace \
	  -E 'test(~docs) | test(~committed) | (test(~schema) & not test(~schemathesis)) | test(~tool_list) | test(~help::)'

fmt-check:
	cargo fmt --all --check
	rustfmt --edition 2024 --check $(FUZZ_SOURCES)

clippy:
	cargo clippy --workspace --all-targets -- -D warnings

tidy: ## project rules the compiler cannot check (crate edges, file sizes, ...)
	cargo xtask tidy

third-party: ## install third-party test programs: SDKs, agents, the conformance suite
	scripts/third-party

nextest: $(NEXTEST) ## all tests, or a selection: make nextest ARGS="-p plexus-mcp typescript"
	scripts/postgres run $(NEXTEST) nextest run $(or $(ARGS),--workspace)

doctest:
	cargo test --workspace --doc

endif

# As root, and without the packages that the others need.
fresh-machine: ## follow the README on a minimal Debian in a chroot: make fresh-machine ARGS="--help"
	scripts/fresh-machine $(ARGS)

fmt: toolchain ## format the code
	cargo fmt --all
	rustfmt --edition 2024 $(FUZZ_SOURCES)

toolchain:
	@scripts/prerequisites $(checked_for)

# Built only if cargo-nextest is not on the PATH.
$(CACHE)/tools/bin/cargo-nextest: | toolchain
	@echo 'cargo-nextest is not installed: building $(NEXTEST_VERSION) once into $(CACHE)/tools'
	CARGO_TARGET_DIR='$(CACHE)/tools/build' cargo install cargo-nextest \
	  --version $(NEXTEST_VERSION) --locked --root '$(CACHE)/tools'
	rm -rf '$(CACHE)/tools/build'

# Named after its version, so that a new version is built. Not taken from the PATH, because its flags are part of the
# build cache.
$(CARGO_FUZZ): | toolchain
	@echo 'building cargo-fuzz $(CARGO_FUZZ_VERSION) once into $(CACHE)/tools'
	CARGO_TARGET_DIR='$(CACHE)/tools/build-fuzz' cargo install cargo-fuzz \
	  --version $(CARGO_FUZZ_VERSION) --locked --root '$(CACHE)/tools/cargo-fuzz'
	mkdir -p '$(dir $(CARGO_FUZZ))'
	mv '$(CACHE)/tools/cargo-fuzz/bin/cargo-fuzz' '$(CARGO_FUZZ)'
	rm -rf '$(CACHE)/tools/build-fuzz' '$(CACHE)/tools/cargo-fuzz'
