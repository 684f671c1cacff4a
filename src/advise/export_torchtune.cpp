// torchtune's YAML. Keys: torchtune v0.6.1, recipes/full_finetune_distributed.py,
// lora_finetune_distributed.py and their single_device ones, recipes/configs/. Behaviour:
// training/_distributed.py, training/activations.py, modules/transformer.py.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "ac_advisor/model/layers.hpp"
#include "export_target.hpp"
#include "flavors.hpp"

namespace ac_advisor::advise::exports {
namespace {

bool one_gpu(const Setting& s) { return s.c.layout.world == 1; }

/// What LoRA's configurations name, and how transformers calls it.
struct AttentionModule {
  std::string_view ours, theirs;
};
constexpr AttentionModule attention_modules[] = {
    {"q_proj", "q_proj"}, {"k_proj", "k_proj"}, {"v_proj", "v_proj"}, {"o_proj", "output_proj"}};
constexpr std::string_view mlp_modules[] = {"gate_proj", "up_proj", "down_proj"};

std::string lora(const Setting& s) {
  const Adapters& a = s.c.adapters;
  if (a.of_another_method())
    s.refuse(given_adapters(s.c), "it has LoRA and DoRA alone; export to hf");
  if (a.quantize != Quantization::none)
    s.refuse(std::string("--quantize ") + to_option(a.quantize),
             "its quantized base is torchao's NF4Tensor, and the plan's is bitsandbytes'; export "
             "to hf, or use --quantize none");
  if (a.dtype != DType::bf16)
    s.refuse("--lora-dtype fp32", "adapters have the base's dtype; use --lora-dtype bf16");
  const bool all = a.targets == "all-linear";
  // PEFT's own default, which the plan has where no targets are named.
  const std::string targets = "," + (a.targets.empty() ? "q_proj,v_proj" : a.targets) + ",";
  const auto targeted = [&](std::string_view name) {
    return all || targets.find("," + std::string(name) + ",") != std::string::npos;
  };
  std::string attention;
  for (const AttentionModule& m : attention_modules)
    if (targeted(m.ours))
      attention += fmt::format("{}'{}'", attention.empty() ? "" : ", ", m.theirs);
  const auto in_mlp = std::count_if(std::begin(mlp_modules), std::end(mlp_modules), targeted);
  if (in_mlp != 0 && in_mlp != 3)
    s.refuse("--lora-targets " + a.targets,
             "apply_lora_to_mlp is of gate_proj, up_proj and down_proj together; name all three or "
             "none");
  const auto named = std::count(targets.begin(), targets.end(), ',') - 1;
  const auto in_attention = std::count(attention.begin(), attention.end(), '\'') / 2;
  if (!all && named != in_attention + in_mlp)
    s.refuse(
        "--lora-targets " + a.targets,
        "its adapters are of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj; "
        "name some of these");
  // modules/peft and each lora_*_self_attention: "Must pass one or more of …"
  if (attention.empty())
    s.refuse("--lora-targets " + a.targets,
             "lora_attn_modules must name one or more of attention's projections; add q_proj");
  std::string text = fmt::format("  lora_attn_modules: [{}]\n  apply_lora_to_mlp: {}\n", attention,
                                 in_mlp == 3 ? "True" : "False");
  if (s.model.family != "gemma") text += "  apply_lora_to_output: False\n";
  text += fmt::format("  lora_rank: {}\n  lora_alpha: {}\n  lora_dropout: {}\n", a.rank, 2 * a.rank,
                      decimal(a.dropout));
  if (a.dora) text += "  use_dora: True\n";
  return text;
}

/// A builder of torchtune/models/<package>/_component_builders.py, which is given all sizes.
struct Component {
  std::string_view package, name;
  bool scales = false;  ///< scale_factor
  bool ties = false;    ///< tie_word_embeddings
  bool sizes_heads = false;
};

/// Null: none has such a model.
std::optional<Component> component(const model::ModelSpec& m) {
  const double factor = llama3_rope_factor(m);
  const bool own_heads = m.heads * m.head_dim != m.hidden;
  if (m.output_bias || m.mlp_bias || factor == 0 || m.qk_norm) return std::nullopt;
  // A factor of 1 leaves frequencies as they are: llama3_2 is the one that ties.
  if (m.family == "llama" && !m.qkv_bias && !own_heads) {
    if (m.tied_embeddings) return Component{"llama3_2", "llama3_2", true, true};
    if (factor != 1) return Component{"llama3_1", "llama3_1", true};
    return Component{"llama3", "llama3"};
  }
  if (factor != 1) return std::nullopt;
  if (m.family == "mistral" && !m.qkv_bias && !own_heads && !m.tied_embeddings)
    return Component{"mistral", "mistral"};
  if (m.family == "qwen2" && m.qkv_bias && !own_heads)
    return Component{"qwen2", "qwen2", false, true};
  if (m.family == "gemma" && !m.qkv_bias && m.tied_embeddings)
    return Component{"gemma", "gemma", false, false, true};
  return std::nullopt;
}

std::string written_out(const Setting& s, const Component& c, std::string_view prefix) {
  const model::ModelSpec& m = s.model;
  std::string text = fmt::format(
      "model:\n  _component_: torchtune.models.{}.{}{}\n  vocab_size: {}\n"
      "  num_layers: {}\n  num_heads: {}\n  num_kv_heads: {}\n  embed_dim: {}\n"
      "  intermediate_dim: {}\n  max_seq_len: {}\n  norm_eps: {}\n  rope_base: {}\n",
      c.package, prefix, c.name, m.vocab, m.layers, m.heads, m.kv_heads, m.hidden, m.intermediate,
      std::max(m.max_positions, s.c.run.seq), decimal(m.rms_norm_eps),
      static_cast<std::int64_t>(m.rope_theta));
  if (c.sizes_heads) text += fmt::format("  head_dim: {}\n", m.head_dim);
  if (c.scales)
    text += fmt::format("  scale_factor: {}\n", static_cast<std::int64_t>(llama3_rope_factor(m)));
  if (c.ties)
    text += fmt::format("  tie_word_embeddings: {}\n", m.tied_embeddings ? "True" : "False");
  if (s.c.run.dropout > 0) text += fmt::format("  attn_dropout: {}\n", decimal(s.c.run.dropout));
  return text;
}

/// A builder that has all of the model's sizes by its name; otherwise they are written out.
std::string model_section(const Setting& s) {
  const Adapters& a = s.c.adapters;
  const std::string_view prefix = a.used() ? "lora_" : "";
  const std::string adapters = a.used() ? lora(s) : "";
  s.refuse_windows();
  const Flavor* flavor = find_flavor(s.target.name, s.model);
  // Named builders take no dropout of attention, and that of 405B no use_dora.
  if (flavor != nullptr && s.c.run.dropout == 0 && (!a.dora || flavor->size("dora") != 0))
    return fmt::format("model:\n  _component_: torchtune.models.{}.{}{}\n{}", flavor->model, prefix,
                       flavor->name, adapters);
  const std::optional<Component> made = component(s.model);
  if (!made) {
    const std::string nearest = nearest_flavor(s.target.name, s.model);
    s.refuse(
        "model " + s.quoted_name() + " of family " + s.model.family,
        (nearest.empty() ? "it has llama, mistral, qwen2 and gemma of these families" : nearest) +
            "; export to hf or automodel");
  }
  return written_out(s, *made, prefix) + adapters;
}

std::string optimizer(const Setting& s) {
  switch (s.c.optimizer.kind) {
    case Optimizer::adamw:
      return "  _component_: torch.optim.AdamW\n  fused: True\n";
    case Optimizer::adamw_foreach:
      return "  _component_: torch.optim.AdamW\n  foreach: True\n";
    case Optimizer::sgd:
      return "  _component_: torch.optim.SGD\n  fused: True\n";
    case Optimizer::sgd_momentum:
      return "  _component_: torch.optim.SGD\n  momentum: 0.9\n  foreach: True\n";
    case Optimizer::adamw_8bit:
      return "  _component_: bitsandbytes.optim.AdamW8bit\n";
    case Optimizer::paged_adamw:
      return "  _component_: bitsandbytes.optim.PagedAdamW\n";
    case Optimizer::paged_adamw_8bit:
      return "  _component_: bitsandbytes.optim.PagedAdamW8bit\n";
    case Optimizer::adamw_8bit_torchao:
      return "  _component_: torchao.optim.AdamW8bit\n";
    case Optimizer::lion:
      return "  _component_: bitsandbytes.optim.Lion\n";
    case Optimizer::adafactor:
    case Optimizer::muon:
      break;
  }
  s.refuse(std::string("--optimizer ") + to_option(s.c.optimizer.kind),
           "one component is made of all parameters with a learning rate; use --optimizer adamw");
}

std::string loss(const Setting& s) {
  if (s.c.memory.loss == LossKind::chunked_logits)
    return fmt::format(
        "loss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\n"
        "  num_output_chunks: {}\n",
        s.c.memory.chunk_tokens);
  if (s.c.memory.loss == LossKind::ce && s.c.memory.wide_output)
    return "loss:\n  _component_: torch.nn.CrossEntropyLoss\n";
  if (s.c.memory.loss == LossKind::ce)
    s.refuse("--loss ce",
             "its whole logits leave the model in fp32; use --output-dtype fp32, or --loss "
             "chunked-logits:8");
  s.refuse(s.loss(), "its losses are of logits, whole or in parts; use --loss chunked-logits:8");
}

std::string checkpointing(const Setting& s, ExportResult& out) {
  if (s.c.memory.ac != AcMode::none && s.c.memory.scope == AcScope::submodule)
    s.refuse("--ac-scope submodule", "it checkpoints whole layers; use --ac-scope block");
  switch (s.c.memory.ac) {
    case AcMode::none:
      return "enable_activation_checkpointing: False\n";
    case AcMode::full:
      return "enable_activation_checkpointing: True\n";
    case AcMode::every:
      if (one_gpu(s) || s.c.adapters.used())
        s.refuse(s.ac(), "ac_mode is full_finetune_distributed's alone; use --ac full");
      if (!model::layer_forms(s.model, s.c).counts_from_one)
        out.notes.push_back(fmt::format(
            "it checkpoints the last of each {} layers, the plan the first: {} layers, not {}",
            s.c.memory.ac_arg, s.model.layers / s.c.memory.ac_arg,
            (s.model.layers + s.c.memory.ac_arg - 1) / s.c.memory.ac_arg));
      return fmt::format(
          "enable_activation_checkpointing: False\nac_mode: selective\nac_option: {}\n",
          s.c.memory.ac_arg);
    default:
      s.refuse(s.ac(), "it checkpoints each layer whole, or every K-th; use --ac full or every:K");
  }
}

void check_layout(const Setting& s) {
  if (s.c.layout.shard != Sharding::none && s.c.layout.shard != Sharding::fsdp2)
    s.refuse(s.shard(), "its recipes shard by fully_shard over all ranks; use --shard fsdp2");
  if (s.c.layout.keep_last_block)
    s.refuse("--keep-last-block",
             "fsdp_reshard_after_forward is one value for all layers; drop the option");
  if (s.c.layout.reshard_to > 0)
    s.refuse("--reshard-after-forward " + std::to_string(s.c.layout.reshard_to),
             "fsdp_reshard_after_forward is True or False; use one of them");
  if (s.gathers() && s.c.layout.no_sync)
    s.refuse("--no-sync", "every micro-batch reduces its gradients there; drop the option");
}

void check_precision(const Setting& s) {
  const Precision& p = s.c.precision;
  if (p.autocast)
    s.refuse("--autocast " + std::string(to_option(p.compute_dtype)),
             "dtype is what parameters, gradients and states are stored in; use --param-dtype bf16 "
             "without --autocast");
  if (p.param_dtype != p.compute_dtype || (s.gathers() && p.reduce_dtype != p.compute_dtype))
    s.refuse(std::string("--param-dtype ") + to_option(p.param_dtype) + " --compute-dtype " +
                 to_option(p.compute_dtype),
             "fully_shard is called without a mixed precision policy; use one dtype for all");
}

void check_kernels(const Setting& s) {
  if (s.c.memory.kernels == Kernels::fused)
    s.refuse("--kernels fused", "its layers are its own; use --kernels eager");
  if (s.c.memory.kernels == Kernels::compiled)
    s.refuse("--kernels compiled",
             "compile: True compiles the loss's chunks with the layers, which the plan has not; "
             "use --kernels eager");
  if (s.c.run.attention == Attention::eager || s.c.run.attention == Attention::flash1)
    s.refuse(std::string("--attn ") + to_option(s.c.run.attention),
             "it calls scaled_dot_product_attention; use --attn auto");
}

const char* boolean(bool value) { return value ? "True" : "False"; }

/// Said where it is off, too: the configuration that this goes over may have it on.
std::string switches(const Setting& s) {
  const bool activations = s.c.memory.offload == Offload::activations;
  if (activations && s.c.memory.ac != AcMode::full)
    s.refuse("--offload activations " + s.ac(),
             "enable_activation_offloading needs enable_activation_checkpointing; use --ac full");
  std::string text = fmt::format("enable_activation_offloading: {}\n", boolean(activations));
  if (!one_gpu(s))
    text += fmt::format("fsdp_cpu_offload: {}\ncustom_sharded_layers: null\n",
                        boolean(s.c.memory.offload == Offload::parameters));
  if (!s.c.layout.reshard_after_forward) text += "fsdp_reshard_after_forward: False\n";
  if (!s.c.adapters.used())
    text += fmt::format("optimizer_in_bwd: {}\n", boolean(s.c.optimizer.in_backward));
  return text;
}

void write(const Setting& s, ExportResult& out) {
  check_layout(s);
  check_precision(s);
  check_kernels(s);
  // Neither recipe steps in backward beside accumulation or clipping (recipes/
  // full_finetune_single_device.py and full_finetune_distributed.py, __init__).
  if (s.c.optimizer.in_backward && (s.c.adapters.used() || !one_gpu(s)))
    s.refuse("--optimizer-in-backward",
             "the plan's is of whole gradients, full_finetune_single_device's; drop the option");
  if (s.c.optimizer.in_backward && (s.c.run.grad_accum > 1 || s.c.optimizer.clip_grad > 0))
    s.refuse("--optimizer-in-backward beside --grad-accum or --clip-grad",
             "its recipe refuses it: gradients are gone by then; drop the option");
  const std::string recipe = fmt::format("{}_finetune_{}", s.c.adapters.used() ? "lora" : "full",
                                         one_gpu(s) ? "single_device" : "distributed");
  out.text = fmt::format(
      "# {}: over a configuration of {}\n{}batch_size: {}\ngradient_accumulation_steps: {}\n"
      "optimizer:\n{}{}clip_grad_norm: {}\ncompile: False\n{}{}dtype: {}\n",
      s.target.version, recipe, model_section(s), s.c.run.batch, s.c.run.grad_accum, optimizer(s),
      loss(s), s.c.optimizer.clip_grad > 0 ? decimal(s.c.optimizer.clip_grad) : "null",
      checkpointing(s, out), switches(s), to_option(s.c.precision.param_dtype));
  out.notes.push_back(
      one_gpu(s) ? fmt::format("run with tune run {} --config FILE.yaml", recipe)
                 : fmt::format("run with tune run --nproc_per_node {} {} --config FILE.yaml",
                               s.c.layout.world, recipe));
  out.notes.push_back(fmt::format(
      "sequences have {} tokens: tokenizer.max_seq_len, of data that fills them", s.c.run.seq));
}

constexpr std::string_view says[] = {"batch",
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
                                     "lora",
                                     "adapter",
                                     "lora_targets",
                                     "lora_dropout",
                                     "dora",
                                     "quantize",
                                     "lora_dtype",
                                     "param_dtype",
                                     "compute_dtype",
                                     "autocast",
                                     "fp8",
                                     "no_sync",
                                     "keep_last_block",
                                     "reshard_after_forward",
                                     "dropout",
                                     "tp",
                                     "cp",
                                     "ep",
                                     "pp",
                                     "master_weights",
                                     "optimizer_in_backward",
                                     "grad_scaler",
                                     "fp8_all_gather"};

}  // namespace

const Target torchtune{"torchtune", "torchtune 0.6.1", write, says};

}  // namespace ac_advisor::advise::exports
