# Every task of this repository. `make` alone lists them.

CARGO ?= cargo
CARGO_DENY_VERSION := 0.20.2
CARGO_MUTANTS_VERSION := 27.1.0
# Tools of the checks are installed here, not into the user's home.
TOOLS := $(CURDIR)/.cache/tools

# Most tests wait for real clocks: run up to three per processor, fewer on a busy machine.
TEST_THREADS ?= $$($(CARGO) run --locked --quiet --package room -- 3)
# These tests fill the machine on purpose, with dozens of candidates, thousands of terms, or a load.
# They would disturb all others, so each runs alone.
CROWDS := process::crowd process::exec::terms lease::peers zookeeper::crowd zookeeper::peers torture::cases

# The store of `make run`.
BACKEND ?= file

# The container engine, docker or podman, and the registry in images' names. `localhost` is no registry, so an image of
# that name is never pulled.
ENGINE ?= docker
REGISTRY ?= localhost
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# The URL of the sources, for a label of the images.
SOURCE ?= unknown
REVISION = $(shell git describe --always --dirty --abbrev=12 --exclude '*')

.DEFAULT_GOAL := help
.PHONY: help run lab test torture quick test-file test-zookeeper test-lease test-etcd test-charts test-clients test-lab test-release test-torture check prove docs lab-table fuzz mutants bench advisories image release push twice e2e setup clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Run three candidates on this machine, live in the terminal; BACKEND=zookeeper|etcd
	$(if $(filter file zookeeper etcd,$(BACKEND)),,$(error BACKEND is file, zookeeper, or etcd, and not '$(BACKEND)'))
	$(if $(filter zookeeper,$(BACKEND)),$(call need,java mvn))
	$(if $(filter zookeeper,$(BACKEND)),tests/servers/zookeeper/fetch.sh)
	$(if $(filter etcd,$(BACKEND)),$(call need,go))
	$(if $(filter etcd,$(BACKEND)),tests/servers/kubernetes/build.sh)
	$(CARGO) build --locked --quiet --bin baton --example ledger --example demo
	@target/debug/examples/demo --backend=$(BACKEND) $(ARGS)

lab: ## Build the lab, a page that runs the elections, into target/lab/lab.html; TRACE=file
	$(call need,python3)
	TRACE='$(TRACE)' crates/baton-lab/build.sh

test: ## Test everything, fastest parts first; ONLY=file|lease|zookeeper|etcd|charts|clients|lab|release|torture
ifdef ONLY
	$(if $(filter file lease zookeeper etcd charts clients lab release torture,$(ONLY)),,$(error ONLY is file, lease, zookeeper, etcd, charts, clients, lab, release, or torture, and not '$(ONLY)'))
	@$(PART) test-$(ONLY)
else
	@$(PART) quick
	@$(PART) test-file
	@$(PART) check
	@$(PART) prove
	@$(PART) test-lab
	@$(PART) test-release
	@$(PART) test-clients
	@$(PART) test-zookeeper
	@$(PART) test-lease
	@$(PART) test-etcd
	@$(PART) test-charts
	@$(PART) test-torture
endif

torture: ## Inject random faults; STORE=lease|zookeeper|etcd|file, MINUTES=3, SEED=, SCHEDULE=, PEERS=1, RECORD=file, TERMS=10000
	$(if $(filter lease zookeeper etcd file,$(STORE)),,$(error STORE is lease, zookeeper, etcd, or file, and not '$(STORE)'))
	$(call need,setpriv strace unshare)
	$(if $(filter zookeeper,$(STORE)),$(call need,java mvn))
	$(if $(filter zookeeper,$(STORE)),tests/servers/zookeeper/fetch.sh)
	$(if $(filter lease etcd,$(STORE)),$(call need,go))
	$(if $(filter lease etcd,$(STORE)),tests/servers/kubernetes/build.sh)
	$(if $(PEERS),$(if $(filter zookeeper,$(STORE)),tests/servers/peers/build.sh))
	$(if $(PEERS),$(if $(filter etcd,$(STORE)),tests/servers/etcd/build.sh))
