# SPDX-License-Identifier: Apache-2.0
"""The parts of gpu_suite. docs/gpu_suite.md says when each one passes."""

import dataclasses
import json
import math
import os
import re
import shutil
import time

from gpu.runner import (compare, expect_success, explain_status, run_benchmark,
                        run_gpt2, run_gtest, run_peer, UsedMemory)


def conformance(suite, outcome, limit):
    """Every instruction on the device, and on CUDA devices every fused group,
    against loops."""
    end = time.monotonic() + limit
    programs = ["backends_test"]
    if suite.device.startswith("cuda"):
        programs.append("backends_cuda_test")
    for program in programs:
        run_gtest(suite, outcome, program,
                  f"*/{suite.device}:*_on_{suite.device}",
                  end - time.monotonic(), shards=suite.workers())


def properties(suite, outcome, limit):
    """Random programs under random layouts on meshes of up to 8 virtual
    devices. Several processes share the GPU; each stops when its time is over."""
    if not suite.has("properties_test"):
        outcome.fail("properties_test was not found")
        return
    limit = min(limit, suite.left())
    shards = min(suite.workers(), suite.flags.cases)
    cases = suite.flags.cases
    results = suite.run_all(
        [([*suite.command("properties_test"),
           "--gtest_filter=*NamedDeviceEqualsOracle/0"],
          f"properties_{shard}",
          {"MTF_PROPERTY_DEVICE": suite.device,
           "MTF_PROPERTY_SEED": str(1000000 * shard + 750000),
           "MTF_PROPERTY_CASES": str(cases // shards +
                                     (shard < cases % shards)),
           # A case whose kernels are not cached takes seconds.
           "MTF_PROPERTY_SECONDS": str(max(1, int(limit - 25)))})
         for shard in range(shards)], limit)
    done = 0
    for shard, (status, text) in enumerate(results):
        # A process that was stopped printed no count: then all cases that were
        # started, except for the last, count as done.
        reported = re.findall(r"^(\d+) of \d+ cases$", text, re.M)
        begun = re.findall(r"^seed (\d+)$", text, re.M)
        done += int(reported[-1]) if reported else max(0, len(begun) - 1)
        if status == 0:
            continue
        outcome.stop(f"properties_test {shard}" +
                     (f", in seed {begun[-1]}" if begun else ""), status)
        outcome.notes += [f"    {line}" for line in text.splitlines()
                          if "MTF_PROPERTY_SEED=" in line][:3]
    outcome.notes.append(
        f"{done} random programs" +
        (f" within the time limit, of {cases}" if done < cases else "") +
        f", seeds from 750000 in steps of 1000000, {shards} times")
    if done == 0 and outcome.status == "passed":
        outcome.fail("no random program was run")


def training(suite, outcome, limit):
    """Initial bits, dropout and fifty losses of the small model, on one device
    and on meshes, compared with the CPU's."""
    if suite.device == "cpu":
        outcome.skip("the CPU is the reference of this comparison")
        return
    run_gtest(suite, outcome, "train_session_test",
              f"*DeviceAgreement*{suite.device}", limit,
              shards=suite.workers())


def curves(suite, outcome, limit):
    """Fifty steps of a small GPT-2: float32 compared with the CPU, bfloat16
    compared with float32."""
    losses = {}
    for device, precision in (("cpu", "float32"), (suite.device, "float32"),
                              (suite.device, "bfloat16")):
        name = f"curves_{device}_{precision}"
        log = suite.logs / f"{name}.json"
        status, text = suite.run(
            [*suite.command("gpt2"), "--model=tiny", "--batch=8",
             "--length=32", "--steps=50", f"--precision={precision}",
             f"--backend={device}", f"--log_json={log}"], name, limit / 3)
        if not expect_success(outcome, f"gpt2 tiny {precision} on {device}",
                              status, text):
            return
        losses[device, precision] = [
            json.loads(line)["loss"]
            for line in log.read_text().splitlines()]

    def difference(one, other):
        return max(abs(a - b) / abs(b) for a, b in zip(one, other))

    cpu = losses["cpu", "float32"]
    single = losses[suite.device, "float32"]
    half = losses[suite.device, "bfloat16"]
    if len(cpu) != 50 or len(single) != 50 or len(half) != 50:
        outcome.fail("a run did not log fifty steps")
        return
    for what, value, most in (
            ("float32 against the CPU", difference(single, cpu), 1e-3),
            ("bfloat16 against float32", difference(half, single), 0.02)):
        line = f"{what}: losses differ by {value:.1e} (at most {most})"
        outcome.notes.append(line) if value <= most else outcome.fail(line)
    if not cpu[-1] < 0.95 * cpu[0]:
        outcome.fail("the model does not learn, so its curves prove little")


