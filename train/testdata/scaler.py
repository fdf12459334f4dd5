"""Writes scaler.json: what torch's GradScaler and DeepSpeed's DynamicLossScaler are after each step of scripted patterns of infinities.

    pip install torch==2.15.0 && pip download --no-deps --no-binary :all: deepspeed==0.19.8 && python scaler.py deepspeed-0.19.8.tar.gz

torch's runs as in a training loop: a gradient that is infinite or not is made by backward of the scaled loss, and step and update follow.
Of DeepSpeed the one file with the rule is run, which takes nothing else of the package but logging and ranks.

Each pattern has a window (growth_interval, loss_scale_window) and its steps, x with an infinity and . without. After each step: torch's scale,
its count of clean steps and whether the weight moved; DeepSpeed's scale and hysteresis, scale 0 where it ends the run.
"""

import importlib.util
import json
import logging
import os
import random
import sys
import tarfile
import tempfile
import types

import torch

SEED, START = 20261130, 65536.0
FIXED = [(3, "..x....xx..." * 4), (1, "....xxxx....x.x."), (4, "...x...x....x....xxxx....xx......"), (2, "xxxxxxxxxxxxxxxxxx..xxxxxx")]


def patterns():
    yield from FIXED
    rng = random.Random(SEED)
    for n in range(24):
        yield 1 + n % 8, "".join("x" if rng.randrange(12) < n % 7 + 1 else "." for _ in range(60))


def torch_rule(window, steps):
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=START, growth_interval=window)
    scales, clean, moved = [], [], []
    for step in steps:
        before = weight.detach().clone()
        optimizer.zero_grad()
        scaler.scale((weight * (torch.inf if step == "x" else 1.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        clean.append(scaler.state_dict()["_growth_tracker"])
        moved.append(not torch.equal(weight, before))
    return {"scale": scales, "clean": clean, "moved": moved}


def deepspeed_rule(module, window, steps):
    scaler = module.DynamicLossScaler(
        init_scale=START, scale_window=window, min_scale=1.0, delayed_shift=2, consecutive_hysteresis=False,
        raise_error_at_min_scale=True, dtype=torch.half,
    )
    scales, hysteresis = [], []
    for step in steps:
        try:
            scaler.update_scale(step == "x")
        except Exception as e:  # it has no type of its own
            assert "minimum" in str(e), e
            scales.append(0.0)
            hysteresis.append(scaler.cur_hysteresis)
            break
        scales.append(float(scaler.cur_scale))
        hysteresis.append(scaler.cur_hysteresis)
    return {"scale": scales, "hysteresis": hysteresis}


def deepspeed_module(archive):
    """The module of the rule out of DeepSpeed's source."""
    stubs = {
        "deepspeed": {"comm": types.SimpleNamespace(get_rank=lambda: 0)},
        "deepspeed.runtime": {},
        "deepspeed.runtime.config_utils": {"DeepSpeedConfigObject": object},
        "deepspeed.runtime.utils": {"has_inf_or_nan": None},
        "deepspeed.utils": {"log_dist": lambda *a, **k: None, "logger": logging.getLogger("deepspeed")},
    }
    for name, members in stubs.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)
    name = os.path.basename(archive).removesuffix(".tar.gz") + "/deepspeed/runtime/fp16/loss_scaler.py"
    with tarfile.open(archive) as tar, tempfile.NamedTemporaryFile(suffix=".py") as f:
        f.write(tar.extractfile(name).read())
        f.flush()
        spec = importlib.util.spec_from_file_location("loss_scaler", f.name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def main():
    module = deepspeed_module(sys.argv[1])
    lines = []
    for window, steps in patterns():
        lines.append(json.dumps({"window": window, "steps": steps, "torch": torch_rule(window, steps), "deepspeed": deepspeed_rule(module, window, steps)}))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "scaler.json"), "w") as f:
        f.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
