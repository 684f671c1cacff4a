#include "flash_workspace.hpp"

#include <algorithm>
#include <cmath>

#include "whole_units.hpp"

namespace ac_advisor::ir {
namespace {

/// Tokens that are attended at once: all, or the longest document's.
std::int64_t longest(const Value& x, std::int64_t documents) {
  return documents > 0 ? ceil_div(x.shape[2], documents) : x.shape[2];
}
/// Bytes of the longest document's part of the value.
std::int64_t part_of(const Program& p, ValueId v, std::int64_t documents) {
  const Value& x = p.value(v);
  return p.bytes(v) / x.shape[2] * longest(x, documents);
}

// Tiles of flash attention on a CPU, PyTorch 2.11, aten/src/ATen/native/cpu/
// FlashAttentionKernel.cpp: fp32 scratch for each thread, in bf16 also a narrow copy. What oneDNN
// allocates inside its bf16 products is not in it.
struct CpuTiles {
  std::int64_t rows, columns, threads;
  bool wide;
};
CpuTiles cpu_tiles(const Program& p, ValueId query, ValueId key, std::int64_t documents,
                   const WorkspaceTarget& target) {
  const Value& q = p.value(query);
  const std::int64_t tokens = longest(q, documents), keys = longest(p.value(key), documents);
  const std::int64_t rows = tokens >= 768 ? 256 : tokens >= 192 ? 64 : 32;
  return {std::min(rows, tokens), std::min<std::int64_t>(512, keys), target.threads,
          q.dtype == DType::f32};
}

// What follows is aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp, PyTorch 2.11.

/// head_size_rounded
std::int64_t rounded_head(std::int64_t dim) { return rounded(dim, dim <= 128 ? 32 : 64); }

/// num_splits_heuristic: too few tiles of queries for the multiprocessors have the keys cut as
/// well.
std::int64_t key_splits(std::int64_t tiles, std::int64_t key_blocks, std::int64_t sm_count) {
  const std::int64_t slots = 2 * sm_count;
  if (static_cast<float>(tiles) >= 0.8F * static_cast<float>(slots)) return 1;
  const std::int64_t most = std::min({std::int64_t{128}, slots, key_blocks});
  const auto efficiency = [&](std::int64_t splits) {
    // As many blocks a split as with one split less: nothing is gained.
    if (splits > 1 && ceil_div(key_blocks, splits) == ceil_div(key_blocks, splits - 1)) return 0.0F;
    const float waves = static_cast<float>(tiles * splits) / static_cast<float>(slots);
    return waves / std::ceil(waves);
  };
  float best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) best = std::max(best, efficiency(splits));
  for (std::int64_t splits = 1; splits <= most; ++splits)
    if (efficiency(splits) > 0 && efficiency(splits) >= 0.85F * best) return splits;
  return 1;
}

}  // namespace

bool copied_for_flash(const Value& value) {
  constexpr std::int8_t tokens = 2;
  if (value.shape.rank() != 4) return false;
  if (value.batch_at > 0) return true;
  if (value.narrow_dim == tokens && value.shape[0] > 1) return true;  // a part of each sequence
  return !value.permuted && value.shape[1] > 1 && value.shape[tokens] > 1;
}

std::int64_t flash_forward_workspace(const Program& p, const Op& op,
                                     const WorkspaceTarget& target) {
  const Shape q = p.value(p.input(op, 0)).shape, k = p.value(p.input(op, 1)).shape;
  const std::int64_t documents = attributes<Sdpa>(op).documents;
  if (!target.cuda) {
    const CpuTiles t = cpu_tiles(p, p.input(op, 0), p.input(op, 1), documents, target);
    const std::int64_t dim = p.value(p.input(op, 2)).shape[3];
    const std::int64_t narrow = t.wide ? 0 : 2 * t.rows * t.columns;
    const std::int64_t tiles = t.threads * (4 * t.rows * (t.columns + 2 + dim) + narrow);
    if (documents == 0) return tiles;
    // LibTorch's own output and log-sum-exp of one document, which are copied into the row's
    return tiles + part_of(p, p.output(op, 0), documents) +
           4 * q[1] * longest(p.value(p.input(op, 0)), documents);
  }
  if (documents > 0) return 0;  // mha_varlen_fwd splits when decoding alone
  // set_params_splitkv: the splits' outputs and log-sum-exps, in fp32
  const std::int64_t dim = q[3], block = dim <= 64 ? 256 : dim <= 128 ? 128 : 64;
  const std::int64_t splits =
      key_splits(q[0] * q[1] * ceil_div(q[2], 64), ceil_div(k[2], block), target.sm_count);
  if (splits == 1) return 0;
  const std::int64_t rows = checked_mul(splits * q[0] * q[1], q[2]);
  return allocated(4 * rows) + allocated(checked_mul(rows, 4 * rounded_head(dim)));
}

