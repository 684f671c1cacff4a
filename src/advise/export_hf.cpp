// Hugging Face: TrainingArguments and Accelerate's configuration, both as YAML. Keys: transformers
// 5.23.0, src/transformers/training_args.py and modeling_utils.py (every_n_layers); accelerate
// 1.15.0, src/accelerate/utils/dataclasses.py (FullyShardedDataParallelPlugin),
// commands/config/config_args.py; liger-kernel 0.8.5, transformers/monkey_patch.py.
#include <fmt/format.h>

#include <bit>

#include "ac_advisor/model/layers.hpp"
#include "export_target.hpp"
#include "torch_dtype.hpp"

namespace ac_advisor::advise::exports {
namespace {

std::string liger(const Setting& s) {
  const bool fused = s.c.memory.kernels == Kernels::fused,
             chunked = s.c.memory.loss == LossKind::chunked;
  if (!fused && !chunked) return "use_liger_kernel: false\n";
  const bool gelu = s.model.activation == model::Activation::gelu_tanh;
  return fmt::format(
      "use_liger_kernel: true\nliger_kernel_config:\n  rope: {0}\n  rms_norm: {0}\n  {1}: {0}\n"
      "  cross_entropy: false\n  fused_linear_cross_entropy: {2}\n",
      fused, gelu ? "geglu" : "swiglu", chunked);
}

bool of_trl(const Setting& s) { return s.c.runtime.framework == "trl"; }

/// The class of TRL's that reads the file.
const char* config_class(const Setting& s) {
  switch (s.c.task.kind) {
    case Task::dpo:
      return "trl.DPOConfig";
    case Task::kto:
      return "trl.KTOConfig";
    case Task::orpo:
      return "trl.experimental.orpo.ORPOConfig";
    case Task::simpo:
      return "trl.experimental.cpo.CPOConfig";
    case Task::reward:
      return "trl.RewardConfig";
    case Task::grpo:
      return "trl.GRPOConfig";
    case Task::rloo:
      return "trl.RLOOConfig";
    case Task::distillation:
      return "trl.DistillationConfig";
    case Task::ppo:  // of verl alone
    case Task::sft:
      break;
  }
  return of_trl(s) ? "trl.SFTConfig" : "TrainingArguments";
}

/// The weight of the reference's divergence, whose defaults differ. GRPOConfig's is 0: 0.04 is the
/// paper's (DeepSeekMath, section 4.2).
const char* beta(const TaskChoice& task) {
  const bool compares = task.reference != Reference::none;
  if (task.kind == Task::rloo) return compares ? "beta: 0.05\n" : "beta: 0.0\n";
  return compares ? "beta: 0.04\n" : "";
}

std::string online_arguments(const Setting& s) {
  const TaskChoice& task = s.c.task;
  std::string text = fmt::format("max_completion_length: {}\n", s.c.run.seq - task.prompt);
  if (task.group > 0) text += fmt::format("num_generations: {}\n", task.group);
  if (task.distills())
    text += fmt::format("teacher_model_name_or_path: {}\nteacher_model_init_kwargs:\n  dtype: {}\n",
                        Setting::quoted(task.teacher.name), torch_dtype(s.c.reference_dtype()));
  else
    text += beta(task);
  if (task.rollout == Rollout::generate) return text;
  const bool beside = task.rollout == Rollout::vllm;
  text += fmt::format("use_vllm: true\nvllm_mode: {}\n", beside ? "colocate" : "server");
  if (beside) text += fmt::format("vllm_gpu_memory_utilization: {}\n", task.engine_share);
  if (task.engine_ranks > 1)
    text += fmt::format("vllm_tensor_parallel_size: {}\n", task.engine_ranks);
  if (task.engine_sleep > 0) text += "vllm_enable_sleep_mode: true\n";
  return text;
}

/// An argument of TRL's trainers; elsewhere the model's configuration says it.
std::string router_argument(const Setting& s) {
  if (s.c.task.router_loss == RouterLoss::automatic) return "";
  const bool on = s.c.task.router_loss == RouterLoss::on;
  if (s.c.task.supervised() ? of_trl(s) : s.c.task.compares())
    return fmt::format("router_aux_loss_coef: {}\n", on ? "0.001" : "0.0");
  return fmt::format("# model.config.output_router_logits = {}\n", on ? "True" : "False");
}

/// What a task's own configuration has beside the training arguments.
std::string task_arguments(const Setting& s) {
  if (s.c.task.kind == Task::simpo) return "loss_type: simpo\ncpo_alpha: 0.0\n";
  if (s.c.task.online()) return online_arguments(s);
  if (!s.c.task.against_reference()) return "";
  return fmt::format("precompute_ref_log_probs: {}\n",
                     s.c.task.reference == Reference::precomputed);
}

void note_task(const Setting& s, ExportResult& out) {
  if (s.c.task.supervised()) return;
  if (s.c.task.distills())
    out.notes.emplace_back(
        "the teacher is a name that DistillationTrainer loads, or hand it teacher_model=");
  else if (s.c.task.online())
    out.notes.push_back(
        fmt::format("num_generations divides the rows of a step over all ranks; {} takes "
                    "reward_funcs=, whose models, if there are any, are not planned",
                    s.c.task.kind == Task::rloo ? "RLOOTrainer" : "GRPOTrainer"));
  const char* const trainer = s.c.task.kind == Task::kto ? "KTOTrainer" : "DPOTrainer";
  if (s.c.task.against_reference() && s.c.task.reference == Reference::model)
    out.notes.push_back(
        s.c.adapters.used()
            ? fmt::format("hand {} ref_model=, a second model of the same dtype", trainer)
            : fmt::format("{} loads the reference itself, in the model's dtype", trainer));
  if (s.c.task.against_reference() && s.c.task.reference == Reference::precomputed)
    out.notes.emplace_back(
        "the reference's log-probabilities are computed once over the data set before training: "
        "that pass is not in the plan");
  if (s.c.task.prompt > 0)
    out.notes.push_back(fmt::format("{} tokens of each row are planned as the prompt's: the data's",
                                    s.c.task.prompt));
}

void check_loss(const Setting& s) {
  if (!s.c.task.supervised()) return;
  if (of_trl(s) && s.c.memory.loss != LossKind::tiled)
    s.refuse(s.loss(), "SFTTrainer puts its own LM head into the model; use --loss tiled");
  if (s.c.memory.loss == LossKind::lc_ce)
    s.refuse(s.loss(), fmt::format("its losses are whole logits and Liger's chunks; use --loss ce "
                                   "or --loss chunked:{}",
                                   liger_chunk(s.model, s.c)));
  if (s.c.memory.loss == LossKind::chunked && s.c.memory.chunk_tokens != liger_chunk(s.model, s.c))
    s.refuse(s.loss(), fmt::format("Liger chooses the chunk itself; use --loss chunked:{}",
                                   liger_chunk(s.model, s.c)));
}

std::string checkpointing(const Setting& s, ExportResult& out) {
  if (s.c.memory.scope == AcScope::submodule && s.c.memory.ac != AcMode::none)
    s.refuse("--ac-scope submodule", "it checkpoints whole blocks; use --ac-scope block");
  switch (s.c.memory.ac) {
    case AcMode::none:
      return "activation_checkpointing: false\n";
    case AcMode::full:
      // Under FSDP it is Accelerate's switch: the other one gathers once more in backward.
      if (s.c.layout.fsdp()) return "activation_checkpointing: false\n";
      return fmt::format(
          "activation_checkpointing: true\nactivation_checkpointing_kwargs:\n"
          "  use_reentrant: {}\n",
          s.c.memory.reentrant);
    case AcMode::every:
      if (s.gathers())
        out.notes.emplace_back(
            "under FSDP this switch gathers each checkpointed block once more "
            "in backward");
      return fmt::format(
          "activation_checkpointing: true\nactivation_checkpointing_kwargs:\n"
          "  use_reentrant: {}\n  every_n_layers: {}\n",
          s.c.memory.reentrant, s.c.memory.ac_arg);
    default:
      s.refuse(s.ac(), "it checkpoints each block by itself and whole; use --ac full or every:K");
  }
}

const char* mixed(const Setting& s) {
  return s.c.precision.compute_dtype == DType::f16 ? "fp16" : "bf16";
}

/// Under DeepSpeed 16 bits are its own switch, of a model that is cast whole beside fp32 masters.
bool mixes(const Setting& s) {
  const Precision& p = s.c.precision;
  return p.param_dtype != p.compute_dtype || (s.c.layout.zero() && p.compute_dtype != DType::f32);
}

std::string training_arguments(const Setting& s, ExportResult& out) {
  // A collator that flattens its batch is given documents, SFTTrainer packs them into rows.
  const bool flattened = s.c.run.packing > 0 && !of_trl(s);
  std::string text = fmt::format(
      "per_device_train_batch_size: {}\ngradient_accumulation_steps: {}\noptim: {}\n{}: {}\n{}{}",
      flattened ? s.c.run.packing : s.c.run.batch, s.c.run.grad_accum, trainer_optimizer(s),
      mixed(s), mixes(s) || s.c.precision.autocast, checkpointing(s, out), liger(s));
  if (s.c.optimizer.kind == Optimizer::muon)
    out.notes.emplace_back(
        "TrainingArguments(optim=…) names no Muon: override Trainer.create_optimizer to make one "
        "whose step() is that of torch.optim.Muon over the blocks' matrices, then fused AdamW's "
        "over all other parameters");
  text += fmt::format("max_grad_norm: {}\n", decimal(s.c.optimizer.clip_grad));
  if (s.c.memory.compile_unit == CompileUnit::model) text += "torch_compile: true\n";
  if (of_trl(s) && !s.c.task.online()) text += fmt::format("max_length: {}\n", s.c.run.seq);
  text += task_arguments(s) + router_argument(s);
  if (of_trl(s) && s.c.run.packing > 0) text += "packing: true\n";
  if (s.c.memory.offload == Offload::activations) {
    if (!of_trl(s))
      s.refuse("--offload activations",
               "transformers.Trainer has none; use --framework trl, whose SFTConfig has");
    text += "activation_offloading: true\n";
  }
  if (s.c.run.grad_accum > 1 && !s.c.layout.no_sync && !s.c.layout.zero())
    text += "accelerator_config:\n  gradient_accumulation_kwargs:\n    sync_each_batch: true\n";
  return text;
}

/// FullyShardedDataParallel with FULL_SHARD.
std::string fsdp1(const Setting& s) {
  constexpr const char* prefetches[] = {"BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"};
  return fmt::format(
      "fsdp_config:\n  fsdp_version: 1\n  fsdp_sharding_strategy: FULL_SHARD\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_activation_checkpointing: {}\n"
      "  fsdp_backward_prefetch: {}\n  fsdp_forward_prefetch: false\n"
      "  fsdp_use_orig_params: true\n  fsdp_offload_params: {}\n"
      "  fsdp_sync_module_states: true\n  fsdp_cpu_ram_efficient_loading: true\n"
      "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
      s.c.memory.ac == AcMode::full,
      prefetches[static_cast<std::size_t>(s.c.layout.backward_prefetch)],
      s.c.memory.offload == Offload::parameters);
}

std::string fsdp(const Setting& s) {
  if (s.c.precision.reduce_dtype != s.c.precision.compute_dtype)
    s.refuse(std::string("--reduce-dtype ") + to_option(s.c.precision.reduce_dtype),
             std::string("Accelerate reduces in the compute dtype; use --reduce-dtype ") +
                 to_option(s.c.precision.compute_dtype));
  if (s.c.layout.keep_last_block)
    s.refuse("--keep-last-block",
             "fsdp_reshard_after_forward is one value for all blocks; drop the option");
  if (s.c.layout.reshard_to > 0)
    s.refuse("--reshard-after-forward " + std::to_string(s.c.layout.reshard_to),
             "fsdp_reshard_after_forward is true or false; use one of them");
  if (s.c.layout.shard == Sharding::fsdp1) return fsdp1(s);
  std::string text = fmt::format(
      "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {}\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_activation_checkpointing: {}\n"
      "  fsdp_offload_params: {}\n  fsdp_cpu_ram_efficient_loading: true\n"
      "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
      s.c.layout.reshard_after_forward, s.c.memory.ac == AcMode::full,
      s.c.memory.offload == Offload::parameters);
  if (s.c.layout.shard == Sharding::hsdp)
    text += fmt::format(
        "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n"
        "  parallelism_config_dp_shard_size: {}\n",
        s.replicas(), s.c.layout.hsdp_shards);
  return text;
}

/// accelerate v1.15, utils/dataclasses.py, DeepSpeedPlugin: DeepSpeed's defaults beside the stage.
std::string deepspeed_plugin(const Setting& s) {
  const int stage = s.c.layout.zero3() ? 3 : s.c.layout.shard == Sharding::zero2 ? 2 : 1;
  if (s.c.layout.overlap_comm)
    s.refuse("--overlap-comm",
             "accelerate's deepspeed_config has no key of it; name a DeepSpeed file by "
             "deepspeed_config_file, or drop --overlap-comm");
  const bool parameters = s.c.memory.offload == Offload::parameters;
  return fmt::format(
      "deepspeed_config:\n  zero_stage: {}\n  gradient_accumulation_steps: {}\n"
      "  gradient_clipping: {}\n  offload_optimizer_device: {}\n  offload_param_device: {}\n"
      "  zero3_init_flag: {}\n",
      stage, s.c.run.grad_accum, decimal(s.c.optimizer.clip_grad),
      parameters || s.c.memory.offload == Offload::optimizer ? "cpu" : "none",
      parameters ? "cpu" : "none", stage == 3);
}

std::string accelerate(const Setting& s) {
  std::string text = fmt::format(
      "compute_environment: LOCAL_MACHINE\nnum_processes: {}\n"
      "mixed_precision: '{}'\n",
      s.c.layout.world, mixes(s) ? mixed(s) : "no");
  switch (s.c.layout.shard) {
    case Sharding::none:
      return text + "distributed_type: 'NO'\n";
    case Sharding::ddp:
      return text + "distributed_type: MULTI_GPU\n";
    case Sharding::fsdp1:
    case Sharding::fsdp2:
    case Sharding::hsdp:
      return text + "distributed_type: FSDP\n" + fsdp(s);
    case Sharding::zero1:
    case Sharding::zero2:
    case Sharding::zero3:
      return text + "distributed_type: DEEPSPEED\n" + deepspeed_plugin(s);
  }
  return text;
}

/// The model is loaded by the user's own line, so these are notes.
void note_loading(const Setting& s, ExportResult& out) {
  const char* backend = nullptr;
  switch (s.c.run.attention) {
    case Attention::flash1:
      s.refuse("--attn flash1",
               "PyTorch's flash attention is the second version since 2.2; use --attn flash");
    case Attention::flash:
      if (s.c.run.packing == 0) backend = "FLASH_ATTENTION";
      break;
    case Attention::cudnn:
      backend = "CUDNN_ATTENTION";
      break;
    case Attention::efficient:
      backend = "EFFICIENT_ATTENTION";
      break;
    case Attention::math:
      backend = "MATH";
      break;
    default:
      break;
  }
  out.notes.push_back(fmt::format(
      "load the model with dtype=torch.{}, attn_implementation=\"{}\"{}",
      torch_dtype(s.c.precision.param_dtype),
      model::caps_in_flash(s.model, s.c) ||
              (s.c.run.packing > 0 && s.c.run.attention == Attention::flash)
          ? "flash_attention_2"
      : s.c.run.attention == Attention::eager || s.model.eager_attention_only ? "eager"
                                                                              : "sdpa",
      s.c.run.dropout > 0 ? fmt::format(", attention_dropout={}", decimal(s.c.run.dropout)) : ""));
  if (backend != nullptr)
    out.notes.push_back(
        fmt::format("train inside torch.nn.attention.sdpa_kernel("
                    "torch.nn.attention.SDPBackend.{})",
                    backend));
  if (s.c.run.packing > 0)
    out.notes.push_back(fmt::format(
        "a row has {} tokens of {} documents{}", s.c.run.batch * s.c.run.seq, s.c.run.packing,
        of_trl(s) ? ", which SFTTrainer packs into rows of max_length"
                  : ": data_collator=DataCollatorWithFlattening(return_flash_attn_kwargs=True), a "
                    "dataset of documents"));
  else if (!s.c.task.online())
    out.notes.push_back(
        fmt::format("sequences have {} tokens: the data collator's max_length", s.c.run.seq));
}

void write(const Setting& s, ExportResult& out) {
  check_loss(s);
  out.text = fmt::format(
      "# {0}\n# training_args.yaml: HfArgumentParser({3}).parse_yaml_file\n{1}"
      "---\n# accelerate.yaml: accelerate launch --config_file accelerate.yaml\n{2}",
      s.target.version, training_arguments(s, out), accelerate(s), config_class(s));
  note_loading(s, out);
  note_task(s, out);
}

constexpr std::string_view says[] = {"task",
                                     "ref",
                                     "teacher",
                                     "prompt",
                                     "rollout",
                                     "router_aux_loss",
                                     "completion",
                                     "group",
                                     "batch",
                                     "seq",
                                     "grad_accum",
                                     "world",
                                     "shard",
                                     "ac",
                                     "ac_scope",
                                     "loss",
                                     "kernels",
                                     "compile_unit",
                                     "offload",
                                     "optimizer",
                                     "clip_grad",
                                     "autocast",
                                     "param_dtype",
                                     "compute_dtype",
                                     "attn",
                                     "dropout",
                                     "no_sync",
                                     "keep_last_block",
                                     "reshard_after_forward",
                                     "backward_prefetch",
                                     "ac_reentrant",
                                     "fp8",
                                     "fp8_all_gather",
                                     "grad_scaler",
                                     "lora",
                                     "adapter",
                                     "lora_targets",
                                     "lora_dropout",
                                     "dora",
                                     "quantize",
                                     "kbit_prepare",
                                     "tp",
                                     "cp",
                                     "ep",
                                     "pp",
                                     "master_weights",
                                     "optimizer_in_backward"};

}  // namespace

const char* trainer_optimizer(const Setting& s) {
  switch (s.c.optimizer.kind) {
    case Optimizer::adamw:
      return "adamw_torch_fused";
    case Optimizer::adamw_foreach:
      return "adamw_torch";
    case Optimizer::sgd:
      return "sgd";
    case Optimizer::sgd_momentum:
      s.refuse("--optimizer sgd-momentum", "its sgd has no momentum; use --optimizer sgd");
    case Optimizer::adamw_8bit:
      return "adamw_bnb_8bit";
    case Optimizer::paged_adamw:
      return "paged_adamw_32bit";
    case Optimizer::paged_adamw_8bit:
      return "paged_adamw_8bit";
    case Optimizer::adamw_8bit_torchao:
      return "adamw_torch_8bit";
    case Optimizer::adafactor:
      return "adafactor";
    case Optimizer::lion:
      return "lion_32bit";
    case Optimizer::muon:
      return "adamw_torch_fused";  // of what Muon leaves; a note says who makes both
  }
  return "";
}

const Target hf{"hf", "transformers 5.23.0, accelerate 1.15.0, liger-kernel 0.8.5", write, says};

}  // namespace ac_advisor::advise::exports

namespace ac_advisor::advise {

bool chunks_as_liger(const StepConfig& c) { return export_target_of(c.runtime.framework) == "hf"; }

// ops/fused_linear_cross_entropy.py: next_power_of_2(BT / ceil(V / H)).
std::int64_t liger_chunk(const model::ModelSpec& model, const StepConfig& c) {
  const std::int64_t tokens = c.run.batch * c.run.seq;
  if (model.hidden == 0) return tokens;  // an imported graph, which has no such loss
  const std::int64_t factor = (model.vocab + model.hidden - 1) / model.hidden;
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>((tokens + factor - 1) / factor)));
}

}  // namespace ac_advisor::advise
