#pragma once

#include <vector>

#include "ac_advisor/trace/diagnose.hpp"

namespace ac_advisor::trace {

/// The difference of the two steps, split by kernel name: what waits, what is computed again, what
/// moves memory again, what runs in place of fused kernels. Sums to `b.seconds - a.seconds`.
[[nodiscard]] std::vector<OverheadPart> split_overhead(const Trace& a_trace, const Side& a,
                                                       const Trace& b_trace, const Side& b);

}  // namespace ac_advisor::trace