// mha_bwd: softmax_d and dq_accum in fp32 with tokens rounded to 128, where deterministic one for
// each of the splits that fill the processors, and dk, dv expanded to the query's heads;
// mha_varlen_bwd: with 128 tokens more for each document instead.
std::vector<std::int64_t> flash_backward_blocks(const Program& p, const Op& op,
                                                const WorkspaceTarget& target) {
  const Shape q = p.value(p.input(op, 1)).shape, k = p.value(p.input(op, 2)).shape;
  const std::int64_t documents = attributes<Sdpa>(op).documents;
  const std::int64_t tokens = documents > 0 ? q[2] + 128 * documents : rounded(q[2], 128);
  const std::int64_t rows = checked_mul(q[0] * q[1], tokens);
  const std::int64_t splits =
      target.deterministic && target.sm_count > 0 ? ceil_div(target.sm_count, q[0] * q[1]) : 1;
  std::vector<std::int64_t> blocks{4 * rows, checked_mul(rows, splits * 4 * rounded_head(q[3]))};
  if (k[1] != q[1])
    blocks.resize(4, checked_mul(q.numel() / q[2] * k[2], size_of(p.value(p.input(op, 1)).dtype)));
  // _flash_attention_backward (aten/src/ATen/native/transformers/cuda/attention_backward.cu):
  // contiguous copies of the gradient and of the output, which flash-attn's own does not make
  // (v2.8, flash_attn_interface.py: maybe_contiguous)
  if (!target.trainer && documents == 0 && attributes<Sdpa>(op).kernel != SdpaKernel::flash_attn)
    for (const std::size_t i : {0, 4})
      if (const Value& v = p.value(p.input(op, i)); copied_for_flash(v))
        blocks.push_back(p.bytes(p.input(op, i)));
  // The trainer's stand-in for a generator's state, which PyTorch has saved.
  if (target.trainer) blocks.push_back(2 * 8);
  return blocks;
}

namespace {

std::int64_t cpu_backward_workspace(const Program& p, const Op& op, const WorkspaceTarget& target) {
  const std::int64_t documents = attributes<Sdpa>(op).documents;
  const CpuTiles t = cpu_tiles(p, p.input(op, 1), p.input(op, 2), documents, target);
  const std::int64_t narrow = t.wide ? 0 : 2 * 2 * t.rows * t.columns;
  // scores and their gradient; a row's sum
  std::int64_t bytes = t.threads * (2 * t.rows * t.columns * 4 + narrow) + t.rows * 4;
  // cpu_flash_attention_backward: grad_out.contiguous()
  const ValueId gradient = p.input(op, 0);
  if (copied_for_flash(p.value(gradient))) bytes += part_of(p, gradient, documents);
  for (std::size_t i = 0; target.trainer && i < op.outputs; ++i) {
    const ValueId out = p.output(op, i);
    if (documents > 0)  // LibTorch's own gradients of one document
      bytes += part_of(p, out, documents);
    else if (!p.value(out).permuted)  // one that is copied into the program's layout
      bytes = std::max(bytes, p.bytes(out));
  }
  return bytes;
}

}  // namespace

std::int64_t flash_backward_workspace(const Program& p, const Op& op,
                                      const WorkspaceTarget& target) {
  if (!target.cuda) return cpu_backward_workspace(p, op, target);
  std::int64_t bytes = 0;
  for (std::int64_t block : flash_backward_blocks(p, op, target)) bytes += allocated(block);
  return bytes;
}

}  // namespace ac_advisor::ir
