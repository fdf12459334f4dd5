#!/usr/bin/env bash
# Continues the prompts of e2e/testdata/smollm2 with llama.cpp again, some in the nine ways that must agree about them, and computes the text's
# perplexity, and compares all with the committed goldens, which tests hold loadline to. Works in .cache/peers, with gguf-py in an environment that
# 30-quant.sh uses too; see llamacpp/build.sh for what llama.cpp needs.
#
#   70-llamacpp.sh [--write]    --write rewrites the goldens
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv=$root/.cache/peers/gguf
packages="gguf==0.19.0 numpy==2.4.6 safetensors==0.8.0"
check=--check
[[ ${1:-} != --write ]] || check=
model=$("$root/scripts/models.sh")
bin=$("$root/scripts/peers/llamacpp/build.sh")
if [[ $(cat "$venv/packages" 2>/dev/null) != "$packages" ]]; then
	"${PYTHON:-python3}" -m venv --clear "$venv"
	# shellcheck disable=SC2086 # one word a package
	"$venv/bin/pip" install --quiet --disable-pip-version-check $packages
	echo "$packages" >"$venv/packages"
fi
"$venv/bin/python" "$root/e2e/testdata/smollm2/generate.py" $check "$model" "$bin" "$root/data/corpus/shakespeare.txt.gz"
# shellcheck disable=SC2086 # none or one
"$venv/bin/python" -B "$root/e2e/testdata/smollm2/determined.py" $check "$model" "$bin"
