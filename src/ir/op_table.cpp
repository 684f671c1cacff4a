#include "ac_advisor/ir/op_table.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "ac_advisor/ir/scratch.hpp"
#include "ac_advisor/ir/tiles.hpp"
#include "attention_workspace.hpp"
#include "derivatives.hpp"
#include "flash_workspace.hpp"
#include "library_products.hpp"
#include "shared_rows.hpp"
#include "whole_units.hpp"
#include "widened_places.hpp"

namespace ac_advisor::ir {
namespace {

using enum OpKind;
using C = CostClass;

using Blocks = std::vector<std::int64_t>;

std::int64_t together(const Blocks& blocks) {
  std::int64_t sum = 0;
  for (std::int64_t one : blocks) sum += allocated(one);
  return sum;
}

/// Several tensors of fp32 at once, each rounded as CUDA's allocator does.
std::int64_t scratch_of(std::initializer_list<std::int64_t> bytes) {
  std::int64_t sum = 0;
  for (std::int64_t one : bytes) sum += (one + 511) / 512 * 512;
  return sum;
}

// A tile of logits in fp32; forward: the targets' logits; backward: a scale, and in bf16 the tile's
// gradient narrowed and both gradients' fp32 sums (trainer/kernels/cuda/loss.cpp); a frozen weight
// has none.
std::int64_t cuda_loss_tiles(const Value& hidden, const Value& weight, bool backward, bool frozen) {
  const std::int64_t all = hidden.shape[0], h = hidden.shape.back(),
                     tokens = std::min(cuda_loss_tile_tokens, all),
                     words = std::min(cuda_loss_tile_vocab, weight.shape[0]),
                     logits = 4 * tokens * words;
  if (!backward) return scratch_of({logits, 4 * all});
  if (hidden.dtype == DType::f32) return scratch_of({logits, 4});
  if (frozen) return scratch_of({logits, 4, logits / 2, 4 * all * h});
  return scratch_of({logits, 4, logits / 2, 4 * all * h, 4 * words * h});
}

// fp32 logits of a tile, and in bf16 the tile's operands widened (trainer/kernels/cpu/loss.cpp).
std::int64_t loss_tiles(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const bool backward = op.kind == linear_cross_entropy_backward;
  const Value& hidden = p.value(p.input(op, backward ? 1 : 0));
  const Value& weight = p.value(p.input(op, backward ? 2 : 1));
  const bool frozen = op.outputs == 1;
  if (target.cuda) return target.trainer ? cuda_loss_tiles(hidden, weight, backward, frozen) : 0;
  const std::int64_t tokens = std::min(loss_tile_tokens, hidden.shape[0]),
                     words = std::min(loss_tile_vocab, weight.shape[0]), h = hidden.shape.back();
  std::int64_t floats = tokens * words;
  if (hidden.dtype != DType::f32) floats += (tokens + words) * h;
  if (hidden.dtype != DType::f32 && backward)
    floats += hidden.shape.numel() + (frozen ? 0 : words * h);
  return 4 * floats;
}

// ZeRO's gathered fp32 partitions, on their way into the parameters.
std::int64_t gathered_partitions(const Program& p, const Op& op, const WorkspaceTarget& target) {
  if ((target.cuda && !target.trainer) || op.phase != Phase::optimizer) return 0;
  const std::int64_t partition = p.value(p.input(op, 0)).shape.numel();
  std::int64_t elements = 0;
  for (std::size_t i = 1; i < op.inputs; ++i) elements += p.value(p.input(op, i)).shape.numel();
  return 4 * ((elements + partition - 1) / partition * partition);
}

// bitsandbytes v0.50, functional.dequantize_4bit: nested scales in fp32, gone before the product.
// The forward of gemm_4bit keeps its own to its end, so there they are values.
std::int64_t widened_scales(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const auto& a = ir::attributes<Dequantize>(op);
  if (!a.nested || target.trainer || !target.cuda) return 0;
  return scratch_of({p.value(p.output(op, 0)).shape.numel() / a.block * 4});
}

// bitsandbytes v0.50, backends/cuda/ops.py, int8_vectorwise_quant: |A| in 16 bits, and where it is
// beyond the threshold; without outliers what follows of them is empty.
Blocks row_outlier_blocks(const Program& p, const Op& op, const WorkspaceTarget& target) {
  if (target.trainer || !target.cuda) return {};
  const std::int64_t elements = p.value(p.input(op, 0)).shape.numel();
  return {2 * elements, elements};
}
std::int64_t row_outliers(const Program& p, const Op& op, const WorkspaceTarget& target) {
  return together(row_outlier_blocks(p, op, target));
}

// Partial sums of the weight's gradient, in fp32: one row per multiprocessor (Liger's rms_norm.py),
// or the trainer's.
std::int64_t norm_partials(const Program& p, const Op& op, const WorkspaceTarget& target) {
  if (!target.cuda) return 0;
  const Shape x = p.value(p.input(op, 1)).shape;
  const std::int64_t columns = x.back();
  const std::int64_t rows =
      target.trainer ? norm_partial_rows(x.numel() / columns, columns) : target.sm_count;
  return checked_mul(rows, columns * 4);
}

// Of many short rows parts of the weight's gradient are summed first, 32 rows a block, and then
// each other (aten/src/ATen/native/cuda/layer_norm_kernel.cu, v2.11:
// LaunchGammaBetaBackwardCUDAKernel).
std::int64_t norm_gamma_parts(const Program& p, const Op& op, const WorkspaceTarget& target) {
  constexpr std::int64_t many_rows = 64 * 1024, columns_of_block = 32, rows_of_block = 32;
  const Value& x = p.value(p.input(op, 1));
  const std::int64_t columns = x.shape.back(), rows = x.shape.numel() / columns,
                     across = (columns + columns_of_block - 1) / columns_of_block;
  if (!target.cuda || op.outputs < 2 || rows <= many_rows ||
      columns / columns_of_block >= target.sm_count / 2)
    return 0;
  const std::int64_t down =
      std::min(many_rows / 2 / across, (rows + rows_of_block - 1) / rows_of_block);
  return checked_mul(down, columns * size_of(p.value(p.output(op, 1)).dtype));
}

// embedding_dense_backward on CUDA beyond 3072 indices (aten/src/ATen/native/cuda/Embedding.cu and
// EmbeddingBackwardKernel.cu, v2.11): indices are sorted, each run of one index is cut into parts
// of ten, and the parts' sums, in fp32, are added. At the end: sorted and original positions, three
// figures a run, the parts' starts and sums, two counts.
Blocks embedding_blocks(const Program& p, const Op& op, const WorkspaceTarget& target) {
  constexpr std::int64_t unsorted = 3072, rows_of_part = 10, index = 8;
  const std::int64_t indices = p.value(p.input(op, 1)).shape.numel();
  if (!target.cuda || indices <= unsorted) return {};
  const Shape weight = p.value(p.output(op, 0)).shape;
  const std::int64_t runs = std::min(indices, weight[0]), parts = indices / rows_of_part + runs;
  return {index * indices,
          index * indices,
          index * runs,
          index * runs,
          index * runs,
          index * parts,
          checked_mul(parts, 4 * weight.back()),
          index,
          index};
}
std::int64_t embedding_parts(const Program& p, const Op& op, const WorkspaceTarget& target) {
  return together(embedding_blocks(p, op, target));
}

// Fused optimizers write what they read, but for the gradients: parameter, gradient and two moments
// are four reads and three writes; parameter and gradient two reads and one write.
constexpr double adamw_traffic = 7.0 / 4.0, sgd_traffic = 3.0 / 2.0;

// Partial results of `element` bytes, of each thread that has an output, and a semaphore a column
// of blocks (Reduce.cuh: global_memory_size).
Blocks partial_results(std::int64_t outputs, std::int64_t rows, std::int64_t element,
                       const WorkspaceTarget& target) {
  const SharedRows shared = shared_rows(outputs, rows, target.sm_count);
  if (shared.blocks <= 1) return {};
  return {checked_mul(element * outputs * shared.blocks, shared.threads), 4 * shared.columns};
}

// Partial sums are in fp32.
Blocks row_sum_blocks(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const Shape in = p.value(p.input(op, 0)).shape, to = p.value(p.output(op, 0)).shape;
  if (!target.cuda || target.trainer || ir::attributes<Sum>(op).over != SumOver::broadcast ||
      to.rank() == 0 || to.back() == 1)
    return {};
  return partial_results(to.numel(), in.numel() / to.numel(), 4, target);
}
std::int64_t shared_row_sums(const Program& p, const Op& op, const WorkspaceTarget& target) {
  return together(row_sum_blocks(p, op, target));
}

// Partial maxima are of the operand's type: of all of it, or of its columns; rows are short.
std::int64_t shared_amax(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const Shape in = p.value(p.input(op, 0)).shape, to = p.value(p.output(op, 0)).shape;
  if (!target.cuda) return 0;
  const std::int64_t element = size_of(p.value(p.input(op, 0)).dtype);
  if (to.rank() > 0)
    return to.back() == 1
               ? 0
               : together(partial_results(to.numel(), in.numel() / to.numel(), element, target));
  const std::int64_t shared = blocks_of_whole(in.numel(), target.sm_count);
  return shared <= 1 ? 0 : scratch_of({element * shared, 4});
}

// prepare_batch_matrix_for_cublas (aten/src/ATen/native/cuda/Blas.cpp).
std::int64_t copied_matrices(const Program& p, const Op& op, const WorkspaceTarget& target) {
  if (!target.cuda || !ir::attributes<Product>(op).copies_first) return 0;
  return p.bytes(p.input(op, op.kind == baddbmm ? 1 : 0));
}

// torchao's addmm_float8_unwrapped: both scales' reciprocals; a product that rows' and columns'
// scales multiply afterwards is given two ones in their place.
std::int64_t inverse_scales(const Program& p, const Op& op, const WorkspaceTarget&) {
  if (op.inputs > 4) return scratch_of({4, 4});
  return scratch_of({p.bytes(p.input(op, 2)), p.bytes(p.input(op, 3))});
}

// masked_scatter__cuda and launch_masked_scatter_kernel (aten/src/ATen/native/cuda/
// IndexKernel.cpp, .cu, v2.11): an int64 a place of all, the mask of all of them, and what cub's
// scan of it needs, 16 bytes for each 896.
std::int64_t scattered_places(const Program& p, const Op& op, const WorkspaceTarget& target) {
  if (!target.cuda) return 0;
  constexpr std::int64_t tile = 896, spare = 32, status = 16;
  const std::int64_t places = p.value(p.output(op, 0)).shape.numel();
  return scratch_of({checked_mul(8, places), places, status * (places / tile + spare)});
}

// masked_select is an index by nonzero (aten/src/ATen/native/cuda/Nonzero.cu, v2.11): three int64
// of each place that is chosen, while the mask of all places lives, and after it the result.
std::int64_t selected_places(const Program& p, const Op& op, const WorkspaceTarget& target) {
  if (!target.cuda) return 0;
  constexpr std::int64_t dims = 3, count = 512, blocks = std::int64_t{32} << 10;
  const std::int64_t places = p.value(p.input(op, 0)).shape.numel(),
                     chosen = p.value(p.output(op, 0)).shape.numel();
  return scratch_of({checked_mul(8 * dims, chosen)}) +
         std::max<std::int64_t>(
             scratch_of({places, count, blocks}) - scratch_of({p.bytes(p.output(op, 0))}), 0);
}

// What cuDNN 9.19's own planner says of its engines for sm_90, of patches that are an image each, a
// row of `x`: the kernel is as large as they are, and x and the weight's gradient are laid out with
// channels last, which are filled up to eight. Where an engine sums parts in fp32 it has more.
std::int64_t patches_with_channels_last(const Program& p, const Op& op,
                                        const WorkspaceTarget& target) {
  constexpr std::int64_t channels_together = 8;
  const Value& x = p.value(p.input(op, 1));
  const Shape weight = p.value(p.output(op, 0)).shape;
  if (!target.cuda || x.shape.rank() != 2) return 0;
  const auto filled = [&](std::int64_t numel) {
    return allocated(numel / weight[1] * channels_together * size_of(x.dtype));
  };
  return filled(x.shape.numel()) + filled(weight.numel());
}

// triangular_solve_kernel (aten/src/ATen/native/cuda/linalg/BatchLinearAlgebra.cpp, v2.11): up to
// eight matrices of 64 rows or more are solved one by one, more by cuBLAS's batched kernel, which
// is given a pointer to each of A and B.
constexpr std::int64_t solved_apart = 8, rows_of_few = 64;

std::int64_t matrix_pointers(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const Shape a = p.value(p.input(op, 0)).shape;
  const std::int64_t matrices = a.numel() / (a.back() * a.back());
  if (!target.cuda || (matrices <= solved_apart && a.back() >= rows_of_few)) return 0;
  return scratch_of({8 * matrices, 8 * matrices});
}

// conv_depthwise2d's gradient of the weight (aten/src/ATen/native/cuda/DepthwiseConv2d.cu, v2.11)
// reads channels one after another: what lies token by token is copied first.
std::int64_t contiguous_channels(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const ValueId x = p.input(op, 1);
  return target.cuda && p.value(x).permuted ? scratch_of({p.bytes(x)}) : 0;
}

std::int64_t wide_places(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const std::int64_t places = target.cuda ? widened_places(p, op) : 0;
  return places > 0 ? scratch_of({8 * places}) : 0;
}

// scan_dim (aten/src/ATen/native/cuda/ScanUtils.cuh, v2.11): of a contiguous copy.
std::int64_t scanned_rows(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const ValueId x = p.input(op, 0);
  return target.cuda && p.value(x).permuted ? scratch_of({p.bytes(x)}) : 0;
}

// softmax_backward_cuda_out (aten/src/ATen/native/cuda/SoftMax.cu, v2.11): grad * output, first.
std::int64_t softmax_product(const Program& p, const Op& op, const WorkspaceTarget& target) {
  return target.cuda ? p.bytes(p.output(op, 0)) : 0;
}

// clang-format off
constexpr std::array<OpRow, op_kind_count> table{{
  // kind, name, derivative, cost class, flops per output, traffic, dispatches, launches, mutates, workspace, attributes
  {record_function, "record_function", nullptr, C::none, 0, 0, 2, 0, 0, nullptr, RecordFunction{}},
  {hold, "hold", nullptr, C::none, 0, 0, 0, 0, 0, nullptr},
  {view, "view", derive::view, C::none, 0, 0, 0, 0, 0, nullptr},
  {slice, "slice", derive::slice, C::none, 0, 0, 0, 0, 0, nullptr, Slice{}},
  {split, "split", derive::split, C::none, 0, 0, 0, 0, 0, nullptr},
  {expand, "expand", derive::expand, C::none, 0, 0, 0, 0, 0, nullptr},
  {embedding, "embedding", derive::embedding, C::embedding, 0, 1, 1, 1, 0, nullptr, Embedding{}},
  {mm, "mm", derive::mm, C::matmul, 2, 1, 1, 1, 0, nullptr, Product{}},
  {addmm, "addmm", derive::addmm, C::matmul, 2, 1, 1, 1, 0, nullptr, Product{}},
  {bmm, "bmm", derive::bmm, C::matmul, 2, 1, 1, 1, 0, copied_matrices, Product{}},
  {baddbmm, "baddbmm", derive::baddbmm, C::matmul, 2, 1, 1, 1, 0, copied_matrices, Product{}},
  {grouped_mm, "_grouped_mm", derive::grouped_mm, C::matmul, 2, 1, 1, 1, 0, nullptr, Product{}},
  {cast, "_to_copy", derive::cast, C::pointwise, 0, 1, 1, 1, 0, nullptr},
  {clone, "clone", derive::clone, C::pointwise, 0, 1, 1, 1, 0, nullptr, Rearrange{}},
  {add, "add", derive::add, C::pointwise, 1, 1, 1, 1, 0, nullptr, Add{}},
  {add_scalar, "add", derive::pass_to_all, C::pointwise, 1, 1, 1, 1, 0, nullptr, Number{}},
  {mul, "mul", derive::mul, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {mul_scalar, "mul", derive::mul_scalar, C::pointwise, 1, 1, 1, 1, 0, nullptr, Number{}},
  {div, "div", derive::div, C::pointwise, 1, 1, 1, 1, 0, nullptr, Number{}},
  {neg, "neg", derive::neg, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {clamp, "clamp", derive::clamp, C::pointwise, 1, 1, 1, 1, 0, nullptr, Clamp{}},
  {minimum, "minimum", derive::minimum, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {OpKind::floor, "floor", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {OpKind::log, "log", derive::logarithm, C::pointwise, 4, 1, 1, 1, 0, nullptr},
  {OpKind::polar, "polar", nullptr, C::pointwise, 8, 1, 1, 1, 0, nullptr},
  {max, "max", derive::max, C::reduction, 1, 1, 1, 1, 0, nullptr},
  {OpKind::pow, "pow", derive::pow, C::pointwise, 1, 1, 1, 1, 0, nullptr, Power{}},
  {mean, "mean", derive::mean, C::reduction, 1, 1, 1, 1, 0, nullptr},
  {rsqrt, "rsqrt", derive::rsqrt, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {layer_norm, "native_layer_norm", derive::layer_norm, C::reduction, 8, 1, 1, 1, 0, nullptr, LayerNorm{}},
  {cat, "cat", derive::cat, C::pointwise, 0, 1, 1, 1, 0, nullptr},
  {sum, "sum", derive::sum, C::reduction, 1, 1, 1, 1, 0, shared_row_sums, Sum{}},
  {OpKind::exp, "exp_", nullptr, C::pointwise, 4, 1, 1, 1, 1, nullptr},
  {silu, "silu", derive::silu, C::pointwise, 4, 1, 1, 1, 0, nullptr},
  {gelu_tanh, "gelu", derive::gelu_tanh, C::pointwise, 8, 1, 1, 1, 0, nullptr},
  {gelu, "gelu", derive::gelu_tanh, C::pointwise, 8, 1, 1, 1, 0, nullptr},
  {relu, "relu", derive::relu, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {sigmoid, "sigmoid", derive::sigmoid, C::pointwise, 4, 1, 1, 1, 0, nullptr},
  {OpKind::tanh, "tanh", derive::tanh, C::pointwise, 4, 1, 1, 1, 0, nullptr},
  {softmax, "_softmax", derive::softmax, C::reduction, 5, 1, 1, 1, 0, nullptr},
  {dropout, "native_dropout", derive::dropout, C::pointwise, 2, 1, 1, 1, 0, nullptr, Dropout{}},
  {sdpa, "_scaled_dot_product_flash_attention", derive::sdpa, C::attention, 4, 1, 1, 1, 0, attention_forward_workspace, Sdpa{}},
  {OpKind::cos, "cos", derive::cos, C::pointwise, 4, 1, 1, 1, 0, nullptr},
  {OpKind::sin, "sin", derive::sin, C::pointwise, 4, 1, 1, 1, 0, nullptr},
  {arange, "arange", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr},
  {pad, "constant_pad_nd", derive::pad, C::pointwise, 0, 1, 1, 2, 0, nullptr},
  {masked_fill, "masked_fill", derive::masked_fill, C::pointwise, 0, 1, 1, 1, 0, nullptr},
  {log_softmax, "_log_softmax", derive::log_softmax, C::reduction, 5, 1, 1, 1, 0, nullptr},
  {nll_loss, "nll_loss_forward", derive::nll_loss, C::embedding, 1, 1, 1, 1, 0, nullptr, NllLoss{}},
  {topk, "topk", derive::topk, C::reduction, 2, 1, 1, 1, 0, nullptr, TopK{}},
  {gather, "gather", derive::gather, C::embedding, 0, 1, 1, 1, 0, nullptr},
  {sort, "sort", nullptr, C::reduction, 16, 4, 1, 4, 0, nullptr},
  {histc, "histc", nullptr, C::reduction, 1, 1, 1, 1, 0, nullptr, Histc{}},
  {cumsum, "cumsum", derive::cumsum, C::reduction, 1, 1, 1, 1, 0, scanned_rows},
  {floor_divide, "floor_divide", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr, FloorDivide{}},
  {OpKind::index, "index", derive::index, C::embedding, 0, 1, 1, 1, 0, wide_places},
  {index_put, "index_put_", derive::index_put, C::embedding, 0, 1, 1, 1, 1, wide_places},
  {empty, "empty", nullptr, C::none, 0, 0, 0, 0, 0, nullptr},
  {copy, "copy_", nullptr, C::pointwise, 0, 1, 1, 1, 1, nullptr},
  {copy_part, "copy_", derive::copy_part, C::pointwise, 0, 1, 1, 1, 1, nullptr, Slice{}},
  {compare, "ne", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr, Compare{}},
  {OpKind::rms_norm, "rms_norm", derive::rms_norm, C::reduction, 4, 1, 1, 1, 0, nullptr, RmsNorm{}},
  {OpKind::add_rms_norm, "add_rms_norm", derive::add_rms_norm, C::reduction, 5, 1, 1, 1, 0, nullptr, RmsNorm{}},
  {OpKind::rope, "rope", derive::rope, C::pointwise, 3, 1, 1, 1, 3, nullptr},
  {OpKind::swiglu, "swiglu", derive::swiglu, C::pointwise, 5, 1, 1, 1, 0, nullptr, SwiGlu{}},
  {OpKind::linear_cross_entropy, "linear_cross_entropy", derive::linear_cross_entropy, C::matmul, 2, 1, 1, 1, 0, loss_tiles, LinearCrossEntropy{}},
  {dequantize, "dequantize_4bit", nullptr, C::pointwise, 1, 1, 1, 1, 0, widened_scales, Dequantize{}},
  {quantize_rows, "int8_vectorwise_quant", nullptr, C::reduction, 2, 1, 4, 5, 0, row_outliers},
  {mm_int8, "int8_linear_matmul", nullptr, C::matmul, 2, 1, 1, 1, 0, nullptr, Product{}},
  {mm_quantized, "gemm_4bit", derive::mm_quantized, C::matmul, 2, 1, 1, 1, 0, nullptr, QuantizedProduct{}},
  {precomputed_grad, "precomputed_grad", derive::precomputed_grad, C::none, 0, 0, 0, 0, 0, nullptr},
  {tiled_log_probs, "sub", derive::tiled_log_probs, C::pointwise, 1, 1, 1, 1, 0, nullptr, TiledHead{}},
  {tiled_divergence, "add", derive::tiled_divergence, C::pointwise, 1, 1, 1, 1, 0, nullptr, TiledHead{}},
  {fill, "fill", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr, Number{}},
  {embedding_backward, "embedding_dense_backward", nullptr, C::embedding, 1, 1, 1, 6, 0, embedding_parts},
  {silu_backward, "silu_backward", nullptr, C::pointwise, 8, 1, 1, 1, 0, nullptr},
  {gelu_backward, "gelu_backward", nullptr, C::pointwise, 16, 1, 1, 1, 0, nullptr},
  {relu_backward, "threshold_backward", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {where, "where", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {sigmoid_backward, "sigmoid_backward", nullptr, C::pointwise, 3, 1, 1, 1, 0, nullptr},
  {tanh_backward, "tanh_backward", nullptr, C::pointwise, 3, 1, 1, 1, 0, nullptr},
  {layer_norm_backward, "native_layer_norm_backward", nullptr, C::reduction, 12, 1, 1, 2, 0, nullptr, LayerNorm{}},
  {softmax_backward, "_softmax_backward_data", nullptr, C::reduction, 4, 1, 1, 2, 0, softmax_product},
  {dropout_backward, "native_dropout_backward", nullptr, C::pointwise, 2, 1, 1, 1, 0, nullptr, Dropout{}},
  {sdpa_backward, "_scaled_dot_product_flash_attention_backward", nullptr, C::attention, 10, 1, 1, 3, 0, attention_backward_workspace, Sdpa{}},
  {log_softmax_backward, "_log_softmax_backward_data", nullptr, C::reduction, 4, 1, 1, 1, 0, nullptr},
  {nll_loss_backward, "nll_loss_backward", nullptr, C::pointwise, 0, 1, 1, 2, 0, nullptr},
  {slice_backward, "slice_backward", nullptr, C::pointwise, 0, 1, 1, 2, 0, nullptr, Slice{}},
  {index_backward, "index_put_", nullptr, C::embedding, 1, 1, 1, 6, 1, wide_places},
  {scatter, "scatter_", derive::scatter, C::embedding, 0, 1, 1, 1, 1, nullptr},
  {accumulate, "add", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {accumulate_inplace, "add_", nullptr, C::pointwise, 1, 1, 1, 1, 1, nullptr},
  {rms_norm_backward, "rms_norm_backward", nullptr, C::reduction, 8, 1, 1, 2, 1, norm_partials, RmsNorm{}},
  {add_rms_norm_backward, "add_rms_norm_backward", nullptr, C::reduction, 9, 1, 1, 2, 1, norm_partials, RmsNorm{}},
  {rope_backward, "rope_backward", nullptr, C::pointwise, 3, 1, 1, 1, 3, nullptr},
  {swiglu_backward, "swiglu_backward", nullptr, C::pointwise, 10, 1, 1, 1, 6, nullptr, SwiGlu{}},
  {linear_cross_entropy_backward, "linear_cross_entropy_backward", nullptr, C::matmul, 6, 1, 1, 1, 0, loss_tiles, LinearCrossEntropy{}},
  {foreach, "_foreach", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr, Foreach{}},
  {adamw_fused, "_fused_adamw_", nullptr, C::pointwise, 12, adamw_traffic, 1, 1, 0, nullptr},
  {sgd_fused, "_fused_sgd_", nullptr, C::pointwise, 2, sgd_traffic, 1, 1, 0, nullptr},
  {all_gather_copy_in, "all_gather_copy_in", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr, ExpertShards{}},
  {all_gather, "all_gather_into_tensor", nullptr, C::collective, 0, 1, 1, 1, 0, gathered_partitions, ExpertShards{}},
  {all_gather_copy_out, "split_with_sizes_copy", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr, ExpertShards{}},
  {reduce_scatter_copy_in, "chunk_cat", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr, ExpertShards{}},
  {reduce_scatter, "reduce_scatter_tensor", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr, ExpertShards{}},
  {all_reduce, "all_reduce", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr, ExpertShards{}},
  {bucket_copy, "copy_", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr, BucketCopy{}},
  {broadcast, "broadcast", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr},
  {tp_all_gather, "all_gather_into_tensor", derive::tp_all_gather, C::collective, 0, 1, 1, 1, 0, nullptr, TpGather{}},
  {tp_reduce_scatter, "reduce_scatter_tensor", derive::tp_reduce_scatter, C::collective, 0, 1, 1, 1, 0, nullptr, TpScatter{}},
  {tp_all_reduce, "all_reduce", derive::tp_all_reduce, C::collective, 0, 1, 1, 2, 0, nullptr, TpReduce{}},
  {ep_all_gather, "all_gather_into_tensor", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr},
  {ep_reduce_scatter, "reduce_scatter_tensor", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr},
  {all_to_all, "all_to_all_single", derive::all_to_all, C::collective, 0, 1, 1, 1, 0, nullptr},
  {send_recv, "send_recv", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr, SendReceive{}},
  {ring_exchange, "batch_isend_irecv", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr},
  {mask_shard, "index_put_", nullptr, C::pointwise, 0, 1, 1, 1, 1, nullptr},
  {vocab_parallel_loss, "vocab_parallel_loss", derive::vocab_parallel_loss, C::none, 0, 0, 0, 0, 0, nullptr, TpScatter{}},
  {tp_replicate, "from_local", derive::tp_replicate, C::none, 0, 0, 0, 0, 0, nullptr, TpScatter{}},
  {row_adapter, "row_adapter", derive::row_adapter, C::none, 0, 0, 0, 0, 0, nullptr, TpScatter{}},
  {amax, "amax", nullptr, C::reduction, 1, 1, 1, 1, 0, nullptr},
  {OpKind::abs, "abs", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {OpKind::random, "uniform_", nullptr, C::pointwise, 4, 1, 1, 1, 0, nullptr},
  {mul_of_view, "mul_", derive::mul_of_view, C::pointwise, 1, 1, 1, 1, 1, nullptr, Number{}},
  {recomputed_gelu, "mul", derive::recomputed_gelu, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {routing_multiplier, "mul", derive::routing_multiplier, C::pointwise, 1, 1, 1, 1, 0, nullptr},
  {safe_softmax, "masked_fill_", derive::safe_softmax, C::pointwise, 0, 1, 1, 1, 1, nullptr},
  {convolution, "convolution", derive::convolution, C::matmul, 2, 1, 1, 1, 0, nullptr, Product{}},
  {convolution_backward, "convolution_backward", nullptr, C::matmul, 2, 1, 1, 1, 0, patches_with_channels_last, Product{}},
  {masked_scatter, "masked_scatter", derive::masked_scatter, C::pointwise, 1, 4, 1, 6, 0, scattered_places},
  {masked_select, "masked_select", nullptr, C::pointwise, 1, 4, 1, 7, 0, selected_places},
  {orthogonalize, "linalg_vector_norm", nullptr, C::pointwise, 4, 1, 1, 1, 1, nullptr},
  {index_fill, "index_put_", nullptr, C::embedding, 0, 1, 1, 1, 1, nullptr},
  {index_add, "index_add_", nullptr, C::embedding, 1, 1, 1, 1, 1, nullptr},
  {exp_of, "exp", derive::exp_of, C::pointwise, 4, 1, 1, 1, 0, nullptr},
  {softplus, "softplus", derive::softplus, C::pointwise, 8, 1, 1, 1, 0, nullptr},
  {softplus_backward, "softplus_backward", nullptr, C::pointwise, 8, 1, 1, 1, 0, nullptr},
  {flip, "flip", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr},
  {triangle, "tril", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr},
  {solve_triangular, "linalg_solve_triangular", derive::solve_triangular, C::matmul, 1, 1, 1, 4, 0, matrix_pointers, Product{}},
  {depthwise_conv, "convolution", derive::depthwise_conv, C::pointwise, 8, 1, 1, 2, 0, nullptr},
  {depthwise_conv_backward, "convolution_backward", nullptr, C::pointwise, 16, 1, 1, 3, 0, contiguous_channels},
  {generated, "triton", nullptr, C::pointwise, 1, 1, 1, 1, 0, nullptr, Generated{}},
  {compiled_unit, "CompiledFunction", derive::compiled_unit, C::none, 0, 0, 0, 0, 0, nullptr, CompiledUnit{}},
  {autograd_function, "Function", derive::compiled_unit, C::none, 0, 0, 0, 0, 0, nullptr, CompiledUnit{}},
  {copy_to_host, "copy_", nullptr, C::none, 0, 0, 1, 0, 0, nullptr},
  {copy_from_host, "copy_", nullptr, C::none, 0, 0, 1, 0, 0, nullptr},
  {fp8_amax, "amax", nullptr, C::reduction, 1, 1, 1, 1, 0, shared_amax, Float8{}},
  {fp8_scale, "amax_to_scale", nullptr, C::pointwise, 5, 1, 5, 5, 0, nullptr, Float8{}},
  {scaled_mm, "_scaled_mm", nullptr, C::matmul, 2, 1, 3, 3, 0, inverse_scales, Product{}},
  {fp8_product, "_scaled_mm", nullptr, C::matmul, 2, 1, 1, 1, 0, nullptr, Product{}},
  {float8_linear, "matmul_with_hp_or_float8_args", derive::float8_linear, C::none, 0, 0, 0, 0, 0, nullptr, Float8{}},
  {mx_cast, "mxfp8_quantize", nullptr, C::pointwise, 2, 1, 1, 1, 0, nullptr, Float8{}},
  {mx_blocked, "to_blocked", nullptr, C::pointwise, 0, 1, 2, 2, 0, nullptr},
  {vector_norm, "linalg_vector_norm", derive::vector_norm, C::reduction, 2, 1, 1, 1, 0, nullptr},
  {log_sigmoid, "log_sigmoid_forward", derive::softplus, C::pointwise, 8, 1, 1, 1, 0, nullptr},
  {cp_all_gather, "all_gather_into_tensor", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr},
  {cp_all_to_all, "all_to_all_single", derive::cp_all_to_all, C::collective, 0, 1, 1, 1, 0, nullptr, Exchange{}},
  {cp_reduce_scatter, "reduce_scatter", nullptr, C::collective, 0, 1, 1, 1, 0, nullptr},
  {weighted_loss, "weighted_loss", derive::weighted_loss, C::none, 0, 0, 0, 0, 0, nullptr, TpScatter{}},
  {ring_attention, "ring_attention", derive::ring_attention, C::none, 0, 0, 0, 0, 0, nullptr, RingAttention{}},
  {eye, "eye", nullptr, C::pointwise, 0, 1, 1, 2, 0, nullptr},
  {mm_dequant, "int8_mm_dequant", nullptr, C::pointwise, 2, 1, 1, 1, 0, nullptr},
  {repeat_interleave, "repeat_interleave", nullptr, C::embedding, 0, 1, 1, 1, 0, nullptr},
  {hada_weight, "HadaWeight", derive::hada_weight, C::none, 0, 0, 0, 0, 0, nullptr},
  {host_read, "_local_scalar_dense", nullptr, C::none, 0, 0, 1, 0, 0, nullptr},
  {fused_rms_norm, "_fused_rms_norm", derive::fused_rms_norm, C::reduction, 4, 1, 1, 1, 0, nullptr, RmsNorm{}},
  {fused_rms_norm_backward, "_fused_rms_norm_backward", nullptr, C::reduction, 8, 1, 1, 2, 0, norm_gamma_parts, RmsNorm{}},
  {complex_mul, "mul", derive::complex_mul, C::pointwise, 3, 1, 1, 1, 0, nullptr},
  {captured, "captured", nullptr, C::pointwise, 0, 1, 1, 1, 0, nullptr, Captured{}},
}};
// clang-format on

constexpr bool rows_in_order() {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].kind != static_cast<OpKind>(i)) return false;
  return true;
}
static_assert(rows_in_order(), "one row per kind, in the order of the enumeration");

}  // namespace

std::span<const OpRow, op_kind_count> op_table() { return table; }

std::int32_t dispatches(const Op& op) {
  const std::int32_t one = row(op.kind).dispatches;
  return op.kind == OpKind::record_function ? one * ir::attributes<RecordFunction>(op).ranges : one;
}

const OpRow& row(OpKind kind) { return table[static_cast<std::size_t>(kind)]; }

const char* name_of(const Program& program, const Op& op) {
  if (op.kind != captured) return row(op.kind).name;
  const auto name = static_cast<std::size_t>(attributes<Captured>(op).name);
  return program.captured_names.at(name).c_str();
}

std::int32_t inner_dimension(const Op& op) {
  if (const auto* product = std::get_if<Product>(&op.attributes)) return product->inner;
  if (const auto* product = std::get_if<QuantizedProduct>(&op.attributes)) return product->inner;
  return ir::attributes<LinearCrossEntropy>(op).hidden;
}

double keys_per_query(const Program& program, const Op& op) {
  const std::size_t at = op.kind == sdpa ? 0 : 1;
  const Shape &q = program.value(program.input(op, at)).shape,
              &k = program.value(program.input(op, at + 1)).shape;
  const std::int64_t tokens = q[2], window = ir::attributes<Sdpa>(op).window;
  if (!ir::attributes<Sdpa>(op).causal) return static_cast<double>(k[2]);
  if (const std::int64_t documents = ir::attributes<Sdpa>(op).documents; documents > 0) {
    // lengths n and n + 1, of which (n + 1) / 2 and (n + 2) / 2 keys a query
    const auto n = static_cast<double>(tokens / documents),
               longer = static_cast<double>(tokens % documents),
               shorter = static_cast<double>(documents) - longer;
    const double pairs = shorter * n * (n + 1) / 2 + longer * (n + 1) * (n + 2) / 2;
    return pairs / static_cast<double>(tokens);
  }
  const double s = static_cast<double>(tokens);
  const double w = static_cast<double>(window > 0 ? std::min(window, tokens) : tokens);
  return (w * s - w * (w - 1.0) / 2.0) / s;
}

double flops(const Program& program, const Op& op) {
  const OpRow& r = row(op.kind);
  if (op.kind == captured) return attributes<Captured>(op).flops;
  if (r.flops_per_output == 0 || op.outputs == 0) return 0;
  const double elements = static_cast<double>(program.value(program.output(op, 0)).shape.numel());
  if (op.kind == linear_cross_entropy || op.kind == linear_cross_entropy_backward) {
    // logits (2), in backward logits again and each gradient 2: tokens x vocabulary x hidden
    const std::size_t hidden = op.kind == linear_cross_entropy ? 0 : 1;
    const double rows =
        static_cast<double>(program.value(program.input(op, hidden)).shape.numel()) /
        inner_dimension(op);
    const double weight =
        static_cast<double>(program.value(program.input(op, hidden + 1)).shape.numel());
    return (hidden == 0 ? 2.0 : 2.0 + 2.0 * op.outputs) * rows * weight;
  }
  if (r.cost == CostClass::matmul) return r.flops_per_output * elements * inner_dimension(op);
  if (r.cost == CostClass::attention)
    return r.flops_per_output * elements * keys_per_query(program, op);
  return r.flops_per_output * elements;
}

double traffic_bytes(const Program& program, const Op& op) {
  const OpRow& r = row(op.kind);
  if (r.traffic == 0) return 0;
  double bytes = 0;
  const auto out = program.outputs(op);
  const auto in = program.inputs(op);
  double written = 0;
  for (ValueId v : out) written += static_cast<double>(program.bytes(v));
  bytes += written;
  for (ValueId v : in) {
    const double size = static_cast<double>(program.bytes(v));
    // A lookup reads the rows that it puts out, not the whole table.
    bytes += r.cost == CostClass::embedding ? std::min(size, written) : size;
  }
  return bytes * r.traffic;
}

std::vector<std::int64_t> scratch_blocks(const Program& program, const Op& op,
                                         const WorkspaceTarget& target) {
  if (const std::int64_t bytes = product_workspace(program, op, target); bytes > 0) return {bytes};
  if (op.kind == sum) return row_sum_blocks(program, op, target);
  if (op.kind == embedding_backward) return embedding_blocks(program, op, target);
  if (op.kind == quantize_rows) return row_outlier_blocks(program, op, target);
  const bool flash = target.cuda && op.kind == sdpa_backward && runs_flash_attention(op, target);
  if (flash) return flash_backward_blocks(program, op, target);
  const std::int64_t bytes = workspace_bytes(program, op, target);
  return bytes > 0 ? std::vector{bytes} : std::vector<std::int64_t>();
}

std::int64_t workspace_bytes(const Program& program, const Op& op, const WorkspaceTarget& target) {
  const OpRow& r = row(op.kind);
  const std::int64_t own = r.workspace == nullptr ? 0 : r.workspace(program, op, target);
  return own + product_workspace(program, op, target);
}

}  // namespace ac_advisor::ir
