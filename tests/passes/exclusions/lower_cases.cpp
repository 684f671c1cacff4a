// Refused: layers and losses.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"MODEL by Megatron's arguments, --transformer-impl hf",
     [](model::ModelSpec& m, auto&) { m.family = "megatron"; }, "--transformer-impl hf"},
    {"--loss chunked:TOKENS", [](auto&, StepConfig& c) { c.memory.loss = LossKind::chunked; },
     "--loss chunked:0"},
    {"--loss chunked:TOKENS --batch B --seq S",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::chunked;
       c.memory.chunk_tokens = 1;
       c.run.seq = 1 << 17;
     },
     "use larger ones"},
    {"--output-dtype fp32, a loss other than ce or ce-no-upcast",
     [](auto&, StepConfig& c) {
       c.memory.wide_output = true;
       c.memory.loss = LossKind::lc_ce;
     },
     "--output-dtype fp32 --loss lc-ce"},
    {"--attn cudnn or efficient, heads whose elements are no multiple of 8",
     [](model::ModelSpec& m, StepConfig& c) {
       m.head_dim = 100;
       c.run.attention = Attention::cudnn;
     },
     "--attn cudnn for heads of 100"},
    {"--kernels compiled, --cp or --packing with --attn flash, heads whose elements are no "
     "multiple "
     "of 8",
     [](model::ModelSpec& m, StepConfig& c) {
       m.head_dim = 100;
       c.memory.kernels = Kernels::compiled;
     },
     "--kernels compiled for heads of 100"},
    {"--kernels compiled, --cp or --packing with --attn flash, heads wider than 256",
     [](model::ModelSpec& m, StepConfig& c) {
       m.head_dim = 264;
       c.layout.cp = 2;
     },
     "--cp for heads of 264"},
    {"--dropout P", [](auto&, StepConfig& c) { c.run.dropout = 1.5; }, "--dropout 1.5"},
    {"--attn efficient, keys and values that queries share",
     [](model::ModelSpec& m, StepConfig& c) {
       m.heads = 8;
       m.kv_heads = 2;
       c.run.attention = Attention::efficient;
     },
     "8 heads that share 2"},
    {"--attn cudnn or flash1 --gpu cpu",
     [](auto&, StepConfig& c) {
       c.device.gpu = "cpu";
       c.run.attention = Attention::cudnn;
     },
     "--attn cudnn --gpu cpu"},
    {"--attn efficient, --attn math, other than a step of PyTorch's on a GPU",
     [](auto&, StepConfig& c) {
       c.device.gpu = "cpu";
       c.run.attention = Attention::math;
     },
     "they are PyTorch's CUDA kernels, planned"},
    {"--attn flash, latent attention",
     [](model::ModelSpec& m, StepConfig& c) {
       m.latent.emplace();
       c.run.attention = Attention::flash;
     },
     "use auto or eager"},
    {"--attn other than eager and, where scores are soft-capped, flash, where they are so, have "
     "sinks or a bias, or are in fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       m.eager_attention_only = true;
       c.run.attention = Attention::flash;
     },
     "use --attn eager or auto"},
    {"--attn flash of soft-capped scores with --cp, dropout, fp32, --gpu cpu or the trainer",
     [](model::ModelSpec& m, StepConfig& c) {
       m.eager_attention_only = true;
       m.attention_softcap = 50.0;
       c.run.attention = Attention::flash;
       c.run.dropout = 0.1;
     },
     "Softcapping does not support dropout"},
    {"--loss other than ce and ce-no-upcast, an LM head whose rows are divided by their length",
     [](model::ModelSpec& m, StepConfig& c) {
       m.normalized_head = true;
       c.memory.loss = LossKind::lc_ce;
     },
     "use --loss ce"},
    {"--autocast, an LM head whose rows are divided by their length, or an RMSNorm whose division "
     "is a function of its own",
     [](model::ModelSpec& m, StepConfig& c) {
       m.normalized_head = true;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "what autocast casts of them is not plann"},
    {"--attn other than auto, where attention is always given a mask",
     [](model::ModelSpec& m, StepConfig& c) {
       m.always_masked = true;
       c.run.attention = Attention::eager;
     },
     "use --attn auto"},
    {"--autocast, where scores have a bias, are in fp32 or are computed without a kernel",
     [](model::ModelSpec& m, StepConfig& c) {
       m.alibi = true;
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "add --autocast none"},
    {"--pp N or --fsdp-unit torchtitan, where scores have a bias or blocks tables of angles",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.rotation = model::Rotation::table;
       m.max_positions = 4096;
     },
     "leave it out"},
    {"--loss lc-ce or chunked:TOKENS, an LM head with a bias",
     [](model::ModelSpec& m, StepConfig& c) {
       m.head_bias = true;
       c.memory.loss = LossKind::lc_ce;
     },
     "use --loss ce"},
    {"--loss ce-compiled --lora or --quantize",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::ce_compiled;
       c.adapters.rank = 8;
     },
     "no such adapters"},
    {"--loss ce-compiled, --shard other than none, ddp, fsdp2 and hsdp:R",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::ce_compiled;
       c.layout.world = 8;
       c.layout.shard = Sharding::zero2;
     },
     "--loss ce-compiled --shard zero2"},
    {"--loss ce-compiled --cuda-graph",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::ce_compiled;
       c.runtime.cuda_graph = CudaGraph::step;
     },
     "outside of CUDA graphs"},
    {"--loss tiled --seq 1",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::tiled;
       c.run.seq = 1;
     },
     "give 2 or more"},
    {"--loss chunked-logits:N, a sequence that N does not divide",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::chunked_logits;
       c.memory.chunk_tokens = 7;
       c.run.seq = 64;
     },
     "--loss chunked-logits:7 --seq 64"},
    {"--loss chunked-logits:N --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::chunked_logits;
       c.memory.chunk_tokens = 8;
       c.run.seq = 64;
       c.layout.shard = Sharding::zero1;
       c.layout.world = 8;
     },
     "--loss chunked-logits:8 --shard zero1"},
};

}  // namespace

std::span<const Case> lower_cases() { return cases; }

}  // namespace ac_advisor::test
