#!/usr/bin/env bash
# Makes train/testdata/scaler.json again, with torch's GradScaler and DeepSpeed's DynamicLossScaler, and compares it with the committed one,
# byte for byte. Uses the virtual environment of the golden data, which `make peers` makes first, and DeepSpeed's source from PyPI.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers/scaler
python=$root/.cache/golden-venv/bin/python
archive=deepspeed-0.19.8.tar.gz

mkdir -p "$work"
if [[ ! -e $work/$archive ]]; then
	"$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-binary :all: -d "$work" deepspeed==0.19.8
fi
cp "$root/train/testdata/scaler.py" "$work"
(cd "$work" && "$python" scaler.py "$archive")
if cmp -s "$work/scaler.json" "$root/train/testdata/scaler.json"; then
	echo "same          train/testdata/scaler.json"
else
	echo "DIFFERS       train/testdata/scaler.json"
	exit 1
fi
