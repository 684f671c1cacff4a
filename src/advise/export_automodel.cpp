// NeMo AutoModel's recipe YAML. Keys: NVIDIA-NeMo/Automodel v0.5.0,
// nemo_automodel/recipes/_dist_utils.py (distributed), components/distributed/config.py
// (FSDP2Config, DDPConfig), _transformers/auto_model.py (model), components/loss/ (loss_fn).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/layer_names.hpp"
#include "export_target.hpp"
#include "torch_dtype.hpp"

namespace ac_advisor::advise::exports {
namespace {

/// Families with an implementation of AutoModel's own: _transformers/registry.py.
constexpr std::string_view own_implementations[] = {"llama", "qwen2", "qwen3_moe"};

bool has_own_implementation(const std::string& family) {
  return std::find(std::begin(own_implementations), std::end(own_implementations), family) !=
         std::end(own_implementations);
}

/// parallelizer.py: under fsdp2 transformers' own layers are checkpointed whole, AutoModel's by
/// sub-module; ddp.py: always by sub-module; one rank: transformers' switch, whole blocks.
void check_scope(const Setting& s) {
  const bool whole = s.c.memory.scope == AcScope::block;
  if (s.c.memory.ac != AcMode::full) return;
  if (s.c.layout.shard == Sharding::ddp && whole)
    s.refuse("--ac-scope block --shard ddp",
             "its ddp strategy checkpoints sub-modules; use --ac-scope submodule");
  if (s.c.layout.shard == Sharding::none && !whole)
    s.refuse("--ac-scope submodule",
             "on one rank it checkpoints whole blocks; use --ac-scope block");
  if (s.gathers() && !whole && !has_own_implementation(s.model.family))
    s.refuse("--ac-scope submodule",
             "layers of transformers 5.3 and later are checkpointed whole, and " + s.model.family +
                 " has no implementation of AutoModel's own; use --ac-scope block");
}

std::string checkpointing(const Setting& s) {
  switch (s.c.memory.ac) {
    case AcMode::none:
      return "false";
    case AcMode::full:
      check_scope(s);
      return "true";
    case AcMode::selective:
      if (s.c.layout.shard == Sharding::ddp)
        s.refuse("--ac selective --shard ddp",
                 "selective is for its fsdp2 strategy only; use --shard fsdp2");
      return "selective";
    default:
      s.refuse(s.ac(),
               "activation_checkpointing is true, selective or false for all blocks; use "
               "--ac full or --ac selective");
  }
}

std::string distributed(const Setting& s) {
  if (s.c.layout.zero())
    s.refuse(s.shard(),
             "its zero_dp_strategy belongs to Megatron-FSDP, whose buffers are others than the "
             "plan's; use --shard fsdp2, or export to deepspeed");
  std::string text = fmt::format("distributed:\n  strategy: {}\n  dp_size: none\n",
                                 s.c.layout.shard == Sharding::ddp ? "ddp" : "fsdp2");
  if (s.c.layout.shard == Sharding::hsdp)
    text += fmt::format("  dp_replicate_size: {}\n", s.replicas());
  text += "  tp_size: 1\n  cp_size: 1\n";
  if (s.c.precision.autocast) text += "  autocast_dtype: bfloat16\n";
  text += fmt::format("  activation_checkpointing: {}\n", checkpointing(s));
  if (!s.gathers()) return text;
  if (s.c.layout.reshard_to > 0)
    s.refuse("--reshard-after-forward " + std::to_string(s.c.layout.reshard_to),
             "reshard_after_forward is true, false or null; use true or false");
  text += fmt::format("  reshard_after_forward: {}\n", !s.c.layout.reshard_after_forward ? "false"
                                                       : s.c.layout.keep_last_block      ? "null"
                                                                                         : "true");
  text += fmt::format("  defer_fsdp_grad_sync: {}\n", s.c.layout.no_sync);
  text += fmt::format(
      "  mp_policy:\n    _target_: torch.distributed.fsdp.MixedPrecisionPolicy\n"
      "    param_dtype: {0}\n    reduce_dtype: {1}\n    output_dtype: {0}\n",
      torch_dtype(s.c.precision.compute_dtype), torch_dtype(s.c.precision.reduce_dtype));
  return text;
}

std::string model_section(const Setting& s) {
  std::string text = fmt::format(
      "model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
      "  pretrained_model_name_or_path: {}\n  torch_dtype: {}\n",
      s.quoted_name(), torch_dtype(s.c.precision.param_dtype));
  if (s.c.memory.scope == AcScope::block || s.c.memory.ac != AcMode::full || !s.gathers())
    text += "  force_hf: true\n";
  text += fmt::format("  use_liger_kernel: {}\n", s.c.memory.kernels == Kernels::fused);
  switch (s.c.run.attention) {
    case Attention::automatic:
      break;
    case Attention::flash1:
      s.refuse("--attn flash1",
               "PyTorch's flash attention is the second version since 2.2; use --attn flash");
    case Attention::flash:
      text += "  sdpa_method: [flash_attention]\n";
      break;
    case Attention::cudnn:
      text += "  sdpa_method: [cudnn_attention]\n";
      break;
    case Attention::efficient:
      text += "  sdpa_method: [efficient_attention]\n";
      break;
    case Attention::math:
      text += "  sdpa_method: [math]\n";
      break;
    case Attention::eager:
      text += "  attn_implementation: eager\n";
      break;
  }
  if (s.c.memory.loss == LossKind::lc_ce) text += "  output_hidden_states: true\n";
  if (s.c.run.dropout > 0)
    text += fmt::format("  attention_dropout: {}\n", decimal(s.c.run.dropout));
  return text;
}

std::string loss(const Setting& s) {
  if (s.c.memory.loss == LossKind::chunked)
    s.refuse(s.loss(),
             "its ChunkedCrossEntropy splits logits that exist in full already; use "
             "--loss lc-ce");
  return fmt::format("loss_fn:\n  _target_: nemo_automodel.components.loss.{}\n",
                     s.c.memory.loss == LossKind::ce ? "masked_ce.MaskedCrossEntropy"
                                                     : "linear_ce.FusedLinearCrossEntropy");
}

const char* optimizer(const Setting& s) {
  if (s.c.optimizer.master_weights)
    return "optimizer:\n  _target_: transformer_engine.pytorch.optimizers.FusedAdam\n"
           "  master_weights: true\n";
  switch (s.c.optimizer.kind) {
    case Optimizer::adamw:
      return "optimizer:\n  _target_: torch.optim.AdamW\n  fused: true\n";
    case Optimizer::adamw_foreach:
      return "optimizer:\n  _target_: torch.optim.AdamW\n  foreach: true\n";
    case Optimizer::sgd:
      return "optimizer:\n  _target_: torch.optim.SGD\n";
    case Optimizer::sgd_momentum:
      return "optimizer:\n  _target_: torch.optim.SGD\n  momentum: 0.9\n";
    case Optimizer::adamw_8bit:
      return "optimizer:\n  _target_: bitsandbytes.optim.AdamW8bit\n";
    case Optimizer::paged_adamw:
      return "optimizer:\n  _target_: bitsandbytes.optim.PagedAdamW\n";
    case Optimizer::paged_adamw_8bit:
      return "optimizer:\n  _target_: bitsandbytes.optim.PagedAdamW8bit\n";
    case Optimizer::adamw_8bit_torchao:
      return "optimizer:\n  _target_: torchao.optim.AdamW8bit\n";
    case Optimizer::adafactor:
      return "optimizer:\n  _target_: transformers.optimization.Adafactor\n"
             "  scale_parameter: false\n  relative_step: false\n";
    case Optimizer::lion:
      return "optimizer:\n  _target_: bitsandbytes.optim.Lion\n";
    case Optimizer::muon:
      s.refuse("--optimizer muon",
               "a recipe has one optimizer, torch.optim.Muon takes matrices alone; use --optimizer "
               "adamw");
  }
  return "";
}

/// Without the section it clips at 1.0 (recipes/llm/train_ft.py, setup).
std::string clipping(const Setting& s) {
  if (s.c.optimizer.clip_grad == 0) return {};
  return fmt::format("clip_grad_norm:\n  max_norm: {}\n\n", decimal(s.c.optimizer.clip_grad));
}

/// module_matcher.py: a name, or a pattern of whole paths. "*_proj" is all linear layers of blocks
/// where they are called so, without the LM head that match_all_linear takes along.
std::string target_modules(const Setting& s) {
  std::string targets = s.c.adapters.targets;
  if (targets.empty()) targets = model::default_targets(s.c.adapters.method, s.model.family);
  if (targets == "all-linear") {
    const model::LayerNames& names = model::layer_names(s.model.family);
    for (const std::string_view name : {names.q, names.qkv, names.o, names.up, names.down})
      if (!name.empty() && !name.ends_with("_proj"))
        s.refuse("--lora-targets all-linear",
                 fmt::format("its match_all_linear adapts the LM head, too, and \"*_proj\" leaves "
                             "{} out; name layers by --lora-targets",
                             name));
    return "\"*_proj\"";
  }
  std::string list = "[\"*";
  for (const char letter : targets) list += letter == ',' ? "\", \"*" : std::string(1, letter);
  return list + "\"]";
}

/// components/_peft/lora.py, PeftConfig.
std::string adapters(const Setting& s) {
  const Adapters& a = s.c.adapters;
  if (!a.used()) return {};
  if (a.of_another_method())
    s.refuse_adapters("its peft section makes LoRA's alone; use --lora RANK, or export to hf");
  if (s.c.runtime.framework != automodel.name)
    s.refuse_adapters(
        "its layers are its own, and the plan's are PEFT's; plan with --framework "
        "automodel");
  if (a.dora)
    s.refuse("--dora", "how its own layers do it is not planned; drop --dora, or export to hf");
  if (a.quantized())
    s.refuse(std::string("--quantize ") + to_option(a.quantize),
             "its quantization section is not written yet: add it by hand to a file without "
             "--quantize, or export to hf");
  std::string text = fmt::format(
      "\npeft:\n  _target_: nemo_automodel.components._peft.lora.PeftConfig\n"
      "  target_modules: {}\n  dim: {}\n  alpha: {}\n  lora_dtype: {}\n",
      target_modules(s), a.rank, 2 * a.rank, torch_dtype(a.dtype));
  if (a.dropout > 0) text += fmt::format("  dropout: {}\n", decimal(a.dropout));
  return text;
}

void write(const Setting& s, ExportResult& out) {
  out.text = fmt::format(
      "# {}\nrecipe: TrainFinetuneRecipeForNextTokenPrediction\n\n"
      "step_scheduler:\n  global_batch_size: {}\n  local_batch_size: {}\n\n{}{}\n{}\n{}\n{}{}",
      s.target.version, s.global_batch(), s.c.run.batch, clipping(s), model_section(s),
      distributed(s), loss(s), optimizer(s), adapters(s));
  out.notes.push_back(
      fmt::format("run with automodel FILE --nproc-per-node {}; the dataset section "
                  "must give sequences of {} tokens",
                  s.c.layout.world, s.c.run.seq));
  out.notes.emplace_back(
      "pretrained_model_name_or_path is the plan's name of the model: put its "
      "path or Hub name there, and a learning rate under optimizer");
  if (s.c.memory.ac == AcMode::full && s.c.memory.scope == AcScope::submodule && s.gathers())
    out.notes.emplace_back(
        "without force_hf AutoModel runs its own implementation, which is what "
        "it checkpoints by sub-module, and leaves Liger's kernels out of it");
}

constexpr std::string_view says[] = {"batch",
                                     "seq",
                                     "grad_accum",
                                     "world",
                                     "shard",
                                     "ac",
                                     "ac_scope",
                                     "kernels",
                                     "compile_unit",
                                     "loss",
                                     "optimizer",
                                     "master_weights",
                                     "clip_grad",
                                     "keep_last_block",
                                     "reshard_after_forward",
                                     "no_sync",
                                     "autocast",
                                     "param_dtype",
                                     "compute_dtype",
                                     "attn",
                                     "lora",
                                     "lora_targets",
                                     "lora_dtype",
                                     "lora_dropout",
                                     "dropout",
                                     "offload",
                                     "tp",
                                     "cp",
                                     "ep",
                                     "pp",
                                     "fp8",
                                     "fp8_all_gather",
                                     "optimizer_in_backward",
                                     "grad_scaler"};

}  // namespace

const Target automodel{"automodel", "NeMo AutoModel 0.5.0", write, says};

}  // namespace ac_advisor::advise::exports