ifdef TERMS
	BATON_TORTURE_TERMS='$(TERMS)' $(CARGO) test --locked --test it -- \
	  --exact torture::terms::$(TERMS_OVER_$(STORE))::terms_follow_each_other_without_an_overlap --nocapture
else
	BATON_TORTURE_MINUTES='$(MINUTES)' BATON_TORTURE_SEED='$(SEED)' BATON_TORTURE_SCHEDULE='$(SCHEDULE)' \
	  BATON_TORTURE_PEERS='$(PEERS)' BATON_TORTURE_RECORD='$(RECORD)' \
	  $(CARGO) test --locked --test it -- --exact torture::cases::$(STORE) --nocapture
endif

TERMS_OVER_lease := over_leases
TERMS_OVER_zookeeper := over_znodes
TERMS_OVER_etcd := over_etcd
TERMS_OVER_file := over_files

# Says what a part is, runs it, and says how long it took.
PART = tests/part.sh '$(MAKE)'

# Needs nothing but Rust.
quick:
	$(CARGO) fmt --check --all
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) test --locked --package baton-classics --package baton-election --package baton-lab --package baton-sim --package zookeeper-client
	$(CARGO) run --locked --quiet --package baton-sim --profile prove --bin prove -- --seeds 5000

# Each part runs the cases that match its words; the file part runs all others, so that no case is left out.
ZOOKEEPER_CASES := zookeeper:: over_znodes:: over_a_zookeeper_server curator_succeeds kazoo_succeeds
ETCD_CASES := etcd:: over_etcd:: over_an_etcd_server
LEASE_CASES := lease:: over_leases:: client_go_succeeds rig::apiserver:: rig::proxy::
CHARTS_CASES := charts::
RELEASE_CASES := artifacts::

# Cases that need no server.
test-file:
	$(call need,curl ip python3 setpriv strace systemd-analyze unshare)
	$(CARGO) build --locked --quiet --bin baton --example ledger --example demo # tests of the demo start these
	$(CASES) $(addprefix --skip=,$(ZOOKEEPER_CASES) $(ETCD_CASES) $(LEASE_CASES) $(CHARTS_CASES) $(RELEASE_CASES) $(CROWDS))
	$(CROWD_CASES) process::crowd::over_files process::exec::terms

# Cases with real ZooKeeper servers, Curator, and kazoo.
test-zookeeper:
	$(call need,java mvn python3)
	tests/servers/zookeeper/fetch.sh
	tests/servers/peers/build.sh
	$(CARGO) build --locked --quiet --bin baton --example ledger --example demo
	$(CASES) $(ZOOKEEPER_CASES) $(addprefix --skip=,$(ETCD_CASES) $(LEASE_CASES) $(CHARTS_CASES) $(CROWDS))
	$(CROWD_CASES) process::crowd::over_znodes zookeeper::crowd zookeeper::peers

# Cases with a real API server, and client-go.
test-lease:
	$(call need,curl ip go python3 strace unshare)
	tests/servers/kubernetes/build.sh
	$(CASES) $(LEASE_CASES) $(addprefix --skip=,$(CHARTS_CASES) $(CROWDS))
	$(CROWD_CASES) process::crowd::over_leases lease::peers

# Cases with real etcd members.
test-etcd:
	$(call need,go strace unshare)
	tests/servers/kubernetes/build.sh
	tests/servers/etcd/build.sh
	$(CARGO) build --locked --quiet --bin baton --example ledger --example demo
	$(CASES) $(ETCD_CASES) $(addprefix --skip=,$(LEASE_CASES) $(CHARTS_CASES) $(CROWDS))
	$(CROWD_CASES) process::crowd::over_etcd

# Charts and manifests: Helm, kustomize, Kyverno, Prometheus, and a real API server.
test-charts:
	$(call need,curl go python3)
	tests/servers/kubernetes/build.sh
	tests/servers/charts/build.sh
	tests/servers/kyverno/build.sh
	tests/servers/prometheus/build.sh
	$(CASES) $(CHARTS_CASES) $(addprefix --skip=,$(CROWDS))

