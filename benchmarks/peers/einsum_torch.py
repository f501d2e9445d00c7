#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matrix products of GPT's shapes by torch.matmul, contiguous, into memory that
is there already: what gpu_benchmark's einsums of the same names are held
against. --list prints names and sizes and runs nothing.

  einsum_torch.py --only=124M
"""

import argparse

import measure

PROGRAM = "torch"
DTYPES = ("bfloat16", "float32")

# Batch, length, memory_length, d_model, d_ff, heads, d_kv, vocabulary by
# letter; gpu_benchmark.cc has the same table, and a test compares the two.
SIZES = {
    "124M": dict(b=64, l=1024, m=1024, d=768, f=3072, h=12, k=64, v=50304),
    "1558M": dict(b=16, l=1024, m=1024, d=1600, f=6400, h=25, k=64, v=50304),
    "tiny": dict(b=2, l=16, m=16, d=64, f=256, h=2, k=32, v=256),
}
EINSUMS = {
    "query": "bld,dhk->blhk",
    "ff_in": "bld,df->blf",
    "ff_out": "blf,fd->bld",
    "logits": "bld,vd->blv",
    "scores": "blhk,bmhk->bhlm",
    "context": "bhlm,bmhk->blhk",
    "ff_in_dx": "blf,df->bld",
    "ff_in_dw": "bld,blf->df",
    "logits_dw": "blv,bld->vd",
}


def matmul_sizes(text, sizes):
    """The batch, m, n and k of an einsum."""
    (x, y), z = text.split("->")[0].split(","), text.split("->")[1]
    batch = m = n = k = 1
    for letter in sorted(set(x + y)):
        if letter not in z:
            k *= sizes[letter]
        elif letter in x and letter in y:
            batch *= sizes[letter]
        elif letter in x:
            m *= sizes[letter]
        else:
            n *= sizes[letter]
    return batch, m, n, k


def cases(only):
    for model, sizes in SIZES.items():
        if model not in only:
            continue
        for name, text in EINSUMS.items():
            for dtype in DTYPES:
                yield (f"einsum/{model}/{name}/{dtype}",
                       matmul_sizes(text, sizes), dtype)
    if "square" in only:
        for dtype in DTYPES:
            yield (f"einsum/square/{dtype}", (1, 8192, 8192, 8192), dtype)


def main():
    flags = argparse.ArgumentParser(prog="einsum_torch.py",
                                    description=__doc__)
    flags.add_argument("--only", default="124M,1558M,square",
                       help="of 124M, 1558M, square and tiny")
    flags.add_argument("--repeats", type=measure.positive, default=20)
    flags.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    flags.add_argument("--list", action="store_true")
    flags = flags.parse_args()
    chosen = list(cases(flags.only.split(",")))
    if flags.list:
        for name, (batch, m, n, k), _ in chosen:
            measure.emit(name, PROGRAM, sizes=[batch, m, n, k])
        return
    torch = measure.import_or_skip("einsum", PROGRAM,
                                   lambda: __import__("torch"))
    on_gpu = flags.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        measure.skip("einsum", PROGRAM, "PyTorch finds no CUDA GPU")
    device = torch.cuda.get_device_name() if on_gpu else "cpu"
    wait = torch.cuda.synchronize if on_gpu else (lambda: None)
    for name, (batch, m, n, k), dtype in chosen:
        def random(*shape):
            return torch.empty(shape, device=flags.device,
                               dtype=getattr(torch, dtype)).uniform_(-1, 1)
        try:
            x, y = random(batch, m, k), random(batch, k, n)
            out = torch.empty((batch, m, n), device=flags.device,
                              dtype=x.dtype)
            median, spread = measure.milliseconds(
                lambda: torch.matmul(x, y, out=out), wait,
                repeats=flags.repeats, least_ms=2,
                warm_ms=200 if on_gpu else 0)
        except torch.OutOfMemoryError as error:
            measure.emit(name, PROGRAM, skipped=str(error).splitlines()[0])
            continue
        measure.emit(name, PROGRAM, device=device, unit="TFLOP/s",
                     value=2e-9 * batch * m * n * k / median,
                     milliseconds=median, spread=spread,
                     repeats=flags.repeats, sizes=[batch, m, n, k],
                     versions={"torch": torch.__version__})


if __name__ == "__main__":
    main()
