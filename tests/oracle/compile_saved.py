"""What torch.compile keeps of a transformer block for its backward: AOTAutograd's own partitions, for seven budgets.

    ac-advisor dryrun --output /dev/null -- python compile_saved.py compile_saved.json [--only MODEL] [--again] [--joint FILE]

Each model's first block is compiled by itself with full graphs, as torchtitan does it. Inductor's front end traces
the joint graph with its decompositions and passes; instead of generating code, the partitioner is asked for what it
saves at each of torch._functorch.config.activation_memory_budget's values, and what it traced runs as it is. Parameters
and what else a block is given are left out. `--joint` writes the joint graphs as text.
"""

import argparse
import functools
import json
import operator
import os
import sys

import torch
import transformers
from torch._functorch import partitioners
from torch._inductor.compile_fx import compile_fx

import emulated_peaks
import training_step
from emulated_cases import config_of

BUDGETS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, 0.0)
# One of each family, of a real width and of a tiny one, where no layer has a window.
MODELS = ("llama1b", "smollm17b_untied_4layers", "mistral7b", "qwen2_05b_4layers", "qwen3_06b_4layers",
          "phi3_mini_4layers", "gemma_7b_4layers", "smollm3_3b_4layers", "granite31_8b_4layers", "olmo2_7b_4layers",
          "stablelm2_16b_4layers", "minitron_4b_4layers", "aya_8b_4layers", "pythia_14b_4layers", "opt_13b_4layers",
          "glm_9b_4layers", "small_llama", "tiny_llama", "tiny_mistral", "tiny_qwen2", "tiny_qwen3", "tiny_phi3",
          "tiny_gemma", "tiny_smollm3", "tiny_granite", "tiny_olmo2", "tiny_stablelm", "tiny_nemotron", "tiny_glm",
          "gpt2_12layers_undropped", "phi2_4layers", "glm4_9b_4layers",
          "tiny_gemma3", "tiny_olmo3",
          "ministral3_8b_4layers", "tiny_cohere2", "minicpm_2b_4layers", "tiny_minicpm", "starcoder2_3b_4layers_undropped",
          "tiny_starcoder2", "internlm25_7b_4layers", "tiny_internlm2",
          "baichuan2_7b_4layers", "tiny_baichuan",
          # mixtures of experts
          "mixtral8x7b_2layers", "qwen15_moe_27b_4layers", "qwen3_30b_a3b_4layers", "olmoe_1b_7b_4layers",
          "glm45_air_every_block", "small_mixtral", "tiny_mixtral", "tiny_qwen2_moe", "tiny_qwen3_moe", "tiny_olmoe",
          "tiny_glm4_moe", "tiny_glm4_moe_every_block")
SIZES = ((8, 2048), (2, 1000))


def named(node):
    """aten.mm.default, or of one of several outputs _scaled_dot_product_cudnn_attention.default[0]."""
    if node.target is operator.getitem:
        return f"{named(node.args[0])}[{node.args[1]}]"
    return str(node.target)


def described(nodes):
    return [[named(n), list(n.meta["val"].shape), str(n.meta["val"].dtype).removeprefix("torch.")]
            for n in nodes if n.op != "placeholder"]


class Recorder:
    """Asks the partitioner for each budget's saved values when it is asked for one."""

    def __init__(self, joint):
        self.saved, self.joint = None, joint
        self.choose = partitioners.choose_saved_values_set
        partitioners.choose_saved_values_set = self

    def __call__(self, graph, info, memory_budget=1):
        if self.saved is None:
            self.saved = {str(b): described(self.choose(graph, info, memory_budget=b)) for b in BUDGETS}
            if self.joint:
                with open(self.joint, "a") as file:
                    file.write(graph.owning_module.print_readable(print_output=False) + "\n")
        return self.choose(graph, info, memory_budget=memory_budget)


def as_traced(graph, *_, **__):
    return graph


def measure(model, batch, seq, joint):
    values = config_of(model) | {"num_hidden_layers": 1}
    values.pop("layer_types", None)
    emulated_peaks.config_of = lambda _: values
    step, _ = emulated_peaks.build(
        emulated_peaks.DEFAULTS | {"model": model, "ac": "none", "loss": "ce"}, lambda: None)
    recorder = Recorder(joint)
    for block in training_step.blocks_of(step.m):
        block.compile(fullgraph=True, backend=functools.partial(compile_fx, inner_compile=as_traced))
    ids, labels = (torch.randint(values["vocab_size"], (batch, seq)).cuda() for _ in range(2))
    step(ids, labels)
    partitioners.choose_saved_values_set = recorder.choose
    torch._dynamo.reset()
    return recorder.saved


def measure_of(model_of, model, batch, seq, joint):
    """The same of the model that `model_of` makes of a case."""
    plain = emulated_peaks.model_of
    emulated_peaks.model_of = model_of
    try:
        return measure(model, batch, seq, joint)
    finally:
        emulated_peaks.model_of = plain


def write(output, models, cases):
    source = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, emulated h100-80gb"
    with open(output + ".part", "w") as file:
        file.write('{"source": ' + json.dumps(source) + ', "models": {\n')
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(config)}" for name, config in models.items()))
        file.write('\n}, "cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
    os.replace(output + ".part", output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--again", action="store_true", help="those that the file has, too")
    parser.add_argument("--joint", help="where to write joint graphs")
    options = parser.parse_args()
    torch.ones((), device="cuda")
    known = []
    if os.path.exists(options.output):
        with open(options.output) as file:
            known = json.load(file)["cases"]
    cases, models = [], {}
    for model in MODELS:
        for batch, seq in SIZES if not model.startswith("tiny_") else ((2, 32),):
            have = [c for c in known if (c["model"], c["batch"], c["seq"]) == (model, batch, seq)]
            if options.only in model and (options.again or not have):
                saved = measure(model, batch, seq, options.joint)
                print(model, batch, seq, {b: len(s) for b, s in saved.items()}, flush=True)
                have = [{"model": model, "batch": batch, "seq": seq, "saved": saved}]
            if have:
                cases += have
                models[model] = config_of(model)
    write(options.output, models, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
