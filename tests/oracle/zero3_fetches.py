"""Writes zero3_fetches.json: what the hooks of DeepSpeed's ZeRO 3 gather and let go, in order.

    ac-advisor dryrun --world 2 --output /dev/null -- python zero3_fetches.py zero3_fetches.json

A case is a small Llama with limits of its own, so that they bind; its third micro-batch is recorded, in which the trace
is complete. A hook is [what it is, its module, the parameters of each gather that it begins, those that it frees].
"""

import json
import sys

import deepspeed
import torch
import transformers

LIMITS = {"stage3_param_persistence_threshold": 300, "stage3_prefetch_bucket_size": 30_000,
          "stage3_max_live_parameters": 1_000_000_000, "stage3_max_reuse_distance": 1_000_000_000}
CASES = [
    {"ac": "none", "tied": False},
    {"ac": "full", "tied": False},
    {"ac": "full", "tied": True},
    {"ac": "none", "tied": True, "stage3_max_live_parameters": 60_000},
    {"ac": "none", "tied": False, "stage3_max_reuse_distance": 50_000},
    {"ac": "full", "tied": False, "stage3_max_live_parameters": 90_000, "stage3_max_reuse_distance": 40_000},
    {"ac": "full", "tied": True, "stage3_prefetch_bucket_size": 5_000, "stage3_max_reuse_distance": 20_000},
    {"ac": "every:2", "tied": False, "stage3_max_live_parameters": 70_000, "stage3_max_reuse_distance": 60_000},
]


def config_of(case):
    return {"model_type": "llama", "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
            "tie_word_embeddings": case["tied"], "max_position_embeddings": 512}


def record(case):
    limits = {name: case.get(name, value) for name, value in LIMITS.items()}
    settings = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True,
                "zero_optimization": {"stage": 3, **limits}}
    known = transformers.integrations.HfDeepSpeedConfig(settings)
    config = transformers.AutoConfig.for_model(**config_of(case))
    network = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).train()
    if case["ac"] != "none":
        every = int(case["ac"].partition(":")[2] or 1)
        network.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False},
                                              every_n_layers=every)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=settings)
    names = {module: name for name, module in network.named_modules()}
    parameters = list(network.parameters())
    index = {p.ds_id: i for i, p in enumerate(parameters)}
    coordinator = engine.optimizer.parameter_offload.get_param_coordinator()
    hooks, gathers = [], []
    cls = type(coordinator)
    fetch, release = cls.fetch_sub_module, cls.release_sub_module
    gather, leftovers = cls._PartitionedParameterCoordinator__all_gather_params_, cls.release_backward_leftovers

    def available():
        return {i for i, p in enumerate(parameters) if p.ds_status.name != "NOT_AVAILABLE"}

    def gathering(self, params, forward, quantize=False):
        gathers.append(sorted(index[p.ds_id] for p in params if p.ds_status.name == "NOT_AVAILABLE"))
        return gather(self, params, forward, quantize)

    def noted(what, module, call):
        before = available()
        gathers.clear()
        call()
        freed = sorted(before - available())
        hooks.append([what, module, [g for g in gathers if g], freed])

    def fetching(self, module, forward):
        noted("fetch forward" if forward else "fetch backward", names[module], lambda: fetch(self, module, forward))

    def releasing(self, module, forward=False):
        noted("release forward" if forward else "release backward", names[module],
              lambda: release(self, module, forward))

    def leaving(self):
        noted("end backward", "", lambda: leftovers(self))

    cls.fetch_sub_module, cls.release_sub_module = fetching, releasing
    cls._PartitionedParameterCoordinator__all_gather_params_ = gathering
    cls.release_backward_leftovers = leaving
    ids = torch.zeros(1, 64, dtype=torch.int64, device="cuda")
    try:
        for _ in range(3):
            hooks.clear()
            engine.backward(engine(input_ids=ids, labels=ids, use_cache=False).loss)
            engine.step()
    finally:
        cls.fetch_sub_module, cls.release_sub_module = fetch, release
        cls._PartitionedParameterCoordinator__all_gather_params_ = gather
        cls.release_backward_leftovers = leftovers
    del known
    engine.destroy()
    own = {name: sorted(index[p.ds_id] for p in module.parameters(recurse=False)) for module, name in names.items()}
    return {"ac": case["ac"], "modules": own, "config": config_of(case), "limits": limits,
            "parameters": [[p.ds_numel, bool(p.ds_persist)] for p in parameters], "hooks": list(hooks)}


def main():
    done = [record(case) for case in CASES]
    with open(sys.argv[1], "w") as file:
        file.write('{"source": "DeepSpeed 0.19.8, transformers ' + transformers.__version__ + '", "cases": [\n')
        file.write(",\n".join(json.dumps(case) for case in done) + "\n]}\n")


if __name__ == "__main__":
    main()
