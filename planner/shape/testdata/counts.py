"""Writes counts.json: the parameters of the built-in cards as transformers' own classes count them.

Every card's config.json is built on the meta device, where nothing is allocated, and its parameters are counted, tied
ones once. Architectures that transformers does not carry itself (their classes come with the checkpoints) are left out.
Versions: those of model/testdata/golden/requirements.txt. Usage: counts.py [OUT]
"""

import json
import os
import sys

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))


def count(config):
    kind = config["model_type"]
    extra = dict(config)
    extra.pop("model_type")
    if kind == "kimi_k2":  # DeepSeek-V3's classes under another name
        kind = "deepseek_v3"
    if "kv_lora_rank" in extra:  # whose default is that of the largest model
        extra.setdefault("q_lora_rank", None)
    # The cards write one name for what configuration classes have several for, and leave out what all of a kind share.
    for mine, theirs, kinds in (("intermediate_size", "ffn_dim", ("opt",)), ("num_key_value_heads", "num_kv_heads", ("falcon",))):
        if kind in kinds and mine in extra:
            extra[theirs] = extra.pop(mine)
    if kind == "bitnet":
        extra.setdefault("tie_word_embeddings", True)
    c = transformers.AutoConfig.for_model(kind, **extra)
    with torch.device("meta"):
        m = transformers.AutoModelForCausalLM.from_config(c)
    return sum(p.numel() for p in m.parameters())


def main():
    out = {}
    for card in json.load(open(os.path.join(HERE, "..", "cards.json"))):
        name = card["names"][0]
        try:
            out[name] = count(card["config"])
        except Exception as e:
            print(f"left out: {name}: {type(e).__name__}: {str(e)[:120]}", file=sys.stderr)
    body = json.dumps(out, indent=0) + "\n"
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "counts.json")
    open(path, "w").write(body)
    print(f"{len(out)} counts by transformers {transformers.__version__}")


main()
