"""What each framework's own parser says of the files that ac-advisor export writes.

python exported_files.py ../../build/release/ac-advisor exported_files.json     # each importable one
python exported_files.py ../../build/release/ac-advisor exported_files.json --check

For hf under the emulated device, as TrainingArguments asks PyTorch for a GPU that has bf16:
ac-advisor dryrun --output /dev/null -- python exported_files.py PROGRAM exported_files.json --only hf

A case is a target, a model and options. Its file is read as its framework reads it (versions in
VERSIONS), models are built of it on the meta device, and what was read is kept beside the text:
tests/advise/exported_files_test.cpp compares the text with what is exported now, so that a changed
file has to be read again. Cases of a framework that is not importable keep what they have.
Megatron-LM's arguments.py is in no package: its cases say so.
"""
import argparse
import importlib.util
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

LORA = ["--lora", "16", "--lora-targets", "q_proj,v_proj"]
CASES = [
    ("torchtitan", "llama-3.1-8b", []),
    ("torchtitan", "llama-3.1-8b", ["--world", "8", "--ac", "full", "--clip-grad", "0.0000001"]),
    ("torchtitan", "llama-3.1-8b", ["--world", "16", "--tp", "2", "--shard", "hsdp:4"]),
    ("torchtitan", "llama-3.1-8b", ["--world", "8", "--pp", "2", "--grad-accum", "4"]),
    ("torchtitan", "llama-3.1-8b", ["--world", "8", "--kernels", "compiled", "--fp8", "rowwise"]),
    ("torchtitan", "llama-3.1-8b", ["--world", "8", "--offload", "parameters"]),
    ("torchtitan", "qwen3-8b", ["--world", "8", "--ac", "every:2"]),
    ("torchtitan", "qwen3-30b-a3b", ["--world", "8"]),
    ("torchtitan", "llama-60m", []),
    ("torchtune", "llama-3.2-1b", []),
    ("torchtune", "llama-3.1-8b", ["--world", "8", "--clip-grad", "0.0000001"]),
    ("torchtune", "llama-3.1-8b", ["--dropout", "0.1"] + LORA),
    ("torchtune", "llama-3.1-405b", ["--world", "8", "--dora"] + LORA),
    ("torchtune", "qwen2.5-1.5b", ["--optimizer-in-backward"]),
    ("torchtune", "llama-60m", LORA),
    ("torchtune", "mistral-7b", ["--world", "2", "--offload", "parameters"]),
    ("litgpt", "llama-3.2-1b", []),
    ("litgpt", "llama-3.1-8b", ["--lora", "8", "--quantize", "nf4"]),
    ("hf", "llama-3.2-1b", ["--framework", "hf-trainer", "--world", "8"]),
    ("hf", "llama-3.2-1b", ["--framework", "hf-trainer", "--optimizer", "paged-adamw"]),
    ("hf", "llama-3.2-1b", ["--framework", "hf-trainer", "--world", "8", "--shard", "fsdp1"]),
    ("hf", "llama-3.2-1b", ["--framework", "hf-trainer", "--world", "8", "--shard", "fsdp1", "--offload", "parameters"]),
    ("hf", "llama-3.2-1b", ["--framework", "hf-trainer", "--world", "8", "--shard", "hsdp:4",
                            "--clip-grad", "0.0000001", "--grad-accum", "2"]),
    ("hf", "llama-3.2-1b", ["--framework", "trl", "--lora", "16", "--packing", "4", "--attn",
                            "flash"]),
    ("hf", "llama-3.2-1b", ["--framework", "liger"]),
    ("deepspeed", "llama-3.2-1b", ["--world", "8"]),
    ("deepspeed", "llama-3.2-1b", ["--world", "8", "--shard", "zero3", "--offload", "parameters"]),
    ("deepspeed", "llama-3.2-1b", ["--world", "8", "--shard", "zero1", "--clip-grad", "0.5"]),
    ("automodel", "llama-3.2-1b", ["--world", "8", "--clip-grad", "0.5", "--ac", "full"]),
    ("automodel", "llama-3.2-1b", ["--world", "8", "--loss", "lc-ce", "--optimizer",
                                   "sgd-momentum"]),
    ("automodel", "llama-3.2-1b", ["--world", "8", "--lora", "16", "--lora-targets", "all-linear", "--lora-dropout",
                                   "0.05"]),
    ("automodel", "qwen3-30b-a3b", ["--world", "8", "--lora", "8", "--lora-targets", "q_proj,v_proj"]),
    ("llamafactory", "qwen2.5-1.5b", ["--world", "8", "--shard", "zero2"]),
    ("llamafactory", "llama-3.1-8b", ["--lora", "16", "--lora-targets", "all-linear", "--quantize",
                                      "nf4", "--clip-grad", "0.5"]),
    ("llamafactory", "llama-3.1-8b", ["--task", "dpo", "--world", "4", "--shard", "zero2",
                                      "--grad-accum", "2"]),
    ("verl", "llama-3.1-8b", ["--task", "grpo", "--prompt", "256", "--rollout", "vllm:0.4",
                              "--group", "8", "--world", "8"]),
    ("verl", "qwen2.5-1.5b", ["--task", "grpo", "--prompt", "256", "--rollout", "vllm:0.5",
                              "--group", "4", "--world", "4", "--ref", "model", "--clip-grad",
                              "0.0000001", "--phase-offload", "all"]),
    ("verl", "qwen2.5-1.5b", ["--task", "ppo", "--critic", "qwen2.5-0.5b", "--critic-batch", "4", "--critic-offload",
                              "optimizer", "--prompt", "256", "--rollout", "vllm:0.5", "--group", "4", "--world", "4"]),
    ("megatron", "llama-3.1-8b", ["--world", "8", "--shard", "ddp", "--optimizer", "sgd-momentum"]),
    ("megatron", "llama-3.1-8b", ["--transformer-impl", "transformer_engine", "--world", "8",
                                  "--tp", "2"]),
]
VERSIONS = {"torchtitan": "torchtitan 0.2.2", "torchtune": "torchtune 0.6.1, torchao 0.13.0",
            "litgpt": "litgpt 0.5.13, jsonargparse 4.41.0",
            "hf": "transformers 5.23.0, accelerate 1.15.0, trl 1.16.0",
            "deepspeed": "DeepSpeed 0.19.8", "automodel": "nemo-automodel 0.5.0",
            "llamafactory": "LLaMA-Factory 0.9.5", "verl": "verl 0.9.1, hydra-core 1.3.2"}


