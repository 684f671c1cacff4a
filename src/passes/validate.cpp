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
  check_positive("--batch", c.batch, most);
  check_positive("--seq", c.seq, most);
  check_positive("--grad-accum", c.grad_accum, most);
  check_positive("--world", c.world, 1 << 20);
  if (ir::checked_mul(c.batch, c.seq) > most)
    refuse("--batch " + std::to_string(c.batch) + " --seq " + std::to_string(c.seq) +
           ": more than 2^31 tokens on one rank; use a smaller --batch or --seq");
  if (c.loss == LossKind::chunked) {
    check_positive("--loss chunked:TOKENS", c.chunk_tokens, most);
    if (c.batch * c.seq / c.chunk_tokens > 65536)
      refuse("--loss chunked:" + std::to_string(c.chunk_tokens) +
             ": more than 65536 chunks; use larger ones");
  }
}

void check_checkpointing(const model::ModelSpec& spec, const StepConfig& c) {
  if (c.ac == AcMode::budget && c.ac_arg < 1)
    refuse("--ac budget: the size must be positive, such as budget:40GiB");
  if (c.ac == AcMode::grouped || c.ac == AcMode::every) {
    const char* name = c.ac == AcMode::grouped ? "grouped" : "every";
    if (c.ac_arg < 1)
      refuse(std::string("--ac ") + name + ":" + std::to_string(c.ac_arg) +
             ": K must be at least 1");
    if (c.ac_arg > spec.layers)
      refuse(std::string("--ac ") + name + ":" + std::to_string(c.ac_arg) + ": the model has " +
             std::to_string(spec.layers) + " blocks; K must be at most that");
  }
  if (c.scope == AcScope::submodule && c.ac != AcMode::full && c.ac != AcMode::every &&
      c.ac != AcMode::none)
    refuse(
        "--ac-scope submodule goes with --ac full and --ac every:K only: the other modes name "
        "their own regions");
  if (c.ac == AcMode::selective && c.shard == Sharding::ddp && !c.force)
    refuse(
        "--ac selective needs --shard fsdp2 (as in NeMo AutoModel), not ddp; use fsdp2, or "
        "--force to plan it all the same");
  if (c.ac == AcMode::selective && spec.kv_sharing)
    refuse(
        "--ac selective: this model shares keys and values between blocks, so a block cannot be "
        "recomputed alone; use --ac full --ac-scope submodule");
}

void check_sharding(const StepConfig& c) {
  if (c.shard == Sharding::none && c.world > 1)
    refuse("--world " + std::to_string(c.world) +
           " with --shard none: choose ddp, zero1, zero2, "
           "fsdp2 or hsdp:N, or --world 1");
  if (c.shard != Sharding::none && c.world < 2)
    refuse("--shard needs --world 2 or more; with one rank use --shard none");
  if (c.shard == Sharding::hsdp &&
      (c.hsdp_shards < 2 || c.world % c.hsdp_shards != 0 || c.world / c.hsdp_shards < 2))
    refuse("--shard hsdp:" + std::to_string(c.hsdp_shards) + ": N must divide --world " +
           std::to_string(c.world) + " and leave at least two replicas of at least two shards");
  if (c.no_sync && c.reduce_dtype != c.compute_dtype && c.shard == Sharding::fsdp2)
    refuse(
        "--no-sync with --reduce-dtype other than the compute dtype: fsdp2 then keeps a second, "
        "widened copy of each gradient, which is not planned yet");
  if (c.no_sync && (c.shard == Sharding::zero1 || c.shard == Sharding::zero2))
    refuse("--no-sync with " + std::string(c.shard == Sharding::zero1 ? "zero1" : "zero2") +
           ": DeepSpeed reduces every micro-batch's buckets; leave --no-sync out");
  if (c.keep_last_block && c.shard != Sharding::fsdp2 && c.shard != Sharding::hsdp)
    refuse("--keep-last-block is about resharding: it goes with --shard fsdp2 or hsdp:N");
}

