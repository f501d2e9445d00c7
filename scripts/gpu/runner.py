# SPDX-License-Identifier: Apache-2.0
"""Runs programs for gpu_suite, ours and peers', each with a time limit, and
interprets their output."""

import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# In place of an exit status: the program was stopped by its own limit, or
# because the time of the suite was over.
TOO_LONG = "ran out of time"
CUT = "not finished, the suite's time is over"

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


@dataclasses.dataclass
class Outcome:
    part: str
    status: str = "passed"  # or failed, skipped, unfinished
    seconds: float = 0
    notes: list = dataclasses.field(default_factory=list)  # lines for people
    figures: list = dataclasses.field(default_factory=list)  # JSON objects

    def fail(self, note):
        self.status = "failed"
        self.notes.append(f"FAILED {note}")

    def skip(self, note):
        if self.status == "passed":
            self.status = "skipped"
        self.notes.append(f"skipped: {note}")

    def stop(self, what, status):
        """Notes a program that did not succeed. If only the suite's time was
        over, the part is skipped, not failed."""
        if status == CUT:
            self.skip(f"{what}: {CUT}")
        else:
            self.fail(f"{what}: {explain_status(status)}")


def cache_folder():
    """Folder for compiled kernels. Not below HOME, which may be read-only or hold
    the cache of other runs. It is kept: parts are often run in several calls."""
    if "MTF_CACHE_DIR" in os.environ:
        return os.environ["MTF_CACHE_DIR"]
    folder = os.path.join(tempfile.gettempdir(),
                          f"mtf-gpu-suite-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # The suite runs code from this folder, so it must belong to this user.
    ours = os.stat(folder).st_uid == os.getuid()
    return folder if ours else tempfile.mkdtemp(prefix="mtf-gpu-suite-")


def begin_process():
    """Runs in a child before its program starts. Gives it its own process group,
    so that a limit also stops its ranks and compilers, and lets the kernel kill
    it when the suite dies for any reason."""
    os.setpgrp()
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Suite:
    """Runs programs of the build or the bundle, each with a time limit."""

    def __init__(self, flags):
        self.flags = flags
        self.device = flags.device
        self.tiny = flags.size == "tiny"
        # Floors apply on a GPU at full size; anything else only tests the suite.
        self.trial = self.tiny or self.device != "cuda"
        self.outcomes = []
        self.machine = {}
        self.out = pathlib.Path(flags.out)
        # Output of the programs: a folder while they run, so that it survives if
        # the suite is killed, and one archive afterwards. The folder is emptied
        # first, so its name must be one that no user folder has.
        self.logs = self.out / "gpu_suite_logs"
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.deadline = time.monotonic() + 60 * flags.minutes
        self.bundle = pathlib.Path(flags.bundle) if flags.bundle else None
        self.bin = (self.bundle or ROOT / flags.build) / "bin"
        self.peers = (self.bundle or ROOT) / "benchmarks" / "peers"
        self.cache = cache_folder()
        self.running = []

    def left(self):
        return self.deadline - time.monotonic()

    def workers(self):
        """Number of processes for parts that mostly compile kernels. Each has a
        context on the GPU, so there is a limit besides the number of cores."""
        return min(16, len(os.sched_getaffinity(0)))

    def has(self, program):
        return any((self.bin / name).is_file()
                   for name in (program, f"{program}.gz"))  # in a bundle

    def command(self, program):
        """Command that starts a program of ours."""
        if self.bundle:
            return [str(self.bundle / "run"), program]
        return [str(self.bin / program)]

    def command_under(self, tool, program):
        """Command that starts a program of ours under `tool`, which needs the
        path of the binary, not of a script."""
        if not self.bundle:
            return [*tool, str(self.bin / program)]
        run = [str(self.bundle / "run"), "--exec"]
        path = subprocess.run(
            [*run, "sh", "-c", f"command -v {program}"], capture_output=True,
            text=True, check=True, timeout=60).stdout.strip()
        return [*run, *tool, path]

    def start(self, command, name, env=None):
        path = self.logs / f"{name}.txt"
        output = open(path, "w+", encoding="utf-8", errors="replace")
        output.write("$ " + " ".join(
            [f"{k}={v}" for k, v in (env or {}).items()] + command) + "\n")
        output.flush()
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, cwd=self.logs, preexec_fn=begin_process,
            env={**os.environ, "PYTHONUNBUFFERED": "1",
                 "PYTHONDONTWRITEBYTECODE": "1", "MTF_CACHE_DIR": self.cache,
                 **(env or {})})
        self.running.append(process)
        return process, output

    def kill(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # A process that hangs in the driver cannot be killed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        if process in self.running:
            self.running.remove(process)

    def kill_all(self):
        for process in list(self.running):
            self.kill(process)

    def finish(self, process, output, end, watch=None):
        """Returns (exit status, TOO_LONG or CUT; output). Calls `watch` twice a
        second while it waits."""
        try:
            while watch and time.monotonic() < end:
                try:
                    process.wait(0.5)
                    break
                except subprocess.TimeoutExpired:
                    watch()
            status = process.wait(max(0.1, end - time.monotonic()))
            self.running.remove(process)
        except subprocess.TimeoutExpired:
            self.kill(process)
            status = TOO_LONG if self.left() > 1 else CUT
        output.seek(0)
        text = output.read()
        output.close()
        return status, text

    def run(self, command, name, limit, env=None, watch=None):
        end = time.monotonic() + min(limit, max(1, self.left()))
        process, output = self.start(command, name, env)
        return self.finish(process, output, end, watch)

    def run_all(self, commands, limit):
        """Runs several commands concurrently: [(command, name, env)]."""
        end = time.monotonic() + min(limit, max(1, self.left()))
        started = [self.start(*command) for command in commands]
        return [self.finish(*one, end) for one in started]


def last_lines(text, count=12):
    return ["    " + line for line in text.rstrip().splitlines()[-count:]]


def explain_status(status):
    return status if isinstance(status, str) else f"ended with {status}"


def expect_success(outcome, what, status, text):
    if status == 0:
        return True
    outcome.stop(what, status)
    outcome.notes += last_lines(text)
    return False


def run_gtest(suite, outcome, program, gtest_filter, limit, env=None,
              shards=1):
    """Runs a test binary as `shards` processes that share its tests. Notes how
    many passed and the names of those that failed."""
    if not suite.has(program):
        outcome.fail(f"{suite.bin / program} was not found")
        return
    results = suite.run_all(
        [([*suite.command(program), f"--gtest_filter={gtest_filter}",
           "--gtest_brief=0"], f"{outcome.part}_{shard}",
          {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard),
           **(env or {})}) for shard in range(shards)], limit)
    note_gtest(outcome, program, results)


