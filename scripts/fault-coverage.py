#!/usr/bin/env python3
"""Says which faults have struck at which points in a run of the tests.

    scripts/fault-coverage.py FOLDER [--write]

FOLDER is what the variable FAULT_COVERAGE named in that run: each process has left an empty file
POINT=FAULT in it for each pair that it has reached. Prints a table, and fails when a pair was not
reached that tests/fault_coverage.txt lists. With --write, writes that list anew instead.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
POINTS = ROOT / "storage/src/faults/point.rs"
LIST = ROOT / "tests/fault_coverage.txt"
FAULTS = ["error", "panic", "delay", "stall", "crash"]

HEADER = """\
# Which faults strike at which points in the tests of the workspace, in every run: `make test` fails
# when one of them does not. A pair that only chance reaches does not belong here.
# scripts/fault-coverage.py FOLDER --write writes this list.
"""

# A pair is listed or not, and reached or not.
CELLS = {(True, True): "yes", (False, True): "new", (True, False): "MISSING", (False, False): "."}


def all_points():
    """The names of the points, in the order of the source."""
    points = re.findall(r'^\s+[A-Z]\w+ = "([a-z.-]+)",$', POINTS.read_text(), re.MULTILINE)
    if len(points) < 2:
        sys.exit(f"{POINTS} has no points that this script can read")
    return points


def listed_pairs(points):
    """The pairs of the committed list."""
    lines = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]
    if lines != sorted(set(lines)):
        sys.exit(f"{LIST} is not sorted, or has a line twice")
    pairs = [tuple(line.split(" ")) for line in lines]
    for pair in pairs:
        if len(pair) != 2 or pair[0] not in points or pair[1] not in FAULTS:
            sys.exit(f"{LIST}: {' '.join(pair)!r} is not a point and a fault")
    return set(pairs)


def reached_pairs(folder):
    """The pairs that have left a mark."""
    marks = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if not marks:
        sys.exit(f"{folder} has no marks: was the variable FAULT_COVERAGE set to its absolute path?")
    return {tuple(mark.rsplit("=", 1)) for mark in marks}


def print_table(points, listed, reached):
    """A row for each point, a column for each fault."""
    width = max(map(len, points))
    print(f"{'':{width}}", *(f"{fault:>7}" for fault in FAULTS))
    for point in points:
        cells = [CELLS[(point, fault) in listed, (point, fault) in reached] for fault in FAULTS]
        print(f"{point:{width}}", *(f"{cell:>7}" for cell in cells))
    pairs = len(points) * len(FAULTS)
    print(f"{len(reached)} of {pairs} pairs were reached; the list has {len(listed)}, its new ones are marked")


def main():
    arguments = sys.argv[1:]
    folders = [argument for argument in arguments if argument != "--write"]
    if len(folders) != 1:
        sys.exit(__doc__.strip())
    points, reached = all_points(), reached_pairs(pathlib.Path(folders[0]))
    if "--write" in arguments:
        LIST.write_text(HEADER + "".join(f"{point} {fault}\n" for point, fault in sorted(reached)))
        return
    listed = listed_pairs(points)
    print_table(points, listed, reached)
    missing = sorted(listed - reached)
    if missing:
        names = ", ".join(" ".join(pair) for pair in missing)
        sys.exit(f"no fault struck in these tests that {LIST.relative_to(ROOT)} lists: {names}")


if __name__ == "__main__":
    main()
