#!/usr/bin/env bash
# Where the time of a training step goes: the shares of kernels (tensor/kernel, assembly and Go), of what device/cpu does itself, of copies,
# of waiting for other threads, and of the Go runtime; then the functions that take most.
#
#   pprof-share.sh [PROFILE]    of loadline bench train --cpuprofile PROFILE (default: one of bench-20m, made here, and $STEPS steps)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
profile=${1:-}
if [[ -z $profile ]]; then
	out=$root/.cache/bench
	mkdir -p "$out"
	(cd "$root" && CGO_ENABLED=0 go build -o "$out/loadline" ./cmd/loadline)
	profile=$out/step.prof
	"$out/loadline" bench train --preset bench-20m --steps "${STEPS:-8}" --cpuprofile "$profile" --quiet >/dev/null
fi

go tool pprof -top -flat -nodecount=100000 -nodefraction=0 -unit=ms "$profile" 2>/dev/null | awk '
/flat%/ {begun = 1; next}
!begun {next}
{
	ms = $1 + 0
	name = $6
	for (i = 7; i <= NF; i++) name = name " " $i
	if (name ~ /^loadline\/tensor\/kernel[.]/) kind = "tensor/kernel"
	else if (name ~ /^loadline\/tensor\/dtype[.]/) kind = "casts of tensor/dtype"
	else if (name ~ /^loadline\/device\/cpu[.]/) kind = "device/cpu"
	else if (name ~ /^loadline\/internal\/par[.]/) kind = "waiting in internal/par"
	else if (name ~ /^runtime[.]mem(move|clr|equal)/) kind = "copies and clears"
	else if (name ~ /^(runtime|internal\/runtime|sync|syscall|internal)/) kind = "Go runtime"
	else kind = "everything else"
	sum[kind] += ms
	total += ms
	if (ms == 0) next
	if (kind != "tensor/kernel" && listed < 15) {
		part[++listed] = ms
		names[listed] = name
	}
	if (kind == "tensor/kernel" && kernels < 15) {
		kpart[++kernels] = ms
		knames[kernels] = name
	}
}
END {
	if (total == 0) {print "no samples" > "/dev/stderr"; exit 1}
	for (k in sum) printf "%6.2f%%  %s\n", 100 * sum[k] / total, k | "sort -rn"
	close("sort -rn")
	print "kernels that take most:"
	for (i = 1; i <= kernels; i++) printf "%6.2f%%  %s\n", 100 * kpart[i] / total, knames[i]
	print "and what else does:"
	for (i = 1; i <= listed; i++) printf "%6.2f%%  %s\n", 100 * part[i] / total, names[i]
}'
