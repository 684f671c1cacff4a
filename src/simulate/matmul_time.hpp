#pragma once

#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::simulate {

/// A product of `rows` x `depth` by `depth` x `columns`, a batch's rows together.
struct MatmulShape {
  double rows = 0, columns = 0, depth = 0;
};

/// Seconds of a product on `multiprocessors` of the device's, at `peak` FLOP/s of all of them. A
/// kernel works in waves of one output tile a multiprocessor, so the last wave leaves some idle; a
/// tile's prologue and epilogue cost as much as `matmul_k_half` steps of K (NVIDIA, Matrix
/// Multiplication Background User's Guide). As cuBLAS does, it takes a smaller tile, or cuts K and
/// adds the parts, where that is faster.
[[nodiscard]] double matmul_seconds(const MatmulShape& product, const Device& device, double peak,
                                    double multiprocessors);

}  // namespace ac_advisor::simulate
