#include "zero_partition.hpp"

#include <algorithm>

namespace ac_advisor::passes {

ZeroPartition::ZeroPartition(const StepProgram& step, std::int64_t world) : starts_{0} {
  for (const Parameter& parameter : step.parameters)
    starts_.push_back(starts_.back() +
                      (parameter.trained ? step.program.value(parameter.value).shape.numel() : 0));
  const std::int64_t alignment = 2 * world;  // nccl_start_alignment_factor
  elements_ = (starts_.back() + alignment - 1) / alignment * 2;
  std::vector<std::int64_t> kept(static_cast<std::size_t>(world), 0);
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    for (const ZeroRun& run : runs(i))
      kept[static_cast<std::size_t>(run.rank)] += starts_[i + 1] - starts_[i];
  rank_ = std::max_element(kept.begin(), kept.end()) - kept.begin();
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    for (const ZeroRun& run : runs(i)) {
      if (run.rank != rank_) continue;
      pieces_.push_back({i, run.elements, starts_[i + 1] - starts_[i], kept_elements_});
      kept_elements_ += pieces_.back().whole;
    }
  kept_elements_ = std::max(kept_elements_, elements_);  // the last one's padding
}

std::vector<ZeroRun> ZeroPartition::runs(std::size_t parameter) const {
  std::vector<ZeroRun> found;
  const std::int64_t end = starts_[parameter + 1];
  for (std::int64_t start = starts_[parameter]; start < end;) {
    const std::int64_t rank = start / elements_, until = std::min(end, (rank + 1) * elements_);
    found.push_back({rank, until - start});
    start = until;
  }
  return found;
}

}  // namespace ac_advisor::passes