def nccl(suite, outcome, limit):
    """Every collective in a communicator of one rank, then of two processes on
    this GPU, which NCCL treats as two hosts connected by sockets."""
    program = "device_communicator_test"
    if not suite.has(program):
        outcome.fail(f"{suite.bin / program} was not found")
        return
    status, text = suite.run(
        [*suite.command(program), suite.device], "nccl_one", limit / 3,
        {"NCCL_DEBUG": "WARN"})
    if expect_success(outcome, "one rank", status, text):
        outcome.notes += text.splitlines()[-1:]
    if suite.device != "cuda":
        outcome.notes.append("two processes: skipped, NCCL needs a GPU")
        return
    mpirun = ([str(suite.bundle / "run"), "mpirun"] if suite.bundle
              else [shutil.which("mpirun") or "mpirun"])
    ranks = []
    for rank in range(2):
        ranks += ([":"] if rank else []) + [
            "-n", "1", "-x", f"NCCL_HOSTID=mtf_{rank}",
            *([program] if suite.bundle else suite.command(program)),
            suite.device]
    environment = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1",
                   "CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "WARN",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "OMPI_MCA_hwloc_base_binding_policy": "none"}
    status, text = suite.run([*mpirun, *ranks], "nccl_two", limit / 2,
                             environment)
    if expect_success(outcome, "two processes on one GPU", status, text):
        outcome.notes += text.splitlines()[-1:]


# Tests that compile few kernels and together run a kernel of each kind: under
# compute-sanitizer everything takes many times as long. By the program that has
# them; {} is the device.
SANITIZED = {
    "backends_test": (
        "*EinsumTest.ASumInFloatIsNotRounded/{}",
        "*EinsumTest.SixteenBitOperandsGiveFloatResults/{}",
        "*GatherTest.AnIndexOfAnotherRanksShardGivesZero/{}",
        "*GatherTest.BFloat16SumsAreInFloat/{}", "*MapTest.AFusedExpression/{}",
        "*MapTest.InPlace/{}", "*MovementTest.PadFillsBeforeAndAfter/{}",
        "*MovementTest.BlockCopiesChangeTheOrderOfBlocks/{}",
        "*ReduceTest.AMapBeforeTheReduction/{}", "*ReduceTest.NanPropagates/{}",
        "*ScanTest.PaddingIsIgnoredAndZeroed/{}",
        "*ReduceBlocksTest.GivesATotal*/{}", "*TopKTest.PaddingIsNeverSelected/{}"),
    "backends_cuda_test": (
        "*CudaAttention.RowsWithoutVisiblePositions*/{}",
        "*Groups.MatchTheirMembersAlone/SoftmaxAndItsGradient_5x24_f32_on_{}",
        "*Groups.MatchTheirMembersAlone/SoftmaxAndItsGradient_2x8201_bf16_on_{}",
        "*Groups.MatchTheirMembersAlone/AdamW_5x24_f32_on_{}")}


