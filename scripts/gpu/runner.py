# SPDX-License-Identifier: Apache-2.0
"""How gpu_suite runs programs, ours and others, each with a time limit, and
what it makes of what they print."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Outcome:
    part: str
    status: str = "passed"  # or failed, skipped
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


class Suite:
    """Runs programs of the build or the bundle, each with a time limit."""

    def __init__(self, flags):
        self.flags = flags
        self.device = flags.device
        self.out = pathlib.Path(flags.out)
        self.out.mkdir(parents=True, exist_ok=True)
        # What programs print, kept as one file of the report.
        self.logs = pathlib.Path(tempfile.mkdtemp(prefix="gpu_suite_"))
        self.deadline = time.monotonic() + 60 * flags.minutes
        self.bundle = pathlib.Path(flags.bundle) if flags.bundle else None
        self.bin = (self.bundle or ROOT / flags.build) / "bin"
        self.peers = (self.bundle or ROOT) / "benchmarks" / "peers"
        self.outputs = 0

    def left(self):
        return self.deadline - time.monotonic()

    def has(self, program):
        return any((self.bin / name).is_file()
                   for name in (program, f"{program}.gz"))  # of a bundle

    def command(self, program):
        """How a program of ours is started."""
        if self.bundle:
            return [str(self.bundle / "run"), program]
        return [str(self.bin / program)]

    def start(self, command, name, env=None):
        path = self.logs / f"{name}.txt"
        output = open(path, "w+", encoding="utf-8", errors="replace")
        output.write("$ " + " ".join(
            [f"{k}={v}" for k, v in (env or {}).items()] + command) + "\n")
        output.flush()
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, cwd=self.logs, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1",
                 "PYTHONDONTWRITEBYTECODE": "1", **(env or {})})
        return process, output

    def finish(self, process, output, end, watch=None):
        """The exit status, None past the limit, and what was printed. Meanwhile
        `watch` is called now and then."""
        try:
            while watch and time.monotonic() < end:
                try:
                    process.wait(0.5)
                    break
                except subprocess.TimeoutExpired:
                    watch()
            status = process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            # Its children, as ranks and compilers, are of its session.
            os.killpg(process.pid, 9)
            process.wait()
            status = None
        output.seek(0)
        text = output.read()
        output.close()
        return status, text

    def run(self, command, name, limit, env=None, watch=None):
        end = time.monotonic() + min(limit, max(1, self.left()))
        process, output = self.start(command, name, env)
        return self.finish(process, output, end, watch)

    def run_all(self, commands, limit):
        """Several at once: [(command, name, env)]."""
        end = time.monotonic() + min(limit, max(1, self.left()))
        started = [self.start(*command) for command in commands]
        return [self.finish(*one, end) for one in started]


def last_lines(text, count=12):
    return ["    " + line for line in text.rstrip().splitlines()[-count:]]


def explain_status(status):
    return "ran out of time" if status is None else f"ended with {status}"


def expect_success(outcome, what, status, text):
    if status == 0:
        return True
    outcome.fail(f"{what}: {explain_status(status)}")
    outcome.notes += last_lines(text)
    return False


def run_gtest(suite, outcome, program, gtest_filter, limit, env=None,
              prefix=(), name=None):
    """A test binary: counts what passed, repeats what failed."""
    name = name or outcome.part
    if not suite.has(program):
        outcome.fail(f"there is no {suite.bin / program}")
        return None
    status, text = suite.run(
        [*prefix, *suite.command(program), f"--gtest_filter={gtest_filter}",
         "--gtest_brief=0"], name, limit, env)
    note_gtest(outcome, program, status, text)
    return status


def note_gtest(outcome, program, status, text):
    passed = re.findall(r"^\[  PASSED  \] (\d+) test", text, re.M)
    skipped = re.findall(r"^\[  SKIPPED \] (\d+) test", text, re.M)
    passed = int(passed[-1]) if passed else 0
    skipped = int(skipped[-1]) if skipped else 0
    outcome.notes.append(f"{program}: {passed} passed, {skipped} skipped")
    if status != 0:
        outcome.fail(f"{program}: {explain_status(status)}")
        failed = sorted(set(re.findall(r"^\[  FAILED  \] (\S+)", text, re.M)))
        outcome.notes += [f"    {test.rstrip(',')}" for test in failed[:20]]
        outcome.notes += last_lines(text, 8) if not failed else []
        return
    if passed == 0:
        reasons = sorted(set(re.findall(r"^.*: Skipped\n(.*)$", text, re.M)))
        if skipped:
            outcome.skip(reasons[0] if reasons else "every test skipped")
        else:
            outcome.fail(f"{program}: no test has this name")


def figures_of(text):
    """The lines of a benchmark that are measurements."""
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


def run_benchmark(suite, outcome, command, name, limit, ours=True):
    """Adds what a benchmark printed; the measurements that are none are noted.
    Returns those that are. One of ours may not fail."""
    status, text = suite.run(command, name, limit)
    figures = figures_of(text)
    outcome.figures += figures
    for figure in figures:
        if "skipped" in figure:
            outcome.notes.append(f"{figure['benchmark']} ({figure['program']})"
                                 f" skipped: {figure['skipped']}")
    if status != 0:
        note = f"{name}: {explain_status(status)}"
        outcome.fail(note) if ours else outcome.notes.append(note)
        outcome.notes += last_lines(text)
    return [figure for figure in figures if "skipped" not in figure]


def run_peer(suite, outcome, script, arguments, name, limit):
    device = "cuda" if suite.device == "cuda" else "cpu"
    return run_benchmark(
        suite, outcome, [sys.executable, str(suite.peers / script), *arguments,
                         f"--device={device}"], name, limit, ours=False)


class UsedMemory:
    """The most memory of the GPU in use by anybody, as nvidia-smi sees it: the
    context and the libraries' own besides what a program asks for."""

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
            pass  # no figure, then


def run_gpt2(suite, outcome, name, limit, model, batch, length, precision,
             steps, watch=None):
    """Our training step; its figure has the form of a peer's."""
    if not suite.has("gpt2"):
        outcome.fail(f"there is no {suite.bin / 'gpt2'}")
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


def compare(suite, outcome, what, value, least):
    """A floor of the project: below it the part fails, unless this is only a
    trial of the suite."""
    trial = suite.tiny or suite.device != "cuda"
    ok = trial or value >= least
    outcome.figures.append({"schema": 1, "benchmark": what, "program": "ratio",
                            "value": value, "unit": "x", "least": least,
                            "ok": ok, "trial": trial})
    line = (f"{what}: {value:.3f} (at least {least}"
            f"{', on a GPU at full size' if trial else ''})")
    if ok:
        outcome.notes.append(line)
    else:
        outcome.fail(line)


def why_no_device(suite):
    """"" where the device computes; else what is missing."""
    status, text = suite.run(
        [*suite.command("gpu_benchmark"), f"--device={suite.device}",
         "--only=copy", "--size=tiny", "--repeats=1"], "device", 60)
    for figure in figures_of(text):
        if "skipped" in figure:
            return figure["skipped"]
        return ""
    if status == 2:  # a name that this build does not know
        message = text.strip().splitlines()[1]
        if suite.device != "cuda":
            sys.stderr.write(f"gpu_suite: {message}\n")
            sys.exit(2)
        return message
    raise RuntimeError("gpu_benchmark " + explain_status(status) + "\n" +
                       "\n".join(last_lines(text)))
