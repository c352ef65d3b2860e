#!/usr/bin/env bash
# Builds the documentation as a site: every page of docs/, the pages that these link, and the OpenAPI
# descriptions with a viewer. The site loads nothing from other hosts. Fails when a page is missing in
# docs/SUMMARY.md or a link inside of the site leads nowhere.
# Usage: scripts/docs.sh FOLDER, where FOLDER is the place of the site (FOLDER/site) and of the tools.
# The variable DAEMON names the daemon's program; MDBOOK may name another mdBook.
set -euo pipefail

folder=${1:?the folder for the site is missing}
program=${DAEMON:?the variable DAEMON does not name the daemon\'s program}
cd "$(dirname "$0")/.."
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
tools=$folder/tools

# mdBook, compiled once in the version of scripts/docs.txt.
if [ -z "${MDBOOK:-}" ]; then
    if ! cmp -s scripts/docs.txt "$tools/installed.txt"; then
        grep -v '^#' scripts/docs.txt | while read -r name version; do
            CARGO_TARGET_DIR=$tools/target cargo install --quiet --locked "$name@$version" \
                --no-default-features --features search --root "$tools"
        done
        rm -rf "$tools/target"
        cp scripts/docs.txt "$tools/installed.txt"
    fi
    MDBOOK=$tools/bin/mdbook
fi

# The viewer, in the version of its lock file. No scripts: one of a dependency reports the installation
# to its publisher.
rm -rf "$folder/viewer" "$folder/book" "$folder/site"
mkdir -p "$folder/viewer" "$folder/book"
cp docs/site/package.json docs/site/package-lock.json "$folder/viewer"
(cd "$folder/viewer" && npm ci --ignore-scripts --no-audit --no-fund --silent)

python3 scripts/docs.py assemble "$folder/book"
MDBOOK_LOG=warn "$MDBOOK" build --dest-dir "$folder/site" "$folder/book" 2>&1 | tee "$folder/mdbook.log"
if grep -qE 'WARN|ERROR' "$folder/mdbook.log"; then
    echo "mdBook has a warning, see above" >&2
    exit 1
fi
python3 scripts/docs.py descriptions "$folder/site/openapi" "$program"
viewer=$folder/viewer/node_modules/swagger-ui-dist
cp "$viewer/swagger-ui.css" "$viewer/swagger-ui-bundle.js" "$viewer/LICENSE" docs/site/viewer.css docs/site/viewer.js "$folder/site/openapi"
python3 scripts/docs.py check "$folder/site"
echo "$folder/site/index.html"
