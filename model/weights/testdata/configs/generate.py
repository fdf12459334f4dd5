"""Writes expected.json: what transformers makes of each config.json here: how many parameters the decoder has, and where one table serves all layers
the frequencies of its rotary positions and what turned elements are multiplied by, in a short context.

    python generate.py

Needs what ../../../testdata/golden/requirements.txt lists. The files are written by hand with the fields and values that the published ones of those
names have; long lists of factors are made up, as long as the published ones.
"""

import glob
import json
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def expected(path):
    with tempfile.TemporaryDirectory() as d:
        with open(path) as f:
            text = f.read().replace('"su"', '"longrope"')  # the early name, which the published file has and transformers 5 no longer takes
        with open(os.path.join(d, "config.json"), "w") as f:
            f.write(text)
        config = transformers.AutoConfig.from_pretrained(d).get_text_config()
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    out = {"parameters": sum(p.numel() for p in model.parameters())}
    rotary = getattr(model.model if hasattr(model, "model") else model.transformer, "rotary_emb", None)
    if rotary is not None and hasattr(rotary, "inv_freq"):
        rotary = type(rotary)(config)
        out |= {"frequencies": [float(x) for x in rotary.inv_freq], "magnitude": float(rotary.attention_scaling)}
    return out


def main():
    transformers.utils.logging.set_verbosity_error()
    all = {os.path.basename(p): expected(p) for p in sorted(glob.glob(os.path.join(HERE, "*.json"))) if os.path.basename(p) != "expected.json"}
    with open(os.path.join(HERE, "expected.json"), "w") as f:
        f.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in all.items()) + "\n}\n")
    for k, v in all.items():
        print(k, v["parameters"], len(v.get("frequencies", [])), v.get("magnitude"))


if __name__ == "__main__":
    main()
