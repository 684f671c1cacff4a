#pragma once

#include <string>
#include <vector>

#include "ac_advisor/simulate/measurements.hpp"

namespace ac_advisor::simulate {

/// The fastest that a kind went.
struct Reached {
  ir::OpKind kind{};
  DType dtype = DType::f32;
  std::size_t points = 0;
  double least_seconds = 0;  ///< the smallest op, with its issue
  double rate = 0;           ///< bytes/s, or FLOP/s of a product; 0 for what moves nothing
};
/// One a kind and dtype, in the order of the op table.
[[nodiscard]] std::vector<Reached> reached(const Measurements& measurements);

/// The device file `base` (its text) with every figure that was measured in place of its own, and
/// the measurements. `memory_bytes`: what the device has; 0: leave the base's.
[[nodiscard]] std::string calibrated_device_file(const std::string& base,
                                                 const Measurements& measurements,
                                                 std::int64_t memory_bytes);

}  // namespace ac_advisor::simulate
