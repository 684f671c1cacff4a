// torchtune's YAML. Keys: torchtune v0.6.1, recipes/full_finetune_distributed.py,
// lora_finetune_distributed.py and their single_device ones, recipes/configs/. Behaviour:
// training/_distributed.py, training/activations.py, modules/transformer.py.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "export_target.hpp"

namespace ac_advisor::advise::exports {
namespace {

/// Builders of torchtune/models/<package>/: full ones, and with `lora_` before the name.
struct Builder {
  std::string_view family, package, name;
  std::int64_t layers, hidden;
  bool tied;
};
constexpr Builder builders[] = {
    {"llama", "llama3_2", "llama3_2_1b", 16, 2048, true},
    {"llama", "llama3_2", "llama3_2_3b", 28, 3072, true},
    {"llama", "llama3_1", "llama3_1_8b", 32, 4096, false},
    {"llama", "llama3_1", "llama3_1_70b", 80, 8192, false},
    {"llama", "llama3_1", "llama3_1_405b", 126, 16384, false},
    {"mistral", "mistral", "mistral_7b", 32, 4096, false},
    {"qwen2", "qwen2_5", "qwen2_5_0_5b", 24, 896, true},
    {"qwen2", "qwen2_5", "qwen2_5_1_5b_base", 28, 1536, true},
    {"qwen2", "qwen2_5", "qwen2_5_3b", 36, 2048, true},
    {"qwen2", "qwen2_5", "qwen2_5_7b_base", 28, 3584, false},
};

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
  std::string text = fmt::format(
      "  lora_attn_modules: [{}]\n  apply_lora_to_mlp: {}\n  apply_lora_to_output: False\n"
      "  lora_rank: {}\n  lora_alpha: {}\n  lora_dropout: {}\n",
      attention, in_mlp == 3 ? "True" : "False", a.rank, 2 * a.rank, a.dropout);
  if (a.dora) text += "  use_dora: True\n";
  return text;
}

std::string model_section(const Setting& s, ExportResult& out) {
  const std::string_view prefix = s.c.adapters.used() ? "lora_" : "";
  std::string component;
  for (const Builder& b : builders)
    if (b.family == s.model.family && b.layers == s.model.layers && b.hidden == s.model.hidden &&
        b.tied == s.model.tied_embeddings)
      component = fmt::format("torchtune.models.{}.{}{}", b.package, prefix, b.name);
  if (component.empty()) {
    component = "torchtune.models.PACKAGE.BUILDER";
    out.notes.push_back(fmt::format(
        "name the builder of {} layers and width {} under model._component_: which of torchtune's "
        "has these sizes is not known here",
        s.model.layers, s.model.hidden));
  }
  std::string text = fmt::format("model:\n  _component_: {}\n", component);
  if (s.c.adapters.used()) text += lora(s);
  if (s.c.run.dropout > 0) text += fmt::format("  attn_dropout: {}\n", s.c.run.dropout);
  return text;
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
      out.notes.push_back(
          fmt::format("it checkpoints the last of each {} layers, the plan the first: as many, at "
                      "other places",
                      s.c.memory.ac_arg));
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

std::string offloading(const Setting& s) {
  std::string text;
  if (s.c.memory.offload == Offload::activations) {
    if (s.c.memory.ac != AcMode::full)
      s.refuse("--offload activations " + s.ac(),
               "enable_activation_offloading needs enable_activation_checkpointing; use --ac full");
    text += "enable_activation_offloading: True\n";
  }
  if (s.c.memory.offload == Offload::parameters) text += "fsdp_cpu_offload: True\n";
  return text;
}

void write(const Setting& s, ExportResult& out) {
  check_layout(s);
  check_precision(s);
  check_kernels(s);
  if (s.c.optimizer.in_backward && (s.c.adapters.used() || !one_gpu(s)))
    s.refuse("--optimizer-in-backward",
             "the plan's is of whole gradients, full_finetune_single_device's; drop the option");
  const std::string recipe = fmt::format("{}_finetune_{}", s.c.adapters.used() ? "lora" : "full",
                                         one_gpu(s) ? "single_device" : "distributed");
  out.text = fmt::format(
      "# {}: over a configuration of {}\n{}batch_size: {}\ngradient_accumulation_steps: {}\n"
      "optimizer:\n{}{}clip_grad_norm: {}\ncompile: False\n{}{}{}dtype: {}\n",
      s.target.version, recipe, model_section(s, out), s.c.run.batch, s.c.run.grad_accum,
      optimizer(s), loss(s),
      s.c.optimizer.clip_grad > 0 ? fmt::format("{}", s.c.optimizer.clip_grad) : "null",
      s.c.optimizer.in_backward ? "optimizer_in_bwd: True\n" : "", checkpointing(s, out),
      offloading(s), to_option(s.c.precision.param_dtype));
  out.notes.push_back(
      one_gpu(s) ? fmt::format("run with tune run {} --config FILE.yaml", recipe)
                 : fmt::format("run with tune run --nproc_per_node {} {} --config FILE.yaml",
                               s.c.layout.world, recipe));
  out.notes.push_back(fmt::format(
      "sequences have {} tokens: tokenizer.max_seq_len, of data that fills them", s.c.run.seq));
  out.notes.emplace_back(
      "the plan has transformers' layers; torchtune's own norms, rotation and repeated keys hold "
      "more or less inside of a layer");
}

}  // namespace

const Target torchtune{"torchtune", "torchtune 0.6.1", write};

}  // namespace ac_advisor::advise::exports
