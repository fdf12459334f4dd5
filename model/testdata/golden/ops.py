"""Small goldens for single operations: inputs, outputs and gradients.

Inputs are float32 values; everything is computed from them in float64 and rounded to float32 once, so a golden is the true
value to half a unit in the last place. Where torch has the operation itself, the result is checked against torch's own.

Tensors are named op.input.x, op.output.y, op.grad.x. op.input.dy is the gradient that arrives at op.output.y.
"""

import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import reference

SEED = 5
_generator = torch.Generator()


def held(t):
    """The float64 numbers next to t that a float32 holds exactly."""
    return t.float().double()


def randn(*shape, scale=1.0):
    """Random float64 numbers that a float32 holds exactly."""
    return (scale * torch.randn(*shape, generator=_generator)).double()


class Writer:
    def __init__(self):
        self.tensors, self.attributes = {}, {}

    def put(self, name, t):
        t = t.detach()
        assert ".input." not in name or torch.equal(t.float().double(), t.double()), f"{name} is not held by a float32"
        self.tensors[name] = (t.float() if t.is_floating_point() else t.int()).clone().contiguous()

    def op(self, name, fn, inputs, constants=None, attributes=None):
        """Runs y = fn(inputs, constants), sends a random dy back, and stores all of it."""
        leaves = {k: v.clone().requires_grad_() for k, v in inputs.items()}
        y = fn(**leaves, **(constants or {}))
        dy = randn(*y.shape)
        y.backward(dy)
        for k, v in (inputs | (constants or {})).items():
            self.put(f"{name}.input.{k}", v)
        self.put(f"{name}.input.dy", dy)
        self.put(f"{name}.output.y", y)
        for k, v in leaves.items():
            self.put(f"{name}.grad.{k}", v.grad)
        self.attributes[name] = attributes or {}
        return leaves, y.detach(), dy


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def norms_and_activations(w):
    x, weight, bias = randn(7, 24, scale=1.5), 1 + randn(24, scale=0.25), randn(24, scale=0.3)
    weight, shifted, eps = held(weight), held(x + 0.5), 1e-5
    _, y, _ = w.op(
        "rmsnorm",
        lambda x, weight: reference.rms_norm(x, weight, eps),
        {"x": x, "weight": weight},
        attributes={"eps": eps},
    )
    same(y, F.rms_norm(x, (24,), weight, eps))
    _, y, _ = w.op(
        "layernorm",
        lambda x, weight, bias: reference.layer_norm(x, weight, bias, eps),
        {"x": shifted, "weight": weight, "bias": bias},
        attributes={"eps": eps},
    )
    same(y, F.layer_norm(shifted, (24,), weight, bias, eps))
    wide = randn(7, 23, scale=3.0)
    wide[0, :6] = held(torch.tensor([0.0, -0.0, 30.0, -30.0, 1e-4, -6.0]))
    _, y, _ = w.op("gelu_erf", reference.gelu_erf, {"x": wide})
    same(y, F.gelu(wide))
    _, y, _ = w.op("gelu_tanh", reference.gelu_tanh, {"x": wide})
    same(y, F.gelu(wide, approximate="tanh"))
    up = randn(7, 23)
    _, y, _ = w.op("swiglu", reference.swiglu, {"gate": wide, "up": up})
    same(y, F.silu(wide) * up)


def linears(w):
    x, weight, bias = randn(7, 24), randn(13, 24, scale=0.3), randn(13)
    w.op("linear", lambda x, weight: F.linear(x, weight), {"x": x, "weight": weight})
    w.op("linear_bias", lambda x, weight, bias: F.linear(x, weight, bias), {"x": x, "weight": weight, "bias": bias})
    tokens = torch.tensor([3, 0, 18, 3, 7, 7, 3, 1, 18, 12, 5])
    w.op("embedding", lambda table, tokens: table[tokens], {"table": randn(19, 24)}, {"tokens": tokens})


def attentions(w):
    theta = 10000.0
    positions = torch.tensor([0, 1, 2, 5, 17, 64, 127])
    w.op(
        "rope",
        lambda x, positions: reference.rope(x, positions, theta),
        {"x": randn(7, 3, 10)},
        {"positions": positions},
        {"theta": theta},
    )

    def output(first):
        return lambda q, k, v: reference.attention(q, k, v, first)[0]

    q, k, v = randn(2, 13, 6, 10), randn(2, 13, 2, 10), randn(2, 13, 2, 10)
    _, y, _ = w.op("attention", output(0), {"q": q, "k": k, "v": v}, attributes={"first": 0})
    w.put("attention.output.lse", reference.attention(q, k, v)[1])
    heads = [t.transpose(1, 2) for t in (q, k, v)]
    same(y, F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True).transpose(1, 2))
    # The last five queries alone, as a chunk that continues a sequence: the same rows as above.
    _, tail, _ = w.op("attention_tail", output(8), {"q": q[:, 8:], "k": k, "v": v}, attributes={"first": 8})
    same(tail, y[:, 8:])


