#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of GPT-2 in PyTorch, as fast as PyTorch makes it: compiled,
fused attention, fused AdamW, bfloat16 by autocast over float32 parameters.

  gpt2_torch.py --model=124M --batch=64
  gpt2_torch.py --model=124M --batch=1 --length=128 --mode=graph

--mode: compile           torch.compile
        reduce-overhead   torch.compile with CUDA graphs of forward and backward
        graph             torch.compile, the whole step as one CUDA graph
        eager             no compilation
"""

import contextlib
import time

import measure

PROGRAM = "torch"


def load():
    import torch
    import torch.nn.functional
    return torch


def make_model(torch, flags):
    nn, f = torch.nn, torch.nn.functional
    layers, d_model, heads, vocab = measure.MODELS[flags.model]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1 = nn.LayerNorm(d_model)
            self.qkv = nn.Linear(d_model, 3 * d_model)
            self.out = nn.Linear(d_model, d_model)
            self.norm_2 = nn.LayerNorm(d_model)
            self.ff_in = nn.Linear(d_model, 4 * d_model)
            self.ff_out = nn.Linear(4 * d_model, d_model)

        def forward(self, x):
            b, l, _ = x.shape
            q, k, v = (t.view(b, l, heads, -1).transpose(1, 2)
                       for t in self.qkv(self.norm_1(x)).split(d_model, 2))
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, l, d_model))
            y = f.gelu(self.ff_in(self.norm_2(x)), approximate="tanh")
            return x + self.ff_out(y)

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(vocab, d_model)
            self.positions = nn.Embedding(flags.length, d_model)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(d_model)
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, tokens, targets):
            x = self.table(tokens) + self.positions.weight
            # Autocast leaves a sum alone: without this the residual stream, and
            # every norm and addition on it, would be float32.
            if flags.precision == "bfloat16":
                x = x.bfloat16()
            for block in self.blocks:
                x = block(x)
            logits = f.linear(self.norm(x), self.table.weight)
            return f.cross_entropy(logits.view(-1, vocab), targets.view(-1))

    # On its device at once: the host draws a large one for half a minute.
    with torch.device(flags.device):
        return Gpt2()


def attention_kernel(torch, flags):
    """Which of its kernels PyTorch takes for attention of these sizes, "" where
    this release does not say."""
    _, d_model, heads, _ = measure.MODELS[flags.model]
    dtype = getattr(torch, flags.precision)
    q = torch.empty((flags.batch, flags.length, heads, d_model // heads),
                    dtype=dtype, device=flags.device,
                    requires_grad=True).transpose(1, 2)
    try:
        choice = torch._fused_sdp_choice(q, q, q, is_causal=True)
        return torch.nn.attention.SDPBackend(choice).name.lower()
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return ""


def make_step(torch, flags, model, feeds):
    """A function that copies `feeds`, tokens and targets of the host, to the
    device, makes one step and returns the loss on the device."""
    tokens, targets = (feed.to(flags.device) for feed in feeds)
    on_gpu = flags.device == "cuda"
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
        fused=True, capturable=on_gpu and flags.mode == "graph")
    if flags.mode == "eager":
        compiled = model
    elif flags.mode == "reduce-overhead":
        compiled = torch.compile(model, mode="reduce-overhead")
    else:
        compiled = torch.compile(model)
    if flags.precision == "bfloat16":
        def precision():
            return torch.autocast(flags.device, dtype=torch.bfloat16)
    else:
        precision = contextlib.nullcontext

    def feed():
        for on_device, on_host in zip((tokens, targets), feeds):
            on_device.copy_(on_host, non_blocking=True)

    def compute():
        # In front: a captured step then makes its gradients anew in memory of
        # its own, and no pass over them is needed.
        optimizer.zero_grad(set_to_none=True)
        with precision():
            loss = compiled(tokens, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step():
        feed()
        return compute()

    if flags.mode != "graph":
        return step
    # Compilation and lazy state belong in front of the capture.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = compute()

    def replay():
        feed()
        graph.replay()
        return captured
    return replay


def main():
    flags = measure.training_flags(
        "gpt2_torch.py",
        ("compile", "reduce-overhead", "graph", "eager")).parse_args()
    name, program = measure.training_name(flags), f"{PROGRAM}/{flags.mode}"
    torch = measure.import_or_skip(name, program, load)
    on_gpu = flags.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        measure.skip(name, program, "PyTorch finds no CUDA GPU")
    if flags.mode == "graph" and not on_gpu:
        measure.skip(name, program, "--mode=graph needs a GPU")
    torch.manual_seed(flags.seed)
    # Whatever autocast leaves in float32 may use the matrix units.
    if flags.precision == "bfloat16":
        torch.set_float32_matmul_precision("high")
    vocab = measure.MODELS[flags.model][3]
    shape = (flags.batch, flags.length)
    tokens = (torch.rand(shape) ** 3 * vocab).long()
    feeds = [tokens, vocab - 1 - tokens]
    if on_gpu:
        feeds = [feed.pin_memory() for feed in feeds]

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    begin = time.perf_counter()
    try:
        model = make_model(torch, flags)
        step = make_step(torch, flags, model, feeds)
        for _ in range(flags.warmup):
            loss = step()
        wait()
    except torch.OutOfMemoryError as error:
        measure.skip(name, program, str(error).splitlines()[0])
    warmup_s = time.perf_counter() - begin
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    median, spread = measure.steps_milliseconds(step, wait, flags.steps)
    loss = float(step())
    peak_bytes = torch.cuda.max_memory_allocated() if on_gpu else 0
    tokens_per_s = 1e3 * flags.batch * flags.length / median
    measure.emit(
        name, program,
        device=torch.cuda.get_device_name() if on_gpu else "cpu",
        unit="tokens/s", value=tokens_per_s, milliseconds=median,
        spread=spread, repeats=flags.steps, loss=loss,
        model_tflops=tokens_per_s *
        measure.flops_per_token(flags.model, flags.length) / 1e12,
        parameters=sum(p.numel() for p in model.parameters()),
        peak_bytes=peak_bytes, warmup_s=warmup_s,
        attention=attention_kernel(torch, flags),
        versions={"torch": torch.__version__, "cuda": torch.version.cuda})


if __name__ == "__main__":
    main()
