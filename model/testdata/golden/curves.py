"""Loss curves of 200 AdamW steps, in float32 through transformers and in float64 through reference.py."""

import json
import math
import os
from collections import namedtuple

import numpy as np
import torch

import models
import reference

STEPS = 200
LR, BETAS, EPS, WEIGHT_DECAY, MAX_NORM = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
WARMUP, FINAL_RATIO = 20, 0.1
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
SEEDS = 1, 2, 3, 4  # of start weights that are put off

# rows are those of a step, over all its micro-batches; seq is tokens per row; half says that the curve is also made in 16 bits
Curve = namedtuple("Curve", "model schedule micro_batches rows seq half", defaults=(4, 32, False))

CURVES = {
    "curve_dense.json": Curve("dense", "constant", 1),
    "curve_moe.json": Curve("moe", "constant", 1),
    "curve_dense_cosine.json": Curve("dense", "cosine", 2),
    # So many tokens a step that what routing does to one of them is lost in their mean; noise.py says how the number was chosen.
    "curve_moe_wide.json": Curve("moe", "constant", 1, 8, 64, half=True),
}

FORMULAS = {
    "constant": "lr(s) = peak",
    "cosine": "lr(s) = peak*(s+1)/warmup for s < warmup, else "
    "peak*(final_ratio + (1-final_ratio)*0.5*(1+cos(pi*(s-warmup)/(steps-warmup)))); s counts from 0",
}


def learning_rate(schedule, s):
    if schedule == "constant":
        return LR
    if s < WARMUP:
        return LR * (s + 1) / WARMUP
    progress = (s - WARMUP) / (STEPS - WARMUP)
    return LR * (FINAL_RATIO + (1 - FINAL_RATIO) * 0.5 * (1 + math.cos(math.pi * progress)))


def rows(curve, text, s):
    tokens, targets = [], []
    for b in range(curve.rows):
        start = ((s * curve.rows + b) * curve.seq) % (len(text) - curve.seq - 1)
        tokens.append(list(text[start : start + curve.seq]))
        targets.append(list(text[start + 1 : start + curve.seq + 1]))
    return torch.tensor(tokens), torch.tensor(targets)


def train(params, logits_of, curve, text, scaler=None):
    """Trains params (a list of leaf tensors) in place. Returns the loss before each update and the norm before clipping."""
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=LR,
        betas=BETAS,
        eps=EPS,
        foreach=False,
    )
    scaler = scaler or torch.amp.GradScaler("cpu", enabled=False)  # which changes nothing
    losses, norms = [], []
    per_micro = curve.rows // curve.micro_batches
    for s in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(curve.schedule, s)
        tokens, targets = rows(curve, text, s)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for m in range(curve.micro_batches):
            part = slice(m * per_micro, (m + 1) * per_micro)
            loss = reference.mean_cross_entropy(logits_of(tokens[part]), targets[part]) / curve.micro_batches
            scaler.scale(loss).backward()
            total = total + loss.detach()
        scaler.unscale_(optimizer)
        norms.append(torch.nn.utils.clip_grad_norm_(params, MAX_NORM, foreach=False).item())
        scaler.step(optimizer)
        scaler.update()
        losses.append(total.item())
    return losses, norms


