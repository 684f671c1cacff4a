#pragma once

#include <cstdint>

/// The fused kernels, on raw pointers: neither LibTorch nor CUDA's headers are seen through here.
/// Two implementations of the same bodies: device/cuda/ launches them on a GPU, device/host/ runs
/// them thread by thread on the host (the reference that tests compare with LibTorch).
/// All of it is deterministic; sums are in fp32.
namespace ac_advisor::trainer::cuda::device {

enum class Element : std::uint8_t { f32, bf16 };
/// A cudaStream_t; not used on the host.
using Stream = void*;

/// Rows of contiguous elements whose starts are strided: row r = (i * sizes[1] + j) * sizes[2] + k
/// starts at element i * strides[0] + j * strides[1] + k * strides[2]. Null data: not given.
struct Rows {
  void* data = nullptr;
  std::int64_t sizes[3] = {1, 1, 1};
  std::int64_t strides[3] = {0, 0, 0};  ///< in elements
};

/// y = x r w, r = 1 / sqrt(mean(x²) + epsilon); with `added` x is the rounded sum x + added, which
/// goes to `sum`.
struct NormForward {
  Element type = Element::f32;  ///< of x, added, weight, y and sum
  Rows x, added, y, sum;
  const void* weight = nullptr;  ///< [columns]
  float* inverse_rms = nullptr;  ///< [rows]
  std::int64_t rows = 0, columns = 0;
  float epsilon = 0;
  bool unit_offset = false;  ///< Gemma's (1 + weight), multiplied before the rounding
};
void rms_norm(const NormForward& norm, Stream stream);

/// dx = r (g w - x r² dot(g w, x) / n) + other; dx may lie where g does. dweight = Σ_rows g x r.
struct NormBackward {
  Element type = Element::f32;
  Rows g, dx, x, other;
  const void* weight = nullptr;
  const float* inverse_rms = nullptr;
  void* dweight = nullptr;    ///< [columns], of `type`
  float* partials = nullptr;  ///< [partial_rows, columns], scratch
  /// How many there may be. On a GPU no more are used than run at once: 2^21 / columns are enough.
  std::int64_t partial_rows = 0;
  std::int64_t rows = 0, columns = 0;
  bool unit_offset = false;
};
void rms_norm_backward(const NormBackward& norm, Stream stream);

/// Rotates the first `width` elements of each row of x (B, heads, S, D) into y, which may be x; the
/// rest is copied. cos, sin: [S, width] of `type`. `back`: the transposed rotation.
struct Rope {
  Element type = Element::f32;
  Rows x, y;  ///< rows in the order (B, heads, S)
  const void* cos = nullptr;
  const void* sin = nullptr;
  std::int64_t rows = 0, columns = 0, tokens = 0, width = 0;
  bool back = false;
};
/// q and k in one launch.
void rope(const Rope& q, const Rope& k, Stream stream);

/// y = act(gate) * up; act is SiLU, or GELU's tanh form.
struct Swiglu {
  Element type = Element::f32;
  Rows gate, up, y;
  std::int64_t rows = 0, columns = 0;
  bool gelu = false;
};
void swiglu(const Swiglu& call, Stream stream);
/// dgate and dup may lie where gate and up do.
struct SwigluBackward {
  Element type = Element::f32;
  Rows g, gate, up, dgate, dup;
  std::int64_t rows = 0, columns = 0;
  bool gelu = false;
};
void swiglu_backward(const SwigluBackward& call, Stream stream);

/// One parameter of AdamW (Loshchilov and Hutter 2019), all of `type`, `elements` long.
struct AdamWTensor {
  Element type = Element::f32;
  void* parameter = nullptr;
  const void* gradient = nullptr;
  void* average = nullptr;
  void* square = nullptr;
  float* step = nullptr;  ///< device memory; counted up by this call
  std::int64_t elements = 0;
};
struct AdamW {
  const float* learning_rate = nullptr;  ///< device memory: a captured graph reads it anew
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 1e-2;
};
/// Updates all tensors: one launch that counts 4000 steps, and one for each 512 tensors.
void adamw(const AdamWTensor* tensors, std::int64_t count, const AdamW& settings, Stream stream);
/// What adamw launches for `count` tensors.
[[nodiscard]] std::int64_t adamw_launches(std::int64_t count);

/// One tensor and its parts in a buffer of shards. Part r of `elements`, `part` long (the last ones
/// shorter, or empty), is copied from `from` + r * from_stride to `to` + r * to_stride, strides in
/// elements; `pads`: what a part is short of is set to 0.
struct ShardCopy {
  Element from_type = Element::f32, to_type = Element::f32;
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t elements = 0, part = 0, parts = 1;
  std::int64_t from_stride = 0, to_stride = 0;
  bool pads = false;
};
/// One launch for each 512 tensors.
void copy_shards(const ShardCopy* copies, std::int64_t count, Stream stream);

/// A tile of linear + cross-entropy's logits (Wijmans et al. 2024): rows are tokens, columns are
/// the words [first_word, first_word + words).
struct LossTile {
  float* logits = nullptr;                ///< [tokens, words], row-major
  const std::int64_t* targets = nullptr;  ///< [tokens] of this tile; -100 is ignored
  std::int64_t tokens = 0, words = 0, first_word = 0;
  float cap = 0;  ///< soft cap (Gemma 2): cap * tanh(logit / cap); 0: none
};
/// Adds the tile to each row's log-sum-exp, and notes the target's logit. Before the first tile
/// log_sum_exp is -inf and target_logit 0.
void loss_forward(const LossTile& tile, float* log_sum_exp, float* target_logit, Stream stream);
/// loss = mean over the tokens that count of log_sum_exp - target_logit; 0 tokens: divided by 1.
void loss_mean(const float* log_sum_exp, const float* target_logit, const std::int64_t* targets,
               std::int64_t tokens, void* loss, Element loss_type, Stream stream);
/// scale = gradient / tokens that count.
void loss_scale(const void* gradient, Element gradient_type, const std::int64_t* targets,
                std::int64_t tokens, float* scale, Stream stream);
/// gradient (of `type`, [tokens, words]; in fp32 it may be the logits themselves) =
/// (softmax - one_hot) * scale, through the soft cap; 0 for ignored tokens.
void loss_backward(const LossTile& tile, const float* log_sum_exp, const float* scale,
                   void* gradient, Element type, Stream stream);

/// Multiplies each element of `from` by `scale`, or with probability p by 0, as counter_rng.hpp
/// draws: key = combine(combine(combine(*step_key, micro), rank), op), counter = the element's
/// index.
struct Dropout {
  Element type = Element::f32;
  const void* from = nullptr;
  void* data = nullptr;          ///< where it goes; it may be `from`
  std::uint8_t* mask = nullptr;  ///< null: none; 1 where kept
  std::int64_t elements = 0;
  double p = 0;
  float scale = 1;
  const std::uint64_t* step_key = nullptr;  ///< device memory
  std::uint64_t micro = 0, rank = 0, op = 0;
};
void dropout(const Dropout& call, Stream stream);

}  // namespace ac_advisor::trainer::cuda::device
