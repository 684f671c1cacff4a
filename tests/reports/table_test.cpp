#include <doctest/doctest.h>

#include <sstream>

#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "profile/full_profile.hpp"
#include "reports/grid.hpp"
#include "reports/small_sweep.hpp"

using namespace ac_advisor;

namespace {

void check_width(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(reports::columns(line) <= 80);
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("tables of every sample fit 80 columns") {
  for (const std::string& name : model::sample_names()) {
    CAPTURE(name);
    const model::ModelSpec model = model::load_model(name);
    for (const OptionList& options :
         {OptionList{{"--batch", "4"}}, OptionList{{"--ac", "full"},
                                                   {"--ac-scope", "submodule"},
                                                   {"--loss", "chunked:1024"},
                                                   {"--world", "512"},
                                                   {"--shard", "hsdp:8"},
                                                   {"--kernels", "fused"},
                                                   {"--keep-last-block", ""},
                                                   {"--optimizer", "adamw-foreach"}}}) {
      const StepConfig config = resolve_options(options);
      const profile::Profile p = advise::plan(model, config);
      check_width(reports::table(p, {}));
      check_width(reports::table(reports::Explanation{p, advise::explain_mode(model, config)}, {}));
      check_width(reports::table(advise::selective_trace(model, config), {}));
    }
  }
}

TEST_CASE("tables of long names and large figures fit 80 columns") {
  profile::Profile p = test::full_profile();
  p.model.name = std::string(300, 'x') + " " + std::string(300, 'y');
  p.device_name = std::string(200, 'z');
  p.memory.peak_op = std::string(90, 'o');
  p.memory.peak_allocated = std::int64_t{1} << 55;
  p.memory.largest[0].module = std::string(120, 'm');
  p.memory.largest[0].shape = "[1000000, 1000000, 1000000, 1000000]";
  p.warnings = {std::string(500, 'w')};
  p.budget->plan = std::string(200, 'p');
  check_width(reports::table(p, {}));
  profile::Diff d = profile::diff(p, test::full_profile());
  d.a_origin = "/" + std::string(300, 'd') + "/a.json";
  check_width(reports::table(d, {}));
}

TEST_CASE("a sweep's table: savings, ranking with its count of others, recommendation") {
  const advise::Sweep sweep = test::small_sweep({{"--batch", "2"}});
  REQUIRE(sweep.rows.size() > 5);
  const std::string text = reports::table(sweep, {.rows = 5});
  check_width(text);
  CHECK(text.find("Baseline") < text.find("configuration"));
  CHECK(contains(text, "[" + std::to_string(sweep.rows.size() - 5) + " others]"));
  CHECK(text.find("others]") < text.find("Recommendation: use"));
  CHECK_FALSE(contains(reports::table(sweep, {.rows = 100000}), "others]"));
}

TEST_CASE("a difference of sweeps fits 80 columns and tells what each side lacks") {
  const advise::Sweep a = test::small_sweep({{"--batch", "2"}});
  advise::Sweep b = test::small_sweep({{"--batch", "8"}, {"--seq", "1024"}});
  const std::string text = reports::table(reports::diff(a, b), {.rows = 1000});
  check_width(text);
  CHECK(contains(text, "absent"));
  CHECK(contains(text, "seq"));
}

TEST_CASE("colour only where it is asked for") {
  const profile::Profile p = test::full_profile();
  CHECK_FALSE(contains(reports::table(p, {.color = false}), "\033"));
  CHECK(contains(reports::table(p, {.color = true}), "\033[1m"));
}

TEST_CASE("a profile's table tells the peak, where it is, and its parts") {
  const std::string text = reports::table(test::full_profile(), {});
  CHECK(contains(text, "91.000"));  // 1 + 2 + … + 13 GiB
  CHECK(contains(text, "_log_softmax_backward_data of loss"));
  CHECK(contains(text, "optimizer_states"));
  CHECK(contains(text, "▁"));
  CHECK(contains(text, "█"));
  CHECK(contains(text, "note: routing is balanced"));
  CHECK(contains(text, "warning: a fallback"));
}
