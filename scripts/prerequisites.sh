#!/usr/bin/env bash
# Checks that the system has what the build needs: a C++ compiler, make and libclang for RocksDB,
# and the protobuf compiler for the client of etcd; with the argument `checks`, also Python for
# the tools that check spelling and dependencies; with the argument `relying-parties`, also
# Node.js and Python and openssl for the tests with their libraries, and Chromium (or the program
# that CHROMIUM names); with the argument `docs`, also Node.js and Python for the site of the
# documentation; with the argument `chain`, also Node.js for the tests with a local chain; with
# the argument `proxies`, also Node.js, Python, openssl, nginx and Caddy (or the programs that
# NGINX and CADDY name); with the argument `monitoring`, also Prometheus with promtool; with the
# argument `cluster`, also etcd; with the argument `packaging`, also what makes a release; with
# the argument `package-test`, also what makes and starts clean Debian systems. Installs missing
# packages with apt-get when root runs it; otherwise prints what to install and fails. It does not
# install Rust.
set -euo pipefail

missing=()
command -v c++ >/dev/null || missing+=(g++)
command -v make >/dev/null || missing+=(make)
if ! ls /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib*/libclang*.so* >/dev/null 2>&1; then
    missing+=(libclang-dev)
fi
command -v protoc >/dev/null || missing+=(protobuf-compiler libprotobuf-dev)
if [ "${1:-}" = checks ] || [ "${1:-}" = relying-parties ] || [ "${1:-}" = proxies ]; then
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
fi
if [ "${1:-}" = chain ] || [ "${1:-}" = relying-parties ] || [ "${1:-}" = docs ]; then
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
fi
if [ "${1:-}" = docs ]; then
    command -v python3 >/dev/null || missing+=(python3)
fi
if [ "${1:-}" = relying-parties ]; then
    command -v openssl >/dev/null || missing+=(openssl)
    command -v chromium >/dev/null || [ -x "${CHROMIUM:-}" ] || missing+=(chromium)
fi
if [ "${1:-}" = proxies ]; then
    command -v node >/dev/null || missing+=(nodejs)
    command -v openssl >/dev/null || missing+=(openssl)
    command -v nginx >/dev/null || [ -x "${NGINX:-}" ] || missing+=(nginx)
    command -v caddy >/dev/null || [ -x "${CADDY:-}" ] || missing+=(caddy)
fi
if [ "${1:-}" = monitoring ]; then
    command -v prometheus >/dev/null && command -v promtool >/dev/null || missing+=(prometheus)
fi
if [ "${1:-}" = cluster ]; then
    command -v etcd >/dev/null || missing+=(etcd-server)
fi
if [ "${1:-}" = packaging ]; then
    command -v objcopy >/dev/null || missing+=(binutils)
    command -v dpkg-shlibdeps >/dev/null || missing+=(dpkg-dev)
fi
if [ "${1:-}" = package-test ]; then
    command -v debootstrap >/dev/null || missing+=(debootstrap)
    command -v systemd-nspawn >/dev/null || missing+=(systemd-container)
    command -v lintian >/dev/null || missing+=(lintian)
fi
if ! command -v cargo >/dev/null; then
    echo "A Rust toolchain (cargo, 1.91 or later) is needed; see https://rustup.rs." >&2
    exit 1
fi
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "Please install: ${missing[*]} (Debian's names)." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Please install: ${missing[*]}" >&2
    echo "for example: sudo apt-get install ${missing[*]}" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
