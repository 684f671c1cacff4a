#pragma once

#include <vector>

#include "ac_advisor/ir/program.hpp"
#include "passes/checkpointing/around_compiled.hpp"

namespace ac_advisor::passes::compile {

/// Ops [first, end) of the forward program that are one graph, and the values that it returns, as
/// they are read.
struct Piece {
  ir::OpId first = ir::no_id, end = ir::no_id;
  std::vector<ir::ValueId> outputs;
};

/// The graphs that Dynamo makes of blocks from the op `first` on where it breaks a block's graph,
/// in each frame those of its own ops. At modules these are norms, rotation with attention,
/// activations and sums: a linear layer's frame has its product alone, which stays the op that it
/// is, and views of projections are moved to the piece that reads them. At attention they are the
/// first norm, the projections with their rotation, the output's projection, and all that follows.
/// What a checkpoint is around that Python calls is in none; of those around submodules that is
/// attention, and the MLP's is a part of its graph. At parts they are the norms, attention, the
/// router, what reorders its choices, and the products of experts, whatever checkpoint is around.
[[nodiscard]] std::vector<Piece> pieces_of_blocks(ir::Program& program, ir::OpId first,
                                                  GraphBreaks breaks, AcScope scope);

}  // namespace ac_advisor::passes::compile
