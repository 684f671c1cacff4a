#include "ac_advisor/advise/explain.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::test {
namespace {

bool says(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

std::string gib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(bytes) / (1 << 30));
  return text;
}

}  // namespace

TEST_CASE("of a mixture of experts selective and full are compared by their own plans") {
  const model::ModelSpec model = model::load_model("mixtral-8x7b");
  for (const char* world : {"8", "64"}) {
    const OptionList hand{
        {"--framework", "automodel"}, {"--ac", "selective"}, {"--ac-scope", "block"},
        {"--world", world},           {"--batch", "1"},      {"--seq", "1024"}};
    StepConfig c = resolve_options(hand);
    const profile::Profile selective = advise::plan(model, c);
    c.memory.ac = AcMode::full;
    const profile::Profile full = advise::plan(model, c, false);
    REQUIRE(says(selective.warnings, "mixture of experts"));
    CHECK(says(selective.warnings, "its peak is " + gib(selective.memory.peak_allocated) +
                                       " GiB, that of full " + gib(full.memory.peak_allocated)));
    const std::int64_t saved = selective.memory.peak_allocated - full.memory.peak_allocated;
    CHECK(says(selective.warnings,
               saved > 0 ? gib(saved) + " GiB less" : std::string("full saves nothing more")));
  }
}

TEST_CASE("explain compares a mode with another by the figures of both plans") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  StepConfig c = resolve_options({{"--batch", "8"}, {"--ac", "grouped:4"}});
  const profile::Profile grouped = advise::plan(model, c, false);
  const std::vector<std::string> lines = advise::explain_mode(model, c);
  c.memory.ac = AcMode::full;
  c.memory.ac_arg = 0;
  const profile::Profile full = advise::plan(model, c, false);
  CHECK(says(lines, "against --ac full: peak " + gib(grouped.memory.peak_allocated) +
                        " GiB against " + gib(full.memory.peak_allocated)));
  c.memory.loss = LossKind::lc_ce;
  CHECK(says(advise::explain_mode(model, resolve_options({{"--batch", "8"}, {"--ac", "full"}})),
             gib(advise::plan(model, c, false).memory.peak_allocated) + " GiB against " +
                 gib(full.memory.peak_allocated)));
}

}  // namespace ac_advisor::test
