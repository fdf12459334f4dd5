"""What llama.cpp makes of SmolLM2-135M-Instruct.Q4_1.gguf: greedy continuations of prompts, and the perplexity of an English text.

    generate.py MODEL BIN TEXT            rewrite the goldens
    generate.py --check MODEL BIN TEXT    compare with them

MODEL is what `make models` fetches, BIN the folder of llama.cpp's programs and of greedy (scripts/peers/llamacpp/build.sh; the source in
node-llama-cpp 3.21.1), TEXT data/corpus/shakespeare.txt.gz, of which the first BYTES bytes are read. Needs gguf-py (0.19.0) and numpy.

greedy.json: continuations of the prompts with the file's weights widened to float32, keys and values in float32, and attention in separate
steps: nothing is rounded to fewer bits on the way, so that another implementation can leave them at near ties alone. They go on past the end
of the text. widened.sha256 is of those weights, tensor after tensor in the order of their names: llama-quantize's, which are gguf-py's.

packed.json: the same tokens with weights as the file has them. Then llama.cpp, as we do, rounds activations to 8 bits, each of its kernel
sets at other places, which moves logits so far that a greedy continuation says little: it leaves itself often. So tokens are not compared but
logits, with the tokens of greedy.json given: `gaps` are those between its two likeliest tokens, from weights as they lie; `plain`, `repacked`
and `between` the root mean squares of how far gaps of these, of repacked weights, and of the one against the other, are off; `alike` how
many of the tokens are the likeliest with either. determined.py finds prompts about which it does not leave itself.

The prompts were fixed, and committed, before any of them was run, and are the same since: what they show was not chosen.

llama.cpp gives other bits on other CPUs: --check wants tokens to be the same up to a place where two logits nearly tie, root mean squares
within a fifth, and the perplexity within 0.3%.
"""

import gzip
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import gguf
import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = 64
NEAR = 0.05
CONTEXT = 512
BYTES = 215_289  # 65,617 tokens: just above 65,536, at the end of a line

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def chat(text):
    return f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


# Fixed, for their kinds, before any of them was continued by either side; none has been exchanged since.
PROMPTS = [
    "The old lighthouse keeper climbed the stairs every evening at dusk, and",
    "The city council voted on Tuesday to",
    "Photosynthesis is the process by which",
    "In 1815, after the Battle of Waterloo,",
    "Shall I compare thee to a winter's night?\n",
    "\"Where have you been?\" asked Maria.\n\"",
    "Ingredients for pancakes:\n- 2 cups of flour\n-",
    "def is_prime(n):\n    ",
    "#include <stdio.h>\n\nint main(void) {\n",
    "function debounce(fn, delay) {\n",
    "{\n  \"name\": \"Alice\",\n  \"age\": 31,\n  \"address\": {",
    "| Country | Capital |\n|---|---|\n| France | Paris |\n",
    "Le petit chat est assis sur",
    "Había una vez un rey que",
    "Жили-были старик со старухой",
    "Solve for x: 3x + 7 = 22.\n\nSolution:",
    chat("Explain why the sky is blue."),
    chat("Write a short poem about the sea."),
    chat("How do I boil an egg?"),
    chat("What are three good habits for students?"),
]


def digest(model):
    """The SHA-256 of all weights, widened to float32 by gguf-py, in the order of their names."""
    h = hashlib.sha256()
    for t in sorted(gguf.GGUFReader(model).tensors, key=lambda t: t.name):
        h.update(numpy.ascontiguousarray(gguf.quants.dequantize(t.data, t.tensor_type), dtype="<f4").tobytes())
    return h.hexdigest()


