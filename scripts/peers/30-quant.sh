#!/usr/bin/env bash
# Makes the golden files of the storage formats again with the packages that their generators name, and compares them with the committed
# ones: gguf-py's, ggml's encoders compiled from the llama.cpp inside an npm package, and the layouts of quantised checkpoints, which need
# PyTorch. Works in .cache/peers. Needs npm, git and a C compiler. With the argument "gguf" it leaves PyTorch's out.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers
llama=$work/llama.cpp
npm=node-llama-cpp@3.21.1
differ=0

# venv NAME PACKAGE...: a virtual environment with these packages.
venv() {
	local dir=$work/$1
	shift
	[[ $(cat "$dir/packages" 2>/dev/null) == "$*" ]] && return
	"${PYTHON:-python3}" -m venv --clear "$dir"
	"$dir/bin/pip" install --quiet --disable-pip-version-check "$@"
	echo "$*" >"$dir/packages"
}

# again VENV FOLDER "FILE..." GENERATOR...: runs the generator in a copy of the folder that lacks the files.
again() {
	local python=$work/$1/bin/python folder=$2 files=$3 copy=$work/$2 file
	shift 3
	rm -rf "$copy"
	mkdir -p "$(dirname "$copy")"
	cp -R "$root/$folder" "$copy"
	for file in $files; do rm -f "$copy/$file"; done
	(cd "$copy" && "$python" "$@")
	for file in $files; do
		if "$python" - "$root/$folder/$file" "$copy/$file" <<-'EOF'
			import json, sys
			def parts(path):
			    raw = open(path, "rb").read()
			    if not path.endswith(".safetensors"):
			        return raw
			    n = 8 + int.from_bytes(raw[:8], "little")
			    return json.loads(raw[8:n]), raw[n:]  # the order of keys is that of a randomly seeded hash map
			sys.exit(parts(sys.argv[1]) != parts(sys.argv[2]))
		EOF
		then
			echo "same          $folder/$file"
		else
			echo "DIFFERS       $folder/$file"
			differ=1
		fi
	done
}

if [[ $(cat "$llama/package" 2>/dev/null) != "$npm" ]]; then
	rm -rf "$llama" "$work/npm"
	mkdir -p "$work/npm"
	(cd "$work/npm" && npm pack --silent "$npm" && tar xzf ./*.tgz && git -c advice.detachedHead=false clone --quiet package/llama/gitRelease.bundle "$llama")
	echo "$npm" >"$llama/package"
fi
venv gguf gguf==0.19.0 numpy==2.4.6 safetensors==0.8.0
again gguf model/gguf/testdata "little.gguf big.gguf" golden.py
again gguf tensor/quant/testdata golden.safetensors golden.py "$llama"
again gguf tensor/quant/testdata ../grid.go grids.py
if [[ ${1:-} != gguf ]]; then
	venv linear torch==2.15.0 numpy==2.4.6 safetensors==0.8.0 compressed-tensors==0.20.1 bitsandbytes==0.50.2
	again linear tensor/quant/testdata linear.safetensors linear.py
fi
exit "$differ"
