#!/usr/bin/env bash
# Moves the symbols and line tables of a program into the file PROGRAM.debug beside it. The standard library finds that
# file there, or below /usr/lib/debug, and then shows functions and lines in backtraces. A program that was
# stripped before is left as it is.
# Usage: scripts/strip.sh PROGRAM
set -euo pipefail

program=${1:?the program is missing}
if readelf --section-headers --wide "$program" | grep -q ' \.gnu_debuglink '; then exit 0; fi
folder=$(dirname "$program")
name=$(basename "$program")
objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$program.debug"
# The link names the debug file without a folder. What objcopy writes is a new file: cargo's own copy keeps its symbols.
(cd "$folder" && objcopy --strip-all --add-gnu-debuglink="$name.debug" "$name" "$name.stripped" && mv "$name.stripped" "$name")
