// Refused: FSDP1, FSDP2 and ZeRO.
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

void routed_in_fp32(model::ModelSpec& m) {
  m.family = "hunyuan_v1_moe";
  m.moe = model::MoeSpec{.experts = 8, .top_k = 2, .intermediate = 64};
  m.sparse_block.assign(static_cast<std::size_t>(m.layers), true);
}

const Case cases[] = {
    {"--reshard-after-forward N, N no divisor of a unit's ranks",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp2);
       c.layout.reshard_to = 3;
     },
     "--reshard-after-forward 3 of"},
    {"--reshard-after-forward N with --ep, --pp, --tp, --fp8-all-gather, --keep-last-block, --lora "
     "or "
     "--offload parameters",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp2);
       c.layout.world = 8;
       c.layout.reshard_to = 4;
       c.layout.keep_last_block = true;
     },
     "one dtype and one mesh alone"},
    {"--overlap-comm --offload optimizer, or ac-trainer",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero2);
       c.layout.overlap_comm = true;
       c.runtime.kind = Runtime::ac_trainer;
     },
     "the trainer reduces in line"},
    {"--ac-reentrant, --ac other than full, every:K and grouped:K",
     [](auto&, StepConfig& c) {
       c.memory.ac = AcMode::selective;
       c.memory.reentrant = true;
     },
     "--ac-reentrant --ac selective: use_reentrant=True takes no context_fn"},
    {"--ac-reentrant with --shard fsdp1, fsdp2 or hsdp:N, --pp, --tp, --cp, compiled kernels, "
     "--offload, an imported graph or ac-trainer",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp2);
       c.memory.ac = AcMode::full;
       c.memory.reentrant = true;
     },
     "an engine within the engine"},
    {"--shard fsdp1, an imported graph or a model with an encoder of images",
     [](model::ModelSpec& m, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       m.tower.emplace();
     },
     "flat parameters are planned of text mode"},
    {"--shard fsdp1, gated delta nets",
     [](model::ModelSpec& m, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       with_delta_nets(m);
     },
     "their parameters in fp32 beside others i"},
    {"--shard fsdp1 --tp, --cp or --ep",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.layout.tp = 2;
     },
     "flat parameters of parts of layers"},
    {"--shard fsdp1 --lora",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.adapters.rank = 8;
     },
     "share a flat gradient"},
    {"--shard fsdp1, checkpoints around several blocks",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.memory.ac = AcMode::grouped;
       c.memory.ac_arg = 2;
     },
     "--shard fsdp1 --ac grouped:2: the units' hooks would run again"},
    {"--shard fsdp1, fp16 or --grad-scaler",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.optimizer.grad_scaler = true;
     },
     "ShardedGradScaler"},
    {"--shard fsdp1 --ema",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.optimizer.ema = true;
     },
     "an average of flat parameters"},
    {"--shard fsdp1 --offload parameters --grad-accum N, N above 1, without --no-sync",
     [](auto&, StepConfig& c) {
       on_host(c);
       sharded(c, Sharding::fsdp1);
       c.run.grad_accum = 2;
     },
     "does not accumulate there; use --no-sync"},
    {"--shard fsdp1, ac-trainer",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--shard fsdp1, ac-trainer: planned for PyTorch"},
    {"--shard fsdp1 --gpu cpu",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::fsdp1);
       c.device.gpu = "cpu";
     },
     "streams and blocks are a GPU's"},
    {"--shard none --world N, N above 1", [](auto&, StepConfig& c) { c.layout.world = 8; },
     "--shard none --world 8"},
    {"--shard of any kind --world 1", [](auto&, StepConfig& c) { c.layout.shard = Sharding::ddp; },
     "--shard ddp: needs --world 2"},
    {"--shard hsdp:N --world W",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::hsdp;
       c.layout.hsdp_shards = 3;
       c.layout.world = 8;
     },
     "--shard hsdp:3 --world 8: the ranks that have the same parameters must be divisible by N"},
    {"--fsdp-unit torchtitan, a tied or scaled embedding, or learned positions",
     [](auto& m, StepConfig& c) {
       with_ends_apart(m, c);
       m.tied_embeddings = true;
     },
     "units of their own"},
    {"--fsdp-unit torchtitan --lora",
     [](auto& m, StepConfig& c) {
       with_ends_apart(m, c);
       c.adapters.rank = 8;
     },
     "--fsdp-unit torchtitan --lora"},
    {"--fsdp-unit torchtitan, a loss that reads the head's weight",
     [](auto& m, StepConfig& c) {
       with_ends_apart(m, c);
       c.memory.loss = LossKind::lc_ce;
     },
     "--fsdp-unit torchtitan --loss lc-ce"},
    {"--shard fsdp2 or hsdp:N --param-dtype fp32 --compute-dtype bf16 --ac, angles in fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       m.wide_rotary = true;
       sharded(c, Sharding::fsdp2);
       c.precision.param_dtype = DType::f32;
       c.memory.ac = AcMode::full;
     },
     "--shard fsdp2 in mixed precision, --ac full for llama"},
    {"--shard fsdp2 or hsdp:N --param-dtype bf16 or fp16, routers in fp32 that are trained",
     [](model::ModelSpec& m, StepConfig& c) {
       routed_in_fp32(m);
       sharded(c, Sharding::fsdp2);
     },
     "--shard fsdp2 for hunyuan_v1_moe"},
    {"--shard other than fsdp2 and hsdp:N, routers in fp32",
     [](model::ModelSpec& m, StepConfig& c) {
       routed_in_fp32(m);
       sharded(c, Sharding::ddp);
     },
     "--shard ddp for hunyuan_v1_moe"},
    {"--quantize, --fp8 or --lora-targets all-linear, routers that are linear layers",
     [](model::ModelSpec& m, StepConfig& c) {
       routed_in_fp32(m);
       c.adapters.rank = 8;
       c.adapters.targets = "all-linear";
     },
     "--lora-targets all-linear for hunyuan_v1_moe"},
    {"--keep-last-block --pp",
     [](model::ModelSpec& m, StepConfig& c) {
       in_stages(m, c);
       c.layout.keep_last_block = true;
       c.layout.shard = Sharding::fsdp2;
       c.layout.world = 4;
     },
     "stages keep all of their blocks"},
    {"--keep-last-block, neither fsdp2 nor hsdp:N",
     [](auto&, StepConfig& c) { c.layout.keep_last_block = true; }, "resharding"},
    {"--no-sync --shard zero1 or zero2",
     [](auto&, StepConfig& c) {
       c.layout.shard = Sharding::zero1;
       c.layout.world = 2;
       c.layout.no_sync = true;
     },
     "--no-sync --shard zero1: ZeRO 1 always"},
    {"--shard zero3, --loss other than ce, ce-no-upcast or tiled",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero3);
       c.memory.loss = LossKind::lc_ce;
     },
     "--shard zero3 --loss lc-ce"},
    {"--shard zero3, run by the trainer",
     [](auto&, StepConfig& c) {
       sharded(c, Sharding::zero3);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
    {"--offload gradients --shard zero1, zero2 or zero3",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::gradients;
       sharded(c, Sharding::zero2);
     },
     "use --offload optimizer"},
    {"--offload optimizer or parameters --shard zero1, zero2 or zero3, an optimizer other than "
     "adamw",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       sharded(c, Sharding::zero2);
       c.optimizer.kind = Optimizer::sgd;
     },
     "steps of the others than DeepSpeedCPUAda"},
    {"--offload optimizer or parameters --shard zero1, zero2 or zero3, ac-trainer or --gpu cpu",
     [](auto&, StepConfig& c) {
       c.memory.offload = Offload::optimizer;
       sharded(c, Sharding::zero2);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "not run by the trainer"},
};

}  // namespace

std::span<const Case> sharding_cases() { return cases; }

}  // namespace ac_advisor::test
