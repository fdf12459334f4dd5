#!/usr/bin/env bash
# Continues the prompts of e2e/testdata/smollm2 with llama.cpp again and computes the text's perplexity, and compares both with the committed
# goldens, which tests hold loadline to. Works in .cache/peers/llamacpp; see llamacpp/build.sh for what it needs.
#
#   70-llamacpp.sh [--write]    --write rewrites the goldens
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
check=--check
[[ ${1:-} != --write ]] || check=
model=$("$root/scripts/models.sh")
bin=$("$root/scripts/peers/llamacpp/build.sh")
"${PYTHON:-python3}" "$root/e2e/testdata/smollm2/generate.py" $check "$model" "$bin" "$root/data/corpus/shakespeare.txt.gz"
