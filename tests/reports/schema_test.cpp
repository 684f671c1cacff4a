// Every JSON that the program writes is what docs/schema/ says, and what earlier versions wrote is
// still read.
#include <doctest/doctest.h>

#include "ac_advisor/reports/measurement.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/page.hpp"
#include "ac_advisor/simulate/calibrated.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "profile/full_profile.hpp"
#include "reports/compression_choice.hpp"
#include "reports/json_schema.hpp"
#include "reports/small_sweep.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;
using nlohmann::json;

namespace {

void check_valid(const std::string& text) {
  for (const std::string& error : test::schema_errors(text)) FAIL_CHECK(error);
}

std::string read(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

const std::filesystem::path saved = std::filesystem::path(test::source_dir) / "tests/reports/saved";

/// Without the one field that files of version 1 did not have at first.
json without_newer(json value) {
  if (value.is_object())
    for (const char* field :
         {"basis", "varies_global_batch", "unavailable", "largest_batch_exact", "not_planned",
          "largest_batch_loss", "largest_capped", "left_out", "verdict"})
      value.erase(field);
  if (value.is_structured())
    for (json& member : value) member = without_newer(member);
  return value;
}

std::string written(const reports::Document& document) {
  return std::visit([](const auto& value) { return reports::json(value); }, document.value);
}

}  // namespace

TEST_CASE("the schema checker finds what it is there for") {
  const json schema =
      json::parse(R"({"type": "object", "required": ["n"], "additionalProperties": false,
    "properties": {"n": {"type": "integer", "minimum": 0}, "w": {"enum": ["a", "b"]},
      "l": {"type": "array", "items": {"$ref": "#/$defs/s"}}, "k": {"const": 1},
      "p": {"prefixItems": [{"type": "null"}], "minItems": 1, "maxItems": 1}, "r": {"pattern": "^x+$"}},
    "$defs": {"s": {"type": ["string", "null"]}}})");
  const auto errors = [&](const char* text) {
    return test::schema_errors(json::parse(text), schema).size();
  };
  CHECK(errors(R"({"n": 0, "w": "a", "l": ["x", null], "k": 1, "p": [null], "r": "xx"})") == 0);
  for (const char* bad :
       {R"([])", R"({})", R"({"n": -1})", R"({"n": 0.5})", R"({"n": 1, "w": "c"})",
        R"({"n": 1, "l": [1]})", R"({"n": 1, "k": 2})", R"({"n": 1, "p": []})",
        R"({"n": 1, "p": [null, 1]})", R"({"n": 1, "p": [1]})", R"({"n": 1, "r": "y"})",
        R"({"n": 1, "other": 1})"}) {
    CAPTURE(bad);
    CHECK(errors(bad) == 1);
  }
  CHECK_THROWS_AS(static_cast<void>(test::schema_errors(json(1), json{{"oneOf", json::array()}})),
                  std::runtime_error);
}

TEST_CASE("plans of every sample and mode are valid by their schema") {
  for (const std::string& name : model::sample_names())
    check_valid(reports::json(advise::plan(model::load_model(name), resolve_options({}))));
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const OptionList& options :
       {OptionList{{"--ac", "every:2"}, {"--loss", "chunked:64"}, {"--dropout", "0.1"}},
        OptionList{{"--world", "8"},
                   {"--shard", "hsdp:4"},
                   {"--keep-last-block", ""},
                   {"--node-size", "4"},
                   {"--network", "ndr"}},
        OptionList{{"--framework", "torchtitan"}, {"--world", "2"}, {"--ac", "selective"}},
        OptionList{{"--framework", "automodel"}, {"--world", "2"}, {"--grad-accum", "3"}},
        OptionList{{"--ac", "budget:1TiB"}, {"--gpu", "cpu"}}}) {
    const StepConfig config = advise::resolve(model, options).config;
    check_valid(reports::json(advise::plan(model, config)));
    check_valid(reports::json(
        reports::Explanation{advise::plan(model, config), advise::explain_mode(model, config)}));
    check_valid(reports::json(advise::selective_trace(model, config)));
  }
  check_valid(reports::json(test::full_profile()));
}

