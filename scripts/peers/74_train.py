"""Training from SmolLM2-135M-Instruct.Q4_1.gguf by `loadline train --model`, beside transformers and PyTorch.

    74_train.py LOADLINE MODEL OUT GOLDENS [PART...]

A PART is source, steps, same, texts, precision or written; all are the default. OUT is an empty folder to write in, GOLDENS e2e/testdata/smollm2, whose train.py
trains in PyTorch. Both sides see the same windows of the text that loadline carries, in the same order: what loadline has tokenised is read, and the
order of windows computed again (data/permute.go). It fails unless

source     `convert --to safetensors --type f32` has the weights that gguf-py has of MODEL, to the bit, and a run from that directory the losses of one from MODEL;
steps      losses of ten steps in float32 are within BOUND of PyTorch's, relative, and gradient norms within NORMS, for each of RUNS;
same       twenty steps on one window bring its loss down, on both sides alike;
texts      (it reports) losses of a few steps with high rates beside those of the same windows without any training, and after it: whether texts or steps raise them;
precision  bf16 and fp16 have the losses of fp32 within CLOSE nats;
written    transformers continues prompts greedily as we do for TOKENS tokens, with the directories that train writes in fp32, bf16 and fp16; it may leave our
           tokens where the two likeliest are less than NEAR apart.
"""

import json
import math
import os
import shutil
import struct
import subprocess
import sys

import torch

LOADLINE, MODEL, OUT, GOLDENS = sys.argv[1:5]
PARTS = sys.argv[5:] or ["source", "steps", "same", "texts", "precision", "written"]
sys.path.insert(0, GOLDENS)
import train as peer  # noqa: E402

BOUND, NORMS, CLOSE, NEAR, TOKENS = 1e-4, 1e-3, 0.05, 0.05, 16
SEQ, SEED = 128, 1
# optimiser, rate, warm-up, rows of a micro-batch, micro-batches
RUNS = [
    (peer.ADAMW, 1e-5, 2, 1, 1),
    (peer.ADAMW, 5e-5, 2, 1, 2),
    (peer.ADAMW, 1e-4, 0, 1, 1),
    (peer.ADAFACTOR, 1e-5, 2, 1, 1),
    (peer.ADAFACTOR, 1e-4, 0, 1, 1),
    (peer.SGD, 1e-3, 2, 1, 1),
    (peer.SGD, 1e-2, 0, 2, 1),
]
differ = []


def say(ok, text):
    print(f"{'same    ' if ok else 'DIFFERS '} {text}", flush=True)
    if not ok:
        differ.append(text)


def note(text):
    print(f"         {text}", flush=True)


def few(values):
    return " ".join(f"{x:.4f}" for x in values)


