#!/usr/bin/env bash
# Builds llama.cpp for the machine at hand, its native flags on, from the source inside an npm package, and the program greedy.cpp against it. Works in
# .cache/peers/llamacpp and prints the folder of the programs. Needs npm, git, cmake and a C++ compiler; half an hour of one core, once.
#
#   build.sh [TARGET...]    of llama.cpp; default: llama-bench llama-perplexity llama-quantize
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(cd "$here/../../.." && pwd)/.cache/peers/llamacpp
npm=node-llama-cpp@3.21.1
[[ $# -gt 0 ]] || set -- llama-bench llama-perplexity llama-quantize

if [[ $(cat "$work/package" 2>/dev/null) != "$npm" ]]; then
	rm -rf "$work"
	mkdir -p "$work/npm"
	(cd "$work/npm" && tar xzf "$(npm pack --silent "$npm" 2>/dev/null | tail -n 1)")
	git -c advice.detachedHead=false clone --quiet "$work/npm/package/llama/gitRelease.bundle" "$work/source"
	rm -rf "$work/npm"
	echo "$npm" >"$work/package"
fi
cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
	-DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF >"$work/cmake.log"
make() { nice -n 15 cmake --build "$work/build" --parallel "${JOBS:-1}" --target "$1" >>"$work/build.log" 2>&1 || { tail -n 20 "$work/build.log" >&2; exit 1; }; }

bin=$work/build/bin
make llama
if [[ ! $bin/greedy -nt $here/greedy.cpp || ! $bin/greedy -nt $bin/libllama.so ]]; then
	"${CXX:-g++}" -O2 -std=c++17 -o "$bin/greedy" "$here/greedy.cpp" -I "$work/source/include" -I "$work/source/ggml/include" \
		-L "$bin" -lllama -lggml -lggml-base -Wl,-rpath,"$bin" -Wl,-rpath-link,"$bin"
fi
for target; do make "$target"; done
echo "$bin"
