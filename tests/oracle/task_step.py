"""The steps of --task: TRL's own DPOTrainer, KTOTrainer, RewardTrainer, ORPOTrainer, CPOTrainer (SimPO), GRPOTrainer and RLOOTrainer, with
their own defaults."""

import os
import sys
import tempfile

import datasets
import peft
import tokenizers
import torch
import transformers
import trl

import adapter_step
from ac_advisor_dryrun import emulator
from emulated_peaks import LAUNCHES
from loop_step import DTYPES
from loop_trainer import SecondStep, arguments, lora_config, router_loss, rows_of

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


def words_tokenizer():
    """A word a token."""
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2, "w": 3}, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>",
                                                unk_token="<unk>")


def pairs(options):
    """Rows of --seq tokens, --prompt of them the prompt's, the last the end that the trainers add."""
    text = {"prompt": "w " * options.prompt, "chosen": "w " * (options.seq - options.prompt - 1),
            "rejected": "w " * (options.seq - options.prompt - 1)}
    if options.task == "reward":
        text = {"chosen": text["prompt"] + text["chosen"], "rejected": text["prompt"] + text["rejected"]}
    return datasets.Dataset.from_list([text] * rows_of(options))


def answers(options):
    """Good and bad ones in turn."""
    text = {"prompt": "w " * options.prompt, "completion": "w " * (options.seq - options.prompt - 1)}
    return datasets.Dataset.from_list([text | {"label": i % 2 == 0} for i in range(rows_of(options))])


def prompts(options):
    return datasets.Dataset.from_list([{"prompt": "w " * options.prompt}] * rows_of(options))


def written_out(trainer):
    """The trainer, whose completions are all as long as they may be, by no engine: no memory of theirs is counted. Launches of
    what is done between its steps are counted apart."""

    class Written(trainer):
        between = [0] * len(LAUNCHES)

        def _prepare_inputs(self, batch):
            before = emulator.counts()
            inputs = super()._prepare_inputs(batch)
            if self.state.global_step == 1:
                self.between = [n + emulator.counts()[a][0] - before[a][0] for n, a in zip(self.between, LAUNCHES)]
            return inputs

        def _generate_single_turn(self, prompt_ids, *_, **__):
            written = [[3] * self.max_completion_length] * len(prompt_ids)
            return (written, None) if issubclass(trainer, trl.GRPOTrainer) else written

    return Written


def online_trainer(model, config, options, folder, more):
    grpo = options.task == "grpo"
    kind, arguments_of = (trl.GRPOTrainer, trl.GRPOConfig) if grpo else (trl.RLOOTrainer, trl.RLOOConfig)
    settings = common(options, folder)
    del settings["max_length"]
    beta = {} if options.ref is None else {"beta": 0.0 if options.ref == "none" else 0.04}
    if options.ref == "model" or (not grpo and options.ref is None and not options.lora):  # it is loaded by name
        sys.modules[kind.__module__].create_model_from_path = lambda *_, **__: build(
            config, options, DTYPES[options.param_dtype], False)
    return written_out(kind)(model, reward_funcs=lambda completions, **_: [float(i % 2) for i, _ in enumerate(completions)],
                             args=arguments_of(num_generations=2, max_completion_length=options.seq - options.prompt,
                                               **settings, **beta),
                             **(more | {"train_dataset": prompts(options)}))


def build(config, options, dtype, quantized):
    config = transformers.AutoConfig.for_model(**config)
    eager = options.attn == "eager" or config.model_type == "gpt_oss"  # which has no other in transformers
    config._attn_implementation = "eager" if eager else "sdpa"
    kind, more = transformers.AutoModelForCausalLM, {}
    if options.task == "reward":
        kind, config.num_labels = transformers.AutoModelForSequenceClassification, 1
    on_host = options.shard.startswith("zero") or options.shard.startswith("fsdp")
    with torch.device("meta" if quantized else "cpu" if on_host else "cuda"):
        model = kind.from_config(config, dtype=dtype, **more)
    if quantized:
        adapter_step.quantize(model, options.quantize)
        adapter_step.materialize(model)
    return model.train()


def adapters(options):
    if not options.lora:
        return None
    config = lora_config(options)
    if options.task == "reward":  # what RewardTrainer's own documentation gives
        config.task_type, config.modules_to_save = "SEQ_CLS", ["score"]
    return config


def common(options, folder):
    off = {"gradient_checkpointing": False} if options.ac == "none" else {}
    if options.offload == "activations":
        off["activation_offloading"] = True
    return {"max_length": options.seq} | off | router_loss(options) | arguments(options, folder)


def make_trainer(model, config, options, folder):
    dtype = DTYPES[options.param_dtype]
    more = {"processing_class": words_tokenizer(), "peft_config": adapters(options), "train_dataset": pairs(options),
            "callbacks": [SecondStep()]}
    if options.task in ("grpo", "rloo"):
        return online_trainer(model, config, options, folder, more)
    if options.task == "dpo":
        precomputed = options.ref == "precomputed"
        reference = build(config, options, dtype, False) if options.ref == "model" else None
        return trl.DPOTrainer(model, reference, args=trl.DPOConfig(
            precompute_ref_log_probs=precomputed, **common(options, folder)), **more)
    if options.task == "kto":
        reference = build(config, options, dtype, False) if options.ref == "model" else None
        return trl.KTOTrainer(model, reference, args=trl.KTOConfig(
            precompute_ref_log_probs=options.ref == "precomputed", **common(options, folder)),
            **(more | {"train_dataset": answers(options)}))
    if options.task == "reward":
        return trl.RewardTrainer(model, args=trl.RewardConfig(**common(options, folder)), **more)
    if options.task == "orpo":
        from trl.experimental.orpo import ORPOConfig, ORPOTrainer

        return ORPOTrainer(model, args=ORPOConfig(**common(options, folder)), **more)
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    return CPOTrainer(model, args=CPOConfig(loss_type="simpo", cpo_alpha=0.0, **common(options, folder)), **more)


def measure_task(config, options):
    """Figures of the second step, which has moments; reserved memory is that of both."""
    if options.task in ("dpo", "kto") and options.ref is None:
        options.ref = "adapter" if options.lora else "model"
    model = build(config, options, DTYPES[options.param_dtype], options.quantize != "none")
    torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(model, config, options, folder)
        trainer.train()
    second = next(c for c in trainer.callback_handler.callbacks if isinstance(c, SecondStep))
    launches = [n - apart for n, apart in zip(second.launches, getattr(trainer, "between", [0] * len(LAUNCHES)))]
    return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.memory_reserved(),
            "launches": {"step": launches}}
