"""A step of ms-swift: its own argument classes, tuners, templates and trainers, over models that are made on the device and rows that
take the place of a dataset. No weights, tokenizers or files are read."""

import contextlib
import json
import os
import tempfile

import datasets
import torch
import transformers

os.environ.setdefault("USE_HF", "1")

import swift.utils  # noqa: E402
from swift.arguments import RLHFArguments, SftArguments  # noqa: E402
from swift.pipelines.train.rlhf import SwiftRLHF  # noqa: E402
from swift.pipelines.train.sft import SwiftSft  # noqa: E402

import adapter_step  # noqa: E402
from loop_trainer import LAUNCHES, SecondStep, emulator  # noqa: E402, F401
from task_step import words_tokenizer  # noqa: E402

MODEL_TYPES = {"qwen2_5_vl": "qwen2_5_vl", "qwen3_vl": "qwen3_vl"}
CLASSES = {"qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration", "qwen3_vl": "Qwen3VLForConditionalGeneration"}


class Rows(torch.utils.data.Dataset):
    """One encoded row, as often as it is asked for."""

    def __init__(self, row, count=4096):
        self.row, self.count = row, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        row = self.row(index) if callable(self.row) else self.row
        return dict(row)


def processor_of(config):
    """A tokenizer of a few words; of a model of images with the processor of its images, whose sizes are its own defaults."""
    tokenizer = words_tokenizer()
    if not hasattr(config, "vision_config"):
        return tokenizer
    vision = config.vision_config
    images = transformers.Qwen2VLImageProcessorFast(patch_size=vision.patch_size, merge_size=vision.spatial_merge_size,
                                                    temporal_patch_size=vision.temporal_patch_size)
    videos = transformers.Qwen2VLVideoProcessor(patch_size=vision.patch_size, merge_size=vision.spatial_merge_size)
    cls = transformers.Qwen2_5_VLProcessor if config.model_type == "qwen2_5_vl" else transformers.Qwen3VLProcessor
    return cls(image_processor=images, tokenizer=tokenizer, video_processor=videos)


class Loader:
    """In place of what loads a checkpoint: as its loaders leave a model and its processor."""

    def __init__(self, values, dtype, quantize):
        self.config = transformers.AutoConfig.for_model(**values)
        self.dtype, self.quantize = dtype, quantize

    def model(self):
        self.config._attn_implementation = "sdpa"
        with torch.device("meta" if self.quantize else "cuda"):
            auto = getattr(transformers, CLASSES.get(self.config.model_type, "AutoModelForCausalLM"))
            make = auto._from_config if self.config.model_type in CLASSES else auto.from_config
            model = make(self.config, dtype=self.dtype)
        if self.quantize:
            adapter_step.quantize(model, self.quantize)
            adapter_step.materialize(model)
        torch.cuda.empty_cache()
        return model

    def load(self, args, **given):
        from swift.model.model_meta import MODEL_MAPPING
        processor, model = processor_of(self.config), self.model()
        loader = MODEL_MAPPING[args.model_type].loader(args.model_info, args.model_meta, model_kwargs={})
        if hasattr(model.model, "visual"):  # Qwen2VLLoader.get_model, Qwen3VLLoader.get_model
            from swift.model.models import qwen
            loader._compat_transformers5(model)
            qwen.patch_get_input_embeddings(model.model.visual, "patch_embed")
            if self.config.model_type == "qwen3_vl":
                qwen._compat_qwen3_vl_mixed_data(model.model, processor)
        loader._postprocess_processor(processor)
        loader._postprocess_model(args.model_dir, model)
        for owner in (model, processor):
            owner.model_info, owner.model_meta = args.model_info, args.model_meta
        return model, processor


class Measured(transformers.TrainerCallback):
    def __init__(self):
        self.peaks = {}

    def on_train_end(self, *_, **__):
        self.peaks.update(peak_allocated=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.memory_reserved())


@contextlib.contextmanager
def folder_of(config):
    """Where the arguments look a model up: its configuration alone."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config.to_dict() | {"architectures": [CLASSES.get(config.model_type, "LlamaForCausalLM")]}, file, default=str)
        yield folder


def run(values, words, rows, quantize="", rlhf=False, model_type=None, template=None, look=None):
    """`words`: what a command says. `look(model, args)`: once it is prepared for training."""
    loader = Loader(values, torch.bfloat16, quantize)
    pipeline, arguments = (SwiftRLHF, RLHFArguments) if rlhf else (SwiftSft, SftArguments)
    with folder_of(loader.config) as folder:
        model_type = model_type or MODEL_TYPES.get(loader.config.model_type)
        template = template or model_type  # of a model of images it is called as its type
        args = arguments(model=folder, model_type=model_type, template=template, dataset=["unused"], output_dir=folder,
                         max_steps=SecondStep.number + 1, save_strategy="no", logging_steps=1000, disable_tqdm=True, report_to=[],
                         torch_dtype="bfloat16", dataloader_num_workers=0, check_model=False, add_version=False, **words)
        args.training_args.logging_strategy = "no"
        args.get_model_processor = lambda **given: loader.load(args, **given)
        second, measured = SecondStep(), Measured()

        class Pipeline(pipeline):
            def _prepare_dataset(self):
                return Rows(rows), None

            def train(self, trainer):
                if look:
                    look(trainer.model, args)
                trainer.add_callback(second)
                trainer.add_callback(measured)
                trainer.train()

        args.save_args = lambda *_: None
        Pipeline._prepare_generation_config = lambda self: None
        done = Pipeline.__new__(Pipeline)
        done.args = args
        done.train_msg = {}
        done._prepare_model_tokenizer()
        done._prepare_template()
        done.run()
    return measured.peaks | {"launches": {"step": second.launches}}