def loadline(*args):
    """Runs the command and returns its document."""
    run = subprocess.run([LOADLINE, *args, "--json", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode != 0:
        sys.exit(f"loadline {args}: {run.stderr.decode()}")
    return json.loads(run.stdout)


class Run:
    """A run of loadline train."""

    def __init__(self, s, rate, warmup, steps, batch=1, accumulate=1, model=MODEL, seq=SEQ, data=None, more=(), keep=False):
        self.s, self.rate, self.warmup, self.steps, self.batch, self.accumulate, self.seq = s, rate, warmup, steps, batch, accumulate, seq
        self.out = os.path.join(OUT, "run")
        log = os.path.join(OUT, "log.jsonl")
        args = ["train", "--model", model, "--out", self.out, "--events", log, "--seed", str(SEED), "--save-every", "0"]
        args += ["--steps", str(steps), "--batch", str(batch), "--seq", str(seq), "--accumulate", str(accumulate)]
        args += ["--optimizer", s["optimizer"], "--lr", str(rate), "--warmup", str(warmup), "--weight-decay", str(s["weight_decay"]), "--clip", str(s["clip"])]
        if "momentum" in s:
            args += ["--momentum", str(s["momentum"])]
        if data:
            args += ["--data", data]
        d = loadline(*args, *more)
        self.losses, self.checkpoint = d["losses"], d["checkpoint"]
        with open(log, encoding="utf-8") as f:
            events = [e for e in map(json.loads, f) if e["event"] == "step"]
        os.remove(log)
        self.norms, self.rates = [e["grad_norm"] for e in events], [e["lr"] for e in events]
        self.batches = self.seen()
        if not keep:
            shutil.rmtree(self.out)

    def seen(self):
        """The windows of every step, as peer.steps takes them."""
        (name,) = (x for x in os.listdir(self.out) if x.startswith("tokens-"))
        with open(os.path.join(self.out, name), "rb") as f:
            magic, width, _, n = struct.unpack("<8sIIQ", f.read(24))
            assert magic == b"LLTOKEN1"
            tokens = list(struct.unpack(f"<{n}{'H' if width == 2 else 'I'}", f.read(n * width)))
        count, orders = (n - 1) // self.seq, {}
        at, steps = 0, []
        for _ in range(self.steps):
            step = []
            for _ in range(self.accumulate):
                rows = []
                for _ in range(self.batch):
                    epoch, index = divmod(at, count)
                    order = orders.setdefault(epoch, Order(count, SEED, epoch))
                    first = order.at(index) * self.seq
                    rows.append(tokens[first : first + self.seq + 1])
                    at += 1
                step.append(([r[:-1] for r in rows], [r[1:] for r in rows]))
            steps.append(step)
        return steps

    def schedule(self):
        """The rates of a warm-up and a cosine to a tenth, which the command is asked for."""
        for k in range(self.steps):
            if k < self.warmup:
                yield self.rate * (k + 1) / self.warmup
            else:
                yield self.rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (k - self.warmup) / (self.steps - self.warmup))))

    def peer(self):
        """The same in PyTorch: losses and norms."""
        return peer.steps(peer.load(MODEL), self.s, self.batches, list(self.schedule()))

    def compare(self, name):
        """Trains in PyTorch too and compares."""
        for a, b in zip(self.rates, self.schedule(), strict=True):
            assert abs(a - b) < 1e-9 * b, (self.rates, list(self.schedule()))
        losses, norms = self.peer()
        off = [abs(a / b - 1) for a, b in zip(self.losses, losses, strict=True)]
        norm = [abs(a / b - 1) for a, b in zip(self.norms, norms, strict=True)]
        say(max(off) <= BOUND and max(norm) <= NORMS, f"{name}: losses are off by {max(off):.2g} at most, gradient norms by {max(norm):.2g}")
        note("ours    " + few(self.losses))
        note("PyTorch " + few(losses))
        note("off     " + " ".join(f"{x:.0e}" for x in off))
        return losses


MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x):
    x &= MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


class Order:
    """The order of n windows in an epoch: data/permute.go."""

    def __init__(self, n, seed, epoch):
        self.n, self.half, self.keys = n, ((n - 1).bit_length() + 1) // 2, []
        state = mix(seed) ^ mix(epoch + GOLDEN)
        for _ in range(4):
            state = (state + GOLDEN) & MASK
            self.keys.append(mix(state))

    def at(self, x):
        mask = (1 << self.half) - 1
        while True:
            left, right = x >> self.half, x & mask
            for key in self.keys:
                left, right = right, left ^ (mix(right ^ key) & mask)
            x = left << self.half | right
            if x < self.n:
                return x


def source():
    folder = os.path.join(OUT, "f32")
    loadline("convert", MODEL, folder, "--to", "safetensors", "--type", "f32")
    ours, theirs = peer.read(folder).state_dict(), peer.kept(MODEL).state_dict()
    say(ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours), f"the directory in f32 has gguf-py's weights, {len(ours)} tensors")
    args = (peer.ADAMW, 5e-5, 0, 2)
    a, b = Run(*args), Run(*args, model=folder)
    say(a.losses == b.losses and a.norms == b.norms, f"from the file and from the directory: losses {a.losses} and {b.losses}")
    shutil.rmtree(folder)


def steps():
    for s, rate, warmup, batch, accumulate in RUNS:
        run = Run(s, rate, warmup, 10, batch, accumulate)
        run.compare(f"{s['optimizer']} at {rate:g}, warm-up {warmup}, {accumulate} × {batch} × {SEQ}")


