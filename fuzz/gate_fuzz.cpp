// Whatever the bytes of ac-advisor.json ('g' first), of a baseline ('b') or of a measured profile
// ('p'), the answer is a report or a UserError, and every renderer renders it.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/gate/check.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/reports.hpp"

namespace {

using namespace ac_advisor;

const gate::Case& tiny_case() {
  static const gate::Case tiny = [] {
    gate::Case c;
    c.name = "tiny";
    c.model = "tiny-llama";
    c.options = {{"--batch", "1"}, {"--seq", "128"}, {"--ac", "full"}};
    for (auto& limit : c.limits) limit = gate::Limit{1, gate::Regression{1000000, 1}};
    return c;
  }();
  return tiny;
}

const gate::Baseline& tiny_now() {
  static const gate::Baseline now = gate::make_baseline(
      tiny_case(),
      advise::plan(model::load_model("tiny-llama"), resolve_options(tiny_case().options)), {});
  return now;
}

void render(const gate::Report& report) {
  for (const std::string& text :
       {reports::json(report), reports::gitlab(report), reports::bencher(report)})
    if (!nlohmann::json::accept(text)) __builtin_trap();
  for (const std::string& text : {reports::table(report, {}), reports::markdown(report),
                                  reports::junit(report), reports::github(report)})
    if (text.find('\033') != std::string::npos) __builtin_trap();
}

void judge(const gate::GateFile& file, const gate::Case& c,
           const std::optional<gate::Baseline>& base) {
  const gate::Settings settings{gate::parse_date("2026-01-15", "fuzz"), {}, true};
  render({file.origin,
          {{c.name, tiny_now().figures, gate::judge(file, c, tiny_now(), base, settings)}}});
}

void fuzz_gate_file(const std::string& text) {
  const gate::GateFile file = gate::parse_gate_file(text, "ac-advisor.json");
  for (std::size_t i = 0; i < file.cases.size() && i < 16; ++i)
    judge(file, file.cases[i], tiny_now());
}

void fuzz_baseline(const std::string& text) {
  gate::GateFile file;
  file.origin = "ac-advisor.json";
  gate::Baseline base = gate::read_baseline(text, "baselines/tiny.json");
  judge(file, tiny_case(), base);
  // The figures too, not only the fingerprint.
  base.fingerprint = tiny_now().fingerprint;
  base.written = tiny_now().written;
  base.case_name = tiny_now().case_name;
  judge(file, tiny_case(), base);
}

void fuzz_profile(const std::string& text) {
  static const std::string folder =
      (std::filesystem::temp_directory_path() / ("gate_fuzz." + std::to_string(getpid()))).string();
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/profile.json", std::ios::binary) << text;
  gate::GateFile file;
  file.origin = folder + "/ac-advisor.json";
  file.cases = {tiny_case()};
  file.cases[0].profile = "profile.json";
  render(gate::check(file, {gate::parse_date("2026-01-15", "fuzz"), {}, false}));
  std::filesystem::remove_all(folder);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(data + 1, data + size);
  try {
    if (data[0] == 'b')
      fuzz_baseline(text);
    else if (data[0] == 'p')
      fuzz_profile(text);
    else
      fuzz_gate_file(text);
  } catch (const UserError&) {
    // the answer to bad input
  }
  return 0;
}
