#pragma once

#include <cstdint>
#include <vector>

#include "family.hpp"
#include "fields.hpp"

namespace ac_advisor::model {

/// Per block the sliding window in tokens, 0 for full attention, by the family's rule.
[[nodiscard]] std::vector<std::int64_t> read_windows(const Family& family, std::int64_t layers,
                                                     const Fields& fields);

/// Whether "sliding_window" is one, or the family's is where it is absent.
[[nodiscard]] bool has_window(const Family& family, const Fields& fields);

/// Tokens of a chunk where the family's windows are chunks, else 0.
[[nodiscard]] std::int64_t attention_chunk(const Family& family, const Fields& fields);

/// Which blocks do not rotate q and k; empty where the family rotates all.
[[nodiscard]] std::vector<bool> read_unrotated(const Family& family, std::int64_t layers,
                                               const Fields& fields);

}  // namespace ac_advisor::model
