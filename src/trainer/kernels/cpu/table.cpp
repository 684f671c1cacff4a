#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer {
namespace {

using enum ir::OpKind;

struct Row {
  ir::OpKind kind;
  Kernel kernel;
};

// In the order of the enumeration.
constexpr std::array<Row, ir::op_kind_count> table{{
    {record_function, cpu::nothing},
    {hold, cpu::nothing},
    {view, cpu::view},
    {slice, cpu::slice},
    {split, cpu::split},
    {expand, cpu::expand},
    {embedding, cpu::embedding},
    {mm, cpu::mm},
    {addmm, cpu::addmm},
    {bmm, cpu::bmm},
    {baddbmm, cpu::baddbmm},
    {grouped_mm, cpu::grouped_mm},
    {cast, cpu::cast},
    {clone, cpu::clone},
    {add, cpu::add},
    {add_scalar, cpu::add_scalar},
    {mul, cpu::mul},
    {mul_scalar, cpu::mul_scalar},
    {div, cpu::div},
    {neg, cpu::neg},
    {ir::OpKind::pow, cpu::pow},
    {mean, cpu::mean},
    {rsqrt, cpu::rsqrt},
    {cat, cpu::cat},
    {sum, cpu::sum},
    {ir::OpKind::exp, cpu::exp},
    {silu, cpu::silu},
    {gelu_tanh, cpu::gelu},
    {ir::OpKind::tanh, cpu::tanh},
    {softmax, cpu::softmax},
    {dropout, cpu::dropout},
    {sdpa, cpu::sdpa},
    {ir::OpKind::cos, cpu::cos},
    {ir::OpKind::sin, cpu::sin},
    {arange, cpu::arange},
    {pad, cpu::pad},
    {masked_fill, cpu::masked_fill},
    {log_softmax, cpu::log_softmax},
    {nll_loss, cpu::nll_loss},
    {topk, cpu::topk},
    {sort, cpu::sort},
    {histc, cpu::histc},
    {cumsum, cpu::cumsum},
    {floor_divide, cpu::floor_divide},
    {ir::OpKind::index, cpu::index},
    {index_put, cpu::index_put},
    {empty, cpu::empty},
    {copy, cpu::copy},
    {compare, cpu::compare},
    {rms_norm, cpu::rms_norm},
    {add_rms_norm, cpu::add_rms_norm},
    {rope, cpu::rope},
    {swiglu, cpu::swiglu},
    {linear_cross_entropy, cpu::linear_cross_entropy},
    {precomputed_grad, cpu::precomputed_grad},
    {fill, cpu::fill},
    {embedding_backward, cpu::embedding_backward},
    {silu_backward, cpu::silu_backward},
    {gelu_backward, cpu::gelu_backward},
    {tanh_backward, cpu::tanh_backward},
    {softmax_backward, cpu::softmax_backward},
    {dropout_backward, cpu::dropout_backward},
    {sdpa_backward, cpu::sdpa_backward},
    {log_softmax_backward, cpu::log_softmax_backward},
    {nll_loss_backward, cpu::nll_loss_backward},
    {slice_backward, cpu::slice_backward},
    {index_backward, cpu::index_backward},
    {scatter, cpu::scatter},
    {accumulate, cpu::accumulate},
    {accumulate_inplace, cpu::accumulate_inplace},
    {rms_norm_backward, cpu::rms_norm_backward},
    {add_rms_norm_backward, cpu::add_rms_norm_backward},
    {rope_backward, cpu::rope_backward},
    {swiglu_backward, cpu::swiglu_backward},
    {linear_cross_entropy_backward, cpu::linear_cross_entropy_backward},
    {foreach, cpu::foreach},
    {adamw_fused, cpu::adamw_fused},
    {sgd_fused, cpu::sgd_fused},
    {all_gather_copy_in, cpu::all_gather_copy_in},
    {all_gather, cpu::all_gather},
    {all_gather_copy_out, cpu::all_gather_copy_out},
    {reduce_scatter_copy_in, cpu::reduce_scatter_copy_in},
    {reduce_scatter, cpu::reduce_scatter},
    {all_reduce, cpu::all_reduce},
    {bucket_copy, cpu::bucket_copy},
    {broadcast, cpu::nothing},
}};

constexpr bool complete() {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].kind != static_cast<ir::OpKind>(i) || table[i].kernel == nullptr) return false;
  return true;
}
static_assert(complete(), "one kernel a kind, in the order of the enumeration");

}  // namespace

Kernel kernel(ir::OpKind kind) { return table[static_cast<std::size_t>(kind)].kernel; }

}  // namespace ac_advisor::trainer
