# SPDX-License-Identifier: Apache-2.0
"""examples/gpt2.cc from the command line: its counts, its inputs, and equal
losses under every layout."""

import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

GPT2 = pathlib.Path(os.environ["MTF_BUILD"]) / "bin" / "gpt2"
TINY = ("--model=tiny", "--batch=4", "--length=16", "--steps=12")


def run(*arguments):
    return subprocess.run([GPT2, *arguments], capture_output=True, text=True,
                          timeout=100)


def losses(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log.json")
        outcome = run(*TINY, f"--log_json={log}", *arguments)
        assert outcome.returncode == 0, outcome.stderr
        return [json.loads(line)["loss"]
                for line in log.read_text().splitlines()]


class Gpt2(unittest.TestCase):
    def assert_close(self, one, other, tolerance):
        self.assertEqual(len(one), len(other))
        for a, b in zip(one, other):
            self.assertLess(abs(a - b), tolerance * abs(b))

    def test_prints_the_work_and_the_time_of_a_step(self):
        outcome = run(*TINY)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        # V h + s h + L (12 h^2 + 13 h) + 2 h
        parameters = 256 * 64 + 16 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64
        flops = 6 * parameters + 6 * 2 * 64 * 16
        self.assertIn(f"tiny: {parameters} parameters, {flops} FLOP/token "
                      "(6 N + 6 L h T, causal)", outcome.stdout)
        numbers = re.search(r"loss ([\d.]+), ([\d.]+) ms/step, (\d+) tokens/s, "
                            r"([\d.]+) TFLOP/s of the model", outcome.stdout)
        ms, rate = float(numbers[2]), float(numbers[3])
        self.assertLess(abs(rate * ms / (4 * 16 * 1e3) - 1), 0.02)
        self.assertLess(abs(float(numbers[4]) - rate * flops / 1e12), 1e-3)

    def test_parameters_of_124m_match_the_formula(self):
        outcome = run("--model=124M", "--batch=1", "--dry_run",
                      "--explain=json", "--precision=float32")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        memory = json.loads(outcome.stdout)["memory"]
        self.assertEqual(memory["parameters"], 4 * 124475904)
        # Two moments and a step counter.
        self.assertEqual(memory["optimizer_state"] // 8, 124475904)

    def test_planned_memory_matches_the_explanation(self):
        explained = json.loads(run(*TINY, "--explain=json").stdout)
        printed = re.search(r"memory planned for each rank: ([\d.]+) MiB",
                            run(*TINY).stdout)
        self.assertAlmostEqual(float(printed[1]),
                               explained["memory"]["total"] / 2 ** 20, 1)

    def test_learns(self):
        curve = losses("--steps=120")
        self.assertLess(curve[-1], 0.9 * curve[0])

    def test_layouts_do_not_change_losses(self):
        one = losses()
        for layout in ("data", "zero3"):
            self.assert_close(losses("--mesh_shape=data:3",
                                     f"--layout={layout}"), one, 1e-5)
        self.assert_close(losses("--mesh_shape=data:2,model:2",
                                 "--layout=data_model"), one, 1e-5)

    def test_half_precision_stays_close_to_single(self):
        self.assert_close(losses("--precision=bfloat16"), losses(), 0.02)

    def test_learns_from_a_file_of_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tokens.bin")
            tokens = struct.pack("<1000H", *(i * 7 % 256 for i in range(1000)))
            path.write_bytes(tokens)
            plain = losses(f"--tokens={path}")
            header = struct.pack("<256i", 20240520, 1, 1000, *([0] * 253))
            path.write_bytes(header + tokens)
            self.assertEqual(losses(f"--tokens={path}"), plain)
            self.assertLess(losses(f"--tokens={path}", "--steps=140")[-1],
                            0.7 * plain[0])
            # Tokens are read, and checked, as the windows are drawn.
            path.write_bytes(struct.pack("<1000H", *([7] * 500 + [256] * 500)))
            outcome = run(*TINY, f"--tokens={path}")
            self.assertEqual(outcome.returncode, 74)
            self.assertRegex(outcome.stderr, f'token [0-9]+ of file "{path}" is '
                             "256, but the vocabulary has 256 tokens")

    def test_unknown_models_are_errors(self):
        outcome = run("--model=2B")
        self.assertEqual(outcome.returncode, 2)
        self.assertIn('no model is called "2B"', outcome.stderr)
        self.assertIn("124M", outcome.stderr)

    def test_every_size_is_planned(self):
        for model, layers in (("350M", 24), ("774M", 36), ("1558M", 48)):
            outcome = run(f"--model={model}", "--dry_run", "--explain=json",
                          "--mesh_shape=data:8", "--layout=zero3",
                          "--precision=bfloat16")
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            self.assertIn(f"layer_{layers - 1}", outcome.stdout)
            self.assertNotIn(f"layer_{layers}/", outcome.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
