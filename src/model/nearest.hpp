#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ac_advisor::model {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest of `candidates` that could be `word` misspelt; empty where none is near: a fifth of
/// the letters, but one at least, may differ.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string_view> candidates);

}  // namespace ac_advisor::model
