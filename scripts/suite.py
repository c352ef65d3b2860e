#!/usr/bin/env python3
"""Runs a suite of the tests, says how long it took, and leaves out what has passed before.

    scripts/suite.py FOLDER NAME [--inputs PATH...] [--variables NAME...] -- COMMAND...
    scripts/suite.py FOLDER --table

FOLDER is a folder below the build output. A suite without `--inputs` always runs. One with inputs is
skipped when it has passed on this machine with the same content of these paths of the repository, of the
program's sources (PROGRAM below), and of RELEASED and the environment variables that `--variables` names. The
content is that of git's index, so a suite always runs when a file differs from the commit, is not committed, or
when this is no clone. With ALL=1 in the environment everything runs. FOLDER/times gets a line for each
suite, which `--table` prints; delete it before the first one.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What every suite depends on: the sources of the program, how it is built, and how suites are run.
PROGRAM = [
    "src", "interfaces", "cluster", "actors", "protocol", "storage", "wallet", "config", "web-wallet/built", "Cargo.lock",
    "Cargo.toml",
    "rust-toolchain.toml", "Makefile", "scripts", ".config", "tests/profile.toml",
]  # fmt: skip


def git(root, *words):
    return subprocess.run(["git", "-C", root, *words], check=True, capture_output=True).stdout


def content(root, inputs, variables):
    """The hash of what a suite depends on; None when the tree has changes, or is no clone."""
    for path in inputs:
        if not (root / path).exists():
            sys.exit(f"suite.py: the input {path} does not exist")
    try:
        if git(root, "status", "--porcelain"):
            return None
        index = git(root, "ls-files", "--stage", "-z", "--", *PROGRAM, *inputs)
    except (subprocess.CalledProcessError, FileNotFoundError):
        return None
    values = "".join(f"{name}={os.environ.get(name, '')}\0" for name in sorted(["RELEASED", *variables]))
    return hashlib.sha256(index + values.encode()).hexdigest()


def note(folder, name, seconds, outcome):
    """Adds a line to the times, by one write: suites run at the same time."""
    with (folder / "times").open("a") as times:
        times.write(f"{name} {seconds:.0f} {outcome}\n")


def run(root, folder, name, inputs, variables, command):
    """Runs a suite or skips it; returns the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    before = content(root, inputs, variables) if inputs else None
    record = folder / f"{name}.passed"
    has_passed = before is not None and record.exists() and record.read_text() == before
    if has_passed and os.environ.get("ALL") != "1":
        print(f"suite {name}: skipped: its inputs have passed on this machine ({before[:12]}); ALL=1 runs it")
        note(folder, name, 0, "skipped")
        return 0
    # The last run counts.
    record.unlink(missing_ok=True)
    begun = time.monotonic()
    try:
        status = subprocess.run(command).returncode
    except KeyboardInterrupt:
        status = 130
    seconds = time.monotonic() - begun
    # A file that was changed during the run was perhaps not tested.
    if status == 0 and before is not None and before == content(root, inputs, variables):
        record.write_text(before)
    outcome = "passed" if status == 0 else "failed"
    note(folder, name, seconds, outcome)
    print(f"suite {name}: {outcome} in {seconds:.0f} s" + (f" (exit status {status})" if status else ""))
    # The status of a command that a signal ended is negative.
    return status if status >= 0 else 128 - status


def table(folder):
    """The suites in the order in which they ended."""
    times = folder / "times"
    rows = [line.split() for line in times.read_text().splitlines()] if times.exists() else []
    width = max((len(name) for name, _, _ in rows), default=0)
    return "".join(f"{name:{width}} {seconds:>6} s  {outcome}\n" for name, seconds, outcome in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--inputs", nargs="+", default=[])
    parser.add_argument("--variables", nargs="+", default=[])
    parser.add_argument("--table", action="store_true")
    words, command = sys.argv[1:], []
    if "--" in words:
        words, command = words[: words.index("--")], words[words.index("--") + 1 :]
    arguments = parser.parse_args(words)
    if arguments.table:
        print(table(arguments.folder), end="")
        return 0
    if arguments.name is None or not command:
        parser.error("the name or the command of the suite is missing")
    return run(ROOT, arguments.folder, arguments.name, arguments.inputs, arguments.variables, command)


if __name__ == "__main__":
    sys.exit(main())
