#!/usr/bin/env bash
# Training steps beside PyTorch's, in one run, sides in turn: ratios of speed and of peak memory, each the median of the rounds. PyTorch's
# side is its faster of eager and torch.compile. Works in .cache/peers. Needs python3 and, for torch.compile, a C++ compiler.
#
#   30-pytorch.sh [ROUNDS [STEPS [PRESET...]]]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/scripts/peers
work=$root/.cache/peers/pytorch
rounds=${1:-3}
steps=${2:-8}
shift $(($# < 2 ? $# : 2))
presets=("${@:-bench-20m}")
threads=$(nproc)

if ! cmp -s "$here/pytorch_requirements.txt" "$work/installed"; then
	rm -rf "$work"
	mkdir -p "$work"
	"${PYTHON:-python3}" -m venv "$work/venv"
	"$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/pytorch_requirements.txt"
	cp "$here/pytorch_requirements.txt" "$work/installed"
fi
(cd "$root" && CGO_ENABLED=0 go build -o "$work/loadline" ./cmd/loadline)

rm -f "$work"/*.jsonl
for preset in "${presets[@]}"; do
	for precision in fp32 bf16; do
		for _ in $(seq "$rounds"); do
			"$work/loadline" bench train --preset "$preset" --precision "$precision" --threads "$threads" --steps "$steps" --json --quiet 2>/dev/null >>"$work/$preset-$precision-loadline.jsonl"
			for mode in eager compile; do
				"$work/venv/bin/python" "$here/pytorch_step.py" "$preset" "$precision" "$mode" "$threads" "$steps" >>"$work/$preset-$precision-$mode.jsonl"
			done
		done
	done
done
"$work/venv/bin/python" "$here/pytorch_report.py" "$work" "${presets[@]}"
