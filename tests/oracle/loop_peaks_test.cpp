// Training loops of real PyTorch (loop_peaks.py) and of DeepSpeed (zero_peaks.py) on the emulated
// device, and the plans of the same options.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

OptionList options_of(const std::string& words) {
  OptionList options;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    if (word.starts_with("--"))
      options.emplace_back(word, "");
    else
      options.back().second = word;
  }
  return options;
}

double relative(std::int64_t got, std::int64_t want) {
  return std::abs(static_cast<double>(got - want)) / static_cast<double>(want);
}

struct Bounds {
  std::size_t cases = 0;  ///< at least
  double allocated = 0, reserved = 0;
  double near = 0;      ///< the share of cases whose reserved memory is met to 2 %
  double forward = 0;   ///< by itself; 0: as allocated
  double launches = 0;  ///< of the step, where they were counted
};

std::int64_t counted_launches(const json& by_phase) {
  std::int64_t all = 0;
  for (const json& phase : by_phase)
    for (const json& activity : phase) all += activity.get<std::int64_t>();
  return all;
}

void check_file(const std::string& file, const Bounds& bounds) {
  std::ifstream stream(std::string(source_dir) + "/tests/oracle/" + file);
  REQUIRE(stream);
  const json document = json::parse(stream);
  const json& cases = document.at("cases");
  REQUIRE(cases.size() >= bounds.cases);
  double worst_allocated = 0, worst_reserved = 0, worst_launches = 0;
  std::size_t near = 0;
  for (const json& c : cases) {
    const std::string name = c.at("model"), words = c.at("options");
    INFO(name, " ", words);
    const model::ModelSpec model =
        model::parse_config(document.at("models").at(name).dump(), file, name);
    const profile::Profile p = advise::plan(model, resolve_options(options_of(words)), false);
    const profile::Memory& m = p.memory;
    const std::int64_t allocated = c.at("peak_allocated"), reserved = c.at("peak_reserved");
    CHECK(relative(m.peak_allocated, allocated) <= bounds.allocated);
    CHECK(relative(m.peak_reserved, reserved) <= bounds.reserved);
    near += relative(m.peak_reserved, reserved) <= 0.02 ? 1 : 0;
    worst_allocated = std::max(worst_allocated, relative(m.peak_allocated, allocated));
    worst_reserved = std::max(worst_reserved, relative(m.peak_reserved, reserved));
    if (c.contains("launches")) {
      const auto& planned = p.kernels.launches;
      const double off = relative(std::accumulate(planned.begin(), planned.end(), std::int64_t{0}),
                                  counted_launches(c.at("launches")));
      const bool on_deepspeed = words.find("--framework") != std::string::npos &&
                                words.find("--shard zero") != std::string::npos;
      CHECK(off <= (on_deepspeed ? 0.09 : bounds.launches));
      if (!on_deepspeed) worst_launches = std::max(worst_launches, off);
    }
    if (!c.contains("peak_by_phase")) continue;  // the Trainer's own loop
    const json& phases = c.at("peak_by_phase");
    const std::int64_t forward = std::max(m.peak_by_phase[0], m.peak_by_phase[1]);
    CHECK(relative(forward, phases.at("forward")) <= std::max(bounds.allocated, bounds.forward));
    CHECK(relative(m.peak_by_phase[2], phases.at("backward")) <= bounds.allocated);
    CHECK(relative(m.peak_by_phase[4], phases.at("optimizer")) <= bounds.allocated);
  }
  CHECK(static_cast<double>(near) >= bounds.near * static_cast<double>(cases.size()));
  MESSAGE(file, ": ", cases.size(), " cases; allocated: worst ", worst_allocated * 100,
          " %; reserved: worst ", worst_reserved * 100, " %, ", near,
          " within 2 %; launches: worst ", worst_launches * 100, " %");
}

}  // namespace

TEST_CASE("training loops on the emulated device are met: allocated 0.5 %, reserved 2 % in most") {
  // Fragmentation may depend on the order of two frees: a few are further off.
  check_file("loop_peaks.json", {315, 0.005, 0.21, 0.95, 0, 0.002});
}

TEST_CASE("DeepSpeed's ZeRO 1, 2 and 3 on the emulated device are met: allocated 0.5 %") {
  // Adapters of more than 100,000 elements are gathered one by one under ZeRO 3: one step is met
  // less.
  check_file("zero_peaks.json", {181, 0.005, 0.2, 0.92, 0.006, 0.02});
}

TEST_CASE("TRL's OffloadActivations on the emulated device is met: allocated 0.3 %") {
  // 22 of the steps have adapters, within 0.3 %. Gradients of queries that came back contiguous are
  // copied once more, which is not planned.
  check_file("offload_peaks.json", {61, 0.003, 0.05, 0.94, 0.025});
}

}  // namespace ac_advisor::test