def sanitizer(suite, outcome, limit):
    if suite.device != "cuda":
        outcome.skip("compute-sanitizer only checks GPUs")
        return
    tool = shutil.which("compute-sanitizer") or next(
        (path for path in ("/usr/local/cuda/bin/compute-sanitizer",
                           "/opt/nvidia/compute-sanitizer/compute-sanitizer")
         if os.access(path, os.X_OK)), None)
    if tool is None:
        outcome.skip("compute-sanitizer was not found")
        return
    end = time.monotonic() + limit

    def run(check, name, program, arguments, limit):
        # cuDNN's kernels order matmuls and copies by barriers that racecheck
        # does not know.
        exclude = (["--kernel-name-exclude", "kernel_substring=cudnn"]
                   if check == "racecheck" else [])
        command = suite.command_under(
            [tool, "--tool", check, "--error-exitcode", "99",
             "--target-processes", "all", *exclude], program)
        return suite.run([*command, *arguments], name, limit,
                         {"MTF_CUDA_RECORD": "0"})

    # Many machines do not give it access to their GPU.
    status, text = run("memcheck", "sanitizer_probe", "gpu_benchmark",
                       ["--device=cuda", "--only=copy", "--size=tiny",
                        "--repeats=1"], limit / 3)
    if "ceiling/copy" not in text or "Device not supported" in text:
        lines = [line for line in text.splitlines() if "=====" in line
                 and "COMPUTE-SANITIZER" not in line]
        why = lines[0].strip("= ") if lines else explain_status(status)
        outcome.skip(f"it does not work on this machine: {why}")
        return
    runs = [(check, program, tests) for check in ("memcheck", "racecheck")
            for program, tests in SANITIZED.items()]
    for index, (check, program, tests) in enumerate(runs):
        chosen = ":".join(test.format(suite.device) for test in tests)
        status, text = run(
            check, f"sanitizer_{check}_{program}", program,
            [f"--gtest_filter={chosen}"],
            (end - time.monotonic()) / (len(runs) - index))
        passed = len(re.findall(r"^\[       OK \] ", text, re.M))
        found = re.findall(r"^========= (?:ERROR|RACECHECK) SUMMARY: .*$",
                           text, re.M)
        outcome.notes.append(f"{check}: {passed} tests of {program}" + "".join(
            f", {line[10:]}" for line in found[-1:]))
        if expect_success(outcome, check, status, text) and not passed:
            outcome.fail(f"{check}: {program} has none of these tests")


def gpu_benchmark(suite, part):
    return [*suite.command("gpu_benchmark"), f"--device={suite.device}",
            f"--only={part}", f"--size={suite.flags.size}"]


def memory(suite, outcome, limit):
    for figure in run_benchmark(suite, outcome,
                                gpu_benchmark(suite, "memory"), "memory",
                                limit / 3):
        line = (f"{figure['benchmark']}: {figure['bytes']} bytes allocated, "
                f"{figure['planned_bytes']} planned")
        if figure["bytes"] == figure["planned_bytes"]:
            outcome.notes.append(line)
        else:
            outcome.fail(line)
    if suite.tiny or suite.device != "cuda":
        return
    # A tiny model mostly uses memory for the context and the libraries. What a
    # large model uses on top of that and of its plan is scratch of kernels.
    measured = []
    for model, steps in (("tiny", 2000), ("124M", 60)):
        used = UsedMemory()
        figure = run_gpt2(suite, outcome, f"memory_{model}", limit / 3, model,
                          16, 1024, "bfloat16", steps, watch=used)
        if figure and not used.bytes:
            outcome.notes.append("nvidia-smi does not report the memory in use")
        if not figure or not used.bytes:
            return
        figure["used_bytes"] = used.bytes
        measured.append((figure["planned_bytes"], used.bytes))
    (tiny_planned, tiny_used), (planned, used) = measured
    beyond = (used - tiny_used) - (planned - tiny_planned)
    outcome.notes.append(
        f"gpt2 124M, 16 x 1024: {planned >> 20} MiB planned, "
        f"{beyond / (1 << 20):.0f} MiB used beyond that, not counting the "
        "context (reported, not checked)")


def ceilings(suite, outcome, limit):
    ours = run_benchmark(suite, outcome, gpu_benchmark(suite, "copy"),
                         "ceilings_mtf", limit / 2)
    small = ["--copy_mib=16", "--matmul=256"] if suite.tiny else []
    theirs = run_peer(suite, outcome, "ceilings_torch.py", small,
                      "ceilings_torch", limit / 2)
    for figure in ours + theirs:
        outcome.notes.append(f"{figure['benchmark']} ({figure['program']}): "
                             f"{figure['value']:.0f} {figure['unit']}")


