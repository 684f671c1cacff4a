"""Writes verl_peaks.json: peaks of the phases of verl 0.9.1's GRPO step, by its own worker (ActorRolloutRefWorker, with
TrainingWorker and FSDPEngineWithLMHead) on the emulated device.

    ac-advisor dryrun --world N --output /dev/null -- python verl_peaks.py verl_peaks.json --case K

Each case runs in a process of its own. verl's configuration is its ppo_trainer.yaml. Stood in for: Ray and the web servers (UNUSED), which
only imports ask for; gloo; the rollout, whose server is another process; flash-attn's varlen kernels, by PyTorch's copy (packed_flash.py), while its
Triton cross entropy and its padding are its own files (2.8.3, on PYTHONPATH with verl 0.9.1, tensordict 0.10.0 and what they
import: hydra-core, omegaconf, codetiming, torchdata, einops, pillow and theirs). A model is made from its configuration where
verl loads one. verl 0.9.1 asks for transformers below 5.11; this is 5.23. Rows have no padding, and all of them one length.

A case that the planner has options for has them, and the figures that its plan has: of update_weights what was measured and the
bucket that the real sender allocates. The others stand below, as measured.

A step is update_weights, old_log_prob, ref where there is one, update; figures are those of the third.
"""

import argparse
import asyncio
import importlib.abc
import importlib.machinery
import json
import os
import sys
import tempfile
import types

os.environ["HF_HUB_OFFLINE"] = "1"

import packed_flash  # noqa: F401  before transformers
import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # noqa: F401  registers "fake"
import transformers

from emulated_cases import config_of
from emulated_peaks import on_device
from verl_cases import CASES, words

STEPS = 3
BUCKET = 2048 << 20  # update_weights_bucket_megabytes, which the real sender allocates (bucketed_weight_transfer.py)
UNUSED = ("ray", "uvicorn", "fastapi")


class Nameless(type):
    """Of classes whose attributes are such classes."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nameless(name, (), {})


class Anything(types.ModuleType):
    """A module that is imported and never used: what is asked of it exists, and decorates nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nameless(name, (), {})

    @staticmethod
    def remote(*given, **_):
        return given[0] if given else lambda what: what

    @staticmethod
    def is_initialized():
        return False


class Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in UNUSED else None

    def create_module(self, spec):
        return Anything(spec.name)

    def exec_module(self, module):
        pass


class FlashAttention(torch.autograd.Function):
    """FlashAttnFunc of flash-attn 2, which a micro-batch of one row comes to, as packed_flash.py has its varlen function."""

    @staticmethod
    def forward(ctx, q, k, v, dropout, scale, causal):
        out, lse, state, _, _ = torch.ops.aten._flash_attention_forward(
            q, k, v, None, None, q.shape[1], k.shape[1], dropout, causal, False, scale=scale)
        ctx.save_for_backward(q, k, v, out, lse, state)
        ctx.values = dropout, causal, scale
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse, state = ctx.saved_tensors
        dropout, causal, scale = ctx.values
        grads = torch.ops.aten._flash_attention_backward(
            grad, q, k, v, out, lse, None, None, q.shape[1], k.shape[1], dropout, causal, state,
            torch.empty(0, device=q.device), scale=scale)
        return *grads, None, None, None


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    return FlashAttention.apply(q, k, v, dropout_p, softmax_scale, causal)


def flash_files():
    """flash-attn's own Python files but for what calls its kernels."""
    package = sys.modules["flash_attn"]
    package.flash_attn_func = flash_attn_func
    package.__path__ = [os.path.join(folder, "flash_attn") for folder in sys.path
                        if os.path.isdir(os.path.join(folder, "flash_attn", "ops"))]
    del sys.modules["flash_attn.bert_padding"]
    ops = types.ModuleType("flash_attn.ops")
    ops.__path__ = [os.path.join(package.__path__[0], "ops")]
    triton = types.ModuleType("flash_attn.ops.triton")  # its other files import the kernels
    triton.__path__ = [os.path.join(package.__path__[0], "ops", "triton")]
    sys.modules |= {ops.__name__: ops, triton.__name__: triton}


