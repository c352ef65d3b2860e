#!/usr/bin/env python3
"""Tests of suite.py: which suites run, and which are skipped."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import suite

PASS, FAIL = [sys.executable, "-c", ""], [sys.executable, "-c", "raise SystemExit(3)"]


class Suite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="selfsame-")
        self.addCleanup(folder.cleanup)
        self.root, self.records = pathlib.Path(folder.name) / "clone", pathlib.Path(folder.name) / "suites"
        for path in ["src/main.rs", "tests/one/test.py", "tests/other/test.py"]:
            self.write(path, "first")
        variables = mock.patch.dict(os.environ)
        variables.start()
        self.addCleanup(variables.stop)
        for name in [name for name in os.environ if name == "ALL" or name.startswith("GIT_")]:
            del os.environ[name]
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words):
        settings = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *settings, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "-")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def outcome(self, command=PASS, inputs=("tests/one",), variables=()):
        """Runs the suite; the outcome that the times have, which the printed line has too."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = suite.run(self.root, self.records, "one", list(inputs), list(variables), command)
        name, _, outcome = (self.records / "times").read_text().splitlines()[-1].split()
        self.assertEqual(name, "one")
        self.assertRegex(printed.getvalue(), rf"\Asuite one: {outcome}\b.*\n\Z")
        self.assertEqual(status == 0, outcome != "failed")
        return outcome

    def test_what_has_passed_is_skipped_until_an_input_or_the_program_changes(self):
        self.assertEqual([self.outcome(), self.outcome()], ["passed", "skipped"])
        for path in ["tests/one/test.py", "src/main.rs", "tests/one/new.py"]:
            self.write(path, "second")
            self.commit()
            self.assertEqual([self.outcome(), self.outcome()], ["passed", "skipped"], path)
        self.write("tests/other/test.py", "second")
        self.commit()
        self.assertEqual(self.outcome(), "skipped")

    def test_a_content_that_passed_earlier_counts_no_more_after_another_one(self):
        self.outcome()
        self.write("src/main.rs", "second")
        self.commit()
        self.outcome()
        self.git("revert", "--no-edit", "HEAD")
        self.assertEqual(self.outcome(), "passed")

    def test_a_failure_is_not_skipped_and_ends_what_passed_before(self):
        self.assertEqual([self.outcome(FAIL), self.outcome(FAIL), self.outcome()], ["failed", "failed", "passed"])
        os.environ["ALL"] = "1"
        self.assertEqual([self.outcome(), self.outcome(FAIL)], ["passed", "failed"])
        del os.environ["ALL"]
        self.assertEqual([self.outcome(), self.outcome()], ["passed", "skipped"])

    def test_a_tree_with_changes_runs_and_is_not_recorded(self):
        self.outcome()
        for path in ["tests/other/test.py", "not-committed"]:
            self.write(path, "changed")
            self.assertEqual([self.outcome(), self.outcome()], ["passed", "passed"], path)
            self.git("add", "--all")
            self.assertEqual(self.outcome(), "passed", "a change in the index")
            self.git("reset", "--hard", "--quiet")
            self.assertEqual([self.outcome(), self.outcome()], ["passed", "skipped"], path)

    def test_a_change_during_the_run_is_not_recorded(self):
        change = [sys.executable, "-c", f"open({str(self.root / 'src/main.rs')!r}, 'w').write('changed')"]
        self.assertEqual(self.outcome(change), "passed")
        self.git("checkout", "--quiet", ".")
        self.assertEqual(self.outcome(), "passed")

    def test_the_value_of_a_variable_counts(self):
        for value in ["", "1", "2"]:
            os.environ["LONG"] = value
            self.assertEqual([self.outcome(variables=["LONG"]), self.outcome(variables=["LONG"])], ["passed", "skipped"])

    def test_a_suite_without_inputs_always_runs(self):
        self.assertEqual([self.outcome(inputs=[]), self.outcome(inputs=[])], ["passed", "passed"])

    def test_without_a_clone_a_suite_always_runs(self):
        (self.root / ".git").rename(self.root / "git")
        self.assertEqual([self.outcome(), self.outcome()], ["passed", "passed"])

    def test_a_misspelled_input_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "tests/none"):
            self.outcome(inputs=["tests/none"])

    def test_the_exit_status_is_the_commands(self):
        signal = [sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"]
        for command, status in [(PASS, 0), (FAIL, 3), (signal, 143)]:
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(suite.run(self.root, self.records, "one", [], [], command), status)

    def test_the_table_has_a_row_for_each_suite_also_of_those_that_run_at_once(self):
        self.assertEqual(suite.table(self.records), "")
        names = [f"suite-{number}" for number in range(40)]
        self.records.mkdir()
        threads = [threading.Thread(target=suite.note, args=(self.records, name, 1.6, "passed")) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = [row.split() for row in suite.table(self.records).splitlines()]
        self.assertEqual(sorted(rows), sorted([name, "2", "s", "passed"] for name in names))


if __name__ == "__main__":
    unittest.main()
