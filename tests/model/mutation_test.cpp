// Whatever becomes of one field, or of the text, the answer is a model or a UserError.
#include <doctest/doctest.h>

#include <limits>

#include "config_text.hpp"
#include "embedded/embedded.hpp"

using namespace ac_advisor;

namespace {

// True when the text is read or refused; any other exception escapes and fails the test.
bool answered(const std::string& text) {
  try {
    const auto spec = model::parse_config(text, "mutant.json", "mutant");
    return model::parameter_count(spec) > 0 &&
           spec.window.size() == static_cast<std::size_t>(spec.layers);
  } catch (const UserError& error) {
    return std::string(error.what()).size() > 10;
  }
}

std::vector<nlohmann::json> samples() {
  std::vector<nlohmann::json> all;
  for (const embedded::File& file : embedded::files())
    if (file.path.starts_with("sample_models/") && file.path.ends_with("config.json"))
      all.push_back(nlohmann::json::parse(file.text));
  return all;
}

}  // namespace

TEST_CASE("one field replaced by anything is answered") {
  const std::vector<nlohmann::json> values = {nullptr,
                                              true,
                                              false,
                                              0,
                                              1,
                                              -1,
                                              3,
                                              7,
                                              1 << 14,
                                              std::int64_t{1} << 31,
                                              std::int64_t{1} << 62,
                                              std::numeric_limits<std::int64_t>::min(),
                                              std::numeric_limits<std::uint64_t>::max(),
                                              0.5,
                                              -0.0,
                                              1e-300,
                                              1e300,
                                              "",
                                              "silu",
                                              "sliding_attention",
                                              nlohmann::json::array(),
                                              nlohmann::json::object(),
                                              {1, "x", nullptr},
                                              {{"rope_theta", "x"}}};
  for (const nlohmann::json& sample : samples()) {
    for (const auto& item : sample.items()) {
      const std::string field = item.key();  // clang 14 captures no structured binding
      for (const nlohmann::json& value : values) {
        CAPTURE(field);
        CAPTURE(value.dump());
        auto mutant = sample;
        mutant[field] = value;
        CHECK(answered(mutant.dump()));
      }
      auto mutant = sample;
      mutant.erase(field);
      CHECK(answered(mutant.dump()));
    }
  }
}

TEST_CASE("one field renamed by a letter is answered, and a size is never lost silently") {
  for (const nlohmann::json& sample : samples()) {
    for (const char* field : {"hidden_size", "intermediate_size", "num_hidden_layers",
                              "num_attention_heads", "num_key_value_heads", "vocab_size"}) {
      CAPTURE(field);
      auto mutant = sample;
      const std::string name = field;
      mutant[name.substr(0, 3) + name.substr(4)] = mutant[name];
      mutant.erase(name);
      CHECK_THROWS_WITH_AS(static_cast<void>(test::parse(mutant)),
                           doctest::Contains(("did you mean \"" + name + "\"").c_str()), UserError);
    }
  }
}

TEST_CASE("every prefix of a configuration, and every changed byte, is answered") {
  const std::string text = test::small_config("llama").dump(2);
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(static_cast<void>(model::parse_config(text.substr(0, size), "cut.json", "cut")),
                    UserError);
    for (const char byte : {'\0', '\x80', '"', '{', ']', '9', '-'}) {
      std::string changed = text;
      changed[size] = byte;
      CHECK(answered(changed));
    }
  }
}
