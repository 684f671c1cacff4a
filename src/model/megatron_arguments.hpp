#pragma once

#include <span>
#include <string_view>

#include "fields.hpp"

namespace ac_advisor::model {

/// An argument of Megatron-LM that changes the step and is not planned.
struct UnplannedArgument {
  std::string_view field;
  std::string_view what;
};

/// Whether an argument is there, and neither null nor false.
[[nodiscard]] bool is_given(const Fields& fields, std::string_view field);
/// Throws UserError naming the first of them that is given.
void refuse_unplanned(const Fields& fields, std::span<const UnplannedArgument> arguments);

}  // namespace ac_advisor::model
