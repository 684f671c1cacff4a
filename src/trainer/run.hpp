#pragma once

#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/profile/run_spec.hpp"
#include "trainer/collectives/collectives.hpp"
#include "trainer/failure.hpp"

namespace ac_advisor::trainer {

/// Runs every configuration of `spec`; the profiles of rank 0, in their order. `where` is this
/// process's place among several. Throws UserError, Failure.
[[nodiscard]] std::vector<profile::Profile> run(const profile::RunSpec& spec,
                                                const Rendezvous& where);

/// Told the number of the step that begins, for whoever watches this process.
void set_step_watch(void (*watch)(std::int64_t step));

}  // namespace ac_advisor::trainer
