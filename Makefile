# The two commands: `make run` and `make test`. Everything is built in the release profile, so that RocksDB is built once.

CARGO ?= cargo

.PHONY: run build test lint bench prerequisites

# Builds the daemon and starts it with what trying it out needs (data in ./selfsame-data).
run: build
	$(CARGO) run --release --quiet --bin selfsame -- serve --dev

build: prerequisites
	$(CARGO) build --release --bin selfsame

# Every check that CI runs.
test: prerequisites lint
	$(CARGO) test --release --workspace
	$(CARGO) doc --release --workspace --no-deps --quiet

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

# Ratios against the bare hash, the bare server and the disk's sync; see docs/benchmarks.md.
bench: prerequisites
	$(CARGO) bench --workspace

prerequisites:
	@scripts/prerequisites.sh
