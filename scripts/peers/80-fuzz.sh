#!/usr/bin/env bash
# Fuzzes the parsers of files that are not trusted: scripts/peers/80-fuzz.sh [MINUTES [TARGET...]]. MINUTES, 10 unless said otherwise, is for
# each of the five kinds (gguf, safetensors, tokenizer, config, template) and is shared by the targets of a kind. TARGET is a kind or the name
# of a target. FUZZ_PARALLEL is the number of workers, as many as cores if unset. Prints a table, and exits 1 where something was found: the
# input lies in testdata/fuzz of its package, where go test runs it from then on; and where a target had no time to try anything new.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers/fuzz
minutes=${1:-10}
shift || true
workers=${FUZZ_PARALLEL:-$(getconf _NPROCESSORS_ONLN)}
targets=(
	"gguf ./model/gguf FuzzGGUF"
	"gguf ./model/tokenizer FuzzGGUFVocabulary"
	"gguf ./model/weights FuzzOpen"
	"safetensors ./model/safetensors FuzzSafetensors"
	"safetensors ./model/safetensors FuzzIndex"
	"tokenizer ./model/tokenizer FuzzTokenizerJSON"
	"tokenizer ./model/tokenizer FuzzSentencePiece"
	"config ./model FuzzDecodeConfig"
	"template ./serve/chat FuzzTemplate"
)
if [[ ! $minutes =~ ^[0-9]+$ || $minutes == 0 ]]; then
	echo "80-fuzz.sh: MINUTES $minutes, want a whole number from 1" >&2
	exit 2
fi
for want in "$@"; do
	if [[ $want == ./* || " ${targets[*]} " != *" $want "* ]]; then
		echo "80-fuzz.sh: no target $want, want one of: ${targets[*]}" >&2
		exit 2
	fi
done

# chosen KIND NAME: whether a target is asked for.
chosen() {
	((${#asked[@]} == 0)) && return 0
	local want
	for want in "${asked[@]}"; do [[ $want == "$1" || $want == "$2" ]] && return 0; done
	return 1
}

asked=("$@")
mkdir -p "$work"
found=0
rows=()
cd "$root"
for row in "${targets[@]}"; do
	read -r kind dir name <<<"$row"
	chosen "$kind" "$name" || continue
	share=0
	for other in "${targets[@]}"; do
		read -r k _ n <<<"$other"
		if [[ $k == "$kind" ]] && chosen "$k" "$n"; then share=$((share + 1)); fi
	done
	seconds=$((minutes * 60 / share))
	log=$work/$name.log
	result=nothing
	CGO_ENABLED=0 go test -run '^$' -fuzz "^$name\$" -fuzztime "${seconds}s" -fuzzminimizetime 10s -parallel "$workers" "$dir" >"$log" 2>&1 || result=FOUND
	if [[ $result == FOUND ]]; then
		found=1
		tail -40 "$log"
	fi
	if [[ $result == nothing ]] && ! grep -aq 'execs: [1-9]' "$log"; then
		result="NOT BEGUN: the inputs that are kept took all of the time"
		found=1
	fi
	last=$(grep -ao 'execs: [0-9]*.*' "$log" | tail -1 || true)
	execs=$(sed -n 's/^execs: \([0-9]*\).*/\1/p' <<<"$last")
	new=$(sed -n 's/.*new interesting: \([0-9]*\).*/\1/p' <<<"$last")
	total=$(sed -n 's/.*(total: \([0-9]*\)).*/\1/p' <<<"$last")
	rows+=("$(printf '%-12s %-20s %8d %12s %8s %8s  %s' "$kind" "$name" "$seconds" "${execs:-0}" "${new:-0}" "${total:-0}" "$result")")
	printf '%s\n' "${rows[-1]}"
done
printf '\n%-12s %-20s %8s %12s %8s %8s  %s\n' kind target seconds executions new inputs found
printf '%s\n' "${rows[@]}"
exit "$found"
