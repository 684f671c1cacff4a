#include "lighter.hpp"

namespace ac_advisor::advise {
namespace {

/// What two configurations have to have in common to be compared.
StepConfig common(StepConfig c) {
  c.run.batch = c.run.grad_accum = 1;
  c.memory.ac = AcMode::none;
  c.memory.ac_arg = 0;
  return c;
}

/// A smaller micro-batch, or more recomputed, or both.
bool lighter_than(const StepConfig& a, const StepConfig& b) {
  const bool more_recomputed = a.memory.ac == AcMode::full && b.memory.ac != AcMode::full;
  if (a.run.batch == b.run.batch) return more_recomputed;
  return a.run.batch < b.run.batch && (more_recomputed || a.memory == b.memory);
}

}  // namespace

std::vector<std::vector<std::size_t>> lighter_pipelines(const std::vector<StepConfig>& list) {
  std::vector<std::vector<std::size_t>> lighter(list.size());
  std::vector<StepConfig> alike;
  std::vector<std::size_t> pipelines;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].layout.pp > 1) {
      pipelines.push_back(i);
      alike.push_back(common(list[i]));
    }
  for (std::size_t a = 0; a < pipelines.size(); ++a)
    for (std::size_t b = 0; b < pipelines.size(); ++b)
      if (lighter_than(list[pipelines[a]], list[pipelines[b]]) && alike[a] == alike[b])
        lighter[pipelines[b]].push_back(pipelines[a]);
  return lighter;
}

}  // namespace ac_advisor::advise
