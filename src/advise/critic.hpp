#pragma once

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/profile/profile.hpp"

/// PPO's critic as verl 0.9.1 has it: a worker in the actor's process, on the same devices.
namespace ac_advisor::advise {

/// Its update, beside nothing.
[[nodiscard]] StepConfig actors_critic(const StepConfig& config);
/// What a worker keeps between its phases, by its plan. `parked`: of that what waits on the host.
[[nodiscard]] WaitingWorker waiting_worker(const profile::Profile& plan, Parked parked);
/// Bytes that FSDP1's root leaves whole where no backward follows; 0 under others.
[[nodiscard]] std::int64_t left_whole(const model::ModelSpec& model, const StepConfig& config);
/// Whether it is an actor's, and what its critic keeps on the device is not settled yet.
[[nodiscard]] bool misses_critic(const StepConfig& config);
/// The actor's update with its critic beside it.
[[nodiscard]] StepConfig beside_critic(const model::ModelSpec& model, StepConfig config);

}  // namespace ac_advisor::advise
