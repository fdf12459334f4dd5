#!/usr/bin/env bash
# Training steps beside PyTorch's, in one run, sides in turn: ratios of speed and of peak memory, each the median of the turns. PyTorch's
# side is its faster of eager and torch.compile. Works in .cache/peers. Needs python3, a C compiler and, for torch.compile, one of C++.
#
#   30-pytorch.sh [TURNS [STEPS [PRESET...]]]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/scripts/peers
work=$root/.cache/peers/pytorch
turns=${1:-9}
steps=${2:-3}
shift $(($# < 2 ? $# : 2))
presets=("${@:-bench-20m}")

if ! cmp -s "$here/pytorch_requirements.txt" "$work/installed"; then
	rm -rf "$work"
	mkdir -p "$work"
	"${PYTHON:-python3}" -m venv "$work/venv"
	"$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/pytorch_requirements.txt"
	cp "$here/pytorch_requirements.txt" "$work/installed"
fi
(cd "$root" && CGO_ENABLED=0 go build -o "$work/loadline" ./cmd/loadline)

"${CC:-cc}" -O2 -march=native -pthread -o "$work/fma_peak" "$here/fma_peak.c"
"$work/venv/bin/python" "$here/pytorch_turns.py" "$work/loadline" "$work/fma_peak" "$(nproc)" "$turns" "$steps" "${presets[@]}"
