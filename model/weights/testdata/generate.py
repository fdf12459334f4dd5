"""Converts the tiny models of model/testdata to GGUF with llama.cpp's own converter, for the tests of model/weights.

    python generate.py LLAMA_CPP

LLAMA_CPP is a source tree of llama.cpp (the one inside the npm package node-llama-cpp 3.21.1, llama/gitRelease.bundle, was used), python one
with torch and transformers 5. The models have no tokenizer, so the converter's vocabulary is left out, and the size of it written in its
place. Everything else is what convert_hf_to_gguf.py --outtype f32 does.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

here = Path(__file__).resolve().parent
llama = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(llama / "gguf-py"))
sys.path.insert(0, str(llama))

import gguf  # noqa: E402
import torch  # noqa: E402
from conversion import ModelBase, ModelType, get_model_architecture, get_model_class  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402


def first_layer(directory: Path) -> None:
    """Leaves a model its first layer: llama.cpp has no Qwen3-MoE of which some layers are dense."""
    config = json.loads((directory / "config.json").read_text())
    config.update(num_hidden_layers=1, mlp_only_layers=[], layer_types=None)
    (directory / "config.json").write_text(json.dumps(config))
    tensors = load_file(directory / "model.safetensors")
    save_file({k: v for k, v in tensors.items() if not k.startswith("model.layers.") or k.startswith("model.layers.0.")}, directory / "model.safetensors")


def convert(source: Path, weights: str, target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / source.name
        directory.mkdir()
        shutil.copy(source / "config.json", directory / "config.json")
        shutil.copy(source / weights, directory / "model.safetensors")
        if source.name == "qwen3_moe":
            first_layer(directory)
        hparams = ModelBase.load_hparams(directory, False)
        if "n_positions" in hparams:  # GPT-2's configurations have it under both names
            (directory / "config.json").write_text(json.dumps(hparams | {"n_ctx": hparams["n_positions"]}))
        vocab = {str(i): i for i in range(hparams["vocab_size"])}  # Gemma 3's embedding is cut to it
        (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": []}))
        kind = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
        kind.set_vocab = lambda self: self.gguf_writer.add_vocab_size(hparams["vocab_size"])
        with torch.inference_mode():
            model = kind(directory, gguf.LlamaFileType.ALL_F32, target, model_name=source.name)
            model.write()


def main() -> None:
    root = here.parent.parent / "testdata"
    for name in ["llama3", "llama_linear", "llama_yarn", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gemma3", "phi3", "phi3_long", "smollm3", "gpt_oss"]:
        convert(root / "arch" / name, "model.safetensors", here / f"{name}.gguf")
    convert(root / "golden" / "gpt2", "weights.safetensors", here / "gpt2.gguf")


main()
