#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

using enum ir::OpKind;

constexpr KernelRow own[] = {
    {grouped_mm, cpu::grouped_mm},
    {dropout, cpu::dropout},
    {sdpa, cpu::sdpa},
    {histc, cpu::histc},
    {index_put, cpu::index_put},
    {rms_norm, cpu::rms_norm},
    {add_rms_norm, cpu::add_rms_norm},
    {rope, cpu::rope},
    {swiglu, cpu::swiglu},
    {linear_cross_entropy, cpu::linear_cross_entropy},
    {dropout_backward, cpu::dropout_backward},
    {sdpa_backward, cpu::sdpa_backward},
    {scatter, cpu::scatter},
    {rms_norm_backward, cpu::rms_norm_backward},
    {add_rms_norm_backward, cpu::add_rms_norm_backward},
    {rope_backward, cpu::rope_backward},
    {swiglu_backward, cpu::swiglu_backward},
    {linear_cross_entropy_backward, cpu::linear_cross_entropy_backward},
    {adamw_fused, cpu::adamw_fused},
};

}  // namespace

const KernelTable& kernels() {
  static const KernelTable table = aten::kernels_with(own);
  return table;
}

}  // namespace ac_advisor::trainer::cpu
