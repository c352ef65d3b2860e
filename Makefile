# The main targets are `run` and `test`. All targets build in the release profile, so that RocksDB
# is built once.

CARGO ?= cargo
# What the tests are built with.
FAULTS := --features fault-injection,selfsame-actors/simulation
BUILD_OUTPUT := $(abspath $(or $(CARGO_TARGET_DIR),target))

# The commit of the sources and its day, for `selfsame --version`; empty outside of a clone. Who
# packages an archive of the sources can set both.
BUILD_COMMIT ?= $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)
BUILD_COMMIT_DATE ?= $(shell TZ=UTC git show --no-patch --date=format-local:%Y-%m-%d --format=%cd HEAD 2>/dev/null)
export BUILD_COMMIT := $(BUILD_COMMIT)
export BUILD_COMMIT_DATE := $(BUILD_COMMIT_DATE)

.PHONY: run build test test-embedder test-models public-api accept-public-api test-published-client test-relying-parties test-applications test-webhooks test-proxies test-contract test-wallets test-monitoring docs test-chain test-cluster daemon-under-test lint checks cluster torture torture-cluster torture-load bench bench-large prerequisites dist package-test container

# Builds the daemon and starts it with example applications and public test keys (data in
# ./selfsame-data).
run: build
	$(CARGO) run --release --quiet --bin selfsame -- serve --dev

build: prerequisites
	$(CARGO) build --release --bin selfsame

# Starts a cluster on this machine: three members of etcd, three daemons, and a proxy in front (data
# in ./selfsame-cluster).
cluster: build
	scripts/prerequisites.sh cluster
	SELFSAME=$(BUILD_OUTPUT)/release/selfsame scripts/cluster.py

# Every check that CI runs. The tests of the workspace leave a mark of each fault that strikes, and the
# faults of tests/fault_coverage.txt must be among them.
FAULT_COVERAGE := $(BUILD_OUTPUT)/fault-coverage
test: prerequisites lint checks
	rm -rf $(FAULT_COVERAGE)
	FAULT_COVERAGE=$(FAULT_COVERAGE) $(CARGO) test --release --workspace $(FAULTS)
	scripts/fault-coverage.py $(FAULT_COVERAGE)
	$(MAKE) test-models test-embedder public-api test-chain test-cluster test-published-client test-relying-parties test-applications test-webhooks test-proxies test-contract test-wallets test-monitoring docs
	$(CARGO) doc --release --workspace --no-deps --quiet

# Runs a program that embeds the actors, with `ractor_cluster`. It has a workspace of its own, and gets
# the RocksDB that the daemon's workspace has compiled last.
ROCKSDB = $(or $(ROCKSDB_LIB_DIR),$(dir $(shell ls -t $(BUILD_OUTPUT)/release/build/librocksdb-sys-*/out/librocksdb.a | head -n 1)))
test-embedder: prerequisites
	ROCKSDB_LIB_DIR=$(ROCKSDB) ROCKSDB_STATIC=1 CARGO_TARGET_DIR=$(BUILD_OUTPUT)/published-client \
		$(CARGO) test --manifest-path tests/embedder/Cargo.toml

# Compares the public items of the actors with the list actors/public-api.txt. `make accept-public-api`
# writes the list anew, after a change that is meant.
public-api: prerequisites
	CARGO_TARGET_DIR=$(BUILD_OUTPUT)/published-client $(CARGO) test --quiet --manifest-path tests/public_api/Cargo.toml
	$(PUBLIC_API) check
accept-public-api: prerequisites
	$(PUBLIC_API) accept
PUBLIC_API = ROCKSDB_LIB_DIR=$(ROCKSDB) ROCKSDB_STATIC=1 CARGO_TARGET_DIR=$(BUILD_OUTPUT)/published-client \
	$(CARGO) run --quiet --manifest-path tests/public_api/Cargo.toml --

# Runs the models of the parts that threads share (docs/architecture.md, "Models"), in a workspace of
# their own.
test-models:
	CARGO_TARGET_DIR=$(BUILD_OUTPUT)/models $(CARGO) test --release --manifest-path tests/models/Cargo.toml

# Runs published client libraries (of wallets, and of relying parties in Rust) against the daemon's
# program. They have a workspace of their own.
test-published-client: daemon-under-test
	DAEMON=$(BUILD_OUTPUT)/release/selfsame CARGO_TARGET_DIR=$(BUILD_OUTPUT)/published-client \
		$(CARGO) test --manifest-path tests/published/Cargo.toml

