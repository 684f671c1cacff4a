"""Megatron-core's GPT and its training step, held and freed in the order of Megatron-LM's megatron/training/training.py."""

import contextlib
import functools

import torch
import torch.nn.functional as F
from megatron.core import parallel_state, tensor_parallel
from megatron.core.activations import squared_relu
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.fusions.fused_bias_dropout import bias_dropout_add_fused_train
from megatron.core.fusions.fused_bias_gelu import bias_gelu
from megatron.core.fusions.fused_bias_swiglu import bias_swiglu
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_decoder_block_spec,
    get_gpt_layer_local_spec,
    get_gpt_layer_with_transformer_engine_spec,
)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func, schedules
from megatron.core.transformer import MLATransformerConfig, TransformerConfig
from megatron.core.transformer.enums import AttnBackend
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.moe.router import TopKRouter
from megatron.core.utils import get_batch_on_this_cp_rank

OF_MODEL = ("vocab_size", "max_position_embeddings", "position_embedding_type", "untied", "squared_relu", "no_rope_fusion",
            "rotary_percent")


def layout(entry):
    """Pipeline outermost, ranks of a layer innermost, as Megatron-LM has them."""
    chunks = None
    if entry["layers_per_virtual_stage"]:
        chunks = entry["layers"] // entry["pp"] // entry["layers_per_virtual_stage"]
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=entry["tp"], pipeline_model_parallel_size=entry["pp"],
        context_parallel_size=entry["cp"], num_distributed_optimizer_instances=entry["optimizer_instances"],
        expert_model_parallel_size=entry["ep"], expert_tensor_parallel_size=entry["etp"] or entry["tp"],
        virtual_pipeline_model_parallel_size=chunks)
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    return chunks


def persists(entry, values):
    """PyTorch's norms, which a local layer has where Apex has none, refuse the option."""
    return entry["impl"] != "local" or entry["optimizer"] != "torch" and values.get("normalization") != "RMSNorm"


def config_of(entry, values, chunks):
    """What core_transformer_config_from_args makes of the options."""
    sizes = {key: value for key, value in values.items() if key not in OF_MODEL}
    swiglu = sizes.get("gated_linear_unit", False)
    biased = sizes.get("add_bias_linear", True)
    if values.get("squared_relu"):
        sizes["activation_func"] = squared_relu
    elif swiglu:
        sizes["activation_func"] = F.silu
    recompute = {}
    if entry["recompute"].startswith("full:"):
        recompute = {"recompute_granularity": "full", "recompute_method": "uniform",
                     "recompute_num_layers": int(entry["recompute"][5:])}
    elif entry["recompute"] == "selective":
        recompute = {"recompute_granularity": "selective", "recompute_modules": ["core_attn"]}
    elif entry["recompute"].startswith("modules:"):
        recompute = {"recompute_granularity": "selective", "recompute_modules": entry["recompute"][8:].split("+")}
    elif entry["recompute"].startswith("first:"):
        recompute = {"recompute_granularity": "full", "recompute_method": "block",
                     "recompute_num_layers": int(entry["recompute"][6:])}
    rotated = values.get("position_embedding_type") == "rope"
    of_kind = MLATransformerConfig if values.get("multi_latent_attention") else TransformerConfig
    return of_kind(
        **sizes, **recompute, bf16=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
        transformer_impl=entry["impl"], attention_backend=AttnBackend[entry["attn"]],
        tensor_model_parallel_size=entry["tp"], pipeline_model_parallel_size=entry["pp"],
        expert_model_parallel_size=entry["ep"], expert_tensor_parallel_size=entry["etp"] or entry["tp"],
        context_parallel_size=entry["cp"], virtual_pipeline_model_parallel_size=chunks,
        sequence_parallel=entry["sequence_parallel"], cross_entropy_loss_fusion=entry["cross_entropy_fusion"],
        deallocate_pipeline_outputs=True, overlap_p2p_comm=bool(chunks), batch_p2p_comm=not chunks,
        gradient_accumulation_fusion=entry["gradient_fusion"], attention_softmax_in_fp32=True, persist_layer_norm=persists(entry, values),
        masked_softmax_fusion=entry["masked_softmax_fusion"], bias_dropout_fusion=entry["bias_dropout_fusion"],
        bias_activation_fusion=entry["bias_activation_fusion"] and not values.get("squared_relu") and (swiglu or biased),
        apply_rope_fusion=rotated and entry["impl"] == "transformer_engine" and not values.get("no_rope_fusion"),
        deterministic_mode=entry["deterministic"],
        **({} if entry["fp8"] == "none" else {"fp8": "hybrid", "fp8_recipe": entry["fp8"]}))


