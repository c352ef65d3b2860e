#!/usr/bin/env bash
# Compiles the RocksDB of the crate `librocksdb-sys` in Cargo.lock once, as four large source files (a
# unity build), which takes a third of the time that the crate's own build script takes, and tells cargo
# where the archive is, in .cargo/config.toml. So plain cargo, editors and the workspaces below tests/ link the
# same archive. `make` runs it before each build; it does nothing when the archive is there.
#
# Where it does not know how to compile RocksDB as the crate does (another system, processor, target or
# compiler, other features of the crate), it writes no configuration, and cargo compiles RocksDB itself.
# ROCKSDB_LIB_DIR and ROCKSDB_COMPILE in the environment win over the archive.
#
# Usage: scripts/rocksdb.sh BUILD [--check], where BUILD is the output folder of cargo. The archive is in
# BUILD/rocksdb/KEY. With --check it fails when a build of `make` has compiled RocksDB again since then.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:?the output folder of cargo is missing}
config=.cargo/config.toml
mark='# Written by scripts/rocksdb.sh, which writes it again at the next `make`.'

# Takes back what an earlier run told cargo.
forget() {
    if [ -e "$config" ] && [ "$(head -n 1 "$config")" = "$mark" ]; then rm "$config"; fi
}

# Lets cargo compile RocksDB, and says why.
leave_it_to_cargo() {
    forget
    echo "RocksDB is compiled by cargo, which takes longer: $1." >&2
    exit 0
}

if [ -n "${ROCKSDB_LIB_DIR:-}" ]; then
    forget
    exit 0
fi
[ -z "${ROCKSDB_COMPILE:-}" ] || leave_it_to_cargo "ROCKSDB_COMPILE is set"
host=$(rustc --version --verbose | sed -n 's/^host: //p')
case $host in
x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
*) leave_it_to_cargo "scripts/rocksdb.sh does not know the host $host" ;;
esac
target=${CARGO_BUILD_TARGET:-$host}
[ "$target" = "$host" ] || leave_it_to_cargo "the target $target is not the host"
case "${RUSTFLAGS:-} ${CARGO_ENCODED_RUSTFLAGS:-}" in
*target-cpu* | *target-feature*) leave_it_to_cargo "RUSTFLAGS choose a processor" ;;
esac
cxx=${CXX:-c++}
case $("$cxx" --version 2>/dev/null | head -n 1) in
*"Free Software Foundation"* | *clang* | *g++* | *c++*) ;;
*) leave_it_to_cargo "the compiler $cxx is neither GCC nor Clang" ;;
esac
if [ -e "$config" ] && [ "$(head -n 1 "$config")" != "$mark" ]; then
    echo "RocksDB is compiled by cargo, which takes longer: $config is not of scripts/rocksdb.sh." \
        "Move its settings to ~/.cargo/config.toml, remove it, and run make again." >&2
    exit 0
fi

checksum=$(sed -n '/^name = "librocksdb-sys"$/,/^$/s/^checksum = "\(.*\)"$/\1/p' Cargo.lock)
features=$(cargo tree --locked --quiet --package selfsame-storage --invert librocksdb-sys --depth 0 --prefix none --format '{f}')
[ "$features" = bindgen-runtime,lz4,lz4-sys,static ] ||
    leave_it_to_cargo "scripts/rocksdb.sh does not know its features $features"

# The definitions and warnings are those of the crate's build script, and the options those of the crate
# `cc` for the profile `release`.
flags=(
    -std=c++20 -O3 -fPIC -ffunction-sections -fdata-sections -w -include cstdint
    -DLZ4=1 -DNDEBUG=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION -DOS_LINUX -DROCKSDB_PLATFORM_POSIX
    -DROCKSDB_LIB_IO_POSIX -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT
    -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT
)
[ "$target" != x86_64-unknown-linux-gnu ] || flags+=(-m64 -msse2)
read -ra chosen <<<"${CXXFLAGS:-}"
flags+=("${chosen[@]}")

key=$({
    echo "$checksum $features $target $("$cxx" --version | head -n 1) ${flags[*]}"
    cat scripts/rocksdb.sh
} | sha256sum | cut -c 1-16)
mkdir -p "$build/rocksdb"
folder=$(realpath "$build")/rocksdb/$key

# Two builds at once compile it once.
exec 9>"$build/rocksdb/lock"
flock 9
if [ ! -e "$folder/librocksdb.a" ]; then
    echo "Compiling RocksDB (once)" >&2
    cargo fetch --locked --quiet
    folders=$(cargo metadata --locked --format-version 1 | grep -o '"manifest_path":"[^"]*"' | cut -d'"' -f4)
    crate=$(dirname "$(grep '/librocksdb-sys[^/]*/Cargo.toml$' <<<"$folders")")
    lz4=$(dirname "$(grep '/lz4-sys[^/]*/Cargo.toml$' <<<"$folders")")
    work=$(mktemp -d "$build/rocksdb/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT

    # Neighbours in the list stay together, because they share headers.
    {
        echo build_version.cc
        sed -e 's/^[[:space:]]*//' -e '/^$/d' -e '\|^util/build_version.cc|d' -e 's|^|rocksdb/|' \
            "$crate/rocksdb_lib_sources.txt"
    } | sed 's|.*|#include "&"|' >"$work/all"
    split --number=l/4 --numeric-suffixes --additional-suffix=.cc "$work/all" "$work/chunk"

    # A chunk takes up to 2 GiB of memory.
    available=$(awk '/^MemAvailable/ { print int($2 / 1024 / 1024 / 2) }' /proc/meminfo)
    at_once=$(nproc)
    [ "$at_once" -le "$available" ] || at_once=$available
    [ "$at_once" -ge 1 ] || at_once=1
    for source in "$work"/chunk*.cc; do printf '%s\0' "$source"; done |
        xargs -0 -I{} -P "$at_once" "$cxx" "${flags[@]}" -I"$crate" -I"$crate/rocksdb/include" -I"$crate/rocksdb" \
            -I"$crate/rocksdb/third-party/gtest-1.8.1/fused-src" -I"$lz4/liblz4/lib" -c {} -o {}.o
    ar crs "$work/librocksdb.a" "$work"/*.o
    mkdir -p "$folder"
    mv "$work/librocksdb.a" "$folder/librocksdb.a"
fi

if [ "${2:-}" = --check ]; then
    # The folders into which `make` builds.
    shopt -s nullglob
    triple=${CARGO_BUILD_TARGET:+/$CARGO_BUILD_TARGET}
    outputs=("$build$triple"/release/build/librocksdb-sys-*/out "$build/published-client$triple"/debug/build/librocksdb-sys-*/out)
    again=
    [ ${#outputs[@]} -eq 0 ] ||
        again=$(find "${outputs[@]}" -name '*.o' -newer "$folder/librocksdb.a" -printf '%h\n' | sort -u)
    [ -z "$again" ] || {
        printf 'cargo has compiled RocksDB again, without the archive of scripts/rocksdb.sh:\n%s\n' "$again"
        echo "Look which command ran before 'make' had written $config, and remove these folders."
        exit 1
    } >&2
    exit 0
fi

mkdir -p .cargo
cat >"$config.new" <<END
$mark
# Without the folder, as after \`cargo clean\`, linking fails until the next \`make\`.
[env]
ROCKSDB_LIB_DIR = "$folder"
ROCKSDB_STATIC = "1"
END
if cmp -s "$config.new" "$config"; then rm "$config.new"; else mv "$config.new" "$config"; fi
