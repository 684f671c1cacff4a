// Real PyTorch steps on an emulated device with less memory than they reserve (limit_peaks.py,
// limit_drawn_peaks.py) against the walk of the same step with that limit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/simulate/reserved.hpp"
#include "advise/planned.hpp"
#include "cases.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

/// How the walk of a step ends within a limit.
struct Ended {
  std::optional<std::size_t> out_of_memory;  ///< in this step
  std::vector<std::int64_t> retries;         ///< of each step that was done
};

Ended walked(const passes::StepProgram& step, const StepConfig& config, std::int64_t limit) {
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  const simulate::AllocatorWalk walk = simulate::walk_allocator(
      step, passes::make_schedule(step), advise::memory_model(device, config),
      advise::cublas_handles(config), {config.runtime.expandable_segments, limit});
  Ended ended;
  for (const simulate::AllocatorStep& s : walk.steps) ended.retries.push_back(s.retries);
  if (walk.refused) ended.out_of_memory = walk.refused->step;
  return ended;
}

Ended counted(const json& limit) {
  Ended ended;
  ended.retries = limit.at("retries").get<std::vector<std::int64_t>>();
  if (!limit.at("out_of_memory").is_null())
    ended.out_of_memory = limit.at("out_of_memory").get<std::size_t>();
  return ended;
}

std::string text(const Ended& e) {
  std::string words = e.out_of_memory ? "out of memory in step " + std::to_string(*e.out_of_memory)
                                      : std::string("runs");
  for (const std::int64_t n : e.retries) words += " " + std::to_string(n);
  return words;
}

/// The walk ends once steps are alike, and goes on as in its last: of as many as PyTorch did.
bool same_retries(const Ended& walk, const Ended& pytorch) {
  if (pytorch.out_of_memory) return walk.retries == pytorch.retries;
  for (std::size_t i = 0; i < pytorch.retries.size(); ++i)
    if (walk.retries.empty() ||
        walk.retries[std::min(i, walk.retries.size() - 1)] != pytorch.retries[i])
      return false;
  return true;
}

std::vector<OracleCase> steps_at_their_limits() {
  std::vector<OracleCase> all = read_oracle("limit_peaks.json");
  for (OracleCase& one : read_oracle("limit_drawn_peaks.json")) all.push_back(std::move(one));
  return all;
}

std::string differences_file() {
  return std::string(source_dir) + "/tests/oracle/limit_differences.json";
}

}  // namespace

TEST_CASE("within a device's memory the walk is out of memory, and releases, where PyTorch does") {
  // Those that are known to differ: the file names each, another one fails, one that no longer does
  // leaves it (AC_ADVISOR_UPDATE_ORACLE=1).
  json differences = json::object();
  std::size_t limits = 0, ends = 0, retries = 0;
  for (const OracleCase& one : steps_at_their_limits()) {
    const StepConfig config = config_of(one);
    const passes::StepProgram built = passes::build_step(model_of(one), config);
    for (const json& limit : one.entry.at("limits")) {
      const Ended pytorch = counted(limit),
                  walk = walked(built, config, limit.at("limit").get<std::int64_t>());
      ++limits;
      const bool same_end = pytorch.out_of_memory.has_value() == walk.out_of_memory.has_value();
      const bool same = same_end && same_retries(walk, pytorch);
      ends += same_end ? 1 : 0;
      retries += same ? 1 : 0;
      if (!same)
        differences[one.label + " within " + limit.at("limit").dump()] = {
            {"walk", text(walk)}, {"pytorch", text(pytorch)}};
    }
  }
  MESSAGE(limits, " limits: ", ends, " end alike, ", retries, " with as many retries in each step");
  if (std::getenv("AC_ADVISOR_UPDATE_ORACLE") != nullptr)
    std::ofstream(differences_file()) << differences.dump(1) << '\n';
  CHECK(limits >= 220);
  CHECK(differences.dump(1) == json::parse(std::ifstream(differences_file())).dump(1));
}

}  // namespace ac_advisor::test
