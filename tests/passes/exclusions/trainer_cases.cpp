// Refused: compressed gradients, and what the trainer does not run.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

const Case cases[] = {
    {"--grad-compression HOW --grad-accum K",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression = {.kind = Compression::powersgd, .rank = 4};
       c.run.grad_accum = 2;
     },
     "every micro-batch's backward"},
    {"--grad-compression powersgd:RANK of 3 or more, gradients in fp32",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression = {.kind = Compression::powersgd, .rank = 4};
       c.precision.param_dtype = c.precision.compute_dtype = DType::f32;
     },
     "cuSOLVER"},
    {"--grad-compression HOW --grad-scaler",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression = {.kind = Compression::powersgd, .rank = 4};
       c.optimizer.grad_scaler = true;
     },
     "scaled errors"},
    {"--torch 2.15",
     [](auto&, StepConfig& c) {
       c.runtime.torch = TorchVersion::v2_15;
       c.runtime.kind = Runtime::ac_trainer;
       c.device.gpu = "h100-80gb";
     },
     "LibTorch 2.11"},
    {"--grad-compression HOW, ac-trainer on a GPU",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::ddp;
       c.layout.world = 2;
       c.compression = {.kind = Compression::powersgd, .rank = 4};
       c.runtime.kind = Runtime::ac_trainer;
       c.device.gpu = "h100-80gb";
     },
     "the CPU's alone"},
    {"--loss ce-compiled",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.memory.loss = LossKind::ce_compiled;
     },
     "not run by the trainer"},
    {"--clip-grad --shard zero1 or zero2",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.clip_grad = 1.0;
       sharded(c, Sharding::zero2);
     },
     "of FSDP2's shards"},
    {"--ema, --optimizer-in-backward",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.ema = true;
     },
     "not run by the trainer"},
    {"--optimizer other than adamw, adamw-foreach, sgd, adamw-8bit and adamw-8bit-torchao",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.kind = Optimizer::sgd_momentum;
     },
     "not run by the trainer"},
    {"--optimizer adamw-8bit or adamw-8bit-torchao, on a GPU",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.optimizer.kind = Optimizer::adamw_8bit;
       c.device.gpu = "h100-80gb";
     },
     "the CPU's alone"},
    {"--seq 1",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.seq = 1;
     },
     "no next token"},
    {"--dropout with flash attention",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.dropout = 0.5;
     },
     "--attn eager"},
    {"--attn cudnn, --attn flash1",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.attention = Attention::cudnn;
     },
     "the trainer has flash and eager"},
    {"a sliding window below --seq with flash attention",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       m.window[1] = 16;
     },
     "a sliding window of 16 tokens below --seq 32"},
    {"--loss chunked:TOKENS, a model that soft-caps its logits",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.memory.loss = LossKind::chunked;
       c.memory.chunk_tokens = 16;
       m.final_softcap = 30.0;
     },
     "use ce or lc-ce"},
    {"--capacity-factor",
     [](auto&, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       c.run.capacity_factor = 2.0;
     },
     "leave it out"},
    {"num_kv_shared_layers",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       m.kv_sharing = true;
     },
     "shared keys and values"},
    {"vision_config",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       m.tower.emplace();
     },
     "no encoder of images"},
    {"rope_scaling of another type",
     [](model::ModelSpec& m, StepConfig& c) {
       c.runtime.kind = Runtime::ac_trainer;
       m.rope_scaling = model::RopeScaling{.type = "yarn"};
     },
     "rope_scaling \"yarn\""},
    {"LayerNorm, an MLP without a gate, attention and MLP side by side, an interleaved rotation, "
     "learned positions, a shared expert, latent attention, attention sinks, positions in three "
     "grids, queries scaled by position, gated delta nets, routers of granitemoe and minimax_m2",
     [](model::ModelSpec& m, StepConfig& c) {
       m.norm = model::Norm::layer;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--loss tiled, --loss chunked-logits:N",
     [](auto&, StepConfig& c) {
       c.memory.loss = LossKind::tiled;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--tp --no-loss-parallel",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.layout.loss_parallel = false;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "leave --no-loss-parallel out"},
    {"--tp --no-sync, --shard hsdp:N or an optimizer other than adamw and sgd",
     [](auto&, StepConfig& c) {
       c.layout.tp = c.layout.world = 2;
       c.optimizer.kind = Optimizer::adamw_foreach;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--shard none or fsdp2"},
    {"--cp --tp, --pp or --shard hsdp:N",
     [](auto&, StepConfig& c) {
       in_a_ring(c);
       c.layout.tp = 2;
       c.layout.world = 4;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--tp or --pp, dropout",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       m.attention_dropout = 0.1;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "drop the same elements"},
};

}  // namespace

std::span<const Case> trainer_cases() { return cases; }

}  // namespace ac_advisor::test
