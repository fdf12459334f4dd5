"""How far roundings alone move the losses of the mixture of experts, by the tokens that a step has.

    python noise.py [ROWSxSEQ ...]

For each size PyTorch trains in float32, the curve, and again from start weights off by up to 2^-9 of themselves, which is what
rounding them to bfloat16 once does (four times); then under autocast to bfloat16 and float16, from the curve's own start weights and from
such as are off by 1e-5 of themselves, which moves float32 by little. Printed is how far the losses are from the curve's. curve_moe_wide.json has the
fewest tokens with which none of these runs is further than three quarters of 1% from the curve at any step.
"""

import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
sys.dont_write_bytecode = True

import torch  # noqa: E402
import transformers  # noqa: E402

import curves  # noqa: E402

# what: (type of autocast, how far start weights are off, seeds)
RUNS = {
    "fp32, start off by 2^-9": (None, 2**-9, curves.SEEDS),
    "bf16": (torch.bfloat16, 0.0, [0]),
    "bf16, start off by 1e-5": (torch.bfloat16, 1e-5, curves.SEEDS[:3]),
    "fp16": (torch.float16, 0.0, [0]),
    "fp16, start off by 1e-5": (torch.float16, 1e-5, curves.SEEDS[:1]),
}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.set_verbosity_error()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "text.bin"), "rb") as f:
        text = f.read()
    for size in sys.argv[1:] or ("4x32", "8x64", "16x64", "32x64"):
        rows, seq = map(int, size.split("x"))
        curve = curves.Curve("moe", "constant", 1, rows, seq)
        begin = time.monotonic()
        losses, _ = curves.train_transformers(curve, text)
        print(f"{rows * seq} tokens a step ({size}): {losses[0]:.3f} to {losses[-1]:.3f}, {time.monotonic() - begin:.0f} s", flush=True)
        for what, (half, noise, seeds) in RUNS.items():
            for seed in seeds:
                begin = time.monotonic()
                d = curves.apart(curves.train_transformers(curve, text, half, noise, seed)[0], losses)
                print(
                    f"  {what + (f' ({seed})' if noise else ''):30} mean {d['mean']:.3%}  of twenty {d['worst_mean']:.3%}  "
                    f"worst {d['worst']:.3%} at {d['worst_step']}  above 1%: {d['above_1%']}  {time.monotonic() - begin:.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
