// Files that a framework's own parser has read (tests/oracle/exported_files.py, which keeps text
// and result): what is exported now is what was read then.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;

TEST_CASE("what is exported is what each framework's own parser has read") {
  std::ifstream file(std::string(test::source_dir) + "/tests/oracle/exported_files.json");
  REQUIRE(file.good());
  const auto cases = nlohmann::json::parse(file).at("cases");
  std::size_t read = 0;
  for (const auto& c : cases) {
    const std::string target = c.at("target"), name = c.at("model");
    OptionList options;
    const auto words = c.at("options").get<std::vector<std::string>>();
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool valued = i + 1 < words.size() && !words[i + 1].starts_with("--");
      options.emplace_back(words[i], valued ? words[i + 1] : "");
      i += valued ? 1 : 0;
    }
    if (!given(options, "--framework")) options.emplace_back("--framework", target);
    const model::ModelSpec model = model::load_model(name);
    CAPTURE(target);
    CAPTURE(name);
    CAPTURE(words);
    const auto now = advise::export_setting(target, model, advise::resolve(model, options).config);
    CHECK(now.text == c.at("text").get<std::string>());
    // Megatron-LM's parser is in no package.
    if (target != "megatron") {
      CHECK_FALSE(c.at("read").is_null());
      ++read;
    }
  }
  CHECK(read >= 30);
}