def parameters(module, skip=("lora_", "magnitude")):
    seen = {id(p): p for n, p in module.named_parameters() if not any(s in n for s in skip)}
    return sum(p.numel() for p in seen.values())


def torchtitan(path, notes):
    import torch
    import torchtitan.models.llama3 as llama3
    import torchtitan.models.qwen3 as qwen3
    from torchtitan.config import ConfigManager
    from torchtitan.models.llama3.model.args import RoPEScalingArgs, TransformerModelArgs
    from torchtitan.models.moe import MoEArgs
    from torchtitan.models.qwen3.model.args import Qwen3ModelArgs
    config = ConfigManager().parse_args([f"--job.config_file={path}"])
    module = {"llama3": llama3, "qwen3": qwen3}[config.model.name]
    tables = {"llama3_args": llama3.llama3_args, "qwen3_args": qwen3.qwen3_args}
    for note in notes:  # what a user adds to __init__.py
        if ": register " in note:
            exec(note.split(".py: ", 1)[1], {**tables, "TransformerModelArgs": TransformerModelArgs,
                                             "RoPEScalingArgs": RoPEScalingArgs,
                                             "Qwen3ModelArgs": Qwen3ModelArgs, "MoEArgs": MoEArgs})
    spec = module.get_train_spec()
    with torch.device("meta"):
        model = spec.model_cls(spec.model_args[config.model.flavor])
    return {"parameters": parameters(model), "max_norm": config.training.max_norm,
            "seq_len": config.training.seq_len, "batch": config.training.local_batch_size,
            "ac": config.activation_checkpoint.mode,
            "shards": config.parallelism.data_parallel_shard_degree,
            "tp": config.parallelism.tensor_parallel_degree,
            "pp": config.parallelism.pipeline_parallel_degree, "pipelines": spec.pipelining_fn is not None,
            "compile": config.compile.enable, "offload": config.training.enable_cpu_offload}


def torchtune(path, notes):
    import torch
    from omegaconf import OmegaConf
    from torchtune import config
    read = OmegaConf.load(path)
    with torch.device("meta"):
        model = config.instantiate(read.model)
    config.instantiate(read.loss)
    optimizer = config.instantiate(read.optimizer, [torch.nn.Parameter(torch.zeros(1))], lr=1e-4)
    return {"parameters": parameters(model), "adapters": sum(
                p.numel() for n, p in model.named_parameters() if "lora_" in n),
            "optimizer": type(optimizer).__name__, "clip_grad_norm": read.clip_grad_norm,
            "batch": read.batch_size, "ac": read.enable_activation_checkpointing,
            "in_backward": read.get("optimizer_in_bwd"), "offload": read.get("fsdp_cpu_offload")}


