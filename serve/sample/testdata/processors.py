"""Writes processors.json: what transformers' logits processors make of rows of logits.

Made with transformers 5.24.0 and torch 2.15.0; seed 1. Usage: python processors.py > processors.json
A case has the row, the tokens before it, the settings, and the probabilities after all processors, those of tokens that are cut left out.
The order is that of package sample: bias, repetition penalty, temperature, min-p, top-k, typical, top-p.
"""

import json
import sys

import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

VOCAB = 48

SETTINGS = [
    {"temperature": 1.0},
    {"temperature": 0.3},
    {"temperature": 2.5},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.0, "top_k": 1000},
    {"temperature": 1.0, "top_p": 0.1},
    {"temperature": 1.0, "top_p": 0.5},
    {"temperature": 1.0, "top_p": 0.95},
    {"temperature": 1.0, "min_p": 0.02},
    {"temperature": 1.0, "min_p": 0.3},
    {"temperature": 1.0, "min_p": 1.0},
    {"temperature": 1.0, "typical_p": 0.1},
    {"temperature": 1.0, "typical_p": 0.5},
    {"temperature": 1.0, "typical_p": 0.95},
    {"temperature": 1.0, "repetition_penalty": 1.3},
    {"temperature": 1.0, "repetition_penalty": 0.7},
    {"temperature": 1.0, "bias": {"3": 2.5, "40": -7.0}},
    {"temperature": 0.7, "top_k": 20, "top_p": 0.9},
    {"temperature": 1.4, "min_p": 0.05, "top_k": 12},
    {"temperature": 0.8, "min_p": 0.01, "top_k": 30, "typical_p": 0.8, "top_p": 0.7},
    {"temperature": 1.2, "repetition_penalty": 1.1, "bias": {"7": 1.5}, "min_p": 0.02, "top_k": 25, "typical_p": 0.9, "top_p": 0.8},
]


def processors(s):
    if "bias" in s:
        yield SequenceBiasLogitsProcessor([[[int(t)], b] for t, b in s["bias"].items()])
    if "repetition_penalty" in s:
        yield RepetitionPenaltyLogitsProcessor(s["repetition_penalty"])
    yield TemperatureLogitsWarper(s["temperature"])
    if "min_p" in s:
        yield MinPLogitsWarper(s["min_p"])
    if "top_k" in s:
        yield TopKLogitsWarper(s["top_k"])
    if "typical_p" in s:
        yield TypicalLogitsWarper(s["typical_p"])
    if "top_p" in s:
        yield TopPLogitsWarper(s["top_p"])


def main():
    torch.manual_seed(1)
    cases = []
    for i, settings in enumerate(SETTINGS * 3):
        row = (torch.randn(1, VOCAB) * (1 + i % 3)).float()
        before = torch.randint(0, VOCAB, (1, 20))
        scores = row.clone()
        for p in processors(settings):
            scores = p(before, scores)
        probabilities = torch.softmax(scores.double(), -1)[0]
        cases.append(
            {
                "settings": settings,
                "logits": row[0].tolist(),
                "before": before[0].tolist(),
                "probabilities": {str(t): p for t, p in enumerate(probabilities.tolist()) if p > 0},
                "logprobs": torch.log_softmax(row.double(), -1)[0].tolist(),
            }
        )
    json.dump({"cases": cases}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
