#!/usr/bin/env bash
# Builds prover.wasm with Debian 12's packages rustc and libstd-rust-dev-wasm32 (1.63) and lld (14), which do not
# change for years (`scripts/prerequisites.sh web-wallet` installs them). It builds in two folders and compares the
# bytes, so that no path of this machine is in the file.
# Usage: build.sh [--check], which compares the checked-in file with the build, in place of writing it.
set -euo pipefail
cd "$(dirname "$0")"

compiler=$(/usr/bin/rustc --version)
if [ "$compiler" != "rustc 1.63.0" ]; then
    echo "prover.wasm is built by rustc 1.63.0 of Debian 12; /usr/bin/rustc is $compiler" >&2
    exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Compiles a copy of the sources in the folder $1.
build() {
    mkdir -p "$1"
    cp -r src "$1/src"
    (
        cd "$1"
        # Debian's compiler by its path: another one may be found first.
        env -u RUSTFLAGS /usr/bin/rustc --crate-name selfsame_prover --edition 2021 --crate-type cdylib \
            --target wasm32-unknown-unknown -C opt-level=3 -C codegen-units=1 -C lto=fat -C panic=abort \
            -C debuginfo=0 -C strip=symbols -C linker=wasm-ld --remap-path-prefix "$PWD=/prover" \
            src/lib.rs -o prover.wasm
    )
}

build "$scratch/first"
build "$scratch/a/second/folder"
cmp "$scratch/first/prover.wasm" "$scratch/a/second/folder/prover.wasm"
if grep --quiet --fixed-strings "$scratch" "$scratch/first/prover.wasm"; then
    echo "prover.wasm has a path of this machine" >&2
    exit 1
fi

if [ "${1:-}" = --check ]; then
    if ! cmp "$scratch/first/prover.wasm" prover.wasm; then
        echo "prover.wasm is not what the sources give: run web-wallet/prover/build.sh" >&2
        exit 1
    fi
else
    install -m 644 "$scratch/first/prover.wasm" prover.wasm
    ls -l prover.wasm
fi
