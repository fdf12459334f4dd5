"""The three decoders as plain functions over a dict of tensors, in whatever dtype the tensors have.

transformers casts to float32 inside (norms, softmax, rotary angles, router), so a transformers model in float64 is not a
float64 model. These functions never cast. They are checked against transformers in float32 by generate.py, and then run in
float64 to say how far float32 itself is from the true value.

Parameter names are those of the published checkpoints.
"""

import math

import torch
import torch.nn.functional as F


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps) * weight + bias


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def swiglu(gate, up):
    return gate * torch.sigmoid(gate) * up


def rope(x, positions, theta):
    """Rotates the halves: element i pairs with i + K/2. x is (..., T, H, K), positions is (T)."""
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = (positions.to(x.dtype)[:, None] * frequency)[:, None, :]  # (T,1,K/2)
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def attention(q, k, v, first=0):
    """Causal grouped-query attention. q is (B,T,H,K), k and v (B,S,G,K); query t sits at position first + t.

    Returns the output (B,T,H,K) and the log-sum-exp of the scaled scores (B,T,H).
    """
    per_group = q.shape[2] // k.shape[2]
    k = k.repeat_interleave(per_group, dim=2)
    v = v.repeat_interleave(per_group, dim=2)
    scores = torch.einsum("bthk,bshk->bhts", q, k) / math.sqrt(q.shape[-1])
    visible = torch.arange(k.shape[1])[None, :] <= first + torch.arange(q.shape[1])[:, None]
    scores = scores.masked_fill(~visible, -math.inf)
    out = torch.einsum("bhts,bshk->bthk", torch.softmax(scores, dim=-1), v)
    return out, torch.logsumexp(scores, dim=-1).transpose(1, 2)


def route(logits, k):
    """Mixtral's router: softmax over all experts, the k largest, renormalised to sum to one."""
    weights, indices = torch.topk(torch.softmax(logits, dim=-1), k, dim=-1)
    return weights / weights.sum(-1, keepdim=True), indices


def moe(x, gate, w1, w2, w3, k):
    """x is (T,D), gate (E,D), w1 and w3 lists of (F,D), w2 a list of (D,F). Returns the output and the router's logits."""
    logits = F.linear(x, gate)
    weights, indices = route(logits, k)
    per_expert = torch.zeros_like(logits).scatter(1, indices, weights)  # (T,E)
    out = torch.zeros_like(x)
    for e in range(gate.shape[0]):
        out = out + per_expert[:, e, None] * F.linear(swiglu(F.linear(x, w1[e]), F.linear(x, w3[e])), w2[e])
    return out, logits


def decoder(params, config, tokens):
    """Returns the logits (B,T,V) and, for a mixture of experts, each layer's router logits."""
    if config["model_type"] == "gpt2":
        return gpt2(params, config, tokens), []
    batch, length = tokens.shape
    heads, groups, dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    eps, theta = config["rms_norm_eps"], config["rope_theta"]
    positions = torch.arange(length)
    router_logits = []
    x = params["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        p = {name.split(".", 3)[3]: t for name, t in params.items() if name.startswith(f"model.layers.{i}.")}
        h = rms_norm(x, p["input_layernorm.weight"], eps)
        q = F.linear(h, p["self_attn.q_proj.weight"]).view(batch, length, heads, dim)
        k = F.linear(h, p["self_attn.k_proj.weight"]).view(batch, length, groups, dim)
        v = F.linear(h, p["self_attn.v_proj.weight"]).view(batch, length, groups, dim)
        mixed, _ = attention(rope(q, positions, theta), rope(k, positions, theta), v)
        x = x + F.linear(mixed.reshape(batch, length, heads * dim), p["self_attn.o_proj.weight"])
        h = rms_norm(x, p["post_attention_layernorm.weight"], eps)
        if config["model_type"] == "mixtral":
            block = "block_sparse_moe."
            w1, w2, w3 = (
                [p[f"{block}experts.{e}.{w}.weight"] for e in range(config["num_local_experts"])]
                for w in ("w1", "w2", "w3")
            )
            flat = h.reshape(batch * length, -1)
            out, logits = moe(flat, p[block + "gate.weight"], w1, w2, w3, config["num_experts_per_tok"])
            router_logits.append(logits)
            x = x + out.view_as(x)
        else:
            act = swiglu(F.linear(h, p["mlp.gate_proj.weight"]), F.linear(h, p["mlp.up_proj.weight"]))
            x = x + F.linear(act, p["mlp.down_proj.weight"])
    x = rms_norm(x, params["model.norm.weight"], eps)
    head = params.get("lm_head.weight", params["model.embed_tokens.weight"])
    return F.linear(x, head), router_logits


def gpt2(params, config, tokens):
    """GPT-2 stores each projection as (in, out): y = x W + b."""
    batch, length = tokens.shape
    heads, eps = config["n_head"], config["layer_norm_epsilon"]
    x = params["transformer.wte.weight"][tokens] + params["transformer.wpe.weight"][torch.arange(length)]
    for i in range(config["n_layer"]):
        p = {name.split(".", 3)[3]: t for name, t in params.items() if name.startswith(f"transformer.h.{i}.")}
        h = layer_norm(x, p["ln_1.weight"], p["ln_1.bias"], eps)
        q, k, v = (h @ p["attn.c_attn.weight"] + p["attn.c_attn.bias"]).view(batch, length, 3, heads, -1).unbind(2)
        mixed, _ = attention(q, k, v)
        x = x + mixed.reshape(batch, length, -1) @ p["attn.c_proj.weight"] + p["attn.c_proj.bias"]
        h = layer_norm(x, p["ln_2.weight"], p["ln_2.bias"], eps)
        h = gelu_tanh(h @ p["mlp.c_fc.weight"] + p["mlp.c_fc.bias"])
        x = x + h @ p["mlp.c_proj.weight"] + p["mlp.c_proj.bias"]
    x = layer_norm(x, params["transformer.ln_f.weight"], params["transformer.ln_f.bias"], eps)
    return F.linear(x, params["transformer.wte.weight"])


def mean_cross_entropy(logits, targets):
    """The mean over every position, in nats; targets are already the next tokens, nothing is shifted here."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
