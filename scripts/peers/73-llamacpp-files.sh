#!/usr/bin/env bash
# Files that `loadline convert` and `loadline train` write of SmolLM2, read by llama.cpp and by transformers: each must continue prompts of e2e/testdata/smollm2
# as we do with the same file. 73_files.py says what is compared. Works in .cache/peers/llamacpp, with torch and transformers of model/testdata/golden's environment
# (GOLDEN_VENV). Takes minutes and 5 GB of disk.
#
#   73-llamacpp-files.sh [TOKENS [PART...]]    64 tokens and all parts, as 73_files.py has them
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$root/.cache/peers/llamacpp
out=$work/files

python=$("$here/transformers/venv.sh")
model=$("$root/scripts/models.sh")
bin=$("$here/llamacpp/build.sh")
(cd "$root" && CGO_ENABLED=0 go build -o "$work/loadline" ./cmd/loadline)
rm -rf "$out"
mkdir -p "$out"
trap 'rm -rf "$out"' EXIT
TQDM_DISABLE=1 "$python" "$here/73_files.py" "$work/loadline" "$model" "$bin" "$out" "$root/e2e/testdata/smollm2" "$@"
