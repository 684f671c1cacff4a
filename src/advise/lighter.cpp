#include "lighter.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "passes/sharding/fsdp2_buffers.hpp"

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

/// Whether `a` keeps no more of each block than `b` at any moment: it recomputes all that `b` does,
/// or, of a stage's first n blocks, as many for every n. What a compiled block keeps is its
/// partitioner's choice.
bool recomputes_as_much(const StepConfig& a, const StepConfig& b) {
  const MemoryTechniques &x = a.memory, &y = b.memory;
  if (x == y || x.ac == AcMode::full) return true;
  if (x.ac == AcMode::every && y.ac == AcMode::every) return x.ac_arg <= y.ac_arg;
  const bool some =
      x.ac == AcMode::every || (x.ac == AcMode::selective && x.kernels != Kernels::compiled);
  return some && y.ac == AcMode::none;
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

std::vector<std::size_t> comparable_groups(const std::vector<StepConfig>& list) {
  std::vector<std::size_t> groups;
  std::map<std::array<std::int64_t, 5>, std::vector<std::pair<StepConfig, std::size_t>>> known;
  std::size_t count = 0;
  for (const StepConfig& c : list) {
    StepConfig alike = common(c);
    if (c.layout.gathers()) {
      alike.layout.shard = Sharding::fsdp2;
      alike.layout.hsdp_shards = 0;
    }
    auto& same = known[{c.layout.tp, c.layout.cp, c.layout.pp, c.layout.pp_chunks,
                        static_cast<std::int64_t>(c.layout.pp_schedule)}];
    const auto found = std::find_if(same.begin(), same.end(),
                                    [&](const auto& group) { return group.first == alike; });
    groups.push_back(found != same.end() ? found->second : count);
    if (found == same.end()) same.emplace_back(std::move(alike), count++);
  }
  return groups;
}

bool lighter_in_group(const StepConfig& a, const StepConfig& b) {
  const auto shards = [](const StepConfig& c) {
    return c.layout.gathers() ? passes::fsdp_shards(c) : 1;
  };
  // Without stages the first of several micro-batches leaves gradients beside the second.
  const bool accumulates = b.layout.pp > 1 || b.run.grad_accum > 1;
  const bool no_more = a.run.batch == b.run.batch || (a.run.batch < b.run.batch && accumulates);
  return no_more && recomputes_as_much(a, b) && shards(a) >= shards(b) && !(a == b);
}

}  // namespace ac_advisor::advise
