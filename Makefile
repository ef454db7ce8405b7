# Everything that a person or a machine does with this repository. `make` alone lists it.

CARGO ?= cargo
CARGO_DENY_VERSION := 0.20.2
CARGO_MUTANTS_VERSION := 27.1.0
# Tools that the checks need are installed here, not into the user's home.
TOOLS := $(CURDIR)/.cache/tools

# Most tests wait for real clocks: run up to three per processor, as the present load allows.
TEST_THREADS ?= $$($(CARGO) run --locked --quiet --package room -- 3)
# Tests that fill the machine by themselves: dozens of candidates, or a load on purpose. They would disturb the others, and
# each other.
CROWDS := process::crowd lease::peers zookeeper::crowd zookeeper::peers

# What `make run` holds its election in.
BACKEND ?= file

# The container engine, docker or podman, and where images belong: `localhost` is nobody's registry, so that nothing of
# that name is ever pulled from a stranger.
ENGINE ?= docker
REGISTRY ?= localhost
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
REVISION = $(shell git describe --always --dirty --abbrev=12 --exclude '*')

.DEFAULT_GOAL := help
.PHONY: help run test check prove fuzz mutants bench image release twice e2e setup clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Three candidates of one election on this machine, live in the terminal; BACKEND=zookeeper
	$(if $(filter file zookeeper,$(BACKEND)),,$(error BACKEND is file or zookeeper, and not '$(BACKEND)'))
	$(if $(filter zookeeper,$(BACKEND)),$(call need,java mvn))
	$(if $(filter zookeeper,$(BACKEND)),tests/servers/zookeeper/fetch.sh)
	$(CARGO) build --locked --quiet --bin baton --example ledger --example demo
	@target/debug/examples/demo --backend=$(BACKEND) $(ARGS)

test: setup check ## Everything that must hold: checks, unit tests, simulated worlds, real processes
	$(CARGO) test --locked --package baton-election --package baton-sim --package zookeeper-client
	$(MAKE) --no-print-directory prove
	$(CARGO) build --locked --quiet --bin baton --example ledger --example demo # which no test of the demo builds
	$(CARGO) test --locked --package baton --package room --lib --bins --examples --test it -- --test-threads=$(TEST_THREADS) $(addprefix --skip=,$(CROWDS))
	$(CARGO) test --locked --test it -- --test-threads=1 $(CROWDS)

check: setup ## Format, lints, docs, dependencies
	$(CARGO) fmt --check --all
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) clippy --locked --workspace --features baton-sim/model --all-targets --test e2e -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --no-deps --document-private-items --lib --workspace
	$(TOOLS)/bin/cargo-deny --locked --log-level error check bans licenses sources

MODEL_CHECKER = $(CARGO) run --locked --quiet --package baton-sim --features model --profile prove --bin model --

prove: ## Attack the machines in simulated worlds: SEEDS=1000000, MINUTES=60, FROM=7, REPLAY=7; MODEL=lease; MUTANTS=1
ifdef MUTANTS
	MUTANTS='$(MUTANTS)' crates/baton-sim/mutants.sh
else ifdef MODEL
	$(MODEL_CHECKER) long $(MODEL)
else
	$(if $(REPLAY),,$(MODEL_CHECKER) short)
	$(CARGO) run --locked --quiet --package baton-sim --profile prove --bin prove -- \
	  $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FROM),--from $(FROM)) $(if $(REPLAY),--replay $(REPLAY))
endif

fuzz: ## Invent bytes for all that is read from outside, until something does not hold: TIME=600 seconds each, TARGET=wire
	TIME='$(TIME)' TARGET='$(TARGET)' fuzz/run.sh

mutants: $(TOOLS)/bin/cargo-mutants ## Change one thing at a time in the pure half, and see which change no test notices; ARGS=
	PATH=$(TOOLS)/bin:$$PATH $(CARGO) mutants $(ARGS)

bench: ## The figures of README, measured on this machine
	$(CARGO) bench --locked --bench figures

image: ## The images baton and baton-demo; ENGINE=podman, PLATFORM=linux/arm64, BUILDER=an image with Rust
	$(call build,baton,$(if $(FRESH),--no-cache))
	$(call build,baton-demo,--target demo)

# $(1) the image's name, $(2) what else the build is told.
build = $(ENGINE) build $(2) --tag $(REGISTRY)/$(1):$(VERSION) \
	  --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
	  $(if $(BUILDER),--build-arg BUILDER=$(BUILDER)) \
	  $(if $(PLATFORM),--platform $(PLATFORM) --build-arg BUILDPLATFORM=linux/$(HERE)) .

# This machine's architecture, as images name it: podman 4 does not tell a Dockerfile.
HERE = $(subst aarch64,arm64,$(subst x86_64,amd64,$(shell uname -m)))

# In the environment of what works with these images.
IMAGES = ENGINE=$(ENGINE) BATON_IMAGE=$(REGISTRY)/baton:$(VERSION) DEMO_IMAGE=$(REGISTRY)/baton-demo:$(VERSION)

release: image ## Program, images, charts, SBOM and checksums as files, of a commit: target/release-files
	$(IMAGES) release/make.sh target/release-files

twice: ## The release of this commit made anew in two places, and whether both are the same bytes
	ENGINE=$(ENGINE) BUILDER=$(BUILDER) release/twice.sh

e2e: image ## Three nodes made by kind, and all that can befall them; KIND_IMAGE=, ARGS=a test's name
	$(IMAGES) tests/e2e/run.sh $(ARGS)

setup: $(TOOLS)/bin/cargo-deny ## Install and build what the checks and tests need, without root
	$(call need,curl ip python3 go java mvn node setpriv strace unshare)
	tests/servers/kubernetes/build.sh
	tests/servers/charts/build.sh
	tests/servers/prometheus/build.sh
	tests/servers/zookeeper/fetch.sh
	tests/servers/peers/build.sh

# $(1) the programs that have to be there.
need = @for tool in $(1); do \
	  command -v $$tool > /dev/null || { echo "make: $$tool is missing: install it (Debian: curl iproute2 python3-venv golang default-jdk-headless maven nodejs strace util-linux)" >&2; exit 1; }; \
	done

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install --locked --quiet --root $(TOOLS) --version $(CARGO_DENY_VERSION) cargo-deny

$(TOOLS)/bin/cargo-mutants:
	$(CARGO) install --locked --quiet --root $(TOOLS) --version $(CARGO_MUTANTS_VERSION) cargo-mutants

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf .cache