# Client libraries: their own tests, and cases beside scripted sidecars and real ones.
test-clients:
	$(call need,go java mvn node npm python3)
	clients/testing/fetch.sh
	$(CARGO) build --locked --quiet --bin baton
	clients/testing/run.py

# Random faults for three minutes on each store, all beside each other: a part of its own, since they
# load the machine.
test-torture:
	$(call need,go java mvn setpriv strace unshare)
	tests/servers/kubernetes/build.sh
	tests/servers/zookeeper/fetch.sh
	$(CARGO) test --locked --test it -- torture::cases:: --test-threads=4 --show-output

# The lab in a real Chromium.
test-lab:
	$(call need,chromium node npm python3)
	tests/lab/run.sh

# The files of a release: packages, installed without changing this machine, and the program for arm64.
test-release:
	$(call need,aarch64-linux-gnu-gcc dpkg go python3 qemu-aarch64 setpriv strip systemd-analyze unshare)
	for tool in nfpm crane cosign; do release/tools.sh $$tool > /dev/null || exit; done
	tests/servers/registry/build.sh
	tests/servers/charts/build.sh
	tests/arm64/smoke.py "$$(tests/arm64/build.sh)"
	$(CASES) $(RELEASE_CASES)

CASES = $(CARGO) test --locked --package baton --package room --lib --bins --examples --test it -- --test-threads=$(TEST_THREADS)
CROWD_CASES = $(CARGO) test --locked --test it -- --test-threads=1

check: $(TOOLS)/bin/cargo-deny ## Check format, lints, docs, dependencies, and prose
	$(CARGO) fmt --check --all
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) clippy --locked --workspace --features baton-sim/model --all-targets --test e2e -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --no-deps --document-private-items --lib --workspace
	for manifest in Cargo.toml fuzz/Cargo.toml; do \
	  $(TOOLS)/bin/cargo-deny --locked --log-level error --config deny.toml --manifest-path $$manifest check bans licenses sources || exit; \
	done
	tests/prose/check.sh
	$(LAB_TABLE) --check docs/concepts/which-election.md

MODEL_CHECKER = $(CARGO) run --locked --quiet --package baton-sim --features model --profile prove --bin model --

prove: ## Simulate faults and check every property; SEEDS=, MINUTES=, FROM=, REPLAY=, MODEL=lease|zookeeper, MUTANTS=1
ifdef MUTANTS
	MUTANTS='$(MUTANTS)' crates/baton-sim/mutants.sh
else ifdef MODEL
	$(MODEL_CHECKER) long $(MODEL)
else
	$(if $(REPLAY),,$(MODEL_CHECKER) short)
	$(CARGO) run --locked --quiet --package baton-sim --profile prove --bin prove -- \
	  $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FROM),--from $(FROM)) $(if $(REPLAY),--replay $(REPLAY)) --trace target/trace.json
endif

docs: ## Build the book into target/book and check its links
	docs/build.sh

lab-table: ## Compare the classical election algorithms; SEEDS=1000, WRITE=1 (into the book)
	$(LAB_TABLE) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(WRITE),--write docs/concepts/which-election.md)

LAB_TABLE = $(CARGO) run --locked --quiet --package baton-classics --profile prove --bin lab-table --

fuzz: ## Fuzz every parser of untrusted input; TIME=600 (seconds each), TARGET=wire
	TIME='$(TIME)' TARGET='$(TARGET)' fuzz/run.sh

mutants: $(TOOLS)/bin/cargo-mutants ## Run cargo-mutants over baton-election; ARGS=
	PATH=$(TOOLS)/bin:$$PATH $(CARGO) mutants $(ARGS)

bench: ## Measure the figures of the comparison with peers
	$(CARGO) bench --locked --bench figures

advisories: $(TOOLS)/bin/cargo-deny ## Check dependencies for known vulnerabilities; DATABASE=a clone of RustSec's
	CARGO_DENY=$(TOOLS)/bin/cargo-deny DATABASE='$(DATABASE)' release/advisories.sh

