#include "check_device.hpp"

#include <limits>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::advise {

namespace {

constexpr std::int64_t hopper = 90, blackwell = 100;

/// torch/_inductor/utils.py, v2.11: needs_fallback_due_to_atomic_add_limitations
bool adds_up_rows(const model::ModelSpec& model, const simulate::Device& device) {
  return !model.moe || device.compute_capability >= hopper;
}

/// check_prefer_cudnn_attention (sdp_utils.cpp): elsewhere auto is flash, which takes no mask
bool has_kernel_of_masks(const StepConfig& config, const simulate::Device& device) {
  return !device.cuda || device.compute_capability == hopper ||
         device.compute_capability == blackwell || config.run.attention != Attention::automatic;
}

}  // namespace

bool plans_compiled(const model::ModelSpec& model, const StepConfig& config,
                    const simulate::Device& device) {
  return adds_up_rows(model, device) &&
         (!model.window_within(std::numeric_limits<std::int64_t>::max()) ||
          has_kernel_of_masks(config, device));
}

void check_device(const model::ModelSpec& model, const StepConfig& config,
                  const simulate::Device& device) {
  if (config.runtime.cuda_graph != CudaGraph::off && !device.cuda)
    throw UserError(std::string("--cuda-graph ") + to_option(config.runtime.cuda_graph) +
                    " with --gpu " + config.device.gpu +
                    ": a CPU has no CUDA graphs; leave it out, or name a GPU");
  // torch._scaled_mm (aten/src/ATen/native/cuda/ScaledBlas.cpp, v2.11): compute capability 8.9
  if (config.precision.float8() && device.fp8_flops <= 0)
    throw UserError(std::string("--fp8 ") + to_option(config.precision.fp8) + " on " + device.name +
                    ": its file has no peak_flops_per_second.fp8; torch._scaled_mm needs an NVIDIA "
                    "GPU of compute capability 8.9 or later, such as l40s, h100-80gb or b200; name "
                    "one of these, or leave it out");
  // transformer_engine v2.14, nvte_is_non_tn_fp8_gemm_supported: nothing is kept the other way
  // round
  if (config.precision.float8() && config.megatron() && device.compute_capability >= blackwell)
    throw UserError(std::string("--fp8 ") + to_option(config.precision.fp8) +
                    " --transformer-impl transformer_engine on " + device.name +
                    ": what its layers hold from compute capability 10.0 on is not planned; name a "
                    "GPU such as h100-80gb, or leave --fp8 out");
  // torchao 0.18, prototype/mx_formats/kernels.py: is_sm_at_least_100
  if (config.precision.fp8 == Fp8Recipe::mx && device.compute_capability < blackwell)
    throw UserError("--fp8 mx on " + device.name +
                    ": MX formats need compute capability 10.0 or later; use --fp8 tensorwise or "
                    "rowwise, or name a GPU such as b200");
  if (config.memory.offload != Offload::none && device.cuda && device.host_bandwidth <= 0)
    throw UserError(std::string("--offload ") + to_option(config.memory.offload) + " on " +
                    device.name +
                    ": its file has no pcie_bytes_per_second, the rate to the host; add it, or "
                    "leave --offload out");
  const bool eager = config.run.attention == Attention::eager ||
                     (config.run.attention == Attention::automatic && model.eager_attention_only);
  // aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, v2.11: check_tensor_dtype
  if (config.runtime.kind == Runtime::ac_trainer && device.cuda && !eager &&
      config.precision.compute_dtype == DType::f32)
    throw UserError("--compute-dtype fp32 with flash attention on " + device.name +
                    ": its kernel takes bf16; use --attn eager, or bf16");
  // mha_fwd in flash_attn/flash_api.cpp beside it
  if (config.runtime.kind == Runtime::ac_trainer && device.cuda && !eager &&
      (model.head_dim % 8 != 0 || model.head_dim > 256))
    throw UserError("head_dim " + std::to_string(model.head_dim) + " with flash attention on " +
                    device.name + ": its kernel takes multiples of 8 up to 256; use --attn eager");
  if (config.memory.kernels == Kernels::compiled && !adds_up_rows(model, device))
    throw UserError("--kernels compiled with a mixture of experts on " + device.name +
                    ": gradients of rows that several experts read are added up in bf16 by "
                    "atomics, which torch.compile does from compute capability 9.0 on; what it "
                    "runs elsewhere is not planned; use --kernels eager, or name a GPU such as "
                    "h100-80gb or b200");
  if (config.memory.kernels == Kernels::compiled && model.window_within(config.run.seq) &&
      !has_kernel_of_masks(config, device))
    throw UserError("--kernels compiled --attn auto with a sliding window on " + device.name +
                    ": PyTorch runs flash attention there, and with a mask its memory-efficient "
                    "kernel; say so by --attn flash");
  // aten/src/ATen/native/cuda/GroupedBlas.cpp: other types than bf16, and devices of another
  // compute capability than 9 and 10, read the offsets on the host
  const std::int64_t major = device.compute_capability / 10;
  const bool f32 = config.precision.compute_dtype == DType::f32;
  if (config.runtime.kind == Runtime::ac_trainer && config.runtime.cuda_graph != CudaGraph::off &&
      model.moe && (f32 || (major != 9 && major != 10)))
    throw UserError(std::string("--cuda-graph ") + to_option(config.runtime.cuda_graph) +
                    " with a mixture of experts " + (f32 ? "in fp32" : "on " + device.name) +
                    ": LibTorch's grouped product then waits for the device, which no graph can "
                    "hold; " +
                    (f32 ? "use bf16, or leave it out" : "leave it out"));
}

}  // namespace ac_advisor::advise
