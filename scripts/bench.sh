#!/usr/bin/env bash
# Writes BENCHMARKS.md from measurements made here and now. Wants a quiet machine, and takes half an hour for everything; a section
# that is not asked for is kept from the last time.
#
#   bench.sh [SECTION...]    of: products kernels steps recompute cost contention
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/.cache/bench
mkdir -p "$out"
sections=("$@")
[[ $# -gt 0 ]] || sections=(products kernels steps recompute cost contention)
(cd "$root" && CGO_ENABLED=0 go build -o "$out/loadline" ./cmd/loadline)

# fenced prints what a command says as preformatted text.
fenced() { printf '```\n'; "$@"; printf '```\n'; }

products() {
	printf '## Matrix products beside OpenBLAS\n\n`scripts/peers/20-openblas.sh`: ratios of speeds, above 1 is faster than OpenBLAS; median of rounds (best against best).\n\n'
	fenced "$root/scripts/peers/20-openblas.sh"
}
kernels() {
	printf '## Operations\n\n`loadline bench kernels`, %s threads at most. Attention counts the products of the lower triangle. Rows "in parts" are what a step that trains gets on AMX.\n\n' "$(nproc)"
	fenced "$out/loadline" bench kernels --quiet
}
steps() {
	printf '## Training steps beside PyTorch\n\n`scripts/peers/30-pytorch.sh 5 3 bench-20m`, then `3 2 bench-90m`. '
	"$root/scripts/peers/30-pytorch.sh" 5 3 bench-20m
	printf '\n'
	"$root/scripts/peers/30-pytorch.sh" 3 2 bench-90m
}
recompute() {
	printf '## Recompute\n\n`loadline bench recompute --repeat 8`: saved activations and step time against keeping everything; a step is the sum, over instructions, of the least of their times.\n\n'
	fenced "$out/loadline" bench recompute --repeat 8 --quiet
}
cost() {
	printf '## The modelled step\n\n`loadline bench cost --passes 8`: the modelled time of a step against the measured one.\n\n'
	fenced "$out/loadline" bench cost --passes 8 --quiet
}
contention() {
	printf '## With another process on a core\n\n`scripts/contention.sh LOADLINE 2 4`\n\n'
	fenced "$root/scripts/contention.sh" "$out/loadline" 2 4
}

for s in "${sections[@]}"; do
	"$s" >"$out/$s.part"
	mv "$out/$s.part" "$out/$s.md"
	date -u +%F >"$out/$s.date"
done

{
	printf '# Benchmarks\n\nPut together by `scripts/bench.sh`, each section with the command that measured it; run it on your own machine. Every ratio is of two sides in one run. [docs/benchmarks-amx.md](docs/benchmarks-amx.md) has the same of a machine with AMX.\n\nMachine: %s, %s threads, %s, %s.\n' \
		"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(go version | cut -d' ' -f3)" "$(uname -sm)"
	for s in products kernels steps recompute cost contention; do
		if [[ -s $out/$s.md ]]; then
			printf '\n'
			cat "$out/$s.md"
		fi
	done
} >"$root/BENCHMARKS.md"
