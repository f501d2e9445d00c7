# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: how a measurement is written, when one
is skipped, and how often something is run to be timed. Needs Python alone, so
that a machine without the libraries gets a reason and no traceback."""

import argparse
import json
import sys
import time

SCHEMA = 1
MODELS = {  # layers, d_model, heads, vocabulary; those of examples/gpt2.cc
    "tiny": (2, 64, 2, 256),
    "124M": (12, 768, 12, 50304),
    "350M": (24, 1024, 16, 50304),
    "774M": (36, 1280, 20, 50304),
    "1558M": (48, 1600, 25, 50304),
}


def parameters(model, length):
    """V h + s h + L (12 h^2 + 13 h) + 2 h"""
    layers, h, _, vocab = MODELS[model]
    return vocab * h + length * h + layers * (12 * h * h + 13 * h) + 2 * h


def flops_per_token(model, length):
    """6 N + 6 L h T: llm.c's convention, attention to the past only."""
    layers, h, _, _ = MODELS[model]
    return 6 * parameters(model, length) + 6 * layers * h * length


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def training_flags(program, modes):
    """The flags of a training step; gpt2.cc has the same."""
    flags = argparse.ArgumentParser(
        prog=program, description="Measures a training step of GPT-2; prints "
        "one JSON object a line (README.md).")
    flags.add_argument("--model", choices=MODELS, default="124M")
    flags.add_argument("--batch", type=positive, default=64)
    flags.add_argument("--length", type=positive, default=1024)
    flags.add_argument("--steps", type=positive, default=20,
                       help="steps that are timed")
    flags.add_argument("--warmup", type=positive, default=5)
    flags.add_argument("--precision", choices=("bfloat16", "float32"),
                       default="bfloat16")
    flags.add_argument("--mode", choices=modes, default=modes[0])
    flags.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    flags.add_argument("--seed", type=int, default=0)
    return flags


def training_name(flags):
    """The name that gpt2.cc's figures have in a report, too."""
    return (f"gpt2/{flags.model}/{flags.batch}x{flags.length}/"
            f"{flags.precision}")


def emit(benchmark, program, **fields):
    """Prints one measurement; README.md lists the fields."""
    print(json.dumps({"schema": SCHEMA, "benchmark": benchmark,
                      "program": program, **fields}), flush=True)


def skip(benchmark, program, reason):
    """Says why there is no measurement and ends well."""
    emit(benchmark, program, skipped=reason)
    sys.exit(0)


def import_or_skip(benchmark, program, load):
    """What `load` returns, a module or several, or a skip where it is missing
    or cannot be loaded."""
    try:
        return load()
    except ImportError as error:
        skip(benchmark, program, str(error))
    except OSError as error:  # a shared library of it
        skip(benchmark, program, f"cannot be loaded: {error}")


# Steps that are enqueued before the host waits for them: a training loop looks
# at its loss now and then, not after every step.
STEPS_PER_WAIT = 5


def steps_milliseconds(step, wait, steps):
    """Median and spread as below, of groups of steps."""
    inner = min(steps, STEPS_PER_WAIT)
    return milliseconds(step, wait, repeats=max(1, steps // inner), warmup=0,
                        inner=inner)


def milliseconds(run, wait, repeats=20, warmup=3, least_ms=0.0, warm_ms=0.0,
                 inner=None):
    """The median time of one `run` and the spread of the middle half, relative
    to it. Short runs are timed several at once: `inner` of them, or for at least
    `least_ms`. What comes before lasts for `warm_ms` at least: an idle GPU has
    a slow clock."""
    begin = time.perf_counter()
    for _ in range(warmup):
        run()
    wait()
    while 1e3 * (time.perf_counter() - begin) < warm_ms:
        run()
        wait()
    begin = time.perf_counter()
    run()
    wait()
    once = max(1e-6, 1e3 * (time.perf_counter() - begin))
    inner = inner or max(1, int(least_ms / once))
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(inner):
            run()
        wait()
        times.append(1e3 * (time.perf_counter() - begin) / inner)
    times.sort()
    median = times[len(times) // 2]
    quarter = len(times) // 4
    return median, (times[-1 - quarter] - times[quarter]) / median
