#include "emulation_json.hpp"

namespace ac_advisor::profile {
namespace {

/// The phases that a program's calls tell apart: the loss is part of the forward, what is computed
/// again of the backward.
constexpr std::size_t told_phases[] = {0, 2, 4};

Json told(const std::array<std::int64_t, 5>& values) {
  Json out = Json::object();
  for (const std::size_t i : told_phases) out[phase_names[i]] = values[i];
  return out;
}

void read_told(const Reader& reader, std::array<std::int64_t, 5>& values) {
  for (const std::size_t i : told_phases) reader.at(phase_names[i]) >> values[i];
}

template <typename Figures, typename Io>
void visit_emulation(Figures& e, const Io& io) {
  io("command", e.command);
  io("rank", e.rank);
  io("world", e.world);
  io("device_total_bytes", e.device_total);
  io("device_context_bytes", e.device_context);
  io("device_peak_bytes", e.device_peak);
  io("copied_to_host_bytes", e.copied_to_host);
  io("copied_from_host_bytes", e.copied_from_host);
  io("copied_on_device_bytes", e.copied_on_device);
}

template <typename Refused, typename Io>
void visit_out_of_memory(Refused& o, const Io& io) {
  io("requested_bytes", o.requested);
  io("allocated_bytes", o.allocated);
  io("reserved_bytes", o.reserved);
  io("device_free_bytes", o.device_free);
  io("phase", o.phase);
  io("step", o.step);
}

}  // namespace

Json steps_json(const std::vector<EmulatedStep>& steps) {
  Json out = Json::array();
  for (const EmulatedStep& s : steps)
    out.push_back({{"index", s.index},
                   {"peak_allocated_bytes", s.peak_allocated},
                   {"peak_reserved_bytes", s.peak_reserved},
                   {"peak_by_phase", told(s.peak_by_phase)},
                   {"launches", told(s.launches)},
                   {"host_copies", s.host_copies},
                   {"host_copy_bytes", s.host_copy_bytes}});
  return out;
}

Json emulation_json(const Emulation& e) {
  Json out;
  visit_emulation(e, Writing{out});
  out["kernels"] = Json::array();
  for (const KernelCount& k : e.kernels)
    out["kernels"].push_back({{"name", k.name}, {"launches", told(k.launches)}});
  if (e.out_of_memory) visit_out_of_memory(*e.out_of_memory, Writing{out["out_of_memory"]});
  return out;
}

void read_steps(const Reader& reader, std::vector<EmulatedStep>& steps) {
  for (const Reader& step : reader.list()) {
    EmulatedStep& s = steps.emplace_back();
    step.at("index") >> s.index;
    step.at("peak_allocated_bytes") >> s.peak_allocated;
    step.at("peak_reserved_bytes") >> s.peak_reserved;
    read_told(step.at("peak_by_phase"), s.peak_by_phase);
    read_told(step.at("launches"), s.launches);
    step.at("host_copies") >> s.host_copies;
    step.at("host_copy_bytes") >> s.host_copy_bytes;
  }
}

void read_emulation(const Reader& r, Emulation& e) {
  visit_emulation(e, Reading{r});
  for (const Reader& kernel : r.at("kernels").list()) {
    KernelCount& k = e.kernels.emplace_back();
    kernel.at("name") >> k.name;
    read_told(kernel.at("launches"), k.launches);
  }
  if (r.has("out_of_memory"))
    visit_out_of_memory(e.out_of_memory.emplace(), Reading{r.at("out_of_memory")});
}

}  // namespace ac_advisor::profile
