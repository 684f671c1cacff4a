#pragma once

#include "ac_advisor/ir/op_kind.hpp"

namespace ac_advisor::test {

/// Ops of models and layers that the trainer refuses, on a GPU or everywhere: it has no kernels for
/// them there.
inline bool refused_by_trainer(ir::OpKind kind) {
  using enum ir::OpKind;
  if (kind >= dequantize && kind <= mm_int8) return true;
  if (kind >= ep_all_gather && kind <= ep_reduce_scatter) return true;
  for (ir::OpKind refused : {orthogonalize,  // compressed gradients', which the CPU alone has
                             index_fill,
                             copy_to_host,
                             copy_from_host,
                             index_add,
                             baddbmm,
                             layer_norm,
                             layer_norm_backward,
                             gelu,
                             relu,
                             relu_backward,
                             fused_rms_norm,  // TorchTitan's and torchtune's own layers
                             fused_rms_norm_backward,
                             complex_mul,
                             hada_weight,  // LoHa's
                             sigmoid_backward,
                             floor,
                             polar,
                             max,
                             where,
                             minimum,       // of GRPO's loss
                             row_adapter,   // of --tp --lora
                             tp_replicate,  // of --tp --no-sp
                             copy_part,
                             tiled_log_probs,
                             tiled_divergence,
                             generated,
                             autograd_function,
                             fp8_amax,
                             fp8_scale,
                             scaled_mm,
                             fp8_product,
                             float8_linear,
                             mx_cast,
                             mx_blocked,
                             captured,
                             random,
                             mul_of_view,
                             recomputed_gelu,
                             routing_multiplier,
                             safe_softmax,
                             convolution,
                             convolution_backward,
                             masked_scatter,
                             masked_select,
                             exp_of,
                             softplus,
                             softplus_backward,
                             flip,
                             triangle,
                             solve_triangular,
                             depthwise_conv,
                             depthwise_conv_backward,
                             mm_dequant})
    if (kind == refused) return true;
  return false;
}

}  // namespace ac_advisor::test
