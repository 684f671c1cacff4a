#pragma once

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::advise {

/// torch's name of a parameter's dtype: "bfloat16", "float16" or "float32".
[[nodiscard]] constexpr const char* torch_dtype(DType type) {
  return type == DType::bf16 ? "bfloat16" : type == DType::f16 ? "float16" : "float32";
}

}  // namespace ac_advisor::advise
