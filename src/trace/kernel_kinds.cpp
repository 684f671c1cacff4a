#include "trace/kernel_kinds.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

namespace ac_advisor::trace {
namespace {

struct Pattern {
  std::string_view part;  ///< of the function's name, in lower case; "^" stands for its beginning
  KernelKind kind;
};

constexpr auto product = KernelKind::matrix_product;
constexpr auto attention = KernelKind::attention;
constexpr auto fused = KernelKind::fused;
constexpr auto pointwise = KernelKind::pointwise;
constexpr auto communication = KernelKind::communication;

// The first that is found counts.
constexpr Pattern patterns[] = {
    // Inductor names its kernels after the ops that it fused, whatever these are; its templates are
    // what they are named after.
    {"^triton_poi_", fused},
    {"^triton_red_", fused},
    {"^triton_per_", fused},
    {"^triton_for_", fused},
    {"^triton_spl", fused},
    {"^triton_tem_fused_flex_attention", attention},
    {"^triton_flex_attention", attention},
    {"^triton_tem_", product},
    {"^triton_mm", product},
    {"^triton_bmm", product},
    // NCCL and RCCL, NVSHMEM, PyTorch's symmetric memory, vLLM's and TensorRT-LLM's all-reduce,
    // DeepEP, Transformer Engine's user buffers, MSCCL++
    {"nccl", communication},
    {"rccl", communication},
    {"nvshmem", communication},
    {"deep_ep::", communication},
    {"deepep", communication},
    {"all_reduce", communication},
    {"allreduce", communication},
    {"all_gather", communication},
    {"allgather", communication},
    {"reduce_scatter", communication},
    {"reducescatter", communication},
    {"all_to_all", communication},
    {"alltoall", communication},
    {"multimem_", communication},
    {"cross_device_reduce", communication},
    {"userbuffers", communication},
    {"mscclpp", communication},
    // FlashAttention 1 to 3, cuDNN, CUTLASS, AOTriton, Composable Kernel, Transformer Engine
    {"flash", attention},
    {"fmha", attention},
    {"attention", attention},
    {"sdpa", attention},
    {"attn_fwd", attention},
    {"attn_bwd", attention},
    {"fused_attn", attention},
    {"bwd_kernel_dk_dv", attention},
    {"bwd_kernel_dq", attention},
    {"bwd_kernel_fuse", attention},
    {"bwd_preprocess", attention},
    {"scaled_masked_softmax", fused},
    {"scaled_upper_triang", fused},
    // what changes a layout for a library is an op of its own
    {"nchwtonhwc", pointwise},
    {"nhwctonchw", pointwise},
    // cuBLAS, cuBLASLt (nvjet), CUTLASS, cuDNN, rocBLAS and hipBLASLt (Tensile's Cijk_), MIOpen,
    // Composable Kernel, TensorRT-LLM (bmm_), DeepGEMM, Triton's matmul
    {"gemm", product},
    {"gemv", product},
    {"nvjet", product},
    {"cublas", product},
    {"tensorop", product},
    {"fprop", product},
    {"splitkreduce", product},
    {"splitk_reduce", product},
    {"xmma", product},
    {"cijk_", product},
    {"grouped_mm", product},
    {"matmul", product},
    {"^bmm_", product},
    {"scudnn", product},
    {"winograd", product},
    {"convolve", product},
    {"conv2d", product},
    {"conv_depthwise", product},
    {"miopensp3asmconv", product},
    {"naive_conv", product},
    {"dgrad", product},
    {"wgrad", product},
    {"implicit_con", product},
    // Triton's kernels by hand (Liger, Unsloth), Apex, Transformer Engine
    {"^triton_", fused},
    {"liger", fused},
    {"rms_norm", fused},
    {"rmsnorm", fused},
    {"layer_norm", fused},
    {"layernorm", fused},
    {"::ln_fwd", fused},
    {"::ln_bwd", fused},
    {"swiglu", fused},
    {"geglu", fused},
    {"act_and_mul", fused},
    {"_rope", fused},
    {"rope_", fused},
    {"rotary_", fused},
    {"cross_entropy", fused},
    {"multi_tensor_apply", fused},
    {"fusedadam", fused},
    {"fused_adam", fused},
    {"fused_dropout", fused},
    {"transformer_engine", fused},
    // PyTorch's own: one op each
    {"at::native::", pointwise},
    {"elementwise_kernel", pointwise},
    {"at_cuda_detail::", pointwise},
    {"^cub::", pointwise},
    {"::cub::", pointwise},
    {"thrust::", pointwise},
    {"rocprim::", pointwise},
    {"reduce_kernel", pointwise},
    {"softmax_warp_", pointwise},
    {"cunn_softmax", pointwise},
    {"embedding_", pointwise},
    {"indexselect", pointwise},
    {"gather_kernel", pointwise},
    {"cudnn::ops::", pointwise},
    {"cudnn::bn_", pointwise},
    {"batch_norm", pointwise},
    {"batchnorm", pointwise},
    {"pooling", pointwise},
    {"^__amd_rocclr_", pointwise},
};

/// Kernels whose name says nothing and whose template arguments say all.
constexpr std::string_view generic[] = {"cutlass", "ck_tile::", "ck::"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool matches(const std::string& name, std::string_view part) {
  if (part.front() == '^') return name.starts_with(part.substr(1));
  return name.find(part) != std::string::npos;
}

KernelKind look_up(const std::string& name) {
  for (const Pattern& pattern : patterns)
    if (matches(name, pattern.part)) return pattern.kind;
  return KernelKind::unknown;
}

}  // namespace

std::string function_of(std::string_view kernel) {
  static constexpr std::string_view anonymous = "(anonymous namespace)";
  std::string name;
  std::size_t depth = 0;  // of template arguments
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const char c = kernel[i];
    if (kernel.substr(i).starts_with(anonymous)) {
      i += anonymous.size() - 1;
      continue;
    }
    if (c == '<') {
      ++depth;
    } else if (c == '>') {
      if (depth > 0 && (i == 0 || kernel[i - 1] != '-')) --depth;
    } else if (depth == 0) {
      if (c == '(') break;
      if (c == ' ')
        name.clear();  // what came before is what it returns
      else
        name += c;
    }
  }
  return name;
}

KernelKind kind_of(std::string_view kernel) {
  if (kernel.starts_with("_Z")) {  // as some traces of ROCm have it
    int status = 0;
    const std::string mangled(kernel);
    const std::unique_ptr<char, decltype(&std::free)> plain(
        abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
    if (plain) return kind_of(std::string_view(plain.get()));
  }
  const std::string name = lower(function_of(kernel));
  for (const std::string_view entry : generic)
    if (name.starts_with(entry)) return look_up(lower(kernel));
  return look_up(name);
}

}  // namespace ac_advisor::trace
