#!/usr/bin/env bash
# Makes llama.cpp's programs, and greedy.cpp, in .cache/peers/llamacpp and prints their folder. Everything that computes (ggml) is built for the machine at hand
# with its native flags, from the source inside the npm package node-llama-cpp; what reads files and builds graphs (libllama, llama-common), half an hour of
# compiling without a kernel in it, is of the same version from that package's build for Linux on x86-64. greedy comes with that package's kernels too, in
# kernels/NAME. Needs npm, git, cmake and a C++ compiler.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(cd "$here/../../.." && pwd)/.cache/peers/llamacpp
version=3.21.1
packages="node-llama-cpp@$version @node-llama-cpp/linux-x64@$version"

if [[ $(uname -sm) != "Linux x86_64" ]]; then
	echo "llama.cpp beside loadline: want Linux on x86-64, this is $(uname -sm)" >&2
	exit 1
fi
if [[ $(cat "$work/packages" 2>/dev/null) != "$packages" ]]; then
	rm -rf "$work"
	for package in $packages; do
		mkdir -p "$work/npm/$package"
		(cd "$work/npm/$package" && tar xzf "$(npm pack --silent "$package" 2>/dev/null | tail -n 1)")
	done
	git -c advice.detachedHead=false clone --quiet "$work/npm/node-llama-cpp@$version/package/llama/gitRelease.bundle" "$work/source"
	mv "$work/npm/@node-llama-cpp/linux-x64@$version/package/bins/linux-x64" "$work/made"
	rm -rf "$work/npm"
	echo "$packages" >"$work/packages"
fi

# GCC 12 takes _tile_loadconfig to read 8 bytes of its 64 and leaves the others out: then AMX ends in an illegal instruction.
amx=$work/source/ggml/src/ggml-cpu/amx/mmq.cpp
if ! grep -q 'asm volatile("" : : "m"(tc))' "$amx"; then
	sed -i 's/^    _tile_loadconfig(&tc);/    asm volatile("" : : "m"(tc));\n&/' "$amx"
fi

# quietly COMMAND...: nothing but the end of what it says when it fails.
quietly() { nice -n 15 "$@" >>"$work/build.log" 2>&1 || { tail -n 20 "$work/build.log" >&2; exit 1; }; }
source=$work/source bin=$work/build/bin
quietly cmake -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF \
	-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF
quietly cmake --build "$work/build" --parallel "${JOBS:-1}" --target ggml

# The made libraries look for ggml under other names, in their own folder.
cp -p "$work"/made/libllama*.so "$bin"
ln -sf libggml.so "$bin/libggml.v0.4.0.so"

# program NAME SOURCE...: compiles a program, if it is not newer than all that it is made of.
program() {
	local name=$1 of
	shift
	for of in "$@" "$bin/libllama.v0.4.0.so" "$bin/libggml.so"; do
		if [[ ! -e $bin/$name || $of -nt $bin/$name ]]; then
			quietly "${CXX:-g++}" -O2 -DNDEBUG -std=c++17 -pthread -o "$bin/$name" "$@" -I "$source/include" -I "$source/ggml/include" -I "$source/common" -I "$source/vendor" \
				-L "$bin" -l:libllama-common.so -l:libllama.v0.4.0.so -lggml -lggml-base -Wl,-rpath,"\$ORIGIN" -Wl,-rpath-link,"$bin"
			return
		fi
	done
}
program greedy "$here/greedy.cpp"

# The package's own kernels, for AVX2 and for any x86-64: a program takes those that are in its folder.
for kernels in haswell x64; do
	mkdir -p "$bin/kernels/$kernels"
	cp -p "$bin/greedy" "$bin/kernels/$kernels"
	for library in libggml-base libggml.v0.4.0 libllama.v0.4.0 "libggml-cpu-$kernels"; do
		ln -sf "$work/made/$library.so" "$bin/kernels/$kernels"
	done
	ln -sf libggml.v0.4.0.so "$bin/kernels/$kernels/libggml.so.0"
done
for tool in llama-bench perplexity quantize; do
	program "llama-${tool#llama-}" "$source/tools/$tool"/{main,"$tool"}.cpp
done
echo "$bin"