def widen(model, binaries, out):
    """Writes the file in F32, by llama.cpp, and returns the digest of its weights, which are gguf-py's of the file itself."""
    command = [os.path.join(binaries, "llama-quantize"), "--allow-requantize", model, out, "F32"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    if {t.tensor_type for t in gguf.GGUFReader(out).tensors} != {gguf.GGMLQuantizationType.F32}:
        sys.exit("llama-quantize: not all is F32")
    want, got = digest(model), digest(out)
    if got != want:
        sys.exit(f"llama-quantize widens to weights {got}, gguf-py to {want}")
    return got


def run(model, binaries, kernels, forced=()):
    """What greedy prints, four lists of numbers for each prompt."""
    with tempfile.NamedTemporaryFile("w") as f:
        for row in forced:
            f.write(" ".join(map(str, row["tokens"])) + "\n" + " ".join(map(str, row["seconds"])) + "\n")
        f.flush()
        command = [os.path.join(binaries, "greedy"), model, str(TOKENS), "1", kernels] + [f.name] * bool(forced)
        stdin = b"\0".join(p.encode() for p in PROMPTS)
        lines = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    if len(lines) != 4 * len(PROMPTS):
        sys.exit(f"greedy: got {len(lines)} lines, want {4 * len(PROMPTS)}")
    numbers = [[float(x) if k % 4 == 3 else int(x) for x in line.split()] for k, line in enumerate(lines)]
    return [numbers[k : k + 4] for k in range(0, len(lines), 4)]


def greedy(model, binaries):
    """The prompts' continuations, as greedy.json has them."""
    keys = ("prompt", "prompt_ids", "tokens", "seconds", "gaps")
    return [dict(zip(keys, (prompt, *lists), strict=True)) for prompt, lists in zip(PROMPTS, run(model, binaries, "plain"), strict=True)]


def packed(model, binaries, rows):
    """The tokens of rows with weights as the file has them, as packed.json has it."""
    plain, repacked = run(model, binaries, "plain", rows), run(model, binaries, "repacked", rows)

    def off(a, b):
        squares = [(x - y) ** 2 for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)]
        return round(math.sqrt(sum(squares) / len(squares)), 4)

    def alike(side):
        return sum(x == y for r, s in zip(rows, side, strict=True) for x, y in zip(r["tokens"], s[1], strict=True))

    wide, gaps, other = [r["gaps"] for r in rows], [s[3] for s in plain], [s[3] for s in repacked]
    return {
        "plain": off(gaps, wide),
        "repacked": off(other, wide),
        "between": off(gaps, other),
        "alike": [alike(plain), alike(repacked)],
        "gaps": gaps,
    }


def perplexity(model, binaries, text):
    """The text's perplexity after each window, as perplexity.json has it."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(gzip.open(text).read()[:BYTES])
        f.flush()
        command = [os.path.join(binaries, "llama-perplexity"), "-m", model, "-f", f.name, "-c", str(CONTEXT), "-t", str(os.cpu_count())]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    after = [float(x) for x in re.findall(r"\[\d+\]([0-9.]+),", run.stdout.decode())]
    final = float(re.search(r"Final estimate: PPL = ([0-9.]+)", run.stdout.decode()).group(1))
    scored = CONTEXT - CONTEXT // 2 - 1
    return {"bytes": BYTES, "context": CONTEXT, "windows": len(after), "tokens": len(after) * scored, "perplexity": final, "after": after}


def compact(x):
    return json.dumps(x, ensure_ascii=False, separators=(",", ":"))


def write(name, text):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        f.write(text + "\n")


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return f.read()


def differences(rows, want):
    """Lines that say where continuations leave each other, and whether one does so where it may not."""
    for got, w in zip(rows, want, strict=True):
        if got["prompt_ids"] != w["prompt_ids"]:
            yield f"DIFFERS  tokens of the prompt {w['prompt']!r}", True
            continue
        at = next((i for i, (a, b) in enumerate(zip(got["tokens"], w["tokens"])) if a != b), None)
        if at is not None:
            bad = w["gaps"][at] >= NEAR
            yield f"{'DIFFERS' if bad else 'near tie'}  token {at} of {w['prompt']!r}: a gap of {w['gaps'][at]}", bad


def check(widened, rows, pack, ppl):
    """Prints the differences to the goldens and returns whether one of them may not be."""
    bad = widened != read("widened.sha256").strip()
    if bad:
        print("DIFFERS  widened.sha256")
    found = list(differences(rows, json.loads(read("greedy.json"))))
    for line, worse in found:
        print(line)
        bad |= worse
    print(f"{len(rows) - len(found)} of {len(rows)} continuations the same")
    want = json.loads(read("packed.json"))
    for name in ("plain", "repacked", "between"):
        print(f"{name}: gaps are off by {pack[name]}, committed {want[name]}")
        bad |= not want[name] / 1.2 <= pack[name] <= want[name] * 1.2
    print(f"tokens alike {pack['alike']}, committed {want['alike']}")
    want = json.loads(read("perplexity.json"))
    ratio = ppl["perplexity"] / want["perplexity"]
    print(f"perplexity {ppl['perplexity']}, committed {want['perplexity']}: {100 * (ratio - 1):+.3f}%")
    return bad or abs(ratio - 1) > 0.003 or ppl["tokens"] != want["tokens"]


def main():
    checking = sys.argv[1] == "--check"
    model, binaries, text = sys.argv[1 + checking : 4 + checking]
    with tempfile.TemporaryDirectory() as folder:
        wide = os.path.join(folder, "f32.gguf")
        widened = widen(model, binaries, wide)
        rows = greedy(wide, binaries)
    pack = packed(model, binaries, rows)
    ppl = perplexity(model, binaries, text)
    if checking:
        if check(widened, rows, pack, ppl):
            sys.exit("DIFFERS  e2e/testdata/smollm2")
        print("same     e2e/testdata/smollm2")
        return
    write("greedy.json", "[\n" + ",\n".join(compact(r) for r in rows) + "\n]")
    write("packed.json", compact(pack))
    write("perplexity.json", compact(ppl))
    write("widened.sha256", widened)


if __name__ == "__main__":
    main()