def copy_ceiling(suite):
    """GB/s of the fastest copy measured, or None."""
    return max((figure["value"] for outcome in suite.outcomes
                for figure in outcome.figures
                if figure["benchmark"] == "ceiling/copy" and "value" in figure),
               default=None)


def best_of(figures):
    """Maps each benchmark to its best value and its spread, (best - worst) /
    best."""
    values = {}
    for figure in figures:
        values.setdefault(figure["benchmark"], []).append(figure["value"])
    return {name: (max(of), 1 - min(of) / max(of))
            for name, of in values.items()}


def einsums(suite, outcome, limit):
    # Ours, theirs, ours: a change of the machine's load affects both.
    begin = time.monotonic()
    command = gpu_benchmark(suite, "einsums")
    ours = run_benchmark(suite, outcome, command, "einsums_mtf", limit / 2)
    took = time.monotonic() - begin
    only = "--only=tiny" if suite.tiny else "--only=124M,1558M,square"
    theirs = {figure["benchmark"]: figure for figure in run_peer(
        suite, outcome, "einsum_torch.py", [only], "einsums_torch",
        limit / 3)}
    if not theirs:
        outcome.skip("no peer to compare with")
        return
    left = begin + limit - time.monotonic()
    if outcome.status == "passed" and left > took:
        ours += run_benchmark(suite, outcome, command, "einsums_mtf_again",
                              left)
    for name, (value, spread) in best_of(ours).items():
        if name in theirs:
            compare(suite, outcome, f"{name} ({value:.0f} TFLOP/s) against "
                    "torch.matmul", value / theirs[name]["value"], 0.98,
                    spread)


def kernels(suite, outcome, limit):
    ceiling = copy_ceiling(suite)
    for figure in run_benchmark(suite, outcome,
                                gpu_benchmark(suite, "kernels"), "kernels",
                                limit):
        if ceiling is None:
            outcome.notes.append(f"{figure['benchmark']}: "
                                 f"{figure['value']:.0f} GB/s")
        else:
            compare(suite, outcome, f"{figure['benchmark']} "
                    f"({figure['value']:.0f} GB/s) of the copy",
                    figure["value"] / ceiling, 0.85)
    if ceiling is None:
        outcome.skip("no measured copy to compare with: also run the part "
                     "ceilings")


def meshes(suite, outcome, limit):
    for figure in run_benchmark(suite, outcome, gpu_benchmark(suite, "meshes"),
                                "meshes", limit):
        if figure["benchmark"] != "meshes/one":
            compare(suite, outcome, f"{figure['benchmark']}: time of one "
                    "device with all of the work, relative to eight",
                    1 / figure["value"], 0.909)


