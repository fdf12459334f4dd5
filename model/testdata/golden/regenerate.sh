#!/usr/bin/env bash
# Makes a virtual environment with the pinned peers and runs the golden generator in it.
#
#   regenerate.sh [VENV]          rewrite the committed files
#   regenerate.sh --check [VENV]  generate into VENV/golden and compare with the committed files
#
# VENV defaults to .cache/golden-venv under the repository root. About 5 GB of disk and some minutes of computing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)

check=
if [[ ${1:-} == --check ]]; then
	check=1
	shift
fi
venv=${1:-$root/.cache/golden-venv}

if ! cmp -s "$here/requirements.txt" "$venv/requirements.installed"; then
	"${PYTHON:-python3}" -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$venv/requirements.installed"
fi

if [[ -n $check ]]; then
	exec "$venv/bin/python" "$here/generate.py" --check --out "$venv/golden"
fi
exec "$venv/bin/python" "$here/generate.py"
