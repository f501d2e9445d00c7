# SPDX-License-Identifier: Apache-2.0
"""The parts of gpu_suite: docs/gpu_suite.md says when each passes."""

import dataclasses
import json
import math
import os
import re
import shutil
import time

from gpu.runner import (compare, expect_success, note_gtest, Outcome,
                        run_benchmark, run_gpt2, run_gtest, run_peer,
                        UsedMemory)


def conformance(suite, outcome, limit):
    run_gtest(suite, outcome, "backends_test",
              f"*/{suite.device}", limit)


def properties(suite, outcome, limit):
    """2,000 random programs under random layouts on meshes up to 8 virtual
    devices: ten tests, as processes that share the GPU."""
    if not suite.has("properties_test"):
        outcome.fail("there is no properties_test")
        return
    shards = 10
    each = max(1, math.ceil(suite.flags.cases / shards))
    results = suite.run_all(
        [([*suite.command("properties_test"),
           f"--gtest_filter=*NamedDeviceEqualsOracle/{shard}"],
          f"properties_{shard}",
          {"MTF_PROPERTY_DEVICE": suite.device,
           "MTF_PROPERTY_CASES": str(each)}) for shard in range(shards)],
        limit)
    for shard, (status, text) in enumerate(results):
        one = Outcome(outcome.part)
        note_gtest(one, f"properties_test {shard}", status, text)
        if one.status == "failed":
            outcome.status = "failed"
            outcome.notes += one.notes
            outcome.notes += [f"    {line}" for line in text.splitlines()
                              if "MTF_PROPERTY_SEED=" in line][:3]
    outcome.notes.append(f"{each * shards} random programs, seeds "
                         "0,750000 to 9,750000 and up")


def training(suite, outcome, limit):
    """Initial bits, dropout and fifty losses of the small model, on one device
    and on meshes, beside the CPU's."""
    run_gtest(suite, outcome, "train_test",
              f"*DeviceAgreement*{suite.device}", limit)


def curves(suite, outcome, limit):
    """Fifty steps of a small GPT-2: float32 beside the CPU, bfloat16 beside
    float32."""
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
        outcome.fail("a run has not logged fifty steps")
        return
    for what, value, most in (
            ("float32 beside the CPU", difference(single, cpu), 1e-3),
            ("bfloat16 beside float32", difference(half, single), 0.02)):
        line = f"{what}: losses differ by {value:.1e} (at most {most})"
        outcome.notes.append(line) if value <= most else outcome.fail(line)
    if not cpu[-1] < 0.95 * cpu[0]:
        outcome.fail("the model does not learn, so the curves say little")


def nccl(suite, outcome, limit):
    """Every collective in a communicator of one rank, then of two processes on
    this GPU, which NCCL takes for two hosts and joins by sockets."""
    program = "device_communicator_test"
    if not suite.has(program):
        outcome.fail(f"there is no {suite.bin / program}")
        return
    status, text = suite.run(
        [*suite.command(program), suite.device], "nccl_one", limit / 3)
    if expect_success(outcome, "one rank", status, text):
        outcome.notes += text.splitlines()[-1:]
    if suite.device != "cuda":
        outcome.notes.append("two processes: only GPUs have NCCL")
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
                   "CUDA_VISIBLE_DEVICES": "0",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "OMPI_MCA_hwloc_base_binding_policy": "none"}
    status, text = suite.run([*mpirun, *ranks], "nccl_two", limit / 2,
                             environment)
    if expect_success(outcome, "two processes on one GPU", status, text):
        outcome.notes += text.splitlines()[-1:]


def sanitizer(suite, outcome, limit):
    tool = shutil.which("compute-sanitizer") or next(
        (path for path in ("/usr/local/cuda/bin/compute-sanitizer",
                           "/opt/nvidia/compute-sanitizer/compute-sanitizer")
         if os.access(path, os.X_OK)), None)
    if tool is None:
        outcome.skip("compute-sanitizer is not there")
        return
    # Kernels of every kind at small sizes; the largest cases do nothing more.
    chosen = (f"*/{suite.device}"
              "-*Transformer*:*Long*:*ManyRows*:*Large*")
    for check in ("memcheck", "racecheck"):
        run_gtest(suite, outcome, "backends_test", chosen, limit / 2,
                  env={"MTF_CUDA_RECORD": "0"}, name=f"sanitizer_{check}",
                  prefix=(tool, "--tool", check, "--error-exitcode", "99",
                          "--target-processes", "all"))
        text = (suite.logs / f"sanitizer_{check}.txt").read_text()
        found = re.findall(r"^========= (?:ERROR|RACECHECK) SUMMARY: .*$",
                           text, re.M)
        outcome.notes += [f"{check}: {line[10:]}" for line in found[-1:]]
        if not found and "Device not supported" in text:
            outcome.skip(f"{check}: this machine does not let it at the device")


def gpu_benchmark(suite, part):
    return [*suite.command("gpu_benchmark"), f"--device={suite.device}",
            f"--only={part}", f"--size={suite.flags.size}"]


