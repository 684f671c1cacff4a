#include "ac_advisor/advise/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ac_advisor/ir/torch_facts.hpp"
#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "check_device.hpp"
#include "export_target.hpp"

namespace ac_advisor::advise {
namespace exports {
namespace {

/// In alphabetical order.
constexpr const Target* targets[] = {&automodel, &deepspeed,  &hf,        &litgpt, &llamafactory,
                                     &megatron,  &torchtitan, &torchtune, &verl};

/// What no target has.
void check_all(const Setting& s) {
  if (s.c.memory.ac == AcMode::budget)
    s.refuse(s.ac(),
             "it chooses a mode for each block, and no framework takes a list of modes; run "
             "advise and export the uniform mode that it ranks first");
  if (s.c.memory.ac == AcMode::memory_budget)
    s.refuse(s.ac(),
             "it is set in code, torch._functorch.config.activation_memory_budget; use --ac none");
  if (s.c.runtime.framework == "ms-swift" && !s.c.task.supervised())
    s.refuse("--framework ms-swift",
             "its command has no equivalent that is written here; plan with --framework trl");
  if (s.c.verl() != (s.target.name == verl.name))
    s.refuse("--framework " + s.c.runtime.framework,
             s.c.verl() ? "the plan is of verl's worker; export to verl"
                        : "its worker's step is another; plan with --framework verl");
  const std::string_view own = s.c.verl()           ? verl.name
                               : s.c.llamafactory() ? llamafactory.name
                                                    : hf.name;
  if (!s.c.task.supervised() && s.target.name != own)
    s.refuse(std::string("--task ") + to_option(s.c.task.kind),
             fmt::format("the plan is of {}'s step; export to {}",
                         s.c.verl()           ? "verl"
                         : s.c.llamafactory() ? "LLaMA-Factory"
                                              : "TRL",
                         own));
  if (s.c.layout.shard == Sharding::fsdp1 && s.target.name != hf.name && !s.c.verl())
    s.refuse(s.shard(),
             "it does not use FullyShardedDataParallel; export to hf, or use --shard fsdp2");
  if (s.c.memory.kernels == Kernels::compiled && s.target.name != torchtitan.name &&
      s.target.name != hf.name && s.target.name != torchtune.name)
    s.refuse("--kernels compiled",
             "it does not compile blocks one by one; export to torchtitan or hf, or use --kernels "
             "eager");
  if (s.c.memory.compile_unit == CompileUnit::model && s.target.name != hf.name)
    s.refuse("--compile-unit model",
             "it does not compile the model with its loss as one graph; export to hf, or use "
             "--compile-unit block");
  if (s.c.megatron() && s.target.name != megatron.name)
    s.refuse(std::string("--transformer-impl ") + to_option(s.c.run.transformer_impl),
             "the plan is of Megatron-core's own step; export to megatron");
  if (s.c.litgpt() && s.target.name != litgpt.name)
    s.refuse("--transformer-impl litgpt", "the plan is of litgpt's own step; export to litgpt");
  if (s.c.layout.tp > 1 && s.target.name != torchtitan.name && !s.c.megatron())
    s.refuse("--tp " + std::to_string(s.c.layout.tp),
             s.c.layout.has_whole_tokens()
                 ? "the plan is of AutoModel's own, for which no file is written yet: set tp_size "
                   "there by hand, or use --tp 1"
                 : "the plan is of TorchTitan's layout; export to torchtitan, or use --tp 1");
  if (s.c.layout.ulysses())
    s.refuse("--cp-method ulysses",
             "UlyssesSPAttentionHF.register_with_transformers and its data loader's adapter are "
             "calls of a script's own (accelerate: ParallelismConfig(sp_size=N)); use --cp 1");
  else if (s.c.layout.cp > 1 && s.target.name != torchtitan.name && !s.c.megatron())
    s.refuse("--cp " + std::to_string(s.c.layout.cp),
             model::rings_by_automodel(s.c)
                 ? "the plan is of AutoModel's own ring, for which no file is written yet: set "
                   "cp_size there by hand, or use --cp 1"
                 : "the plan is of PyTorch's ring attention as TorchTitan applies it; export to "
                   "torchtitan, or use --cp 1");
  if (s.gathers() && s.c.layout.fsdp_unit == FsdpUnit::torchtitan &&
      s.target.name != torchtitan.name)
    s.refuse("--fsdp-unit torchtitan",
             "its embedding and head are in the root's unit; use --fsdp-unit block");
  if (s.gathers() && s.c.layout.fsdp_unit == FsdpUnit::accelerate && s.target.name != hf.name)
    s.refuse("--fsdp-unit accelerate",
             "its units are others; use --fsdp-unit block, or torchtitan");
  const bool of_titan =
      s.target.name == torchtitan.name && s.c.run.transformer_impl == TransformerImpl::torchtitan;
  if (s.c.layout.ep > 1 && !s.c.megatron() && !of_titan)
    s.refuse("--ep " + std::to_string(s.c.layout.ep),
             "no key of a file shares experts; hand from_pretrained a "
             "DistributedConfig(fsdp_size=…, ep_size=…), or leave --ep out");
  if (s.c.layout.pp > 1 && s.target.name != torchtitan.name && !s.c.megatron())
    s.refuse("--pp " + std::to_string(s.c.layout.pp),
             "the plan is of torch.distributed.pipelining in TorchTitan's layout; export to "
             "torchtitan, or use --pp 1");
  if (s.gathers() && s.c.layout.fsdp_unit == FsdpUnit::segment)
    s.refuse("--fsdp-unit segment", "each block is a unit of its own there; use --fsdp-unit block");
  if (s.c.memory.loss == LossKind::ce_no_upcast)
    s.refuse("--loss ce-no-upcast", "its loss is computed from fp32 logits; use --loss ce");
  if (s.c.memory.loss == LossKind::ce_compiled && s.target.name != torchtitan.name &&
      !s.c.megatron())
    s.refuse("--loss ce-compiled", "it does not compile its loss by itself; use --loss ce");
  if (s.c.memory.loss == LossKind::tiled && s.c.runtime.framework != "trl")
    s.refuse("--loss tiled", "it is the LM head of TRL's trainers; use --framework trl");
  if (s.c.memory.loss == LossKind::chunked_logits && s.target.name != torchtune.name)
    s.refuse("--loss " + loss_option(s.c),
             "its chunks are torchtune's; export to torchtune, or use --loss ce");
  const bool packs = s.target.name == hf.name || s.target.name == llamafactory.name;
  if (s.c.run.packing > 0 && !packs && !s.c.verl())
    s.refuse("--packing " + std::to_string(s.c.run.packing),
             "its packed rows are not the plan's; export to hf, or use --packing 0");
  if (s.c.run.images > 0 && s.target.name != hf.name)
    s.refuse("--images " + std::to_string(s.c.run.images),
             "what it trains of an encoder is not known here; export to hf");
  if (s.c.run.images > 0 && (s.c.memory.ac == AcMode::full) != s.c.memory.tower_ac)
    s.refuse(s.ac() + (s.c.memory.tower_ac ? " --tower-ac" : " --no-tower-ac"),
             "it checkpoints the encoder's layers and the decoder's blocks together; use --ac full "
             "--tower-ac, or neither");
  if (s.c.run.frozen.any())
    s.refuse(
        "--freeze " + freeze_text(s.c),
        "no argument of its Trainer freezes parts of a model; train all of it, or freeze it in "
        "the script");
  const bool half = s.c.precision.compute_dtype == DType::f16;
  if (half && s.target.name != hf.name && s.target.name != megatron.name)
    s.refuse("--compute-dtype fp16",
             "its loss scaler, or its want of one, is not the plan's; export to hf, or use bf16");
  if (s.target.name == hf.name && half && s.c.precision.param_dtype == DType::f32 &&
      !s.c.optimizer.grad_scaler)
    s.refuse("--no-grad-scaler", "accelerate scales the loss of fp16; drop --no-grad-scaler");
  if (s.c.optimizer.grad_scaler && !half)
    s.refuse("--grad-scaler", "it scales the loss of fp16 alone; drop --grad-scaler");
  if (s.c.compression.used() && s.target.name != hf.name)
    s.refuse("--grad-compression " + compression_option(s.c),
             "its loop registers no communication hook; export to hf, or drop --grad-compression");
  if (s.c.optimizer.ema) s.refuse("--ema", "the average is the loop's own; drop --ema");
  if (s.c.memory.offload == Offload::activations && s.target.name != hf.name &&
      s.target.name != torchtune.name)
    s.refuse("--offload activations", "it is TRL's; export to hf with --framework trl");
  if (s.c.memory.offload == Offload::parameters &&
      (s.target.name == automodel.name || s.target.name == megatron.name))
    s.refuse("--offload parameters",
             "FSDP2's CPUOffloadPolicy has no key that is known here; export to torchtitan, "
             "torchtune or hf, or drop --offload");
  const bool by_deepspeed =
      (s.target.name == deepspeed.name || s.target.name == hf.name) && s.c.layout.zero();
  if ((s.c.memory.offload == Offload::optimizer && !by_deepspeed) ||
      s.c.memory.offload == Offload::gradients)
    s.refuse(std::string("--offload ") + to_option(s.c.memory.offload),
             "no key makes an optimizer of torchao's; hand the loop "
             "torchao.optim.CPUOffloadOptimizer, or drop --offload");
  if (s.c.optimizer.master_weights && s.target.name != automodel.name)
    s.refuse("--master-weights",
             "no key makes Transformer Engine's FusedAdam; export to automodel, or hand the loop "
             "transformer_engine.pytorch.optimizers.FusedAdam(master_weights=True)");
  if (s.c.precision.float8() && !s.c.megatron() && s.target.name != hf.name &&
      s.target.name != torchtitan.name)
    s.refuse(std::string("--fp8 ") + to_option(s.c.precision.fp8),
             std::string("its layers in FP8 are not torchao's of the plan; export to ") +
                 (s.c.precision.fp8 == Fp8Recipe::mx ? "hf" : "torchtitan") + ", or drop --fp8");
  if (s.c.optimizer.in_backward && s.target.name != torchtune.name)
    s.refuse("--optimizer-in-backward",
             "its optimizer steps after backward; drop --optimizer-in-backward");
}

/// The method's class and its size: "LoraConfig(r=8, lora_alpha=16".
std::string config_of(const Adapters& a) {
  if (!a.of_another_method())
    return fmt::format("LoraConfig(r={}, lora_alpha={}", a.rank, 2 * a.rank);
  const model::AdapterMethodRow& method = model::row(a.method);
  std::string text = fmt::format("{}(task_type=\"CAUSAL_LM\"", method.config);
  if (a.method == AdapterMethod::road)
    text += fmt::format(", variant=\"road_{}\"", a.size);
  else if (a.method == AdapterMethod::trainable_tokens)
    text += fmt::format(", token_indices=[…]  # {} of them", a.size);
  else if (a.size > 0)
    text += fmt::format(", {}={}", method.field, a.size);
  if (a.factor > 0 && a.method == AdapterMethod::lokr)
    text += fmt::format(", decompose_factor={}", a.factor);
  else if (a.factor > 0)
    text += fmt::format(", init_weights=\"mini\", mini_r={}", a.factor);
  return text;
}

/// What no file has: the arguments of PEFT's and bitsandbytes' own configurations.
std::string adapters_note(const Adapters& a) {
  std::string made = config_of(a);
  if (a.targets == "all-linear") made += ", target_modules=\"all-linear\"";
  if (!a.targets.empty() && a.targets != "all-linear") {
    made += ", target_modules=[\"";  // a string would be a pattern
    for (const char c : a.targets) made += c == ',' ? "\", \"" : std::string(1, c);
    made += "\"]";
  }
  if (a.dropout > 0) made += ", lora_dropout=" + std::to_string(a.dropout);
  if (a.dora) made += ", use_dora=True";
  std::string text = "the adapters are made in code, by PEFT's " + made + ")";
  if (a.quantize == Quantization::int8)
    text += "; the base is loaded with BitsAndBytesConfig(load_in_8bit=True)";
  else if (a.quantize != Quantization::none)
    text += std::string(
                "; the base is loaded with BitsAndBytesConfig(load_in_4bit=True, "
                "bnb_4bit_quant_type=\"nf4\", bnb_4bit_compute_dtype=torch.bfloat16") +
            (a.quantize == Quantization::nf4_double ? ", bnb_4bit_use_double_quant=True)" : ")");
  if (a.kbit_prepare) text += "; then prepare_model_for_kbit_training";
  return text;
}

/// Registered in code; accelerate 1.15, utils/dataclasses.py, DistributedDataParallelKwargs.
std::string hook_note(const GradCompression& c) {
  const std::string begin = "the communication hook is registered in code, ";
  const std::string accelerate =
      begin + "by accelerate's DistributedDataParallelKwargs(comm_hook=DDPCommunicationHookType.";
  switch (c.kind) {
    case Compression::bf16:
      return accelerate + "BF16)";
    case Compression::fp16:
      return accelerate + "FP16)";
    case Compression::powersgd:
      return accelerate + "POWER_SGD, comm_state_option={\"matrix_approximation_rank\": " +
             std::to_string(c.rank) + "})";
    default:
      return begin +
             "by model.register_comm_hook(TopKState(ratio), topk_hook) of "
             "examples/grad_compression/topk_hook.py";
  }
}

/// TorchTitan has keys for it.
std::string float8_note(const Precision& p) {
  if (p.fp8 == Fp8Recipe::mx)
    return "layers are replaced in code, before training: each torch.nn.Linear but lm_head whose "
           "sizes are multiples of 32 by torchao.prototype.moe_training.mxfp8_linear.MXFP8Linear "
           "with its weight and bias";
  const std::string config =
      p.fp8 == Fp8Recipe::rowwise
          ? "Float8LinearConfig.from_recipe_name(\"rowwise\")"
          : std::string("Float8LinearConfig(enable_fsdp_float8_all_gather=") +
                (p.fp8_all_gather ? "True)" : "False)");
  return "layers are converted in code, before training, by torchao's "
         "convert_to_float8_training(model, config=" +
         config +
         ", module_filter_fn=lambda module, name: \"lm_head\" not in name and all(n % 16 == 0 for "
         "n "
         "in module.weight.shape))" +
         (p.fp8_all_gather ? ", and after each optimizer step "
                             "precompute_float8_dynamic_scale_for_fsdp(model) is called"
                           : "");
}

void note_all(const Setting& s, ExportResult& out) {
  if (s.c.precision.float8() && s.target.name == hf.name)
    out.notes.push_back(float8_note(s.c.precision));
  if (s.c.compression.used()) out.notes.push_back(hook_note(s.c.compression));
  constexpr const Target* own_adapters[] = {&torchtune, &litgpt, &llamafactory, &automodel};
  if (s.c.adapters.used() && std::none_of(std::begin(own_adapters), std::end(own_adapters),
                                          [&](const Target* t) { return t == &s.target; }))
    out.notes.push_back(adapters_note(s.c.adapters));
  if (s.c.memory.kernels == Kernels::compiled && s.c.memory.compile_unit == CompileUnit::block &&
      s.target.name == hf.name)
    out.notes.emplace_back(
        "no switch compiles blocks one by one (torch_compile is the whole model's): in code, "
        "before "
        "training, for block in model.model.layers: block.compile(fullgraph=True)");
  if (s.c.run.position_ids)
    out.notes.emplace_back(
        "batches carry position_ids, (batch, seq): the data collator's, such as a packed data "
        "set's or a mock one's");
  if (s.c.runtime.expandable_segments)
    out.notes.emplace_back("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  if (s.c.runtime.torch != TorchVersion::v2_11)
    out.notes.push_back(std::string("planned for PyTorch ") +
                        ir::facts_of(s.c.runtime.torch).release + ": run it with that release");
  if (!s.c.runtime.cublas_workspace.empty())
    out.notes.push_back("set CUBLAS_WORKSPACE_CONFIG=" + s.c.runtime.cublas_workspace);
  if (s.c.optimizer.clip_grad == 0 && s.target.name != litgpt.name)  // it never does
    out.notes.emplace_back(
        "the plan has no gradient clipping: where the framework clips, its "
        "temporaries come on top");
}

}  // namespace

void Setting::refuse(const std::string& option, const std::string& reason) const {
  throw UserError(option + " has no equivalent in " + std::string(target.version) + ": " + reason);
}

void Setting::refuse_windows() const {
  for (const std::int64_t window : model.window)
    if (window > 0 && window < c.run.seq)
      refuse(fmt::format("a window of {} tokens with --seq {}", window, c.run.seq),
             "its layers attend to all tokens before; use a --seq within the window, or export to "
             "hf");
}

void Setting::refuse_adapters(const std::string& reason) const {
  if (c.adapters.used()) refuse(given_adapters(c), reason);
}

std::string decimal(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

std::string Setting::quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace exports

std::vector<std::string> export_targets() {
  std::vector<std::string> names;
  for (const exports::Target* target : exports::targets) names.emplace_back(target->name);
  return names;
}

namespace {

/// Throws UserError for an unknown one.
const exports::Target& find_target(const std::string& target) {
  std::string names;
  for (const exports::Target* known : exports::targets) {
    if (known->name == target) return *known;
    names += (names.empty() ? "" : ", ") + std::string(known->name);
  }
  throw UserError("export target " + target.substr(0, 60) + ": must be one of " + names);
}

/// Of a configuration that can be planned.
ExportResult written(const exports::Setting& setting) {
  exports::check_all(setting);
  const exports::Target& target = setting.target;
  ExportResult out{std::string(target.name), std::string(target.version), {}, {}, {}};
  target.write(setting, out);
  if (!out.other_technique.empty()) out.notes.insert(out.notes.begin(), out.other_technique);
  return out;
}

}  // namespace

ExportResult export_setting(const std::string& target, const model::ModelSpec& model,
                            const StepConfig& config) {
  const exports::Setting setting{find_target(target), model, config};
  passes::validate(model, config);
  check_device(model, config, simulate::find_device(config.device.gpu));
  ExportResult out = written(setting);
  exports::note_all(setting, out);
  exports::note_lost(setting, out);
  return out;
}

std::string export_target_of(const std::string& framework) {
  const bool of_transformers = framework == "liger" || framework == "hf-trainer" ||
                               framework == "trl" || framework == "ms-swift";
  return of_transformers ? "hf" : framework;
}

namespace {

/// Without what transformers, accelerate and DeepSpeed have in a script's own calls: no file has a
/// key for it.
StepConfig of_files(StepConfig config) {
  if (config.megatron()) return config;
  if (export_target_of(config.runtime.framework) == "hf") config.layout.ep = 1;
  if (config.layout.ulysses()) config.layout.cp = 1;
  return config;
}

}  // namespace

std::string unavailable(const model::ModelSpec& model, const StepConfig& config) {
  const std::string target = export_target_of(config.runtime.framework);
  try {
    const ExportResult exported = written({find_target(target), model, of_files(config)});
    if (exported.other_technique.empty()) return {};
    return "--shard " + shard_option(config) + ": " + exported.other_technique;
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace ac_advisor::advise
