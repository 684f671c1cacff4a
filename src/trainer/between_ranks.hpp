#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "trainer/rank.hpp"

namespace ac_advisor::trainer {

/// A parameter's whole gradient, by its Hugging Face name.
struct NamedGradient {
  std::string name;
  at::Tensor tensor;
};

/// The allocated peaks of all ranks, alike ones of a stage together, by pp_rank; each rank gives
/// its own. Collective.
[[nodiscard]] std::vector<profile::RankMemory> peaks_of_ranks(const Built& built,
                                                              const profile::Memory& own,
                                                              Collectives& collectives);

/// Rank 0 gets the gradients of all stages, one after another; each rank gives those of its own, in
/// the order of Built::trained. Collective; others than rank 0 get nothing.
[[nodiscard]] std::vector<NamedGradient> gradients_of_stages(const Built& built,
                                                             std::vector<at::Tensor> own,
                                                             Collectives& collectives);

/// Rank 0 gets what rank `from` gives. Called by both.
[[nodiscard]] std::string text_to_first(const std::string& own, std::int64_t from,
                                        Collectives& collectives);

}  // namespace ac_advisor::trainer
