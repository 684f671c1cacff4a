#include "model/hub_models.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "config_text.hpp"
#include "embedded/embedded.hpp"
#include "model/letters.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;

namespace {

constexpr const char* ids_document = "/docs/model_ids.md";

nlohmann::json hub_file() {
  for (const embedded::File& file : embedded::files())
    if (file.path == "models/hub.json") return nlohmann::json::parse(file.text);
  return {};
}

std::vector<std::string> words_of(const nlohmann::json& text) {
  std::istringstream stream(text.get<std::string>());
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Of the layer that predicts a further token, which transformers' classes leave out: a block with
/// attention, three norms, and a projection of the embedding beside what the blocks put out.
std::int64_t elements_of_mtp(model::ModelSpec m) {
  m.tower.reset();
  m.delta.reset();
  m.layers = 1;
  m.delta_block.clear();
  m.sparse_block.resize(m.moe ? 1 : 0);
  m.tied_embeddings = true;
  const std::int64_t block = model::parameter_count(m) - m.vocab * m.hidden - m.hidden;
  return block + 2 * m.hidden * m.hidden + 3 * m.hidden;
}

/// Elements that a published count has beside a model's parameters; negative: that it lacks.
std::int64_t elements_of(const std::string& word, const model::ModelSpec& m) {
  // Files of a tied model that store the LM head as well.
  if (word == "lm_head") return m.vocab * m.hidden;
  // Files of gpt2 have each block's buffer of positions x positions.
  if (word == "causal_masks") return m.layers * m.max_positions * m.max_positions;
  // A buffer in transformers' class: one number an expert of each block that has experts.
  if (word == "router_biases")
    return std::count(m.sparse_block.begin(), m.sparse_block.end(), true) * m.moe->experts;
  // Keras has no rows for positions 0 and 1, which transformers' opt never reads.
  if (word == "missing_positions") return -2 * m.hidden;
  // Files in FP8 have two scales for each of a block's seven matrices.
  if (word == "mtp") return elements_of_mtp(m);
  if (word == "fp8_scales") return m.layers * 7 * 2;
  FAIL("no such word: " << word);
  return 0;
}

std::string load_error(const std::string& name) {
  try {
    static_cast<void>(model::load_model(name));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string document(const nlohmann::json& file) {
  std::string text =
      "# Built-in models of Hugging Face's Hub\n"
      "Their ids, whatever the case of the letters, stand for MODEL without network. Parameters "
      "are "
      "those of the\nconfiguration, and equal to a count that was published elsewhere (`counted`). "
      "`copies` are public copies of the\n`config.json` that the configuration was compared with; "
      "where none is named, the count alone confirms the\ndimensions. This file is written by the "
      "tests (`AC_ADVISOR_UPDATE_DOCS=1`) from `data/models/hub.json`.\n\n";
  for (const char* list : {"counted", "copies"}) {
    for (const auto& [word, meaning] : file[list].items())
      text += "- `" + word + "`: " + meaning.get<std::string>() + "\n";
    text += "\n";
  }
  text += "| ids | family | parameters | counted | copies |\n|---|---|---|---|---|\n";
  for (const auto& entry : file["models"]) {
    std::string ids;
    for (const std::string& id : words_of(entry["ids"])) ids += (ids.empty() ? "" : "<br>") + id;
    const model::ModelSpec m = model::load_model(words_of(entry["ids"]).front());
    const auto like = entry.value("like", "");
    text += "| " + ids + " | " + m.family + " | " + with_commas(model::parameter_count(m)) + " | " +
            (entry.contains("counted") ? entry["counted"][0].get<std::string>() : "as " + like) +
            " | " + entry.value("copies", "") + " |\n";
  }
  return text;
}

}  // namespace

TEST_CASE("every built-in configuration of the Hub makes the parameters that were published") {
  for (const std::string& id : model::hub_names()) {
    CAPTURE(id);
    const auto of_hub = model::find_hub_model(id);
    REQUIRE(of_hub);
    const model::ModelSpec m = model::parse_config(of_hub->config, id, id);
    std::int64_t count = model::parameter_count(m);
    for (const std::string& word : words_of(of_hub->beside)) count += elements_of(word, m);
    CHECK(count == of_hub->counted);
    CHECK(m.reading.unknown.empty());
    CHECK(of_hub->counted_by.size() > 10);
  }
}

TEST_CASE("the Hub's ids: 150 of them at least, none twice, in a file of 62 kB at most") {
  const std::vector<std::string> names = model::hub_names();
  CHECK(names.size() >= 150);
  std::vector<std::string> lower;
  for (const std::string& name : names) lower.push_back(model::lower(name));
  CHECK(std::is_sorted(lower.begin(), lower.end()));
  CHECK(std::adjacent_find(lower.begin(), lower.end()) == lower.end());
  for (const embedded::File& file : embedded::files())
    if (file.path == "models/hub.json") CHECK(file.text.size() < 62'000);
  const nlohmann::json file = hub_file();
  for (const auto& entry : file["models"]) {
    CAPTURE(entry["ids"]);
    CHECK(entry.contains("row") != entry.contains("like"));
    CHECK((entry.contains("counted") || entry.contains("like")));
    for (const std::string& copy : words_of(entry.value("copies", "")))
      CHECK(file["copies"].contains(copy));
    if (!entry.contains("like")) continue;
    const auto base = std::find_if(
        file["models"].begin(), file["models"].end(), [&](const nlohmann::json& other) {
          const auto ids = words_of(other["ids"]);
          return std::find(ids.begin(), ids.end(), entry["like"]) != ids.end();
        });
    REQUIRE(base != file["models"].end());
    CHECK(base->contains("row"));
  }
}

TEST_CASE("an id of the Hub loads without network, and says where its dimensions are from") {
  const model::ModelSpec m = model::load_model("qwen/qwen2.5-7B-instruct");
  CHECK(m.name == "Qwen/Qwen2.5-7B-Instruct");
  CHECK(m.family == "qwen2");
  CHECK(m.max_positions == 32768);
  CHECK(contains(model::built_in_note(m), "built-in ones of Qwen/Qwen2.5-7B-Instruct"));
  CHECK(model::load_model("Qwen/Qwen2.5-7B").max_positions == 131072);
  CHECK(model::built_in_note(model::load_model("qwen3-8b")).empty());  // the sample
  CHECK(model::load_model("GPT2").name == "openai-community/gpt2");
}

TEST_CASE("a sample's config.json and the built-in configuration of its id are one model") {
  // The samples have their files' every field.
  const std::pair<const char*, const char*> pairs[] = {
      {"llama-3.2-1b", "meta-llama/Llama-3.2-1B"},
      {"llama-3.1-8b", "meta-llama/Llama-3.1-8B"},
      {"llama-3.1-70b", "meta-llama/Llama-3.1-70B"},
      {"llama-3.1-405b", "meta-llama/Llama-3.1-405B"},
      {"qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B"},
      {"qwen3-0.6b", "Qwen/Qwen3-0.6B"},
      {"qwen3-8b", "Qwen/Qwen3-8B"},
      {"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"},
      {"mistral-7b", "mistralai/Mistral-7B-v0.3"},
      {"mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"},
      {"gemma-2-2b", "google/gemma-2-2b"},
      {"gemma-3-1b", "google/gemma-3-1b-pt"},
      {"phi-3-mini", "microsoft/Phi-3-mini-4k-instruct"}};
  for (const auto& [sample, bound_id] : pairs) {
    const auto& id = bound_id;
    CAPTURE(id);
    model::ModelSpec of_sample = model::load_model(sample), of_hub = model::load_model(id);
    CHECK(of_sample.reading.dtype == of_hub.reading.dtype);
    // No plan reads it.
    of_sample.pad_token_id = of_hub.pad_token_id;
    of_hub.name = of_sample.name;
    CHECK(of_sample == of_hub);
  }
}

TEST_CASE("a configuration \"like\" another's changes what it says, in nested objects too") {
  const model::ModelSpec large = model::load_model("Qwen/Qwen2.5-VL-72B-Instruct");
  CHECK(large.hidden == 8192);
  CHECK(large.max_positions == model::load_model("Qwen/Qwen2.5-VL-3B-Instruct").max_positions);
  CHECK(large.tower.has_value());
  const auto quantized = model::load_model("openai/gpt-oss-20b").reading.warnings;
  const auto plain = model::load_model("unsloth/gpt-oss-20b-BF16").reading.warnings;
  CHECK(quantized.size() == plain.size() + 1);  // its weights are published in mxfp4
}

TEST_CASE("the last part of an id is enough where no other id has it") {
  CHECK(model::load_model("qwen2.5-7b").name == "Qwen/Qwen2.5-7B");
  CHECK(model::load_model("Qwen2.5-14b-instruct").name == "Qwen/Qwen2.5-14B-Instruct");
  // An id of the Hub's that no other has in its last part
  CHECK(model::load_model("gpt-oss-20b-bf16").name == "unsloth/gpt-oss-20b-BF16");
}

TEST_CASE("an unknown id is told the nearest one") {
  CHECK(contains(load_error("Qwen/Qwen2.5-7B-Instrukt"),
                 "did you mean \"Qwen/Qwen2.5-7B-Instruct\"?"));
  CHECK(
      contains(load_error("qwen/Meta-Llama-3-8B"), "did you mean \"meta-llama/Meta-Llama-3-8B\""));
  CHECK_FALSE(contains(load_error("nobody/nothing-like-it"), "did you mean"));
}

TEST_CASE("docs/model_ids.md is the table of ids (AC_ADVISOR_UPDATE_DOCS=1 writes it)") {
  const std::string path = std::string(test::source_dir) + ids_document;
  const std::string written = document(hub_file());
  if (std::getenv("AC_ADVISOR_UPDATE_DOCS") != nullptr) std::ofstream(path) << written;
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == written);
}
