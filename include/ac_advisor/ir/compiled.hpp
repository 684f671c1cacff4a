#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/ir/attributes.hpp"
#include "ac_advisor/ir/module_path.hpp"
#include "ac_advisor/ir/op_kind.hpp"
#include "ac_advisor/ir/shape.hpp"
#include "ac_advisor/ir/target.hpp"

namespace ac_advisor::ir {

/// What one generated launch computes, node by node, for who runs it: in fp32 whatever a node's
/// dtype, which says what is stored.
struct GeneratedBody {
  struct Node {
    Target target{};
    std::vector<std::int32_t> inputs;  ///< into `nodes`
    Shape shape;
    DType dtype = DType::bf16;
    std::int64_t index = 0;  ///< as the joint graph's node has them
    double number = 0;
    std::int8_t tokens = -1;  ///< the dimension along which tokens lie; -1: none
  };
  std::vector<Node> nodes;           ///< the launch's inputs first, as placeholders
  std::vector<std::int32_t> writes;  ///< a node an output; a sum over rows is stored in parts
};

/// A straight line of launches that a compiler made of one unit's forward or backward, for any of
/// the units that are alike. Tensors are numbers: first what the graph is given, then `made`.
struct CompiledGraph {
  struct Made {
    Shape shape;
    DType dtype = DType::bf16;
    std::int32_t over = -1;  ///< the tensor whose memory it takes over; -1: new memory
    std::int32_t of = -1;    ///< it is a view of that tensor; -1: a tensor of its own
    bool permuted = false;   ///< as ir::Value has it
  };
  struct Launch {
    OpKind kind{};
    Attributes attributes;
    Module leaf = Module::block;
    std::vector<std::int32_t> inputs, outputs;
    std::int16_t block = -1;  ///< of a unit that is no block: the block that it is of; -1: none
  };
  /// The module of a launch in the unit `of`.
  [[nodiscard]] static ModulePath module(const Launch& launch, ModulePath of) {
    return {of.block >= 0 ? of.block : launch.block, launch.leaf};
  }
  std::int32_t given = 0;
  std::vector<Made> made;
  std::vector<Launch> launches;
  std::vector<GeneratedBody> bodies;  ///< of generated launches, by Generated::body
  /// The tensor that one is, or is a view of.
  [[nodiscard]] std::int32_t whole(std::int32_t number) const {
    while (number >= given && made[static_cast<std::size_t>(number - given)].of >= 0)
      number = made[static_cast<std::size_t>(number - given)].of;
    return number;
  }
  /// Forward: what the unit returns, then what it saves beside its inputs. Backward: a gradient for
  /// each input of the unit; -1: none.
  std::vector<std::int32_t> results;
};

}  // namespace ac_advisor::ir
