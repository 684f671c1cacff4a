#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

/// Options that make a step fit its device, as it was planned with them.
struct Change {
  OptionList options;     ///< over those of the step: {"--ac", "full"}
  std::string technique;  ///< "every block is recomputed in backward"
  profile::Profile profile;
  double slower = 0;  ///< seconds a token against those of the step as it is: 0.25 is 25 % more
};

/// The cheapest changes that fit, at most `most`, the cheapest first, those that make another step
/// (shorter sequences) last: single ones, and where these
/// are fewer, two or three together. Each is planned; none that the framework lacks or that cannot
/// be is among them, and none with a part that another one needs alone. Empty: none was found.
/// `options`: `Resolved::options` of the step, which its changes keep; absent: options that give
/// it. `less`: bytes that they have to allocate less than the step, where a run of it was out of
/// memory though its plan fits.
[[nodiscard]] std::vector<Change> changes_that_fit(const model::ModelSpec& model,
                                                   const profile::Profile& step,
                                                   const std::optional<OptionList>& options,
                                                   std::int64_t less = 0, std::size_t most = 3);

}  // namespace ac_advisor::advise
