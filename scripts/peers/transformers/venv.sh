#!/usr/bin/env bash
# Makes an environment of Python in which transformers reads GGUF files: gguf-py beside torch and transformers of model/testdata/golden's
# (GOLDEN_VENV). Prints its python's path.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
golden=${GOLDEN_VENV:-$root/.cache/golden-venv}
venv=$root/.cache/peers/files
packages="gguf==0.19.0 tqdm pyyaml requests accelerate==1.15.0"

if [[ ! -x $golden/bin/python ]]; then
	echo "no environment with torch at $golden: run model/testdata/golden/regenerate.sh, or name one with GOLDEN_VENV" >&2
	exit 1
fi
if [[ $(cat "$venv/packages" 2>/dev/null) != "$packages" ]]; then
	"$golden/bin/python" -m venv --clear "$venv"
	ls -d "$golden"/lib/python*/site-packages >"$(ls -d "$venv"/lib/python*/site-packages)/golden.pth" # torch is 5 GB
	# shellcheck disable=SC2086 # one word a package
	"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps $packages psutil
	echo "$packages" >"$venv/packages"
fi
echo "$venv/bin/python"
