#include <array>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::profile {

const char* to_string(Category category) {
  static constexpr std::array<const char*, category_count> names{
      "parameters",    "gathered_parameters",
      "gradients",     "optimizer_states",
      "inputs",        "activations",
      "recomputed",    "activation_gradients",
      "temporaries",   "loss",
      "communication", "held_output",
      "workspace"};
  return names[static_cast<std::size_t>(category)];
}

}  // namespace ac_advisor::profile