def note_gtest(outcome, program, results):
    """Notes the results of the processes that shared the tests of `program`."""
    output = "\n".join(text for _, text in results)
    passed = len(re.findall(r"^\[       OK \] ", output, re.M))
    skipped = len(re.findall(r"^\[  SKIPPED \] .* ms\)$", output, re.M))
    outcome.notes.append(f"{program}: {passed} passed, {skipped} skipped")
    bad = [result for result in results if result[0] != 0]
    for status in dict.fromkeys(status for status, _ in bad):
        outcome.stop(program, status)
    for status, text in bad:
        failed = sorted(set(re.findall(r"^\[  FAILED  \] ([^\s,]*[./][^\s,]*)",
                                       text, re.M)))
        outcome.notes += [f"    {test}" for test in failed[:20]]
        if failed:
            continue
        begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)
        outcome.notes += [f"    in {test}" for test in begun[-1:]]
        outcome.notes += last_lines(text, 8) if status != CUT else []
    if not bad and passed == 0:
        reasons = sorted(set(re.findall(r"^.*: Skipped\n(.*)$", output, re.M)))
        if skipped:
            outcome.skip(reasons[0] if reasons else "every test skipped")
        else:
            outcome.fail(f"{program}: no test has this name")


def figures_of(text):
    """Parses the lines of a benchmark's output that are measurements."""
    figures = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            figure = json.loads(line)
        except ValueError:
            continue
        if isinstance(figure, dict) and "benchmark" in figure:
            figures.append(figure)
    return figures


def run_benchmark(suite, outcome, command, name, limit, ours=True, env=None):
    """Runs a benchmark and adds its measurements to `outcome`. Skipped ones are
    noted; the others are returned. If one of ours fails, the part fails."""
    status, text = suite.run(command, name, limit, env)
    figures = figures_of(text)
    outcome.figures += figures
    for figure in figures:
        if "skipped" in figure:
            outcome.notes.append(f"{figure['benchmark']} ({figure['program']})"
                                 f" skipped: {figure['skipped']}")
    if status != 0:
        if ours:
            outcome.stop(name, status)
        else:
            outcome.notes.append(f"{name}: {explain_status(status)}")
        outcome.notes += last_lines(text)
    return [figure for figure in figures if "skipped" not in figure]