def put_off(params, noise, seed):
    """Puts each value of params off by up to that part of itself."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in params:
            p *= 1 + noise * (2 * torch.rand(p.shape, generator=generator) - 1)


def train_transformers(curve, text, half=None, noise=0.0, seed=0):
    """The curve in float32, or under autocast to half, from start weights that are off by noise."""
    config, model_seed = models.MODELS[curve.model]
    model = models.build(config, model_seed)
    params = list(model.parameters())
    if noise:
        put_off(params, noise, seed)

    def logits_of(tokens):
        with torch.autocast("cpu", dtype=half, enabled=half is not None):
            return model(tokens, use_cache=False).logits.float()

    return train(params, logits_of, curve, text, torch.amp.GradScaler("cpu") if half == torch.float16 else None)


def train_reference(curve, text, dtype, noise=0.0, gaps=None):
    """The same curve through reference.py; noise > 0 disturbs every start weight by that relative amount.

    gaps, if given, receives for each forward the smallest distance between the last chosen expert's logit and the next.
    """
    config, seed = models.MODELS[curve.model]
    generator = torch.Generator().manual_seed(99)
    params = {}
    for n, p in models.weights(models.build(config, seed)).items():
        p = p.to(dtype, copy=True)
        p = p * (1 + noise * torch.randn(p.shape, generator=generator, dtype=dtype)) if noise else p
        params[n] = p.requires_grad_()

    def logits_of(tokens):
        logits, router = reference.decoder(params, config, tokens)
        if gaps is not None and router:
            gaps.append(min(models.router_gap(r, config) for r in router))
        return logits

    return train(list(params.values()), logits_of, curve, text)


def max_diff(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def apart(got, want):
    """How far losses are from others, as parts of them; worst_mean is that of means over twenty steps."""
    each = [abs(g - w) / w for g, w in zip(got, want, strict=True)]
    means = [abs(sum(got[i : i + 20]) - sum(want[i : i + 20])) / sum(want[i : i + 20]) for i in range(0, STEPS, 20)]
    return {
        "mean": sum(each) / STEPS,
        "worst_mean": max(means),
        "worst": max(each),
        "worst_step": each.index(max(each)),
        "above_1%": sum(e > 0.01 for e in each),
    }


def shortest(values):
    """Shortest decimals that read back to the same float32."""
    return [float(str(np.float32(v))) for v in values]


def write(out, file, text):
    """Writes one curve and returns what the manifest says of it."""
    curve = CURVES[file]
    losses, norms = train_transformers(curve, text)
    gaps = []
    true, _ = train_reference(curve, text, torch.float64, gaps=gaps)
    own, _ = train_reference(curve, text, torch.float32)
    entry = {
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "clipped_steps": sum(n > MAX_NORM for n in norms),
        "max_abs_f32_f64": max_diff(losses, true),
        "max_abs_reference_f32_f64": max_diff(own, true),
    }
    for noise in (1e-6, 1e-5, 1e-4):
        disturbed, _ = train_reference(curve, text, torch.float64, noise)
        entry[f"max_abs_start_weights_off_by_{noise:.0e}"] = max_diff(disturbed, true)
    halves = {n: train_transformers(curve, text, dtype)[0] for n, dtype in HALVES.items()} if curve.half else {}
    for n, half in halves.items():
        entry[f"{n}_f32"] = apart(half, losses)
    if curve.half:
        entry["start_weights_off_by_2^-9_f32"] = [
            apart(train_transformers(curve, text, noise=2**-9, seed=seed)[0], losses) for seed in SEEDS
        ]
    if gaps:
        entry["min_router_gap"] = min(gaps)
        entry["min_router_gap_step"] = gaps.index(min(gaps))
    document = {
        "model": curve.model,
        "weights": f"{curve.model}/weights.safetensors",
        "steps": STEPS,
        "batch": curve.rows,
        "seq": curve.seq,
        "micro_batches": curve.micro_batches,
        "micro_batch_rows": curve.rows // curve.micro_batches,
        "loss": "mean cross-entropy in nats over all batch*seq tokens of the step, before the step's update",
        "data": {
            "file": "text.bin",
            "tokens": "one per byte",
            "row": "start = ((s*batch + b)*seq) mod (len - seq - 1); tokens = bytes[start:start+seq], "
            "targets = bytes[start+1:start+seq+1]; micro-batch m holds rows m*micro_batch_rows and on",
        },
        "optimizer": {
            "kind": "adamw",
            "beta1": BETAS[0],
            "beta2": BETAS[1],
            "eps": EPS,
            "weight_decay": WEIGHT_DECAY,
            "decayed": "tensors of two or more dims (embedding and head included); norm weights are not decayed",
            "update": "p *= 1 - lr*wd; m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g*g; "
            "p -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps); t counts from 1",
        },
        "clip": {"max_norm": MAX_NORM, "scale": "min(1, max_norm/(norm + 1e-6)), norm over all gradients of the step"},
        "schedule": {
            "kind": curve.schedule,
            "peak": LR,
            "warmup": WARMUP if curve.schedule == "cosine" else 0,
            "final_ratio": FINAL_RATIO if curve.schedule == "cosine" else 1.0,
            "formula": FORMULAS[curve.schedule],
        },
        "lr": [learning_rate(curve.schedule, s) for s in range(STEPS)],
        "losses": shortest(losses),
        "losses_f64": true,
        "grad_norms": shortest(norms),
    }
    for n, half in halves.items():
        document[f"losses_{n}"] = shortest(half)
    if gaps:
        document["router_gaps"] = gaps
    with open(os.path.join(out, file), "w") as f:
        f.write("{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in document.items()) + "\n}\n")
    return entry