image: ## Build the images baton and baton-demo; ENGINE=podman, PLATFORM=linux/arm64, BUILDER=
	$(call build,baton,$(if $(FRESH),--no-cache))
	$(call build,baton-demo,--target demo)
	$(call build,baton-inventory,--target inventory)

# $(1): the image's name; $(2): further options of the build.
build = $(ENGINE) build $(2) --tag $(REGISTRY)/$(1):$(VERSION) \
	  --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) --build-arg SOURCE=$(SOURCE) \
	  $(if $(BUILDER),--build-arg BUILDER=$(BUILDER)) \
	  $(if $(PLATFORM),--platform $(PLATFORM) --build-arg BUILDPLATFORM=linux/$(HERE)) .

# This machine's architecture in the words of images, which podman 4 does not pass to a Dockerfile.
HERE = $(subst aarch64,arm64,$(subst x86_64,amd64,$(shell uname -m)))

# The environment of scripts that use these images.
IMAGES = ENGINE=$(ENGINE) BATON_IMAGE=$(REGISTRY)/baton:$(VERSION) DEMO_IMAGE=$(REGISTRY)/baton-demo:$(VERSION) \
	  INVENTORY_IMAGE=$(REGISTRY)/baton-inventory:$(VERSION)

# The folder of a release's files.
FILES ?= target/release-files

release: image ## Pack programs, packages, images, charts, and checksums of this commit into target/release-files; KEY=, SOURCE=
	$(if $(KEY),$(call need_key))
	$(IMAGES) KEY='$(KEY)' SOURCE='$(SOURCE)' release/make.sh $(FILES)

push: ## Build this commit for amd64 and arm64, and push signed images and charts; REGISTRY=, KEY=, SOURCE=
	$(if $(filter localhost,$(REGISTRY)),$(error set REGISTRY to your registry, as HOST or HOST/PATH))
	$(call need_key)
	$(MAKE) release PLATFORM=linux/amd64 FILES=target/push/amd64 KEY=
	$(MAKE) release PLATFORM=linux/arm64 FILES=target/push/arm64 KEY=
	KEY='$(KEY)' SOURCE='$(SOURCE)' release/push.sh target/push '$(REGISTRY)'

need_key = $(if $(KEY),,$(error set KEY to the private key for the signatures, as cosign takes it)) \
	  $(if $(filter unknown,$(SOURCE)),$(error set SOURCE to the URL of the sources, for the label and the provenance))

twice: ## Build the release twice and compare the bytes
	ENGINE=$(ENGINE) BUILDER=$(BUILDER) release/twice.sh

e2e: image ## Run fault-injection tests on a three-node kind cluster; KIND_IMAGE=, ARGS=
	$(IMAGES) tests/e2e/run.sh $(ARGS)

setup: $(TOOLS)/bin/cargo-deny ## Build every server and tool that the tests need, without root
	$(call need,curl ip python3 go java mvn node npm setpriv strace systemd-analyze unshare)
	clients/testing/fetch.sh
	tests/servers/kubernetes/build.sh
	tests/servers/etcd/build.sh
	tests/servers/charts/build.sh
	tests/servers/kyverno/build.sh
	tests/servers/prometheus/build.sh
	tests/servers/zookeeper/fetch.sh
	tests/servers/peers/build.sh
	tests/prose/build.sh
	for tool in nfpm crane cosign; do release/tools.sh $$tool > /dev/null || exit; done
	tests/servers/registry/build.sh

# $(1): the programs that must be installed.
need = @for tool in $(1); do \
	  command -v $$tool > /dev/null || { echo "make: $$tool is missing: install it (Debian: chromium curl iproute2 python3-venv golang default-jdk-headless maven nodejs npm strace systemd util-linux binutils dpkg qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)" >&2; exit 1; }; \
	done

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install --locked --quiet --root $(TOOLS) --version $(CARGO_DENY_VERSION) cargo-deny

$(TOOLS)/bin/cargo-mutants:
	$(CARGO) install --locked --quiet --root $(TOOLS) --version $(CARGO_MUTANTS_VERSION) cargo-mutants

clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf .cache
