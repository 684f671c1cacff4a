// What --ac budget: chooses for each compiled block, beside the steps that PyTorch ran with it.
#include <doctest/doctest.h>

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "advise/budget.hpp"
#include "cases.hpp"

namespace ac_advisor::test {

TEST_CASE("budget: chooses the modes of compiled blocks that PyTorch's steps were run with") {
  int chosen = 0;
  for (const OracleCase& one : read_oracle("compile_peaks.json")) {
    const nlohmann::json& step = one.entry.at("case");
    if (!step.contains("block_modes")) continue;
    INFO(one.label);
    profile::Profile saved;
    const StepConfig config = config_of(one);
    saved.config =
        advise::solve(model_of(one), config, simulate::find_device(config.device.gpu)).settled;
    CHECK(nlohmann::json::parse(profile::to_json(saved)).at("config").at("block_modes") ==
          step.at("block_modes"));
    ++chosen;
  }
  CHECK(chosen >= 4);
}

}  // namespace ac_advisor::test
