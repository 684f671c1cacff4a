#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/ir/torch_facts.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/simulate/reserved.hpp"
#include "passes/optimizer/ops.hpp"
#include "planned.hpp"
#include "room.hpp"
#include "simulate/graph_pool.hpp"
#include "storage_category.hpp"
#include "timeline.hpp"

namespace ac_advisor::advise {

using profile::Category;

std::int64_t cublas_handles(const StepConfig& config) {
  return config.runtime.kind == Runtime::pytorch ? 2 : 1;
}

simulate::MemoryModel memory_model(const simulate::Device& device, const StepConfig& config) {
  simulate::MemoryModel model;
  model.round_to_512 = device.cuda;
  std::int64_t of_handle = device.cublas_workspace_bytes;
  if (!config.runtime.cublas_workspace.empty())
    of_handle = cublas_workspace_bytes(config.runtime.cublas_workspace).value_or(of_handle);
  const bool keeps = ir::facts_of(config.runtime.torch).keeps_cublas_workspaces ||
                     config.runtime.kind != Runtime::pytorch;
  if (!device.cuda) of_handle = 0;
  model.cublas_workspace = keeps ? cublas_handles(config) * of_handle : 0;
  model.copies_masters = config.optimizer.master_weights;
  // OffloadActivations.__enter__ (TRL 1.16, not torchtune's) where bitsandbytes is imported, as
  // PEFT does where it is installed
  model.empties_cache =
      config.memory.offload == Offload::activations && config.runtime.framework != "torchtune";
  model.target = {device.cuda,
                  device.sm_count,
                  device.compute_capability,
                  config.device.threads,
                  config.runtime.kind == Runtime::ac_trainer,
                  config.run.transformer_impl == TransformerImpl::transformer_engine,
                  config.runtime.deterministic,
                  config.runtime.torch,
                  keeps ? 0 : of_handle};
  return model;
}

namespace {

/// What torch.compile's CUDA graphs hold; null without any. The trainer's are another matter.
std::shared_ptr<const simulate::GraphPool> recorded(const passes::StepProgram& step,
                                                    const StepConfig& config) {
  if (config.memory.kernels != Kernels::compiled || config.runtime.cuda_graph == CudaGraph::off)
    return nullptr;
  return std::make_shared<simulate::GraphPool>(simulate::graph_pool(step.program));
}

}  // namespace

simulate::MemoryModel memory_model(const passes::StepProgram& step,
                                   const passes::Schedule& schedule, const simulate::Device& device,
                                   const StepConfig& config) {
  simulate::MemoryModel model = memory_model(device, config);
  model.pool = recorded(step, config);
  model.blocks = simulate::walk_allocator(step, schedule, model, cublas_handles(config),
                                          {config.runtime.expandable_segments, 0})
                     .blocks;
  return model;
}

namespace {

/// What the largest micro-batch copies to the host, and what a plan with copies does not have.
std::int64_t pinned_bytes(const passes::StepProgram& step, const StepConfig& config,
                          std::vector<std::string>& assumptions) {
  const ir::Program& p = step.program;
  std::int64_t largest = 0, sum = 0;
  std::size_t micro = 0;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    if (micro < step.micro_begin.size() && static_cast<std::size_t>(step.micro_begin[micro]) == i) {
      sum = 0;
      ++micro;
    }
    if (p.ops[i].kind != ir::OpKind::copy_to_host) continue;
    sum += p.bytes(p.input(p.ops[i], 0));
    largest = std::max(largest, sum);
  }
  if (largest > 0 && config.runtime.kind == Runtime::ac_trainer)
    assumptions.push_back(
        "--offload activations: on a CPU memory that is counted apart stands for pinned memory, "
        "and what is copied there is gone from the device");
  else if (largest > 0)
    assumptions.push_back(fmt::format(
        "--offload activations: {:.3f} GiB go to pinned host memory in forward and come back in "
        "backward, but for the last few; the copies' time is an estimate from the device file's "
        "rate to the host, alone on it, and PyTorch's host allocator may round each tensor up{}",
        static_cast<double>(largest) / (1 << 30),
        config.runtime.framework == "torchtune" ? ""
                                                : "; the cache is emptied before each forward, as "
                                                  "TRL does where bitsandbytes is there"));
  return largest;
}

/// CachingHostAllocator (aten/src/ATen/core/CachingHostAllocator.h, v2.11): a block is as long as
/// the next power of two.
std::int64_t pinned_block(std::int64_t bytes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

/// Of --offload parameters: shards, of FSDP1 one a unit, and their gradients, a block each. Tells
/// what else the host has.
std::int64_t pinned_shards(const passes::StepProgram& step, std::vector<std::string>& assumptions) {
  const ir::Program& p = step.program;
  std::int64_t pinned = 0, states = 0;
  std::set<ir::ValueId> counted;
  for (const passes::Parameter& parameter : step.parameters) {
    if (!counted.insert(parameter.stored).second) continue;
    const std::int64_t block = pinned_block(p.bytes(parameter.stored));
    pinned += parameter.trained ? 2 * block : block;
  }
  for (const ir::Storage& storage : p.storages)
    if (storage.role == ir::Role::optimizer_state) states += storage.bytes;
  assumptions.push_back(fmt::format(
      "--offload parameters: on the host of each rank are {:.3f} GiB of pinned memory, shards and "
      "their gradients in blocks of powers of two, and {:.3f} GiB of optimizer states; copies are "
      "timed by the device file's rate to the host, alone on it, and the optimizer's step by an "
      "eighth of a DGX H100's memory bandwidth: estimates that were compared with no run",
      static_cast<double>(pinned) / (1 << 30), static_cast<double>(states) / (1 << 30)));
  return pinned;
}

/// Of --offload optimizer and gradients: copies of parameters and their gradients, a block each.
std::int64_t pinned_copies(const passes::StepProgram& step, const StepConfig& config,
                           std::vector<std::string>& assumptions) {
  const ir::Program& p = step.program;
  std::int64_t pinned = 0, bytes = 0;
  for (const passes::OptimizedTensor& t : step.on_host) {
    pinned += 2 * pinned_block(p.bytes(t.parameter));
    bytes += p.bytes(t.parameter);
  }
  assumptions.push_back(fmt::format(
      "--offload {}: on the host are {:.3f} GiB of pinned memory, copies of parameters and of "
      "their "
      "gradients in blocks of powers of two, and {:.3f} GiB of optimizer states; copies are timed "
      "by the device file's rate to the host, alone on it, and the optimizer's step by an eighth "
      "of a DGX H100's memory bandwidth: estimates that were compared with no run",
      to_option(config.memory.offload), static_cast<double>(pinned) / (1 << 30),
      static_cast<double>(passes::states_on_host(config.optimizer.kind) * bytes) / (1 << 30)));
  return pinned;
}

/// Of DeepSpeed's offload_optimizer and offload_param with pin_memory: what it pins, a block each.
std::int64_t pinned_partitions(const passes::StepProgram& step, const StepConfig& config,
                               std::vector<std::string>& assumptions) {
  const ir::Program& p = step.program;
  std::int64_t pinned = 0, masters = 0;
  for (const passes::OptimizedTensor& t : step.on_host)
    for (const ir::ValueId v : {t.parameter, t.gradient})
      if (v != ir::no_id) pinned += pinned_block(p.bytes(v));
  for (const passes::OptimizedTensor& t : step.optimized) masters += p.bytes(t.parameter);
  assumptions.push_back(fmt::format(
      "--offload {}, by DeepSpeed with pin_memory: on the host of each rank are {:.3f} GiB of "
      "pinned memory, in blocks of powers of two, and {:.3f} GiB of {}; copies are timed by the "
      "device file's rate to the host, alone on it, and the optimizer's step by an eighth of a DGX "
      "H100's memory bandwidth: estimates that were compared with no run",
      to_option(config.memory.offload), static_cast<double>(pinned) / (1 << 30),
      static_cast<double>((config.layout.zero3() ? 3 : 2) * masters) / (1 << 30),
      config.layout.zero3() ? "masters and moments" : "moments"));
  return pinned;
}

}  // namespace

PlannedMemory memory_profile(const passes::StepProgram& step, const passes::Schedule& schedule,
                             const simulate::Device& device, const StepConfig& config, bool detail,
                             std::vector<std::string>& assumptions) {
  const ir::Program& p = step.program;
  simulate::MemoryModel model = memory_model(device, config);
  model.pool = recorded(step, config);
  simulate::MemoryModel bare = model;
  bare.workspaces = false;
  const Room room = room_of(step, schedule, model, device, config, detail);
  const simulate::AllocatorWalk& walk = room.walk;
  model.blocks = walk.blocks;
  std::vector<std::int64_t> live;
  if (detail) live.reserve(p.ops.size());
  const simulate::MemoryTrace trace =
      simulate::walk_memory(step, schedule, model, detail ? &live : nullptr);
  const simulate::MemoryTrace without = simulate::walk_memory(step, schedule, bare);

  PlannedMemory planned{{}, room.fit};
  profile::Memory& m = planned.memory;
  m.peak_allocated = trace.peak;
  m.peak_excluding_workspace = without.peak;
  m.resident = trace.resident;
  m.cublas_workspace = simulate::cublas_bytes(model);
  m.peak_by_phase = trace.peak_by_phase;
  m.reference_forward_peak = trace.reference_peak;
  if (step.generation_bytes > 0)
    with_generation(planned.fit, trace.resident + step.generation_bytes);
  m.peak_by_phase_excluding_workspace = without.peak_by_phase;
  m.peak_step = trace.peak_op;
  m.peak_reserved = walk.peak_reserved;
  if (model.pool)
    assumptions.push_back(
        "--cuda-graph segments: what the graphs hold is reserved in a pool of their own, and not "
        "allocated in a step that replays them; the steps before, one that warms up and one that "
        "records, allocate what they would without graphs");
  if (config.memory.offload == Offload::activations)
    m.host_pinned = pinned_bytes(step, config, assumptions);
  const bool by_zero = config.layout.zero() && config.memory.offload != Offload::none;
  if (by_zero) m.host_pinned = pinned_partitions(step, config, assumptions);
  if (config.memory.offload == Offload::parameters && !by_zero)
    m.host_pinned = pinned_shards(step, assumptions);
  if (!step.on_host.empty() && !by_zero) m.host_pinned = pinned_copies(step, config, assumptions);
  if (walk.rebuilding_peak > m.peak_allocated)
    assumptions.push_back(fmt::format(
        "ddp's second step may allocate {:.3f} GiB: it makes the buckets anew, and the old one "
        "stays until the first collective after its reduction was seen to end; it is in what is "
        "reserved, and not in the peak allocated, which is that of the steps that follow",
        static_cast<double>(walk.rebuilding_peak) / (1 << 30)));
  if (trace.peak_op != ir::no_id) {
    const ir::Op& op = p.op(trace.peak_op);
    m.peak_phase = profile::phase_names[static_cast<std::size_t>(op.phase)];
    m.peak_op = ir::name_of(p, op);
    m.peak_module = to_string(op.module);
  } else {
    m.peak_phase = profile::phase_names[0];
  }

  const auto size = [&](ir::StorageId s) { return simulate::storage_bytes(p, s, model); };
  const std::vector<Category> categories = storage_categories(step, schedule);
  m.at_peak[static_cast<std::size_t>(Category::workspace)] = trace.workspace_at_peak;
  std::vector<ir::StorageId> alive = simulate::live_at(step, schedule, trace.peak_op);
  std::int64_t states = 0;
  for (ir::StorageId s : alive) {
    m.at_peak[static_cast<std::size_t>(categories[static_cast<std::size_t>(s)])] += size(s);
    if (p.storage(s).role == ir::Role::optimizer_state) states += size(s);
    if (detail) m.at_peak_by_module[top_module(p.storage(s).module)] += size(s);
  }
  // The first step has no optimizer state until its optimizer runs.
  if (walk.blocks) m.first_step_peak = walk.first_step_peak;
  for (std::size_t phase = 0; !walk.blocks && phase < ir::phase_count; ++phase) {
    const bool optimizer = phase == static_cast<std::size_t>(ir::Phase::optimizer);
    const bool later =
        config.runtime.kind == Runtime::pytorch && !optimizer;  // the trainer's are there
    m.first_step_peak =
        std::max(m.first_step_peak, trace.peak_by_phase[phase] - (later ? states : 0));
  }
  if (!detail) return planned;

  if (trace.workspace_at_peak > 0) m.at_peak_by_module["workspace"] = trace.workspace_at_peak;
  m.timeline = thin_timeline(p, live);
  const std::size_t top = std::min<std::size_t>(10, alive.size());
  std::partial_sort(alive.begin(), alive.begin() + static_cast<std::ptrdiff_t>(top), alive.end(),
                    [&](ir::StorageId a, ir::StorageId b) {
                      return size(a) != size(b) ? size(a) > size(b) : a < b;
                    });
  for (std::size_t i = 0; i < top; ++i) {
    const ir::StorageId s = alive[i];
    const auto first = std::find_if(p.values.begin(), p.values.end(),
                                    [&](const ir::Value& v) { return v.storage == s; });
    profile::LiveTensor tensor;
    tensor.module = to_string(p.storage(s).module);
    tensor.op = first->producer == ir::no_id ? "" : ir::name_of(p, p.op(first->producer));
    tensor.shape = ir::to_string(first->shape);
    tensor.dtype = to_option(first->dtype);
    tensor.category = categories[static_cast<std::size_t>(s)];
    tensor.bytes = size(s);
    m.largest.push_back(std::move(tensor));
  }
  return planned;
}

}  // namespace ac_advisor::advise
