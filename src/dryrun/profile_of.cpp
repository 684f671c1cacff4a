#include <algorithm>
#include <iterator>
#include <map>

#include "ac_advisor/dryrun/dryrun.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/version.hpp"

namespace ac_advisor::dryrun {
namespace {

constexpr std::size_t forward = 0, backward = 2, optimizer = 4;
constexpr std::int64_t steady = 1;  ///< the step that a profile is of: optimizer states exist
constexpr std::string_view tested_torch[] = {"2.11.", "2.15.", "2.10."};

std::size_t phase_of(const std::string& segment) {
  if (segment == "backward") return backward;
  return segment == "optimizer" ? optimizer : forward;
}

std::vector<profile::KernelCount> kernels_of(const Record& r, std::int64_t step) {
  std::map<std::string, profile::KernelCount> by_name;
  for (const Record::Kernel& k : r.step_kernels) {
    if (k.step != step) continue;
    profile::KernelCount& count = by_name[k.name];
    count.name = k.name;
    count.launches[phase_of(k.segment)] += k.times;
  }
  std::vector<profile::KernelCount> list;
  for (auto& [name, count] : by_name) list.push_back(std::move(count));
  const auto total = [](const profile::KernelCount& k) {
    return k.launches[forward] + k.launches[backward] + k.launches[optimizer];
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](const auto& a, const auto& b) { return total(a) > total(b); });
  return list;
}

std::int64_t bytes_of(const Record& r, const char* activity) {
  std::int64_t sum = 0;
  for (const Record::Activity& a : r.activities)
    if (a.activity == activity) sum += a.bytes;
  return sum;
}

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

/// What no emulated device knows.
void set_unknown(profile::Profile& p) {
  const std::string program = "a program is run, not a model described";
  for (const char* field : {"model", "parameters", "config"}) p.absent[field] = program;
  for (const char* field :
       {"memory.at_peak", "memory.at_peak_by_module", "memory.largest", "memory.peak_op",
        "memory.peak_module", "memory.peak_step", "memory.timeline", "memory.resident_bytes",
        "memory.peak_excluding_workspace_bytes", "memory.peak_by_phase_excluding_workspace"})
    p.absent[field] = "the allocator's counters do not tell what a block is for";
  for (const char* field : {"memory.peak_by_phase.", "kernels.launches."}) {
    p.absent[field + std::string("loss")] = "part of the forward, as the program's calls go";
    p.absent[field + std::string("recompute")] = "part of the backward, as the program's calls go";
  }
  for (const char* field : {"kernels.dispatches", "kernels.flops", "kernels.bytes"})
    p.absent[field] = "launches are counted, not what they compute";
  p.absent["time"] = "kernels do not run on an emulated device";
}

/// Nothing of the caching allocator is known: these replace the reasons for its single fields.
void set_without_allocator(profile::Profile& p, const std::string& reason) {
  for (auto it = p.absent.begin(); it != p.absent.end();)
    it = it->first.rfind("memory.peak_by_phase.", 0) == 0 ? p.absent.erase(it) : std::next(it);
  for (const char* field :
       {"memory.peak_allocated_bytes", "memory.peak_reserved_bytes", "memory.first_step_peak_bytes",
        "memory.peak_phase", "memory.peak_by_phase"})
    p.absent[field] = reason;
}

void set_without_steps(profile::Profile& p, const std::string& reason) {
  for (auto it = p.absent.begin(); it != p.absent.end();) {
    const bool part = it->first.rfind("memory.peak_by_phase.", 0) == 0 ||
                      it->first.rfind("kernels.launches.", 0) == 0;
    it = part ? p.absent.erase(it) : std::next(it);
  }
  for (const char* field :
       {"memory.first_step_peak_bytes", "memory.peak_by_phase", "kernels.launches"})
    p.absent[field] = reason;
}

void set_allocator(profile::Profile& p, const Record& r) {
  const auto most = std::max_element(
      r.allocators.begin(), r.allocators.end(),
      [](const auto& a, const auto& b) { return a.peak_allocated < b.peak_allocated; });
  p.memory.peak_allocated = most->peak_allocated;
  p.memory.peak_reserved = most->peak_reserved;
  p.memory.peak_phase = most->peak_phase.empty() ? "set-up" : most->peak_phase;
}

void set_steps(profile::Profile& p, const Record& r) {
  const profile::EmulatedStep& step = r.steps.size() > steady ? r.steps[steady] : r.steps.front();
  p.memory.first_step_peak = r.steps.front().peak_allocated;
  p.memory.peak_by_phase = step.peak_by_phase;
  p.kernels.launches = step.launches;
  p.emulation->steps = r.steps;
  p.emulation->kernels = kernels_of(r, step.index);
  if (r.steps.size() == 1)
    p.warnings.emplace_back(
        "the program made one step: its figures are of the first, whose forward has what came "
        "before it, and which begins without optimizer states");
}

void set_version(profile::Profile& p, const Record& r) {
  if (r.torch_version.empty()) return;
  p.assumptions.push_back("PyTorch " + r.torch_version);
  const bool tested = std::any_of(std::begin(tested_torch), std::end(tested_torch),
                                  [&](auto of) { return r.torch_version.rfind(of, 0) == 0; });
  if (!tested)
    p.warnings.push_back("PyTorch " + r.torch_version +
                         " is untested on the emulated device, which was made for 2.11 and "
                         "2.15, and ran 2.10 for CUDA 12");
}

/// Which figures are until when, where the process or the program did not reach its end.
void set_ending(profile::Profile& p, const Run& run, const Record& r) {
  const std::string program =
      run.exit_code != 0 ? "the program ended with " + run.ended : std::string();
  if (!r.ended)
    p.warnings.push_back((program.empty() ? "process " + std::to_string(r.pid) +
                                                " was killed or became another program"
                                          : program) +
                         ": PyTorch's figures are until its last change of phase");
  else if (!program.empty())
    p.warnings.push_back(program + ": figures are until then");
}

}  // namespace

