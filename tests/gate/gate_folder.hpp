#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "ac_advisor/gate/check.hpp"

namespace ac_advisor::test {

using Json = nlohmann::ordered_json;

/// A folder of its own with an ac-advisor.json, its models and its baselines; gone with the object.
class GateFolder {
 public:
  GateFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ac_advisor_gate.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  GateFolder(const GateFolder&) = delete;
  GateFolder& operator=(const GateFolder&) = delete;
  ~GateFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string operator/(const std::string& file) const {
    return (path_ / file).string();
  }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << text;
  }
  [[nodiscard]] std::string read(const std::string& file) const {
    std::ifstream stream(path_ / file, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  void write_gate(const Json& gate) const { write("ac-advisor.json", gate.dump(2)); }
  [[nodiscard]] gate::GateFile gate() const {
    return gate::parse_gate_file(read("ac-advisor.json"), *this / "ac-advisor.json");
  }
  /// What check --update does.
  void update() const {
    std::filesystem::create_directories(path_ / "baselines");
    for (const gate::Rewrite& rewrite : gate::update(gate(), {}).rewrites)
      std::ofstream(rewrite.path, std::ios::binary) << rewrite.text;
  }
  [[nodiscard]] gate::Report check(const char* today = "2026-01-15") const {
    return gate::check(gate(), {gate::parse_date(today, "today"), {}, false});
  }

 private:
  std::filesystem::path path_;
};

/// A config.json of a llama of two blocks, planned in a blink.
inline Json small_llama() {
  return {{"model_type", "llama"},       {"hidden_size", 64},
          {"intermediate_size", 160},    {"num_hidden_layers", 2},
          {"num_attention_heads", 4},    {"num_key_value_heads", 2},
          {"vocab_size", 512},           {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", true}, {"max_position_embeddings", 2048}};
}

/// One case, "small", of model/config.json.
inline Json small_gate(Json limits) {
  return {{"cases",
           {{{"name", "small"},
             {"model", "model"},
             {"options", {{"batch", 2}, {"seq", 128}, {"ac", "full"}}},
             {"limits", std::move(limits)}}}}};
}

}  // namespace ac_advisor::test