TEXT = """The harbour was quiet before the market opened. Two boats had come in during the night, and their crews were already sorting the catch into
crates while the gulls walked up and down the wall. Anna carried the ice. She had done so every morning since her brother left for the city, and she no longer
noticed the cold of it through her gloves. When the first buyers arrived, shaking the rain from their coats, she stood aside and listened to them argue about
the price of mackerel, which had gone up again, and about the new road, which nobody wanted to pay for but everybody hoped to use.
"""


def same():
    text = os.path.join(OUT, "text.txt")
    with open(text, "w", encoding="utf-8") as f:
        f.write(TEXT)
    for s, rate in (peer.ADAMW, 5e-5), (peer.ADAFACTOR, 5e-5):
        seq = 96  # of the text's tokens there is one window
        run = Run(s, rate, 2, 20, data=text, seq=seq)
        assert all(b == run.batches[0] for b in run.batches)
        losses = run.compare(f"{s['optimizer']} at {rate:g} on one window")
        say(run.losses[-1] < 0.5 * run.losses[0] and losses[-1] < 0.5 * losses[0], "it is learnt by heart, on both sides")


def texts():
    for s, rate, warmup, n in (peer.ADAFACTOR, 1e-4, 1, 4), (peer.ADAFACTOR, 1e-5, 1, 4), (peer.ADAMW, 1e-4, 1, 4), (peer.ADAMW, 1e-3, 10, 10), (peer.ADAMW, 2e-5, 10, 10):
        run = Run(s, rate, warmup, n, keep=True)

        def evaluated(path):
            model = peer.load(path) if path == MODEL else peer.read(path)
            with torch.no_grad():
                return [sum(peer.summed(model, *m).item() for m in b) / SEQ for b in run.batches]

        note(f"{s['optimizer']} at {rate:g}, warm-up {warmup}: losses of the steps {few(run.losses)}")
        note(f"    of the same windows before training {few(evaluated(MODEL))}, after it {few(evaluated(run.checkpoint))}")
        shutil.rmtree(run.out)


def precision():
    for s, rate in (peer.ADAMW, 2e-5), (peer.ADAFACTOR, 2e-5):
        wide = Run(s, rate, 2, 10).losses
        note(f"{s['optimizer']} at {rate:g} fp32: {few(wide)}")
        for more in (["--precision", "bf16"], ["--precision", "fp16"], ["--precision", "bf16", "--master", "none"]):
            got = Run(s, rate, 2, 10, more=more).losses
            off = max(abs(a - b) for a, b in zip(got, wide, strict=True))
            say(off <= CLOSE, f"{s['optimizer']} {' '.join(more[1:])}: {few(got)}, off by {off:.2g} nats at most")


def written():
    with open(os.path.join(GOLDENS, "greedy.json"), encoding="utf-8") as f:
        prompts = json.load(f)[3::5]  # prose, C, Spanish, a chat
    for kind in "fp32", "bf16", "fp16":
        run = Run(peer.ADAFACTOR, 2e-5, 1, 3, more=["--precision", kind], keep=True)
        model, alike, gaps = peer.read(run.checkpoint), 0, []
        for c in prompts:
            d = loadline("generate", "--model", run.out, "--prompt", c["prompt"], "--max-tokens", str(TOKENS), "--temperature", "0", "--ignore-eos")
            ids, got = list(c["prompt_ids"]), d["token_ids"]
            for want in got:
                with torch.no_grad():
                    logits = model(torch.tensor([ids])).logits[0, -1]
                if logits.argmax().item() != want:
                    gaps.append((logits.max() - logits[want]).item())
                    break
                ids.append(want)
            else:
                alike += 1
        say(all(x < NEAR for x in gaps), f"{kind}: transformers has our {TOKENS} tokens after {alike} of {len(prompts)} prompts, and leaves the others at gaps of {gaps}")
        shutil.rmtree(run.out)


def main():
    for part in PARTS:
        {"source": source, "steps": steps, "same": same, "texts": texts, "precision": precision, "written": written}[part]()
    sys.exit(f"{len(differ)} differ" if differ else 0)


if __name__ == "__main__":
    main()