TEST_CASE("what measure writes is valid by its schema, and null only with a reason") {
  reports::Measurement m;
  m.label = "full ce eager";
  m.predicted = advise::plan(model::load_model("tiny-llama"), resolve_options({{"--gpu", "cpu"}}));
  m.measured = m.predicted;
  m.measured.source = "measured";
  m.measured.numerics = profile::Numerics{{6.2, 6.1}, "00ff", 1e-7, "agrees", "one rank"};
  m.measured.absent = {{"memory.peak_reserved_bytes", "no caching allocator"},
                       {"kernels.flops", "not counted"},
                       {"kernels.bytes", "not counted"},
                       {"kernels.dispatches", "not counted"},
                       {"time.mfu", "not known"},
                       {"time.launch_bound_seconds", "not told apart"},
                       {"time.communication_exposed_seconds", "not told apart"},
                       {"fit", "another machine"}};
  const std::string text = reports::json(m);
  check_valid(text);
  check_valid(reports::json(reports::Measurements{{m, m}, {m}}));
  const json written = json::parse(text);
  CHECK(written["memory"]["peak_reserved_bytes"].is_null());
  CHECK(written["fit"].is_null());
  const profile::Profile read = profile::from_json(text, "m.json");
  CHECK(read.absent == m.measured.absent);
  CHECK(read.numerics->losses == m.measured.numerics->losses);
  CHECK(json::parse(profile::to_json(read))["absent"] == written["absent"]);
  json without_reason = written;
  without_reason["absent"].erase("time.mfu");
  CHECK_THROWS_AS(static_cast<void>(profile::from_json(without_reason.dump(), "m.json")),
                  UserError);
  const reports::Document document = reports::read_document(text, "m.json");
  CHECK(reports::html({{document}, {}, ""}).size() > 10'000);
}

TEST_CASE("sweeps and differences are valid by their schemas") {
  const advise::Sweep a = test::small_sweep({{"--batch", "2"}, {"--world", "2"}});
  const advise::Sweep b = test::small_sweep({{"--batch", "8"}, {"--world", "2"}, {"--seq", "512"}});
  check_valid(reports::json(a));
  check_valid(reports::json(reports::diff(a, b)));
  check_valid(reports::json(reports::diff(a, advise::Sweep{})));
  check_valid(reports::json(profile::diff(a.rows[0].profile, b.rows[0].profile)));
  check_valid(reports::json(profile::diff(
      test::full_profile(), advise::plan(model::load_model("gemma-3-1b"), StepConfig{}))));
}

TEST_CASE("what was solved is valid by its schema, and reads back as it was") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const StepConfig base = resolve_options({{"--gpu", "rtx-4090"}, {"--framework", "hf"}});
  advise::Largest largest =
      advise::largest(advise::Sought::seq, model, base, advise::default_space(model, base));
  REQUIRE(largest.found.size() > 1);
  const std::string text = reports::json(largest);
  check_valid(text);
  const reports::Document document = reports::read_document(text, "l.json");
  CHECK(written(document) == text);
  const auto& read = std::get<advise::Largest>(document.value);
  CHECK(reports::table(read, {}) == reports::table(largest, {}));
  CHECK(reports::markdown(read) == reports::markdown(largest));
  largest.found.clear();
  CHECK(written(reports::read_document(reports::json(largest), "l.json")) ==
        reports::json(largest));

  json j = json::parse(text);
  j["rows"][1]["largest"] = -1;
  CHECK_THROWS_WITH_AS(static_cast<void>(reports::read_document(j.dump(), "l.json")),
                       "l.json: \"rows[1]\" is -1; expected 0 to 2^56", UserError);
  j["sought"] = "layers";
  CHECK_THROWS_WITH_AS(
      static_cast<void>(reports::read_document(j.dump(), "l.json")),
      "l.json: \"sought\" is layers; expected batch, seq, parameters, completion, world "
      "or gpu",
      UserError);
}

TEST_CASE("when compressed gradients pay is valid by its schema") {
  check_valid(reports::json(advise::compression_choice(model::load_model("tiny-llama"),
                                                       {{"--world", "16"}, {"--node-size", "8"}})));
}

