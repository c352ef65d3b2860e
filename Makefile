# The two commands: `make run` and `make test`. Everything is built in the release profile, so that RocksDB is built once.

CARGO ?= cargo
BUILD_OUTPUT := $(abspath $(or $(CARGO_TARGET_DIR),target))

.PHONY: run build test test-published-client lint bench prerequisites

# Builds the daemon and starts it with what trying it out needs (data in ./selfsame-data).
run: build
	$(CARGO) run --release --quiet --bin selfsame -- serve --dev

build: prerequisites
	$(CARGO) build --release --bin selfsame

# Every check that CI runs.
test: prerequisites lint
	$(CARGO) test --release --workspace
	$(MAKE) test-published-client
	$(CARGO) doc --release --workspace --no-deps --quiet

# The published client library of wallets, in a workspace of its own, against the daemon's program.
test-published-client: build
	DAEMON=$(BUILD_OUTPUT)/release/selfsame CARGO_TARGET_DIR=$(BUILD_OUTPUT)/published-client \
		$(CARGO) test --manifest-path tests/published/Cargo.toml

lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path tests/published/Cargo.toml --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

# Ratios against the bare hash, the bare server and the disk's sync; see docs/benchmarks.md.
bench: prerequisites
	$(CARGO) bench --workspace

prerequisites:
	@scripts/prerequisites.sh
