#include <algorithm>
#include <array>

#include "ac_advisor/trace/diagnose.hpp"

namespace ac_advisor::trace {
namespace {

struct DeviceName {
  std::string_view all_of[2];
  const char* name;
};

// As cudaDeviceProp.name and nvidia-smi spell them.
constexpr DeviceName device_names[] = {
    {{"H100", "80GB HBM3"}, "h100-80gb"},
    {{"H100", "PCIe"}, "h100-pcie"},
    {{"H100", "NVL"}, "h100-nvl"},
    {{"H200", ""}, "h200"},
    {{"H20", ""}, "h20"},  // after the H200
    {{"A100", "80GB"}, "a100-80gb"},
    {{"A100", "40GB"}, "a100-40gb"},
    {{"B200", ""}, "b200"},
    {{"L40S", ""}, "l40s"},
    {{"L40", ""}, "l40"},  // after the L40S
    {{"A10G", ""}, "a10g"},
    {{"V100", "32GB"}, "v100-32gb"},
    {{"V100", "16GB"}, "v100-16gb"},
    {{"RTX 4090", ""}, "rtx-4090"},
    {{"RTX 5090", ""}, "rtx-5090"},
    {{"RTX PRO 6000", ""}, "rtx-pro-6000"},
    {{"MI325X", ""}, "mi325x"},
    {{"MI355X", ""}, "mi355x"},
};

/// The window whose totals are a step's, and how many steps it has.
void choose_window(const Steps& steps, Side& side) {
  side.steps_known = true;
  if (steps.later > 0) {
    side.window = Window::later_steps;
    side.steps = steps.later;
  } else if (steps.first > 0) {
    side.window = Window::first_step;
    side.steps = 1;
  } else {
    side.window = Window::outside;
    side.steps_known = steps.optimizer > 0;
    side.steps = std::max<std::int64_t>(steps.optimizer, 1);
  }
}

}  // namespace

std::optional<std::string> known_device(const std::string& driver_name) {
  for (const DeviceName& device : device_names)
    if (std::all_of(std::begin(device.all_of), std::end(device.all_of), [&](std::string_view part) {
          return driver_name.find(part) != std::string::npos;
        }))
      return device.name;
  return std::nullopt;
}

Side summarize(const TraceFile& file) {
  const Trace& trace = busiest(file);
  Side side;
  side.origin = file.origin;
  side.source = trace.source;
  if (!trace.devices.empty()) side.device = trace.devices.front().name;
  side.processes = static_cast<std::int64_t>(file.processes.size());
  side.memory = trace.memory;
  choose_window(trace.steps, side);
  const auto per_step = [&](std::int64_t total) {
    return static_cast<double>(total) / static_cast<double>(side.steps);
  };
  for (const Slice& slice : trace.slices) {
    if (slice.window != side.window) continue;
    const auto phase = static_cast<std::size_t>(slice.phase);
    side.kernels[phase] += per_step(slice.work.kernels);
    side.graphs[phase] += per_step(slice.work.graphs);
    side.launches[phase] += per_step(slice.work.launches);
    side.kernel_seconds[phase] += 1e-9 * per_step(slice.work.kernel_ns);
    side.busy_seconds += 1e-9 * per_step(slice.work.busy_ns);
    side.idle_seconds += 1e-9 * per_step(slice.work.idle_ns);
  }
  side.seconds = side.busy_seconds + side.idle_seconds;
  return side;
}

}  // namespace ac_advisor::trace
