# The main targets are `run` and `test`; CONTRIBUTING.md has a table of all. Everything is built in the release
# profile.

CARGO ?= cargo
BUILD_OUTPUT := $(abspath $(or $(CARGO_TARGET_DIR),$(CARGO_BUILD_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(BUILD_OUTPUT)
PROGRAM := $(BUILD_OUTPUT)/$(CARGO_BUILD_TARGET:%=%/)release/selfsame
# What the tests are built with, and how they are compiled.
FAULTS := --features fault-injection,selfsame-actors/simulation
QUICKLY ?= --config tests/profile.toml
export QUICKLY
# The compiler whose warnings are errors. Those of other compilers are shown, so that the day of a new one
# breaks nothing.
LINT_COMPILER := 1.95.0
WARNINGS = $(if $(filter $(LINT_COMPILER),$(shell rustc --version | cut -d ' ' -f 2)),-D warnings)
# The first seed of tests with random input: that of the commit, so that a change is not refused for a rare
# fault that it did not make. The longer runs draw one.
COMMIT_SEED = $(shell printf '%d' 0x$$(git rev-parse --short=8 HEAD 2>/dev/null || echo 1))
NEW_SEED = $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
ifndef TEST_SEED
TEST_SEED := $(COMMIT_SEED)
test-all torture torture-cluster torture-load: TEST_SEED := $(NEW_SEED)
endif
export TEST_SEED
# They test the program as it is released, with its optimization, and compiled as a whole.
test-all torture torture-cluster torture-load: export QUICKLY :=
test-all torture torture-cluster torture-load bench bench-large: export CARGO_INCREMENTAL := 0

# The commit of the sources and its day, for `selfsame --version`; empty outside of a clone. Who
# packages an archive of the sources can set both.
BUILD_COMMIT ?= $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)
BUILD_COMMIT_DATE ?= $(shell TZ=UTC git show --no-patch --date=format-local:%Y-%m-%d --format=%cd HEAD 2>/dev/null)
export BUILD_COMMIT := $(BUILD_COMMIT)
export BUILD_COMMIT_DATE := $(BUILD_COMMIT_DATE)

.PHONY: run build cluster test test-all test-gate test-rust outer-suites lint checks features docs \
	test-relying-parties test-bridge test-vote test-applications test-published-client test-webhooks test-proxies \
	test-contract test-wallets test-web-wallet test-monitoring pictures test-models test-embedder test-chain test-cluster \
	daemon-under-test node-packages python-packages prerequisites torture torture-cluster torture-load \
	bench bench-large dist package-test container

# Builds the daemon and starts it with example applications and public test keys (data in
# ./selfsame-data).
run: build
	$(PROGRAM) serve --dev

build: prerequisites
	$(CARGO) build --release --workspace --bin selfsame
	scripts/strip.sh $(PROGRAM)

# Starts a cluster on this machine: three members of etcd, three daemons, and a proxy in front (data
# in ./selfsame-cluster).
cluster: build
	scripts/prerequisites.sh cluster
	SELFSAME=$(PROGRAM) scripts/cluster.py

# What the build needs from the system, and RocksDB, which is compiled once.
prerequisites:
	@scripts/prerequisites.sh
	@scripts/rocksdb.sh $(BUILD_OUTPUT)

# ---- Tests. Each step goes through STEP, which notes its time; a step with `--inputs` is left out when it has
# passed on this machine with the same content of these paths and of the program's sources.

STEP := scripts/suite.py $(BUILD_OUTPUT)/suites
PACKAGES := $(BUILD_OUTPUT)/packages
PYTHON := $(PACKAGES)/python/bin/python
# One process for each test, with the groups, limits and repeats of .config/nextest.toml.
NEXTEST = env PROPTEST_RNG_SEED=$(TEST_SEED) $(PACKAGES)/python/bin/cargo-nextest nextest run --cargo-profile release $(QUICKLY) --workspace $(FAULTS)

# Every check that CI runs, first what takes seconds. The times of the steps are printed at the end, also when one of
# them fails.
test:
	@rm -f $(BUILD_OUTPUT)/suites/times
	@$(MAKE) --no-print-directory test-gate; status=$$?; $(STEP) --table; exit $$status

test-gate: prerequisites python-packages
	$(STEP) lint -- $(MAKE) lint
	$(STEP) checks -- $(MAKE) checks
	$(STEP) build-tests -- $(NEXTEST) --no-run
	$(STEP) rules-of-texts -- $(NEXTEST) -E 'test(/^structure::/)'
	$(STEP) rust-tests -- $(MAKE) test-rust
	$(MAKE) test-models test-chain test-cluster
	$(STEP) build-published-client -- $(PUBLISHED) --no-run --example application --tests
	$(MAKE) outer-suites
	$(STEP) features -- $(MAKE) features
	$(STEP) crate-documents -- $(CARGO) doc --release --workspace --no-deps --quiet
	scripts/rocksdb.sh $(BUILD_OUTPUT) --check

# Everything, also what the gate leaves out: optimization, long histories, new seeds, suites that have passed before,
# the waits of more than a minute at the proxies, and the released program in place of the one with fault points. It
# takes hours.
test-all:
	ALL=1 LONG=1 NEXTEST_PROFILE=long PROPTEST_CASES=2000 $(HISTORIES) $(MAKE) test
	$(MAKE) build
	ALL=1 $(MAKE) outer-suites RELEASED=1
	$(MAKE) torture torture-load torture-cluster
HISTORIES := TEST_SIMULATION_HISTORIES=1000 TEST_SHARED_LEDGER_HISTORIES=400 TEST_CLUSTER_HISTORIES=500 TEST_REPLICA_HISTORIES=400 \
	TEST_VERIFICATION_HISTORIES=500 TEST_SIGN_IN_HISTORIES=500 TEST_FOREIGN_PROOFS=10000 TEST_DAILY_SIGN_INS=3 \
	TEST_GROWTH_PEOPLE=200 TEST_BUNDLES=100000 TEST_PROVER_WITNESSES=10000 TEST_PROVER_PROOFS=256 \
	TEST_PROVER_WRONG=96 TEST_PROVER_ARITHMETIC=100000

# The tests of the workspace. They leave a mark of each fault that strikes, and the faults of
# tests/fault_coverage.txt must be among them.
FAULT_COVERAGE := $(BUILD_OUTPUT)/fault-coverage
test-rust: prerequisites python-packages
	rm -rf $(FAULT_COVERAGE)
	@echo "the seeds of the tests with random input: TEST_SEED=$(TEST_SEED) PROPTEST_RNG_SEED=$(TEST_SEED)"
	FAULT_COVERAGE=$(FAULT_COVERAGE) $(NEXTEST)
	scripts/fault-coverage.py $(FAULT_COVERAGE)
	$(CARGO) test --release $(QUICKLY) --workspace $(FAULTS) --doc

# Runs a program that embeds the actors, as another project would have it (tests/embedder).
test-embedder: prerequisites python-packages
	$(NEXTEST) -E 'package(selfsame-embedder)'

# Runs the models of the parts that threads share (docs/architecture.md, "Models"), in a workspace of
# their own.
test-models:
	CARGO_TARGET_DIR=$(BUILD_OUTPUT)/models $(STEP) models --inputs tests/models -- \
		$(CARGO) test --release --manifest-path tests/models/Cargo.toml

# Runs the tests that need a local chain, with anvil at the version of the lock file, or the program
# that ANVIL names. Checks first that the committed contracts are what their sources give.
export ANVIL ?= $(PACKAGES)/node/tests/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil
test-chain: prerequisites node-packages python-packages
	$(STEP) contracts --inputs tests/chain tests/package-lock.json -- node tests/chain/build.mjs --check
	$(STEP) chain --inputs tests/it tests/chain tests/package-lock.json tests/requirements.txt --variables ANVIL QUICKLY -- \
		$(NEXTEST) --run-ignored only -E 'test(local_chain) | test(on_anvil)'

# Runs the tests that need etcd. They start members of their own.
test-cluster: prerequisites python-packages
	scripts/prerequisites.sh cluster
	$(STEP) cluster --inputs tests/it tests/requirements.txt \
		--variables QUICKLY TEST_TORTURE_SEED TEST_CLUSTER_DISTURBANCES TEST_CLUSTER_FAILOVERS -- \
		$(NEXTEST) --run-ignored only -E 'test(on_etcd)'

# ---- Suites that use the program as its users do, with libraries of others. They run the program that the tests
# have been built with, whose fault points do nothing unless a test arms them; `RELEASED=1` runs the released one.

export DAEMON := $(PROGRAM)
ifdef RELEASED
daemon-under-test: build
else
# `--test it` makes cargo choose the features of the dependencies as for the tests, so that nothing is compiled again.
daemon-under-test: prerequisites
	$(CARGO) build --release $(QUICKLY) --workspace $(FAULTS) --bin selfsame --test it
endif

# All of them, two at a time, the longest first.
outer-suites: daemon-under-test node-packages python-packages
	scripts/prerequisites.sh browser
	scripts/prerequisites.sh proxies
	scripts/prerequisites.sh monitoring
	scripts/prerequisites.sh web-wallet
	$(STEP) build-web-wallet -- $(WEB_WALLET) --no-run
	$(MAKE) --jobs 2 --output-sync=target BUILT=1 test-relying-parties test-contract test-published-client \
		test-applications test-web-wallet test-proxies test-monitoring test-bridge test-vote test-wallets docs test-webhooks
# What a suite needs before it, unless `outer-suites` has made it.
ifndef BUILT
SUITE_NEEDS := daemon-under-test node-packages python-packages
endif
# What the suites in Node.js take from each other and from the examples, and their packages.
NODE_INPUTS := tests/relying_parties tests/bridge tests/applications tests/proxies tests/package-lock.json docs/applications examples

# Runs relying parties with libraries that applications use. LONG=1 has the scenes of people who are stranded in Firefox,
# too.
test-relying-parties: $(SUITE_NEEDS)
	scripts/prerequisites.sh browser
	[ -z "$(LONG)" ] || scripts/prerequisites.sh browsers
	$(STEP) relying-parties --inputs $(NODE_INPUTS) --variables LONG -- node --test tests/relying_parties/node/*.test.mjs
	[ -z "$(LONG)" ] || $(STEP) stranded-firefox -- env BROWSER=firefox node --test tests/relying_parties/node/stranded.test.mjs
	$(STEP) authlib --inputs tests/relying_parties tests/requirements.txt -- $(PYTHON) tests/relying_parties/python/test_authlib.py

# Makes a picture of every page that end users see at sign-in and in the web wallet, in each of its states, on
# two phones and on a desktop, light and dark, in the folder PICTURES=… (PICTURE_LANGUAGE=en).
PICTURES ?= $(BUILD_OUTPUT)/pictures
PICTURE_LANGUAGE ?= en
pictures: $(SUITE_NEEDS)
	scripts/prerequisites.sh browser
	node tests/relying_parties/node/pictures.mjs $(PICTURES) $(PICTURE_LANGUAGE)
	node tests/web-wallet/pictures.mjs $(PICTURES)/web-wallet $(PICTURE_LANGUAGE)

# Runs pages' client kits with the wallet behind the message bridge. LONG=1 has the whole table of what they ask for.
test-bridge: $(SUITE_NEEDS)
	scripts/prerequisites.sh browser
	$(STEP) bridge --inputs $(NODE_INPUTS) --variables LONG -- node --test tests/bridge/node/*.test.mjs

# Holds a vote with the ballot box of examples/vote and the commands of docs/groups.md. LONG=1 has 300 members.
test-vote: $(SUITE_NEEDS)
	scripts/prerequisites.sh browser
	$(STEP) vote --inputs tests/vote docs/groups.md $(NODE_INPUTS) --variables LONG -- node --test tests/vote/*.test.mjs

# Runs published client libraries (of wallets, and of relying parties in Rust). They have a workspace of
# their own.
PUBLISHED_INPUTS := tests/published docs/applications tests/chain
PUBLISHED := env CARGO_TARGET_DIR=$(BUILD_OUTPUT)/published-client $(CARGO) test --manifest-path tests/published/Cargo.toml
test-published-client: $(SUITE_NEEDS)
	$(STEP) published-client --inputs $(PUBLISHED_INPUTS) -- $(PUBLISHED)

# Runs the applications of docs/applications as a developer starts them, and signs in.
test-applications: $(SUITE_NEEDS)
	scripts/prerequisites.sh browser
	$(PUBLISHED) --no-run --example application
	PYTHON=$(PYTHON) APPLICATION_RS=$(BUILD_OUTPUT)/published-client/$(CARGO_BUILD_TARGET:%=%/)debug/examples/application \
		$(STEP) applications --inputs $(NODE_INPUTS) $(PUBLISHED_INPUTS) tests/requirements.txt -- node --test tests/applications/node/*.test.mjs

# Checks webhooks with a published library for receivers, also while the daemon's program is killed.
test-webhooks: $(SUITE_NEEDS)
	$(STEP) webhooks --inputs tests/webhooks $(NODE_INPUTS) -- node --test tests/webhooks/node/*.test.mjs

# Runs sign-in, operations and streams through nginx, Caddy and Traefik with the configurations of
# packaging/proxies. The variables NGINX, CADDY and TRAEFIK may name other programs of the proxies. LONG=1
# adds waits of more than a minute (four minutes in all).
test-proxies: $(SUITE_NEEDS)
	scripts/prerequisites.sh proxies
	TRAEFIK=$${TRAEFIK:-$(PACKAGES)/python/bin/traefik} \
		$(STEP) proxies --inputs tests/proxies packaging/proxies tests/requirements.txt --variables LONG NGINX CADDY TRAEFIK \
		-- node --test tests/proxies/*.test.mjs

# Makes requests from the OpenAPI descriptions, with a fixed seed, and checks every answer against them.
test-contract: $(SUITE_NEEDS)
	$(STEP) contract --inputs tests/contract tests/requirements.txt -- $(PYTHON) tests/contract/test_contract.py

# Runs the example of an authenticator, at the versions of its lock file, against the worked examples of
# docs/wallets.md and docs/wallet-sign-in.md, and against the daemon's program; and clients in TypeScript and Python
# that are generated from the descriptions.
test-wallets: $(SUITE_NEEDS)
	$(STEP) authenticator --inputs examples docs/wallet-vectors.json $(NODE_INPUTS) -- npm --prefix examples/authenticator test --silent
	$(STEP) client-typescript --inputs tests/clients $(NODE_INPUTS) -- node --test tests/clients/node/*.test.mjs
	$(STEP) client-python --inputs tests/clients tests/requirements.txt -- $(PYTHON) tests/clients/python/test_generated_client.py

# Compares the prover of the web wallet with other libraries and with the daemon's verifier, and the checked-in
# WebAssembly with a build of its sources and with the native prover. It has a workspace of its own.
# TEST_PROVER_WITNESSES=… chooses how many random witnesses (64), TEST_PROVER_PROOFS=… how many of the proofs that take a
# second each (64). Then compares the checked-in pages with a build of their sources, and runs their tests: the rules in
# Node.js, also against a daemon, and people's ways in browsers.
WEB_WALLET := env CARGO_TARGET_DIR=$(BUILD_OUTPUT)/web-wallet $(CARGO) test --release --manifest-path web-wallet/Cargo.toml
test-web-wallet: $(SUITE_NEEDS)
	scripts/prerequisites.sh web-wallet
	scripts/prerequisites.sh browser
	[ -z "$(LONG)" ] || scripts/prerequisites.sh browsers
	$(STEP) prover --inputs web-wallet --variables TEST_PROVER_WITNESSES TEST_PROVER_PROOFS TEST_PROVER_ARITHMETIC \
		TEST_PROVER_WRONG -- $(WEB_WALLET)
	$(STEP) prover-wasm --inputs web-wallet -- web-wallet/prover/build.sh --check
	$(STEP) prover-node --inputs web-wallet -- node --test web-wallet/prover/prover.test.mjs
	$(STEP) web-wallet-build --inputs web-wallet -- npm --prefix web-wallet run check --silent
	$(STEP) web-wallet-rules --inputs web-wallet docs/interfaces/wallet.md tests/package-lock.json --variables LONG -- node --test web-wallet/tests/
	$(STEP) web-wallet-pages --inputs web-wallet tests/web-wallet $(NODE_INPUTS) --variables LONG -- \
		node --test tests/web-wallet/*.test.mjs

# Runs the alerts and the queries of the dashboard with Prometheus, which reads the metrics of the
# daemon's program at work.
test-monitoring: $(SUITE_NEEDS)
	scripts/prerequisites.sh monitoring
	$(STEP) monitoring --inputs tests/monitoring packaging/monitoring docs/operations -- python3 tests/monitoring/test_monitoring.py

# The documentation as a site, in the folder `docs/site` of the build output.
docs: $(SUITE_NEEDS)
	$(STEP) docs --inputs docs examples packaging benches tests README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE \
		Containerfile deny.toml --variables MDBOOK -- scripts/docs.sh $(BUILD_OUTPUT)

# The packages of the tests, installed once for each content of their lock files.
node-packages:
	@scripts/prerequisites.sh node
	@scripts/test-packages.sh $(BUILD_OUTPUT) node
python-packages:
	@scripts/prerequisites.sh python
	@scripts/test-packages.sh $(BUILD_OUTPUT) python

# ---- Checks without a run of the program.

lint: prerequisites
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path tests/published/Cargo.toml --check
	$(CARGO) fmt --manifest-path tests/models/Cargo.toml --check
	$(CARGO) fmt --manifest-path web-wallet/Cargo.toml --all --check
	$(CARGO) clippy --release --workspace --all-targets $(FAULTS) -- $(WARNINGS)
	CARGO_TARGET_DIR=$(BUILD_OUTPUT)/web-wallet $(CARGO) clippy --release --manifest-path web-wallet/Cargo.toml \
		--package selfsame-prover --all-targets -- $(WARNINGS)

# The program compiles with each set of features that a packager may choose, without a warning.
features: prerequisites
	$(CARGO) clippy --release --package selfsame --bin selfsame -- $(WARNINGS)
	$(CARGO) clippy --release --package selfsame --bin selfsame --no-default-features -- $(WARNINGS)
	$(CARGO) clippy --release --package selfsame --bin selfsame --no-default-features --features wallet -- $(WARNINGS)
	$(CARGO) clippy --release --package selfsame --bin selfsame --no-default-features --features otlp -- $(WARNINGS)
	$(CARGO) clippy --release --package selfsame --bin selfsame --no-default-features --features web-wallet -- $(WARNINGS)

# Spelling; licenses, sources and versions of the dependencies; packages of the published crates; the scripts.
checks: python-packages
	scripts/checks.sh $(BUILD_OUTPUT)

# ---- Longer runs, by hand or in `test-all`.

# Kills the daemon 300 times (or KILLS=…) while clients send requests, and as often on a simulated
# disk that loses power, and checks every answer that a client got; loses power in as many backups,
# restores and rebuilds. It prints the seed.
torture: prerequisites python-packages
	TEST_TORTURE_KILLS=$${KILLS:-300} $(NEXTEST) --no-capture --profile long -E 'test(/^torture::/)'

# Disturbs a cluster 370 times (or DISTURBANCES=…) while clients send requests, more than half of the
# time by a kill or a pause of the leader, and kills its leader 50 times (or FAILOVERS=…) to measure how
# long no write is accepted. It takes about an hour, and prints the seed.
torture-cluster: prerequisites python-packages
	scripts/prerequisites.sh cluster
	TEST_CLUSTER_DISTURBANCES=$${DISTURBANCES:-370} TEST_CLUSTER_FAILOVERS=$${FAILOVERS:-50} \
		$(NEXTEST) --no-capture --profile long --run-ignored only -E 'test(/^cluster::torture/)'

# Runs hostile clients: ten times the load that the daemon can serve for OVERLOAD_SECONDS=180, and
# HOSTILE_CASES=1000000 random requests.
torture-load: prerequisites python-packages
	TEST_OVERLOAD_SECONDS=$${OVERLOAD_SECONDS:-180} TEST_HOSTILE_CASES=$${HOSTILE_CASES:-1000000} \
		$(NEXTEST) --no-capture --profile long -E 'test(/^(overload|hostile_http)::/)'

# Measures ratios to the bare hash, the bare server and the disk's sync; see docs/benchmarks.md.
bench: prerequisites
	$(CARGO) bench --workspace

# The load benchmark on a store of ten million accounts (or LARGE=…), a minute for each measurement. The
# store is made in about two minutes, kept in the build output, and copied for each run; that takes 5 GB
# of disk, and what the run adds. It ends with a check of the store.
LARGE ?= 10000000
bench-large: prerequisites
	LOAD_LARGE=$(LARGE) LOAD_DATA=$(BUILD_OUTPUT)/large-store/$(LARGE) LOAD_FOLDER=$(BUILD_OUTPUT)/large-store \
		LOAD_SECONDS=$${LOAD_SECONDS:-60} $(CARGO) bench --workspace --bench load
	time $(CARGO) run --release --quiet --bin selfsame -- registry fsck --data $(BUILD_OUTPUT)/large-store/$(LARGE)

# ---- Releases.

# The files of a release, in the folder `dist` of the build output; see CONTRIBUTING.md, "Releasing".
dist: prerequisites
	@scripts/prerequisites.sh packaging
	scripts/dist.sh $(BUILD_OUTPUT)

# Installs the package of `make dist` on clean Debian systems and signs in; needs root.
package-test:
	@scripts/prerequisites.sh package-test
	scripts/package-test.sh $(BUILD_OUTPUT)

# The image of the Containerfile, with podman, or with the program that CONTAINER names. Only images in
# Docker's format have a health check.
CONTAINER ?= podman
container:
	$(CONTAINER) build --format docker --file Containerfile --tag selfsame \
		--build-arg VERSION=$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml) \
		--build-arg BUILD_COMMIT=$(BUILD_COMMIT) --build-arg BUILD_COMMIT_DATE=$(BUILD_COMMIT_DATE) .
