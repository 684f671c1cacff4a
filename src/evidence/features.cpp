// What of a configuration tells it from another: rows of the option table, and traits of a family.
#include <algorithm>
#include <array>
#include <cctype>

#include "ac_advisor/evidence/evidence.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::evidence {
namespace {

using model::ModelSpec;

/// Rows that say how much, where, or on what, or that stand in other features.
constexpr std::array<std::string_view, 35> not_features{"framework",
                                                        "transformer_impl",
                                                        "batch",
                                                        "seq",
                                                        "gpu",
                                                        "world",
                                                        "threads",
                                                        "node_size",
                                                        "network_gbps",
                                                        "force",
                                                        "cp_rank",
                                                        "pp_rank",
                                                        "pp_layers",
                                                        "capacity_factor",
                                                        "block_modes",
                                                        "runtime",
                                                        "optimizer_instances",
                                                        "under_dispatch_mode",
                                                        "balanced_routing",
                                                        "lora_targets",
                                                        "param_dtype",
                                                        "compute_dtype",
                                                        "reduce_dtype",
                                                        "autocast",
                                                        "cublas_workspace",
                                                        "hold_output",
                                                        "rollout",
                                                        "completion",
                                                        "group",
                                                        "score_batch",
                                                        "phase_offload",
                                                        "critic",
                                                        "critic_batch",
                                                        "critic_offload",
                                                        "dropout"};

/// "grouped:2" is grouped, "hsdp:4" is hsdp: numbers are sizes.
std::string kind_of_value(std::string text) {
  const auto colon = text.find(':');
  return colon == text.npos ? text : text.substr(0, colon);
}

void add_options(const StepConfig& c, std::vector<std::string>& all) {
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line() || row.is_default(c) ||
        std::find(not_features.begin(), not_features.end(), row.key) != not_features.end())
      continue;
    const bool off = row.metavar.empty() && row.text(c) == "false";
    std::string name(off ? row.off : row.name);
    // Of an option that takes one of several words its word; a number is a size.
    if (!row.words.empty()) name += " " + kind_of_value(row.text(c));
    all.push_back(std::move(name));
  }
}

/// Parameters, computation and reduction as one: "--autocast bf16", "--param-dtype fp32", …
void add_precision(const StepConfig& c, std::vector<std::string>& all) {
  const Precision& p = c.precision;
  if (p.autocast)
    all.push_back(std::string("--autocast ") + to_option(p.compute_dtype));
  else if (p.param_dtype != p.compute_dtype)
    all.push_back(std::string("--param-dtype ") + to_option(p.param_dtype) + " --compute-dtype " +
                  to_option(p.compute_dtype));
  else if (p.param_dtype != DType::bf16)
    all.push_back(std::string("--param-dtype ") + to_option(p.param_dtype));
  const bool reduces = c.layout.replica_ranks() > 1;
  if (reduces && !c.megatron() && p.reduce_dtype != p.compute_dtype && !p.autocast)
    all.push_back(std::string("--reduce-dtype ") + to_option(p.reduce_dtype));
}

/// Whose layers, and whose loop where it launches or keeps something of its own.
void add_framework(const ModelSpec& spec, const StepConfig& c, std::vector<std::string>& all) {
  if (spec.graph)
    all.emplace_back("imported graph");
  else if (c.run.transformer_impl != TransformerImpl::hf)
    all.push_back(std::string("--transformer-impl ") + to_option(c.run.transformer_impl));
  // LLaMA-Factory's supervised stages are transformers' Trainer.
  const std::string name =
      c.llamafactory() && c.task.supervised() ? "hf-trainer" : c.runtime.framework;
  if (name == "llamafactory" || name == "ms-swift" || name == "hf-trainer" || name == "trl" ||
      name == "torchtune" || name == "verl" || (name == "deepspeed" && c.layout.zero()))
    all.push_back("--framework " + name);
}

void add_adapters(const StepConfig& c, std::vector<std::string>& all) {
  if (!c.adapters.used()) return;
  const std::string targets = lora_targets_text(c);
  for (const char* beside : {"all-linear", "gate", "up", "down", "fc", "dense"})
    if (targets.find(beside) != targets.npos) {
      all.emplace_back("adapters beside attention");
      return;
    }
}

