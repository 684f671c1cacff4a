#include "json/plain_text.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "json/node.hpp"

namespace ac_advisor::test {
namespace {

using Json = nlohmann::ordered_json;

/// Says nothing but that it goes on.
class Silent final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }
};

bool is_plain(const std::string& text) {
  Silent sax;
  return json::read_plain_text(text, sax);
}

const std::string sample =
    R"({"a": [1, -2, 0, -0, 3.5, 1e3, -2.5E-2, 18446744073709551615, 9223372036854775807],
        "b": {"c": true, "d": [false, null, "text", []], "e": {}}, "": ""})";

}  // namespace

TEST_CASE("plain JSON text is read as nlohmann's parser reads it") {
  CHECK(json::parse_document(sample, "f").dump() == Json::parse(sample).dump());
  CHECK_FALSE(is_plain(sample));  // for its number of 20 digits
  const std::string plain = R"({"a":[1,-2,0,3.5,1e3],"b":{"c":true,"d":[false,null,"x~ "]}} )";
  CHECK(is_plain(plain));
  const Json read = json::parse_document(plain, "f");
  CHECK(read.dump() == Json::parse(plain).dump());
  CHECK(read.at("a").at(0).is_number_unsigned());
  CHECK(read.at("a").at(1).is_number_integer());
  CHECK(read.at("a").at(4).is_number_float());
}

TEST_CASE("what is no plain JSON text is left to nlohmann's parser") {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1,}", "{\"a\" 1}", "[01]", "[1.]", "[.5]", "[+1]", "[1e]", "[-]",
        "[tru]", "[\"\\n\"]", "[\"\xc3\xa9\"]", "[\"\t\"]", "[1] 2", "{1:2}", "nul", "[1e999]"})
    CHECK_MESSAGE(!is_plain(text), text);
}

TEST_CASE("no mutation of a text is plain that nlohmann's parser refuses") {
  std::mt19937 random(17);
  const std::string bytes = "{}[]:,\"-+.eE0179 tfn\\\n\x80";
  std::size_t plain = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = R"({"a":[1,-2,30,3.5,1e3],"b":{"c":true,"d":[false,null,"x"]}})";
    for (int changes = 1 + i % 3; changes > 0; --changes)
      text[random() % text.size()] = bytes[random() % bytes.size()];
    if (!is_plain(text)) continue;
    ++plain;
    CHECK_MESSAGE(Json::accept(text), text);
  }
  CHECK(plain > 100);
}

}  // namespace ac_advisor::test
