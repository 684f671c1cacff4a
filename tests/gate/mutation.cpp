#include "mutation.hpp"

#include <functional>

#include "embedded/embedded.hpp"

namespace ac_advisor::test {
namespace {

const char* const samples[] = {"tiny-llama",   "llama-3.2-1b", "qwen3-0.6b", "phi-3-mini",
                               "mixtral-8x7b", "gemma-3-1b",   "gemma-2-2b", "qwen2.5-1.5b"};
const char* const phases[] = {"none", "full", "selective", "attention"};

Json sample(const std::string& name) {
  for (const embedded::File& file : embedded::files())
    if (file.path == "sample_models/" + name + "/config.json") return Json::parse(file.text);
  return {};
}

/// Fields that some family reads; which of them matter to a model, the planner's own types say.
const char* const model_fields[] = {"hidden_size",
                                    "intermediate_size",
                                    "num_hidden_layers",
                                    "num_attention_heads",
                                    "vocab_size",
                                    "num_key_value_heads",
                                    "max_position_embeddings",
                                    "rms_norm_eps",
                                    "attention_dropout",
                                    "tie_word_embeddings",
                                    "attention_bias",
                                    "mlp_bias",
                                    "sliding_window",
                                    "num_experts_per_tok",
                                    "num_local_experts",
                                    "pad_token_id",
                                    "head_dim",
                                    "use_sliding_window",
                                    "max_window_layers",
                                    "rope_theta",
                                    "num_hidden_layers",
                                    "intermediate_size",
                                    "vocab_size",
                                    "hidden_size"};
/// What no figure of the model comes from.
const char* const idle_fields[] = {"torch_dtype", "transformers_version", "bos_token_id",
                                   "initializer_range"};

Json other_value(const Json& old, Random& random) {
  if (old.is_boolean()) return !old.get<bool>();
  if (old.is_number_integer()) {
    const auto n = old.get<std::int64_t>();
    const std::int64_t values[] = {n * 2, n / 2, n + 2, n > 2 ? n - 2 : n + 4};
    return values[below(random, 4)];
  }
  if (old.is_number()) return old.get<double>() * 0.5 + 0.001;
  return random() % 2 == 0 ? Json(true) : Json(2);
}

Mutation change_model(Subject& s, Random& random) {
  const bool idle = below(random, 8) == 0;
  const std::string field = idle ? idle_fields[below(random, std::size(idle_fields))]
                                 : model_fields[below(random, std::size(model_fields))];
  const Json old = s.model.contains(field) ? s.model[field] : Json();
  if (!old.is_null() && below(random, 10) == 0)
    s.model.erase(field);
  else
    s.model[field] = other_value(old, random);
  return {"config.json: " + field, field};
}

struct Choice {
  const char* option;
  Json value;
};

Mutation change_option(Subject& s, Random& random) {
  static const std::vector<Choice> choices{{"batch", 1},
                                           {"batch", 3},
                                           {"seq", 64},
                                           {"seq", 96},
                                           {"grad-accum", 2},
                                           {"ac", "none"},
                                           {"ac", "selective"},
                                           {"ac", "grouped:2"},
                                           {"ac", "every:2"},
                                           {"ac", "sqrt"},
                                           {"loss", "lc-ce"},
                                           {"loss", "chunked:64"},
                                           {"kernels", "fused"},
                                           {"optimizer", "sgd"},
                                           {"optimizer", "adamw-foreach"},
                                           {"attn", "math"},
                                           {"param-dtype", "fp32"},
                                           {"gpu", "a100-80gb"},
                                           {"framework", "liger"},
                                           {"framework", "torchtitan"},
                                           {"no-hold-output", true},
                                           {"shard", "ddp"},
                                           {"shard", "zero1"},
                                           {"shard", "none"},
                                           {"dropout", 0.1},
                                           {"alloc-conf", "expandable_segments:True"},
                                           {"bacth", 2}};
  const Choice& choice = choices[below(random, choices.size())];
  Json& options = s.gate["cases"][0]["options"];
  const bool given = options.contains(choice.option);
  if (given && below(random, 6) == 0)
    options.erase(choice.option);
  else
    options[choice.option] = choice.value;
  // --no-hold-output is the other word for --hold-output's field.
  const std::string option = choice.option;
  return {"option " + option, option == "no-hold-output" ? "--hold-output" : "--" + option};
}

/// Adds `move` to parts that sum to a figure, none below zero.
void spread(Json& parts, std::int64_t move) {
  for (auto& part : parts.items()) {
    const auto size = part.value().get<std::int64_t>(), more = std::max(move, -size);
    part.value() = size + more;
    move -= more;
  }
}

/// Moves a figure, and with it the category that is said to have changed.
Mutation change_figure(Subject& s, Random& random) {
  static const char* const figures[] = {"peak_allocated_bytes", "peak_reserved_bytes", "launches"};
  const std::string figure = figures[below(random, 3)];
  s.baseline.erase("checksum");
  Json& value = s.baseline["figures"][figure];
  const auto old = value.get<std::int64_t>();
  // A few steps around each allowance, and far away.
  const std::int64_t moves[] = {
      1,         -1,       -2,       -512,       -old / 1000, -old / 100,     -old / 50,
      -old / 10, old / 10, -old / 2, -(1 << 20), -(1 << 21),  -(1 << 20) - 1, -old / 1000 - 1};
  const std::int64_t move = std::max(moves[below(random, std::size(moves))], -old);
  value = old + move;
  Mutation m{"baseline: " + figure, "", false, false, figure};
  if (figure == "peak_reserved_bytes") return m;
  Json& parts = s.baseline[figure == "launches" ? "launches_by_phase" : "at_peak_bytes"];
  for (auto& part : parts.items()) {
    const auto size = part.value().get<std::int64_t>();
    if (size + move < 0 || size == 0) continue;
    part.value() = size + move;
    m.cause = part.key();
    break;
  }
  // No part has so much: what all of them lose is no single one's doing.
  if (m.cause.empty()) spread(parts, move);
  if (figure != "launches") spread(s.baseline["at_peak_by_module_bytes"], move);
  return m;
}

Mutation change_fingerprint(Subject& s, Random& random) {
  Json& f = s.baseline["fingerprint"];
  switch (below(random, 6)) {
    case 0:
      f["op_table"] = "0.0.9-0123456789abcdef";
      return {"baseline: op_table", "op_table", true};
    case 1:
      f["profile_schema"] = "ac-advisor/profile/0";
      return {"baseline: profile_schema", "profile_schema", true};
    case 2:
      f["source"] = "measured";
      return {"baseline: source", "source", true};
    case 3:
      s.baseline["schema"] = "ac-advisor/baseline/2";
      return {"baseline: schema", "schema", true};
    case 4:
      f["config"]["grad_accum"] = 7;
      return {"baseline: config.run.grad_accum", "--grad-accum", true};
    default:
      f["model"]["vocab"] = 77777;
      return {"baseline: model.vocab", "model.vocab", true};
  }
}

Mutation change_limit(Subject& s, Random& random) {
  Json& limits = s.gate["cases"][0]["limits"];
  if (random() % 2 == 0) {
    limits["peak_allocated"]["budget"] = std::int64_t{1} << (20 + below(random, 18));
    return {"budget"};
  }
  limits["launches"] = {{"budget", 100 << below(random, 8)}, {"regression", {{"percent", 0}}}};
  return {"a limit of launches"};
}

Mutation lose_something(Subject& s, Random& random) {
  if (random() % 2 == 0) {
    s.baseline = nullptr;
    return {"no baseline"};
  }
  s.gate["cases"][0]["name"] = "renamed";
  Mutation m{"the case renamed"};
  m.case_missing = true;
  return m;
}

}  // namespace

Subject random_subject(Random& random) {
  Subject s;
  s.model = sample(samples[below(random, std::size(samples))]);
  // Two to five blocks: planned in a blink, with their family's rules all the same.
  s.model["num_hidden_layers"] = 2 + below(random, 4);
  s.model.erase("layer_types");
  const double percents[] = {0, 0.1, 1, 2, 10, 57.3};
  const std::int64_t bytes[] = {0, 1, 1 << 20, 1 << 21};
  const char* const levels[] = {"error", "error", "error", "error", "warn", "off"};
  Json regression;
  const std::size_t both = below(random, 3);
  if (both != 0) regression["percent"] = percents[below(random, std::size(percents))];
  if (both != 1) regression["bytes"] = bytes[below(random, std::size(bytes))];
  Json limits = {{"peak_allocated", {{"regression", regression}}},
                 {"peak_reserved", {{"regression", {{"percent", percents[below(random, 6)]}}}}},
                 {"launches", {{"regression", {{"launches", below(random, 3)}}}}}};
  for (auto& limit : limits) limit["level"] = levels[below(random, std::size(levels))];
  Json options = {{"batch", 2}, {"seq", 128}, {"ac", phases[below(random, 4)]}};
  if (random() % 2 == 0) {
    options["world"] = 4;
    options["shard"] = "fsdp2";
  }
  s.gate = {{"cases",
             {{{"name", "case"}, {"model", "model"}, {"options", options}, {"limits", limits}}}}};
  if (random() % 2 == 0)
    s.gate["waivers"] = {{{"case", "case"},
                          {"figure", "peak_allocated"},
                          {"reason", "a test"},
                          {"expires", random() % 2 == 0 ? "2026-01-15" : "2026-01-14"}}};
  return s;
}

Mutation mutate(Subject& s, Random& random) {
  using Mutate = Mutation (*)(Subject&, Random&);
  // The weights: most changes are of configurations, options and baselines.
  constexpr Mutate kinds[] = {change_model,  change_model,       change_model,  change_option,
                              change_option, change_option,      change_figure, change_figure,
                              change_figure, change_fingerprint, change_limit,  lose_something};
  constexpr std::size_t without_baseline = 6;  // all limits off: none was written
  const std::size_t count = s.baseline.is_null() ? without_baseline : std::size(kinds);
  Mutation m = kinds[below(random, count)](s, random);
  if (m.case_missing && s.gate.contains("waivers")) s.gate["waivers"][0]["case"] = "renamed";
  return m;
}

}  // namespace ac_advisor::test