def memory(suite, outcome, limit):
    for figure in run_benchmark(suite, outcome,
                                gpu_benchmark(suite, "memory"), "memory",
                                limit):
        line = (f"{figure['benchmark']}: {figure['bytes']} bytes allocated, "
                f"{figure['planned_bytes']} planned")
        if figure["bytes"] == figure["planned_bytes"]:
            outcome.notes.append(line)
        else:
            outcome.fail(line)
    if suite.tiny or suite.device != "cuda":
        return
    # What a tiny model uses is context and libraries; the rest of what a large
    # one uses beyond its plan is scratch of kernels.
    measured = []
    for model, steps in (("tiny", 5000), ("124M", 60)):
        used = UsedMemory()
        figure = run_gpt2(suite, outcome, f"memory_{model}", limit / 3, model,
                          16, 1024, "bfloat16", steps, watch=used)
        if not figure or not used.bytes:
            return
        figure["used_bytes"] = used.bytes
        measured.append((figure["planned_bytes"], used.bytes))
    (tiny_planned, tiny_used), (planned, used) = measured
    beyond = (used - tiny_used) - (planned - tiny_planned)
    outcome.notes.append(
        f"gpt2 124M, 16 x 1024: {planned >> 20} MiB planned, "
        f"{beyond / (1 << 20):.0f} MiB used beyond that, context aside")


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
    """GB/s of the best copy that was measured."""
    return max((figure["value"] for outcome in suite.outcomes
                for figure in outcome.figures
                if figure["benchmark"] == "ceiling/copy" and "value" in figure),
               default=None)


def einsums(suite, outcome, limit):
    ours = run_benchmark(suite, outcome, gpu_benchmark(suite, "einsums"),
                         "einsums_mtf", limit / 2)
    only = "--only=tiny" if suite.tiny else "--only=124M,1558M,square"
    theirs = {figure["benchmark"]: figure for figure in run_peer(
        suite, outcome, "einsum_torch.py", [only], "einsums_torch",
        limit / 2)}
    if not theirs:
        outcome.skip("no peer to compare with")
    for figure in ours:
        peer = theirs.get(figure["benchmark"])
        if peer:
            compare(suite, outcome, f"{figure['benchmark']} "
                    f"({figure['value']:.0f} TFLOP/s) beside torch.matmul",
                    figure["value"] / peer["value"], 0.98)


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
        outcome.skip("no measured copy to compare with: name the part "
                     "ceilings, too")


def meshes(suite, outcome, limit):
    for figure in run_benchmark(suite, outcome, gpu_benchmark(suite, "meshes"),
                                "meshes", limit):
        if figure["benchmark"] != "meshes/one":
            compare(suite, outcome, f"{figure['benchmark']}: time of one "
                    "device with all of the work, of that of eight",
                    1 / figure["value"], 0.909)


def training_step(suite, outcome, limit, model, batch, length, least, modes,
                  steps=20, jax=True):
    end = time.monotonic() + limit
    ours = run_gpt2(suite, outcome, outcome.part, limit / 4, model, batch,
                    length, "bfloat16", steps)
    sizes = [f"--model={model}", f"--batch={batch}", f"--length={length}",
             "--precision=bfloat16", f"--steps={steps}"]
    peers = []
    for mode in modes:
        peers += run_peer(suite, outcome, "gpt2_torch.py",
                          [*sizes, f"--mode={mode}"],
                          f"{outcome.part}_torch_{mode}",
                          end - time.monotonic())
    if jax:
        run_peer(suite, outcome, "gpt2_jax.py", sizes, f"{outcome.part}_jax",
                 end - time.monotonic())
    for figure in outcome.figures:
        if "model_tflops" in figure:
            outcome.notes.append(
                f"{figure['program']}: {figure['milliseconds']:.3f} ms, "
                f"{figure['value']:.0f} tokens/s, "
                f"{figure['model_tflops']:.0f} TFLOP/s (6 N + 6 L h T)")
    if ours:
        outcome.notes.append(
            f"memory: {ours['planned_bytes'] >> 20} MiB; PyTorch's peak: " +
            (", ".join(str(figure["peak_bytes"] >> 20) for figure in peers)
             or "not measured"))
    if ours and peers:
        best = max(peers, key=lambda figure: figure["value"])
        compare(suite, outcome, f"{ours['benchmark']} beside {best['program']}",
                ours["value"] / best["value"], least)
    elif ours:
        outcome.skip("no peer to compare with")


def gpt2_124m(suite, outcome, limit):
    if suite.tiny:
        training_step(suite, outcome, limit, "tiny", 2, 16, 1.0, ["eager"], 3)
    else:
        training_step(suite, outcome, limit, "124M", 64, 1024, 1.0,
                      ["compile"])


def gpt2_1558m(suite, outcome, limit):
    training_step(suite, outcome, limit, "1558M", 16, 1024, 1.0, ["compile"],
                  steps=10, jax=False)


def launch(suite, outcome, limit):
    """A step so small that launching it is what takes time."""
    for figure in run_benchmark(suite, outcome,
                                gpu_benchmark(suite, "launches"), "launches",
                                limit / 4):
        outcome.notes.append(f"{figure['benchmark']}: "
                             f"{figure['milliseconds']:.3f} ms")
    if suite.tiny:
        training_step(suite, outcome, limit, "tiny", 1, 16, 1.0, ["eager"], 3,
                      jax=False)
        return
    training_step(suite, outcome, limit, "124M", 1, 128, 1.0,
                  ["graph", "reduce-overhead"], steps=100, jax=False)


@dataclasses.dataclass
class Part:
    name: str
    kind: str  # "tests" or "benchmarks"
    limit: int  # seconds
    run: object


PARTS = [
    Part("conformance", "tests", 90, conformance),
    Part("properties", "tests", 180, properties),
    Part("training", "tests", 60, training),
    Part("curves", "tests", 60, curves),
    Part("nccl", "tests", 60, nccl),
    Part("memory", "tests", 60, memory),
    Part("sanitizer", "tests", 180, sanitizer),
    Part("ceilings", "benchmarks", 40, ceilings),
    Part("einsums", "benchmarks", 120, einsums),
    Part("kernels", "benchmarks", 90, kernels),
    Part("meshes", "benchmarks", 60, meshes),
    Part("gpt2_124m", "benchmarks", 240, gpt2_124m),
    Part("launch", "benchmarks", 240, launch),
    Part("gpt2_1558m", "benchmarks", 360, gpt2_1558m),
]
