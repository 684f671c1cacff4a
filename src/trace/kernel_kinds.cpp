#include "trace/kernel_kinds.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace ac_advisor::trace {
namespace {

struct Pattern {
  const char* part;  ///< of the name, in lower case
  KernelKind kind;
};

// The first that is found counts. Names as PyTorch 2, cuBLAS 11 to 13, cuDNN 8 and 9, CUTLASS,
// FlashAttention, Liger and NCCL 2 have them.
constexpr Pattern patterns[] = {
    {"nccl", KernelKind::communication},
    {"nvshmem", KernelKind::communication},
    {"all_reduce", KernelKind::communication},
    {"flash", KernelKind::attention},
    {"fmha", KernelKind::attention},
    {"attention", KernelKind::attention},
    {"_sdpa_", KernelKind::attention},
    {"gemm", KernelKind::matrix_product},
    {"gemv", KernelKind::matrix_product},
    {"nvjet", KernelKind::matrix_product},
    {"cutlass", KernelKind::matrix_product},
    {"cublas", KernelKind::matrix_product},
    {"splitkreduce", KernelKind::matrix_product},
    {"xmma", KernelKind::matrix_product},
    {"convolve", KernelKind::matrix_product},
    {"dgrad", KernelKind::matrix_product},
    {"wgrad", KernelKind::matrix_product},
    {"grouped_mm", KernelKind::matrix_product},
    {"triton_", KernelKind::fused},
    {"liger", KernelKind::fused},
    {"_rms_norm", KernelKind::fused},
    {"rms_norm_kernel", KernelKind::fused},
    {"layer_norm", KernelKind::fused},
    {"layernorm", KernelKind::fused},
    {"_swiglu", KernelKind::fused},
    {"_geglu", KernelKind::fused},
    {"_rope", KernelKind::fused},
    {"rotary_kernel", KernelKind::fused},
    {"cross_entropy", KernelKind::fused},
    {"multi_tensor_apply", KernelKind::fused},
    {"fusedadam", KernelKind::fused},
    {"transformer_engine", KernelKind::fused},
};

}  // namespace

KernelKind kind_of(std::string_view kernel) {
  if (kernel.starts_with("void ")) kernel.remove_prefix(5);
  // What the template arguments name is not what runs, but for CUTLASS's generic kernels.
  std::string name(kernel.starts_with("cutlass") ? kernel : kernel.substr(0, kernel.find('<')));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Pattern& pattern : patterns)
    if (name.find(pattern.part) != std::string::npos) return pattern.kind;
  return KernelKind::pointwise;
}

}  // namespace ac_advisor::trace
