#pragma once

#include <ATen/ATen.h>

#include "trainer/executor.hpp"
#include "trainer/kernels/dynamic_map.hpp"

/// AdamW whose moments are bytes of the dynamic maps, a scale for each block of 256: bitsandbytes
/// v0.50 (backends/cpu/ops.py) and torchao v0.18 (optim/adam.py, single_param_adam) do the same but
/// for ties. What a step takes of the moments is what it made of them, before they are bytes again.
namespace ac_advisor::trainer::adamw_8bit {

/// A moment: its codes, a scale a block, the map that the codes are of.
struct Bytes {
  at::Tensor codes, scales, map;
};

/// Where an optimizer's op has a moment's codes, scales and map, after the parameter and its
/// gradient (passes/optimizer/bitsandbytes.cpp, torchao.cpp).
struct Places {
  std::size_t codes, scales, map;
};
struct Operands {
  Optimizer kind;
  Places average, squares;
  dynamic_map::Ties ties;
};
/// How many inputs an op has whose moments are bytes.
inline constexpr std::size_t operands_of_bytes = 8;
/// Null where the optimizer's moments are none.
[[nodiscard]] const Operands* operands_of(Optimizer kind);

/// `step` counts this one, from 1. Tensors are flat; the parameter fp32 or bf16.
void update(const at::Tensor& parameter, const at::Tensor& gradient, const Bytes& average,
            const Bytes& squares, std::int64_t step, const OptimizerSettings& settings,
            dynamic_map::Ties ties);

/// Of a tensor that is too small for it: moments as they are.
void update(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& average,
            const at::Tensor& squares, std::int64_t step, const OptimizerSettings& settings);

}  // namespace ac_advisor::trainer::adamw_8bit
