#!/usr/bin/env bash
# Files that `loadline convert` writes, read by llama.cpp: SmolLM2 as it is, in F16 and in Q8_0, as GGUF, and back from a directory of safetensors. Each must continue
# the prompts of e2e/testdata/smollm2 as the file that it was made from, up to near ties. Works in .cache/peers/llamacpp.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers/llamacpp
model=$("$root/scripts/models.sh")
bin=$("$root/scripts/peers/llamacpp/build.sh")
out=$work/files
(cd "$root" && CGO_ENABLED=0 go build -o "$work/loadline" ./cmd/loadline)
rm -rf "$out"
mkdir -p "$out"

convert() { "$work/loadline" convert --quiet "$@" >/dev/null; }
convert "$model" "$out/same.gguf" --to gguf
convert "$model" "$out/f16.gguf" --to gguf --type f16
convert "$model" "$out/q8_0.gguf" --to gguf --type q8_0
convert "$model" "$out/directory" --to safetensors --type f16
convert "$out/directory" "$out/back.gguf" --to gguf

differ=0
for file in same f16 q8_0 back; do
	echo "$file"
	"${PYTHON:-python3}" "$root/e2e/testdata/smollm2/generate.py" --file "$out/$file.gguf" "$bin" || differ=1
done
rm -rf "$out"
exit "$differ"
