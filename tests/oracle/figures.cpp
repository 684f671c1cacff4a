#include "figures.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/ir/torch_facts.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/simulate/memory.hpp"
#include "ac_advisor/simulate/reserved.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

/// PyTorch's phases by the profile's.
struct NamedPhase {
  const char* name;
  std::size_t index;
};
constexpr std::array phases{NamedPhase{"forward", 0}, NamedPhase{"loss", 1},
                            NamedPhase{"backward", 2}, NamedPhase{"optimizer", 4}};

/// An H100's memory, or another device's.
simulate::MemoryModel memory_of(const simulate::Device& device, TorchVersion torch) {
  simulate::MemoryModel gpu;
  gpu.target.sm_count = device.sm_count;
  gpu.target.compute_capability = device.compute_capability;
  gpu.target.torch = torch;
  if (ir::facts_of(torch).keeps_cublas_workspaces)
    gpu.cublas_workspace =
        2 * device.cublas_workspace_bytes;  // of the forward's thread, of autograd's
  else
    gpu.target.cublas_workspace = device.cublas_workspace_bytes;
  return gpu;
}

std::int64_t counted_launches(const json& by_phase) {
  std::int64_t all = 0;
  for (const json& phase : by_phase)
    for (const json& activity : phase) all += activity.get<std::int64_t>();
  return all;
}

void add_launches(const json& entry, const profile::Profile& p, Figures& figures) {
  if (!entry.contains("launches")) return;
  const auto& planned = p.kernels.launches;
  figures["launches"] = {std::accumulate(planned.begin(), planned.end(), std::int64_t{0}),
                         counted_launches(entry.at("launches"))};
}

/// Of the step in which DistributedDataParallel makes its buckets anew.
std::int64_t rebuilding_peak(const model::ModelSpec& model, const StepConfig& config) {
  const passes::StepProgram step = passes::build_step(model, config);
  return simulate::walk_allocator(
             step, passes::make_schedule(step),
             memory_of(simulate::find_device(config.device.gpu), config.runtime.torch), 2, {})
      .rebuilding_peak;
}

/// Of a step of several phases, those beside the one that trains.
void add_task_phases(const json& entry, const profile::Profile& p, Figures& figures) {
  if (!entry.contains("task_phases")) return;
  for (const auto& [bound_name, counted] : entry.at("task_phases").items()) {
    const auto& name = bound_name;
    const auto planned =
        std::find_if(p.task_phases.begin(), p.task_phases.end(),
                     [&](const profile::TaskPhase& phase) { return phase.name == name; });
    const bool found = planned != p.task_phases.end();
    figures[name + " allocated"] = {found ? planned->allocated : 0, counted.at("allocated")};
    if (counted.contains("reserved"))
      figures[name + " reserved"] = {found ? planned->reserved : 0, counted.at("reserved")};
  }
}

Figures of_counters(const OracleCase& one) {
  const json& entry = one.entry;
  const model::ModelSpec model = model_of(one);
  const StepConfig config = config_of(one);
  const profile::Profile p = advise::plan(model, config, false);
  Figures figures{{"allocated", {p.memory.peak_allocated, entry.at("peak_allocated")}},
                  {"reserved", {p.memory.peak_reserved, entry.at("peak_reserved")}}};
  if (entry.contains("host_pinned"))
    figures["host pinned"] = {p.memory.host_pinned, entry.at("host_pinned")};
  if (entry.contains("trainable"))
    figures["trainable"] = {p.trainable_parameters.value_or(0), entry.at("trainable")};
  if (entry.contains("second_step_peak") && config.layout.shard == Sharding::ddp) {
    const bool in_first =
        config.run.grad_accum > 1 && !config.layout.no_sync;  // its second reduction
    figures["second step"] = {rebuilding_peak(model, config),
                              entry.at(in_first ? "first_step_peak" : "second_step_peak")};
  }
  const json by_phase = entry.value("allocated", json::object());  // none of a Trainer's step
  for (const NamedPhase& phase : phases)
    if (by_phase.value(phase.name, std::int64_t{0}) != 0)  // a stage without a loss
      figures[phase.name] = {p.memory.peak_by_phase[phase.index], by_phase.at(phase.name)};
  add_launches(entry, p, figures);
  return figures;
}