def run_peer(suite, outcome, script, arguments, name, limit, env=None):
    device = "cuda" if suite.device == "cuda" else "cpu"
    # Peers may use as much GPU memory as we do; JAX's default is 75 %.
    env = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.92", **(env or {})}
    return run_benchmark(
        suite, outcome, [sys.executable, str(suite.peers / script), *arguments,
                         f"--device={device}"], name, limit, ours=False,
        env=env)


class UsedMemory:
    """Peak memory in use on the GPU according to nvidia-smi, which includes the
    context and the libraries' own memory."""

    def __init__(self):
        self.bytes = 0

    def __call__(self):
        try:
            text = subprocess.run(
                ["nvidia-smi", "--query-gpu=memory.used",
                 "--format=csv,noheader,nounits"], capture_output=True,
                text=True, timeout=10, check=True).stdout
            self.bytes = max(self.bytes, int(text.split()[0]) << 20)
        except (OSError, subprocess.SubprocessError, ValueError, IndexError):
            pass  # nvidia-smi gave no figure


def run_gpt2(suite, outcome, name, limit, model, batch, length, precision,
             steps, watch=None):
    """Measures our training step; the figure has the format of a peer's."""
    if not suite.has("gpt2"):
        outcome.fail(f"{suite.bin / 'gpt2'} was not found")
        return None
    status, text = suite.run(
        [*suite.command("gpt2"), f"--model={model}", f"--batch={batch}",
         f"--length={length}", f"--precision={precision}", f"--steps={steps}",
         f"--backend={suite.device}"], name, limit, watch=watch)
    if not expect_success(outcome, f"gpt2 {model}", status, text):
        return None
    numbers = re.search(
        r"loss ([\d.e+-]+), ([\d.e+-]+) ms/step, ([\d.e+-]+) tokens/s, "
        r"([\d.e+-]+) TFLOP/s", text)
    memory = re.search(r"memory planned for each rank: ([\d.]+) MiB", text)
    if not numbers or not memory:
        outcome.fail("gpt2 printed no result")
        return None
    loss, ms, rate, tflops = (float(group) for group in numbers.groups())
    figure = {"schema": 1,
              "benchmark": f"gpt2/{model}/{batch}x{length}/{precision}",
              "program": "mtf", "device": suite.device, "unit": "tokens/s",
              "value": rate, "milliseconds": ms, "repeats": steps - 1,
              "loss": loss, "model_tflops": tflops,
              "planned_bytes": int(float(memory.group(1)) * (1 << 20))}
    outcome.figures.append(figure)
    return figure


def compare(suite, outcome, what, value, least, spread=0):
    """Checks a floor of the project: below it the part fails, except in a trial
    of the suite. `spread`, the relative difference of our runs, is reported."""
    ok = suite.trial or value >= least
    outcome.figures.append({"schema": 1, "benchmark": what, "program": "ratio",
                            "value": value, "unit": "x", "least": least,
                            "spread": spread, "ok": ok, "trial": suite.trial})
    line = (f"{what}: {value:.3f} (at least {least}"
            f"{f', runs of ours differ by {spread:.1%}' if spread else ''}"
            f"{', on a GPU at full size' if suite.trial else ''})")
    if ok:
        outcome.notes.append(line)
    else:
        outcome.fail(line)


def why_no_device(suite):
    """Returns ("", False) if the device works; otherwise the reason, and whether
    it counts as a failure even on a machine without a GPU."""
    status, text = suite.run(
        [*suite.command("gpu_benchmark"), f"--device={suite.device}",
         "--only=copy", "--size=tiny", "--repeats=1"], "device", 60)
    for figure in figures_of(text):
        return figure.get("skipped", ""), False
    if status == 2:  # this build has no device of this name
        message = text.strip().splitlines()[1]
        if suite.device != "cuda":
            sys.stderr.write(f"gpu_suite: {message}\n")
            sys.exit(2)
        return message, False
    return "\n".join([f"gpu_benchmark: {explain_status(status)}",
                      *last_lines(text)]), True