const Record& record_of(const Run& run, const Request& request) {
  const auto better = [&](const Record& a, const Record& b) {
    const bool a_is = a.rank == request.rank, b_is = b.rank == request.rank;
    return a_is != b_is ? b_is : a.peak() < b.peak();
  };
  return *std::max_element(run.records.begin(), run.records.end(), better);
}

profile::Profile profile_of(const Run& run, const Request& request) {
  const Record& r = record_of(run, request);
  profile::Profile p;
  p.source = "emulated";
  p.tool_version = version;
  p.device_name = simulate::find_device(request.gpu).name;
  set_unknown(p);
  profile::Emulation& e = p.emulation.emplace();
  e.command = joined(request.command);
  e.rank = r.rank;
  e.world = request.world;
  for (const Record::Device& d : r.devices) {
    e.device_total = d.total;
    e.device_context = d.context;
    e.device_peak = std::max(e.device_peak, d.peak + d.context);
  }
  e.copied_to_host = bytes_of(r, "copy_to_host");
  e.copied_from_host = bytes_of(r, "copy_from_host");
  e.copied_on_device = bytes_of(r, "copy_on_device");
  e.out_of_memory = r.out_of_memory;

  const std::string without = r.torch_version.empty()
                                  ? "the program does not use PyTorch, or its hooks were not loaded"
                              : r.ended ? "PyTorch's caching allocator was not used on a device"
                                        : "the process ended before PyTorch's counters were told";
  if (r.allocators.empty())
    set_without_allocator(p, without);
  else
    set_allocator(p, r);
  if (r.steps.empty())
    set_without_steps(p, r.torch_version.empty() ? without : "the program made no optimizer step");
  else
    set_steps(p, r);

  p.fit.required = e.device_peak;
  p.fit.usable = e.device_total;
  p.fit.context = e.device_context;
  p.fit.fits = !r.out_of_memory && std::all_of(r.devices.begin(), r.devices.end(),
                                               [](const auto& d) { return d.failures == 0; });
  if (!p.fit.fits && !r.out_of_memory && !r.allocators.empty())
    p.fit.fits = true;  // the caching allocator gave back what it held and got it
  p.assumptions.insert(p.assumptions.end(), r.notes.begin(), r.notes.end());
  if (run.records.size() > 1)
    p.assumptions.push_back(std::to_string(run.records.size()) +
                            " processes used the device; this is rank " + std::to_string(r.rank) +
                            "'s, or the one that used most");
  set_version(p, r);
  set_ending(p, run, r);
  return p;
}

}  // namespace ac_advisor::dryrun
