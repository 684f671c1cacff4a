#pragma once

#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/simulate/memory.hpp"

namespace ac_advisor::advise {

/// Workspaces that PyTorch's or the trainer's process holds: cuBLAS keeps one a handle and stream;
/// PyTorch has a handle for the forward's thread and one for autograd's, the trainer has one.
[[nodiscard]] std::int64_t cublas_handles(const StepConfig& config);
[[nodiscard]] simulate::MemoryModel memory_model(const simulate::Device& device,
                                                 const StepConfig& config);
/// The same, with the sizes of the blocks that the caching allocator gives to this step.
[[nodiscard]] simulate::MemoryModel memory_model(const passes::StepProgram& step,
                                                 const passes::Schedule& schedule,
                                                 const simulate::Device& device,
                                                 const StepConfig& config);

/// What a step holds, and whether the device has room for it.
struct PlannedMemory {
  profile::Memory memory;
  profile::Fit fit;
};

/// Everything about memory: peaks, breakdown, and with `detail` the largest tensors and timeline.
/// What no figure of it tells is added to `assumptions`.
[[nodiscard]] PlannedMemory memory_profile(const passes::StepProgram& step,
                                           const passes::Schedule& schedule,
                                           const simulate::Device& device, const StepConfig& config,
                                           bool detail, std::vector<std::string>& assumptions);

}  // namespace ac_advisor::advise
