#pragma once

#include <functional>

#include "ac_advisor/ir/program.hpp"
#include "tracer.hpp"

namespace ac_advisor::passes::compile {

/// A program's values as a trace has them.
struct TracedValues {
  std::function<Tensor(ir::ValueId)> of;
  std::function<void(ir::ValueId, Tensor)> set;
};

/// Traces an op of a mixture of experts: its router's, and what sorts rows by expert and puts them
/// back. False: it is none of those.
bool trace_experts(Tracer& tracer, const ir::Program& program, const ir::Op& op,
                   const TracedValues& values);

}  // namespace ac_advisor::passes::compile
