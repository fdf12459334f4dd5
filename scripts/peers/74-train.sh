#!/usr/bin/env bash
# Training from the weights of SmolLM2 beside transformers and PyTorch: losses and gradient norms of every step, and what is written. 74_train.py says what is
# compared. Then the goldens of e2e/testdata/smollm2/train.py are computed again and compared. Works in .cache/peers/train, with torch and transformers of
# model/testdata/golden's environment (GOLDEN_VENV). Takes minutes, 3 GB of memory and 3 GB of disk.
#
#   74-train.sh [--write | PART...]    --write rewrites the goldens and does nothing else; parts are those of 74_train.py, all unless named
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
goldens=$root/e2e/testdata/smollm2
text=$root/data/corpus/shakespeare.txt.gz
work=$root/.cache/peers/train
out=$work/out
export TQDM_DISABLE=1 PYTHONDONTWRITEBYTECODE=1

python=$("$here/transformers/venv.sh")
model=$("$root/scripts/models.sh")
if [[ ${1:-} == --write ]]; then
	exec "$python" "$goldens/train.py" "$model" "$text"
fi
rm -rf "$out"
mkdir -p "$out"
trap 'rm -rf "$out"' EXIT
(cd "$root" && CGO_ENABLED=0 go build -o "$work/loadline" ./cmd/loadline)
"$python" "$here/74_train.py" "$work/loadline" "$model" "$out" "$goldens" "$@"
[[ $# -gt 0 ]] || "$python" "$goldens/train.py" --check "$model" "$text"
