# SPDX-License-Identifier: Apache-2.0
"""The peers without the libraries they measure: flags, skips, names and sizes,
and the figures that all of them compute the same way."""

import json
import os
import pathlib
import py_compile
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks" / "peers"
PROGRAMS = ("gpt2_torch.py", "gpt2_jax.py", "einsum_torch.py",
            "convolution_torch.py", "ceilings_torch.py", "experts_torch.py")
sys.path.insert(0, str(PEERS))
import measure  # noqa: E402


def run(script, *arguments, path=None):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    if path:
        env["PYTHONPATH"] = path
    return subprocess.run([sys.executable, str(PEERS / script), *arguments],
                          capture_output=True, text=True, env=env, timeout=60)


class Peers(unittest.TestCase):
    def test_all_compile(self):
        with tempfile.TemporaryDirectory() as folder:
            for script in PEERS.glob("*.py"):
                py_compile.compile(str(script), doraise=True,
                                   cfile=f"{folder}/{script.name}c")

    def test_help_names_every_flag(self):
        for script in PROGRAMS:
            outcome = run(script, "--help")
            self.assertEqual(outcome.returncode, 0, script)
            self.assertIn("--device", outcome.stdout)

    def test_wrong_flags_are_errors(self):
        for script, arguments, message in (
                ("gpt2_torch.py", ["--batch=0"], "0 is below 1"),
                ("gpt2_torch.py", ["--model=2B"], "invalid choice: '2B'"),
                ("gpt2_torch.py", ["--mode=fast"], "invalid choice: 'fast'"),
                ("gpt2_jax.py", ["--precision=half"], "invalid choice"),
                ("einsum_torch.py", ["--reps=3"], "unrecognized arguments"),
                ("ceilings_torch.py", ["--matmul=x"], "invalid positive")):
            outcome = run(script, *arguments)
            self.assertEqual(outcome.returncode, 2, script)
            self.assertIn(message, outcome.stderr)

    def test_a_missing_library_is_skipped_with_the_reason(self):
        for reason in ("ImportError('no such library')",
                       "OSError('libx.so.1: cannot open')"):
            with tempfile.TemporaryDirectory() as folder:
                for library in ("torch", "jax"):
                    pathlib.Path(folder, f"{library}.py").write_text(
                        f"raise {reason}\n")
                for script in PROGRAMS:
                    outcome = run(script, path=folder)
                    self.assertEqual(outcome.returncode, 0, outcome.stderr)
                    figure = json.loads(outcome.stdout)
                    self.assertEqual(figure["schema"], 1)
                    self.assertIn(reason.split("'")[1], figure["skipped"])
                    self.assertIn(figure["program"].split("/")[0],
                                  ("torch", "jax"))

    def test_training_steps_have_the_names_of_the_suite(self):
        flags = measure.training_flags("x", ("a",)).parse_args(
            ["--model=350M", "--batch=8", "--length=512"])
        self.assertEqual(measure.training_name(flags),
                         "gpt2/350M/8x512/bfloat16")

    def test_parameters_and_operations_match_published_numbers(self):
        for model, parameters, flops in (
                ("124M", 124475904, 803478528), ("350M", 354871296, 2280222720),
                ("774M", None, 4927656960), ("1558M", None, 9817977600)):
            if parameters:
                self.assertEqual(measure.parameters(model, 1024), parameters)
            self.assertEqual(measure.flops_per_token(model, 1024), flops)

    def test_models_match_the_example(self):
        source = (ROOT / "examples" / "gpt2.cc").read_text()
        rows = re.findall(r'\{"(\w+)", (\d+), (\d+), (\d+), (\d+)\}', source)
        self.assertEqual({row[0]: tuple(map(int, row[1:])) for row in rows},
                         measure.MODELS)

    def test_median_and_spread(self):
        clock, durations = [0.0], iter([5, 4, 1, 3, 2])  # the first sets the count

        def work():
            clock[0] += 1e-3 * next(durations)
        real = measure.time.perf_counter
        measure.time.perf_counter = lambda: clock[0]
        try:
            median, spread = measure.milliseconds(work, lambda: None,
                                                  repeats=4, warmup=0)
        finally:
            measure.time.perf_counter = real
        self.assertAlmostEqual(median, 3)
        self.assertAlmostEqual(spread, (3 - 2) / 3)

    def test_steps_are_synchronized_in_groups(self):
        calls = []
        measure.steps_milliseconds(lambda: calls.append("step"),
                                   lambda: calls.append("wait"), 11)
        groups = "".join(call[0] for call in calls).split("w")
        # The first measures how long a step takes.
        self.assertEqual(groups[-3:], ["s" * 5, "s" * 5, ""])

    def test_einsums_match_gpu_benchmark(self):
        benchmark = pathlib.Path(os.environ.get("MTF_BUILD", "")) / "bin" / \
            "gpu_benchmark"
        if not benchmark.is_file():
            self.skipTest("gpu_benchmark is not built")
        for size, only in (("full", "124M,1558M,square"), ("tiny", "tiny")):
            ours = subprocess.run([benchmark, "--list", f"--size={size}"],
                                  capture_output=True, text=True, check=True)
            theirs = run("einsum_torch.py", "--list", f"--only={only}")

            def sizes(outcome):
                return {figure["benchmark"]: figure["sizes"] for figure in map(
                    json.loads, outcome.stdout.splitlines())}
            self.assertEqual(sizes(ours), sizes(theirs))
            self.assertGreaterEqual(len(sizes(ours)), 18)


if __name__ == "__main__":
    unittest.main(verbosity=2)
