#!/usr/bin/env bash
# Installs the packages of the tests, of the checks and of the documentation's site below the build output:
# those of Python as a virtual environment, those of Node.js as a folder to which `node_modules` of tests, of
# examples/authenticator and of web-wallet leads. What the lock files name is installed once; runs at the same time
# wait for each other.
# Usage: scripts/test-packages.sh BUILD python|node, where BUILD is the output folder of cargo.
# BUILD/packages/python is the virtual environment.
set -euo pipefail
build=${1:?the output folder of cargo is missing}
kind=${2:?python or node is missing}
mkdir -p "$build/packages"
packages=$(realpath "$build/packages")
cd "$(dirname "$0")/.."
exec 9>"$packages/$kind.lock"
flock 9

# The virtual environment, when its programs start and it is of the present lock file.
python_packages() {
    local place=$packages/python
    if cmp -s tests/requirements.txt "$place/installed.txt" && "$place/bin/pip" --version >/dev/null 2>&1; then
        return
    fi
    python3 -m venv --clear "$place"
    "$place/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement tests/requirements.txt
    cp tests/requirements.txt "$place/installed.txt"
}

# The packages of one folder. No scripts: one of a dependency reports the installation to its publisher, and none
# is needed.
node_packages() {
    local place=$packages/node/$1
    if ! cmp -s "$1/package-lock.json" "$place/node_modules/installed.json"; then
        rm -rf "$place"
        mkdir -p "$place"
        cp "$1/package.json" "$1/package-lock.json" "$place"
        (cd "$place" && npm ci --ignore-scripts --no-audit --no-fund --silent)
        cp "$1/package-lock.json" "$place/node_modules/installed.json"
    fi
    if [ "$(readlink "$1/node_modules")" != "$place/node_modules" ]; then
        rm -rf "$1/node_modules"
        ln -s "$place/node_modules" "$1/node_modules"
    fi
}

case $kind in
python) python_packages ;;
node)
    node_packages tests
    node_packages examples/authenticator
    node_packages web-wallet
    ;;
*)
    echo "there are packages for python and for node, and none for $kind" >&2
    exit 2
    ;;
esac
