#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What this GPU reaches at best: a large copy on the device, bytes read and
written counted, and a large matrix product of random numbers. Everything else
is a share of these.

  ceilings_torch.py
"""

import argparse

import measure

PROGRAM = "torch"


def main():
    flags = argparse.ArgumentParser(prog="ceilings_torch.py",
                                    description=__doc__)
    flags.add_argument("--copy_mib", type=measure.positive, default=4096)
    flags.add_argument("--matmul", type=measure.positive, default=8192,
                       help="rows, columns and depth")
    flags.add_argument("--repeats", type=measure.positive, default=20)
    flags.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    flags = flags.parse_args()
    torch = measure.import_or_skip("ceiling", PROGRAM,
                                   lambda: __import__("torch"))
    on_gpu = flags.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        measure.skip("ceiling", PROGRAM, "PyTorch finds no CUDA GPU")
    device = torch.cuda.get_device_name() if on_gpu else "cpu"
    wait = torch.cuda.synchronize if on_gpu else (lambda: None)
    versions = {"torch": torch.__version__}

    def measure_copy():
        count = flags.copy_mib * (1 << 20) // 4
        x = torch.empty(count, device=flags.device).uniform_(-1, 1)
        y = torch.empty_like(x)
        median, spread = measure.milliseconds(lambda: y.copy_(x), wait,
                                              repeats=flags.repeats,
                                              warm_ms=200)
        measure.emit("ceiling/copy", PROGRAM, device=device, unit="GB/s",
                     value=8e-6 * count / median, milliseconds=median,
                     spread=spread, repeats=flags.repeats, versions=versions)

    measure_copy()  # and its memory is free again
    n = flags.matmul
    for dtype in ("bfloat16", "float32"):
        a, b = (torch.empty((n, n), device=flags.device,
                            dtype=getattr(torch, dtype)).uniform_(-1, 1)
                for _ in range(2))
        out = torch.empty_like(a)
        median, spread = measure.milliseconds(
            lambda: torch.matmul(a, b, out=out), wait,
            repeats=flags.repeats, warm_ms=200)
        measure.emit(f"ceiling/matmul/{dtype}", PROGRAM, device=device,
                     unit="TFLOP/s", value=2e-9 * n ** 3 / median,
                     milliseconds=median, spread=spread,
                     repeats=flags.repeats, sizes=[1, n, n, n],
                     versions=versions)


if __name__ == "__main__":
    main()
