#pragma once

#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::passes {

/// Whether positions that come with the batch reach the layers as a rotary table made for them, and
/// as nothing else: no row of a learned table, no bias of the scores, no scale of the queries.
[[nodiscard]] bool takes_rotary_positions(const model::ModelSpec& m);

}  // namespace ac_advisor::passes
