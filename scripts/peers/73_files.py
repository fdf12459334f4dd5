"""Files that loadline writes of SmolLM2-135M-Instruct.Q4_1.gguf, read by others.

    73_files.py LOADLINE MODEL BIN OUT GOLDENS [TOKENS [PART...]]

TOKENS, 64, is how far each prompt is continued. A PART is same, f32, f16, bf16, q8_0 or train; all are the default. BIN is the folder of llama.cpp's programs, OUT an empty one to write in, GOLDENS e2e/testdata/smollm2. It fails unless

- llama.cpp continues four of the prompts with our GGUF files in F32, F16, BF16, Q8_0 and the type that the weights have with the very tokens that it gives with the files
  that llama-quantize makes of MODEL, or with MODEL itself;
- a file made of our directory in F16 has the tensors, to the byte, of the one made of MODEL;
- transformers, given the tokens with which we continue them, finds each the likeliest, or less than NEAR behind it: for directories and GGUF files in F32,
  F16, BF16, computed in float32; and likewise llama.cpp, in F32 and F16 (in BF16 and Q8_0 it rounds activations to 8 bits, which is reported);
- what `train --model MODEL` writes is continued as we do by transformers as it is, by llama.cpp once it is converted, and read by inspect and eval;
- directories' tokenizers give transformers the tokens of all prompts.
"""

import json
import os
import subprocess
import sys

import gguf
import torch
import transformers

LOADLINE, MODEL, BIN, OUT, GOLDENS = sys.argv[1:6]
TOKENS = int((sys.argv[6:] or ["64"])[0])
PARTS = sys.argv[7:] or ["same", "f32", "f16", "bf16", "q8_0", "train"]
NEAR = 0.05

with open(os.path.join(GOLDENS, "greedy.json"), encoding="utf-8") as f:
    ALL = json.load(f)
SOME = ALL[3::5]  # prose, C, Spanish, a chat
differ = []


def path(name):
    return os.path.join(OUT, name)


