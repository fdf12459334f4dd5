#!/usr/bin/env bash
# Prompt and generation speed and peak memory beside llama.cpp's, same file and threads, sides in turn in one run: pp512 and tg128 with 1 and 2
# threads, in Q4_0, Q4_K_M, Q8_0 and F16, of SmolLM2-135M and of a model of TinyLlama-1.1B's shape with random weights. llama.cpp is
# built for this machine and loads with `-lm none`, which holds the weights in its own memory as loadline does. Works in .cache/peers/llamacpp,
# where it keeps 6 GB of models. Wants a quiet machine, and takes an hour for everything.
#
#   71-llamacpp-speed.sh [TURNS [SHAPE-TYPE...]]    e.g. 5 135m-q4_0 1.1b-f16; TURNS 0 makes the files and measures nothing
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/scripts/peers/llamacpp
work=$root/.cache/peers/llamacpp
types=(q4_0 q4_k_m q8_0 f16)
turns=${1:-3}
shift $(($# < 1 ? $# : 1))
rows=("$@")
if [[ $# -eq 0 ]]; then
	for shape in 135m 1.1b; do rows+=("${types[@]/#/$shape-}"); done
fi

smollm2=$("$root/scripts/models.sh")
bin=$("$here/build.sh")
models=$work/models
mkdir -p "$models"
if [[ $(cat "$work/venv/packages" 2>/dev/null) != "gguf==0.19.0" ]]; then
	"${PYTHON:-python3}" -m venv --clear "$work/venv"
	"$work/venv/bin/pip" install --quiet --disable-pip-version-check gguf==0.19.0
	echo "gguf==0.19.0" >"$work/venv/packages"
fi

# into FILE COMMAND...: runs the command with a name that becomes FILE when it succeeds.
into() {
	local file=$1
	shift
	[[ ! -e $file ]] || return 0
	"$@" "$file.tmp" >"$work/files.log" 2>&1 || { tail -n 5 "$work/files.log" >&2; exit 1; }
	mv "$file.tmp" "$file"
}
quantize() { "$bin/llama-quantize" --allow-requantize "$1" "$3" "$2" "$(nproc)"; }

files=()
for row in "${rows[@]}"; do
	shape=${row%%-*} type=${row#*-}
	if [[ $shape == 135m ]]; then
		into "$models/135m-f16.gguf" quantize "$smollm2" F16
	else
		into "$models/1.1b-f16.gguf" "$work/venv/bin/python" "$here/shapes.py" "$smollm2"
	fi
	into "$models/$row.gguf" quantize "$models/$shape-f16.gguf" "$(tr '[:lower:]' '[:upper:]' <<<"$type")"
	files+=("$models/$row.gguf")
done
[[ $turns -gt 0 ]] || exit 0

(cd "$root" && CGO_ENABLED=0 go build -o "$work/loadline" ./cmd/loadline)
"${PYTHON:-python3}" "$here/turns.py" "$work/loadline" "$bin/llama-bench" "$turns" "${files[@]}"
