#pragma once

#include <string>

#include "ac_advisor/profile/profile.hpp"
#include "reports/json_node.hpp"

namespace ac_advisor::reports {

/// Bytes, launches and dispatches of a file: 0 to 2^56. Throws UserError naming the place.
std::int64_t check_count(std::int64_t n, const std::string& place);
/// Seconds, rates and shares of a file: finite.
double check_figure(double x, const std::string& place);

/// Throws UserError where the model in a saved profile is none: sizes that parse_config would
/// refuse, or lists that are not as long as the model.
void check_model(const Node& model);
/// Options that resolve_options would refuse and arithmetic relies on.
void check_config(const StepConfig& config, const std::string& place);
/// What arithmetic on a profile's figures relies on. Throws UserError naming the field.
void check_profile(const profile::Profile& profile, const std::string& place);

}  // namespace ac_advisor::reports
