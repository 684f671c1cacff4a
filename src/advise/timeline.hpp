#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

/// "blocks.3", or what stands outside of the blocks.
[[nodiscard]] std::string top_module(ir::ModulePath path);

/// Live bytes after each op, as at most about 400 points: in each of 200 stretches its lowest and
/// highest.
[[nodiscard]] std::vector<profile::TimelinePoint> thin_timeline(
    const ir::Program& program, const std::vector<std::int64_t>& live);

}  // namespace ac_advisor::advise
