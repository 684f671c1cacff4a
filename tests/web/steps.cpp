#include "web/steps.hpp"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "model/config_text.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

json named(const std::string& sample) { return {{"sample", sample}}; }
json written_out(const json& config, const std::string& name) {
  return {{"text", config.dump()}, {"origin", name + "/config.json"}, {"name", name}};
}

/// As the program does it: `plan MODEL … --format json`, or `advise`.
Expected expected(const json& model, const OptionList& options, bool sweep = false) {
  json asked{{"do", "json"}, {"model", model}, {"options", json::array()}};
  if (sweep) asked["sweep"] = true;
  for (const auto& [name, text] : options) asked["options"].push_back({name, text});
  try {
    const model::ModelSpec spec =
        model.contains("sample")
            ? model::load_model(model["sample"])
            : model::parse_config(model["text"], model["origin"], model["name"]);
    const advise::Resolved resolved = advise::resolve(spec, options);
    const StepConfig& config = resolved.config;
    if (!sweep) return {asked, reports::json(advise::plan(spec, config))};
    return {asked, reports::json(advise::advise_any(spec, resolved, [&](const advise::Resolved& r) {
                                   return advise::space_around(spec, r.config, r.options);
                                 }).sweep)};
  } catch (const UserError& error) {
    return {asked, error.what(), true};
  }
}

}  // namespace

std::vector<Expected> expected_answers() {
  std::vector<Expected> list;
  const std::vector<OptionList> few{
      {},
      {{"--batch", "4"}, {"--seq", "512"}, {"--ac", "full"}, {"--kernels", "fused"}},
      {{"--world", "8"}, {"--shard", "fsdp2"}, {"--ac", "selective"}, {"--loss", "lc-ce"}},
      {{"--framework", "torchtitan"}, {"--world", "16"}, {"--grad-accum", "2"}},
      {{"--gpu", "a100-40gb"}, {"--attn", "eager"}, {"--seq", "256"}, {"--dropout", "0.25"}},
  };
  std::vector<json> models;
  for (const std::string& name : model::sample_names()) models.push_back(named(name));
  for (const std::string& family : model::known_families()) {
    models.push_back(written_out(small_config(family), family + "-small"));
    json larger = small_config(family);
    larger.update({{"hidden_size", 1024},
                   {"intermediate_size", 2816},
                   {"num_hidden_layers", 7},
                   {"num_attention_heads", 16},
                   {"num_key_value_heads", 4},
                   {"vocab_size", 32003},
                   {"tie_word_embeddings", true},
                   {"max_position_embeddings", 4096}});
    if (larger.contains("head_dim")) larger["head_dim"] = 64;
    models.push_back(written_out(larger, family + "-larger"));
  }
  for (const json& model : models)
    for (const OptionList& options : few) list.push_back(expected(model, options));
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line()) continue;
    const std::string name(row.name);
    for (const std::string_view word : row.words) {
      // "grouped:K" with a number, "budget:SIZE" with a size.
      std::string text(word);
      if (const std::size_t open = text.find_last_of(":=");
          open != std::string::npos &&
          text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ", open + 1) == std::string::npos)
        text.replace(open + 1, std::string::npos, text.ends_with("SIZE") ? "1GiB" : "2");
      list.push_back(expected(named("tiny-llama"), {{"--world", "4"}, {name, text}}));
    }
    if (row.metavar.empty()) {
      list.push_back(expected(named("tiny-llama"), {{"--world", "4"}, {name, ""}}));
    } else {
      list.push_back(expected(named("tiny-llama"), {{name, "2"}}));
      list.push_back(expected(named("tiny-llama"), {{name, "<b>\"\xC3\xA4\\"}}));
    }
  }
  for (const char* hostile :
       {"", "[]", "{\"model_type\": \"<img src=x>\"}", "{\"model_type\": 1e999}",
        "{\"model_type\": \"llama\", \"hidden_size\": -1}"})
    list.push_back(expected({{"text", hostile}, {"origin", "<script>.json"}, {"name", "x"}}, {}));
  list.push_back(expected(named("tiny-llama"), {{"--world", "2"}}, true));
  list.push_back(expected(named("llama-3.2-1b"), {{"--batch", "8"}}, true));
  return list;
}

std::filesystem::path web_folder() {
  const std::filesystem::path folder = std::filesystem::path(source_dir) / "build" / "web";
  if (std::filesystem::exists(folder / "ac-advisor.html")) return folder;
  const char* ci = std::getenv("CI");
  if (ci != nullptr && std::string_view(ci) == "true")
    throw std::runtime_error(
        "the page is not built: cmake --preset web && cmake --build --preset web");
  std::puts("not run: the page is not built (cmake --preset web && cmake --build --preset web)");
  return {};
}

Agreement agreement(const std::vector<Expected>& expected, const json& answers) {
  if (answers.size() != expected.size())
    throw std::runtime_error("not every question was answered");
  Agreement found;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const json& answer = answers[i];
    const Expected& e = expected[i];
    const std::string text = answer.value(e.refused ? "error" : "text", "");
    if (text == e.answer) {
      ++(e.refused ? found.refusals : found.same);
      continue;
    }
    if (++found.different == 1)
      found.first_difference = e.question.dump() + "\nnative: " + e.answer.substr(0, 400) +
                               "\npage:   " + answer.dump().substr(0, 400);
  }
  return found;
}

}  // namespace ac_advisor::test