def losses(w):
    x, weight = randn(11, 24), randn(37, 24, scale=0.5)
    targets = torch.tensor([0, 36, 5, 5, 17, 2, 30, 9, 0, 21, 13])
    masked = targets.clone()
    masked[[1, 4, 10]] = -100
    for name, t in (("head_cross_entropy", targets), ("head_cross_entropy_masked", masked)):
        leaves = {"x": x.clone().requires_grad_(), "weight": weight.clone().requires_grad_()}
        loss = F.cross_entropy(F.linear(leaves["x"], leaves["weight"]), t, ignore_index=-100)
        loss.backward()
        w.put(f"{name}.input.x", x)
        w.put(f"{name}.input.weight", weight)
        w.put(f"{name}.input.targets", t)
        w.put(f"{name}.output.loss", loss.reshape(1))
        for k, v in leaves.items():
            w.put(f"{name}.grad.{k}", v.grad)
        w.attributes[name] = {"reduction": "mean over the rows whose target is not -100"}


def mixtures(w):
    k = 2
    logits = randn(9, 5)
    leaf = logits.clone().requires_grad_()
    weights, indices = reference.route(leaf, k)
    d_weights = randn(9, k)
    weights.backward(d_weights)
    w.put("router.input.logits", logits)
    w.put("router.input.dweights", d_weights)
    w.put("router.output.weights", weights)
    w.put("router.output.indices", indices)
    w.put("router.grad.logits", leaf.grad)
    w.attributes["router"] = {"k": k, "order": "largest first"}

    experts, dim, inner = 4, 24, 17
    inputs = {
        "x": randn(9, dim),
        "gate": randn(experts, dim, scale=0.3),
        "w1": randn(experts, inner, dim, scale=0.3),
        "w2": randn(experts, dim, inner, scale=0.3),
        "w3": randn(experts, inner, dim, scale=0.3),
    }
    w.op("moe", lambda x, gate, w1, w2, w3: reference.moe(x, gate, w1, w2, w3, k)[0], inputs, attributes={"k": k})


def optimizers(w):
    steps, n = 5, 37
    grads = randn(steps, n, scale=0.5)
    grads[:, 0] = 0  # only the decay moves this one
    grads[:, 1] = held(grads[:, 1] * 1e-9)  # near eps
    start = randn(n)
    lr, betas, eps, decay = 1e-2, (0.9, 0.95), 1e-8, 0.1
    p = torch.nn.Parameter(start.clone())
    adamw = torch.optim.AdamW([p], lr=lr, betas=betas, eps=eps, weight_decay=decay, foreach=False)
    params, ms, vs = [], [], []
    for g in grads:
        p.grad = g.clone()
        adamw.step()
        params.append(p.detach().clone())
        ms.append(adamw.state[p]["exp_avg"].clone())
        vs.append(adamw.state[p]["exp_avg_sq"].clone())
    w.put("adamw.input.param", start)
    w.put("adamw.input.grads", grads)
    w.put("adamw.output.params", torch.stack(params))
    w.put("adamw.output.m", torch.stack(ms))
    w.put("adamw.output.v", torch.stack(vs))
    w.attributes["adamw"] = {"lr": lr, "beta1": betas[0], "beta2": betas[1], "eps": eps, "weight_decay": decay}

    for name, momentum in (("sgd", 0.0), ("sgd_momentum", 0.9)):
        p = torch.nn.Parameter(start.clone())
        sgd = torch.optim.SGD([p], lr=lr, momentum=momentum, foreach=False)
        params = []
        for g in grads:
            p.grad = g.clone()
            sgd.step()
            params.append(p.detach().clone())
        w.put(f"{name}.input.param", start)
        w.put(f"{name}.input.grads", grads)
        w.put(f"{name}.output.params", torch.stack(params))
        w.attributes[name] = {"lr": lr, "momentum": momentum, "update": "m = momentum*m + g, m starts as the first g; p -= lr*m"}

    for name, max_norm in (("clip", 1.0), ("clip_idle", 100.0)):
        gs = [randn(7, 3), randn(11), randn(2, 5)]
        ps = [torch.nn.Parameter(torch.zeros_like(g)) for g in gs]
        for q, g in zip(ps, gs, strict=True):
            q.grad = g.clone()
        norm = torch.nn.utils.clip_grad_norm_(ps, max_norm, foreach=False)
        for i, (q, g) in enumerate(zip(ps, gs, strict=True)):
            w.put(f"{name}.input.{i}", g)
            w.put(f"{name}.output.{i}", q.grad)
        w.put(f"{name}.output.norm", norm.reshape(1))
        w.attributes[name] = {"max_norm": max_norm, "scale": "min(1, max_norm/(norm + 1e-6))"}


def write(out):
    """Writes ops.safetensors and ops.json and returns what the manifest says of them."""
    _generator.manual_seed(SEED)
    w = Writer()
    for part in (norms_and_activations, linears, attentions, losses, mixtures, optimizers):
        part(w)
    save_file(dict(sorted(w.tensors.items())), os.path.join(out, "ops.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(out, "ops.json"), "w") as f:
        json.dump(w.attributes, f, indent=2, sort_keys=True)
        f.write("\n")
    return {"seed": SEED, "operations": sorted(w.attributes), "tensors": len(w.tensors)}
