#include "reports/kernel_name.hpp"

#include <doctest/doctest.h>

using ac_advisor::reports::kernel_name;

TEST_CASE("a kernel of PyTorch is named by what it computes") {
  CHECK(kernel_name("_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_15CUDAFunctor_addIN3c108"
                    "BFloat16EEESt5arrayIPcLm3EEEEviT0_T1_") ==
        "vectorized_elementwise_kernel CUDAFunctor_add");
  CHECK(
      kernel_name("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
                  "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::"
                  "MulFunctor<float> > >(at::TensorIteratorBase&)::{lambda(int)#1}>(int)") ==
      "elementwise_kernel MulFunctor");
  CHECK(kernel_name("_ZN2at6native29vectorized_elementwise_kernelILi8EZNS0_25bfloat16_copy_kernel_"
                    "cudaERNS_18TensorIteratorBaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_") ==
        "vectorized_elementwise_kernel bfloat16_copy_kernel_cuda");
  CHECK(kernel_name("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
                    "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >"
                    "(at::native::ReduceOp<float>)") == "reduce_kernel MeanOps");
}

TEST_CASE("a kernel without a template is its own name, and odd names are left alone") {
  CHECK(kernel_name("cublasGemmEx") == "cublasGemmEx");
  CHECK(kernel_name("sm90_xmma_gemm_bf16bf16_bf16f32") == "sm90_xmma_gemm_bf16bf16_bf16f32");
  CHECK(kernel_name("cudnn::fusion::compute_dot_do_o_specialized") ==
        "compute_dot_do_o_specialized");
  CHECK(kernel_name("") == "");
  CHECK(kernel_name("<") == "<");
  CHECK(kernel_name("_Zgarbage") == "_Zgarbage");
  CHECK(kernel_name("void (anonymous namespace)::") == "void (anonymous namespace)::");
}
