#include <array>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::profile {

const char* to_string(Category category) {
  static constexpr std::array<const char*, category_count> names{"parameters",
                                                                 "reference_parameters",
                                                                 "gathered_parameters",
                                                                 "gradients",
                                                                 "optimizer_states",
                                                                 "inputs",
                                                                 "activations",
                                                                 "recomputed",
                                                                 "activation_gradients",
                                                                 "temporaries",
                                                                 "loss",
                                                                 "communication",
                                                                 "held_output",
                                                                 "workspace",
                                                                 "waiting_worker",
                                                                 "unknown"};
  return names[static_cast<std::size_t>(category)];
}

const char* to_string(TimeBasis basis) {
  static constexpr std::array<const char*, 3> names{"estimate", "calibrated", "measured"};
  return names[static_cast<std::size_t>(basis)];
}

const char* time_word(TimeBasis basis) {
  return basis == TimeBasis::estimate ? "estimated" : to_string(basis);
}

}  // namespace ac_advisor::profile
