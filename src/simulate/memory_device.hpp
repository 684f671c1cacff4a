#pragma once

#include <string>

namespace ac_advisor::simulate {

/// A device of which the memory alone was given, as `find_device` takes it: "24gib", "24gib@l4".
/// The name of the GPU whose rates it has: the one after @, or the one whose memory is nearest, of
/// equals the fastest. Empty for any other name. Throws UserError for a size that is none.
[[nodiscard]] std::string rates_of(const std::string& name);

}  // namespace ac_advisor::simulate
