// A framework to export to: one file export_<name>.cpp, one row in export.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::advise::exports {

struct Setting;

struct Target {
  std::string_view name;
  std::string_view version;  ///< product and version whose sources the key names come from
  /// Fills in text and notes. Throws through Setting::refuse.
  void (*write)(const Setting&, ExportResult&);
  /// Keys of the options that its text or its notes say, or that it refuses. What the others are in
  /// the plan and not in the framework's own step is told: `note_lost`.
  std::span<const std::string_view> says;
};

/// What is to be exported, and where to.
struct Setting {
  const Target& target;
  const model::ModelSpec& model;
  const StepConfig& c;

  /// `option` as on the command line; `reason` ends with the way out.
  [[noreturn]] void refuse(const std::string& option, const std::string& reason) const;

  /// The model's name as a JSON string, which is a YAML and a TOML string too.
  [[nodiscard]] std::string quoted_name() const { return quoted(model.name); }
  [[nodiscard]] static std::string quoted(const std::string& text);

  /// For a framework whose layers attend to all tokens before: refuses a window within --seq.
  void refuse_windows() const;
  /// For one without adapters of PEFT's.
  void refuse_adapters(const std::string& reason) const;

  /// Sequences of one optimizer step over all ranks.
  [[nodiscard]] std::int64_t global_batch() const {
    return c.run.batch * c.layout.data_ranks() * c.run.grad_accum;
  }
  [[nodiscard]] std::int64_t replicas() const {
    return c.layout.shard == Sharding::hsdp ? c.layout.replica_ranks() / c.layout.hsdp_shards : 1;
  }
  [[nodiscard]] bool gathers() const { return c.layout.gathers(); }
  [[nodiscard]] std::string ac() const { return "--ac " + ac_option(c); }
  [[nodiscard]] std::string shard() const { return "--shard " + shard_option(c); }
  [[nodiscard]] std::string loss() const { return "--loss " + loss_option(c); }
};

/// A number that YAML 1.1, TOML and Python read as a float: "0.5", "1.0e-07".
[[nodiscard]] std::string decimal(double value);

/// What the plan has and the framework's own step has otherwise, where no word of its file says it.
void note_lost(const Setting& s, ExportResult& out);

/// transformers' name of the optimizer, TrainingArguments.optim.
[[nodiscard]] const char* trainer_optimizer(const Setting& s);

extern const Target automodel, deepspeed, hf, litgpt, llamafactory, megatron, torchtitan, torchtune,
    verl;

}  // namespace ac_advisor::advise::exports
