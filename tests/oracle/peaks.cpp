#include "peaks.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/memory.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

std::int64_t number_after(const std::string& text, const std::string& prefix) {
  return std::stoll(text.substr(prefix.size()));
}

void read_checkpointing(const std::string& ac, StepConfig& c) {
  if (ac == "none") return;
  if (ac == "full")
    c.memory.ac = AcMode::full;
  else if (ac == "selop")
    c.memory.ac = AcMode::selective;
  else if (ac.starts_with("seg"))
    c.memory.ac = AcMode::grouped, c.memory.ac_arg = number_after(ac, "seg");
  else if (ac.starts_with("every"))
    c.memory.ac = AcMode::every, c.memory.ac_arg = number_after(ac, "every");
  else
    throw std::runtime_error("unknown ac: " + ac);
}

void read_loss(const std::string& loss, StepConfig& c) {
  if (loss == "hf_nokeep")
    c.memory.hold_output = false;
  else if (loss.starts_with("chunk")) {
    c.memory.loss = LossKind::chunked;
    c.memory.chunk_tokens = loss == "chunk" ? 1024 : number_after(loss, "chunk");
    c.memory.hold_output = false;
  } else if (loss != "hf")
    throw std::runtime_error("unknown loss: " + loss);
}

/// The reference names its two models instead of their type.
json with_model_type(json config, const std::string& model) {
  if (!config.contains("model_type"))
    config["model_type"] = model.starts_with("qwen3") ? "qwen3" : "llama";
  return config;
}

DType dtype_of(const std::string& name) {
  return name == "fp32" || name == "float32" ? DType::f32 : DType::bf16;
}

}  // namespace

OptionList options_of_case(const nlohmann::json& step) {
  OptionList options{{"--gpu", "h100-80gb"}};
  // What a case does not say, its script does so (loop_names.py, emulated_peaks.py).
  const bool plain = step.value("framework", "hf") == "hf";
  if (plain && !step.contains("held_until")) options.emplace_back("--held-until", "backward");
  if (plain && step.value("shard", "") == "ddp" && !step.contains("gradient_as_bucket_view"))
    options.emplace_back("--gradient-as-bucket-view", "");
  if (step.contains("kbit_prepare") && !step.contains("ac_reentrant"))
    options.emplace_back("--no-ac-reentrant", "");
  for (const auto& [key, value] : step.items()) {
    if (key == "model") continue;
    std::string name = "--" + key;
    std::replace(name.begin(), name.end(), '_', '-');
    if (value.is_boolean())
      options.emplace_back(value.get<bool>() ? name : "--no-" + name.substr(2), "");
    else
      options.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return options;
}

std::vector<PeakCase> read_peaks(const std::string& file) {
  std::ifstream stream(std::string(source_dir) + "/tests/oracle/" + file);
  if (!stream) throw std::runtime_error("cannot read tests/oracle/" + file);
  const json document = json::parse(stream);
  std::vector<PeakCase> cases;
  for (const json& j : document.at("cases")) {
    PeakCase c;
    // Measured, but not planned: refused by name, not an option yet, or (attn "auto" with sliding
    // windows) planned as flash, with an assumption that says so.
    if (j.value("attn", "") == "math" || j.value("attn", "") == "efficient" ||
        j.value("attn", "") == "auto")
      continue;
    const std::string model = j.at("model"), ac = j.at("ac"), loss = j.at("loss"),
                      sharding = j.at("sharding"), optimizer = j.at("optimizer");
    c.model = model::parse_config(with_model_type(j.at("config"), model).dump(), file, model);
    StepConfig& s = c.config;
    s.runtime.under_dispatch_mode = true;
    s.device.gpu = "cpu";  // foreach keeps its step counters there
    s.run.batch = j.at("batch");
    s.run.seq = j.at("seq");
    read_checkpointing(ac, s);
    read_loss(loss, s);
    if (sharding != "single") {
      s.layout.shard = Sharding::fsdp2;
      s.layout.world = number_after(sharding, "fsdp");
      // The reference has one FSDP group a segment (design, section 10.5).
      s.layout.fsdp_unit =
          j.value("fsdp_unit", "segment") == "block" ? FsdpUnit::block : FsdpUnit::segment;
    }
    s.optimizer.kind = optimizer == "fused"          ? Optimizer::adamw
                       : optimizer == "foreach"      ? Optimizer::adamw_foreach
                       : optimizer == "sgd_momentum" ? Optimizer::sgd_momentum
                                                     : Optimizer::sgd;
    s.precision.param_dtype = s.precision.compute_dtype = s.precision.reduce_dtype =
        dtype_of(j.value("param_dtype", "bf16"));
    if (j.contains("mixed_precision") && j["mixed_precision"].is_object()) {
      s.precision.compute_dtype = dtype_of(j["mixed_precision"].value("param", "bf16"));
      s.precision.reduce_dtype = dtype_of(j["mixed_precision"].value("reduce", "bf16"));
    }
    s.run.grad_accum = j.value("grad_accum", 1);
    s.layout.keep_last_block = j.value("keep_last_block", false);
    s.layout.no_sync = j.value("no_sync", false);
    s.run.dropout = j.value("dropout", 0.0);
    if (j.value("attn", "") == "eager") s.run.attention = Attention::eager;
    c.rounded = j.value("rounded_to_512", true);
    c.label = model + " " + ac + " " + loss + " " + sharding + " " + optimizer + " " +
              std::to_string(s.run.batch) + "x" + std::to_string(s.run.seq);
    c.peaks = {j.at("peak_bytes"), j.at("peak_forward"), j.at("peak_loss"), j.at("peak_backward"),
               j.at("peak_optimizer")};
    c.kernels_forward = j.value("kernels_fwd", 0);
    c.kernels_backward = j.value("kernels_bwd", 0);
    for (const char* key : {"param_dtype", "attn", "grad_accum", "no_sync", "keep_last_block",
                            "fsdp_unit", "mixed_precision", "dropout"})
      if (j.contains(key)) c.label += std::string(" ") + key + "=" + j[key].dump();
    cases.push_back(std::move(c));
  }
  return cases;
}

Planned plan_case(const PeakCase& c) {
  const passes::StepProgram step = passes::build_step(c.model, c.config);
  const passes::Schedule schedule = passes::make_schedule(step);
  simulate::MemoryModel model;
  model.round_to_512 = c.rounded;
  model.workspaces = false;
  const simulate::MemoryTrace trace = simulate::walk_memory(step, schedule, model);
  Planned planned;
  planned.peaks = {trace.peak, trace.peak_by_phase[0], trace.peak_by_phase[1],
                   trace.peak_by_phase[2], trace.peak_by_phase[4]};
  for (const ir::Op& op : step.program.ops) {
    if (op.phase <= ir::Phase::loss)
      planned.kernels_forward += ir::dispatches(op);
    else if (op.phase != ir::Phase::optimizer)
      planned.kernels_backward += ir::dispatches(op);
  }
  return planned;
}

}  // namespace ac_advisor::test
