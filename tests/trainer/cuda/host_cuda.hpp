#pragma once

#include <memory>

#include "trainer/backend/backend.hpp"

namespace ac_advisor::test {

/// A GPU's kernels on the host: the fused ones' host reference, CPU tensors, and a CPU's flash
/// attention for LibTorch's. A graph is what was issued, issued again. Its scratch is the GPU's,
/// its sizes are not rounded.
[[nodiscard]] std::unique_ptr<trainer::Backend> make_host_cuda();

/// How often any such backend has captured, and replayed, a graph.
struct GraphCounts {
  int captured = 0, replayed = 0;
};
[[nodiscard]] GraphCounts& graph_counts();
/// How often a product with fp32 sums was asked of cuBLAS's stand-in.
[[nodiscard]] int& products();

}  // namespace ac_advisor::test
