# SPDX-License-Identifier: Apache-2.0
"""scripts/bundle: its programs run from a moved folder, alone and as several
processes, and load only libraries of the bundle, glibc and libstdc++."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["MTF_BUILD"])
# Libraries that every machine has: glibc and libstdc++.
SYSTEM = re.compile(
    r"^(ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libutil|"
    r"libstdc\+\+|libgcc_s|libnss_\w+)\.so(\.\d+)*$")


def bundle(*arguments):
    return subprocess.run(
        [str(ROOT / "scripts" / "bundle"), "--no_build", f"--build={BUILD}",
         *arguments], capture_output=True, text=True, timeout=100)


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="mtf_bundle_"))
        outcome = bundle(f"--out={cls.work}/made",
                         "--programs=readme_program,mtfrun,compare_runs")
        assert outcome.returncode == 0, outcome.stderr
        cls.output = outcome.stdout
        (cls.work / "made").rename(cls.work / "moved")
        cls.bundle = cls.work / "moved"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def run_in(self, *arguments, **environment):
        env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(self.work),
               "HOME": str(self.work), **environment}
        return subprocess.run([str(self.bundle / "run"), *arguments],
                              capture_output=True, text=True, timeout=60,
                              env=env, cwd=self.work)

    def test_reports_its_size(self):
        self.assertRegex(self.output, r"bundle: .*made, \d+ MB of at most 60 MB, "
                         r"3 programs")

    def test_runs_alone_and_as_several_processes(self):
        mesh = ["--mesh_shape=data:2", "--layout=batch:data"]
        alone = self.run_in("readme_program")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        last = alone.stdout.splitlines()[-1]
        self.assertRegex(last, r"step 199  loss 0\.00\d\d")
        for launcher in (["mpirun", "-n", "2"], ["mtfrun", "-n", "2"]):
            two = self.run_in(*launcher, "readme_program", *mesh)
            self.assertEqual(two.returncode, 0, two.stderr)
            self.assertEqual(two.stderr, "")
            self.assertEqual(two.stdout.splitlines()[-1], last)
            self.assertIn("mesh data:2", two.stdout)

    def test_exec_sets_the_environment_and_path(self):
        outcome = self.run_in("--exec", "sh", "-c", "command -v readme_program")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        with open(outcome.stdout.strip(), "rb") as program:
            self.assertEqual(program.read(4), b"\x7fELF")
        outcome = self.run_in("--exec", outcome.stdout.strip(), "--help")
        self.assertEqual(outcome.stderr, "")

    def test_loads_no_other_libraries(self):
        # The loader's log of each process, including plugins.
        logs = self.work / "loaded"
        logs.mkdir()
        outcome = self.run_in("mpirun", "-n", "2", "readme_program",
                              "--mesh_shape=data:2", LD_DEBUG="files",
                              LD_DEBUG_OUTPUT=str(logs / "log"))
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        inside, foreign = set(), set()
        for log in logs.iterdir():
            text = log.read_text(errors="replace")
            if str(self.bundle) not in text:
                continue  # a program of the shell
            for path in re.findall(r"calling init: (\S+)", text):
                name = os.path.basename(path)
                if path.startswith(str(self.work)):
                    inside.add(name)
                elif not SYSTEM.match(name):
                    foreign.add(path)
        self.assertEqual(self.without_shell(foreign), set())
        self.assertTrue(any(name.startswith("libmpi.so") for name in inside))
        self.assertTrue(any(name.startswith("libdnnl.so") for name in inside))
        self.assertTrue(any(name.startswith("mca_pml") for name in inside))

    @staticmethod
    def without_shell(paths):
        """Returns `paths` without the libraries of bash and Python, which run
        `run` itself."""
        return {path for path in paths
                if not re.search(r"lib(tinfo|python|z|expat|selinux|pcre2-8|"
                                 r"acl|attr)[-.\d]", path)
                and "python" not in path}

    def test_missing_and_unknown_programs_are_errors(self):
        outcome = bundle(f"--out={self.work}/other", "--programs=nosuch")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("bin/nosuch", outcome.stderr)
        outcome = self.run_in("nosuch")
        self.assertEqual(outcome.returncode, 66)
        self.assertIn("readme_program", outcome.stderr)
        outcome = bundle("--size=3")
        self.assertEqual(outcome.returncode, 2)

    def test_a_bundle_that_is_too_large_is_an_error_with_a_list(self):
        outcome = bundle(f"--out={self.work}/large", "--most_mb=3",
                         "--programs=readme_program")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("more than 3 MB; the largest:", outcome.stderr)
        self.assertIn("lib/libdnnl.so", outcome.stderr)

    def test_a_folder_that_is_not_a_bundle_is_kept(self):
        other = self.work / "other_folder"
        other.mkdir()
        (other / "file").write_text("mine")
        outcome = bundle(f"--out={other}", "--programs=mtfrun")
        self.assertEqual(outcome.returncode, 1)
        self.assertEqual((other / "file").read_text(), "mine")


if __name__ == "__main__":
    unittest.main(verbosity=2)
