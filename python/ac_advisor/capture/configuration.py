"""A model of transformers by its config.json: the class with a loss that its `architectures` name, or that its type
has, and inputs for that loss. Their values do not matter: nothing that a step holds depends on them but the routing of
experts, which the emulated device settles."""

import inspect
import json

import torch
import transformers
from transformers.initialization import TORCH_INIT_FUNCTIONS
from transformers.models.auto import modeling_auto

from .graph import DTYPES


class Unplanned(Exception):
    """The configuration gives no step that can be captured; says why."""


# --- inputs, by what the loss asks for --------------------------------------------------------------


def ids_of(config, batch, seq):
    return torch.randint(config.get_text_config(decoder=True).vocab_size, (batch, seq))


def images_of(config, batch):
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None)
    if not isinstance(size, int):
        raise Unplanned(f"what images {config.model_type} takes is not known here; capture it as MODULE:FUNCTION")
    return torch.randn(batch, getattr(vision, "num_channels", 3), size, size)


WITH_AN_IMAGE = ("git",)  # their losses leave out an image's places whether there is one or not


def language(config, batch, seq):
    inputs = {"input_ids": ids_of(config, batch, seq), "labels": ids_of(config, batch, seq)}
    return inputs | ({"pixel_values": images_of(config, batch)} if config.model_type in WITH_AN_IMAGE else {})


def classes(config, batch, seq):
    return {"input_ids": ids_of(config, batch, seq), "labels": torch.randint(config.num_labels, (batch,))}


def classes_of_tokens(config, batch, seq):
    return {"input_ids": ids_of(config, batch, seq), "labels": torch.randint(config.num_labels, (batch, seq))}


def spans(config, batch, seq):
    ends = {f"{end}_positions": torch.randint(seq, (batch,)) for end in ("start", "end")}
    return {"input_ids": ids_of(config, batch, seq)} | ends


def speech(config, batch, seq):
    if not hasattr(config, "num_mel_bins") or not hasattr(config, "max_source_positions"):
        raise Unplanned(f"what sound {config.model_type} takes is not known here; capture it as MODULE:FUNCTION")
    return {"input_features": torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions),
            "labels": ids_of(config, batch, seq)}


def classes_of_images(config, batch, seq):
    return {"pixel_values": images_of(config, batch), "labels": torch.randint(config.num_labels, (batch,))}


HEADS = (  # the auto class, and what its models' losses ask for; of a type without `architectures` the first that has it
    ("CAUSAL_LM", transformers.AutoModelForCausalLM, language),
    ("SEQ_TO_SEQ_CAUSAL_LM", transformers.AutoModelForSeq2SeqLM, language),
    ("SPEECH_SEQ_2_SEQ", transformers.AutoModelForSpeechSeq2Seq, speech),
    ("IMAGE_TEXT_TO_TEXT", transformers.AutoModelForImageTextToText, language),
    ("MASKED_LM", transformers.AutoModelForMaskedLM, language),
    ("SEQUENCE_CLASSIFICATION", transformers.AutoModelForSequenceClassification, classes),
    ("TOKEN_CLASSIFICATION", transformers.AutoModelForTokenClassification, classes_of_tokens),
    ("QUESTION_ANSWERING", transformers.AutoModelForQuestionAnswering, spans),
    ("IMAGE_CLASSIFICATION", transformers.AutoModelForImageClassification, classes_of_images),
)


def names_of(head, model_type):
    names = getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES").get(model_type, ())
    return (names,) if isinstance(names, str) else tuple(names)


def head_of(config):
    """(class's name, auto class, inputs)."""
    wanted = tuple(getattr(config, "architectures", None) or ())
    decoder_alone = [head for head in HEADS if not (config.is_encoder_decoder and head[0] == "CAUSAL_LM")]
    for head, auto, inputs in HEADS if wanted else decoder_alone:
        for name in names_of(head, config.model_type):
            if not wanted or name in wanted:
                return name, auto, inputs
    known = [name for head, _, _ in HEADS for name in names_of(head, config.model_type)]
    if wanted and known:
        raise Unplanned(f'"architectures" {list(wanted)}: no class that has a loss here; one of {", ".join(known)}')
    raise Unplanned(f'"model_type" "{config.model_type}": transformers {transformers.__version__} has no model of it '
                    "with the loss of a language model or a classifier")


def finite_or_not(value):
    """transformers 5 writes {"__float__": "Infinity"}."""
    if isinstance(value, dict):
        if set(value) == {"__float__"}:
            return float(value["__float__"])
        return {key: finite_or_not(one) for key, one in value.items()}
    return [finite_or_not(one) for one in value] if isinstance(value, list) else value


def read(path):
    """transformers' configuration object. Code that comes with a model is not run."""
    with open(path) as file:
        values = json.load(file)
    model_type = values.get("model_type")
    if model_type not in transformers.models.auto.configuration_auto.CONFIG_MAPPING:
        raise Unplanned(f'"model_type" {json.dumps(model_type)}: transformers {transformers.__version__} has no such '
                        "model" + (", and code of its own (auto_map) is not run" if "auto_map" in values else ""))
    values = finite_or_not(values)
    values.pop("quantization_config", None)  # the weights as they were published: what trains is not quantized
    return transformers.AutoConfig.for_model(**values)


class Configured:
    """A `make_model(batch, seq)` of a config.json; parameters are made in `dtype`. With `autocast` the forward, and
    the loss that it makes, run under torch.autocast in bf16."""

    def __init__(self, path, dtype, autocast=False):
        self.config, self.dtype, self.autocast = read(path), DTYPES[dtype], autocast
        self.name, self.auto, self.inputs = head_of(self.config)
        if self.config.is_encoder_decoder and getattr(self.config, "decoder_start_token_id", None) is None:
            self.config.decoder_start_token_id = 0  # which token it is changes nothing
        self.given = []

    def about(self):
        """Who made the graph, once it is made."""
        given = ", ".join(self.given[:-1]) + " and " + self.given[-1]
        told = {"model": self.name, "transformers": transformers.__version__, "given": given}
        return told | ({"autocast": "bf16"} if self.autocast else {})

    def __call__(self, batch, seq):
        # Its decomposition is cuSOLVER's, which the emulated device does not answer; weights have no values there.
        TORCH_INIT_FUNCTIONS["orthogonal_"] = lambda tensor, **_: tensor
        model = self.auto.from_config(self.config, dtype=self.dtype)
        taken = inspect.signature(model.forward).parameters
        inputs = self.inputs(self.config, batch, seq)
        self.given = list(inputs)
        if takes_use_cache(taken, self.config):
            inputs["use_cache"] = False
        for name in ("token_type_ids", "mm_token_type_ids"):  # without them some wrappers do not train: all are text
            if name in taken and "pixel_values" in taken:
                inputs[name] = torch.zeros_like(inputs["input_ids"])
        if self.autocast:
            model.forward = torch.autocast("cuda", dtype=torch.bfloat16)(model.forward)
        floats = {name: value.to(self.dtype) for name, value in inputs.items() if value_is_float(value)}
        return model, inputs | floats, None


def takes_use_cache(parameters, config):
    """By name, or among the rest that it hands on to the model inside, which has one by default."""
    hands_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return "use_cache" in parameters or (hands_on and getattr(config.get_text_config(), "use_cache", None) is True)


def value_is_float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()
