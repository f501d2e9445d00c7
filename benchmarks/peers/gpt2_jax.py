#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of GPT-2 in JAX: one jitted function from parameters and
state to the next ones, buffers donated, bfloat16 over float32 parameters,
cuDNN's fused attention on a GPU.

  gpt2_jax.py --model=124M --batch=64
"""

import functools
import time

import measure

PROGRAM = "jax"


def load():
    import jax
    import jax.numpy
    return jax


def initial_parameters(jax, flags):
    jnp = jax.numpy
    layers, d_model, heads, vocab = measure.MODELS[flags.model]
    keys = iter(jax.random.split(jax.random.key(flags.seed), 8 * layers + 8))

    def kernel(*shape):
        return 0.02 * jax.random.normal(next(keys), shape, jnp.float32)

    def norm():
        return {"scale": jnp.ones(d_model), "bias": jnp.zeros(d_model)}

    def block():
        d_kv = d_model // heads
        return {"norm_1": norm(), "norm_2": norm(),
                "qkv": kernel(d_model, 3, heads, d_kv),
                "qkv_bias": jnp.zeros((3, heads, d_kv)),
                "out": kernel(heads, d_kv, d_model),
                "out_bias": jnp.zeros(d_model),
                "ff_in": kernel(d_model, 4 * d_model),
                "ff_in_bias": jnp.zeros(4 * d_model),
                "ff_out": kernel(4 * d_model, d_model),
                "ff_out_bias": jnp.zeros(d_model)}

    return {"table": kernel(vocab, d_model),
            "positions": kernel(flags.length, d_model),
            "norm": norm(), "blocks": [block() for _ in range(layers)]}


def make_loss(jax, flags):
    jnp = jax.numpy
    dtype = jnp.bfloat16 if flags.precision == "bfloat16" else jnp.float32
    fused = flags.device == "cuda" and flags.precision == "bfloat16"

    def layer_norm(x, p):
        x = x.astype(jnp.float32)
        x = x - x.mean(-1, keepdims=True)
        x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return (x * p["scale"] + p["bias"]).astype(dtype)

    def block(x, p):
        c = {name: value.astype(dtype) for name, value in p.items()
             if not name.startswith("norm")}
        qkv = jnp.einsum("bld,dchk->cblhk", layer_norm(x, p["norm_1"]),
                         c["qkv"]) + c["qkv_bias"][:, None, None]
        y = jax.nn.dot_product_attention(
            qkv[0], qkv[1], qkv[2], is_causal=True,
            implementation="cudnn" if fused else None)
        x = x + jnp.einsum("blhk,hkd->bld", y, c["out"]) + c["out_bias"]
        y = layer_norm(x, p["norm_2"]) @ c["ff_in"] + c["ff_in_bias"]
        return x + jax.nn.gelu(y, approximate=True) @ c["ff_out"] + \
            c["ff_out_bias"]

    def loss(parameters, tokens, targets):
        x = (parameters["table"][tokens] + parameters["positions"]).astype(
            dtype)
        for p in parameters["blocks"]:
            x = block(x, p)
        x = layer_norm(x, parameters["norm"])
        logits = (x @ parameters["table"].T.astype(dtype)).astype(jnp.float32)
        chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()
    return loss


def make_step(jax, flags):
    jnp = jax.numpy
    loss_and_gradients = jax.value_and_grad(make_loss(jax, flags))

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(parameters, state, tokens, targets):
        loss, gradients = loss_and_gradients(parameters, tokens, targets)
        count = state["count"] + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], gradients)
        v = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, state["v"],
                         gradients)
        m_scale = 1 / (1 - 0.9 ** count)
        v_scale = 1 / (1 - 0.95 ** count)
        parameters = jax.tree.map(
            lambda p, m, v: p - 1e-3 * (
                m * m_scale / (jnp.sqrt(v * v_scale) + 1e-8) + 0.1 * p),
            parameters, m, v)
        return parameters, {"count": count, "m": m, "v": v}, loss
    return step


def main():
    flags = measure.training_flags("gpt2_jax.py", ("jit",)).parse_args()
    name = measure.training_name(flags)
    jax = measure.import_or_skip(name, PROGRAM, load)
    jnp = jax.numpy
    try:
        device = jax.devices("gpu" if flags.device == "cuda" else "cpu")[0]
    except RuntimeError as error:
        measure.skip(name, PROGRAM, f"JAX finds no device: {error}")
    jax.config.update("jax_default_device", device)
    parameters = initial_parameters(jax, flags)
    count = sum(p.size for p in jax.tree.leaves(parameters))
    state = {"count": jnp.zeros((), jnp.float32),
             "m": jax.tree.map(jnp.zeros_like, parameters),
             "v": jax.tree.map(jnp.zeros_like, parameters)}
    vocab = measure.MODELS[flags.model][3]
    u = jax.random.uniform(jax.random.key(flags.seed + 1),
                           (flags.batch, flags.length))
    # Of the host: every step copies them to the device.
    tokens = jax.device_get((u ** 3 * vocab).astype(jnp.int32))
    targets = vocab - 1 - tokens
    step = make_step(jax, flags)
    carried = [parameters, state, None]

    def run():
        carried[:] = step(carried[0], carried[1], tokens, targets)

    begin = time.perf_counter()
    try:
        for _ in range(flags.warmup):
            run()
        carried[2].block_until_ready()
    except Exception as error:  # XLA's own kinds: no memory, no kernel
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        measure.skip(name, PROGRAM, str(error).splitlines()[0])
    warmup_s = time.perf_counter() - begin
    median, spread = measure.steps_milliseconds(
        run, lambda: jax.block_until_ready(carried), flags.steps)
    tokens_per_s = 1e3 * flags.batch * flags.length / median
    memory = device.memory_stats() or {}
    measure.emit(
        name, PROGRAM, device=device.device_kind, unit="tokens/s",
        value=tokens_per_s, milliseconds=median, spread=spread,
        repeats=flags.steps, loss=float(carried[2]),
        model_tflops=tokens_per_s *
        measure.flops_per_token(flags.model, flags.length) / 1e12,
        parameters=count, peak_bytes=memory.get("peak_bytes_in_use", 0),
        warmup_s=warmup_s, versions={"jax": jax.__version__})


if __name__ == "__main__":
    main()
