#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/trace.hpp"
#include "trace/saturating.hpp"

namespace ac_advisor::trace {

std::int64_t Trace::kernel_count() const {
  Work total;
  for (const Slice& slice : slices) add(total, slice.work);
  add_to(total.kernels, total.graphs);
  return total.kernels;
}

const Trace& busiest(const TraceFile& file) {
  const auto kernel_ns = [](const Trace& trace) {
    Work total;
    for (const Slice& slice : trace.slices) add(total, slice.work);
    return total.kernel_ns;
  };
  const auto most =
      std::max_element(file.processes.begin(), file.processes.end(),
                       [&](const Trace& a, const Trace& b) { return kernel_ns(a) < kernel_ns(b); });
  if (most == file.processes.end() || most->kernel_count() == 0)
    throw UserError(
        file.origin +
        ": no kernel ran on a GPU in this trace; record one of a GPU: torch.profiler.profile("
        "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), ac-advisor trace -- CMD, or "
        "nsys profile --trace=cuda,nvtx");
  return *most;
}

}  // namespace ac_advisor::trace
