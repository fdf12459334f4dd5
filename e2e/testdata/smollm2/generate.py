"""What llama.cpp makes of SmolLM2-135M-Instruct.Q4_1.gguf: greedy continuations of prompts, and the perplexity of an English text.

    generate.py MODEL BIN TEXT            rewrite greedy.json and perplexity.json
    generate.py --check MODEL BIN TEXT    compare with them
    generate.py --file MODEL BIN          compare the continuations alone: of the same weights in another file

MODEL is what `make models` fetches, BIN the folder of llama.cpp's programs and of greedy (scripts/peers/llamacpp/build.sh; the source in
node-llama-cpp 3.21.1), TEXT data/corpus/shakespeare.txt.gz, of which the first BYTES bytes are read. Needs Python alone.

Continuations are of llama.cpp's kernels that take weights as the file has them. It rounds activations to 8 bits, which moves the gap between
the two largest logits by 0.1 in the median, and in other places on other kernels: with repacked weights its published build continues 99 of
147 prompts otherwise, or ends, within 64 tokens, often where the gap is above NEAR. So a prompt is here only if llama.cpp agrees with itself for
64 tokens whether weights are repacked, taken as they are, or widened to float32 first, and if the first two nowhere have a gap below NEAR.
28 are left; of these loadline, when they were chosen, continued 26 alike, and left the others at gaps of 0.13 and 0.20; they are not among the 20.

llama.cpp gives other bits on other CPUs: --check wants tokens to be the same up to a place where two logits nearly tie, and the perplexity
within 0.3%.
"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

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


def greedy(model, binaries):
    """The prompts' continuations, as greedy.json has them."""
    stdin = b"\0".join(p.encode() for p in PROMPTS)
    command = [os.path.join(binaries, "greedy"), model, str(TOKENS), "f16", "1", "plain"]
    lines = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    if len(lines) != 4 * len(PROMPTS):
        sys.exit(f"greedy: got {len(lines)} lines, want {4 * len(PROMPTS)}")
    rows = []
    for i, prompt in enumerate(PROMPTS):
        ids, tokens, seconds = ([int(x) for x in line.split()] for line in lines[4 * i : 4 * i + 3])
        gaps = [float(x) for x in lines[4 * i + 3].split()]
        rows.append({"prompt": prompt, "prompt_ids": ids, "tokens": tokens, "seconds": seconds, "gaps": gaps})
    return rows


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
        return json.load(f)


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


def judge(rows):
    """Prints the differences to greedy.json, and returns 1 if one of them may not be."""
    found = list(differences(rows, read("greedy.json")))
    for line, _ in found:
        print(line)
    print(f"{len(rows) - len(found)} of {len(rows)} continuations the same")
    return int(any(bad for _, bad in found))


def main():
    if sys.argv[1] == "--file":
        sys.exit(judge(greedy(*sys.argv[2:4])))
    check = sys.argv[1] == "--check"
    model, binaries, text = sys.argv[1 + check : 4 + check]
    rows = greedy(model, binaries)
    ppl = perplexity(model, binaries, text)
    if not check:
        short = [r["prompt"] for r in rows if len(r["tokens"]) < TOKENS]
        if short:
            sys.exit(f"these end before {TOKENS} tokens: {short}")
        write("greedy.json", "[\n" + ",\n".join(compact(r) for r in rows) + "\n]")
        write("perplexity.json", compact(ppl))
        return
    bad = judge(rows)
    want = read("perplexity.json")
    ratio = ppl["perplexity"] / want["perplexity"]
    print(f"perplexity {ppl['perplexity']}, committed {want['perplexity']}: {100 * (ratio - 1):+.3f}%")
    if bad or abs(ratio - 1) > 0.003 or ppl["tokens"] != want["tokens"]:
        sys.exit("DIFFERS  e2e/testdata/smollm2")
    print("same     e2e/testdata/smollm2")


main()
