#!/usr/bin/env bash
# Checks that the system has what the build needs: a C++ compiler, make and libclang for RocksDB,
# and the protobuf compiler for the client of etcd. An argument names what is needed in addition:
#   node, python    the packages of the tests (scripts/test-packages.sh)
#   browser         Chromium (or the program that CHROMIUM names) and openssl
#   browsers        Firefox and WebKitGTK (or the programs that FIREFOX and MINI_BROWSER name), and a screen for them
#   proxies         nginx and Caddy (or the programs that NGINX and CADDY name) and openssl
#   monitoring      Prometheus with promtool
#   cluster         etcd
#   web-wallet      Debian's Rust compiler for WebAssembly, its linker, and Node.js
#   packaging       what makes a release
#   package-test    what makes and starts clean Debian systems
# Installs missing packages with apt-get when root runs it; otherwise prints what to install and
# fails. It does not install Rust.
set -euo pipefail

missing=()
command -v c++ >/dev/null || missing+=(g++)
command -v make >/dev/null || missing+=(make)
if ! ls /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib*/libclang*.so* >/dev/null 2>&1; then
    missing+=(libclang-dev)
fi
command -v protoc >/dev/null || missing+=(protobuf-compiler libprotobuf-dev)
case ${1:-} in
node)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    ;;
python)
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    ;;
browser)
    command -v openssl >/dev/null || missing+=(openssl)
    command -v chromium >/dev/null || [ -x "${CHROMIUM:-}" ] || missing+=(chromium)
    ;;
browsers)
    command -v firefox-esr >/dev/null || [ -x "${FIREFOX:-}" ] || missing+=(firefox-esr)
    command -v WebKitWebDriver >/dev/null || missing+=(webkit2gtk-driver)
    command -v Xvfb >/dev/null || missing+=(xvfb)
    ;;
proxies)
    command -v openssl >/dev/null || missing+=(openssl)
    command -v nginx >/dev/null || [ -x "${NGINX:-}" ] || missing+=(nginx)
    command -v caddy >/dev/null || [ -x "${CADDY:-}" ] || missing+=(caddy)
    ;;
monitoring)
    command -v prometheus >/dev/null && command -v promtool >/dev/null || missing+=(prometheus)
    ;;
cluster)
    command -v etcd >/dev/null || missing+=(etcd-server)
    ;;
web-wallet)
    # By its path: `rustup` has a compiler of the same name.
    [ -x /usr/bin/rustc ] || missing+=(rustc)
    ls /usr/lib/rustlib/wasm32-unknown-unknown/lib/libstd-*.rlib >/dev/null 2>&1 || missing+=(libstd-rust-dev-wasm32)
    command -v wasm-ld >/dev/null || missing+=(lld)
    command -v node >/dev/null || missing+=(nodejs)
    ;;
packaging)
    command -v objcopy >/dev/null || missing+=(binutils)
    command -v dpkg-shlibdeps >/dev/null || missing+=(dpkg-dev)
    ;;
package-test)
    command -v debootstrap >/dev/null || missing+=(debootstrap)
    command -v systemd-nspawn >/dev/null || missing+=(systemd-container)
    command -v lintian >/dev/null || missing+=(lintian)
    ;;
"") ;;
*)
    echo "nothing is known that is needed for $1" >&2
    exit 2
    ;;
esac
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
# Two targets of make may come here at the same time.
exec 9>/run/lock/selfsame-prerequisites
flock 9
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
