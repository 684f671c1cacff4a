#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/profile/run_spec.hpp"
#include "trainer/between_ranks.hpp"
#include "trainer/rank.hpp"

namespace ac_advisor::trainer {

/// Compares the first step's gradients with those of the same batch on one rank, unsharded, without
/// checkpointing, by eager kernels and plain cross-entropy: fills digest, error and verdict.
/// `backend`: where the reference runs.
void compare_gradients(profile::Numerics& numerics, const Built& built,
                       const std::vector<NamedGradient>& gradients, const profile::RunSpec& spec,
                       const Weights* weights, std::unique_ptr<Backend> backend);

/// FNV-1a over every gradient's bytes: the same digest is the same gradients, bit for bit.
[[nodiscard]] std::string gradient_digest(const std::vector<NamedGradient>& gradients);

}  // namespace ac_advisor::trainer