void check_precision(const StepConfig& c) {
  if (c.param_dtype == DType::bf16 && c.compute_dtype == DType::f32)
    refuse(
        "--compute-dtype fp32 with --param-dtype bf16: computing in more bits than are stored "
        "gains nothing; use --param-dtype fp32");
  const bool gathers = c.shard == Sharding::fsdp2 || c.shard == Sharding::hsdp;
  if (c.param_dtype != c.compute_dtype && !gathers && !c.autocast)
    refuse(
        "--param-dtype fp32 --compute-dtype bf16 needs --shard fsdp2 or hsdp:N, whose gathered "
        "copies are in the compute dtype");
  if (c.autocast)
    refuse(
        "--autocast is not planned yet: its cast cache follows rules of its own; use --shard "
        "fsdp2 with --compute-dtype bf16, or --param-dtype bf16");
  if (c.dropout < 0.0 || c.dropout >= 1.0)
    refuse("--dropout " + std::to_string(c.dropout) + ": must be at least 0 and below 1");
}

/// What the trainer cannot run, though the planner can plan it for PyTorch.
void check_trainer(const model::ModelSpec& spec, const StepConfig& c) {
  if (c.seq < 2) refuse("--seq 1 leaves no next token to predict; give 2 or more");
  const bool eager = c.attention == Attention::eager ||
                     (c.attention == Attention::automatic && spec.eager_attention_only);
  const bool dropout = c.dropout > 0.0 || spec.attention_dropout > 0.0;
  if (dropout && !eager)
    refuse("--dropout with flash attention: the trainer's has no dropout; use --attn eager");
  if (c.attention == Attention::cudnn)
    refuse("--attn cudnn: the trainer has flash and eager attention; use flash, eager or auto");
  for (std::int64_t window : spec.window)
    if (window > 0 && window < c.seq && !eager)
      refuse("a sliding window of " + std::to_string(window) + " tokens below --seq " +
             std::to_string(c.seq) +
             " with flash attention: the trainer's has no windows; use --attn eager");
  if (c.loss == LossKind::chunked && spec.final_softcap)
    refuse(
        "--loss chunked: this model soft-caps its logits, which the chunked loss does not; use "
        "ce or lc-ce");
  if (c.capacity_factor != 1.0)
    refuse("--capacity-factor: the trainer routes tokens as the router says; leave it out");
  if (spec.kv_sharing) refuse("num_kv_shared_layers: the trainer has no shared keys and values");
  if (spec.rope_scaling && spec.rope_scaling->type != "linear" &&
      spec.rope_scaling->type != "llama3")
    refuse("rope_scaling \"" + spec.rope_scaling->type +
           "\": the trainer has default, linear and llama3");
}

/// A graph is captured once: what it holds must not change from step to step.
void check_cuda_graph(const StepConfig& c) {
  if (c.cuda_graph == CudaGraph::off) return;
  if (c.optimizer != Optimizer::adamw)
    refuse(std::string("--cuda-graph ") + to_option(c.cuda_graph) + " with --optimizer " +
           to_option(c.optimizer) +
           ": its learning rate is a number of the host's, which a graph would repeat; use adamw");
}

}  // namespace

void validate(const model::ModelSpec& spec, const StepConfig& c) {
  check_sizes(c);
  check_checkpointing(spec, c);
  check_sharding(c);
  check_precision(c);
  check_cuda_graph(c);
  if (c.runtime == Runtime::ac_trainer) check_trainer(spec, c);
  if (spec.layers > 4096)
    refuse("num_hidden_layers " + std::to_string(spec.layers) + ": at most 4096");
  if (c.attention == Attention::efficient || c.attention == Attention::math)
    refuse(
        "--attn efficient and math: not planned yet, their kernels save other tensors; use flash, "
        "eager or auto");
  if (spec.eager_attention_only &&
      (c.attention != Attention::automatic && c.attention != Attention::eager))
    refuse("--attn: " + spec.family +
           " soft-caps its scores, which transformers computes with "
           "eager attention only; use --attn eager or auto");
}

}  // namespace ac_advisor::passes
