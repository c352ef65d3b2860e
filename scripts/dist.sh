#!/usr/bin/env bash
# Builds the program and makes the files of a release: the stripped program and its debug file, a
# Debian package, an archive for other systems, the list of dependencies (SBOM) and the checksums.
# CONTRIBUTING.md says what makes them the same each time. `make dist` runs it.
# Usage: scripts/dist.sh BUILD, where BUILD is the output folder of cargo. The files are in BUILD/dist.
# SOURCE_DATE_EPOCH is the time that files and archives have, in Unix seconds; by default that of
# the commit.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "${1:?the output folder of cargo is missing}")
program=$build/release/selfsame
# cargo-deb takes the files of assets that begin with `target/release/` from here.
stage=$build/release/packaging
dist=$build/dist
tools=$build/packaging

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    if ! SOURCE_DATE_EPOCH=$(git show --no-patch --format=%ct HEAD 2>/dev/null); then
        echo "This is not a clone: give the time of the sources as SOURCE_DATE_EPOCH, in Unix seconds." >&2
        exit 1
    fi
fi
# What is released is compiled as a whole, and takes nothing from builds before it.
export CARGO_TARGET_DIR=$build CARGO_INCREMENTAL=0 LC_ALL=C TZ=UTC
umask 022

# A build of the tests leaves a program with fault points there, so it is built by the command of `make build`.
# Cargo compiles crates again when SOURCE_DATE_EPOCH changes, and nothing that is compiled uses it.
scripts/rocksdb.sh "$build"
env --unset=SOURCE_DATE_EPOCH cargo build --release --locked --workspace --bin selfsame
scripts/strip.sh "$program"
export SOURCE_DATE_EPOCH

# The tools, compiled once in the versions of scripts/packaging.txt.
if ! cmp -s scripts/packaging.txt "$tools/installed.txt"; then
    grep -v '^#' scripts/packaging.txt | while read -r name version; do
        features=()
        [ "$name" = cargo-about ] && features=(--features cli)
        CARGO_TARGET_DIR=$tools/target cargo install --quiet --locked "$name@$version" "${features[@]}" --root "$tools"
    done
    rm -rf "$tools/target"
    cp scripts/packaging.txt "$tools/installed.txt"
fi
export PATH=$tools/bin:$PATH

rm -rf "$stage" "$dist"
mkdir -p "$stage/man" "$stage/completions" "$dist"
build_name=$("$program" --version)
version=$(cut -d' ' -f2 <<<"$build_name")
host=$(rustc --version --verbose | sed -n 's/^host: //p')

cp "$program" "$program.debug" "$dist/"
cp "$program" "$stage/selfsame"

"$stage/selfsame" man "$stage/man"
"$stage/selfsame" completions bash >"$stage/completions/selfsame"
"$stage/selfsame" completions zsh >"$stage/completions/_selfsame"
"$stage/selfsame" completions fish >"$stage/completions/selfsame.fish"
# The texts come from the crates alone, which the build has downloaded.
cargo about generate --fail --frozen --target "$host" --config packaging/about.toml \
    --output-file "$stage/THIRD-PARTY.txt" packaging/third-party.hbs
cat packaging/third-party-pages.txt >>"$stage/THIRD-PARTY.txt"

maintainer=$(sed -n 's/^maintainer = "\(.*\)"$/\1/p' Cargo.toml)
cat >"$stage/changelog.Debian" <<EOF
selfsame ($version-1) unstable; urgency=medium

  * Version $version. CHANGELOG.md in this folder says what changed.

 -- $maintainer  $(date --date="@$SOURCE_DATE_EPOCH" --rfc-email)
EOF
gzip --best --no-name --keep "$stage/changelog.Debian" "$stage/THIRD-PARTY.txt" "$stage"/man/*.1

cargo deb --quiet --locked --no-build --no-strip --output "$dist/"

# The archive for systems without Debian's packages.
name=selfsame-$version-$host
folder=$stage/$name
mkdir -p "$folder/systemd" "$folder/config" "$folder/man"
cp -r "$stage/selfsame" "$stage/completions" "$stage/THIRD-PARTY.txt" "$folder/"
cp packaging/selfsame.service packaging/selfsame.socket packaging/selfsame.sysusers packaging/selfsame.tmpfile \
    "$folder/systemd/"
cp config/production.toml config/first-sign-in.toml "$folder/config/"
cp "$stage"/man/*.1 "$folder/man/"
cp LICENSE CHANGELOG.md docs/operations/install.md "$folder/"
tar --create --directory "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u+rw,go+r-w,a+X "$name" | gzip --best --no-name >"$dist/$name.tar.gz"

# cargo-cyclonedx writes beside each manifest, so it gets a copy of what cargo reads. The path of
# the copy would differ each time.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar --create --exclude=./target --exclude=./.git --exclude=node_modules . | tar --extract --directory "$copy"
(cd "$copy" && cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$host" --override-filename sbom)
sed "s|file://$copy|file:///selfsame|g" "$copy/sbom.json" >"$dist/selfsame-$version.cdx.json"

(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
case $build_name in
*'not known'*) echo "This is no release: the program does not know its commit. Run: make dist" >&2 ;;
*-dirty*) echo "This is no release: files differ from the commit." >&2 ;;
esac
