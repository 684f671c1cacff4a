"""As emulated_peaks.py, of the steps that drawn_finetune_cases.py draws. Of those inside a Trainer the second step's
peak, what is reserved from its construction on, and the launches of the whole step.

    ac-advisor dryrun [--world N] --output /dev/null -- python drawn_finetune_peaks.py drawn_finetune_peaks.json

Needs torchtune 0.6.1's and transformer_engine 2.14.0's files on PYTHONPATH.
"""

import contextlib
import gc
import sys

sys.modules["transformer_engine"] = None  # PEFT looks for it once, and would import what has no kernels here
import packed_flash  # noqa: E402, F401  before transformers
import bitsandbytes.functional
import torch
from accelerate.utils import convert_outputs_to_fp32
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from trl.models.activation_offloading import get_act_offloading_ctx_manager

import adapter_step
import emulated_peaks
import fp16_peaks
import loop_step
import loop_trainer
import training_step

PLAIN_MODEL = emulated_peaks.model_of

import optimizer_peaks  # noqa: E402  it and the next put their own in emulated_peaks' place
import packing_peaks  # noqa: E402
import peft_peaks  # noqa: E402
import torchtune_peaks  # noqa: E402
from drawn_finetune_cases import TRAINER, TUNE, drawn_finetune_cases  # noqa: E402
from emulated_cases import config_of  # noqa: E402
from training_step import DTYPES  # noqa: E402

del sys.modules["transformer_engine"]
emulated_peaks.model_of = PLAIN_MODEL
MORE = {"autocast": "none", "grad_scaler": False, "clip_grad": 0.0, "packing": 0, "ema": False, "offload": "none",
        "output_dtype": "bf16"}


def model_of(entry):
    """The model that is called, and the one that has blocks and head."""
    if entry.get("kbit_prepare"):  # which leaves fp32, whatever was loaded; bf16 is what a quantized base is loaded in
        entry = entry | {"param_dtype": "bf16"}
    base = packing_peaks.model_of(entry) if entry["packing"] else PLAIN_MODEL(entry)
    if not entry.get("lora"):
        return base, base
    if entry["shard"] == "fsdp2":
        if entry["ac"] != "none":
            base.enable_input_require_grads()
        peft_peaks.plain = lambda _: base
        adapted = peft_peaks.model_of({"lora_targets": adapter_step.DEFAULTS["lora_targets"]} | entry)
        return adapted, adapted
    if entry.get("quantize"):
        adapter_step.quantize(base, entry["quantize"])
        adapter_step.materialize(base)
    else:
        emulated_peaks.on_device(base)
    adapted = adapter_step.adapt(base, adapter_step.DEFAULTS | entry)
    return adapted, adapted.base_model.model


def parallel(step, blocks, entry):
    """A base that is on the device already is not made again."""
    if not entry.get("lora") or entry["shard"] == "fsdp2":
        return emulated_peaks.parallel(step, blocks, entry)
    return emulated_peaks.data_parallel(step, entry) if entry["shard"] == "ddp" else step


def build(entry, on_loss):
    called, base = model_of(entry)
    blocks = training_step.blocks_of(base)
    training_step.checkpoint_blocks(base, emulated_peaks.ac_of(entry))
    if entry["loss"] == "ce-no-upcast":
        base.loss_function = loop_step.loss_without_upcast
    if entry["packing"]:
        step = packing_peaks.Step(called, base, "hf", on_loss)
    else:
        step = training_step.Step(called, "hf", on_loss)
    if entry["output_dtype"] == "fp32":  # accelerate's prepare_model: autocast inside, the cast around it
        inside = torch.autocast("cuda", DTYPES[entry["autocast"]])(step.forward) if entry["autocast"] != "none" else step.forward
        step.forward = convert_outputs_to_fp32(inside)
    return step, parallel(step, blocks, entry)


def make_optimizer(entry, step):
    name, trained = entry["optimizer"], [p for p in step.parameters() if p.requires_grad]
    if entry.get("master_weights") or entry["offload"] in ("optimizer", "gradients"):
        return optimizer_peaks.make_optimizer({k: v for k, v in entry.items() if k != "clip_grad"}, step)
    if name == "muon":
        return loop_step.MuonBesideAdamW(step)
    return torch.optim.SGD(trained, lr=1e-3) if name == "sgd" else loop_step.make_optimizer(name, trained)


def batch_of(entry, vocabulary):
    if entry["packing"]:
        return packing_peaks.row_of(entry, vocabulary)
    return {name: torch.randint(vocabulary, (entry["batch"], entry["seq"])).cuda() for name in ("ids", "labels")}


def steps(entry, marks, build):
    step, trained = build(entry, lambda: marks.enter("loss"))
    optimizer = make_optimizer(entry, step)
    scaler = torch.amp.GradScaler("cuda", enabled=entry["grad_scaler"])
    average = AveragedModel(step.m, multi_avg_fn=get_ema_multi_avg_fn(0.999)) if entry["ema"] else None
    batch = batch_of(entry, step.m.config.get_text_config().vocab_size)
    around = contextlib.nullcontext()
    if entry["offload"] == "activations":
        around = get_act_offloading_ctx_manager(step.m)
    outside = entry | ({"autocast": "none"} if entry["output_dtype"] == "fp32" else {})
    gc.collect()
    torch.cuda.empty_cache()
    kept, found = [], []
    for _ in range(3 if entry["shard"] == "ddp" else 2):
        marks.figures = {}
        fp16_peaks.train(outside, trained, batch, optimizer, scaler, marks.enter, kept, around)
        if average:
            average.update_parameters(step.m)
        marks.enter(None)
        found.append(marks.figures)
    return found


def trainers_step(entry):
    words = " ".join(f"--{key.replace('_', '-')}" + ("" if value is True else f" {value}")
                     for key, value in entry.items() if key != "model")
    options = loop_step.parse(words)
    torch.backends.cuda.enable_cudnn_sdp(options.attn != "flash" or options.packing == 0)
    more = {"activation_offloading": True} if options.offload == "activations" else {}
    return loop_trainer.measure_trainer(config_of(entry["model"]), options, DTYPES[options.param_dtype], **more)


def measure(entry):
    framework = entry.get("framework")
    try:
        if framework in TRAINER:
            return trainers_step(entry)
        if framework == TUNE:
            return torchtune_peaks.measure(entry)
        return emulated_peaks.measure(MORE | entry, build, steps)
    finally:
        bitsandbytes.functional.name2qmap.clear()  # the code books, and modules, that it keeps for a process
        bitsandbytes.optim.GlobalOptimManager.get_instance().initialize()


if __name__ == "__main__":
    sys.exit(emulated_peaks.main(list(drawn_finetune_cases()), measure, __doc__))
