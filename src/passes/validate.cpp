// What cannot be combined, with the reason. Planner and trainer call this, so they say the same.
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"

namespace ac_advisor::passes {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw UserError(text); }

void check_positive(const char* option, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  refuse(std::string(option) + " " + std::to_string(value) + ": must be between 1 and " +
         std::to_string(most));
}

void check_sizes(const StepConfig& c) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  check_positive("--batch", c.run.batch, most);
  check_positive("--seq", c.run.seq, most);
  check_positive("--grad-accum", c.run.grad_accum, most);
  check_positive("--world", c.layout.world, 1 << 20);
  if (ir::checked_mul(c.run.batch, c.run.seq) > most)
    refuse("--batch " + std::to_string(c.run.batch) + " --seq " + std::to_string(c.run.seq) +
           ": more than 2^31 tokens on one rank; use a smaller --batch or --seq");
  if (c.memory.loss == LossKind::chunked) {
    check_positive("--loss chunked:TOKENS", c.memory.chunk_tokens, most);
    if (c.run.batch * c.run.seq / c.memory.chunk_tokens > 65536)
      refuse("--loss chunked:" + std::to_string(c.memory.chunk_tokens) +
             ": more than 65536 chunks; use larger ones");
  }
}

void check_checkpointing(const model::ModelSpec& spec, const StepConfig& c) {
  if (c.memory.ac == AcMode::budget && c.memory.ac_arg < 1)
    refuse("--ac budget: the size must be positive, such as budget:40GiB");
  if (c.memory.ac == AcMode::grouped || c.memory.ac == AcMode::every) {
    const char* name = c.memory.ac == AcMode::grouped ? "grouped" : "every";
    if (c.memory.ac_arg < 1)
      refuse(std::string("--ac ") + name + ":" + std::to_string(c.memory.ac_arg) +
             ": K must be at least 1");
    if (c.memory.ac_arg > spec.layers)
      refuse(std::string("--ac ") + name + ":" + std::to_string(c.memory.ac_arg) +
             ": the model has " + std::to_string(spec.layers) + " blocks; K must be at most that");
  }
  if (c.memory.scope == AcScope::submodule && c.memory.ac != AcMode::full &&
      c.memory.ac != AcMode::every && c.memory.ac != AcMode::none)
    refuse(
        "--ac-scope submodule goes with --ac full and --ac every:K only: the other modes name "
        "their own regions");
  if (c.memory.ac == AcMode::selective && c.layout.shard == Sharding::ddp && !c.runtime.force)
    refuse(
        "--ac selective needs --shard fsdp2 (as in NeMo AutoModel), not ddp; use fsdp2, or "
        "--force to plan it all the same");
  if (c.memory.ac == AcMode::selective && spec.kv_sharing)
    refuse(
        "--ac selective: this model shares keys and values between blocks, so a block cannot be "
        "recomputed alone; use --ac full --ac-scope submodule");
}

void check_sharding(const StepConfig& c) {
  if (c.layout.shard == Sharding::none && c.layout.world > 1)
    refuse("--world " + std::to_string(c.layout.world) +
           " with --shard none: choose ddp, zero1, zero2, "
           "fsdp2 or hsdp:N, or --world 1");
  if (c.layout.shard != Sharding::none && c.layout.world < 2)
    refuse("--shard needs --world 2 or more; with one rank use --shard none");
  if (c.layout.shard == Sharding::hsdp &&
      (c.layout.hsdp_shards < 2 || c.layout.world % c.layout.hsdp_shards != 0 ||
       c.layout.world / c.layout.hsdp_shards < 2))
    refuse("--shard hsdp:" + std::to_string(c.layout.hsdp_shards) + ": N must divide --world " +
           std::to_string(c.layout.world) +
           " and leave at least two replicas of at least two shards");
  if (c.layout.no_sync && c.precision.reduce_dtype != c.precision.compute_dtype &&
      c.layout.shard == Sharding::fsdp2)
    refuse(
        "--no-sync with --reduce-dtype other than the compute dtype: fsdp2 then keeps a second, "
        "widened copy of each gradient, which is not planned yet");
  if (c.layout.no_sync && (c.layout.shard == Sharding::zero1 || c.layout.shard == Sharding::zero2))
    refuse("--no-sync with " + std::string(c.layout.shard == Sharding::zero1 ? "zero1" : "zero2") +
           ": DeepSpeed reduces every micro-batch's buckets; leave --no-sync out");
  if (c.layout.keep_last_block && c.layout.shard != Sharding::fsdp2 &&
      c.layout.shard != Sharding::hsdp)
    refuse("--keep-last-block is about resharding: it goes with --shard fsdp2 or hsdp:N");
}