/// A property of a family that changes what a block runs, holds or is split into.
struct Trait {
  const char* name;
  bool (*has)(const ModelSpec&, const StepConfig&);
};
constexpr std::array traits{
    Trait{"mixture of experts", [](const ModelSpec& m, const StepConfig&) { return bool(m.moe); }},
    Trait{"shared expert",
          [](const ModelSpec& m, const StepConfig&) {
            return m.moe && m.moe->shared_intermediate > 0;
          }},
    Trait{"latent attention", [](const ModelSpec& m, const StepConfig&) { return bool(m.latent); }},
    Trait{"gated delta nets", [](const ModelSpec& m, const StepConfig&) { return bool(m.delta); }},
    Trait{"sliding windows",
          [](const ModelSpec& m, const StepConfig& c) {
            return m.window_within(c.attended_tokens());
          }},
    Trait{"attention sinks",
          [](const ModelSpec& m, const StepConfig&) { return m.attention_sinks; }},
    Trait{"soft-capped scores",
          [](const ModelSpec& m, const StepConfig&) { return bool(m.attention_softcap); }},
    Trait{"soft-capped logits",
          [](const ModelSpec& m, const StepConfig&) { return bool(m.final_softcap); }},
    Trait{"shared keys and values",
          [](const ModelSpec& m, const StepConfig&) { return m.kv_sharing; }},
    Trait{"LayerNorm",
          [](const ModelSpec& m, const StepConfig&) { return m.norm != model::Norm::rms; }},
    Trait{"norms of queries and keys",
          [](const ModelSpec& m, const StepConfig&) { return m.qk_norm; }},
    Trait{"parallel residual",
          [](const ModelSpec& m, const StepConfig&) { return m.side_by_side; }},
    Trait{"MLP without a gate", [](const ModelSpec& m, const StepConfig&) { return m.plain_mlp; }},
    Trait{"fused projections",
          [](const ModelSpec& m, const StepConfig&) { return m.fused_qkv || m.fused_gate_up; }},
    Trait{"sandwich norms", [](const ModelSpec& m, const StepConfig&) { return m.sandwich_norms; }},
    Trait{"biases", [](const ModelSpec& m, const StepConfig&) { return m.qkv_bias || m.mlp_bias; }},
    Trait{"heads wider than 256",
          [](const ModelSpec& m, const StepConfig&) { return m.head_dim > 256; }},
    Trait{"heads that are no multiple of 8",
          [](const ModelSpec& m, const StepConfig&) { return !m.graph && m.head_dim % 8 != 0; }},
    Trait{"tied embeddings",
          [](const ModelSpec& m, const StepConfig&) { return m.tied_embeddings; }},
    Trait{"learned positions",
          [](const ModelSpec& m, const StepConfig&) { return m.position_table > 0; }},
    Trait{"ALiBi", [](const ModelSpec& m, const StepConfig&) { return m.alibi; }},
    Trait{"image encoder", [](const ModelSpec& m, const StepConfig&) { return bool(m.tower); }},
    Trait{"dropout",
          [](const ModelSpec& m, const StepConfig& c) {
            return c.run.dropout > 0 || m.attention_dropout > 0 || m.residual_dropout > 0;
          }},
    Trait{"logits not held", [](const ModelSpec&, const StepConfig& c) {
            const bool has_logits = c.memory.loss == LossKind::ce ||
                                    c.memory.loss == LossKind::ce_no_upcast ||
                                    c.memory.loss == LossKind::ce_compiled;
            return has_logits && c.layout.pp == 1 && !c.megatron() && !c.memory.hold_output;
          }}};

}  // namespace

std::vector<std::string> features(const ModelSpec& spec, const StepConfig& config) {
  std::vector<std::string> all;
  add_framework(spec, config, all);
  add_options(config, all);
  add_precision(config, all);
  add_adapters(config, all);
  for (const Trait& trait : traits)
    if (trait.has(spec, config)) all.emplace_back(trait.name);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace ac_advisor::evidence