def litgpt(path, notes):
    import litgpt.finetune.full
    import litgpt.finetune.lora
    import torch
    from jsonargparse import ActionConfigFile, ArgumentParser
    module = litgpt.finetune.lora if "lora_r" in pathlib.Path(path).read_text() else \
        litgpt.finetune.full
    parser = ArgumentParser()
    parser.add_argument("--config", action=ActionConfigFile)
    parser.add_function_arguments(module.setup)
    read = parser.parse_args(["--config", str(path)])
    from litgpt.config import Config
    from litgpt.model import GPT
    with torch.device("meta"):
        model = GPT(Config.from_name(str(read.checkpoint_dir)))
    return {"parameters": parameters(model), "devices": read.devices,
            "micro_batch_size": read.train.micro_batch_size,
            "max_seq_length": read.train.max_seq_length, "precision": read.precision,
            "quantize": read.get("quantize")}


def hf(path, notes):
    from accelerate.commands.config.config_args import load_config_from_file
    from transformers import HfArgumentParser, TrainingArguments
    first, second = pathlib.Path(path).read_text().split("---\n")
    arguments, launch = pathlib.Path(path).with_suffix(".a.yaml"), \
        pathlib.Path(path).with_suffix(".b.yaml")
    arguments.write_text(first)
    launch.write_text(second)
    kind = TrainingArguments
    if "SFTConfig" in first:
        from trl import SFTConfig
        kind = SFTConfig
    (read,) = HfArgumentParser(kind).parse_yaml_file(str(arguments))
    cluster = load_config_from_file(str(launch))
    return {"optim": str(read.optim.value if hasattr(read.optim, "value") else read.optim),
            "max_grad_norm": read.max_grad_norm, "batch": read.per_device_train_batch_size,
            "accum": read.gradient_accumulation_steps, "bf16": read.bf16,
            "liger": read.use_liger_kernel, "distributed": str(cluster.distributed_type),
            "processes": cluster.num_processes, "fsdp": sorted(cluster.fsdp_config or {})}


def deepspeed(path, notes):
    from deepspeed.runtime.config import DeepSpeedConfig
    given = json.loads(pathlib.Path(path).read_text())
    world = given["train_batch_size"] // (given["train_micro_batch_size_per_gpu"]
                                          * given["gradient_accumulation_steps"])
    import deepspeed.comm as dist
    dist.get_world_size, dist.is_initialized = lambda *a: world, lambda: True
    dist.get_rank = lambda *a: 0
    read = DeepSpeedConfig(given)
    zero = read.zero_config
    return {"stage": int(zero.stage), "clipping": read.gradient_clipping,
            "bf16": read.bfloat16_config.enabled, "overlap": zero.overlap_comm,
            "offload": str(zero.offload_param.device if zero.offload_param else None)}


def adapters_of(read):
    """AutoModel's, and how many of a block's layers it matches, with the model's head beside them."""
    if read.get("peft", None) is None:
        return {}
    from nemo_automodel.components._peft.module_matcher import ModuleMatcher
    peft = read.peft.instantiate()
    matcher = ModuleMatcher(peft.target_modules, peft.exclude_modules, peft.match_all_linear, True)
    layers = [f"model.layers.0.self_attn.{name}_proj" for name in "qkvo"] + \
             [f"model.layers.0.mlp.{name}_proj" for name in ("gate", "up", "down")] + ["lm_head"]
    return {"rank": peft.dim, "scale": peft.alpha / peft.dim, "dropout": peft.dropout, "adapter_dtype": str(peft.lora_dtype),
            "adapted": [name.split(".")[-1] for name in layers if matcher.match(None, name)]}


def automodel(path, notes):
    import torch
    from nemo_automodel.components.config.loader import load_yaml_config
    from nemo_automodel.recipes._dist_utils import parse_distributed_section
    read = load_yaml_config(str(path))
    parsed = parse_distributed_section(read.distributed.to_dict())
    optimizer = read.optimizer.instantiate(params=[torch.nn.Parameter(torch.zeros(1))], lr=1e-4)
    loss = read.loss_fn.instantiate()
    return {"strategy": type(parsed["strategy_config"]).__name__, "loss": type(loss).__name__,
            "ac": parsed["activation_checkpointing"], "optimizer": type(optimizer).__name__,
            "momentum": optimizer.defaults.get("momentum"),
            "max_norm": read.get("clip_grad_norm.max_norm", None),
            "batch": read.step_scheduler.local_batch_size} | adapters_of(read)


