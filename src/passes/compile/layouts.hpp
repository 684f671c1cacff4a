#pragma once

#include <vector>

#include "realized.hpp"

namespace ac_advisor::passes::compile {

/// Where heads and tokens lie the other way round in memory (Node::swapped says it of the tensor
/// that is traced), by node. A library's kernel asks for the traced order of what is written for
/// it, a result has it; what nothing asks of takes the order of what it reads
/// (torch/_inductor/ir.py, v2.11: ComputedBuffer.get_fill_order; scheduler.py: pick_loop_order),
/// and so does what is in memory before it is asked. Attention that is recomputed asks for none
/// (lowering.py: make_fallback(graphsafe_run_with_rng_state)).
[[nodiscard]] std::vector<bool> swapped_in_memory(const JointGraph& graph,
                                                  const Realized& realized);

/// The same as it was traced: the trainer's interpreter goes over blocks of tokens, whatever it
/// writes.
[[nodiscard]] std::vector<bool> swapped_as_traced(const JointGraph& graph);

}  // namespace ac_advisor::passes::compile