def training_step(suite, outcome, limit, model, batch, length, least, modes,
                  steps=20, jax=True):
    """Runs ours, the peers, ours again; compares the best of each."""
    begin = time.monotonic()
    end = begin + limit

    def run_ours(name, limit):
        return run_gpt2(suite, outcome, name, limit, model, batch, length,
                        "bfloat16", steps)

    ours = [run_ours(outcome.part, limit / 3)]
    if not ours[0]:
        return
    # Reserves time for our second run, whose kernels are compiled already.
    again = time.monotonic() - begin + 5
    sizes = [f"--model={model}", f"--batch={batch}", f"--length={length}",
             "--precision=bfloat16", f"--steps={steps}"]
    peers = []
    for index, mode in enumerate(modes):
        # Avoids out-of-memory by fragmentation where a model fills the GPU. The
        # modes with CUDA graphs have memory pools of their own.
        env = ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
               if mode == "compile" else None)
        peers += run_peer(suite, outcome, "gpt2_torch.py",
                          [*sizes, f"--mode={mode}"],
                          f"{outcome.part}_torch_{mode}",
                          (end - time.monotonic() - again) /
                          (len(modes) - index), env)
    if peers:
        ours.append(run_ours(f"{outcome.part}_again", again))
    if jax:  # reported, without a floor
        run_peer(suite, outcome, "gpt2_jax.py", sizes, f"{outcome.part}_jax",
                 end - time.monotonic())
    for figure in outcome.figures:
        if "model_tflops" in figure:
            outcome.notes.append(
                f"{figure['program']}: {figure['milliseconds']:.3f} ms, "
                f"{figure['value']:.0f} tokens/s, "
                f"{figure['model_tflops']:.0f} TFLOP/s (6 N + 6 L h T)" +
                (f", {figure['attention']}" if figure.get("attention") else
                 ""))
    outcome.notes.append(
        f"memory: {ours[0]['planned_bytes'] >> 20} MiB; PyTorch's peak: " +
        (", ".join(str(figure["peak_bytes"] >> 20) for figure in peers)
         or "not measured"))
    if not peers:
        outcome.skip("no peer to compare with")
        return
    best = max(peers, key=lambda figure: figure["value"])
    [(name, (value, spread))] = best_of(filter(None, ours)).items()
    compare(suite, outcome, f"{name} against {best['program']}",
            value / best["value"], least, spread)


def gpt2_124m(suite, outcome, limit):
    if suite.tiny:
        training_step(suite, outcome, limit, "tiny", 2, 16, 1.0, ["eager"], 3)
    else:
        training_step(suite, outcome, limit, "124M", 64, 1024, 1.0,
                      ["compile"])


def gpt2_1558m(suite, outcome, limit):
    if suite.trial:
        outcome.skip("its only size needs a GPU")
        return
    # 16 x 1024 tokens take 77 GiB, which may not fit a GPU of 80 GB.
    batch = 16 if suite.machine.get("gpu_bytes", 0) >= 90e9 else 8
    if batch == 8:
        outcome.notes.append("batch 8 for both, not 16: the GPU has less than "
                             "90 GB")
    training_step(suite, outcome, limit, "1558M", batch, 1024, 1.0,
                  ["compile"], steps=15, jax=False)


def launch(suite, outcome, limit):
    """A step so small that its launches dominate its time."""
    end = time.monotonic() + limit
    for figure in run_benchmark(suite, outcome,
                                gpu_benchmark(suite, "launches"), "launches",
                                limit / 4):
        outcome.notes.append(f"{figure['benchmark']}: "
                             f"{figure['milliseconds']:.3f} ms")
    if suite.tiny:
        model, length, modes, steps = "tiny", 16, ["eager"], 3
    else:
        model, length, steps = "124M", 128, 100
        modes = ["graph", "reduce-overhead"]
    training_step(suite, outcome, end - time.monotonic(), model, 1, length, 1.0,
                  modes, steps, jax=False)


@dataclasses.dataclass
class Part:
    name: str
    kind: str  # "tests" or "benchmarks"
    least: int  # seconds on a fast machine: not started with fewer left
    limit: int  # seconds
    run: object


# Quick parts with broad coverage come first: the limits suit cold caches and
# slow machines, and their sum exceeds the time of the suite.
PARTS = [
    Part("nccl", "tests", 10, 60, nccl),
    Part("memory", "tests", 25, 120, memory),
    Part("curves", "tests", 15, 120, curves),
    Part("conformance", "tests", 30, 150, conformance),
    Part("ceilings", "benchmarks", 15, 60, ceilings),
    Part("kernels", "benchmarks", 20, 90, kernels),
    Part("training", "tests", 20, 120, training),
    Part("gpt2_124m", "benchmarks", 60, 240, gpt2_124m),
    Part("launch", "benchmarks", 60, 240, launch),
    Part("meshes", "benchmarks", 25, 120, meshes),
    Part("einsums", "benchmarks", 60, 200, einsums),
    Part("properties", "tests", 60, 180, properties),
    Part("gpt2_1558m", "benchmarks", 100, 360, gpt2_1558m),
    Part("sanitizer", "tests", 45, 180, sanitizer),
]