def llamafactory(path, notes):
    """A key that none of its dataclasses has ends its parser."""
    from training_files import llamafactory_values
    read = llamafactory_values(pathlib.Path(path))
    return {name: getattr(read[name], "value", read[name]) for name in (
        "stage", "finetuning_type", "pref_loss", "cutoff_len", "per_device_train_batch_size",
        "gradient_accumulation_steps", "optim", "max_grad_norm", "bf16", "use_reentrant_gc",
        "disable_gradient_checkpointing", "flash_attn", "lora_rank", "lora_target",
        "quantization_bit")}


def verl(path, notes):
    """Its own configuration takes no override of a key that it does not have."""
    import hydra
    overrides = shlex.split(pathlib.Path(path).read_text().replace("\\\n", " "))
    overrides = overrides[overrides.index("verl.trainer.main_ppo") + 1:]
    package = pathlib.Path(importlib.util.find_spec("verl").origin).parent
    with hydra.initialize_config_dir(str(package / "trainer" / "config"), version_base=None):
        read = hydra.compose("ppo_trainer", overrides)
    actor, rollout, critic = read.actor_rollout_ref.actor, read.actor_rollout_ref.rollout, read.critic
    of_critic = {"critic": critic.model.path, "critic_strategy": critic.strategy,
                 "critic_tokens": critic.get("ppo_infer_max_token_len_per_gpu"),
                 "critic_offload": critic.fsdp.optimizer_offload, "critic_dtype": critic.fsdp.model_dtype,
                 "critic_checkpoints": critic.model.enable_gradient_checkpointing}
    return (of_critic if read.algorithm.adv_estimator == "gae" else {}) | {"algorithm": read.algorithm.adv_estimator, "prompt": read.data.max_prompt_length,
            "response": read.data.max_response_length, "strategy": actor.strategy,
            "micro_batch": actor.ppo_micro_batch_size_per_gpu, "kl": actor.use_kl_loss,
            "dtype": actor.fsdp_config.model_dtype, "offload": actor.fsdp_config.param_offload,
            "clip_grad": actor.optim.clip_grad, "n": rollout.n, "engine": rollout.name,
            "utilization": rollout.gpu_memory_utilization,
            "ranks": read.trainer.nnodes * read.trainer.n_gpus_per_node}


READERS = {f.__name__: f for f in (torchtitan, torchtune, litgpt, hf, deepspeed, automodel,
                                   llamafactory, verl)}


def exported(program, target, model, options):
    framework = [] if "--framework" in options else ["--framework", target]
    run = subprocess.run([program, "export", model, "--to", target, *framework, *options],
                         capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{target} {model} {options}: {run.stderr}")
    return run.stdout, re.findall(r"^note: (.*)$", run.stderr, re.M)


def planned_parameters(program, model):
    run = subprocess.run([program, "plan", model, "--format", "json"], capture_output=True,
                         text=True, check=True)
    return json.loads(run.stdout)["parameters"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="", help="one target")
    arguments = parser.parse_args()
    kept = {}
    if arguments.output.exists():
        kept = {(c["target"], c["model"], *c["options"]): c
                for c in json.loads(arguments.output.read_text())["cases"]}
    cases, failed = [], 0
    for target, model, options in CASES:
        text, notes = exported(arguments.program, target, model, options)
        case = {"target": target, "model": model, "options": options, "text": text,
                "reader": VERSIONS.get(target, "none: its parser is in no package"), "read": None}
        before = kept.get((target, model, *options))
        if before and before["text"] == text:
            case["read"] = before["read"]
        if target in READERS and arguments.only in ("", target):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / ("x.toml" if target == "torchtitan" else "x.yaml")
                path.write_text(text)
                try:
                    case["read"] = READERS[target](path, notes)
                except ImportError as error:
                    print(f"{target}: not read ({error})")
                except Exception as error:  # the parser's own refusal is what is looked for
                    print(f"{target} {model} {' '.join(options)}: REFUSED {error!r}"[:600])
                    failed += 1
            if case["read"] and "parameters" in case["read"]:
                planned = planned_parameters(arguments.program, model)
                if target == "litgpt" and "3.2-1b" in model:
                    planned += 128256 * 2048  # it ties nothing
                if case["read"]["parameters"] != planned:
                    print(f"{target} {model}: {case['read']['parameters']} parameters, "
                          f"planned {planned}")
                    failed += 1
        cases.append(case)
    if not arguments.check:
        arguments.output.write_text(json.dumps({"cases": cases}, indent=1) + "\n")
    print(f"{len(cases)} files, {sum(c['read'] is not None for c in cases)} read, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
