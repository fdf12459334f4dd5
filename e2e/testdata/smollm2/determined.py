"""Greedy continuations of SmolLM2-135M-Instruct.Q4_1.gguf, its weights as they lie in the file, that llama.cpp agrees with itself about.

    determined.py MODEL BIN            rewrite determined.json
    determined.py --check MODEL BIN    compare with it

MODEL and BIN are generate.py's; BIN has llama.cpp's ways of computing for other processors too, in kernels/NAME. Needs what generate.py needs.

Products with packed weights round activations to 8 bits. A model as small as this one is so often near a tie that this decides what it says:
on most prompts llama.cpp's text depends on how it was built and on its settings. Only where it does not is there an answer that another
implementation could be asked to give. Which prompts these are is decided by this rule, in which nothing of ours has a part:

 1. pool.json has prompts of many kinds, the kinds in turn; half of them are of kinds where a small model is sure of itself (counting, repetition, texts
    that everybody knows, patterns, short questions). Pool and rule were committed before either side had run one of them, and are the same since.
 2. A prompt passes if its greedy 64 tokens (past the end of the text too) are the same in all of VARIANTS. Each sees only what those before it left.
 3. The first 20 that pass, in the pool's order, are taken.

determined.json has these, tokens and gaps of the first variant, and `left`, how many prompts each variant left of `pool`, those of the pool that were
looked at: it is taken part by part until 20 have passed.

llama.cpp gives other bits on other CPUs: --check runs the variants that this one can on the prompts taken, and wants the same tokens up to a place
where two logits nearly tie.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import generate

COUNT = 20
PART = 48

# The name, the folder in BIN, what greedy is told, and whether weights are widened to float32 first. plain and repacked are different kernels; half is
# llama.cpp's default, keys and values in f16 and attention fused as it sees fit; narrow has them in q8_0; single takes prompts token by token.
VARIANTS = [
    ("native, plain, f32 keys and values", "", "plain", False),
    ("native, repacked, f16 keys and values, fused attention (the defaults)", "", "repacked,half", False),
    ("native, repacked, f32 keys and values", "", "repacked", False),
    ("native, repacked, q8_0 keys and values, fused attention", "", "repacked,narrow", False),
    ("native, repacked, f32 keys and values, prompts token by token", "", "repacked,single", False),
    ("AVX2, plain, f32 keys and values", "kernels/haswell", "plain", False),
    ("AVX2, the defaults", "kernels/haswell", "repacked,half", False),
    ("native, weights widened to f32", "", "plain", True),
    ("SSE2, plain, f32 keys and values", "kernels/x64", "plain", False),
]


def pool():
    """The pool's prompts, as text."""
    return [generate.chat(row["chat"]) if "chat" in row else row["prompt"] for row in json.loads(generate.read("pool.json"))]


def run(binaries, model, kernels, prompts, hoped=()):
    """What greedy prints of each prompt, four lists of numbers, up to where it leaves a row hoped for: one process with one thread a core."""

    def some(k):
        part = prompts[k::n]
        with tempfile.NamedTemporaryFile("w") as f:
            for row in hoped[k::n]:
                f.write(" ".join(map(str, row["tokens"])) + "\n" + " ".join(map(str, row["seconds"])) + "\n")
            f.flush()
            how = [kernels + ",alike", f.name] if hoped else [kernels]
            command = [os.path.join(binaries, "greedy"), model, str(generate.TOKENS), "1", *how]
            stdin = b"\0".join(p.encode() for p in part)
            lines = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
        if len(lines) != 4 * len(part):
            sys.exit(f"greedy: got {len(lines)} lines, want {4 * len(part)}")
        numbers = [[float(x) if k % 4 == 3 else int(x) for x in line.split()] for k, line in enumerate(lines)]
        return [numbers[k : k + 4] for k in range(0, len(lines), 4)]

    n = min(os.cpu_count(), len(prompts))
    out = [None] * len(prompts)
    with concurrent.futures.ThreadPoolExecutor(n) as threads:
        for k, some_rows in enumerate(threads.map(some, range(n))):
            out[k::n] = some_rows
    return rows(prompts, out)


def rows(prompts, answers):
    keys = ("prompt", "prompt_ids", "tokens", "seconds", "gaps")
    return [dict(zip(keys, (p, *a), strict=True)) for p, a in zip(prompts, answers, strict=True)]


def variant(v, model, binaries, wide, prompts, hoped=()):
    _, folder, kernels, widened = v
    return run(os.path.join(binaries, folder), wide if widened else model, kernels, prompts, hoped)


def choose(model, binaries, wide):
    """determined.json. The pool is taken part by part, until enough have passed: what comes behind decides nothing."""
    prompts, seen, taken, left = pool(), 0, [], [0] * len(VARIANTS)
    while seen < len(prompts) and len(taken) < COUNT:
        part = prompts[seen : seen + PART]
        seen += len(part)
        rest = variant(VARIANTS[0], model, binaries, wide, part)
        left[0] += len(rest)
        for k, v in enumerate(VARIANTS[1:], 1):
            got = variant(v, model, binaries, wide, [r["prompt"] for r in rest], rest) if rest else []
            rest = [r for r, g in zip(rest, got, strict=True) if r["tokens"] == g["tokens"]]
            left[k] += len(rest)
            print(f"{left[k]:4} of {seen} left by: {v[0]}", flush=True)
        taken += rest
    return {
        "pool": seen,
        "left": [{"variant": v[0], "prompts": n} for v, n in zip(VARIANTS, left, strict=True)],
        "continuations": taken[:COUNT],
    }


def write(chosen):
    head = generate.compact({"pool": chosen["pool"], "left": chosen["left"]})[:-1]
    body = ",\n".join(generate.compact(r) for r in chosen["continuations"])
    generate.write("determined.json", f'{head},"continuations":[\n{body}\n]}}')


def check(model, binaries, wide):
    """Runs all variants on the prompts taken, prints where one leaves the golden, and returns whether one does so where it may not."""
    want = json.loads(generate.read("determined.json"))["continuations"]
    prompts, bad = [w["prompt"] for w in want], False
    order = pool()
    if [order.index(p) for p in prompts] != sorted({order.index(p) for p in prompts}):
        print("DIFFERS  prompts are not the pool's, in its order")
        bad = True
    with open("/proc/cpuinfo", encoding="ascii") as f:
        avx2 = " avx2 " in f.read()
    for v in VARIANTS:
        name, folder = v[:2]
        if folder == "kernels/haswell" and not avx2:
            print(f"not here: {name}")
            continue
        got = variant(v, model, binaries, wide, prompts)
        found = list(generate.differences(got, want))
        for line, worse in found:
            print(line)
            bad |= worse
        print(f"{len(got) - len(found)} of {len(got)} the same: {name}", flush=True)
    return bad


def main():
    checking = sys.argv[1] == "--check"
    model, binaries = sys.argv[1 + checking : 3 + checking]
    with tempfile.TemporaryDirectory() as folder:
        wide = os.path.join(folder, "f32.gguf")
        generate.widen(model, binaries, wide)
        if not checking:
            write(choose(model, binaries, wide))
        elif check(model, binaries, wide):
            sys.exit("DIFFERS  e2e/testdata/smollm2/determined.json")
        else:
            print("same     e2e/testdata/smollm2/determined.json")


if __name__ == "__main__":
    main()
