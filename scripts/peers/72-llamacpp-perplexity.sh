#!/usr/bin/env bash
# The perplexity of the whole text of e2e/testdata/smollm2/perplexity.json, 64k tokens, by `loadline eval` beside the committed one of llama.cpp; tests take the
# beginning. Fails above 0.3%. Takes minutes.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers/llamacpp
golden=$root/e2e/testdata/smollm2/perplexity.json
model=$("$root/scripts/models.sh")
mkdir -p "$work"
(cd "$root" && CGO_ENABLED=0 go build -o "$work/loadline" ./cmd/loadline)

# number NAME: reads JSON and prints the number of that name.
number() { tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\([-+.0-9eE]*\).*/\1/p" | head -n 1; }

gzip -dc "$root/data/corpus/shakespeare.txt.gz" | head -c "$(number bytes <"$golden")" >"$work/text.txt" || [[ -s $work/text.txt ]]
"$work/loadline" eval --perplexity --model "$model" --data "$work/text.txt" --context "$(number context <"$golden")" --json --quiet >"$work/perplexity.json"
awk -v ours="$(number perplexity <"$work/perplexity.json")" -v theirs="$(number perplexity <"$golden")" -v tokens="$(number tokens <"$work/perplexity.json")" \
	-v want="$(number tokens <"$golden")" 'BEGIN {
	off = 100 * (ours / theirs - 1)
	printf "perplexity %.4f over %d tokens, llama.cpp %.4f over %d: %+.3f%%\n", ours, tokens, theirs, want, off
	exit tokens != want || off > 0.3 || off < -0.3
}'
