#include "ac_advisor/gate/baseline.hpp"

#include <limits>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "gate/gate_folder.hpp"

using namespace ac_advisor;
using test::Json;

namespace {

gate::Baseline small_baseline() {
  const model::ModelSpec model =
      model::parse_config(test::small_llama().dump(), "config.json", "model");
  gate::Case c;
  c.name = "small";
  c.model = "model";
  c.options = {{"--batch", "2"}, {"--no-hold-output", ""}};
  return gate::make_baseline(c, advise::plan(model, resolve_options(c.options)),
                             {{"hidden_size", "64"}});
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(gate::read_baseline(text, "b.json"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace

TEST_CASE("baseline: what is written is read again, to the last digit") {
  const gate::Baseline written = small_baseline();
  const gate::Baseline read = gate::read_baseline(gate::to_json(written), "b.json");
  CHECK(gate::to_json(read) == gate::to_json(written));
  CHECK(read.figures == written.figures);
  CHECK(read.written.options.at("batch") == "2");
  CHECK(read.written.options.count("no-hold-output") == 1);
}

TEST_CASE("baseline: its parts sum to its peak") {
  const gate::Baseline b = small_baseline();
  std::int64_t categories = 0, modules = 0;
  for (const std::int64_t bytes : b.parts.memory.at_peak) categories += bytes;
  for (const auto& [name, bytes] : b.parts.memory.at_peak_by_module) modules += bytes;
  CHECK(categories == b.figures[0]);
  CHECK(modules == b.figures[0]);
  CHECK(b.parts.memory.at_peak_by_module.count("blocks") == 1);
}

TEST_CASE("baseline: parts whose sum no 64 bits hold are refused by their name") {
  for (const char* parts : {"launches_by_phase", "at_peak_bytes", "at_peak_by_module_bytes"}) {
    CAPTURE(parts);
    Json hostile = Json::parse(gate::to_json(small_baseline()));
    hostile.erase("checksum");
    for (auto& [name, value] : hostile.at(parts).items())
      value = std::numeric_limits<std::int64_t>::max() / 2;
    const std::string error = error_of(hostile.dump());
    CHECK(error.find(parts) != std::string::npos);
    CHECK(error.find("sums to more than 64 bits hold") != std::string::npos);
  }
}

TEST_CASE("baseline: a figure that was changed by hand is refused, with and without a checksum") {
  const Json whole = Json::parse(gate::to_json(small_baseline()));
  for (const gate::FigureRow& row : gate::figure_table()) {
    Json raised = whole;
    raised["figures"][row.json] = 0.5;
    if (row.unit == gate::Unit::bytes || row.unit == gate::Unit::launches)
      raised["figures"][row.json] = 1'000'000'000'000'000;
    CHECK(error_of(raised.dump()).find("b.json: \"checksum\": ") == 0);
  }
  Json older = whole;
  older.erase("checksum");
  CHECK(error_of(older.dump()) == "(accepted)");
  for (const char* figure : {"peak_allocated_bytes", "launches"}) {
    Json raised = older;
    raised["figures"][figure] = 1'000'000'000'000'000;
    CHECK(error_of(raised.dump()).find(std::string("\"figures.") + figure + "\"") !=
          std::string::npos);
  }
  CHECK(error_of(whole.dump(7)) == "(accepted)");  // layout is no content
}

TEST_CASE("baseline: a device file of the same name with other figures is another device") {
  const test::GateFolder folder;
  Json gate = test::small_gate({{"step_seconds", {{"regression", {{"percent", 0}}}}}});
  gate["cases"][0]["options"]["gpu"] = folder / "mine.json";
  folder.write_gate(gate);
  folder.write("model/config.json", test::small_llama().dump());
  folder.write("mine.json", simulate::device_file("h100-80gb"));
  folder.update();
  // A device is read once a process: the changed one is in a file of its own, the baseline that of
  // the first.
  Json device = Json::parse(simulate::device_file("h100-80gb"));
  device["bandwidth_bytes_per_second"]["value"] = 6.7e12;
  folder.write("faster.json", device.dump());
  gate["cases"][0]["options"]["gpu"] = folder / "faster.json";
  folder.write_gate(gate);
  Json base = Json::parse(folder.read("baselines/small.json"));
  base["fingerprint"]["config"]["gpu"] = base["written"]["options"]["gpu"] = folder / "faster.json";
  folder.write("baselines/small.json", base.dump());
  const gate::Verdict v = folder.check().cases[0].verdicts[0];
  CHECK(v.outcome == gate::Outcome::other_fingerprint);
  CHECK(v.message.find("device_figures ") != std::string::npos);
  base["fingerprint"].erase("device_figures");  // from before it was kept
  folder.write("baselines/small.json", base.dump());
  CHECK(folder.check().cases[0].verdicts[0].outcome == gate::Outcome::improved);
}

TEST_CASE("baseline: two plans of one case give the same file") {
  CHECK(gate::to_json(small_baseline()) == gate::to_json(small_baseline()));
}

TEST_CASE("baseline: every truncation and any changed byte is answered") {
  const std::string whole = gate::to_json(small_baseline());
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(whole.substr(0, size)).find("b.json: ") == 0);
    // One of these in turn, each at many places.
    constexpr char bytes[] = {'\0', '\xff', '"', '}', '[', '-', '9'};
    std::string changed = whole;
    changed[size] = bytes[size % std::size(bytes)];
    const std::string error = error_of(changed);
    CHECK((error == "(accepted)" || error.find("b.json: ") == 0));
  }
}

TEST_CASE("baseline: wrong types and absurd numbers are refused with the field's name") {
  struct Wrong {
    const char *section, *key;
    Json value;
  };
  const Wrong wrong[] = {{"figures", "peak_allocated_bytes", -1},
                         {"figures", "peak_allocated_bytes", 1.5},
                         {"figures", "peak_allocated_bytes", "1"},
                         {"figures", "peak_allocated_bytes", nullptr},
                         {"figures", "peak_allocated_bytes", 18446744073709551615U},
                         {"figures", "launches", 9223372036854775807},
                         {"figures", "recompute_share", 1.5},
                         {"figures", "step_seconds", -0.5},
                         {"figures", "step_seconds", 1e300},
                         {"at_peak_bytes", "loss", -5},
                         {"at_peak_bytes", "lossy", 5},
                         {"at_peak_by_module_bytes", "x", 1e30},
                         {"launches_by_phase", "forward", true},
                         {"seconds_by_phase", "backward", "fast"},
                         {"fingerprint", "model", 3},
                         {"fingerprint", "op_table", 3},
                         {"written", "options", {{"batch", 2}}}};
  for (const Wrong& w : wrong) {
    CAPTURE(w.key);
    CAPTURE(w.value.dump());
    Json json = Json::parse(gate::to_json(small_baseline()));
    json[w.section][w.key] = w.value;
    const std::string error = error_of(json.dump());
    CAPTURE(error);
    CHECK(error.find(w.key) != std::string::npos);
  }
  Json json = Json::parse(gate::to_json(small_baseline()));
  json["schema"] = "ac-advisor/profile/1";
  CHECK(error_of(json.dump()).find("no baseline") != std::string::npos);
}

TEST_CASE("baseline: a field that is gone or new in the fingerprint is a difference") {
  const test::GateFolder folder;
  folder.write_gate(test::small_gate({{"peak_allocated", {{"regression", {{"percent", 0}}}}}}));
  folder.write("model/config.json", test::small_llama().dump());
  folder.update();
  Json json = Json::parse(folder.read("baselines/small.json"));
  json["fingerprint"]["config"].erase("no_sync");
  folder.write("baselines/small.json", json.dump());
  const gate::Verdict v = folder.check().cases[0].verdicts[0];
  CHECK(v.outcome == gate::Outcome::other_fingerprint);
  CHECK(v.message.find("--no-sync (absent) → false") != std::string::npos);
}

TEST_CASE("baseline: one from before an option existed holds the option's default") {
  const test::GateFolder folder;
  folder.write_gate(test::small_gate({{"peak_allocated", {{"regression", {{"percent", 0}}}}}}));
  folder.write("model/config.json", test::small_llama().dump());
  folder.update();
  const Json written = Json::parse(folder.read("baselines/small.json"));
  const std::vector<std::pair<const char*, Json>> newer{{"threads", 1}, {"cuda_graph", "off"}};
  Json before = written, after = written;
  for (const auto& [option, value] : newer) {
    before["fingerprint"]["config"].erase(option);
    after["fingerprint"]["config"][option] = value;
  }
  for (const Json& baseline : {before, after}) {
    folder.write("baselines/small.json", baseline.dump());
    const gate::Verdict v = folder.check().cases[0].verdicts[0];
    CAPTURE(v.message);
    CHECK(v.outcome == gate::Outcome::passes);
  }
}

TEST_CASE("baseline: an option that it is too old to know makes another configuration") {
  for (const auto& [option, value, told] : std::vector<std::tuple<std::string, Json, std::string>>{
           {"cuda-graph", "step", "--cuda-graph (absent) → step"},
           {"threads", 2, "--threads (absent) → 2"}}) {
    const test::GateFolder folder;
    Json gate = test::small_gate({{"peak_allocated", {{"regression", {{"percent", 0}}}}}});
    if (option == "threads") gate["cases"][0]["options"]["gpu"] = "cpu";
    folder.write_gate(gate);
    folder.write("model/config.json", test::small_llama().dump());
    folder.update();
    gate["cases"][0]["options"][option] = value;
    folder.write_gate(gate);
    const gate::Verdict v = folder.check().cases[0].verdicts[0];
    CAPTURE(v.message);
    CHECK(v.outcome == gate::Outcome::other_fingerprint);
    CHECK(v.message.find(told) != std::string::npos);
  }
}