def configuration(entry, folder, others=None):
    from hydra import compose, initialize_config_module

    more = entry.get("verl", {})
    strategy = {"fsdp1": "fsdp", "fsdp2": "fsdp2"}[entry["shard"]]
    overrides = {
        "algorithm.adv_estimator": "grpo",
        "actor_rollout_ref.model.path": folder,
        "+actor_rollout_ref.model.load_tokenizer": False,
        "actor_rollout_ref.model.enable_gradient_checkpointing": entry["ac"] == "full",
        "actor_rollout_ref.actor.strategy": strategy,
        "actor_rollout_ref.actor.fsdp_config.strategy": strategy,
        "actor_rollout_ref.ref.fsdp_config.strategy": strategy,
        "actor_rollout_ref.actor.ppo_mini_batch_size": entry["batch"] * entry["grad_accum"] * entry["world"],
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": entry["batch"],
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": entry["batch"],
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": entry["batch"],
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.actor.optim.lr": 1e-6,
    } | {f"actor_rollout_ref.{key}": value for key, value in more.items() if key != "mini_batches"} | (others or {})
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", [f"{key}={value}" for key, value in overrides.items()])


class Server:
    """In place of the rollout's adapter, which hands the weights to a server of another process."""

    sleep_level = 2

    def __init__(self, **_):
        pass

    async def resume(self, tags):
        pass

    async def update_weights(self, weights, **_):
        for _ in weights:
            pass


def rows(entry, count):
    """What the trainer hands to a rank, on the host: prompts and completions without padding."""
    from tensordict import TensorDict

    seq, prompt = entry["seq"], entry["prompt"]
    made = {
        "prompts": torch.full((count, prompt), 3), "responses": torch.full((count, seq - prompt), 3),
        "input_ids": torch.full((count, seq), 3), "attention_mask": torch.ones(count, seq, dtype=torch.int64),
        "position_ids": torch.arange(seq).repeat(count, 1), "response_mask": torch.ones(count, seq - prompt, dtype=torch.int64),
    }
    return TensorDict(made, batch_size=count)


class Phases:
    """What is allocated when a phase begins and ends, and its peaks; reserved memory is carried from phase to phase."""

    def __init__(self):
        self.figures = {}

    def run(self, name, call):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        begin = torch.cuda.memory_allocated()
        result = call()
        torch.cuda.synchronize()
        self.figures[name] = {"begin": begin, "allocated": torch.cuda.max_memory_allocated(),
                              "reserved": torch.cuda.max_memory_reserved(), "end": torch.cuda.memory_allocated()}
        return result


def step(worker, entry, config, phases, critic):
    from verl.utils import tensordict_utils as tu
    from verl.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding

    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    phases.run("update_weights", lambda: asyncio.run(worker.update_weights()))
    batch = rows(entry, entry["batch"] * entry["grad_accum"] * entry.get("verl", {}).get("mini_batches", 1))

    def given(**meta):
        data = left_right_2_no_padding(batch.clone())
        tu.assign_non_tensor(data, temperature=rollout.temperature, global_token_num=None, **meta)
        return data

    data = given(calculate_entropy=True, calculate_sum_pi_squared=False, compute_loss=False)
    output = phases.run("old_log_prob", lambda: worker.compute_log_prob(data))
    batch["old_log_probs"] = no_padding_2_padding(tu.get(output, "log_probs"), data).float()
    if actor.use_kl_loss:
        data = given(calculate_entropy=False, compute_loss=False, **({} if worker.ref else {"no_lora_adapter": True}))
        output = phases.run("ref", lambda: (worker.compute_ref_log_prob if worker.ref else worker.compute_log_prob)(data))
        batch["ref_log_prob"] = no_padding_2_padding(tu.get(output, "log_probs"), data).float()
    batch["advantages"] = torch.ones_like(batch["old_log_probs"])
    batch["returns"] = batch["advantages"].clone()
    if critic:
        critic(batch, given, phases)
    data = given(calculate_entropy=bool(actor.calculate_entropy or actor.entropy_coeff), distillation_use_topk=False,
                 distillation_only=False, global_batch_size=actor.ppo_mini_batch_size,
                 mini_batch_size=actor.ppo_mini_batch_size, epochs=actor.ppo_epochs, seed=actor.data_loader_seed,
                 dataloader_kwargs={"shuffle": actor.shuffle}, compute_loss=True)
    phases.run("update", lambda: worker.update_actor(data))


