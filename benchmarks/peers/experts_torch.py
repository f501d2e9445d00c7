#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts, forward and backward, with sorted dispatch: tokens are
sorted by their expert, each expert computes its rows by two matrix products,
and rows are added back by index. The work of benchmarks/experts_benchmark.cc.

  experts_torch.py --device=cpu --threads=2 --capacity_factor=1.25

Each expert has slots for that share of choices; choices beyond are dropped and
empty slots are computed, as there. With --capacity_factor=0 no choice is dropped
and no row is empty: the products have as many rows as the router sends.
--batched computes all experts by one batched product in place of a loop.
"""

import argparse
import math
import time

import measure

PROGRAM = "torch"
GROUP = 1024


def layer(torch, flags):
    """A function that computes the loss, and the tensors with gradients."""
    functional = torch.nn.functional
    tokens, width, experts = flags.tokens, flags.width, flags.experts
    group = min(tokens, GROUP)
    groups = tokens // group

    def parameter(*shape, scale=1.0):
        return torch.nn.Parameter(
            torch.randn(*shape, device=flags.device) * scale)
    x = parameter(groups, group, width)
    router = parameter(width, experts, scale=width ** -0.5)
    first = parameter(experts, width, 4 * width, scale=width ** -0.5)
    second = parameter(experts, 4 * width, width, scale=(4 * width) ** -0.5)
    slots = math.ceil(flags.capacity_factor * 2 * group / experts - 1e-9)
    slots = min(group, max(4, slots)) if slots else 0

    def choose():
        """The experts [groups, group, 2], their weights, and the loss."""
        probabilities = torch.softmax(x @ router, -1)
        weight, index = torch.topk(probabilities, 2, -1)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-9)
        share = functional.one_hot(index[..., 0], experts).float().mean(1)
        balance = (share * probabilities.mean(1)).mean() * experts * experts
        return index, weight, balance

    def network(rows):
        """Of the rows of each expert, [experts, rows, width]."""
        if flags.batched:
            return torch.bmm(torch.relu(torch.bmm(rows, first)), second)
        return torch.stack([torch.relu(rows[e] @ first[e]) @ second[e]
                            for e in range(experts)])

    def with_capacity():
        index, weight, balance = choose()
        # All first choices of a group take slots before the second ones.
        order = index.transpose(1, 2).reshape(groups, 2 * group)
        weight = weight.transpose(1, 2).reshape(groups, 2 * group)
        hot = functional.one_hot(order, experts)
        position = ((hot.cumsum(1) - hot) * hot).sum(-1)
        kept = position < slots
        number = torch.arange(groups, device=x.device)[:, None]
        slot = ((order * groups + number) * slots + position)[kept]
        token = (number * group +
                 torch.arange(2 * group, device=x.device) % group)[kept]
        rows = torch.zeros(experts * groups * slots, width, device=x.device)
        rows = rows.index_copy(0, slot, x.view(-1, width)[token])
        rows = network(rows.view(experts, groups * slots, width))
        rows = rows.reshape(-1, width)[slot] * weight[kept][:, None]
        y = torch.zeros(tokens, width, device=x.device)
        return y.index_add(0, token, rows), balance

    def without_drops():
        index, weight, balance = choose()
        order = torch.argsort(index.flatten(), stable=True)
        token = order // 2
        counts = torch.bincount(index.flatten(), minlength=experts).tolist()
        rows = x.view(-1, width)[token]
        rows = torch.cat([torch.relu(part @ first[e]) @ second[e]
                          for e, part in enumerate(rows.split(counts))])
        rows = rows * weight.flatten()[order][:, None]
        y = torch.zeros(tokens, width, device=x.device)
        return y.index_add(0, token, rows), balance

    def loss():
        y, balance = with_capacity() if slots else without_drops()
        return y.square().mean() + 0.01 * balance
    return loss, [x, router, first, second]


def main():
    flags = argparse.ArgumentParser(prog="experts_torch.py",
                                    description=__doc__)
    flags.add_argument("--tokens", type=measure.positive, default=4096)
    flags.add_argument("--width", type=measure.positive, default=512)
    flags.add_argument("--experts", type=measure.positive, default=8)
    flags.add_argument("--capacity_factor", type=float, default=1.25)
    flags.add_argument("--batched", action="store_true")
    flags.add_argument("--threads", type=measure.positive, default=2)
    flags.add_argument("--repeats", type=measure.positive, default=10)
    flags.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    flags = flags.parse_args()
    torch = measure.import_or_skip("experts", PROGRAM,
                                   lambda: __import__("torch"))
    on_gpu = flags.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        measure.skip("experts", PROGRAM, "PyTorch finds no CUDA GPU")
    torch.manual_seed(0)
    torch.set_num_threads(flags.threads)
    loss, parameters = layer(torch, flags)
    times = []
    for i in range(flags.repeats + 2):  # two to warm up
        begin = time.perf_counter()
        torch.autograd.grad(loss(), parameters)
        if on_gpu:
            torch.cuda.synchronize()
        if i >= 2:
            times.append(1e3 * (time.perf_counter() - begin))
    times.sort()
    measure.emit(
        f"experts/{flags.tokens}x{flags.width}x{flags.experts}/float32",
        PROGRAM,
        device=torch.cuda.get_device_name() if on_gpu else "cpu",
        unit="tokens/s", value=1e3 * flags.tokens / times[0],
        milliseconds=times[len(times) // 2], best_milliseconds=times[0],
        repeats=flags.repeats, capacity_factor=flags.capacity_factor,
        versions={"torch": torch.__version__})


if __name__ == "__main__":
    main()
