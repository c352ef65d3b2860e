# The two commands: `make run` and `make test`. Everything is built in the release profile, so that RocksDB is built once.

CARGO ?= cargo
BUILD_OUTPUT := $(abspath $(or $(CARGO_TARGET_DIR),target))

.PHONY: run build test test-published-client test-relying-parties lint torture torture-load bench prerequisites

# Builds the daemon and starts it with what trying it out needs (data in ./selfsame-data).
run: build
	$(CARGO) run --release --quiet --bin selfsame -- serve --dev

build: prerequisites
	$(CARGO) build --release --bin selfsame

# Every check that CI runs.
test: prerequisites lint
	$(CARGO) test --release --workspace --features fault-injection
	$(MAKE) test-published-client test-relying-parties
	$(CARGO) doc --release --workspace --no-deps --quiet

# Published client libraries (of wallets; of relying parties in Rust), in a workspace of their own, against the daemon's program.
test-published-client: build
	DAEMON=$(BUILD_OUTPUT)/release/selfsame CARGO_TARGET_DIR=$(BUILD_OUTPUT)/published-client \
		$(CARGO) test --manifest-path tests/published/Cargo.toml

# Relying parties with libraries that applications use, from their lock files, against the daemon's program.
test-relying-parties: build
	scripts/prerequisites.sh relying-parties
	cd tests/relying_parties/node && npm ci --no-audit --no-fund --silent
	cd tests/relying_parties/node && DAEMON=$(BUILD_OUTPUT)/release/selfsame node --test
	python3 -m venv $(BUILD_OUTPUT)/relying-parties
	$(BUILD_OUTPUT)/relying-parties/bin/pip install --quiet --requirement tests/relying_parties/python/requirements.txt
	cd tests/relying_parties/python && DAEMON=$(BUILD_OUTPUT)/release/selfsame $(BUILD_OUTPUT)/relying-parties/bin/python test_authlib.py

lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path tests/published/Cargo.toml --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	$(CARGO) clippy --release --workspace --all-targets --features fault-injection -- -D warnings

# Kills the daemon 300 times (or KILLS=…) while clients are at work, and as often on a disk whose power fails, and checks what they
# were told; the seed is printed.
torture: prerequisites
	SELFSAME_TORTURE_KILLS=$${KILLS:-300} \
		$(CARGO) test --release --workspace --features fault-injection --test it torture -- --nocapture

# Clients that mean harm: ten times what the daemon can do for OVERLOAD_SECONDS=180, and HOSTILE_CASES=1000000 random requests.
torture-load: prerequisites
	SELFSAME_OVERLOAD_SECONDS=$${OVERLOAD_SECONDS:-180} SELFSAME_HOSTILE_CASES=$${HOSTILE_CASES:-1000000} \
		$(CARGO) test --release --workspace --features fault-injection --test it overload hostile_http -- --nocapture

# Ratios against the bare hash, the bare server and the disk's sync; see docs/benchmarks.md.
bench: prerequisites
	$(CARGO) bench --workspace

prerequisites:
	@scripts/prerequisites.sh
