"""What transformers and PyTorch make of training SmolLM2-135M-Instruct.Q4_1.gguf, its weights widened to float32 by gguf-py.

    train.py MODEL TEXT            rewrite train.json
    train.py --check MODEL TEXT    compare with it

MODEL is what `make models` fetches, TEXT data/corpus/shakespeare.txt.gz, of which the first BYTES bytes are read. torch 2.15.0, transformers
5.24.0, gguf-py 0.19.0 (scripts/peers/transformers/venv.sh).

train.json: `tokens`, STEPS windows of SEQ tokens back to back and the one after them, by transformers' tokenizer; and for each of RUNS the
losses and global gradient norms of STEPS steps, a window each, before their updates and before clipping, in float32.

Nothing here is random. Other CPUs give other bits: --check wants losses within BOUND of their size, and the same tokens.
"""

import copy
import functools
import gzip
import json
import os
import sys

import torch
import torch.nn.functional as F
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
SEQ, STEPS, BYTES, BOUND = 64, 3, 2048, 1e-4

ADAMW = {"optimizer": "adamw", "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0}
ADAFACTOR = {"optimizer": "adafactor", "weight_decay": 0.1, "clip": 1.0}
SGD = {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1, "clip": 1.0}
RUNS = [ADAMW | {"lr": 5e-5}, ADAFACTOR | {"lr": 5e-5}, SGD | {"lr": 1e-2}]


def read(path):
    """The model of a GGUF file or of a directory."""
    folder, more = path, {}
    if os.path.isfile(path):
        folder, more = os.path.dirname(path), {"gguf_file": os.path.basename(path)}
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **more)


kept = functools.cache(read)


def load(path):
    """A copy of a model that is read once."""
    return copy.deepcopy(kept(path))


def updater(model, s):
    """The optimiser of settings s; its rate is that of each step. Tensors of two or more axes are decayed."""
    groups = [{"params": [p for p in model.parameters() if (p.ndim >= 2) == wide], "weight_decay": s["weight_decay"] * wide} for wide in (True, False)]
    if s["optimizer"] == "adamw":
        return torch.optim.AdamW(groups, lr=0.0, betas=(s["beta1"], s["beta2"]), eps=s["eps"])
    if s["optimizer"] == "adafactor":
        return transformers.optimization.Adafactor(groups, lr=0.0, scale_parameter=False, relative_step=False)
    if s["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=0.0, momentum=s["momentum"])
    raise ValueError(s["optimizer"])


def summed(model, tokens, targets):
    """The cross-entropy of rows, summed over their targets."""
    logits = model(input_ids=torch.tensor(tokens)).logits
    return F.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten(), reduction="sum")


def steps(model, s, batches, rates):
    """Trains. A batch is one step's micro-batches of (tokens, targets), each a list of rows. Returns losses and gradient norms."""
    model.train()
    update = updater(model, s)
    losses, norms = [], []
    for batch, rate in zip(batches, rates, strict=True):
        count = sum(len(row) for tokens, _ in batch for row in tokens)
        total = 0.0
        for tokens, targets in batch:
            loss = summed(model, tokens, targets) / count
            loss.backward()
            total += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip"]).item())
        for group in update.param_groups:
            group["lr"] = rate
        update.step()
        update.zero_grad(set_to_none=True)
        losses.append(total)
    return losses, norms


def windows(tokens, seq):
    """Windows back to back, as steps of one micro-batch of one row."""
    return [[([tokens[k : k + seq]], [tokens[k + 1 : k + 1 + seq]])] for k in range(0, len(tokens) - seq, seq)]


def compute(path, text):
    with gzip.open(text, "rb") as f:
        words = f.read(BYTES).decode()
    tokenizer = transformers.AutoTokenizer.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path))
    tokens = tokenizer(words, add_special_tokens=False).input_ids[: STEPS * SEQ + 1]
    batches, runs = windows(tokens, SEQ), []
    assert len(batches) == STEPS
    for s in RUNS:
        rates = [s["lr"]] * STEPS
        losses, norms = steps(load(path), s, batches, rates)
        runs.append(s | {"losses": losses, "grad_norms": norms})
        print(f"{s['optimizer']}: {losses}, norms {norms}", flush=True)
    return {"seq": SEQ, "steps": STEPS, "tokens": tokens, "runs": runs}


def main():
    check = sys.argv[1] == "--check"
    path, text = sys.argv[1 + check :]
    got, file = compute(path, text), os.path.join(HERE, "train.json")
    if not check:
        with open(file, "w", encoding="utf-8") as f:
            json.dump(got, f)
            f.write("\n")
        return
    with open(file, encoding="utf-8") as f:
        want = json.load(f)
    if got["tokens"] != want["tokens"]:
        sys.exit("other tokens")
    for a, b in zip(got["runs"], want["runs"], strict=True):
        off = max(abs(x / y - 1) for x, y in zip(a["losses"], b["losses"], strict=True))
        print(f"{a['optimizer']}: losses are within {off:.2g} of the committed ones")
        if off > BOUND:
            sys.exit("they differ")


if __name__ == "__main__":
    main()
