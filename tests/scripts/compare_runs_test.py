# SPDX-License-Identifier: Apache-2.0
"""compare_runs: runs whose losses differ, with and without a tolerance."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(os.environ["MTF_BUILD"]) / "bin" / "compare_runs"


class CompareRuns(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def log(self, name, losses, first=0):
        path = pathlib.Path(self.folder.name) / name
        with open(path, "w", encoding="utf-8") as file:
            for step, loss in enumerate(losses, first):
                file.write(json.dumps({"step": step, "loss": loss,
                                       "tokens_per_s": 1.0,
                                       "collectives": {}}) + "\n")
        return str(path)

    def compare(self, losses, *flags, first=0):
        return subprocess.run(
            [str(PROGRAM), *flags, self.log("reference", [3, 2, 1]),
             "single", "data:1", self.log("other", losses, first)],
            capture_output=True, text=True, timeout=50, check=False)

    def test_prints_differences(self):
        run = self.compare([3, 2.5, 1])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("5.0e-01", run.stdout)

    def test_a_difference_over_the_tolerance_fails(self):
        self.assertEqual(self.compare([3, 2.5, 1], "--tolerance=0.5").returncode,
                         0)
        run = self.compare([3, 2.5, 1], "--tolerance=0.49")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("differ from those of the reference by 0.5, more than "
                      "0.49", run.stderr)

    def test_other_steps_are_not_compared(self):
        self.assertNotEqual(self.compare([3, 2]).returncode, 0)
        run = self.compare([3, 2, 1], first=1)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("is step 1, that of the reference 0", run.stderr)

    def test_wrong_arguments(self):
        for flag in ("--tolerance=", "--tolerance=-1", "--tolerance=nan"):
            self.assertIn("usage: ", self.compare([3, 2, 1], flag).stderr)


if __name__ == "__main__":
    unittest.main()
