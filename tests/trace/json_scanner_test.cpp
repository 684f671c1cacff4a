#include "trace/json_scanner.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "trace/find.hpp"

using namespace ac_advisor;
using trace::JsonScanner;
using Token = JsonScanner::Token;

namespace {

nlohmann::json value_of(JsonScanner& json, Token token) {
  nlohmann::json value;
  switch (token) {
    case Token::object:
      value = nlohmann::json::object();
      while (json.next() == Token::key) {
        const std::string key(json.text());
        value[key] = value_of(json, json.next());
      }
      return value;
    case Token::array:
      value = nlohmann::json::array();
      for (Token t = json.next(); t != Token::array_end; t = json.next())
        value.push_back(value_of(json, t));
      return value;
    case Token::text:
      return std::string(json.text());
    case Token::number:
      return nlohmann::json::parse(json.text(), nullptr, false);
    default:
      if (json.text() == "true") return true;
      if (json.text() == "false") return false;
      return nullptr;
  }
}

struct Result {
  nlohmann::json value;
  std::int64_t repairs = 0;
};

Result read(const std::string& text) {
  const auto source = files::open_bytes(text, "t.json");
  JsonScanner json(*source, "t.json");
  Result result{value_of(json, json.next()), 0};
  CHECK(json.next() == Token::end);
  result.repairs = json.repairs();
  return result;
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read(text));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("scanner: valid JSON is read as another parser reads it, and nothing is repaired") {
  for (const std::string text :
       {R"j({"a": 1, "b": [1.5, -2e3, true, false, null, "x"], "c": {}, "d": []})j",
        R"j(["say \"hi\", \"you\": 1", "a\\", "\\\"", "\u00e9\ud83d\ude00\n", ""])j",
        R"j({"k\"ey": "v\",", "": "{\"a\":{\"b\":\"c\"}}", "x": ["\"", "\\"], "y": "\"}"})j",
        R"j({"name": "print(\",\")", "z": "a\", \"b\": 1", "w": "C:\\dir\\"})j",
        R"j([{"a": "}"}, {"b": "]"}, {"c": ","}, {"d": ":"}, {"e": "\"}, {\""}])j"}) {
    CAPTURE(text);
    const Result result = read(text);
    CHECK(result.value == nlohmann::json::parse(text));
    CHECK(result.repairs == 0);
  }
}

TEST_CASE("scanner: what is beyond the buffer is read as what is within") {
  // Strings, escapes and keys at every place around the mebibyte that is read at once.
  for (std::size_t pad = (1U << 20U) - 90; pad < (1U << 20U) + 2; ++pad) {
    const std::string text = "{\"p\": [" + std::string(pad, ' ') +
                             R"j("a\"b", "\u00e9"], "name": "f<1, \"x\">(int)", "ts": 12.5})j";
    const Result result = read(text);
    REQUIRE(result.value == nlohmann::json::parse(text));
    REQUIRE(result.repairs == 0);
  }
}

TEST_CASE("scanner: a long string is cut, and what follows it is read") {
  const Result result = read("[\"" + std::string(3 << 20, 'x') + "\", 7]");
  CHECK(result.value[0].get<std::string>().size() == JsonScanner::max_text);
  CHECK(result.value[1] == 7);
}

TEST_CASE("scanner: bytes that nobody escaped are read as they were meant") {
  struct Case {
    const char* what;
    std::string text, name;
  };
  const Case cases[] = {
      {"control bytes (pytorch#136180)", "{\"name\": \"config.py(0): \x01\n\", \"pid\": 7}",
       "config.py(0): \x01\n"},
      {"a path of Windows (pytorch#98432)",
       R"j({"name": "torch\cuda\__init__.py(219): f", "pid": 7})j",
       "torch\\cuda\\__init__.py(219): f"},
      {"no code point", R"j({"name": "C:\users\u12", "pid": 7})j", "C:\\users\\u12"},
      {"a backslash before the last quote", R"j({"name": "C:\x\", "pid": 7})j", "C:\\x\\"},
      {"quotes (kineto#1459)",
       "{\"name\": \"Library(\"_test\", \"IMPL\")\n(1): <module>\", \"pid\": 7}",
       "Library(\"_test\", \"IMPL\")\n(1): <module>"},
      {"a quote before a brace", R"j({"name": "f("{"x"}", 1)", "pid": 7})j", R"j(f("{"x"}", 1))j"},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.what));
    const Result result = read(c.text);
    CHECK(result.value["name"] == c.name);
    CHECK(result.value["pid"] == 7);
    CHECK(result.repairs > 0);
  }
  // What is no UTF-8 is only shown otherwise.
  CHECK(read("{\"name\": \"a\xff\xc3\", \"pid\": 7}").value["name"] == "a\xff\xc3");
  // A name that looks like two members: the event is not lost.
  CHECK(read(R"j([{"name": "{"device": "cpu", "dtype": "f32"}(12): run", "pid": 7}, {"pid": 8}])j")
            .value[1]["pid"] == 8);
}

TEST_CASE("scanner: NaN, Infinity, missing values, stray commas, a byte order mark") {
  const Result result = read(
      "\xef\xbb\xbf{\"a\": NaN, \"b\": -Infinity, \"c\": Infinity, \"d\": -nan(ind), \"e\": , "
      "\"f\": [1,,2,], \"g\": 3, }\n");
  CHECK(result.value["g"] == 3);
  CHECK(result.value["f"] == nlohmann::json::parse("[1, 2]"));
  for (const char* key : {"a", "b", "c", "d", "e"}) CHECK(result.value[key].is_null());
  CHECK(result.repairs == 5);
}

TEST_CASE("scanner: a list of events may lack its last bracket, as the format permits") {
  CHECK(read("[{\"a\": 1},\n{\"a\": 2}").value.size() == 2);
  CHECK(read("[{\"a\": 1},\n").value.size() == 1);
}

TEST_CASE("scanner: only what ends too early is called cut off") {
  const std::string whole =
      R"j({"traceEvents": [{"name": "a\"b", "ts": 1.5, "args": {"x": [1]}}]})j";
  for (std::size_t size = 1; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::string error = error_of(whole.substr(0, size));
    CHECK(test::has(error, "t.json: is cut off: it ends at byte " + std::to_string(size)));
  }
  for (const std::string text : {R"j({"a": 1]})j", R"j({"a": [1}})j", R"j({a: 1})j",
                                 R"j({"a": @})j", R"j([1 2 x])j", R"j([:])j", R"j([{"a": 1}:])j"}) {
    CAPTURE(text);
    const std::string error = error_of(text);
    CHECK(test::has(error, "t.json: not JSON: byte "));
    CHECK_FALSE(test::has(error, "cut off"));
  }
  CHECK(test::has(error_of(R"j({"a": @})j"), "byte 6 is @ where a value should be"));
}
