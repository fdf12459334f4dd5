#!/usr/bin/env bash
# Parses the golden configurations of planner/writers with the classes and argument parsers of the systems that they are
# for: DeepSpeed's configuration class, accelerate's, TRL's and transformers' arguments, torchtitan's JobConfig (0.2.2) and
# Trainer.Config (0.3), and the declarations of flags in the sources of vLLM, SGLang and llama.cpp. Then counts the parameters of
# the planner's model cards again, with transformers' classes. Works in .cache/peers/writers, with torch and transformers of
# model/testdata/golden's environment (GOLDEN_VENV). Megatron's arguments are not in a package that runs here; its
# golden is reviewed by hand.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers/writers
golden=${GOLDEN_VENV:-$root/.cache/golden-venv}
check=$root/planner/writers/testdata/parse.py
packages="deepspeed==0.19.8 accelerate==1.15.0 trl==1.16.0 peft==0.21.2 torchtitan==0.2.2 torchtitan==0.3.0 vllm==0.33.0 sglang==0.5.23 llama-cpp-python==0.3.36"
differ=0

if [[ ! -x $golden/bin/python ]]; then
	echo "no environment with torch at $golden: run model/testdata/golden/regenerate.sh, or name one with GOLDEN_VENV" >&2
	exit 1
fi
if [[ $(cat "$work/packages" 2>/dev/null) != "$packages" ]]; then
	rm -rf "$work"
	"$golden/bin/python" -m venv "$work/venv"
	ls -d "$golden"/lib/python*/site-packages >"$(ls -d "$work"/venv/lib/python*/site-packages)/golden.pth" # torch is 5 GB
	pip() { "$work/venv/bin/pip" "$1" --quiet --disable-pip-version-check "${@:2}"; }
	pip install setuptools wheel py-cpuinfo hjson msgpack ninja psutil einops tyro tomli pyyaml 'datasets<4.8' tensorboard wandb pillow
	DS_BUILD_OPS=0 pip install --no-deps --no-build-isolation deepspeed==0.19.8
	pip install --no-deps accelerate==1.15.0 trl==1.16.0 peft==0.21.2 torchdata torch_checkpointing spmd_types==0.2.3
	for version in 0.2.2 0.3.0; do
		pip install --no-deps --target "$work/torchtitan-$version" "torchtitan==$version"
	done
	pip download --no-deps -d "$work" vllm==0.33.0 sglang==0.5.23
	pip download --no-deps --no-binary :all: -d "$work" llama-cpp-python==0.3.36
	mkdir -p "$work/sources"
	for wheel in "$work"/*.whl; do
		"$work/venv/bin/python" -m zipfile -e "$wheel" "$work/sources"
	done
	tar xzf "$work"/llama_cpp_python-*.tar.gz -C "$work/sources"
	rm "$work"/*.whl "$work"/*.tar.gz
	echo "$packages" >"$work/packages"
fi

run() {
	echo "$1"
	shift
	"$@" 2>"$work/errors" || { differ=1; tail -n 20 "$work/errors"; }
}
python=$work/venv/bin/python
src=$work/sources
run "DeepSpeed, accelerate, TRL" "$python" "$check" deepspeed
run "" "$python" "$check" accelerate
run "" "$python" "$check" trainer
run "torchtitan 0.2.2" env PYTHONPATH="$work/torchtitan-0.2.2" "$python" "$check" torchtitan-toml
run "torchtitan 0.3.0" env PYTHONPATH="$work/torchtitan-0.3.0" "$python" "$check" torchtitan-python
run "vLLM's flags" "$python" "$check" flags '*.vllm.sh.golden' "$src/vllm/engine/arg_utils.py"
mapfile -t sglang < <(find "$src/sglang/srt/server_args.py" "$src/sglang/srt/arg_groups" -name '*.py')
run "SGLang's flags" "$python" "$check" flags '*.sglang.sh.golden' "${sglang[@]}"
run "llama-server's flags" "$python" "$check" flags '*.llama-server.sh.golden' "$(find "$src" -path '*common/arg.cpp')"
run "the cards' parameters" "$python" "$root/planner/shape/testdata/counts.py" "$work/counts.json"
if ! cmp "$root/planner/shape/testdata/counts.json" "$work/counts.json"; then
	differ=1
fi
exit "$differ"
