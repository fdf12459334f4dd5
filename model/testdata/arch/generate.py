"""Makes a folder for every architecture: config.json and model.safetensors as transformers writes them, and expected.safetensors with
tokens, targets, logits, the loss and the gradient of every weight, under published names.

    python generate.py [NAME ...]

Needs what ../golden/requirements.txt lists. Weights are 0.2 N(0,1), norms' factors 1 + 0.2 N(0,1), so that no bias is zero, no norm is the
identity and positions matter. Sequences are longer than windows and than the contexts that frequencies were first trained with.
"""

import os
import shutil
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
sys.dont_write_bytecode = True

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, SEQ = 2, 24

BASE = dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=64,
    max_position_embeddings=64, bos_token_id=None, eos_token_id=0, pad_token_id=None,
)
ONE = BASE | dict(num_hidden_layers=1)
MIXTURE = BASE | dict(intermediate_size=16, num_experts_per_tok=2)
WINDOWS = ["sliding_attention", "full_attention"]


def rope(kind, **fields):
    return dict(rope_type=kind, **{"rope_theta": 10000.0} | fields)


# folder: (model type, config, seed of the weights)
MODELS = {
    "llama3": ("llama", BASE | dict(rope_parameters=rope("llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)), 1),
    "llama_linear": ("llama", ONE | dict(rope_parameters=rope("linear", factor=4.0), attention_bias=True, mlp_bias=True, tie_word_embeddings=True), 2),
    "llama_dynamic": ("llama", ONE | dict(rope_parameters=rope("dynamic", factor=2.0), max_position_embeddings=16), 3),
    "llama_yarn": ("llama", ONE | dict(rope_parameters=rope("yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.5)), 4),
    "mistral": ("mistral", BASE | dict(sliding_window=7, head_dim=16), 5),
    "mixtral": ("mixtral", MIXTURE | dict(num_local_experts=3, sliding_window=9), 6),
    "smollm3": ("smollm3", BASE | dict(no_rope_layer_interval=2, rope_parameters=rope("default", rope_theta=2e6)), 7),
    "qwen2": ("qwen2", BASE | dict(tie_word_embeddings=True, rope_parameters=rope("default", rope_theta=1e6), use_sliding_window=True, sliding_window=6, max_window_layers=1), 8),
    "qwen3": ("qwen3", BASE | dict(head_dim=16, rope_parameters=rope("default", rope_theta=1e6)), 9),
    "qwen3_moe": ("qwen3_moe", MIXTURE | dict(head_dim=8, moe_intermediate_size=16, num_experts=4, norm_topk_prob=True, mlp_only_layers=[1]), 10),
    "qwen3_moe_share": ("qwen3_moe", MIXTURE | dict(num_hidden_layers=1, head_dim=8, moe_intermediate_size=16, num_experts=5, norm_topk_prob=False), 17),
    "phi3": ("phi3", BASE | dict(sliding_window=15, rope_parameters=rope("default")), 11),
    "phi3_long": ("phi3", ONE | dict(num_attention_heads=2, num_key_value_heads=1, original_max_position_embeddings=16, rope_parameters=rope(
        "longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5], long_factor=[1.0, 1.5, 2.0, 3.0, 5.0, 8.0])), 12),
    "phi3_short": ("phi3", ONE | dict(original_max_position_embeddings=32, rope_parameters=rope(
        "longrope", partial_rotary_factor=1.0, short_factor=[1.0, 1.2, 1.5, 2.0], long_factor=[1.0, 2.0, 4.0, 8.0])), 13),
    "gemma2": ("gemma2", BASE | dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=6, attn_logit_softcapping=2.0, final_logit_softcapping=3.0), 14),
    "gemma3": ("gemma3_text", BASE | dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=6, layer_types=WINDOWS, rope_parameters=dict(
        sliding_attention=rope("default"), full_attention=rope("linear", rope_theta=1e6, factor=8.0))), 15),
    "gpt_oss": ("gpt_oss", MIXTURE | dict(head_dim=8, num_local_experts=4, sliding_window=6, swiglu_limit=0.5, rope_parameters=rope(
        "yarn", rope_theta=150.0, factor=4.0, beta_fast=2.0, beta_slow=0.5, truncate=False, original_max_position_embeddings=16)), 16),
}


def build(kind, config, seed):
    """A model with random weights."""
    config = transformers.AutoConfig.for_model(kind, **config)
    config.use_cache = False
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    if hasattr(config, "_experts_implementation"):
        model.set_experts_implementation("eager")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            factor = name.endswith("norm.weight") and not kind.startswith("gemma")
            p.copy_((1 if factor else 0) + 0.2 * torch.randn(p.shape, generator=generator))
    return model.eval()


def router_gaps(model, tokens, k):
    """The smallest distances between the last chosen expert's logit and the next one's."""
    gaps = []

    def hook(module, args, output):
        top = output[0].detach().topk(k + 1, dim=-1)[0]
        gaps.append((top[..., -2] - top[..., -1]).min().item())

    handles = [m.register_forward_hook(hook) for m in model.modules() if type(m).__name__.endswith("TopKRouter")]
    with torch.no_grad():
        model(tokens)
    for h in handles:
        h.remove()
    return gaps


def write(name):
    kind, config, seed = MODELS[name]
    model = build(kind, config, seed)
    generator = torch.Generator().manual_seed(100 + seed)
    tokens = torch.randint(0, config["vocab_size"], (BATCH, SEQ), generator=generator)
    targets = torch.randint(0, config["vocab_size"], (BATCH, SEQ), generator=generator)
    gaps = router_gaps(model, tokens, config.get("num_experts_per_tok", 1))
    assert not gaps or min(gaps) > 1e-3, f"{name}: a token sits on a tie between experts: take another seed"
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, config["vocab_size"]), targets.reshape(-1))
    loss.backward()
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(d, file), folder)
            os.chmod(os.path.join(folder, file), 0o644)
    with torch.no_grad():  # gradients are saved as weights are, under the names that transformers publishes
        for p in model.parameters():
            p.copy_(p.grad)
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        out = {"grad." + n: t for n, t in load_file(os.path.join(d, "model.safetensors")).items()}
    out |= {"tokens": tokens.int(), "targets": targets.int(), "logits": logits.detach().contiguous(), "loss": loss.detach().reshape(1)}
    path = os.path.join(folder, "expected.safetensors")
    save_file(out, path, metadata={"transformers": transformers.__version__, "torch": torch.__version__})
    os.chmod(path, 0o644)
    print(name, f"loss {loss.item():.4f}", f"logits to {logits.abs().max().item():.2f}", *(f"gap {g:.2g}" for g in gaps), sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)))


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in sys.argv[1:] or MODELS:
        write(name)


if __name__ == "__main__":
    main()
