#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {
namespace {

using enum ir::OpKind;

// In the order of the enumeration; null: each device has its own.
constexpr std::array<KernelRow, ir::op_kind_count> rows{{
    {record_function, aten::nothing},
    {hold, aten::nothing},
    {view, aten::view},
    {slice, aten::slice},
    {split, aten::split},
    {expand, aten::expand},
    {embedding, aten::embedding},
    {mm, aten::mm},
    {addmm, aten::addmm},
    {bmm, aten::bmm},
    {baddbmm, nullptr},
    {grouped_mm, nullptr},
    {cast, aten::cast},
    {clone, aten::clone},
    {add, aten::add},
    {add_scalar, aten::add_scalar},
    {mul, aten::mul},
    {mul_scalar, aten::mul_scalar},
    {div, aten::div},
    {neg, aten::neg},
    {clamp, aten::clamp},
    {minimum, nullptr},            // the trainer refuses --task grpo
    {ir::OpKind::floor, nullptr},  // of models that the trainer refuses, and what follows
    {ir::OpKind::log, aten::log},
    {ir::OpKind::polar, nullptr},
    {max, nullptr},
    {ir::OpKind::pow, aten::pow},
    {mean, aten::mean},
    {rsqrt, aten::rsqrt},
    {layer_norm, nullptr},  // the trainer refuses the families that have it, and what follows
    {cat, aten::cat},
    {sum, aten::sum},
    {ir::OpKind::exp, aten::exp},
    {silu, aten::silu},
    {gelu_tanh, aten::gelu},
    {gelu, nullptr},  // the same
    {relu, nullptr},
    {sigmoid, aten::sigmoid},
    {ir::OpKind::tanh, aten::tanh},
    {softmax, aten::softmax},
    {dropout, nullptr},
    {sdpa, nullptr},
    {ir::OpKind::cos, aten::cos},
    {ir::OpKind::sin, aten::sin},
    {arange, aten::arange},
    {pad, aten::pad},
    {masked_fill, aten::masked_fill},
    {log_softmax, aten::log_softmax},
    {nll_loss, aten::nll_loss},
    {topk, aten::topk},
    {gather, aten::gather},
    {sort, aten::sort},
    {histc, nullptr},
    {cumsum, aten::cumsum},
    {floor_divide, aten::floor_divide},
    {ir::OpKind::index, aten::index},
    {index_put, nullptr},
    {empty, aten::empty},
    {copy, aten::copy},
    {copy_part, nullptr},
    {compare, aten::compare},
    {rms_norm, nullptr},
    {add_rms_norm, nullptr},
    {rope, nullptr},
    {swiglu, nullptr},
    {linear_cross_entropy, nullptr},
    {dequantize, nullptr},
    {quantize_rows, nullptr},  // layers in 8 bits are the CPU's alone
    {mm_int8, nullptr},
    {mm_quantized, aten::mm_quantized},
    {precomputed_grad, aten::precomputed_grad},
    {tiled_log_probs, nullptr},  // the trainer refuses it, too
    {tiled_divergence, nullptr},
    {fill, aten::fill},
    {embedding_backward, aten::embedding_backward},
    {silu_backward, aten::silu_backward},
    {gelu_backward, aten::gelu_backward},
    {relu_backward, nullptr},
    {where, nullptr},
    {sigmoid_backward, nullptr},
    {tanh_backward, aten::tanh_backward},
    {layer_norm_backward, nullptr},
    {softmax_backward, aten::softmax_backward},
    {dropout_backward, nullptr},
    {sdpa_backward, nullptr},
    {log_softmax_backward, aten::log_softmax_backward},
    {nll_loss_backward, aten::nll_loss_backward},
    {slice_backward, aten::slice_backward},
    {index_backward, aten::index_backward},
    {scatter, nullptr},
    {accumulate, aten::accumulate},
    {accumulate_inplace, aten::accumulate_inplace},
    {rms_norm_backward, nullptr},
    {add_rms_norm_backward, nullptr},
    {rope_backward, nullptr},
    {swiglu_backward, nullptr},
    {linear_cross_entropy_backward, nullptr},
    {foreach, aten::foreach},
    {adamw_fused, nullptr},
    {sgd_fused, aten::sgd_fused},
    {all_gather_copy_in, aten::all_gather_copy_in},
    {all_gather, aten::all_gather},
    {all_gather_copy_out, aten::all_gather_copy_out},
    {reduce_scatter_copy_in, aten::reduce_scatter_copy_in},
    {reduce_scatter, aten::reduce_scatter},
    {all_reduce, aten::all_reduce},
    {bucket_copy, aten::bucket_copy},
    {broadcast, aten::nothing},
    {tp_all_gather, aten::tp_all_gather},
    {tp_reduce_scatter, aten::tp_reduce_scatter},
    {tp_all_reduce, aten::tp_all_reduce},
    {ep_all_gather, nullptr},  // the trainer refuses what has these
    {ep_reduce_scatter, nullptr},
    {all_to_all, aten::all_to_all},
    {send_recv, aten::send_recv},
    {ring_exchange, aten::ring_exchange},
    {mask_shard, aten::mask_shard},
    {vocab_parallel_loss, aten::nothing},
    {tp_replicate, nullptr},  // the trainer refuses --tp --no-sp
    {row_adapter, nullptr},   // the trainer refuses --tp --lora
    {amax, aten::amax},
    {ir::OpKind::abs, aten::abs},
    {ir::OpKind::random, nullptr},  // the trainer refuses the families that have these
    {mul_of_view, nullptr},
    {recomputed_gelu, nullptr},
    {routing_multiplier, nullptr},
    {safe_softmax, nullptr},
    {convolution, nullptr},
    {convolution_backward, nullptr},
    {masked_scatter, nullptr},
    {masked_select, nullptr},
    {orthogonalize, nullptr},
    {index_fill, nullptr},
    {index_add, nullptr},
    {exp_of, nullptr},
    {softplus, nullptr},
    {softplus_backward, nullptr},
    {flip, nullptr},
    {triangle, nullptr},
    {solve_triangular, nullptr},
    {depthwise_conv, nullptr},
    {depthwise_conv_backward, nullptr},
    {generated, nullptr},
    {compiled_unit, aten::nothing},
    {autograd_function, nullptr},
    {copy_to_host, nullptr},
    {copy_from_host, nullptr},
    {fp8_amax, nullptr},  // the trainer refuses --fp8
    {fp8_scale, nullptr},
    {scaled_mm, nullptr},
    {fp8_product, nullptr},
    {float8_linear, nullptr},
    {mx_cast, nullptr},
    {mx_blocked, nullptr},
    {vector_norm, aten::vector_norm},
    {log_sigmoid, aten::log_sigmoid},
    {cp_all_gather, aten::cp_all_gather},
    {cp_all_to_all, aten::cp_all_to_all},
    {cp_reduce_scatter, aten::cp_reduce_scatter},
    {weighted_loss, aten::nothing},
    {ring_attention, aten::nothing},
    {ir::OpKind::eye, aten::eye},
    {mm_dequant, nullptr},
    {repeat_interleave, aten::repeat_interleave},
    {hada_weight, nullptr},  // the trainer refuses --adapter
    {host_read, aten::nothing},
    {fused_rms_norm, nullptr},  // the trainer has transformers' layers alone
    {fused_rms_norm_backward, nullptr},
    {complex_mul, nullptr},
    {captured, nullptr},  // the trainer refuses imported graphs
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].kind != static_cast<ir::OpKind>(i)) return false;
  return true;
}
static_assert(in_order(), "one row a kind, in the order of the enumeration");

}  // namespace

KernelTable kernels_with(std::span<const KernelRow> own) {
  KernelTable table{};
  for (const KernelRow& row : rows) table[static_cast<std::size_t>(row.kind)] = row.kernel;
  for (const KernelRow& row : own) table[static_cast<std::size_t>(row.kind)] = row.kernel;
  return table;
}

}  // namespace ac_advisor::trainer::aten
