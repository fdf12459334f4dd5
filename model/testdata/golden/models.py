"""Logits, loss and every gradient of small transformers models, and the files that hold them."""

import json
import os
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

import reference

HIDDEN, VOCAB, LAYERS = 64, 256, 2

# The config.json of each model, in the form that published checkpoints use.
_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": 128,
    "max_position_embeddings": 128,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "vocab_size": VOCAB,
}
_MIXTRAL = {k: v for k, v in _LLAMA.items() if k not in ("attention_bias", "mlp_bias", "rope_scaling")} | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_experts_per_tok": 2,
    "num_local_experts": 4,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
_GPT2 = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.0,
    "bos_token_id": 0,
    "embd_pdrop": 0.0,
    "eos_token_id": 0,
    "layer_norm_epsilon": 1e-5,
    "model_type": "gpt2",
    "n_embd": HIDDEN,
    "n_head": 4,
    "n_layer": LAYERS,
    "n_positions": 128,
    "resid_pdrop": 0.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "vocab_size": VOCAB,
}

# folder: (config, seed of the weights). The seed of moe is one of 1,300 tried, by reference.py in float64 alone; README.md says why
# and how it was chosen.
MODELS = {
    "dense": (_LLAMA | {"tie_word_embeddings": True}, 1),
    "dense_untied": (_LLAMA | {"tie_word_embeddings": False}, 2),
    "moe": (_MIXTRAL, 1005),
    "gpt2": (_GPT2, 4),
}

# Two rows of 48 tokens; a target is the byte after its token.
BATCH_STARTS, BATCH_LEN = (1000, 5003), 48


def batch(text):
    rows = [text[s : s + BATCH_LEN + 1] for s in BATCH_STARTS]
    tokens = torch.tensor([list(r[:-1]) for r in rows])
    targets = torch.tensor([list(r[1:]) for r in rows])
    return tokens, targets


