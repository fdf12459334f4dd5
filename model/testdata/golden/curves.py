"""Loss curves of 200 AdamW steps, in float32 through transformers and in float64 through reference.py."""

import json
import math
import os

import numpy as np
import torch

import models
import reference

STEPS, ROWS, SEQ = 200, 4, 32
LR, BETAS, EPS, WEIGHT_DECAY, MAX_NORM = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
WARMUP, FINAL_RATIO = 20, 0.1

# file: (model, schedule, micro-batches per step)
CURVES = {
    "curve_dense.json": ("dense", "constant", 1),
    "curve_moe.json": ("moe", "constant", 1),
    "curve_dense_cosine.json": ("dense", "cosine", 2),
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


def rows(text, s):
    tokens, targets = [], []
    for b in range(ROWS):
        start = ((s * ROWS + b) * SEQ) % (len(text) - SEQ - 1)
        tokens.append(list(text[start : start + SEQ]))
        targets.append(list(text[start + 1 : start + SEQ + 1]))
    return torch.tensor(tokens), torch.tensor(targets)


def train(params, logits_of, schedule, micro_batches, text):
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
    losses, norms = [], []
    per_micro = ROWS // micro_batches
    for s in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(schedule, s)
        tokens, targets = rows(text, s)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for m in range(micro_batches):
            part = slice(m * per_micro, (m + 1) * per_micro)
            loss = reference.mean_cross_entropy(logits_of(tokens[part]), targets[part]) / micro_batches
            loss.backward()
            total = total + loss.detach()
        norms.append(torch.nn.utils.clip_grad_norm_(params, MAX_NORM, foreach=False).item())
        optimizer.step()
        losses.append(total.item())
    return losses, norms


def train_f32(name, schedule, micro_batches, text):
    config, seed = models.MODELS[name]
    model = models.build(config, seed)
    return train(list(model.parameters()), lambda t: model(t, use_cache=False).logits, schedule, micro_batches, text)


def train_reference(name, schedule, micro_batches, text, dtype, noise=0.0, gaps=None):
    """The same curve through reference.py; noise > 0 disturbs every start weight by that relative amount.

    gaps, if given, receives for each forward the smallest distance between the last chosen expert's logit and the next.
    """
    config, seed = models.MODELS[name]
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

    return train(list(params.values()), logits_of, schedule, micro_batches, text)


def max_diff(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def shortest(values):
    """Shortest decimals that read back to the same float32."""
    return [float(str(np.float32(v))) for v in values]


def write(out, file, text):
    """Writes one curve and returns what the manifest says of it."""
    name, schedule, micro_batches = CURVES[file]
    losses, norms = train_f32(name, schedule, micro_batches, text)
    gaps = []
    true, _ = train_reference(name, schedule, micro_batches, text, torch.float64, gaps=gaps)
    own, _ = train_reference(name, schedule, micro_batches, text, torch.float32)
    entry = {
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "clipped_steps": sum(n > MAX_NORM for n in norms),
        "max_abs_f32_f64": max_diff(losses, true),
        "max_abs_reference_f32_f64": max_diff(own, true),
    }
    for noise in (1e-6, 1e-5, 1e-4):
        disturbed, _ = train_reference(name, schedule, micro_batches, text, torch.float64, noise)
        entry[f"max_abs_start_weights_off_by_{noise:.0e}"] = max_diff(disturbed, true)
    if gaps:
        entry["min_router_gap"] = min(gaps)
        entry["min_router_gap_step"] = gaps.index(min(gaps))
    curve = {
        "model": name,
        "weights": f"{name}/weights.safetensors",
        "steps": STEPS,
        "batch": ROWS,
        "seq": SEQ,
        "micro_batches": micro_batches,
        "micro_batch_rows": ROWS // micro_batches,
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
            "kind": schedule,
            "peak": LR,
            "warmup": WARMUP if schedule == "cosine" else 0,
            "final_ratio": FINAL_RATIO if schedule == "cosine" else 1.0,
            "formula": FORMULAS[schedule],
        },
        "lr": [learning_rate(schedule, s) for s in range(STEPS)],
        "losses": shortest(losses),
        "losses_f64": true,
        "grad_norms": shortest(norms),
    }
    if gaps:
        curve["router_gaps"] = gaps
    with open(os.path.join(out, file), "w") as f:
        f.write("{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in curve.items()) + "\n}\n")
    return entry
