#include "timeline.hpp"

#include <algorithm>

namespace ac_advisor::advise {

std::string top_module(ir::ModulePath path) {
  if (path.owner == ir::Owner::reference) return "reference";
  if (path.owner == ir::Owner::no_grad) return "no_grad";
  return path.block >= 0 ? "blocks." + std::to_string(path.block) : to_string(path);
}

std::vector<profile::TimelinePoint> thin_timeline(const ir::Program& p,
                                                  const std::vector<std::int64_t>& live) {
  std::vector<profile::TimelinePoint> points;
  const std::size_t stretch = std::max<std::size_t>(1, (live.size() + 199) / 200);
  for (std::size_t begin = 0; begin < live.size(); begin += stretch) {
    const std::size_t end = std::min(live.size(), begin + stretch);
    std::size_t low = begin, high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (live[i] < live[low]) low = i;
      if (live[i] > live[high]) high = i;
    }
    for (std::size_t i : {std::min(low, high), std::max(low, high)}) {
      if (!points.empty() && points.back().op == static_cast<std::int32_t>(i)) continue;
      points.push_back(
          {static_cast<std::int32_t>(i), static_cast<std::uint8_t>(p.ops[i].phase), live[i]});
    }
  }
  return points;
}

}  // namespace ac_advisor::advise
