#include "zero_partition.hpp"

#include <algorithm>
#include <map>

namespace ac_advisor::passes {
namespace {

std::int64_t elements_of(const StepProgram& step, std::size_t parameter) {
  return step.program.value(step.parameters[parameter].value).shape.numel();
}

}  // namespace

std::vector<ZeroRun> runs_of(const StepProgram& step, std::size_t parameter,
                             std::int64_t partition) {
  std::int64_t start = 0;
  for (std::size_t i = 0; i < parameter; ++i) start += elements_of(step, i);
  const std::int64_t end = start + elements_of(step, parameter);
  std::vector<ZeroRun> runs;
  while (start < end) {
    const std::int64_t rank = start / partition, until = std::min(end, (rank + 1) * partition);
    runs.push_back({rank, until - start});
    start = until;
  }
  return runs;
}

ZeroPartition zero_partition(const StepProgram& step, std::int64_t world) {
  std::int64_t all = 0;
  for (std::size_t i = 0; i < step.parameters.size(); ++i) all += elements_of(step, i);
  const std::int64_t alignment = 2 * world;  // nccl_start_alignment_factor
  const std::int64_t size = (all + alignment - 1) / alignment * 2;
  std::map<std::int64_t, ZeroPartition> ranks;
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    for (const ZeroRun& run : runs_of(step, i, size)) {
      ZeroPartition& one = ranks[run.rank];
      one.rank = run.rank;
      one.elements = size;
      one.pieces.push_back({i, run.elements, elements_of(step, i), one.kept_elements});
      one.kept_elements += elements_of(step, i);
    }
  const auto most = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.second.kept_elements < b.second.kept_elements;
  });
  ZeroPartition found = most->second;
  found.kept_elements = std::max(found.kept_elements, size);  // the last one's padding
  return found;
}

}  // namespace ac_advisor::passes
