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
  Json out = {{"command", e.command},
              {"rank", e.rank},
              {"world", e.world},
              {"device_total_bytes", e.device_total},
              {"device_context_bytes", e.device_context},
              {"device_peak_bytes", e.device_peak},
              {"copied_to_host_bytes", e.copied_to_host},
              {"copied_from_host_bytes", e.copied_from_host},
              {"copied_on_device_bytes", e.copied_on_device}};
  out["kernels"] = Json::array();
  for (const KernelCount& k : e.kernels)
    out["kernels"].push_back({{"name", k.name}, {"launches", told(k.launches)}});
  if (e.out_of_memory)
    out["out_of_memory"] = {{"requested_bytes", e.out_of_memory->requested},
                            {"allocated_bytes", e.out_of_memory->allocated},
                            {"reserved_bytes", e.out_of_memory->reserved},
                            {"device_free_bytes", e.out_of_memory->device_free},
                            {"phase", e.out_of_memory->phase},
                            {"step", e.out_of_memory->step}};
  return out;
}

void read_steps(const Reader& reader, std::vector<EmulatedStep>& steps) {
  for (const Json& item : reader.list()) {
    const Reader step = reader.item(item);
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
  r.at("command") >> e.command;
  r.at("rank") >> e.rank;
  r.at("world") >> e.world;
  r.at("device_total_bytes") >> e.device_total;
  r.at("device_context_bytes") >> e.device_context;
  r.at("device_peak_bytes") >> e.device_peak;
  r.at("copied_to_host_bytes") >> e.copied_to_host;
  r.at("copied_from_host_bytes") >> e.copied_from_host;
  r.at("copied_on_device_bytes") >> e.copied_on_device;
  const Reader kernels = r.at("kernels");
  for (const Json& item : kernels.list()) {
    const Reader kernel = kernels.item(item);
    KernelCount& k = e.kernels.emplace_back();
    kernel.at("name") >> k.name;
    read_told(kernel.at("launches"), k.launches);
  }
  if (!r.json().contains("out_of_memory")) return;
  const Reader refused = r.at("out_of_memory");
  OutOfMemory& o = e.out_of_memory.emplace();
  refused.at("requested_bytes") >> o.requested;
  refused.at("allocated_bytes") >> o.allocated;
  refused.at("reserved_bytes") >> o.reserved;
  refused.at("device_free_bytes") >> o.device_free;
  refused.at("phase") >> o.phase;
  refused.at("step") >> o.step;
}

}  // namespace ac_advisor::profile