# Runs relying parties with libraries that applications use, and pages' client kits with the wallet
# behind the message bridge, at the versions of their lock files, against the daemon's program.
test-relying-parties: daemon-under-test
	scripts/prerequisites.sh relying-parties
	cd tests/relying_parties/node && npm ci --no-audit --no-fund --silent
	cd tests/relying_parties/node && DAEMON=$(BUILD_OUTPUT)/release/selfsame node --test
	cd tests/bridge/node && npm ci --no-audit --no-fund --silent
	cd tests/bridge/node && DAEMON=$(BUILD_OUTPUT)/release/selfsame node --test
	python3 -m venv $(BUILD_OUTPUT)/relying-parties
	$(BUILD_OUTPUT)/relying-parties/bin/pip install --quiet --requirement tests/relying_parties/python/requirements.txt
	cd tests/relying_parties/python && DAEMON=$(BUILD_OUTPUT)/release/selfsame $(BUILD_OUTPUT)/relying-parties/bin/python test_authlib.py

# Runs the applications of docs/applications as a developer starts them, and signs in.
test-applications: daemon-under-test
	scripts/prerequisites.sh relying-parties
	cd tests/relying_parties/node && npm ci --no-audit --no-fund --silent
	cd tests/applications/node && npm ci --no-audit --no-fund --silent
	python3 -m venv $(BUILD_OUTPUT)/applications
	$(BUILD_OUTPUT)/applications/bin/pip install --quiet --require-hashes --requirement tests/applications/python/requirements.txt
	CARGO_TARGET_DIR=$(BUILD_OUTPUT)/published-client $(CARGO) build --manifest-path tests/published/Cargo.toml --example application
	cd tests/applications/node && DAEMON=$(BUILD_OUTPUT)/release/selfsame PYTHON=$(BUILD_OUTPUT)/applications/bin/python \
		APPLICATION_RS=$(BUILD_OUTPUT)/published-client/debug/examples/application node --test

# Checks webhooks with a published library for receivers, also while the daemon's program is killed.
test-webhooks: daemon-under-test
	scripts/prerequisites.sh relying-parties
	cd tests/webhooks/node && npm ci --no-audit --no-fund --silent
	cd tests/webhooks/node && DAEMON=$(BUILD_OUTPUT)/release/selfsame node --test

# The documentation as a site, in the folder `docs/site` of the build output.
docs: daemon-under-test
	scripts/prerequisites.sh docs
	DAEMON=$(BUILD_OUTPUT)/release/selfsame scripts/docs.sh $(BUILD_OUTPUT)/docs

# Runs sign-in, operations and streams through nginx, Caddy and Traefik with the configurations of
# packaging/proxies, against the daemon's program. The variables NGINX, CADDY and TRAEFIK may name
# other programs of the proxies. LONG=1 adds waits of more than a minute (four minutes in all).
test-proxies: daemon-under-test
	scripts/prerequisites.sh proxies
	python3 -m venv $(BUILD_OUTPUT)/proxies
	$(BUILD_OUTPUT)/proxies/bin/pip install --quiet --require-hashes --requirement tests/proxies/requirements.txt
	cd tests/proxies && DAEMON=$(BUILD_OUTPUT)/release/selfsame \
		TRAEFIK=$${TRAEFIK:-$(BUILD_OUTPUT)/proxies/bin/traefik} node --test

# Makes requests from the OpenAPI descriptions, with a fixed seed, and checks every answer against them.
test-contract: daemon-under-test
	scripts/prerequisites.sh relying-parties
	python3 -m venv $(BUILD_OUTPUT)/contract
	$(BUILD_OUTPUT)/contract/bin/pip install --quiet --require-hashes --requirement tests/contract/requirements.txt
	cd tests/contract && DAEMON=$(BUILD_OUTPUT)/release/selfsame $(BUILD_OUTPUT)/contract/bin/python test_contract.py

