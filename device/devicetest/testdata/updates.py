"""Makes updates.safetensors: optimizer steps on given gradients, losses with smoothing and a z term, and a gated GELU.

    pip install torch==2.15.0 transformers==5.24.0 lion-pytorch==0.2.5 safetensors==0.8.0 numpy==2.4.6
    python updates.py

Inputs are float32 values; everything is computed from them in float64 and rounded to float32 once. Tensors are named op.input.x,
op.output.y and op.grad.x; outputs of an optimizer are those after each of its steps, one after the other.
"""

import os

import torch
import torch.nn.functional as F
from lion_pytorch import Lion
from safetensors.torch import save_file
from transformers.optimization import Adafactor

SEED, STEPS = 11, 6
HERE = os.path.dirname(os.path.abspath(__file__))
tensors = {}
generator = torch.Generator().manual_seed(SEED)


def randn(*shape, scale=1.0):
    """Random float64 numbers that a float32 holds exactly."""
    return (scale * torch.randn(*shape, generator=generator)).double()


def held(t):
    """The float64 numbers next to t that a float32 holds exactly."""
    return t.float().double()


def put(name, t):
    t = t.detach()
    assert ".input." not in name or torch.equal(t.float().double(), t.double()), name
    tensors[name] = (t.float() if t.is_floating_point() else t.int()).clone().contiguous()


def steps(name, make, shape, states):
    """Steps of an optimizer on one weight. States maps our name of a state to the optimizer's."""
    start, grads = randn(*shape), randn(STEPS, *shape, scale=0.5)
    grads.flatten(1)[:, 0] = 0  # only the decay moves this one, if anything
    grads.flatten(1)[:, 1] = held(grads.flatten(1)[:, 1] * 1e-6)
    grads[3] = held(grads[3] * 30)  # a sudden step
    p = torch.nn.Parameter(start.clone())
    optimizer = make([p])
    out = {"params": [], **{k: [] for k in states}}
    for g in grads:
        p.grad = g.clone()
        optimizer.step()
        out["params"].append(p.detach().clone())
        for ours, theirs in states.items():
            out[ours].append(optimizer.state[p][theirs].clone())
    put(f"{name}.input.param", start)
    put(f"{name}.input.grads", grads)
    for k, v in out.items():
        put(f"{name}.output.{k}", torch.stack(v))


def adafactor(params):
    return Adafactor(params, lr=1e-2, weight_decay=0.1, relative_step=False, scale_parameter=False)


def sgd(nesterov, decay):
    return lambda params: torch.optim.SGD(params, lr=1e-2, momentum=0.9, nesterov=nesterov, weight_decay=decay, foreach=False)


def optimizers():
    steps("lion", lambda p: Lion(p, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1), (37,), {"m": "exp_avg"})
    steps("sgd_nesterov", sgd(True, 0.0), (37,), {"buf": "momentum_buffer"})
    steps("sgd_decay", sgd(False, 0.1), (37,), {"buf": "momentum_buffer"})
    factored = {"row": "exp_avg_sq_row", "col": "exp_avg_sq_col"}
    steps("adafactor", adafactor, (7, 13), factored)
    steps("adafactor_experts", adafactor, (3, 5, 11), factored)
    steps("adafactor_vector", adafactor, (37,), {"row": "exp_avg_sq"})


def losses():
    targets = torch.tensor([0, 36, -100, 5, 17, 2, -100, 9, 0, 21, 13])
    for name, smoothing, z in (("smooth", 0.1, 0.0), ("z", 0.0, 1e-2), ("smooth_z", 0.2, 1e-3)):
        leaves = {"x": randn(11, 24).requires_grad_(), "weight": randn(37, 24, scale=0.5).requires_grad_()}
        logits = F.linear(leaves["x"], leaves["weight"])
        loss = F.cross_entropy(logits, targets, ignore_index=-100, label_smoothing=smoothing)
        loss = loss + z * torch.logsumexp(logits, -1)[targets >= 0].square().mean()
        loss.backward()
        put(f"{name}.input.targets", targets)
        put(f"{name}.output.loss", loss.reshape(1))
        for k, v in leaves.items():
            put(f"{name}.input.{k}", v)
            put(f"{name}.grad.{k}", v.grad)


def activations():
    for name, approximate in (("geglu_erf", "none"), ("geglu_tanh", "tanh")):
        gate, up, dy = randn(7, 23, scale=3.0), randn(7, 23), randn(7, 23)
        gate[0, :6] = held(torch.tensor([0.0, -0.0, 30.0, -30.0, 1e-4, -6.0]))
        leaves = {"gate": gate.requires_grad_(), "up": up.requires_grad_()}
        y = F.gelu(gate, approximate=approximate) * up
        y.backward(dy)
        put(f"{name}.input.dy", dy)
        put(f"{name}.output.y", y)
        for k, v in leaves.items():
            put(f"{name}.input.{k}", v)
            put(f"{name}.grad.{k}", v.grad)


torch.set_num_threads(1)
optimizers()
losses()
activations()
save_file(dict(sorted(tensors.items())), os.path.join(HERE, "updates.safetensors"), metadata={"format": "pt"})
os.chmod(os.path.join(HERE, "updates.safetensors"), 0o644)
print(len(tensors), "tensors")