TEST_CASE("device files are valid by their schema, built in or calibrated") {
  const auto root = std::filesystem::path(test::source_dir);
  const json schema = json::parse(read(root / "docs/schema/device-1.json"));
  const auto check = [&](const std::string& name, const std::string& text) {
    CAPTURE(name);
    for (const std::string& error : test::schema_errors(json::parse(text), schema))
      FAIL_CHECK(error);
  };
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "data/devices"))
    if (entry.path().extension() == ".json") {
      check(entry.path().filename().string(), read(entry.path()));
      ++files;
    }
  CHECK(files == simulate::device_names().size());
  simulate::Measurements m;
  m.device = "Test CPU";
  m.version = "0";
  m.date = "2026-01-02";
  m.threads = 2;
  m.series.push_back({ir::OpKind::mm, DType::f32, DType::f32, 0, 0, {{{1, 64, 64, 64}, 1e-6}}});
  m.series.push_back({ir::OpKind::neg, DType::f32, DType::f32, 0, 0, {{{1e3, 1e4}, 1e-6}}});
  const std::string calibrated =
      simulate::calibrated_device_file(simulate::device_file("cpu"), m, std::int64_t{8} << 30);
  check("calibrated", calibrated);
  json broken = json::parse(calibrated);
  broken["bandwidth_bytes_per_second"].erase("source");
  broken["measurements"]["series"][0]["points"][0][4] = "soon";
  CHECK(test::schema_errors(broken, schema).size() == 2);
}

TEST_CASE("what breaks a schema is found in a file of the program's") {
  json j = json::parse(reports::json(test::full_profile()));
  j["memory"]["peak_allocated_bytes"] = -1;
  j["memory"]["at_peak"].erase("loss");
  j["config"]["ac"] = "sideways";
  j["new"] = 1;
  CHECK(test::schema_errors(j.dump()).size() == 4);
}

TEST_CASE("files of version 1 are read, are valid, and are written the same") {
  for (const char* name : {"profile-1.json", "sweep-1.json", "diff-1.json", "sweep-diff-1.json",
                           "trace-1.json", "largest-1.json"}) {
    CAPTURE(name);
    const std::string text = read(saved / name);
    check_valid(text);
    const reports::Document document = reports::read_document(text, name);
    CHECK(without_newer(json::parse(written(document))) == without_newer(json::parse(text)));
    CHECK(reports::html({{document}, {}, ""}).size() > 10'000);
  }
}

TEST_CASE("a file of another schema, cut short, or out of all range is refused by name") {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(reports::read_document(text, "file.json"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string text = reports::json(test::full_profile());
  CHECK(contains(error_of(text.substr(0, text.size() / 2)), "file.json: not JSON, or cut short"));
  CHECK(contains(error_of("\xff\xfe"), "file.json: not JSON"));
  CHECK(contains(error_of(R"({"schema": "ac-advisor/profile/9"})"), "this version reads"));
  CHECK(contains(error_of(R"({"schema": 1})"), "\"schema\" has the wrong type"));
  CHECK(contains(error_of(R"({"a": NaN})"), "not JSON"));
  json j = json::parse(text);
  const auto with = [&](const char* path, const json& value) {
    json changed = j;
    changed[json::json_pointer(path)] = value;
    return error_of(changed.dump());
  };
  CHECK(contains(with("/memory/peak_allocated_bytes", -1), "expected 0 to 2^56"));
  CHECK(contains(with("/memory/at_peak/loss", std::int64_t{1} << 60), "memory.at_peak"));
  CHECK(contains(with("/time/step_seconds", 1e300), "expected at most 1e30"));
  CHECK(contains(with("/model/layers", 1e300), "\"layers\" has the wrong type"));
  CHECK(contains(with("/model/layers", 3), "one for each of 3 layers"));
  CHECK(contains(with("/model/hidden", -5), "\"hidden\" is -5"));
  CHECK(contains(with("/config/batch", std::int64_t{1} << 62), "config"));
  j["config"]["seq"] = std::int64_t{1} << 31;
  CHECK(contains(with("/config/batch", std::int64_t{1} << 31), "more than 2^56 tokens"));
  CHECK(contains(with("/config/world", 0), "--world 0: N must be at least 1"));
  CHECK(contains(with("/config/shard", "hsdp"), "such as hsdp:8"));
}

TEST_CASE("a file cut short anywhere is refused, never half read") {
  for (const char* name : {"profile-1.json", "sweep-1.json", "diff-1.json", "trace-1.json"}) {
    std::string text = read(saved / name);
    text.resize(text.find_last_of('}') + 1);
    for (std::size_t length = 0; length < text.size(); length += 101)
      CHECK_THROWS_AS(static_cast<void>(reports::read_document(text.substr(0, length), name)),
                      UserError);
  }
}
