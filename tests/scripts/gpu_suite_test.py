# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_suite without a GPU: it says so and nothing fails. With the CPU in
place of a GPU, in small sizes: every part that can run does."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["MTF_BUILD"]
sys.path.insert(0, str(ROOT / "scripts"))
from gpu import parts as suite_parts  # noqa: E402
from gpu import runner  # noqa: E402


def run(*arguments, env=None):
    with tempfile.TemporaryDirectory() as folder:
        outcome = subprocess.run(
            [sys.executable, "-B", str(ROOT / "scripts" / "gpu_suite"),
             f"--build={BUILD}", f"--out={folder}", *arguments],
            capture_output=True, text=True, timeout=280,
            env={**os.environ, **(env or {})})
        files = {path.name: path for path in pathlib.Path(folder).iterdir()}
        report = (json.loads(files["report.json"].read_text())
                  if "report.json" in files else None)
        page = (files["results.md"].read_text() if "results.md" in files
                else "")
        return outcome, report, page, sorted(files)


FIGURE = {"schema": 1, "benchmark": "ceiling/copy", "program": "mtf",
          "device": "cuda", "unit": "GB/s", "value": 1, "milliseconds": 1}
COMPUTES = f"echo '{json.dumps(FIGURE)}'"  # a gpu_benchmark with a device


def play(folder, **programs):
    """Writes a build whose programs are shell scripts; returns its bin/."""
    binaries = pathlib.Path(folder, "bin")
    binaries.mkdir()
    for name, script in programs.items():
        path = binaries / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return binaries


def suite_of(folder, **flags):
    return runner.Suite(types.SimpleNamespace(
        **{"device": "cuda", "size": "full", "out": folder, "minutes": 1,
           "bundle": "", "build": "", **flags}))


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return False
    return state != "Z"


def wait_for(what, seconds=20):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def part(report, name):
    return next(p for p in report["parts"] if p["part"] == name)