# Runs the example of an authenticator, at the versions of its lock file, against the worked examples of
# docs/wallets.md and the daemon's program; and clients in TypeScript and Python that are generated from the
# descriptions.
test-wallets: daemon-under-test
	scripts/prerequisites.sh relying-parties
	cd examples/authenticator && npm ci --no-audit --no-fund --silent
	cd examples/authenticator && DAEMON=$(BUILD_OUTPUT)/release/selfsame npm test --silent
	cd tests/clients/node && npm ci --no-audit --no-fund --silent && DAEMON=$(BUILD_OUTPUT)/release/selfsame node --test
	python3 -m venv $(BUILD_OUTPUT)/clients
	$(BUILD_OUTPUT)/clients/bin/pip install --quiet --require-hashes --requirement tests/clients/python/requirements.txt
	cd tests/clients/python && DAEMON=$(BUILD_OUTPUT)/release/selfsame $(BUILD_OUTPUT)/clients/bin/python test_generated_client.py

# Runs the alerts and the queries of the dashboard with Prometheus, which reads the metrics of the
# daemon's program at work.
test-monitoring: daemon-under-test
	scripts/prerequisites.sh monitoring
	cd tests/monitoring && DAEMON=$(BUILD_OUTPUT)/release/selfsame python3 test_monitoring.py

# Runs the tests that need a local chain, with anvil at the version of the lock file, or the program
# that ANVIL names. Checks first that the committed contracts are what their sources give.
ANVIL ?= $(CURDIR)/tests/chain/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil
test-chain: prerequisites
	scripts/prerequisites.sh chain
	cd tests/chain && npm ci --no-audit --no-fund --silent && node build.mjs --check
	ANVIL=$(ANVIL) $(CARGO) test --release --workspace $(FAULTS) --test it -- local_chain on_anvil --ignored

# Runs the tests that need etcd. They start members of their own. Those of the lease run one after the
# other: one that is not renewed for three seconds ends, as it should.
test-cluster: prerequisites
	scripts/prerequisites.sh cluster
	$(CARGO) test --release --workspace $(FAULTS) --lib -- on_etcd --ignored --test-threads 1
	$(CARGO) test --release --workspace $(FAULTS) --test it -- on_etcd --ignored

# The daemon as it is released, without the feature `fault-injection`. The second target is built
# already when the tests were; it makes cargo choose the features of the dependencies as for the
# tests, so that none is compiled a second time.
daemon-under-test: prerequisites
	$(CARGO) build --release --workspace --bin selfsame --test hostile_input

lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path tests/published/Cargo.toml --check
	$(CARGO) fmt --manifest-path tests/embedder/Cargo.toml --check
	$(CARGO) fmt --manifest-path tests/models/Cargo.toml --check
	$(CARGO) fmt --manifest-path tests/public_api/Cargo.toml --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	$(CARGO) clippy --release --workspace --all-targets $(FAULTS) -- -D warnings

# Spelling; licenses, sources and versions of the dependencies; packages of the published crates.
checks:
	@scripts/prerequisites.sh checks
	scripts/checks.sh $(BUILD_OUTPUT)/checks

# Kills the daemon 300 times (or KILLS=…) while clients send requests, and as often on a simulated
# disk that loses power, and checks every answer that a client got; loses power in as many backups,
# restores and rebuilds. It prints the seed.
torture: prerequisites
	SELFSAME_TORTURE_KILLS=$${KILLS:-300} \
		$(CARGO) test --release --workspace $(FAULTS) --test it torture -- --nocapture

# Disturbs a cluster 370 times (or DISTURBANCES=…) while clients send requests, more than half of the
# time by a kill or a pause of the leader, and kills its leader 50 times (or FAILOVERS=…) to measure how
# long no write is accepted. It takes about an hour, and prints the seed.
torture-cluster: prerequisites
	scripts/prerequisites.sh cluster
	SELFSAME_CLUSTER_DISTURBANCES=$${DISTURBANCES:-370} SELFSAME_CLUSTER_FAILOVERS=$${FAILOVERS:-50} \
		$(CARGO) test --release --workspace $(FAULTS) --test it cluster::torture -- --ignored \
		--nocapture --test-threads 1

# Runs hostile clients: ten times the load that the daemon can serve for OVERLOAD_SECONDS=180, and
# HOSTILE_CASES=1000000 random requests.
torture-load: prerequisites
	SELFSAME_OVERLOAD_SECONDS=$${OVERLOAD_SECONDS:-180} SELFSAME_HOSTILE_CASES=$${HOSTILE_CASES:-1000000} \
		$(CARGO) test --release --workspace $(FAULTS) --test it overload hostile_http -- --nocapture

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

# The files of a release, in the folder `dist` of the build output; see docs/releasing.md.
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

prerequisites:
	@scripts/prerequisites.sh
