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
golden=${GOLDEN_VENV:-$root/.cache/golden-venv}
venv=$root/.cache/peers/files
packages="gguf==0.19.0 tqdm pyyaml requests accelerate==1.15.0"
out=$work/files

if [[ ! -x $golden/bin/python ]]; then
	echo "no environment with torch at $golden: run model/testdata/golden/regenerate.sh, or name one with GOLDEN_VENV" >&2
	exit 1
fi
model=$("$root/scripts/models.sh")
bin=$("$here/llamacpp/build.sh")
if [[ $(cat "$venv/packages" 2>/dev/null) != "$packages" ]]; then
	"$golden/bin/python" -m venv --clear "$venv"
	ls -d "$golden"/lib/python*/site-packages >"$(ls -d "$venv"/lib/python*/site-packages)/golden.pth" # torch is 5 GB
	# shellcheck disable=SC2086 # one word a package
	"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps $packages psutil
	echo "$packages" >"$venv/packages"
fi
(cd "$root" && CGO_ENABLED=0 go build -o "$work/loadline" ./cmd/loadline)
rm -rf "$out"
mkdir -p "$out"
trap 'rm -rf "$out"' EXIT
TQDM_DISABLE=1 "$venv/bin/python" "$here/73_files.py" "$work/loadline" "$model" "$bin" "$out" "$root/e2e/testdata/smollm2" "$@"
