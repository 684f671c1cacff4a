// What the device sees of an op: kernels, memsets and copies on the device. PyTorch 2.11's unless
// said otherwise, as its own launches on the emulated device tell (tests/oracle/emulated_peaks.py).
#include <algorithm>
#include <limits>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/ir/tiles.hpp"
#include "ac_advisor/ir/torch_facts.hpp"
#include "flash_workspace.hpp"
#include "shared_rows.hpp"
#include "widened_places.hpp"

namespace ac_advisor::ir {
namespace {

using enum OpKind;

/// trainer/kernels/cuda/loss.cpp: a product and a kernel a tile, in backward a product more
/// for each gradient; the fills and the mean, or the scale and the copies of sums that were apart.
std::int64_t cuda_loss_launches(const Program& p, const Op& op) {
  const bool backward = op.kind == linear_cross_entropy_backward;
  const Value& hidden = p.value(p.input(op, backward ? 1 : 0));
  const std::int64_t words = p.value(p.input(op, backward ? 2 : 1)).shape[0];
  const std::int64_t columns = (words + cuda_loss_tile_vocab - 1) / cuda_loss_tile_vocab;
  const std::int64_t tiles =
      columns * ((hidden.shape[0] + cuda_loss_tile_tokens - 1) / cuda_loss_tile_tokens);
  if (!backward) return 2 * tiles + 3;
  const bool frozen = op.outputs == 1, apart = hidden.dtype != DType::f32;
  return (frozen ? 3 : 4) * tiles + 1 + (apart ? (frozen ? 0 : columns) + 1 : 0);
}

/// trainer/kernels/aten/: a sum and a division, a copy and what is done to it in place.
bool two_launches(OpKind kind) {
  return kind == mean || kind == add_scalar || kind == pad || kind == floor_divide;
}

/// trainer/kernels/cuda/device/device.hpp: 4000 step counters a launch, 512 tensors a launch; each
/// tensor has a parameter, a gradient, two moments and a counter.
std::int64_t cuda_adamw_launches(const Op& op) {
  const std::int64_t tensors = op.inputs / 5;
  return (tensors + 3999) / 4000 + (tensors + 511) / 512;
}

/// The same, copy_shards: 512 tensors a launch.
std::int64_t shard_copy_launches(std::int64_t tensors) { return (tensors + 511) / 512; }

/// LibTorch's multi-tensor kernels, 320 chunks of 65536 elements each.
std::int64_t trainer_list_launches(const Program& p, const Op& op) {
  std::int64_t chunks = 0;
  for (ValueId v : p.inputs(op))
    if (p.storage(p.storage_of(v)).role == Role::parameter)
      chunks += (p.value(v).shape.numel() + 65535) / 65536;
  return std::max<std::int64_t>(1, (chunks + 319) / 320);
}

/// powerSGD_hook.py, _orthogonalize_gram_schmidt: a column's norm and division; where columns
/// follow it, a product, a sum, a product and a subtraction.
std::int64_t gram_schmidt_launches(const Program& p, const Op& op) {
  return 6 * p.value(p.input(op, 0)).shape.back() - 4;
}

std::int64_t trainer_launches(const Program& p, const Op& op) {
  if (op.kind == linear_cross_entropy || op.kind == linear_cross_entropy_backward)
    return cuda_loss_launches(p, op);
  if (op.kind == adamw_fused) return cuda_adamw_launches(op);
  if (op.kind == foreach && op.inputs == 0) return 0;  // AdamW counts its steps itself
  if (op.kind == foreach || op.kind == sgd_fused) return trainer_list_launches(p, op);
  if (op.kind == cat) return op.inputs;  // a copy each
  if (op.kind == all_gather_copy_in || op.kind == reduce_scatter_copy_in)
    return shard_copy_launches(op.inputs);
  if (op.kind == all_gather_copy_out) return shard_copy_launches(op.outputs);
  if (two_launches(op.kind)) return 2;
  return row(op.kind).launches;
}

// aten/src/ATen/native/cuda/MultiTensorApply.cuh: a kernel takes so many chunks of 65536 elements,
// of as many tensors as its argument has room for.
constexpr std::int64_t chunk_elements = 65536;
/// depth_to_max_tensors, by the lists that a kernel walks along together; with a scalar a tensor
/// (depth_to_max_tensors_scalarlist) the first has room for fewer.
std::int64_t most_tensors(const MultiTensorRoom& room, std::size_t lists, bool scalars) {
  return scalars && lists == 1 ? room.tensors_with_scalars : room.tensors[lists - 1];
}

std::int64_t multi_tensor_launches(const TorchFacts& torch,
                                   const std::vector<std::int64_t>& elements, std::size_t lists,
                                   bool scalars = false) {
  const std::int64_t room = most_tensors(torch.multi_tensor, lists, scalars),
                     most_chunks = torch.multi_tensor.chunks;
  std::int64_t launched = 0, tensors = 0, chunks = 0;
  for (std::int64_t n : elements) {
    if (n == 0) continue;
    ++tensors;
    chunks += (n + chunk_elements - 1) / chunk_elements;
    if (chunks >= most_chunks) {
      launched += chunks / most_chunks;
      chunks %= most_chunks;
      tensors = chunks > 0 ? 1 : 0;  // the tensor that is not finished goes on in the next
    } else if (tensors == room) {
      ++launched;
      chunks = tensors = 0;
    }
  }
  return launched + (chunks > 0 ? 1 : 0);
}

std::vector<std::int64_t> sizes_of(const Program& p, std::span<const ValueId> values) {
  std::vector<std::int64_t> sizes;
  for (ValueId v : values) sizes.push_back(p.value(v).shape.numel());
  return sizes;
}

std::vector<std::int64_t> sizes_of(const Program& p, std::span<const ValueId> values, Role role) {
  std::vector<ValueId> found;
  for (ValueId v : values)
    if (p.storage(p.storage_of(v)).role == role) found.push_back(v);
  return sizes_of(p, found);
}

/// torch.optim.AdamW(fused=True): its step counters, then parameters, gradients and two moments.
std::int64_t fused_adamw_launches(const Program& p, const Op& op, const TorchFacts& torch) {
  const std::vector<std::int64_t> parameters = sizes_of(p, p.inputs(op), Role::parameter);
  if (parameters.empty())  // ZeRO's masters of a partition, which are one tensor
    return 1 + multi_tensor_launches(torch, {p.value(p.input(op, 0)).shape.numel()}, 4);
  return multi_tensor_launches(torch, std::vector<std::int64_t>(parameters.size(), 1), 1) +
         multi_tensor_launches(torch, parameters, 4);
}

/// What a stage of the foreach form goes over: a tensor a parameter.
std::vector<std::int64_t> walked(const Program& p, const Op& op) {
  for (Role role : {Role::parameter, Role::gradient, Role::temporary})
    if (std::vector<std::int64_t> sizes = sizes_of(p, p.inputs(op), role); !sizes.empty())
      return sizes;
  if (op.outputs > 0) return sizes_of(p, p.outputs(op));
  std::vector<std::int64_t> second;  // of two moments
  for (std::int64_t n : sizes_of(p, p.inputs(op)))
    if (n > 1) second.push_back(n);
  for (std::size_t i = 1; i < second.size(); ++i)
    second.erase(second.begin() + static_cast<std::ptrdiff_t>(i));
  return second;
}

/// A multi-tensor op: what its pass says, or by the lists that it walks along. Without lists it is
/// on step counters, which are on the host.
std::int64_t foreach_launches(const Program& p, const Op& op, const TorchFacts& torch) {
  const Foreach& a = attributes<Foreach>(op);
  if (a.launches > 0) return a.launches;
  if (a.lists == 0 || op.inputs == 0) return 0;
  return multi_tensor_launches(torch, walked(p, op), static_cast<std::size_t>(a.lists), a.scalars);
}

/// Passes of cub's sort by as many bits as the number of the last of so many rows has, eight a
/// pass.
std::int64_t sorting_passes(std::int64_t rows) {
  std::int64_t passes = 1;
  for (std::int64_t left = (rows - 1) >> 8; left > 0; left >>= 8) ++passes;
  return passes;
}

/// embedding_dense_backward on CUDA (EmbeddingBackwardKernel.cu): a fill and a kernel; beyond 3072
/// indices a sort of 64-bit keys, whose passes, and the cub kernels after it, clear their scratch
/// first: of eight passes 21 kernels and 10 memsets.
std::int64_t embedding_launches(const Program& p, const Op& op, const TorchFacts& torch) {
  constexpr std::int64_t unsorted = 3072, all_bits = 8, beside = 15;
  if (p.value(p.input(op, 1)).shape.numel() <= unsorted) return 2;
  const std::int64_t passes = torch.sorts_tokens_by_vocabulary
                                  ? sorting_passes(p.value(p.output(op, 0)).shape[0])
                                  : all_bits;
  return beside + 2 * passes;
}

/// Keys that one block of a sort holds: one kernel then does all.
constexpr std::int64_t sorted_by_block = 4096;

/// An index of booleans is nonzero's places first (aten/src/ATen/native/cuda/Nonzero.cu): counted,
/// scanned, written and transposed.
constexpr std::int64_t places_of_mask = 4;

std::int64_t widening(const Program& p, const Op& op) { return widened_places(p, op) > 0 ? 1 : 0; }

bool by_mask(const Program& p, const Op& op) { return p.value(p.input(op, 1)).dtype == DType::u8; }

/// The backward of indexing sorts its indices by as many bits as the largest row's number has,
/// eight a pass, each a kernel and a memset (index_put_with_sort_kernel, Indexing.cu): eight
/// kernels and a memset beside; few indices by one kernel, of six: cub's DeviceRadixSort has 256
/// threads of nine 64-bit keys for them (SingleTilePolicy).
std::int64_t index_backward_launches(const Program& p, const Op& op) {
  constexpr std::int64_t single_tile = 256 * 9;
  if (by_mask(p, op)) return places_of_mask + 6;
  if (p.value(p.input(op, 1)).shape.numel() <= single_tile) return 6;
  return 9 + 2 * sorting_passes(p.value(p.output(op, 0)).shape[0]);
}

/// Sort.cpp: more keys than a block holds by eight passes over 64 bits: eleven kernels, nine
/// memsets and two copies.
std::int64_t sort_launches(const Program& p, const Op& op) {
  return p.value(p.input(op, 0)).shape.numel() <= sorted_by_block ? 5 : 22;
}

/// Of many short rows the weight's gradient comes in parts (op_table.cpp, norm_gamma_parts), which
/// are summed then.
std::int64_t norm_launches(const Program& p, const Op& op) {
  const std::int64_t own = row(op.kind).launches, parts = workspace_bytes(p, op, {});
  if (parts == 0) return own;
  const Value& weight = p.value(p.output(op, 1));
  const std::int64_t columns = weight.shape.numel();
  const std::int64_t rows = parts / (columns * size_of(weight.dtype));
  return own + (shared_rows(columns, rows, counted_sms).blocks > 1 ? 2 : 1);
}

/// Where several blocks share an output, their semaphores are cleared first.
std::int64_t row_sum_launches(const Program& p, const Op& op) {
  const Shape in = p.value(p.input(op, 0)).shape, out = p.value(p.output(op, 0)).shape;
  if (attributes<Sum>(op).over != SumOver::broadcast || out.rank() == 0 || out.back() == 1)
    return 1;
  return shared_rows(out.numel(), in.numel() / out.numel(), counted_sms).blocks > 1 ? 2 : 1;
}

/// The same for the largest of a tensor, or of its columns; max_all copies what is not contiguous.
std::int64_t amax_launches(const Program& p, const Op& op) {
  const Shape in = p.value(p.input(op, 0)).shape, out = p.value(p.output(op, 0)).shape;
  const std::int64_t copies = op.outputs > 1 ? 1 : 0;
  if (out.rank() > 0 && out.back() == 1) return 1;
  const std::int64_t blocks =
      out.rank() == 0 ? blocks_of_whole(in.numel(), counted_sms)
                      : shared_rows(out.numel(), in.numel() / out.numel(), counted_sms).blocks;
  return 1 + copies + (blocks > 1 ? 1 : 0);
}

/// The right-hand side copied; a kernel a matrix, or two for lists of pointers and one for all.
std::int64_t solve_launches(const Program& p, const Op& op) {
  constexpr std::int64_t apart = 8, rows = 64;
  const Shape a = p.value(p.input(op, 0)).shape;
  const std::int64_t matrices = a.numel() / (a.back() * a.back());
  return matrices <= apart && a.back() >= rows ? 1 + matrices : 4;
}

/// Reciprocals of both scales, and the product; scales of rows and columns that multiply it
/// afterwards are ones in it, which are filled.
std::int64_t scaled_product_launches(const Op& op) { return op.inputs > 4 ? 6 : 3; }

/// To fp64, a clamp, a reciprocal, a product, to fp32; those of rows are rounded to powers of two
/// by log2, floor and exp2. What ranks have reduced is in fp64 already.
std::int64_t scale_launches(const Program& p, const Op& op) {
  const bool wide = p.value(p.input(op, 0)).dtype == DType::i64;
  return (attributes<Float8>(op).rowwise ? 8 : 5) - (wide ? 1 : 0);
}

/// A copy each, and two where scales do not fill their tiles: zeros, and the scales among them.
std::int64_t blocked_launches(const Program& p, const Op& op) {
  const std::size_t last = static_cast<std::size_t>(op.outputs) - 1;
  const bool filled = p.value(p.input(op, 0)).shape == p.value(p.output(op, last)).shape;
  return op.outputs + (filled ? 0 : 1);
}

/// TensorIterator: a pointwise kernel indexes with 32 bits, up to an operand's last element's first
/// byte (can_use_32bit_indexing); larger operands are halved until they can be.
std::int64_t pieces(const Program& p, const Op& op) {
  std::int64_t count = 1;
  const auto halve = [&](ValueId v) {
    const std::int64_t bytes = p.bytes(v), element = size_of(p.value(v).dtype);
    while (bytes / count - element >= std::numeric_limits<std::int32_t>::max()) count *= 2;
  };
  for (ValueId v : p.inputs(op)) halve(v);
  for (ValueId v : p.outputs(op)) halve(v);
  return count;
}

/// What TensorIterator runs, one kernel for all of its operands.
bool is_elementwise(OpKind kind) {
  switch (kind) {
    case cast:
    case clone:
    case add:
    case add_scalar:
    case mul:
    case mul_scalar:
    case div:
    case neg:
    case clamp:
    case minimum:
    case where:
    case copy_part:
    case OpKind::pow:
    case rsqrt:
    case OpKind::exp:
    case exp_of:
    case log_sigmoid:
    case softplus:
    case softplus_backward:
    case silu:
    case gelu_tanh:
    case gelu:
    case relu:
    case sigmoid:
    case OpKind::tanh:
    case copy:
    case compare:
    case fill:
    case silu_backward:
    case gelu_backward:
    case relu_backward:
    case sigmoid_backward:
    case tanh_backward:
    case accumulate:
    case accumulate_inplace:
    case OpKind::abs:
    case mul_of_view:
    case recomputed_gelu:
    case safe_softmax:
      return true;
    default:
      return false;
  }
}

/// Its seed and its offset are apart.
bool cudnn_drops(const Program& p, const Op& op) {
  constexpr std::size_t seed = 2;
  return op.outputs > seed && p.value(p.output(op, seed)).shape == Shape{1};
}

bool shares_keys(const Program& p, const Op& op) {
  return p.value(p.input(op, 1)).shape[1] != p.value(p.input(op, 2)).shape[1];
}

/// The memory-efficient kernel's mask has rows of whole 8 elements: filled and copied where it has
/// not (preprocess_mask and pad_bias of ATen/native/transformers/attention.cpp).
bool pads_mask(const Program& p, const Op& op) {
  constexpr std::size_t operands = 3;
  constexpr std::int64_t alignment = 8;
  return attributes<Sdpa>(op).kernel == SdpaKernel::efficient && op.inputs > operands &&
         p.value(p.input(op, operands)).shape.back() % alignment != 0;
}

/// Where flash attention is asked for by name: each part's output and sums are scratch. Counted of
/// encoders' attention, which has neither a mask nor dropout.
bool splits_keys(const Program& p, const Op& op) {
  const Sdpa& sdpa = attributes<Sdpa>(op);
  return sdpa.kernel == SdpaKernel::flash && !sdpa.causal && flash_forward_workspace(p, op, {}) > 0;
}

/// Of the gradient and of the output, where flash attention is asked for by name.
std::int64_t copies_before_flash(const Program& p, const Op& op) {
  const Sdpa& sdpa = attributes<Sdpa>(op);
  if (sdpa.kernel != SdpaKernel::flash || sdpa.documents > 0) return 0;
  return (copied_for_flash(p.value(p.input(op, 0))) ? 1 : 0) +
         (copied_for_flash(p.value(p.input(op, 4))) ? 1 : 0);
}

}  // namespace

std::int64_t launches(const Program& program, const Op& op, bool trainer, TorchVersion version) {
  if (trainer) return trainer_launches(program, op);
  const TorchFacts& torch = facts_of(version);
  switch (op.kind) {
    case adamw_fused:
      return fused_adamw_launches(program, op, torch);
    case sgd_fused:
      return multi_tensor_launches(torch, sizes_of(program, program.inputs(op), Role::parameter),
                                   2);
    case foreach:
      if (op.phase == Phase::optimizer) return foreach_launches(program, op, torch);
      if (const auto* told = std::get_if<Foreach>(&op.attributes); told && told->launches > 0)
        return told->launches;
      return multi_tensor_launches(torch, sizes_of(program, program.inputs(op)), 2);
    case reduce_scatter_copy_in: {
      // _chunk_cat_out_cuda (TensorShape.cu): one kernel where dtypes are the same, or bf16 becomes
      // fp32; otherwise cat copies one tensor after the other.
      const bool widened = program.value(program.output(op, 0)).dtype == DType::f32 &&
                           program.value(program.input(op, 0)).dtype == DType::f16;
      return widened ? op.inputs : 1;
    }
    case all_gather_copy_in:
      return multi_tensor_launches(torch, sizes_of(program, program.inputs(op)), 2);
    case embedding_backward:
      return embedding_launches(program, op, torch);
    case sum:
      return row_sum_launches(program, op);
    case fused_rms_norm_backward:
      return norm_launches(program, op);
    case cat:  // Shape.cu: one kernel joins 128 tensors of up to four dimensions
      return program.value(program.output(op, 0)).shape.rank() > 4 ? op.inputs
                                                                   : (op.inputs + 127) / 128;
    case dequantize: {
      // bitsandbytes v0.50: scales in 8 bits are widened and their offset added before; bytes are
      // cast, and multiplied by their rows' scales, which are divided (MatMul8bitLt.backward)
      const Dequantize& of = attributes<Dequantize>(op);
      return of.nested || of.block == 1 ? 3 : 1;
    }
    case baddbmm:  // the bias is copied, and the product added to it
      return 2;
    case softmax_backward:  // its product by TensorIterator, then a kernel
      return 1 + pieces(program, op);
    case sdpa_backward:  // keys' and values' gradients of each query's head are added up
      // efficient: zeros, its kernel; in fp32 a row's sum of do * o before it, by a product and a
      // copy
      if (attributes<Sdpa>(op).kernel == SdpaKernel::efficient)
        return program.value(program.input(op, 1)).dtype == DType::f32 ? 5 : 2;
      return row(op.kind).launches + (shares_keys(program, op) ? 2 : 0) +
             copies_before_flash(program, op);
    case sdpa: {  // a kernel writes what cuDNN's dropout starts from; one joins flash's split keys
      const bool efficient = attributes<Sdpa>(op).kernel == SdpaKernel::efficient;
      return row(op.kind).launches + (cudnn_drops(program, op) ? 1 : 0) +
             (splits_keys(program, op) ? 1 : 0) + (pads_mask(program, op) ? 2 : 0) +
             (torch.efficient_state_on_device && efficient ? 2 : 0);
    }
    case slice_backward:  // zeros, and the slice's gradient, if it has elements
      return program.value(program.input(op, 0)).shape.numel() > 0 ? row(op.kind).launches : 1;
    case tp_all_reduce:  // a functional collective's copy before it, unless it is in place
      return row(op.kind).launches - (op.outputs == 0 ? 1 : 0);
    case broadcast:  // of what was joined, and a copy back to each
      return op.inputs;
    case pad:  // by nothing, or by less than nothing: a copy; else a fill and a copy
      return program.value(program.input(op, 0)).shape.numel() <
                     program.value(program.output(op, 0)).shape.numel()
                 ? 2
                 : 1;
    case masked_fill: {  // by a number, out of place: of a copy; of two tensors (where): a kernel
      const bool own = op.inputs == 2 && program.storage_of(program.input(op, 0)) !=
                                             program.storage_of(program.output(op, 0));
      return pieces(program, op) * (own ? 2 : 1);
    }
    case solve_triangular:
      return solve_launches(program, op);
    case nll_loss_backward:  // a fill of the logits' size, then its kernel
      return 1 + (torch.sets_zeros_by_memset ? 1 : pieces(program, op));
    case cumsum:  // along rows a kernel, of a contiguous copy
      if (const Value& x = program.value(program.input(op, 0)); x.shape.rank() > 2)
        return x.permuted ? 2 : 1;
      return 2;       // booleans are widened first; cub clears its state first
    case histc:       // a fill, and the counts
    case grouped_mm:  // one kernel makes the arguments of the other
      return 2;
    case fp8_amax:
      return amax_launches(program, op);
    case fp8_scale:
      return scale_launches(program, op);
    case scaled_mm:
      return scaled_product_launches(op);
    case mx_blocked:
      return blocked_launches(program, op);
    case topk:  // what is found is sorted, unless it is one
      return attributes<TopK>(op).k > 1 && attributes<TopK>(op).sorted ? 2 : 1;
    case captured:
      return attributes<Captured>(op).launches;
    case generated:
      return attributes<Generated>(op).launches;
    case orthogonalize:
      return gram_schmidt_launches(program, op);
    case OpKind::index:
      return widening(program, op) + (by_mask(program, op) ? places_of_mask + 1 : 1);
    case index_put:
    case index_fill:
      return widening(program, op) + row(op.kind).launches +
             (op.inputs > 1 && by_mask(program, op) ? places_of_mask : 0);
    case convolution:  // its bias is added, or summed, by a kernel of its own
      return row(op.kind).launches + (op.inputs > 2 ? 1 : 0);
    case convolution_backward:
      return op.outputs;
    case index_backward:
      return widening(program, op) + index_backward_launches(program, op);
    case masked_scatter: {  // a mask that is as large as what is written is not copied first
      const bool whole = program.value(program.input(op, 1)).shape.numel() ==
                         program.value(program.output(op, 0)).shape.numel();
      return row(op.kind).launches - (whole ? 1 : 0);
    }
    case sort:
      return sort_launches(program, op);
    default:
      return is_elementwise(op.kind) ? row(op.kind).launches * pieces(program, op)
                                     : row(op.kind).launches;
  }
}

}  // namespace ac_advisor::ir