def warm_up(entry, config):
    """set_jit_fusion_options: the fused functions are compiled before the model is there."""
    ranks = entry["tp"]
    made = functools.partial(torch.rand, dtype=torch.bfloat16, device="cuda")
    bias, given = made(config.ffn_hidden_size // ranks), made(entry["seq"], entry["batch"], config.ffn_hidden_size // ranks)
    for bias.requires_grad, given.requires_grad in ((True, False), (True, True)):
        for _ in range(5):
            out = bias_swiglu(given, bias) if config.gated_linear_unit else bias_gelu(bias, given)
    del bias, given, out
    shape = entry["seq"] // (ranks if entry["sequence_parallel"] else 1), entry["batch"], config.hidden_size
    given, residual = made(shape), made(shape)
    bias = made(config.hidden_size).expand_as(residual)
    for given.requires_grad, bias.requires_grad, residual.requires_grad in ((False, True, True), (True, True, True)):
        for _ in range(5):
            out = bias_dropout_add_fused_train([given, bias], residual, 0.1)
    del bias, given, residual, out
    torch.cuda.empty_cache()


def padded(vocabulary, ranks):
    """_vocab_size_with_padding."""
    return -(-vocabulary // (128 * ranks)) * 128 * ranks


def make_model(entry, values, config, chunks):
    """get_model: this rank's chunks, each inside Float16Module and DistributedDataParallel."""
    if "num_moe_experts" in values:
        spec = get_gpt_decoder_block_spec(config, entry["impl"] != "local", normalization=config.normalization)
    elif entry["impl"] == "local":
        spec = get_gpt_layer_local_spec(qk_layernorm=config.qk_layernorm, normalization=config.normalization)
    else:
        spec = get_gpt_layer_with_transformer_engine_spec(
            qk_layernorm=config.qk_layernorm, multi_latent_attention=config.multi_latent_attention)
    made = []
    for chunk in range(chunks or 1):
        stage = {"vp_stage": chunk if chunks else None, "ignore_virtual": False}
        made.append(GPTModel(
            config, spec, padded(values["vocab_size"], entry["tp"]), values["max_position_embeddings"],
            pre_process=parallel_state.is_pipeline_first_stage(**stage),
            post_process=parallel_state.is_pipeline_last_stage(**stage),
            share_embeddings_and_output_weights=not values.get("untied", False),
            position_embedding_type=values.get("position_embedding_type", "learned_absolute"),
            rotary_percent=values.get("rotary_percent", 1.0),
            vp_stage=stage["vp_stage"]))
    for module in made:
        module.cuda()
    made = [Float16Module(config, module) for module in made]
    data = parallel_state.get_data_parallel_world_size(with_context_parallel=True)
    options = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, overlap_grad_reduce=entry["overlap_grad_reduce"],
        overlap_param_gather=entry["overlap_param_gather"], check_for_nan_in_grad=True,
        use_distributed_optimizer=entry["use_distributed_optimizer"],
        num_distributed_optimizer_instances=entry["optimizer_instances"],
        bucket_size=max(40_000_000, 1_000_000 * data) if entry["overlap_grad_reduce"] else None)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        made = [DistributedDataParallel(config, options, module, disable_bucketing=i > 0) for i, module in enumerate(made)]
    torch.cuda.current_stream().wait_stream(aside)
    return made


def make_optimizer(entry, model):
    return get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1.5e-4, min_lr=1e-5, weight_decay=0.01, bf16=True, params_dtype=torch.bfloat16, clip_grad=1.0,
        use_distributed_optimizer=entry["use_distributed_optimizer"], overlap_param_gather=entry["overlap_param_gather"],
        log_num_zeros_in_grad=entry["log_num_zeros"]), model)


def prepare(entry, config, model, optimizer):
    """What train() sets before its loop."""
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    if entry["overlap_grad_reduce"]:
        config.no_sync_func = [chunk.no_sync for chunk in model]
        if len(model) == 1:
            config.no_sync_func = config.no_sync_func[0]
    if entry["overlap_param_gather"]:
        config.param_sync_func = None  # without --align-param-gather