def build(config, seed):
    """A model with random weights: norm weights 1 + 0.2 N(0,1), all else 0.08 N(0,1), biases too."""
    kwargs = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "torch_dtype")}
    hf_config = transformers.AutoConfig.for_model(config["model_type"], **kwargs)
    hf_config.use_cache = False
    model = getattr(transformers, config["architectures"][0])._from_config(
        hf_config, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            is_norm = name.endswith(("norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight"))
            p.copy_(1 + 0.2 * noise if is_norm else 0.08 * noise)
    return model.eval()


def published(tensors):
    """Renames tensors (weights or gradients) of a transformers model to the names of published checkpoints.

    transformers holds Mixtral's experts fused: mlp.experts.gate_up_proj is (E, 2F, D) with w1 (gate) above w3 (up), and
    mlp.experts.down_proj is (E, D, F), w2.
    """
    out = {}
    for name, t in tensors.items():
        name = name.replace(".mlp.gate.", ".block_sparse_moe.gate.") if ".mlp.gate." in name else name
        if name.endswith("mlp.experts.gate_up_proj"):
            base = name.removesuffix("mlp.experts.gate_up_proj") + "block_sparse_moe.experts."
            half = t.shape[1] // 2
            for e in range(t.shape[0]):
                out[f"{base}{e}.w1.weight"] = t[e, :half]
                out[f"{base}{e}.w3.weight"] = t[e, half:]
        elif name.endswith("mlp.experts.down_proj"):
            base = name.removesuffix("mlp.experts.down_proj") + "block_sparse_moe.experts."
            for e in range(t.shape[0]):
                out[f"{base}{e}.w2.weight"] = t[e]
        else:
            out[name] = t
    return {name: t.detach().clone().contiguous() for name, t in sorted(out.items())}


def weights(model):
    return published(dict(model.named_parameters()))


def max_rel(got, want):
    """max|got - want| / max|want|, the measure the Go tests use."""
    return ((got.double() - want.double()).abs().max() / want.double().abs().max()).item()


def router_gap(logits, config):
    """The smallest distance, over the tokens, between the last chosen expert's logit and that of the next."""
    top = logits.detach().topk(config["num_experts_per_tok"] + 1)[0]
    return (top[:, -2] - top[:, -1]).min().item()


def reference_run(params, config, tokens, targets, dtype):
    leaves = {name: p.detach().to(dtype, copy=True).requires_grad_() for name, p in params.items()}
    logits, router = reference.decoder(leaves, config, tokens)
    loss = reference.mean_cross_entropy(logits, targets)
    loss.backward()
    return logits.detach(), loss.detach(), {name: p.grad for name, p in leaves.items()}, router


def check_loads(folder, config, tokens, logits):
    """The files are a checkpoint that transformers itself loads, to the same bits."""
    with tempfile.TemporaryDirectory() as d:
        os.symlink(os.path.abspath(os.path.join(folder, "weights.safetensors")), os.path.join(d, "model.safetensors"))
        os.symlink(os.path.abspath(os.path.join(folder, "config.json")), os.path.join(d, "config.json"))
        model = getattr(transformers, config["architectures"][0]).from_pretrained(
            d, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
        )
        with torch.no_grad():
            again = model.eval()(tokens, use_cache=False).logits
        assert torch.equal(again, logits), "the written checkpoint does not load to the same logits"


def check_names(model, names):
    """Our names are exactly those that transformers saves."""
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        saved = set(load_file(os.path.join(d, "model.safetensors")))
    assert saved == set(names), sorted(saved ^ set(names))


def write(out, name, text):
    """Writes the files of one model and returns what the manifest says of it."""
    config, seed = MODELS[name]
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    model = build(config, seed)
    tokens, targets = batch(text)
    result = model(tokens, output_hidden_states=True, use_cache=False)
    loss = reference.mean_cross_entropy(result.logits, targets)
    loss.backward()
    params = weights(model)
    grads = published({n: p.grad for n, p in model.named_parameters()})
    logits = result.logits.detach().contiguous()

    # transformers against our own functions in the same float32, then float32 against float64.
    same, same_loss, same_grads, _ = reference_run(params, config, tokens, targets, torch.float32)
    check = {"logits": max_rel(same, logits), "loss": max_rel(same_loss, loss.detach())}
    check |= {n: max_rel(same_grads[n], g) for n, g in grads.items()}
    assert max(check.values()) < 2e-5, check
    true, true_loss, true_grads, router = reference_run(params, config, tokens, targets, torch.float64)
    error = {"logits": max_rel(logits, true), "loss": max_rel(loss.detach(), true_loss)}
    error |= {n: max_rel(g, true_grads[n]) for n, g in grads.items()}
    worst = max(error, key=error.get)

    save_file(params, os.path.join(folder, "weights.safetensors"), metadata={"format": "pt"})
    save_file(grads, os.path.join(folder, "grads.safetensors"), metadata={"format": "pt"})
    activations = {
        "tokens": tokens.int(),
        "targets": targets.int(),
        "logits": logits,
        "loss": loss.detach().reshape(1),
        "loss_f64": true_loss.reshape(1),
    }
    for i, h in enumerate(result.hidden_states):
        activations[f"hidden.{i}"] = h.detach().clone().contiguous()
    save_file(activations, os.path.join(folder, "activations.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")
    check_names(model, params)
    check_loads(folder, config, tokens, logits)

    entry = {
        "seed": seed,
        "parameters": sum(p.numel() for p in params.values()),
        "loss": true_loss.item(),
        "max_rel_f32_to_f64": {"tensor": worst, "value": error[worst], "logits": error["logits"]},
        "smallest_max_abs_grad": min(g.abs().max().item() for g in grads.values()),
    }
    if router:
        entry["min_router_gap"] = min(router_gap(r, config) for r in router)
        assert entry["min_router_gap"] > 1e-3, "a token sits on a tie between experts: take another seed"
        chosen = torch.cat([r.detach().topk(config["num_experts_per_tok"])[1].flatten() for r in router])
        entry["tokens_per_expert"] = torch.bincount(chosen, minlength=config["num_local_experts"]).tolist()
    return entry
