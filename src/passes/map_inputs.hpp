#pragma once

#include <algorithm>
#include <vector>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::passes {

/// Of an op that is a copy of another: its inputs become what `map` makes of each. Where none
/// changes it keeps the operands that it shares.
template <class Map>
void map_inputs(ir::Program& program, ir::Op& op, const Map& map) {
  const std::vector<ir::ValueId> in(program.inputs(op).begin(), program.inputs(op).end());
  std::vector<ir::ValueId> all;
  for (ir::ValueId v : in) all.push_back(map(v));
  if (std::equal(in.begin(), in.end(), all.begin())) return;
  all.insert(all.end(), program.outputs(op).begin(), program.outputs(op).end());
  op.first_operand = static_cast<std::int32_t>(program.operands.size());
  program.operands.insert(program.operands.end(), all.begin(), all.end());
}

}  // namespace ac_advisor::passes
