#pragma once

#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/simulate/reserved.hpp"

namespace ac_advisor::advise {

/// What PyTorch's allocator does with a step on a device: with all the memory that it would
/// reserve, or within what the device has.
struct Room {
  simulate::AllocatorWalk walk;
  profile::Fit fit;
};

/// With `detail` also where it is out of memory, and what expandable segments would reserve.
[[nodiscard]] Room room_of(const passes::StepProgram& step, const passes::Schedule& schedule,
                           const simulate::MemoryModel& model, const simulate::Device& device,
                           const StepConfig& config, bool detail);
/// What is allocated between steps at most: it has to fit as well.
void with_generation(profile::Fit& fit, std::int64_t peak);

}  // namespace ac_advisor::advise
