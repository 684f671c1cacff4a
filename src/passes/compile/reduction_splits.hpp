#pragma once

#include <cstdint>

namespace ac_advisor::passes::compile {

/// In how many parts Inductor makes a large reduction (v2.11; choices.py: reduction_split_factor,
/// of an H100's multiprocessors).

/// Elements that one thread block adds.
inline constexpr std::int64_t most_unsplit = 8192;

/// Of `outputs` reductions over so many elements each, where neighbours are added; 1: in one.
[[nodiscard]] std::int64_t inner_reduction_splits(std::int64_t elements, std::int64_t outputs);
/// Of `columns` over so many rows, which lie apart; 1 also where num_splits asks for none.
[[nodiscard]] std::int64_t outer_reduction_splits(std::int64_t rows, std::int64_t columns);

}  // namespace ac_advisor::passes::compile
