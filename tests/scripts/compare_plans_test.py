# SPDX-License-Identifier: Apache-2.0
"""scripts/compare_plans: builds whose programs print other plans."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/compare_plans"
PROGRAMS = ("mtf", "transformer_lm", "gpt2", "readme_program", "01_two_layers",
            "02_change_the_layout", "image_classifier")


class ComparePlans(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, name, body):
        """A build whose programs are the shell script `body`."""
        folder = self.folder / name
        folder.mkdir()
        for program in PROGRAMS:
            path = folder / program
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        return str(folder)

    def compare(self, old, new, *flags):
        return subprocess.run(
            [str(SCRIPT), self.build("old", old), self.build("new", new),
             "--filter=gpt2 data", *flags],
            capture_output=True, text=True, timeout=50, check=False)

    # Writes `text` to the file of --dump_program.
    DUMP = ('for a; do case $a in --dump_program=*) echo "{}" > '
            '"${{a#*=}}";; esac; done')

    def test_equal_plans(self):
        run = self.compare("echo same", "echo same")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"([0-9]+) cases, \1 of them with a plan: "
                                     "0 differ")

    def test_other_explanations(self):
        run = self.compare("echo 1 ms", "echo 2 ms")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("== gpt2 data_model\n", run.stdout)
        self.assertIn("-1 ms\n+2 ms\n", run.stdout)

    def test_other_programs(self):
        run = self.compare(self.DUMP.format("map"), self.DUMP.format("einsum"))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("-map\n+einsum\n", run.stdout)

    def test_renamed_words(self):
        run = self.compare("echo is pending", "echo is unreduced",
                           r"--replace=\bpending\b=unreduced")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_nothing_planned(self):
        run = self.compare("exit 3", "exit 3")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no case has a plan", run.stderr)

    def test_wrong_arguments(self):
        run = self.compare("", "", "--replace=word")
        self.assertEqual(run.returncode, 2)
        self.assertIn("--replace=word is not PATTERN=TEXT", run.stderr)
        run = subprocess.run([str(SCRIPT), "/no/such", "/no/such"],
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("/no/such/mtf was not found", run.stderr)


if __name__ == "__main__":
    unittest.main()
