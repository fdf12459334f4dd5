"""Parses the golden configurations with the classes and argument parsers of the systems that they are for.

parse.py deepspeed|accelerate|trainer|torchtitan-toml|torchtitan-python|flags SOURCE... ; run by scripts/peers/40-writers.sh,
once for each environment. Prints a line a file; exit code 1 where one is not taken.
"""

import dataclasses
import glob
import importlib.util
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
failed = False


def files(pattern):
    found = sorted(glob.glob(os.path.join(HERE, pattern)))
    assert found, f"no golden {pattern}"
    return found


def check(path, parse):
    """Runs parse on a file and says how it went."""
    global failed
    name = os.path.basename(path)
    try:
        said = parse(path)
        print(f"  taken     {name}" + (f": {said}" if said else ""))
    except Exception as e:  # whatever the peer raises is the finding
        failed = True
        print(f"  REFUSED   {name}: {type(e).__name__}: {e}")


def deepspeed(path):
    from deepspeed.runtime.config import DeepSpeedConfig

    body = json.load(open(path))
    ranks = body["train_batch_size"] // (body["train_micro_batch_size_per_gpu"] * body["gradient_accumulation_steps"])
    world = ranks * body.get("sequence_parallel_size", 1)

    class Mesh:  # what DeepSpeedConfig asks of a process group, without one
        @staticmethod
        def get_world_size():
            return world

    import deepspeed.comm as dist

    dist.get_world_size = lambda group=None: world
    dist.get_rank = lambda group=None: 0
    c = DeepSpeedConfig(path_as_json(path), mesh_device=None)
    z = body["zero_optimization"]
    assert c.train_batch_size == body["train_batch_size"] and int(c.zero_config.stage) == z["stage"], (c.train_batch_size, c.zero_config.stage)
    off = c.zero_config.offload_optimizer
    assert (off is not None) == ("offload_optimizer" in z), off
    known = set(c.zero_config.__class__.model_fields)
    aliases = {f.alias for f in c.zero_config.__class__.model_fields.values() if f.alias}
    unknown = set(z) - known - aliases
    assert not unknown, f"unknown keys {unknown}"
    return f"stage {z['stage']}, world {world}"


def path_as_json(path):
    """DeepSpeedConfig wants a name or a dict."""
    return json.load(open(path))


def accelerate(path):
    from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file

    c = load_config_from_file(path)
    assert isinstance(c, ClusterConfig), type(c)
    from accelerate.commands.launch import launch_command_parser

    taken = vars(launch_command_parser().parse_args(["x.py"]))
    for group, prefix in (("deepspeed_config", ""), ("fsdp_config", "")):
        for key in getattr(c, group) or {}:
            assert prefix + key in taken, f"{group}: accelerate launch knows no {key}"
    return f"{c.distributed_type}, {c.num_processes} processes"


def trainer(path):
    import yaml
    from transformers import HfArgumentParser
    from trl import ModelConfig, SFTConfig

    body = yaml.safe_load(open(path))
    body["output_dir"] = "/tmp/never-written"
    body.pop("deepspeed", None)  # deepspeed's own check needs a launcher; ds_config.json is parsed by itself
    body["bf16"] = False if body.get("bf16") else body.get("bf16", False)  # the check wants a card
    body["fp16"] = False
    body["use_cpu"] = True
    body["use_liger_kernel"] = False  # the check wants the package, not only the name
    names = {f.name for c in (SFTConfig, ModelConfig) for f in dataclasses.fields(c)}
    unknown = set(yaml.safe_load(open(path))) - names
    assert not unknown, f"unknown keys {unknown}"
    HfArgumentParser((SFTConfig, ModelConfig)).parse_dict(body)
    return "SFTConfig, ModelConfig"


def titan_toml(path):
    import shutil
    import tempfile

    from torchtitan.config import ConfigManager

    with tempfile.NamedTemporaryFile(suffix=".toml") as f:
        shutil.copyfile(path, f.name)
        c = ConfigManager().parse_args(["--job.config_file", f.name])
    p = c.parallelism
    return f"JobConfig, tensor {p.tensor_parallel_degree}, pipeline {p.pipeline_parallel_degree}, {c.activation_checkpoint.mode}"


def titan_python(path):
    from torchtitan.models.llama3.config_registry import llama3_debugmodel

    loader = importlib.machinery.SourceFileLoader("planned", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("planned", loader))
    loader.exec_module(module)
    c = dataclasses.replace(module.planned(llama3_debugmodel()))  # checks itself again
    p = c.parallelism
    return f"Trainer.Config, tensor {p.tensor_parallel_degree}, pipeline {p.pipeline_parallel_degree}, {type(c.activation_checkpoint).__qualname__}"


def flags(pattern, sources):
    """Checks that every flag of a script is declared in the system's source."""
    text = "\n".join(open(s, errors="replace").read() for s in sources)

    def declared(path):
        used = re.findall(r"^  (--[a-z0-9-]+)", open(path).read(), re.M)
        assert used, "no flags"
        for flag in used:
            field = flag[2:].replace("-", "_")
            if f'"{flag}"' not in text and not re.search(rf"^    {field}\s*:", text, re.M) and f"'{flag}'" not in text:
                raise ValueError(f"{flag} is not declared")
        return f"{len(used)} flags"

    for path in files(pattern):
        check(path, declared)


def main():
    what = sys.argv[1]
    if what == "flags":
        flags(sys.argv[2], sys.argv[3:])
    else:
        pattern, parse = {
            "deepspeed": ("*.ds_config.json.golden", deepspeed),
            "accelerate": ("*.accelerate.yaml.golden", accelerate),
            "trainer": ("*.trainer.yaml.golden", trainer),
            "torchtitan-toml": ("*.torchtitan.toml.golden", titan_toml),
            "torchtitan-python": ("*.torchtitan_plan.py.golden", titan_python),
        }[what]
        for path in files(pattern):
            check(path, parse)
    sys.exit(1 if failed else 0)


main()
