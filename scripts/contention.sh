#!/usr/bin/env bash
# What a training step loses when other processes want cores: alone, beside one and beside two busy processes by turns, in rounds, so that
# what else the machine does falls on all alike. A row is the median of its rounds; the second number is how many times as long its steps
# take. A fair share of two cores is 1.5 beside one busy process and 2 beside two. The last row has both threads on one core, against one
# thread there: what it has above 1 is waiting that burns the core which the work needs.
#
#   contention.sh [LOADLINE [ROUNDS [STEPS [PRESET]]]]    LOADLINE: the binary (default: built into .cache/bench)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${1:-}
rounds=${2:-3} steps=${3:-6} preset=${4:-bench-20m}
if [[ -z $bin ]]; then
	bin=$root/.cache/bench/loadline
	(cd "$root" && CGO_ENABLED=0 go build -o "$bin" ./cmd/loadline)
fi

busy=()
quiet() {
	[[ ${#busy[@]} -eq 0 ]] || kill "${busy[@]}" 2>/dev/null || true
	busy=()
}
trap quiet EXIT

# step prints the tokens a second of steps beside $1 busy processes, with $2 threads; $3... is put before the command.
step() {
	local others=$1 threads=$2
	shift 2
	for ((i = 0; i < others; i++)); do
		(trap - EXIT; while :; do :; done) &
		busy+=($!)
	done
	"$@" "$bin" bench train --preset "$preset" --threads "$threads" --steps "$steps" --json --quiet 2>/dev/null |
		sed -n 's/.*"tokens_per_second": *\([0-9.e+-]*\).*/\1/p' | head -1
	quiet
}

median() { sort -g | awk '{x[NR] = $1} END {print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2}'; }

one=()
if command -v taskset >/dev/null; then
	one=(env GOMAXPROCS=2 taskset -c 0)
fi
declare -A speeds=()
for ((r = 0; r < rounds; r++)); do
	for others in 0 1 2; do
		speeds[$others]+="$(step "$others" 2) "
	done
	speeds[single]+="$(step 0 1 "${one[@]}") "
	[[ ${#one[@]} -eq 0 ]] || speeds[shared]+="$(step 0 2 "${one[@]}") "
done
row() { # name, key, key to compare with
	local mine base
	mine=$(tr ' ' '\n' <<<"${speeds[$2]% }" | median)
	base=$(tr ' ' '\n' <<<"${speeds[$3]% }" | median)
	awk -v n="$1" -v a="$mine" -v b="$base" 'BEGIN {printf "%-28s %10.1f  %9.2f\n", n, a, b / a}'
}
echo "$preset, 2 threads, $(nproc) cores, median of $rounds rounds of $steps steps"
printf '%-28s %10s  %9s\n' "" tokens/s "× as long"
row "alone" 0 0
row "beside one busy process" 1 0
row "beside two busy processes" 2 0
row "1 thread on one core" single single
[[ ${#one[@]} -eq 0 ]] || row "2 threads on one core" shared single
