#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ac_advisor/advise/advise.hpp"

namespace ac_advisor::advise {

/// What a search of a large space made of each configuration, by its index in the list.
struct Searched {
  std::vector<std::size_t> simulated;
  std::size_t too_large = 0, too_heavy = 0, too_slow = 0;
};

/// Simulates the configurations of `list` whose bounds let them be among the first `exact_rows`
/// that fit, or the best of their layout, the fastest by its bound first. `simulate` gets indices,
/// and fills `rows` there; bounds are found on so many `threads`.
[[nodiscard]] Searched search_best_first(
    const model::ModelSpec& model, const std::vector<StepConfig>& list,
    const std::vector<Row>& rows, unsigned threads,
    const std::function<void(const std::vector<std::size_t>&)>& simulate);

}  // namespace ac_advisor::advise
