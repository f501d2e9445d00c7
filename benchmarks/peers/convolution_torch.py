#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Convolutions, batch norms and poolings by PyTorch on the CPU, channels last
or first, whichever is faster. With --mtf=PROGRAM, convolution_benchmark runs
the same work in between, so that other load on the machine slows both, and
`ratio` is PyTorch's time relative to ours, of the median rounds;
`ratio_of_fastest` that of the fastest ones.

  convolution_torch.py --mtf=build/release/bin/convolution_benchmark
"""

import argparse
import json
import re
import statistics
import subprocess
import time

import measure

PROGRAM = "torch"
# Seconds before a program runs, after which the threads of the other no longer
# spin.
PAUSE = 0.02
CONVOLUTIONS = ("16x56x64-64/k3s1g1", "16x28x128-128/k3s1g1",
                "16x14x256-256/k3s1g1", "16x112x3-64/k7s2g1",
                "16x56x64-256/k1s1g1", "16x56x64-64/k3s1g64",
                "32x16x16-32/k3s1g1")
NORMS = ("16x56x64/k1s1", "32x16x16/k1s1")
POOLS = ("16x112x64/k3s2", "16x56x64/k2s2")


def cases():
    for sizes in CONVOLUTIONS:
        for what in ("forward", "input_gradient", "filter_gradient"):
            yield f"convolution/{sizes}/{what}"
    for kind, all_sizes in (("batch_norm", NORMS), ("max_pool", POOLS),
                            ("average_pool", POOLS)):
        for sizes in all_sizes:
            for what in ("forward", "backward"):
                yield f"{kind}/{sizes}/{what}"


def parse(name):
    kind, sizes, options, what = name.split("/")
    numbers = [int(number) for number in re.findall(r"\d+", sizes + options)]
    if kind == "convolution":
        batch, size, inner, outer, window, stride, groups = numbers
    else:
        batch, size, inner, window, stride = numbers
        outer, groups = inner, 1
    return kind, batch, size, inner, outer, window, stride, groups, what


def make_run(torch, name, memory_format):
    """A function without arguments that does the work of a case once."""
    kind, batch, size, inner, outer, window, stride, groups, what = parse(name)
    x = torch.rand(batch, inner, size, size).to(memory_format=memory_format)
    pad = window // 2 if window % 2 == 1 else 0
    if kind == "convolution":
        w = torch.rand(outer, inner // groups, window,
                       window).to(memory_format=memory_format)
        options = ([stride] * 2, [pad] * 2, [1, 1])
        if what == "forward":
            return lambda: torch.nn.functional.conv2d(x, w, None, *options,
                                                      groups)
        y = torch.nn.functional.conv2d(x, w, None, *options, groups)
        dy = torch.rand_like(y)
        mask = [what == "input_gradient", what == "filter_gradient", False]
        return lambda: torch.ops.aten.convolution_backward(
            dy, x, w, None, *options, False, [0, 0], groups, mask)
    if kind == "batch_norm":
        norm = torch.nn.BatchNorm2d(inner)
    elif kind == "max_pool":
        norm = torch.nn.MaxPool2d(window, stride, pad)
    else:
        norm = torch.nn.AvgPool2d(window, stride, pad)
    if what == "forward":
        return lambda: norm(x)
    x.requires_grad_()
    y = norm(x)
    dy = torch.rand_like(y)
    # Forward and backward, as the gradients of ours compute.
    return lambda: torch.autograd.grad(norm(x), x, dy)


def milliseconds(run, repeats):
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main():
    flags = argparse.ArgumentParser(prog="convolution_torch.py",
                                    description=__doc__)
    flags.add_argument("--only", default="", help="cases that contain this")
    flags.add_argument("--rounds", type=measure.positive, default=5)
    flags.add_argument("--repeats", type=measure.positive, default=5,
                       help="runs of each program in a round")
    flags.add_argument("--threads", type=measure.positive, default=2)
    flags.add_argument("--mtf", help="convolution_benchmark")
    flags.add_argument("--device", choices=("cpu",), default="cpu")
    flags = flags.parse_args()
    torch = measure.import_or_skip("convolution", PROGRAM,
                                   lambda: __import__("torch"))
    torch.set_num_threads(flags.threads)
    ours = flags.mtf and subprocess.Popen(
        [flags.mtf, f"--cpu_threads={flags.threads}", f"--repeats={flags.repeats}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for name in cases():
        if flags.only not in name:
            continue
        runs = [make_run(torch, name, memory_format) for memory_format in (
            torch.channels_last, torch.contiguous_format)]
        for run in runs:
            run()
        theirs, mine = [[], []], []
        for _ in range(flags.rounds):
            for times, run in zip(theirs, runs):
                time.sleep(PAUSE)
                times.append(milliseconds(run, flags.repeats))
            if ours:
                time.sleep(PAUSE)
                print(name, file=ours.stdin, flush=True)
                mine.append(json.loads(ours.stdout.readline())["milliseconds"])
        fastest = min(statistics.median(times) for times in theirs)
        fields = dict(device="cpu", milliseconds=fastest,
                      repeats=flags.rounds * flags.repeats,
                      versions={"torch": torch.__version__})
        if ours:
            fields["ratio"] = fastest / statistics.median(mine)
            fields["ratio_of_fastest"] = min(map(min, theirs)) / min(mine)
        measure.emit(name, PROGRAM, **fields)


if __name__ == "__main__":
    main()