void check_precision(const StepConfig& c) {
  if (c.precision.param_dtype == DType::bf16 && c.precision.compute_dtype == DType::f32)
    refuse(
        "--compute-dtype fp32 with --param-dtype bf16: computing in more bits than are stored "
        "gains nothing; use --param-dtype fp32");
  const bool gathers = c.layout.shard == Sharding::fsdp2 || c.layout.shard == Sharding::hsdp;
  if (c.precision.param_dtype != c.precision.compute_dtype && !gathers && !c.precision.autocast)
    refuse(
        "--param-dtype fp32 --compute-dtype bf16 needs --shard fsdp2 or hsdp:N, whose gathered "
        "copies are in the compute dtype");
  if (c.precision.autocast)
    refuse(
        "--autocast is not planned yet: its cast cache follows rules of its own; use --shard "
        "fsdp2 with --compute-dtype bf16, or --param-dtype bf16");
  if (c.run.dropout < 0.0 || c.run.dropout >= 1.0)
    refuse("--dropout " + std::to_string(c.run.dropout) + ": must be at least 0 and below 1");
}

/// What the trainer cannot run, though the planner can plan it for PyTorch.
void check_trainer(const model::ModelSpec& spec, const StepConfig& c) {
  if (c.run.seq < 2) refuse("--seq 1 leaves no next token to predict; give 2 or more");
  const bool eager = c.run.attention == Attention::eager ||
                     (c.run.attention == Attention::automatic && spec.eager_attention_only);
  const bool dropout = c.run.dropout > 0.0 || spec.attention_dropout > 0.0;
  if (dropout && !eager)
    refuse("--dropout with flash attention: the trainer's has no dropout; use --attn eager");
  if (c.run.attention == Attention::cudnn)
    refuse("--attn cudnn: the trainer has flash and eager attention; use flash, eager or auto");
  for (std::int64_t window : spec.window)
    if (window > 0 && window < c.run.seq && !eager)
      refuse("a sliding window of " + std::to_string(window) + " tokens below --seq " +
             std::to_string(c.run.seq) +
             " with flash attention: the trainer's has no windows; use --attn eager");
  if (c.memory.loss == LossKind::chunked && spec.final_softcap)
    refuse(
        "--loss chunked: this model soft-caps its logits, which the chunked loss does not; use "
        "ce or lc-ce");
  if (c.run.capacity_factor != 1.0)
    refuse("--capacity-factor: the trainer routes tokens as the router says; leave it out");
  if (spec.kv_sharing) refuse("num_kv_shared_layers: the trainer has no shared keys and values");
  if (spec.rope_scaling && spec.rope_scaling->type != "linear" &&
      spec.rope_scaling->type != "llama3")
    refuse("rope_scaling \"" + spec.rope_scaling->type +
           "\": the trainer has default, linear and llama3");
}

/// A graph is captured once: what it holds must not change from step to step.
void check_cuda_graph(const StepConfig& c) {
  if (c.runtime.cuda_graph == CudaGraph::off) return;
  if (c.optimizer.kind != Optimizer::adamw)
    refuse(std::string("--cuda-graph ") + to_option(c.runtime.cuda_graph) + " with --optimizer " +
           to_option(c.optimizer.kind) +
           ": its learning rate is a number of the host's, which a graph would repeat; use adamw");
}

}  // namespace

void validate(const model::ModelSpec& spec, const StepConfig& c) {
  check_sizes(c);
  check_checkpointing(spec, c);
  check_sharding(c);
  check_precision(c);
  check_cuda_graph(c);
  if (c.runtime.kind == Runtime::ac_trainer) check_trainer(spec, c);
  if (spec.layers > 4096)
    refuse("num_hidden_layers " + std::to_string(spec.layers) + ": at most 4096");
  if (c.run.attention == Attention::efficient || c.run.attention == Attention::math)
    refuse(
        "--attn efficient and math: not planned yet, their kernels save other tensors; use flash, "
        "eager or auto");
  if (spec.eager_attention_only &&
      (c.run.attention != Attention::automatic && c.run.attention != Attention::eager))
    refuse("--attn: " + spec.family +
           " soft-caps its scores, which transformers computes with "
           "eager attention only; use --attn eager or auto");
}

}  // namespace ac_advisor::passes
