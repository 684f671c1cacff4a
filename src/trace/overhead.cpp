#include "trace/overhead.hpp"

#include <map>

#include "trace/kernel_kinds.hpp"

namespace ac_advisor::trace {
namespace {

enum Part { latency, arithmetic, traffic, fusion, communication, unknown, rest, part_count };

struct PartText {
  const char* name;
  const char* how;
  const char* advice;
};
constexpr PartText texts[part_count] = {
    {"launch latency", "the device idles longer: it waits for the host to launch",
     "capture the step or its blocks in CUDA graphs (torch.compile mode=\"reduce-overhead\"), fuse "
     "kernels, or raise the batch so that kernels outlast their launches"},
    {"recomputed arithmetic", "matrix products and attention that run again",
     "keep what is dear to compute and small to store: --ac selective (TorchTitan's policy keeps "
     "attention and every second matrix product), or --ac budget:SIZE for the cheapest "
     "recomputation that fits"},
    {"extra memory traffic", "element-wise kernels, reductions and copies that run again",
     "fuse norms, rotary embedding and activations (--kernels fused: Liger, Transformer Engine or "
     "torch.compile), or checkpoint fewer blocks (--ac every:K, --ac budget:SIZE)"},
    {"lost fusion", "element-wise kernels that only B has, less the fused ones that only A has",
     "compile inside the checkpoint, not around it: checkpoint(torch.compile(block)), so that the "
     "recomputation runs the compiled kernels too"},
    {"communication", "collectives that take longer, or run again",
     "keep parameters gathered through the recomputation, or prefetch the next block's all-gather"},
    {"kernels of unknown kind",
     "their names do not tell what they do, so that nothing is concluded from them", ""},
    {"not explained", "kernels that overlap more or less than before", ""},
};

using Times = std::map<std::string, double>;

/// Seconds a step, by kernel name.
Times by_name(const Trace& trace, const Side& side) {
  Times times;
  for (const KernelTotal& kernel : trace.kernels)
    if (kernel.window == side.window)
      times[kernel.name] += 1e-9 * static_cast<double>(kernel.ns) / static_cast<double>(side.steps);
  return times;
}

double copy_seconds(const Trace& trace, const Side& side) {
  double seconds = 0;
  for (const Slice& slice : trace.slices)
    if (slice.window == side.window)
      seconds +=
          1e-9 *
          (static_cast<double>(slice.work.copy_ns) + static_cast<double>(slice.work.memset_ns)) /
          static_cast<double>(side.steps);
  return seconds;
}

Part part_of(const std::string& name, bool in_both) {
  const KernelKind kind = kind_of(name);
  if (kind == KernelKind::communication) return communication;
  if (kind == KernelKind::unknown) return unknown;
  if (is_arithmetic(kind)) return arithmetic;
  return in_both ? traffic : fusion;
}

}  // namespace

std::vector<OverheadPart> split_overhead(const Trace& a_trace, const Side& a, const Trace& b_trace,
                                         const Side& b) {
  std::array<double, part_count> seconds{};
  const Times a_times = by_name(a_trace, a), b_times = by_name(b_trace, b);
  for (const auto& [name, time] : b_times) {
    const auto before = a_times.find(name);
    const bool in_both = before != a_times.end();
    seconds[part_of(name, in_both)] += time - (in_both ? before->second : 0);
  }
  for (const auto& [name, time] : a_times)
    if (!b_times.contains(name)) seconds[part_of(name, false)] -= time;
  seconds[traffic] += copy_seconds(b_trace, b) - copy_seconds(a_trace, a);
  seconds[latency] = b.idle_seconds - a.idle_seconds;
  seconds[rest] = b.seconds - a.seconds;
  for (int part = 0; part < rest; ++part) seconds[rest] -= seconds[static_cast<std::size_t>(part)];

  std::vector<OverheadPart> parts;
  for (std::size_t i = 0; i < part_count; ++i)
    parts.push_back({texts[i].name, seconds[i], texts[i].how, texts[i].advice});
  return parts;
}

}  // namespace ac_advisor::trace
