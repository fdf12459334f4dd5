"""Writes golden.json and trained.json from sample.txt with the Python package tokenizers.

    pip install tokenizers==0.23.3 && python golden.py

golden.json holds what the library's own trainer learns from sample.txt, and how it encodes some awkward texts;
trained.json is the file the library saves.
"""
import json
import os
import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = 640
EOT = "<|endoftext|>"


def main():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        min_frequency=2,
        show_progress=False,
        special_tokens=[EOT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    with open(os.path.join(HERE, "sample.txt"), encoding="utf-8", newline="") as f:
        text = f.read()
    tok.train_from_iterator([text], trainer)
    tok.save(os.path.join(HERE, "trained.json"), pretty=False)

    cases = [
        "", " ", "  ", "\n", " \n ", "a", "'", "'s", "it's we're I'VE you'll'd'", "x  y   z    ",
        "tabs\t\tand\r\nlines\n\n\nend", "1234 5a6 ½ ² Ⅻ ٣", "naïve café déjà", "日本語 のテキスト。", "Ελληνικά и русский",
        "emoji 👩‍👩‍👧 🇯🇵 ok", "nbsp\u00a0\u2003wide \u3000x", "\u0085\u2028\u200b|", "e\u0301 combining", "\x00\x01\x7f",
        EOT, "a" + EOT + "b", "a " + EOT + " b", "  " + EOT + EOT, "<|endoftext", "<<|endoftext|>>", "a" * 300, " " * 200 + "x",
        "-" * 150, "To be, or not to be, that is the question:--", text[:2000],
    ]
    rng = random.Random(7)
    pool = list(" \n\t'sdtremvl.,!?-09aZé日½\u00a0\u3000\u200d<|>👩") + ["'ll", "  ", EOT]
    for _ in range(300):
        cases.append("".join(rng.choice(pool) for _ in range(rng.randrange(1, 40))))
    model = json.loads(tok.to_str())["model"]
    golden = {
        "vocab_size": VOCAB,
        "merges": model["merges"],
        "cases": [{"text": c, "ids": tok.encode(c).ids} for c in cases],
    }
    with open(os.path.join(HERE, "golden.json"), "w") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")


main()
