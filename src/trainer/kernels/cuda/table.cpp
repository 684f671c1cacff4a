#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cuda/cuda.hpp"

namespace ac_advisor::trainer::cuda {
namespace {

using enum ir::OpKind;

constexpr KernelRow own[] = {
    {grouped_mm, cuda::grouped_mm},
    {dropout, cuda::dropout},
    {sdpa, cuda::sdpa},
    {histc, cuda::histc},
    {index_put, cuda::index_put},
    {rms_norm, cuda::rms_norm},
    {add_rms_norm, cuda::add_rms_norm},
    {rope, cuda::rope},
    {swiglu, cuda::swiglu},
    {linear_cross_entropy, cuda::linear_cross_entropy},
    {dropout_backward, cuda::dropout_backward},
    {sdpa_backward, cuda::sdpa_backward},
    {scatter, cuda::scatter},
    {rms_norm_backward, cuda::rms_norm_backward},
    {add_rms_norm_backward, cuda::add_rms_norm_backward},
    {rope_backward, cuda::rope_backward},
    {swiglu_backward, cuda::swiglu_backward},
    {linear_cross_entropy_backward, cuda::linear_cross_entropy_backward},
    {adamw_fused, cuda::adamw_fused},
};

}  // namespace

const KernelTable& kernels() {
  static const KernelTable table = aten::kernels_with(own);
  return table;
}

}  // namespace ac_advisor::trainer::cuda
