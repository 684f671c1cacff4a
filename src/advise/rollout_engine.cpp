// vLLM's gpu_memory_utilization is of all that the device has: weights, blocks of keys and values
// and what its own forward needs. What it keeps asleep was measured by others
// (data/engines/vllm.json).
#include "rollout_engine.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "ac_advisor/model/layers.hpp"
#include "embedded/embedded.hpp"

namespace ac_advisor::advise {
namespace {

/// By ranks that share the engine's layers, fewest first.
const std::vector<std::pair<std::int64_t, std::int64_t>>& asleep_by_ranks() {
  static const auto figures = [] {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (const embedded::File& file : embedded::files()) {
      if (file.path != "engines/vllm.json") continue;
      const nlohmann::json json = nlohmann::json::parse(file.text);
      for (const nlohmann::json& row : json.at("asleep"))
        all.emplace_back(row.at("tensor_parallel").get<std::int64_t>(),
                         row.at("bytes").get<std::int64_t>());
    }
    return all;
  }();
  return figures;
}

}  // namespace

RolloutEngine rollout_engine(const StepConfig& config, const simulate::Device& device) {
  const TaskChoice& task = config.task;
  RolloutEngine engine;
  if (task.rollout != Rollout::vllm) return engine;
  engine.awake =
      static_cast<std::int64_t>(static_cast<double>(device.usable_bytes) * task.engine_share);
  engine.asleep = engine.awake;
  if (task.engine_sleep == 0) return engine;
  for (const auto& [ranks, bytes] : asleep_by_ranks())
    if (ranks <= task.engine_ranks) engine.asleep = std::min(engine.awake, bytes);
  return engine;
}

std::int64_t engine_weights(const model::ModelSpec& model, const StepConfig& config) {
  return model::parameter_count(model) * size_of(DType::bf16) / config.task.engine_ranks;
}

}  // namespace ac_advisor::advise
