#pragma once

#include <cstdint>
#include <optional>

#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// What bitsandbytes keeps of a linear layer's weight of `in` x `out`.
struct QuantizedWeight {
  struct Stored {
    ir::Shape shape;
    DType dtype;
  };
  Stored weight;
  Stored scales;
  std::optional<Stored> code_book, nested, offset;
};

/// bitsandbytes v0.50, functional.quantize_4bit: blocks of 64 weights, two a byte, with an fp32
/// scale each and a code book of 16; nested: the scales in bytes, their fp32 scales of blocks of
/// 256 and an fp32 offset. int8: bytes, and an fp32 scale a row. Under fsdp2 the weights are stored
/// in the dtype of all else (bnb_4bit_quant_storage), a column of elements of four weights each.
[[nodiscard]] QuantizedWeight quantized_weight(const StepConfig& config, std::int64_t in,
                                               std::int64_t out);

}  // namespace ac_advisor::passes
