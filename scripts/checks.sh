#!/usr/bin/env bash
# Checks beside those of the Rust toolchain: spelling (typos), the Containerfile (hadolint), what the
# dependencies may be (cargo-deny), and the packages of the crates that are published; the tests of the
# scripts themselves.
# Usage: scripts/checks.sh BUILD, where BUILD is the output folder of cargo: the tools are those of
# scripts/test-packages.sh.
set -euo pipefail

tools=$(realpath "${1:?the output folder of cargo is missing}")/packages/python/bin
cd "$(dirname "$0")/.."

echo "spelling"
"$tools/typos"

echo "Containerfile"
"$tools/hadolint" Containerfile

echo "scripts"
python3 scripts/test_suite.py

echo "dependencies"
checks=(bans licenses sources)
# The advisories are in a repository on GitHub. Without access to it the other checks still run.
if timeout 20 git ls-remote --quiet https://github.com/rustsec/advisory-db HEAD >/dev/null 2>&1; then
    checks+=(advisories)
else
    echo "the RustSec advisories are not checked: github.com is not reachable" >&2
fi
"$tools/cargo-deny" --all-features check --hide-inclusion-graph "${checks[@]}"

# Without a build of the packages, which compiles all dependencies once more, in the development profile;
# CONTRIBUTING.md has the command with one.
echo "packages"
if ! packaging=$(cargo package --no-verify --allow-dirty \
    --package selfsame-lanes --package selfsame-protocol --package selfsame-storage --package selfsame-actors 2>&1) ||
    grep --quiet '^warning' <<<"$packaging"; then
    echo "$packaging" >&2
    exit 1
fi
