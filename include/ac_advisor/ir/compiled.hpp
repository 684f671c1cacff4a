#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/ir/attributes.hpp"
#include "ac_advisor/ir/module_path.hpp"
#include "ac_advisor/ir/op_kind.hpp"
#include "ac_advisor/ir/shape.hpp"

namespace ac_advisor::ir {

/// A straight line of launches that a compiler made of one unit's forward or backward, for any of
/// the units that are alike. Tensors are numbers: first what the graph is given, then `made`.
struct CompiledGraph {
  struct Made {
    Shape shape;
    DType dtype = DType::bf16;
    std::int32_t over = -1;  ///< the tensor whose memory it takes over; -1: new memory
  };
  struct Launch {
    OpKind kind{};
    Attributes attributes;
    Module leaf = Module::block;
    std::vector<std::int32_t> inputs, outputs;
  };
  std::int32_t given = 0;
  std::vector<Made> made;
  std::vector<Launch> launches;
  /// Forward: what the unit returns, then what it saves beside its inputs. Backward: a gradient for
  /// each input of the unit; -1: none.
  std::vector<std::int32_t> results;
};

}  // namespace ac_advisor::ir
