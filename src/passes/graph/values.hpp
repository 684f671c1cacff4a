#pragma once

#include <vector>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// A tensor's dtype by its size: what has no name in the program stands as one of as many bytes.
[[nodiscard]] DType dtype_of(graph::DType dtype);
/// At most five dimensions: what is more lies in the first.
[[nodiscard]] ir::Shape shape_of(const std::vector<std::int64_t>& sizes);

/// A new storage of the graph's bytes; its value looks like `tensor`, or where there is none like
/// bytes.
[[nodiscard]] ir::ValueId make_storage(ir::Program& program, const graph::Graph& graph,
                                       graph::Index storage, const graph::Tensor* tensor,
                                       ir::Role role, ir::ModulePath module);
/// A view of a storage's value.
[[nodiscard]] ir::ValueId view_of(ir::Program& program, ir::ValueId storage,
                                  const graph::Tensor& tensor);

/// Where the graph's modules stand: which block, and by its name which part of one.
[[nodiscard]] std::vector<ir::ModulePath> places_of(const graph::Graph& graph);

}  // namespace ac_advisor::passes