def loadline(*args):
    """Runs the command and returns its document."""
    run = subprocess.run([LOADLINE, *args, "--json", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode != 0:
        sys.exit(f"loadline {args}: {run.stderr.decode()}")
    return json.loads(run.stdout)


def say(ok, text):
    print(f"{'same    ' if ok else 'DIFFERS '} {text}", flush=True)
    if not ok:
        differ.append(text)


def ours(model):
    """Our continuations."""
    rows = []
    for c in SOME:
        d = loadline("generate", "--model", model, "--prompt", c["prompt"], "--max-tokens", str(TOKENS), "--temperature", "0", "--ignore-eos")
        rows.append(d["token_ids"])
    return rows


def llama(model):
    """llama.cpp's continuations of the same prompts: tokens, and by how much the second's logits are less."""
    stdin = b"\0".join(c["prompt"].encode() for c in SOME)
    command = [os.path.join(BIN, "greedy"), model, str(TOKENS), "1", "plain"]
    lines = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    tokens = [[int(x) for x in line.split()] for line in lines[1::4]]
    return tokens, [[float(x) for x in line.split()] for line in lines[3::4]]


def quantised(kind):
    """llama.cpp's own file of that type."""
    file = path(f"llama-{kind}.gguf")
    command = [os.path.join(BIN, "llama-quantize"), "--allow-requantize", MODEL, file, kind.upper()]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return file


def beside_llama(name, rows, answer, strict=True):
    """Compares our continuations with llama.cpp's."""
    ties = []
    for got, want, gap in zip(rows, *answer, strict=True):
        at = next((k for k in range(TOKENS) if got[k] != want[k]), None)
        if at is not None:
            ties.append(gap[at])
    text = f"{name}: llama.cpp gives our tokens for {len(rows) - len(ties)} of {len(rows)} prompts; leaves the others at gaps of {ties}"
    if strict:
        say(all(x < NEAR for x in ties), text)
    else:
        print(f"         {text}", flush=True)


def beside_transformers(name, rows, folder, **more):
    """Gives transformers our continuations, and looks whether it would have said the same."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **more)
    alike, worst = 0, 0.0
    for c, got in zip(SOME, rows, strict=True):
        n = len(c["prompt_ids"])
        with torch.no_grad():
            logits = model(torch.tensor([c["prompt_ids"] + got])).logits[0, n - 1 : -1]
        behind = (logits.max(dim=-1).values - logits[range(TOKENS), got]).max().item()
        alike += behind == 0
        worst = max(worst, behind)
    say(worst < NEAR, f"{name}: transformers gives our tokens for {alike} of {len(rows)} prompts; the likeliest is never more than {worst:.4f} ahead")


def tokenizer(name):
    t = transformers.AutoTokenizer.from_pretrained(path(name))
    same = sum(t(c["prompt"], add_special_tokens=False).input_ids == c["prompt_ids"] for c in ALL)
    say(same == len(ALL), f"{name}: transformers' tokens of {same} of {len(ALL)} prompts are llama.cpp's")


def tensors(file):
    return {t.name: (t.tensor_type, t.data.tobytes()) for t in gguf.GGUFReader(file).tensors}


def converted(kind):
    """A file and a directory of a type, and what all make of them."""
    file = path(f"{kind}.gguf")
    loadline("convert", MODEL, file, "--to", "gguf", "--type", kind)
    answer = llama(file)
    say(answer[0] == llama(quantised(kind))[0], f"{kind}.gguf: llama.cpp's tokens are those with its own file")
    rows = ours(file)
    beside_llama(f"{kind}.gguf", rows, answer, kind in ("f32", "f16"))
    os.remove(path(f"llama-{kind}.gguf"))
    if kind == "q8_0":
        return
    beside_transformers(f"{kind}.gguf", rows, OUT, gguf_file=f"{kind}.gguf")
    loadline("convert", MODEL, path(kind), "--to", "safetensors", "--type", kind)
    beside_transformers(f"{kind} directory", rows, path(kind))
    tokenizer(kind)
    if kind == "f16":
        say(ours(path(kind)) == rows, "f16 directory: we give the same tokens with it")
        loadline("convert", path(kind), path("back.gguf"), "--to", "gguf")
        say(tensors(path("back.gguf")) == tensors(file), "back.gguf, of the directory in f16: the same tensors")
        say(llama(path("back.gguf")) == answer, "back.gguf: llama.cpp's tokens are those with f16.gguf")


def trained():
    """What train writes."""
    d = loadline(
        "train", "--model", MODEL, "--out", path("run"), "--steps", "4", "--batch", "1", "--seq", "128", "--optimizer", "adafactor", "--lr", "1e-4", "--warmup", "1"
    )
    print(f"         train: losses {d['losses']}, promised {d['predicted_peak_bytes']}, ledger {d['ledger_peak_bytes']}, RSS {d['rss_peak_bytes']}", flush=True)
    run = d["checkpoint"]
    rows = ours(path("run"))
    beside_transformers("run, a directory that train wrote", rows, run)
    d = loadline("inspect", run)
    say(d["tokenizer"]["tokens"] == 49152 and d["parameters"] > 0, f"run: inspect counts {d['parameters']} parameters")
    text = path("text.txt")
    with open(text, "w", encoding="utf-8") as f:
        f.write("\n".join(c["prompt"] for c in ALL))
    d = loadline("eval", "--perplexity", "--model", run, "--data", text, "--context", "128")
    say(1 < d["perplexity"] < 1000, f"run: eval's perplexity is {d['perplexity']:.3f}")
    loadline("convert", run, path("run.gguf"), "--to", "gguf")
    beside_llama("run.gguf", rows, llama(path("run.gguf")))


def same():
    """A file of the same format and types."""
    loadline("convert", MODEL, path("same.gguf"), "--to", "gguf")
    say(tensors(path("same.gguf")) == tensors(MODEL), "same.gguf: the tensors of the file that it was made of")
    say(llama(path("same.gguf")) == llama(MODEL), "same.gguf: llama.cpp's tokens are those with the file that it was made of")


def main():
    for part in PARTS:
        {"same": same, "train": trained}.get(part, lambda: converted(part))()
    sys.exit(f"{len(differ)} differ" if differ else 0)


main()
