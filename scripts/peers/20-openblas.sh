#!/usr/bin/env bash
# Prints the speeds of the matrix products as ratios to OpenBLAS's sgemm, both sides in one run, with the OpenBLAS of
# the Python wheel named here. The set avx2 is compared with the kernels that OpenBLAS has for a CPU without
# AVX-512, the others with those that it chooses by itself. Works in .cache/peers. Arguments go to the program.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers
package=scipy-openblas32==0.3.34.481.3

if [[ $(cat "$work/openblas/package" 2>/dev/null) != "$package" ]]; then
	rm -rf "$work/openblas"
	"${PYTHON:-python3}" -m venv --clear "$work/openblas/venv"
	"$work/openblas/venv/bin/pip" install --quiet --disable-pip-version-check "$package"
	echo "$package" >"$work/openblas/package"
fi
lib=$(find "$work/openblas/venv" -name 'libscipy_openblas*.so' | head -n 1)

(cd "$root/tensor/kernel/peer" && CGO_ENABLED=0 go build -o "$work/openblas/peer" .)
unset OPENBLAS_CORETYPE
export OPENBLAS_THREAD_TIMEOUT=20 # its threads spin for 2²⁰ cycles after a call, not 2²⁸: the sides can take short turns
if grep -qw avx512f /proc/cpuinfo; then
	OPENBLAS_CORETYPE=Haswell "$work/openblas/peer" -lib "$lib" -prefix scipy_ -sets avx2 "$@"
	"$work/openblas/peer" -lib "$lib" -prefix scipy_ -sets avx512,avx512bf16,avx512amx,avx512amx-parts "$@"
else
	"$work/openblas/peer" -lib "$lib" -prefix scipy_ "$@"
fi
