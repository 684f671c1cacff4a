#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ac_advisor::trace {

/// What a kernel does, as its name tells.
enum class KernelKind : std::uint8_t {
  matrix_product,  ///< matrix products and convolutions of libraries
  attention,       ///< fused attention
  fused,           ///< Triton (torch.compile, Liger, …), fused norms, losses and optimizers
  pointwise,       ///< one eager op: element-wise, reduction, copy, gather
  communication,
  unknown,  ///< its name tells nothing: nothing is concluded from it, and nothing advised
};
inline constexpr std::array<const char*, 6> kernel_kind_names{
    "matrix_product", "attention", "fused", "pointwise", "communication", "unknown"};

[[nodiscard]] KernelKind kind_of(std::string_view kernel_name);

/// "internal::gemvx::kernel" of "std::enable_if<…>::type internal::gemvx::kernel<int>(P)": the
/// function, without what it returns, its template arguments and its parameters.
[[nodiscard]] std::string function_of(std::string_view kernel_name);

/// Limited by arithmetic, not by memory, at the sizes of training.
[[nodiscard]] inline bool is_arithmetic(KernelKind kind) {
  return kind == KernelKind::matrix_product || kind == KernelKind::attention;
}

}  // namespace ac_advisor::trace