def made(*_, torch_dtype, config, of=transformers.AutoModelForCausalLM, **__):
    """The model on the host, where verl loads it."""
    with torch.device("meta"):
        model = of.from_config(config, dtype=torch_dtype)
    model.tie_weights()
    on_device(model, "cpu")
    return model


def imports():
    """What a process needs before it has a device."""
    sys.meta_path.insert(0, Unused())
    flash_files()
    import verl.models.transformers.monkey_patch as monkey_patch
    import verl.workers.engine_workers  # noqa: F401

    monkey_patch.is_trl_available = lambda: False  # TRL 1.16 has no value heads to patch


def measure(entry):
    import verl.workers.engine_workers as engine_workers

    torch.cuda.set_device(0)
    dist.init_process_group("cpu:fake,cuda:nccl")  # verl has gloo for "fake", where there are other processes

    described = transformers.AutoConfig.for_model(**config_of(entry["model"]))
    kind = transformers.AutoModelForCausalLM._model_mapping[type(described)]
    described.architectures = [kind.__name__]
    transformers.AutoModelForCausalLM.from_pretrained = made
    engine_workers.get_rollout_class = lambda *_: Server
    with tempfile.TemporaryDirectory() as folder:
        described.save_pretrained(folder)
        return phases_of(entry, configuration(entry, folder), engine_workers.ActorRolloutRefWorker)


def phases_of(entry, config, worker_class, critic=None):
    reference = config.actor_rollout_ref.actor.use_kl_loss and not config.actor_rollout_ref.model.lora_rank
    role = "actor_rollout_ref" if reference else "actor_rollout"  # with adapters, the actor without them is the reference
    worker = worker_class(config.actor_rollout_ref, role)
    worker.init_model()
    for _ in range(STEPS):
        phases = Phases()
        step(worker, entry, config, phases, critic)
    moments = len(worker.actor.engine.optimizer.state)
    expected = STEPS * entry.get("verl", {}).get("mini_batches", 1)
    assert moments and all(s["step"] == expected for s in worker.actor.engine.optimizer.state.values()), moments
    return phases.figures


def write(path, done, entries=CASES):
    order = {json.dumps(entry): number for number, entry in enumerate(entries)}
    cases = sorted((c for c in done if json.dumps(c["setting"]) in order), key=lambda c: order[json.dumps(c["setting"])])
    models = {name: config_of(name) for name in dict.fromkeys(c["setting"][role] for role in ("model", "critic") for c in cases if role in c["setting"])}
    source = (f"verl 0.9.1, PyTorch {torch.__version__}, transformers {transformers.__version__}, flash-attn 2.8.3's cross "
              "entropy, emulated H100")
    with open(path + ".part", "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "models": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(config)}" for name, config in models.items()))
        for name, which in (("cases", True), ("beside", False)):
            listed = [json.dumps(c) for c in cases if ("options" in c) == which]
            file.write(("\n}" if which else "\n]") + f', "{name}": [\n' + ",\n".join(listed))
        file.write("\n]}\n")
    os.replace(path + ".part", path)


def told(entry, figures):
    """In the words and figures of the tests; a case that the planner has no options for as it was measured."""
    options = words(entry)
    if options is None:
        return {"setting": entry} | figures
    beside = {planned: {name: figures[phase][name] for name in ("allocated", "reserved")}
              for phase, planned in (("old_log_prob", "old_log_prob"), ("ref", "ref_log_prob")) if phase in figures}
    beside["update_weights"] = {"allocated": figures["update_weights"]["allocated"] + BUCKET}
    return {"model": entry["model"], "options": options, "peak_allocated": figures["update"]["allocated"],
            "peak_reserved": figures["update"]["reserved"], "task_phases": beside, "setting": entry, "measured": figures}


def one(entry, output):
    figures = measure(entry)
    print(json.dumps(entry), json.dumps(figures), flush=True)
    done = []
    if os.path.exists(output):
        with open(output) as file:
            written = json.load(file)
            done = [c for c in written["cases"] + written["beside"] if c["setting"] != entry]
    write(output, [*done, told(entry, figures)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    imports()
    one(CASES[given.case], given.output)


if __name__ == "__main__":
    sys.exit(main())
