// What options decide together. A preset yields where it does not fit what was given by hand; two
// options by hand that contradict are an error.
#include "options_settle.hpp"

#include <cstdlib>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::options {
namespace {

std::string world_text(const StepConfig& c) {
  return "--world " + std::to_string(c.layout.world) +
         (c.layout.tp > 1 ? " --tp " + std::to_string(c.layout.tp) : "") +
         (c.layout.pp > 1 ? " --pp " + std::to_string(c.layout.pp) : "") +
         (c.layout.cp > 1 ? " --cp " + std::to_string(c.layout.cp) : "");
}
std::string shard_text(const StepConfig& c) { return "--shard " + shard_option(c); }

void check_hsdp(const StepConfig& c) {
  const std::int64_t shards = c.layout.hsdp_shards, ranks = c.layout.replica_ranks();
  if (ranks % shards == 0 && ranks / shards >= 2) return;
  std::int64_t best = 0;
  for (std::int64_t n = 2; n <= ranks / 2; ++n)
    if (ranks % n == 0 && (best == 0 || std::abs(n - shards) < std::abs(best - shards))) best = n;
  const std::string divided =
      ranks == c.layout.world
          ? "the world"
          : "the " + std::to_string(ranks) + " ranks that " +
                (c.layout.cp > 1 ? "have the same parameters" : "see different data");
  throw UserError(shard_text(c) + " " + world_text(c) + ": " + divided +
                  " must be divisible by N, with two replicas or more; use --shard " +
                  (best == 0 ? std::string("fsdp2") : "hsdp:" + std::to_string(best)));
}

/// An option by which `ranks` ranks share something needs to be told of how many.
void check_world(const std::string& given, std::int64_t ranks, const Choices& hand) {
  if (ranks > 1 && !hand.has("--world"))
    throw UserError(given + ": give --world N, the number of all ranks, a multiple of it");
}

/// "--world 8 is not divisible by --tp 3", of all that ranks share together.
[[noreturn]] void refuse_world(const StepConfig& c, const std::string& by, std::int64_t parts,
                               const char* because) {
  throw UserError("--world " + std::to_string(c.layout.world) + " is not divisible by " + by +
                  ": " + because + "; use a multiple of " + std::to_string(parts));
}

std::string times(const char* option, std::int64_t ranks) {
  return ranks > 1 ? std::string(" x ") + option + std::to_string(ranks) : std::string();
}

void check_tp(const StepConfig& c, const Choices& hand) {
  const std::string tp = "--tp " + std::to_string(c.layout.tp);
  check_world(tp, c.layout.tp, hand);
  if (c.layout.world % c.layout.tp != 0)
    refuse_world(c, tp, c.layout.tp, "the ranks that are left see different data");
}

void check_pp(const StepConfig& c, const Choices& hand) {
  const std::string pp = "--pp " + std::to_string(c.layout.pp);
  check_world(pp, c.layout.pp, hand);
  const std::int64_t parts = c.layout.tp * c.layout.pp;
  if (c.layout.world % parts != 0)
    refuse_world(c, pp + times("--tp ", c.layout.tp), parts, "each stage has as many ranks");
}

void check_cp(const StepConfig& c, const Choices& hand) {
  const std::string cp = "--cp " + std::to_string(c.layout.cp);
  check_world(cp, c.layout.cp, hand);
  if (c.layout.replica_ranks() % c.layout.cp != 0)
    refuse_world(c, cp + times("--tp ", c.layout.tp) + times("--pp ", c.layout.pp),
                 c.layout.cp * c.layout.tp * c.layout.pp,
                 "each sequence is shared by as many ranks");
}

void settle_sharding(StepConfig& c, const Choices& hand) {
  if (!hand.has("--shard")) {
    if (c.layout.replica_ranks() <= 1)
      c.layout.shard = Sharding::none;
    else if (c.layout.shard == Sharding::none)
      c.layout.shard = Sharding::fsdp2;
  }
  if (c.layout.shard == Sharding::none) {
    c.layout.hsdp_shards = 0;
    if (c.layout.replica_ranks() > 1)
      throw UserError(shard_text(c) + " " + world_text(c) +
                      ": none is one rank alone; use --world 1, or --shard ddp, zero1, zero2, "
                      "zero3, fsdp1, fsdp2 or hsdp:N");
    return;
  }
  if (!hand.has("--world"))
    throw UserError(shard_text(c) + ": give --world N, the number of ranks (2 or more)");
  if (c.layout.replica_ranks() < 2)
    throw UserError(shard_text(c) + " " + world_text(c) +
                    ": needs two ranks or more that see different data; use --world " +
                    std::to_string(2 * c.layout.tp * c.layout.pp) + " or more, or --shard none");
  if (c.layout.shard == Sharding::hsdp) check_hsdp(c);
}

/// --batch, --grad-accum and the ranks make the global batch that was asked for.
void settle_global_batch(StepConfig& c, const Choices& hand) {
  const std::int64_t global = hand.global_batch;
  if (global == 0) return;
  const bool batch = hand.has("--batch"), accum = hand.has("--grad-accum");
  const std::int64_t each = (accum && !batch ? c.run.grad_accum : c.run.batch) *
                            (batch && accum ? c.run.grad_accum : 1) * c.layout.data_ranks();
  std::string made = world_text(c);
  if (batch || !accum) made = "--batch " + std::to_string(c.run.batch) + " " + made;
  if (accum) made = "--grad-accum " + std::to_string(c.run.grad_accum) + " " + made;
  const std::string given = "--global-batch " + std::to_string(global) + " " + made;
  if (batch && accum) {
    if (each != global)
      throw UserError(given + ": they make " + std::to_string(each) +
                      " sequences per step; drop one of --batch, --grad-accum, --global-batch");
    return;
  }
  if (global % each != 0) {
    const std::int64_t below = global / each * each;
    throw UserError(given + ": not a multiple of " + std::to_string(each) + " sequences; try " +
                    (below > 0 ? std::to_string(below) + " or " : std::string()) +
                    std::to_string(below + each));
  }
  (accum ? c.run.batch : c.run.grad_accum) = global / each;
}

/// What an option needs of the others: refused by hand, dropped where a preset chose it.
void settle_requirements(StepConfig& c, const Choices& hand) {
  static const StepConfig plain;
  for (const OptionRow& row : option_table()) {
    if (row.needs == nullptr || row.is_default(c) || row.needs->holds(c)) continue;
    if (!hand.insists(row)) {
      row.set(row, row.get(plain), c);
      continue;
    }
    const bool off = !row.off.empty() && row.text(c) == "false";
    const std::string name(off ? row.off : row.name);
    const std::string written = name + (row.metavar.empty() ? "" : " " + row.text(c));
    throw UserError(row.needs->conflict(c) + " " + written + ": " +
                    std::string(row.needs->because) + "; " + std::string(row.needs->instead) +
                    ", or drop " + name);
  }
}

/// PEFT v0.21, utils/other.py, prepare_model_for_kbit_training: whatever dtype was loaded, fp32 is
/// what is stored. TRL v1.16, sft_trainer.py, casts the adapters of a quantized base to bf16, has
/// PEFT make them in the base's dtype under ZeRO 3 (autocast_adapter_dtype=False), and leaves
/// others as PEFT makes them. torchtune's, AutoModel's and litgpt's adapters are their own, in the
/// dtype of all. DeepSpeed casts the module whole (v0.19.8, runtime/engine.py:
/// _cast_module_mixed_precision), but not what was made under zero.Init, as transformers v5.23
/// makes models under ZeRO 3 that it does not quantize.
void settle_adapters(StepConfig& c, const Choices& hand) {
  const bool of_peft =
      c.runtime.framework != "torchtune" && c.runtime.framework != "automodel" && !c.litgpt();
  if (!hand.has("--lora-dtype") && c.verl()) {  // _build_lora_module: the base's
    c.adapters.dtype = c.precision.param_dtype;
  } else if (!hand.has("--lora-dtype")) {
    const bool cast_whole = c.layout.zero() && c.adapters.used() &&
                            (!c.layout.zero3() || c.runtime.framework == "trl" ||
                             c.adapters.quantize != Quantization::none);
    if (cast_whole && c.runtime.kind == Runtime::pytorch)
      c.adapters.dtype = DType::bf16;
    else if (of_peft && c.adapters.quantize == Quantization::none)
      c.adapters.dtype = DType::f32;
  }
  if (!c.adapters.kbit_prepare) return;
  if (hand.has("--param-dtype") && c.precision.param_dtype == DType::bf16)
    throw UserError(
        "--kbit-prepare --param-dtype bf16: it casts what is not quantized to fp32; drop one of "
        "them");
  c.precision.param_dtype = DType::f32;
}

/// litgpt v0.5.13, utils.py, instantiate_bnb_optimizer: beside quantized layers PagedAdamW,
/// whatever AdamW was asked for. Fabric v2.6.1's precision plugins give the loop fp32.
void settle_litgpt(StepConfig& c, const Choices& hand) {
  if (!c.litgpt()) return;
  if (c.adapters.quantized() && !hand.has("--optimizer")) c.optimizer.kind = Optimizer::paged_adamw;
  if (!hand.has("--output-dtype")) c.memory.wide_output = true;
}

/// Liger's fused loss and TRL's return no logits, and the loop keeps only the loss. Who says by
/// hand what is held through backward has said until when. A pipeline's schedule has frames of its
/// own.
void settle_held_output(StepConfig& c, const Choices& hand, const Choices& preset) {
  if (!hand.has("--held-until") && (hand.has("--hold-output") || c.layout.pp > 1))
    c.memory.held_until_next = false;
  if (hand.has("--hold-output")) return;
  if (c.layout.pp > 1) {  // schedule.step(return_outputs=False), as TorchTitan calls it
    c.memory.hold_output = false;
    return;
  }
  c.memory.hold_output = preset.config.memory.hold_output && c.memory.loss != LossKind::chunked &&
                         c.memory.loss != LossKind::tiled;
}

/// transformers v5.23 loads a checkpoint's own dtype (dtype="auto"), bf16 for these models, and
/// accelerate v1.15 casts what is trained alone to fp32 (utils/fsdp_utils.py, fsdp2_prepare_model:
/// param.requires_grad), so a frozen base stays as it was loaded.
bool frozen_as_loaded(const StepConfig& c) {
  return (c.runtime.framework == "hf-trainer" || c.llamafactory()) && c.adapters.used() &&
         !c.adapters.kbit_prepare && c.precision.compute_dtype != DType::f16;
}

/// PyTorch 2.11, torch/distributed/fsdp/_fully_shard/_fsdp_api.py, MixedPrecisionPolicy:
/// param_dtype is that of the gathered parameters and so of the computation; reduce_dtype, when
/// None, is the compute dtype. FSDP1's MixedPrecision says the same (_init_param_reduce_dtypes).
/// Without FSDP (and without autocast) parameters compute in their own
/// dtype.
void settle_dtypes(StepConfig& c, const Choices& hand, const Choices& preset) {
  // A preset's autocast is for what is not sharded: FSDP has its own mixed precision.
  const bool in_fp32 = hand.has("--compute-dtype") && c.precision.compute_dtype == DType::f32;
  // TRL v1.16, models/utils.py, _ForwardRedirection: DistillationTrainer's loss runs in the place
  // of the forward that accelerate has put torch.autocast around.
  const bool beside_forward = c.task.distills();
  if (!hand.has("--autocast") && (!c.layout.whole() || in_fp32 || beside_forward)) {
    // A trainer's bf16 is DeepSpeed's bf16.enabled: no autocast, the module cast whole.
    const bool cast_whole = c.layout.zero() && c.precision.autocast && !in_fp32;
    if (cast_whole && !hand.has("--param-dtype")) c.precision.param_dtype = DType::bf16;
    c.precision.autocast = false;
  }
  if (c.precision.autocast && !hand.has("--param-dtype")) c.precision.param_dtype = DType::f32;
  if (frozen_as_loaded(c) && !hand.has("--param-dtype")) c.precision.param_dtype = DType::bf16;
  // accelerate v1.15, fsdp2_prepare_model: with mixed precision what is trained is in fp32,
  // whatever was loaded; --autocast none is bf16=False.
  const bool masters = c.layout.gathers() && c.layout.fsdp_unit == FsdpUnit::accelerate &&
                       !c.adapters.used() && !hand.has("--autocast");
  if (masters && c.precision.param_dtype == DType::bf16) {
    c.precision.param_dtype = DType::f32;
    c.task.reference_dtype = DType::bf16;
  }
  // model/adapter.py, init_adapter: what is trained alone is cast, a checkpoint is in bf16
  if (c.llamafactory() && !c.adapters.used()) c.task.reference_dtype = DType::bf16;
  if (!hand.has("--compute-dtype")) {
    if (c.precision.autocast)  // "fp16" has said it already
      c.precision.compute_dtype =
          c.precision.compute_dtype == DType::f16 ? DType::f16 : DType::bf16;
    else if (is_half(c.precision.param_dtype))
      c.precision.compute_dtype = c.precision.param_dtype;
    else if (!c.layout.fsdp())
      c.precision.compute_dtype = c.precision.param_dtype;
    else if (!preset.has("--compute-dtype"))
      c.precision.compute_dtype = DType::bf16;
  }
  // A preset casts its output where it computes in mixed precision.
  const bool mixed = c.precision.param_dtype != c.precision.compute_dtype || c.precision.autocast;
  if (!mixed && !hand.has("--output-dtype")) c.memory.wide_output = false;
  if (hand.has("--reduce-dtype")) return;
  if (c.precision.autocast) {  // gradients have their parameters' dtype
    c.precision.reduce_dtype = c.precision.param_dtype;
    return;
  }
  const bool as_preset =
      c.layout.fsdp() || c.precision.param_dtype == preset.config.precision.param_dtype;
  const bool own_policy = preset.has("--reduce-dtype") && preset.config.precision.reduce_dtype !=
                                                              preset.config.precision.compute_dtype;
  if (!own_policy || !as_preset || c.layout.shard == Sharding::none)
    c.precision.reduce_dtype = c.precision.compute_dtype;
}

/// Gradients in fp16's range are lost to zero, so who computes in fp16 scales the loss:
/// accelerate's fp16, Megatron-core's DynamicGradScaler. PyTorch's scaler refuses gradients that
/// are in fp16 themselves.
void settle_grad_scaler(StepConfig& c, const Choices& hand) {
  if (hand.has("--grad-scaler")) return;
  const bool wide_gradients = c.precision.param_dtype == DType::f32 ||
                              (c.precision.autocast && c.adapters.used()) || c.megatron();
  c.optimizer.grad_scaler = c.precision.compute_dtype == DType::f16 && wide_gradients;
}

/// TorchTitan v0.2.2, config/job_config.py, Compile.components: the blocks, and the loss.
void settle_compiled_loss(StepConfig& c, const Choices& hand) {
  if (c.runtime.framework == "torchtitan" && c.memory.kernels == Kernels::compiled &&
      !hand.has("--loss"))
    c.memory.loss = LossKind::ce_compiled;
}

/// PEFT v0.21, utils/other.py, prepare_model_for_kbit_training: gradient_checkpointing_enable with
/// an empty dictionary, so torch.utils.checkpoint is not told, whose own default is reentrant. TRL
/// v1.16's trainers ask for it, too, for PEFT under ZeRO 3, in a field that transformers v5.23 does
/// not read any more: what does take it is models/utils.py, disable_gradient_checkpointing, after a
/// forward without gradients.
void settle_checkpoints(StepConfig& c, const Choices& hand) {
  const bool whole_blocks = c.memory.ac == AcMode::full && c.memory.scope == AcScope::block;
  const bool prepared = c.adapters.kbit_prepare && c.adapters.quantized(),
             scored = c.task.compares() && c.task.reference != Reference::precomputed,
             forced = scored && c.layout.zero3() && c.adapters.used(),
             // model/model_utils/checkpointing.py, prepare_model_for_training
      by_default = c.llamafactory() && !c.layout.fsdp();
  if (!hand.has("--ac-reentrant"))
    c.memory.reentrant = (prepared || forced || by_default) && whole_blocks;
}

/// --seq is --prompt and --completion; what is not given of them follows from the others.
void settle_completion(StepConfig& c, const Choices& hand) {
  TaskChoice& task = c.task;
  if (!task.online()) {
    task.completion = 0;
    return;
  }
  const std::string name = std::string("--task ") + to_option(task.kind);
  const std::string given = name + " --prompt " + std::to_string(task.prompt) + " --completion " +
                            std::to_string(task.completion) + " --seq " + std::to_string(c.run.seq);
  const bool said = hand.has("--completion") && task.completion > 0;
  if (task.prompt == 0)
    throw UserError(
        name + ": a completion follows a prompt; give --prompt N, and --completion N or --seq");
  if (said && hand.has("--seq") && task.prompt + task.completion != c.run.seq)
    throw UserError(given + ": a sequence is a prompt and a completion, " +
                    std::to_string(task.prompt + task.completion) +
                    " tokens; drop one of --completion and --seq");
  if (said)
    c.run.seq = task.prompt + task.completion;
  else
    task.completion = std::max<std::int64_t>(0, c.run.seq - task.prompt);
}

/// TRL v1.16, grpo_trainer.py: "The global generation batch size must be divisible by
/// num_generations"; verl v0.9.1 makes ppo_mini_batch_size x rollout.n rows a step over all ranks.
void check_group(const StepConfig& c) {
  const std::int64_t rows = c.run.batch * c.run.grad_accum * c.layout.data_ranks(),
                     group = c.task.group;
  if (group == 0 || rows % group == 0) return;
  throw UserError("--group " + std::to_string(group) + ": a step has " + std::to_string(rows) +
                  " completions over all ranks, which is no multiple of it; use --grad-accum, "
                  "--batch or --world of which it is one");
}

/// verl v0.9.1, workers/engine/fsdp/transformer_impl.py: rows without padding, one after another
/// (use_remove_padding), whole logits, and a loss of the log-probabilities.
void settle_verl(StepConfig& c, const Choices& hand) {
  if (!c.verl()) return;
  if (hand.has("--packing") && c.run.packing != c.run.batch)
    throw UserError("--framework verl --packing " + std::to_string(c.run.packing) +
                    ": its rows are packed by themselves, each a document; leave --packing out");
  c.run.packing = c.run.batch;
}

/// TRL v1.16: DPOTrainer and KTOTrainer load a second model unless there are adapters, which they
/// turn off, and so does RLOOTrainer (beta 0.05); GRPOTrainer has no reference (beta 0). Its head
/// and those of its other trainers are their own: tiles, or whole logits.
void settle_task(StepConfig& c, const Choices& hand) {
  if (c.task.supervised()) return;
  const std::string task = std::string("--task ") + to_option(c.task.kind);
  const bool by_default = c.task.against_reference() || c.task.kind == Task::rloo;
  if (by_default && !hand.has("--ref"))
    c.task.reference = c.adapters.used() ? Reference::adapter : Reference::model;
  if (c.task.against_reference() && c.task.reference == Reference::none)
    throw UserError(task +
                    " --ref none: its loss is of log-probabilities over a reference's; use "
                    "--ref model, adapter or precomputed, or --task orpo or simpo");
  if (c.task.kind == Task::kto && c.run.batch < 2)
    throw UserError(task +
                    " --batch 1: each prompt is also given the next row's answer, so a micro-batch "
                    "has two rows or more; use --batch 2");
  if (c.task.reference == Reference::adapter && !c.adapters.used())
    throw UserError(task +
                    " --ref adapter: there are no adapters to turn off; give --lora RANK, or "
                    "use --ref model or precomputed");
  settle_completion(c, hand);
  check_group(c);
  settle_verl(c, hand);
  if (c.task.has_critic() && !hand.has("--critic-offload")) c.task.critic_parked = c.task.parked;
  if (c.task.online() && c.task.reference == Reference::precomputed)
    throw UserError(task +
                    " --ref precomputed: completions are new in each step; use --ref none, model "
                    "or adapter");
  if (c.task.distills() && c.task.teacher.name.empty())
    throw UserError(task + ": a student learns from a teacher; give --teacher MODEL");
  const bool tiles = (c.task.compares() || c.task.distills()) && c.runtime.framework == "trl";
  // until TRL 1.14 DPO's and KTO's logits were whole
  const bool whole =
      tiles && c.task.against_reference() && hand.has("--loss") && c.memory.loss == LossKind::ce;
  const LossKind own = tiles && !whole ? LossKind::tiled : LossKind::ce;
  if (hand.has("--loss") && c.memory.loss != own)
    throw UserError(task + " --loss " + loss_option(c) +
                    ": the trainer computes its loss its own way; leave --loss out" +
                    (tiles && c.task.against_reference()
                         ? ", or give --loss ce, the whole logits of TRL until 1.14"
                         : ""));
  if (hand.has("--hold-output") && c.memory.hold_output)
    throw UserError(task + " --hold-output: the trainers keep the loss alone; drop --hold-output");
  if (!hand.has("--output-dtype")) c.memory.wide_output = false;  // it is in the task's own ops
  c.memory.loss = own;
}

/// A preset's is accelerate's, which leaves accumulation to DeepSpeed's engine.
void settle_no_sync(StepConfig& c, const Choices& hand) {
  if (!hand.has("--no-sync") && c.layout.zero()) c.layout.no_sync = false;
  // DeepSpeed 0.18, runtime/engine.py, no_sync: an assertion that gradients are not partitioned.
  if (c.layout.no_sync && (c.layout.shard == Sharding::zero2 || c.layout.zero3()))
    throw UserError("--no-sync --shard " + shard_option(c) +
                    ": DeepSpeed has no no_sync where gradients are "
                    "partitioned; use --shard zero1, or drop --no-sync");
}

}  // namespace

StepConfig settle(const Choices& hand, const Choices& preset) {
  StepConfig config = hand.config;
  check_tp(config, hand);
  check_pp(config, hand);
  check_cp(config, hand);
  settle_sharding(config, hand);
  settle_global_batch(config, hand);
  settle_requirements(config, hand);
  settle_task(config, hand);
  settle_held_output(config, hand, preset);
  settle_adapters(config, hand);
  settle_dtypes(config, hand, preset);
  settle_litgpt(config, hand);
  settle_grad_scaler(config, hand);
  settle_compiled_loss(config, hand);
  settle_checkpoints(config, hand);
  settle_no_sync(config, hand);
  return config;
}

}  // namespace ac_advisor::options
