#!/usr/bin/env bash
# Builds the documentation as a site: every page of docs/, the pages that these link, and the OpenAPI
# descriptions with a viewer. The site loads nothing from other hosts. Fails when a page is missing in
# docs/SUMMARY.md or a link inside of the site leads nowhere.
# Usage: scripts/docs.sh BUILD, where BUILD is the output folder of cargo: the site is BUILD/docs/site, and the
# tools are those of scripts/test-packages.sh. The variable DAEMON names the daemon's program; MDBOOK may name
# another mdBook.
set -euo pipefail

build=$(realpath "${1:?the output folder of cargo is missing}")
program=${DAEMON:?the variable DAEMON does not name the daemon\'s program}
cd "$(dirname "$0")/.."
folder=$build/docs
mdbook=${MDBOOK:-$build/packages/python/bin/mdbook}

rm -rf "$folder"
mkdir -p "$folder/book"
python3 scripts/docs.py assemble "$folder/book"
MDBOOK_LOG=warn "$mdbook" build --dest-dir "$folder/site" "$folder/book" 2>&1 | tee "$folder/mdbook.log"
if grep -qE 'WARN|ERROR' "$folder/mdbook.log"; then
    echo "mdBook has a warning, see above" >&2
    exit 1
fi
python3 scripts/docs.py descriptions "$folder/site/openapi" "$program"
viewer=tests/node_modules/swagger-ui-dist
cp "$viewer/swagger-ui.css" "$viewer/swagger-ui-bundle.js" "$viewer/LICENSE" docs/site/viewer.css docs/site/viewer.js "$folder/site/openapi"
python3 scripts/docs.py check "$folder/site"
echo "$folder/site/index.html"
