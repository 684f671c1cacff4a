#include "ac_advisor/advise/live_at_peak.hpp"

#include <algorithm>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "budget.hpp"
#include "planned.hpp"
#include "storage_category.hpp"

namespace ac_advisor::advise {

std::vector<PlannedTensor> live_at_peak(const model::ModelSpec& model, const StepConfig& config) {
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  const Solved solved = solve(model, config, device);
  const ir::Program& p = solved.step.program;
  const passes::Schedule schedule = passes::make_schedule(solved.step);
  const simulate::MemoryModel memory = memory_model(solved.step, schedule, device, config);
  const simulate::MemoryTrace trace = simulate::walk_memory(solved.step, schedule, memory);
  const std::vector<profile::Category> categories = storage_categories(solved.step, schedule);
  std::vector<ir::ValueId> first(p.storages.size(), ir::no_id);
  for (std::size_t v = p.values.size(); v-- > 0;)
    first[static_cast<std::size_t>(p.values[v].storage)] = static_cast<ir::ValueId>(v);
  std::vector<PlannedTensor> live;
  for (const ir::StorageId s : simulate::live_at(solved.step, schedule, trace.peak_op)) {
    const auto at = static_cast<std::size_t>(s);
    const ir::Value& value = p.values[static_cast<std::size_t>(first[at])];
    const bool made = value.producer != ir::no_id;
    live.push_back({{to_string(p.storage(s).module),
                     made ? ir::name_of(p, p.op(value.producer)) : "", ir::to_string(value.shape),
                     to_option(value.dtype), categories[at], simulate::storage_bytes(p, s, memory)},
                    made && p.op(value.producer).phase >= ir::Phase::backward});
  }
  const std::int64_t cublas = simulate::cublas_bytes(memory);
  const std::int64_t handles = cublas > 0 ? cublas_handles(config) : 0;
  for (std::int64_t i = 0; i < handles; ++i)
    live.push_back(
        {{"", "cuBLAS workspace", "", "", profile::Category::workspace, cublas / handles}});
  if (const std::int64_t scratch = trace.workspace_at_peak - cublas; scratch > 0)
    live.push_back({{"", "workspace", "", "", profile::Category::workspace, scratch}});
  return live;
}

}  // namespace ac_advisor::advise
