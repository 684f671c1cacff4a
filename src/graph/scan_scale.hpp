#pragma once

#include "scan_op.hpp"
#include "scan_text.hpp"

namespace ac_advisor::graph {

/// The section of docs/schema/graph-2.json. `fault_of_scale` has not seen it.
[[nodiscard]] Scale scan_scale(Text& text, OpScanner& ops);

}  // namespace ac_advisor::graph
