#include "ac_advisor/advise/category_timeline.hpp"

#include <algorithm>
#include <numeric>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "budget.hpp"
#include "planned.hpp"
#include "storage_category.hpp"

namespace ac_advisor::advise {
namespace {

/// A point per op: the walk of simulate::walk_memory, with a counter per category.
std::vector<CategoryPoint> walk(const passes::StepProgram& step, const passes::Schedule& schedule,
                                const simulate::MemoryModel& model) {
  const ir::Program& p = step.program;
  const std::vector<profile::Category> categories = storage_categories(step, schedule);
  constexpr auto workspace = static_cast<std::size_t>(profile::Category::workspace);
  std::vector<bool> alive(p.storages.size(), false);
  CategoryPoint now;
  now.bytes[workspace] = simulate::cublas_bytes(model);
  const auto change = [&](ir::StorageId id, bool begins) {
    const auto s = static_cast<std::size_t>(id);
    if (alive[s] == begins) return;
    alive[s] = begins;
    const std::int64_t bytes = simulate::storage_bytes(p, id, model);
    now.bytes[static_cast<std::size_t>(categories[s])] += begins ? bytes : -bytes;
  };
  for (ir::StorageId s : schedule.resident) change(s, true);
  for (ir::StorageId s : schedule.carried) change(s, true);
  std::vector<CategoryPoint> points;
  points.reserve(p.ops.size());
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    for (ir::ValueId v : p.outputs(op)) change(p.storage_of(v), true);
    now.op = static_cast<std::int32_t>(i);
    now.phase = static_cast<std::uint8_t>(op.phase);
    points.push_back(now);
    points.back().bytes[workspace] += simulate::scratch_bytes(p, static_cast<ir::OpId>(i), model);
    for (std::int32_t f = schedule.free_begin[i]; f < schedule.free_begin[i + 1]; ++f)
      change(schedule.freed[static_cast<std::size_t>(f)], false);
  }
  return points;
}

}  // namespace

std::int64_t CategoryPoint::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

std::vector<CategoryPoint> category_timeline(const model::ModelSpec& model,
                                             const StepConfig& config, std::size_t stretches) {
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  const Solved solved = solve(model, config, device);
  const passes::Schedule schedule = passes::make_schedule(solved.step);
  const std::vector<CategoryPoint> all =
      walk(solved.step, schedule, memory_model(solved.step, schedule, device, config));
  std::vector<CategoryPoint> thinned;
  const std::size_t stretch =
      std::max<std::size_t>(1, (all.size() + stretches - 1) / std::max<std::size_t>(1, stretches));
  const auto less = [](const CategoryPoint& a, const CategoryPoint& b) {
    return a.total() < b.total();
  };
  for (std::size_t begin = 0; begin < all.size(); begin += stretch) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to =
        all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), begin + stretch));
    const auto low = std::min_element(from, to, less), high = std::max_element(from, to, less);
    thinned.push_back(*std::min(low, high));
    if (low != high) thinned.push_back(*std::max(low, high));
  }
  return thinned;
}

}  // namespace ac_advisor::advise