Figures of_loop(const OracleCase& one) {
  const json& entry = one.entry;
  const profile::Profile p = advise::plan(model_of(one), config_of(one), false);
  const profile::Memory& m = p.memory;
  Figures figures{{"allocated", {m.peak_allocated, entry.at("peak_allocated")}},
                  {"reserved", {m.peak_reserved, entry.at("peak_reserved")}}};
  add_launches(entry, p, figures);
  add_task_phases(entry, p, figures);
  if (!entry.contains("peak_by_phase")) return figures;  // the Trainer's own loop
  const json& counted = entry.at("peak_by_phase");
  figures["forward"] = {std::max(m.peak_by_phase[0], m.peak_by_phase[1]), counted.at("forward")};
  figures["backward"] = {m.peak_by_phase[2], counted.at("backward")};
  figures["optimizer"] = {m.peak_by_phase[4], counted.at("optimizer")};
  return figures;
}

/// By the allocator's replica, with cuBLASLt's workspaces taken off: a block that is not split
/// counts whole, as in PyTorch's counters.
Figures of_adapters(const OracleCase& one) {
  const json& entry = one.entry;
  const std::int64_t workspace = entry.at("workspace");
  const model::ModelSpec model = model_of(one);
  const StepConfig config = config_of(one);
  const passes::StepProgram step = passes::build_step(model, config);
  const simulate::MemoryModel gpu =
      memory_of(simulate::find_device("h100-80gb"), config.runtime.torch);
  std::array<std::int64_t, ir::phase_count> peaks{};
  ir::OpId last = ir::no_id;
  bool second = false;
  const std::int64_t reserved =
      simulate::walk_allocator(
          step, passes::make_schedule(step), gpu, 2, {},
          [&](const simulate::CachingAllocator& allocator, const simulate::Request& request) {
            if (last != ir::no_id &&
                request.op == ir::no_id)  // at the end: what the optimizer left
              peaks[4] = std::max(peaks[4], allocator.allocated() - workspace);
            second = second || request.op < last;
            last = request.op;
            if (!second || request.frees || request.op == ir::no_id) return;
            auto& peak = peaks[static_cast<std::size_t>(step.program.op(request.op).phase)];
            peak = std::max(peak, allocator.allocated() - workspace);
          })
          .peak_reserved;
  std::int64_t trainable = 0;
  for (const passes::Parameter& parameter : step.parameters)
    if (parameter.trained) trainable += step.program.value(parameter.value).shape.numel();
  const std::int64_t forward = std::max(peaks[0], peaks[1]),
                     backward = std::max(peaks[2], peaks[3]);
  const auto counted = [&](const char* name) {
    return entry.at(name).get<std::int64_t>() - workspace;
  };
  return {{"allocated", {std::max({forward, backward, peaks[4]}), counted("allocated")}},
          {"forward", {forward, counted("forward")}},
          {"backward", {backward, counted("backward")}},
          {"optimizer", {peaks[4], counted("optimizer")}},
          {"reserved", {reserved, entry.at("reserved")}},
          {"trainable", {trainable, entry.at("trainable")}},
          {"parameters", {model::parameter_count(model) + trainable, entry.at("parameters")}}};
}

/// The sum of all that lives, as a dispatch mode saw it: without workspaces.
Figures of_storages(const OracleCase& one) {
  const json& entry = one.entry;
  const passes::StepProgram step = passes::build_step(model_of(one), config_of(one));
  simulate::MemoryModel model;
  model.round_to_512 = one.under_dispatch_mode;
  model.workspaces = false;
  const simulate::MemoryTrace trace =
      simulate::walk_memory(step, passes::make_schedule(step), model);
  Figures figures{{"allocated", {trace.peak, entry.at("peak_bytes")}}};
  for (const NamedPhase& phase : phases)
    figures[phase.name] = {trace.peak_by_phase[phase.index],
                           entry.at(std::string("peak_") + phase.name)};
  if (!entry.contains("kernels_fwd")) return figures;
  Figure& launches = figures["launches"];  // dispatches of forward and backward
  launches.counted =
      entry.at("kernels_fwd").get<std::int64_t>() + entry.at("kernels_bwd").get<std::int64_t>();
  for (const ir::Op& op : step.program.ops)
    if (op.phase != ir::Phase::optimizer) launches.planned += ir::dispatches(op);
  return figures;
}

}  // namespace

Figures figures_of(const OracleCase& one) {
  switch (one.form) {
    case CaseForm::counters:
      return of_counters(one);
    case CaseForm::loop:
      return of_loop(one);
    case CaseForm::adapters:
      return of_adapters(one);
    case CaseForm::storages:
      return of_storages(one);
  }
  return {};
}

}  // namespace ac_advisor::test