def batches(entry):
    """A data loader's: pinned tensors of one micro-batch."""
    b, s = entry["batch"], entry["seq"]
    batch = {"tokens": torch.zeros(b, s, dtype=torch.int64), "labels": torch.zeros(b, s, dtype=torch.int64),
             "loss_mask": torch.ones(b, s), "position_ids": torch.arange(s).expand(b, s).contiguous(),
             "attention_mask": torch.ones(b, 1, s, s).tril() < 0.5}
    while True:
        yield dict(batch)


def on_device(batch, chunk):
    """get_batch: what a stage has no use for is let go of."""
    model = chunk.module.module
    first, last = model.pre_process, model.post_process
    one_stage = parallel_state.get_pipeline_model_parallel_world_size() == 1
    if not (first or last):
        return dict.fromkeys(batch)
    batch = {key: value.cuda(non_blocking=True) for key, value in batch.items()}
    batch = get_batch_on_this_cp_rank(batch)
    if not one_stage:
        for key in ("labels", "loss_mask") if first else ("tokens", "position_ids"):
            batch[key] = None
    return batch


def loss_of(loss_mask, output):
    losses = output.view(-1).float()
    loss_mask = loss_mask.view(-1).float()
    loss = torch.sum(losses * loss_mask)
    tokens = loss_mask.sum().clone().detach().to(torch.int)
    report = {"lm loss": torch.cat([loss.clone().detach().view(1), tokens.view(1)])}
    assert not loss.isnan() and not loss.isinf()
    return loss, tokens, report


def forward_step(enter, data, model):
    enter("forward")
    batch = on_device(next(data), model)
    output = model(batch["tokens"], batch["position_ids"], batch["attention_mask"], labels=batch["labels"])
    return output, functools.partial(loss_of, batch["loss_mask"])


@contextlib.contextmanager
def balanced():
    """Routers choose each expert as often as every other: what they would choose is computed from large float tensors, which
    the emulated device does not compute."""
    routing = TopKRouter.routing

    def in_turn(router, *args, **kwargs):
        probs, chosen = routing(router, *args, **kwargs)
        tokens, experts = chosen.shape
        turns = torch.arange(tokens * router.topk).view(tokens, router.topk) % experts
        chosen.data.copy_(torch.zeros(tokens, experts, dtype=torch.bool).scatter_(1, turns, True))
        return probs, chosen

    TopKRouter.routing = in_turn
    try:
        yield
    finally:
        TopKRouter.routing = routing


def forget(model):
    """What dispatchers of tokens keep of the last micro-batch has its graph, and that the model: no collector sees the cycle."""
    for chunk in model:
        for module in chunk.modules():
            kept = vars(getattr(module, "token_dispatcher", None) or object)
            for name in [name for name, value in kept.items() if isinstance(value, torch.Tensor)]:
                setattr(module.token_dispatcher, name, None)


@contextlib.contextmanager
def phases(model, enter):
    """Backward of a micro-batch begins a phase; the loss is begun by the output layer's end."""
    backward = schedules.backward_step

    def marked(*args, **kwargs):
        enter("backward")
        return backward(*args, **kwargs)

    schedules.backward_step = marked
    hooks = [chunk.module.module.output_layer.register_forward_hook(lambda *_: enter("loss"))
             for chunk in model if chunk.module.module.post_process]
    try:
        yield
    finally:
        schedules.backward_step = backward
        for hook in hooks:
            hook.remove()


def train_step(entry, model, optimizer, data, enter):
    for chunk in model:
        chunk.zero_grad_buffer()
    optimizer.zero_grad()
    with phases(model, enter), balanced():
        losses = get_forward_backward_func()(
            forward_step_func=functools.partial(forward_step, enter), data_iterator=data, model=model,
            num_microbatches=entry["micro_batches"], seq_length=entry["seq"], micro_batch_size=entry["batch"],
            decoder_seq_length=entry["seq"], forward_only=False)
    enter("optimizer")
    updated, norm, _ = optimizer.step()
    assert updated, "the step was skipped"
    if losses and parallel_state.is_pipeline_last_stage(ignore_virtual=True):
        value = torch.vstack([found["lm loss"].view(-1) for found in losses]).sum(dim=0)
        torch.distributed.all_reduce(value, group=parallel_state.get_data_parallel_group(with_context_parallel=True))
        return value[0] / value[1], norm
    return None, norm