class GpuSuite(unittest.TestCase):
    def test_without_a_gpu_everything_is_skipped(self):
        with tempfile.TemporaryDirectory() as empty:
            # Hides a GPU that this machine may have.
            outcome, report, page, files = run(
                env={"PATH": empty, "CUDA_VISIBLE_DEVICES": "-1"})
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        self.assertIn("no device: ", outcome.stdout)
        self.assertIn("0 parts passed, 0 failed, 14 skipped", outcome.stdout)
        self.assertTrue(report["no_device"])
        self.assertEqual({p["status"] for p in report["parts"]}, {"skipped"})
        self.assertIn("| conformance | skipped |", page)
        self.assertEqual(files, ["logs.tar.gz", "report.json", "report.txt",
                                 "results.md"])

    def test_a_gpu_that_cannot_be_opened_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            smi = pathlib.Path(folder, "nvidia-smi")
            smi.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.1, 1 MiB'\n")
            smi.chmod(0o755)
            outcome, report, page, _ = run(
                "--parts=memory", env={"PATH": f"{folder}:/usr/bin:/bin",
                                       "CUDA_VISIBLE_DEVICES": "-1"})
        self.assertEqual(outcome.returncode, 1)
        self.assertEqual(part(report, "device")["status"], "failed")
        self.assertIn("FAILED device: there is a GPU, but ", outcome.stdout)
        self.assertTrue(page.startswith("# 20") and "NVIDIA H200" in page)

    def test_wrong_arguments_are_errors(self):
        for arguments, message in ((["--parts=none"], 'no part "none"'),
                                   (["--minutes=x"], "invalid float"),
                                   (["--size=big"], "invalid choice")):
            outcome, report, _, _ = run(*arguments)
            self.assertEqual(outcome.returncode, 2)
            self.assertIn(message, outcome.stderr)
            self.assertIsNone(report)

    def test_an_unknown_device_is_an_error(self):
        outcome, report, _, _ = run("--device=gpu", "--parts=memory")
        self.assertEqual(outcome.returncode, 2)
        self.assertIn('this build has no device "gpu"', outcome.stderr)
        self.assertIsNone(report)

    def test_parts_run_on_the_cpu(self):
        parts = ["memory", "curves", "ceilings", "einsums", "kernels",
                 "meshes", "launch", "training", "gpt2_1558m", "sanitizer"]
        for name, program in (("properties", "properties_test"),
                              ("nccl", "device_communicator_test")):
            if (pathlib.Path(BUILD) / "bin" / program).is_file():
                parts.append(name)
        # These compare with PyTorch, which may be missing.
        may_skip = ("einsums", "launch", "training", "gpt2_1558m", "sanitizer")
        outcome, report, page, _ = run("--device=cpu", "--size=tiny",
                                       "--cases=20",
                                       f"--parts={','.join(parts)}")
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        for name in parts:
            self.assertIn(part(report, name)["status"],
                          ("passed", "skipped") if name in may_skip
                          else ("passed",), name)
        if "properties" in parts:
            self.assertIn("20 random programs",
                          " ".join(part(report, "properties")["notes"]))
        memory = part(report, "memory")["figures"][0]
        self.assertEqual(memory["bytes"], memory["planned_bytes"])
        self.assertGreater(memory["bytes"], 10000)
        names = {figure["benchmark"] for p in report["parts"]
                 for figure in p["figures"]}
        for name in ("ceiling/copy", "einsum/tiny/ff_in/bfloat16",
                     "kernel/layer_norm_gradient/bfloat16",
                     "kernel/cross_entropy/float32", "kernel/adamw/float32",
                     "meshes/data:8/data"):
            self.assertIn(name, names)
            self.assertIn(f"| {name} | mtf |", page)
        for p in report["parts"]:
            for figure in p["figures"]:
                self.assertTrue("value" in figure or "skipped" in figure)

    def test_memory_on_a_device_with_its_own_plan(self):
        outcome, report, _, _ = run("--device=cuda_emulated", "--size=tiny",
                                    "--parts=memory")
        if outcome.returncode == 2:
            self.skipTest("this build has no cuda_emulated")
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        self.assertEqual(part(report, "memory")["status"], "passed")

    def test_failures_are_listed_at_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            # A build whose memory differs from its plan and whose tests fail.
            binaries = pathlib.Path(folder, "bin")
            binaries.mkdir()
            figure = {"schema": 1, "benchmark": "memory/step", "program": "mtf",
                      "unit": "x", "value": 1.1, "bytes": 11,
                      "planned_bytes": 10}
            for program, script in (
                    ("gpu_benchmark", f"echo '{json.dumps(figure)}'"),
                    ("backends_test", "echo '[  FAILED  ] A.B/cpu'; exit 1")):
                path = binaries / program
                path.write_text(f"#!/bin/sh\n{script}\n")
                path.chmod(0o755)
            outcome, report, _, _ = run(
                f"--build={folder}", "--device=cpu",
                "--parts=memory,conformance")
        self.assertEqual(outcome.returncode, 1)
        self.assertEqual({p["status"] for p in report["parts"]}, {"failed"})
        self.assertIn("    A.B/cpu", " ".join(
            part(report, "conformance")["notes"]))
        self.assertEqual(
            sorted(line for line in outcome.stdout.splitlines()
                   if line.startswith("FAILED ")),
            ["FAILED conformance: backends_test: ended with 1",
             "FAILED memory: memory/step: 11 bytes allocated, 10 planned"])

    def test_a_part_stopped_by_the_suites_limit_has_not_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            play(folder, gpu_benchmark=COMPUTES, train_session_test=(
                "echo '[       OK ] A.B (1 ms)'; echo '[ RUN      ] A.C'\n"
                "exec sleep 100"))
            outcome, report, _, _ = run(
                f"--build={folder}", "--parts=training,sanitizer",
                "--size=tiny", "--minutes=0.1")
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        notes = part(report, "training")["notes"]
        self.assertEqual(part(report, "training")["status"], "skipped")
        self.assertIn("skipped: train_session_test: not finished, the suite's time is "
                      "over", notes)
        self.assertIn("    in A.C", notes)
        self.assertRegex(notes[0], r"train_session_test: \d+ passed, 0 skipped")
        self.assertEqual(part(report, "sanitizer")["status"], "skipped")

    def test_a_part_beyond_its_own_limit_fails_and_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            suite = suite_of(folder)
            status, text = suite.run(
                ["sh", "-c", "sleep 100 & echo $!; wait"], "slow", 0.5)
        self.assertEqual(status, runner.TOO_LONG)
        self.assertTrue(wait_for(lambda: not is_alive(text.split()[-1])))
        outcome = runner.Outcome("a")
        runner.note_gtest(outcome, "test", [(status, "[ RUN      ] A.B\n")])
        self.assertEqual(outcome.status, "failed")
        self.assertIn("FAILED test: ran out of time", outcome.notes)

    def test_a_stopped_suite_reports_its_current_part(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with tempfile.TemporaryDirectory() as folder:
                play(folder, gpu_benchmark=COMPUTES,
                     train_session_test="echo pid $$; exec sleep 100")
                out = pathlib.Path(folder, "out")
                log = out / "gpu_suite_logs" / "training_0.txt"
                process = subprocess.Popen(
                    [sys.executable, "-B", str(ROOT / "scripts" / "gpu_suite"),
                     f"--build={folder}", f"--out={out}", "--parts=training"],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.assertTrue(wait_for(
                    lambda: log.is_file() and "\npid " in log.read_text()))
                child = log.read_text().split("\npid ")[1].strip()
                process.send_signal(number)
                status = process.wait(30)
                self.assertTrue(wait_for(lambda: not is_alive(child)))
                report = json.loads((out / "report.json").read_text())
                self.assertEqual(part(report, "training")["status"],
                                 "unfinished")
                if number == signal.SIGTERM:
                    self.assertEqual(status, 128 + number)
                    with tarfile.open(out / "logs.tar.gz") as logs:
                        self.assertIn("logs/training_0.txt", logs.getnames())
                else:
                    self.assertTrue(log.is_file())

    def test_a_probe_that_crashes_is_a_failure_with_a_report(self):
        with tempfile.TemporaryDirectory() as folder:
            play(folder, gpu_benchmark="echo last words; kill -SEGV $$")
            outcome, report, _, _ = run(f"--build={folder}", "--parts=memory")
        self.assertEqual(outcome.returncode, 1)
        self.assertEqual(part(report, "memory")["status"], "skipped")
        self.assertIn("gpu_benchmark: ended with -11",
                      part(report, "device")["notes"][0])
        self.assertIn("last words", outcome.stdout)

    def test_a_sanitizer_without_access_to_the_device_is_skipped(self):
        for probe, status, note in (
                ("echo '========= COMPUTE-SANITIZER'; echo '========= Error: "
                 "Device not supported.'", "skipped",
                 "skipped: it does not work on this machine: Error: Device not "
                 "supported."),
                (f"case \"$*\" in *gpu_benchmark*) {COMPUTES};; *memcheck*) "
                 "echo '[       OK ] A.B (1 ms)'; "
                 "echo '========= ERROR SUMMARY: 0 errors';; *) "
                 "echo '========= RACECHECK SUMMARY: 1 hazard'; exit 99;; esac",
                 "failed", "FAILED racecheck: ended with 99")):
            with tempfile.TemporaryDirectory() as folder:
                binaries = play(folder, gpu_benchmark=COMPUTES,
                                backends_test="exit 0",
                                backends_cuda_test="exit 0",
                                **{"compute-sanitizer": probe})
                _, report, _, _ = run(
                    f"--build={folder}", "--parts=sanitizer",
                    env={"PATH": f"{binaries}:/usr/bin:/bin"})
            self.assertEqual(part(report, "sanitizer")["status"], status)
            self.assertIn(note, part(report, "sanitizer")["notes"])

    def test_sanitized_tests_exist(self):
        program = pathlib.Path(BUILD) / "bin" / "backends_test"
        if not program.is_file():
            self.skipTest("backends_test is not built")
        for test in suite_parts.SANITIZED["backends_test"]:
            self.assertEqual(len(self.listed(program, test)), 1, test)
        cuda = program.with_name("backends_cuda_test")
        for test in suite_parts.SANITIZED["backends_cuda_test"]:
            self.assertEqual(len(self.listed(cuda, test)), 1, test)

    @staticmethod
    def listed(program, test):
        return [line for line in subprocess.run(
            [program, "--gtest_list_tests",
             f"--gtest_filter={test.format('cuda_emulated')}"],
            capture_output=True, text=True, check=True).stdout.splitlines()
            if line.startswith("  ")]

    def test_random_programs_that_ran_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            play(folder, gpu_benchmark=COMPUTES, properties_test=(
                "echo seed 1; echo \"7 of $MTF_PROPERTY_CASES cases\""))
            _, report, _, _ = run(f"--build={folder}", "--parts=properties")
        shards = min(16, len(os.sched_getaffinity(0)))
        self.assertEqual(part(report, "properties")["status"], "passed")
        self.assertIn(f"{7 * shards} random programs within the time limit, "
                      "of 2000", part(report, "properties")["notes"][0])

    def test_the_spread_of_runs_does_not_lower_a_floor(self):
        with tempfile.TemporaryDirectory() as folder:
            suite = suite_of(folder)
            for value, spread, status in ((0.99, 0, "failed"),
                                          (0.99, 0.02, "failed"),
                                          (1.00, 0.02, "passed")):
                outcome = runner.Outcome("a")
                runner.compare(suite, outcome, "x", value, 1.0, spread)
                self.assertEqual(outcome.status, status)

    def test_floors_hold_on_a_gpu(self):
        # Shell scripts stand in for the programs and for nvidia-smi.
        figures = {
            "copy": [("ceiling/copy", 1000, {})],
            "kernels": [("kernel/gelu/bfloat16", 900, {}),
                        ("kernel/add/bfloat16", 840, {})],
            "meshes": [("meshes/one", 1, {}), ("meshes/data:8/data", 1.09, {}),
                       ("meshes/model:8/megatron", 1.11, {})],
            "memory": [("memory/step", 1, {"bytes": 7, "planned_bytes": 7})]}
        cases = "".join(
            f"*only={name}*) " + "".join("echo '" + json.dumps(
                {"schema": 1, "benchmark": benchmark, "program": "mtf",
                 "device": "cuda", "unit": "x", "value": value,
                 "milliseconds": 1, **more}) + "';" for benchmark, value, more
                in lines) + ";\n" for name, lines in figures.items())
        gpt2 = ("case \"$*\" in *tiny*) m=10;; *) m=500;; esac\n"
                "echo $m > {smi}; sleep 1.2\n"
                "echo loss 5.1, 2.000 ms/step, 8192000 tokens/s, 6.1 TFLOP/s\n"
                "echo memory planned for each rank: $m.0 MiB\n")
        with tempfile.TemporaryDirectory() as folder:
            used = pathlib.Path(folder, "used")
            used.write_text("0")
            binaries = pathlib.Path(folder, "bin")
            binaries.mkdir()
            for path, script in (
                    (binaries / "gpu_benchmark",
                     f"case \"$*\" in\n{cases}esac"),
                    (binaries / "gpt2", gpt2.format(smi=used)),
                    (binaries / "nvidia-smi",
                     "case \"$*\" in *memory.used*)\n"
                     f"read used < {used}; echo $((used + used / 100 + 600));;"
                     "\n*) echo 'NVIDIA H200, 580.1, 1 MiB';; esac")):
                path.write_text(f"#!/bin/sh\n{script}\n")
                path.chmod(0o755)
            outcome, report, page, _ = run(
                f"--build={folder}", "--parts=memory,ceilings,kernels,meshes",
                env={"PATH": f"{binaries}:/usr/bin:/bin"})
        self.assertEqual(outcome.returncode, 1, outcome.stdout)
        self.assertEqual(
            [line for line in outcome.stdout.splitlines()
             if line.startswith("FAILED ")],
            ["FAILED kernels: kernel/add/bfloat16 (840 GB/s) of the copy: "
             "0.840 (at least 0.85)",
             "FAILED meshes: meshes/model:8/megatron: time of one device with "
             "all of the work, relative to eight: 0.901 (at least 0.909)"])
        self.assertEqual(part(report, "memory")["status"], "passed")
        self.assertIn("gpt2 124M, 16 x 1024: 500 MiB planned, 5 MiB used "
                      "beyond that, not counting the context (reported, not "
                      "checked)",
                      part(report, "memory")["notes"])
        self.assertIn("NVIDIA H200", page)

    def test_no_part_starts_after_the_deadline(self):
        outcome, report, _, _ = run("--device=cpu", "--size=tiny",
                                    "--parts=kernels", "--minutes=0.01")
        self.assertEqual(outcome.returncode, 0)
        self.assertEqual(part(report, "kernels")["status"], "skipped")
        self.assertIn("too little is left of 0.01 minutes", outcome.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
