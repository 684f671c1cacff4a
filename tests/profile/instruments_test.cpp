// What a trace and hardware counters add to a measured profile: its fields, its JSON, its report.
#include <doctest/doctest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ac_advisor/reports/measurement.hpp"
#include "profile/full_profile.hpp"
#include "reports/grid.hpp"
#include "reports/json_schema.hpp"
#include "trainer/counters/add_counters.hpp"

using namespace ac_advisor;
using trainer::Counted;
using trainer::RangeTraffic;

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

profile::Profile measured() {
  profile::Profile p = test::full_profile();
  p.source = "measured";
  p.instruments.emplace();
  profile::Instruments& all = *p.instruments;
  all.runs = {{"timing", 0.200}, {"trace", 0.206}, {"counters", 0.300}};
  for (std::size_t i = 0; i < 5; ++i) {
    const auto n = static_cast<double>(i);
    all.dram_read_bytes[i] = (1 + n) * gib;
    all.dram_write_bytes[i] = (0.5 + n) * gib;
    all.dram_percent_of_peak[i] = 10 + n;
    all.long_gaps[i] = 2 * n;
    all.long_gap_seconds[i] = 0.001 * n;
    all.idle_seconds[i] = 0.002 * n;
  }
  return p;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string table(const profile::Profile& p) {
  return reports::table(reports::Measurement{"x", test::full_profile(), p}, {});
}

}  // namespace

TEST_CASE("an instrument's overhead is its step against that of the run that only timed") {
  const profile::Instruments all = *measured().instruments;
  CHECK_FALSE(all.overhead_percent(all.runs[0]));
  CHECK(*all.overhead_percent(all.runs[1]) == doctest::Approx(3.0));   // 206 / 200
  CHECK(*all.overhead_percent(all.runs[2]) == doctest::Approx(50.0));  // 300 / 200
  profile::Instruments alone;
  alone.runs = {{"trace", 0.2}};
  CHECK_FALSE(alone.overhead_percent(alone.runs[0]));
}

TEST_CASE("instruments read back as they were written, and are valid by the schema") {
  const profile::Profile p = measured();
  const std::string text = profile::to_json(p);
  for (const std::string& error : test::schema_errors(text)) FAIL_CHECK(error);
  const profile::Profile q = profile::from_json(text, "p.json");
  CHECK(profile::to_json(q) == text);
  REQUIRE(q.instruments);
  CHECK(q.instruments->runs.at(2).instrument == "counters");
  CHECK(q.instruments->dram_write_bytes == p.instruments->dram_write_bytes);
  CHECK(q.instruments->idle_seconds == p.instruments->idle_seconds);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["instruments"]["overhead_percent"]["trace"].get<double>() == doctest::Approx(3.0));
  CHECK_FALSE(json["instruments"]["overhead_percent"].contains("timing"));
}

TEST_CASE("instruments that were not there are null with a reason, or not in the file at all") {
  profile::Profile p = measured();
  p.absent["instruments.dram_read_bytes"] = "no permission";
  const std::string text = profile::to_json(p);
  for (const std::string& error : test::schema_errors(text)) FAIL_CHECK(error);
  CHECK(nlohmann::json::parse(text)["instruments"]["dram_read_bytes"].is_null());
  CHECK(profile::to_json(profile::from_json(text, "p.json")) == text);

  p.instruments.reset();
  p.absent = {{"instruments", "a CPU run is not traced"}};
  const std::string none = profile::to_json(p);
  for (const std::string& error : test::schema_errors(none)) FAIL_CHECK(error);
  CHECK_FALSE(profile::from_json(none, "p.json").instruments);
  CHECK(profile::to_json(profile::from_json(none, "p.json")) == none);

  p.absent.clear();
  CHECK_FALSE(nlohmann::json::parse(profile::to_json(p)).contains("instruments"));
  CHECK_FALSE(profile::from_json(profile::to_json(p), "p.json").instruments);
}

TEST_CASE("counted ranges become the phases' figures, and the bytes of kernels") {
  profile::Profile p;
  p.absent = {{"kernels.bytes", "not counted"}, {"instruments", "none"}, {"fit", "another"}};
  Counted counted;
  counted.ranges = {RangeTraffic{"forward", 100, 50, 40.0, 0.1, 1},
                    RangeTraffic{"recompute", 10, 5, 80.0, 0.2, 16},
                    RangeTraffic{"other", 1, 1, 1.0, 1.0, 1}};
  add_counters(p, counted);
  REQUIRE(p.instruments);
  CHECK(p.instruments->dram_read_bytes == std::array<double, 5>{100, 0, 0, 10, 0});
  CHECK(p.instruments->dram_write_bytes == std::array<double, 5>{50, 0, 0, 5, 0});
  CHECK(p.instruments->dram_percent_of_peak == std::array<double, 5>{40, 0, 0, 80, 0});
  CHECK(p.kernels.bytes == std::array<double, 5>{150, 0, 0, 15, 0});
  CHECK(p.absent == std::map<std::string, std::string>{{"fit", "another"}});

  counted.ranges[0].dram_percent_of_peak.reset();
  add_counters(p, counted);
  CHECK(has(p.absent.at("instruments.dram_percent_of_peak"), "one pass"));

  profile::Profile refused;
  refused.absent = {{"kernels.bytes", "not counted"}};
  add_counters(refused, Counted{{}, "no permission"});
  for (const char* field : {"dram_read_bytes", "dram_write_bytes", "dram_percent_of_peak"})
    CHECK(refused.absent.at(std::string("instruments.") + field) == "no permission");
  CHECK(refused.absent.at("kernels.bytes") == "not counted");
}

TEST_CASE("a measurement shows what the instruments say, and nothing where there are none") {
  profile::Profile p = measured();
  std::string text = table(p);
  CHECK(has(text, "% of peak"));
  CHECK(has(text, "gaps > 50 us"));
  CHECK(has(text, "step by run: timing 200 ms, trace 206 ms (+3.0 %), counters 300 ms (+50.0 %)"));
  std::istringstream lines(text);
  bool row = false;
  for (std::string line; std::getline(lines, line);) {
    CHECK(reports::columns(line) <= 80);
    std::istringstream words(line);
    // recompute is the fourth: 1 + 3 and 0.5 + 3 GiB, 10 + 3 %, 2 × 3 gaps, 3 ms and 6 ms.
    const std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
    row = row || cells == std::vector<std::string>{"recompute",
                                                   "4.000",
                                                   "3.500",
                                                   "13",
                                                   "6",
                                                   reports::milliseconds(0.003),
                                                   reports::milliseconds(0.006)};
  }
  CHECK(row);
  p.absent["instruments.dram_percent_of_peak"] = "one pass";
  CHECK(has(table(p), "not measured: instruments.dram_percent_of_peak: one pass"));
  p.absent.clear();
  p.instruments.reset();
  text = table(p);
  CHECK_FALSE(has(text, "% of peak"));
  CHECK_FALSE(has(text, "step by run"));
}
