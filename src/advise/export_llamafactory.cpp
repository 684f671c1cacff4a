// LLaMA-Factory's YAML: `llamafactory-cli train FILE.yaml`. Keys: LLaMA-Factory v0.9.5,
// hparams/*_args.py; what they exclude: hparams/parser.py. transformers v5.6, training_args.py.
#include <fmt/format.h>

#include "ac_advisor/model/options.hpp"
#include "export_target.hpp"

namespace ac_advisor::advise::exports {
namespace {

std::string stage(const Setting& s) {
  switch (s.c.task.kind) {
    case Task::sft:
      return "stage: sft\n";
    case Task::dpo:
      return "stage: dpo\npref_loss: sigmoid\n";
    case Task::orpo:
    case Task::simpo:
      return fmt::format("stage: dpo\npref_loss: {}\n", to_option(s.c.task.kind));
    case Task::kto:
      return "stage: kto\n";
    case Task::reward:
      return "stage: rm\n";
    case Task::grpo:
    case Task::rloo:
    case Task::ppo:
    case Task::distillation:
      break;
  }
  s.refuse(std::string("--task ") + to_option(s.c.task.kind), "it has none; export to hf");
}

/// A second model is the default of full parameters alone.
std::string reference(const Setting& s) {
  const bool second = s.c.task.runs_reference() && s.c.task.reference == Reference::model;
  return second && s.c.adapters.used() ? fmt::format("ref_model: {}\n", s.quoted_name()) : "";
}

std::string targets(const Setting& s) {
  const std::string text = lora_targets_text(s.c);
  if (text.empty())
    s.refuse("--lora " + std::to_string(s.c.adapters.rank),
             "its lora_target has no word for PEFT's own choice; name them by --lora-targets "
             "q_proj,v_proj, or all-linear");
  return text == "all-linear" ? "all" : text;
}

std::string quantize(const Setting& s) {
  switch (s.c.adapters.quantize) {
    case Quantization::none:
      return "";
    case Quantization::int8:
      return "quantization_bit: 8\n";
    case Quantization::nf4:
      return "quantization_bit: 4\ndouble_quantization: false\n";
    case Quantization::nf4_double:
      return "quantization_bit: 4\n";
  }
  return "";
}

std::string adapters(const Setting& s, bool pure) {
  const Adapters& a = s.c.adapters;
  if (!a.used()) return "finetuning_type: full\n";
  if (a.of_another_method()) s.refuse("--adapter", "of PEFT's methods LoRA is planned; use --lora");
  if (a.kbit_prepare)
    s.refuse("--kbit-prepare", "it casts what is trained alone; drop --kbit-prepare");
  const DType trained = pure || s.c.layout.zero() ? DType::bf16 : DType::f32;
  if (a.dtype != trained)
    s.refuse(
        std::string("--lora-dtype ") + to_option(a.dtype),
        std::string("it trains adapters in ") + to_option(trained) + "; leave --lora-dtype out");
  return fmt::format(
      "finetuning_type: lora\nlora_rank: {}\nlora_alpha: {}\nlora_target: {}\n{}{}{}", a.rank,
      2 * a.rank, targets(s),
      a.dropout > 0 ? fmt::format("lora_dropout: {}\n", decimal(a.dropout)) : "",
      a.dora ? "use_dora: true\n" : "", quantize(s));
}

/// Whether what is trained stays in bf16.
bool pure(const Setting& s) {
  const Precision& p = s.c.precision;
  if (p.compute_dtype == DType::f16)
    s.refuse("--compute-dtype fp16", "fp16 is read and not written; use bf16");
  if (s.c.layout.zero() || s.c.layout.fsdp()) return false;
  return p.param_dtype == DType::bf16 && !p.autocast;
}

/// What the loaded model has become by the time that it is trained.
void check_parameters(const Setting& s) {
  const Precision& p = s.c.precision;
  const bool wide = p.compute_dtype == DType::f32;
  if (wide && s.c.adapters.used())
    s.refuse("--compute-dtype fp32", "without bf16 it has a base in bf16; leave it out");
  const bool bf16 = !wide && (s.c.layout.zero() || s.c.adapters.used() || pure(s));
  if (p.param_dtype != (bf16 ? DType::bf16 : DType::f32))
    s.refuse(std::string("--param-dtype ") + to_option(p.param_dtype),
             bf16 ? "what is frozen is loaded in bf16, and DeepSpeed casts the model; use bf16"
                  : "it trains in fp32 unless pure_bf16; add --autocast none, or use fp32");
}

std::string precision(const Setting& s) {
  if (s.c.precision.compute_dtype == DType::f32) return "";
  return pure(s) ? "pure_bf16: true\n" : "bf16: true\n";
}

std::string checkpoints(const Setting& s) {
  const MemoryTechniques& m = s.c.memory;
  if (m.ac == AcMode::none) return "disable_gradient_checkpointing: true\n";
  if (m.scope != AcScope::block)
    s.refuse("--ac-scope submodule", "it checkpoints whole blocks; use --ac-scope block");
  if (m.ac != AcMode::full)
    s.refuse(s.ac(), "it checkpoints each block whole, or none; use --ac full or none");
  return fmt::format("use_reentrant_gc: {}\n", m.reentrant);
}

std::string attention(const Setting& s) {
  switch (s.c.run.attention) {
    case Attention::automatic:
      return "flash_attn: auto\n";
    case Attention::flash:
      return "flash_attn: fa2\n";
    case Attention::eager:
      return "flash_attn: disabled\n";
    default:
      s.refuse(std::string("--attn ") + to_option(s.c.run.attention),
               "it names no kernel of PyTorch's; use --attn auto, flash or eager");
  }
}

std::string deepspeed(const Setting& s) {
  const int stage = s.c.layout.zero3() ? 3 : s.c.layout.shard == Sharding::zero2 ? 2 : 1;
  const auto on_host = [](const char* what) {
    return fmt::format("    offload_{}:\n      device: cpu\n", what);
  };
  const Offload offload = s.c.memory.offload;
  const bool parameters = offload == Offload::parameters;
  return fmt::format(
      "deepspeed:\n  train_micro_batch_size_per_gpu: auto\n  gradient_accumulation_steps: auto\n"
      "  gradient_clipping: auto\n  bf16:\n    enabled: auto\n  zero_optimization:\n    stage: {}\n"
      "    overlap_comm: {}\n{}{}",
      stage, s.c.layout.overlap_comm,
      parameters || offload == Offload::optimizer ? on_host("optimizer") : "",
      parameters ? on_host("param") : "");
}

std::string sharding(const Setting& s) {
  switch (s.c.layout.shard) {
    case Sharding::none:
    case Sharding::ddp:
      return "";
    case Sharding::zero1:
    case Sharding::zero2:
    case Sharding::zero3:
      return deepspeed(s);
    default:
      s.refuse(s.shard(),
               "accelerate's file says it, not LLaMA-Factory's; export to hf, or use --shard ddp, "
               "zero2 or zero3");
  }
}

void check(const Setting& s) {
  const std::string& framework = s.c.runtime.framework;
  if (framework != "llamafactory" && framework != "hf-trainer")
    s.refuse("--framework " + framework,
             "its loop is transformers' Trainer; plan with --framework llamafactory");
  if (s.c.memory.kernels != Kernels::eager)
    s.refuse("--kernels", "eager layers are planned of it; use --kernels eager");
  if (s.c.task.supervised() && s.c.memory.loss != LossKind::ce)
    s.refuse(s.loss(), "transformers' loss is planned of it; use --loss ce");
  if (s.c.memory.offload == Offload::activations)
    s.refuse("--offload activations", "it has none; use --ac full");
  if (s.c.run.packing > 0 && s.c.run.packing != s.c.run.batch)
    s.refuse("--packing " + std::to_string(s.c.run.packing),
             "how many documents a row has is the data's; use --packing " +
                 std::to_string(s.c.run.batch) + ", one a row");
  if (s.c.optimizer.kind == Optimizer::muon)
    s.refuse("--optimizer muon", "its Muon is its own; use --optimizer adamw");
  check_parameters(s);
  if (s.c.run.dropout > 0) s.refuse("--dropout", "no key of it says one; leave it out");
}

void note(const Setting& s, ExportResult& out) {
  const std::int64_t world = s.c.layout.world;
  out.notes.push_back(fmt::format(
      "{}llamafactory-cli train FILE.yaml",
      world > 1
          ? fmt::format("run with FORCE_TORCHRUN=1 NPROC_PER_NODE={} (or NNODES, too): ", world)
          : "run with "));
  out.notes.emplace_back("dataset and template are yours; rows are planned cutoff_len tokens long");
  if (s.c.task.prompt > 0)
    out.notes.push_back(fmt::format("{} tokens of each row are planned as the prompt's: the data's",
                                    s.c.task.prompt));
}

void write(const Setting& s, ExportResult& out) {
  check(s);
  out.text = fmt::format(
      "# {}\nmodel_name_or_path: {}\ndo_train: true\n{}{}{}cutoff_len: {}\n{}"
      "per_device_train_batch_size: {}\ngradient_accumulation_steps: {}\noptim: {}\n"
      "max_grad_norm: {}\n{}{}{}{}",
      s.target.version, s.quoted_name(), stage(s), reference(s), adapters(s, pure(s)), s.c.run.seq,
      s.c.run.packing > 0 ? "neat_packing: true\n" : "", s.c.run.batch, s.c.run.grad_accum,
      trainer_optimizer(s), decimal(s.c.optimizer.clip_grad), precision(s), checkpoints(s),
      attention(s), sharding(s));
  note(s, out);
}

constexpr std::string_view says[] = {
    "task",        "ref",          "prompt",       "batch",        "seq",          "grad_accum",
    "world",       "shard",        "ac",           "ac_scope",     "loss",         "kernels",
    "offload",     "optimizer",    "clip_grad",    "autocast",     "param_dtype",  "compute_dtype",
    "attn",        "dropout",      "packing",      "ac_reentrant", "overlap_comm", "lora",
    "adapter",     "lora_targets", "lora_dropout", "lora_dtype",   "dora",         "quantize",
    "kbit_prepare"};

}  // namespace

const Target llamafactory{"llamafactory", "LLaMA-Factory 0.9.5", write, says};

}  // namespace ac_advisor::advise::exports
