#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace ac_advisor::ir {

/// Which operand of a matrix product is transposed: nt is `x wᵀ` (a linear layer), nn is `g w` (the
/// gradient of its input), tn is `gᵀ x` (the gradient of its weight).
enum class Form : std::uint8_t { nt, nn, tn };
/// How a `compare` op combines its operands; the last two: one operand and a number.
enum class Comparison : std::uint8_t {
  not_equal,
  less_equal,
  greater,
  both,
  either,
  equal,
  below,
  at_least
};
/// What a `sum` adds up: the sizes that its output has not; top-k's rows of one token, [tokens x k,
/// H] to [tokens, H]; repeated heads, [B, kv, groups, S, D] to [B, kv, S, D], and what all experts
/// made of each token, [experts, tokens, H] to [tokens, H]; a token's top-k of a product that no
/// view changed, [tokens, k, H] to [tokens, H], whose gradient is an expanded view.
enum class SumOver : std::uint8_t { broadcast, experts, groups, choices };
enum class Reduction : std::uint8_t { mean, sum, none };
enum class Gate : std::uint8_t { silu, gelu_tanh };

// One struct for each kind of op that has attributes, by the names that PyTorch gives them.

struct RecordFunction {
  std::int32_t ranges = 1;  ///< profiler ranges: each begins and ends by a dispatched op
};
struct Product {           ///< mm, addmm, bmm, baddbmm, grouped_mm
  std::int32_t inner = 0;  ///< K: multiply-adds an output element
  Form form = Form::nt;
  bool saves_input = false;  ///< mm: for backward, whether or not the weight has a gradient
  /// bmm, baddbmm: its first matrices' rows and columns are both apart in memory, so that cuBLAS is
  /// given a copy (prepare_batch_matrix_for_cublas).
  bool copies_first = false;
  double alpha = 1;  ///< baddbmm: what the product is multiplied by
};
struct LinearCrossEntropy {
  double soft_cap = 0;  ///< of the logits; 0: none
  std::int32_t hidden = 0;
};
/// What PyTorch runs scaled_dot_product_attention with; automatic: what the device prefers;
/// flash_attn: that package's own function in its place.
enum class SdpaKernel : std::uint8_t { automatic, flash, cudnn, efficient, flash_attn };
struct Sdpa {
  double scale = 1;         ///< of the scores
  std::int32_t window = 0;  ///< tokens that a query sees, itself included; 0: all before it
  SdpaKernel kernel = SdpaKernel::automatic;
  bool causal = true;  ///< a query sees no token after it
  /// Of a row of tokens, each attended for itself by the kernel for variable lengths; 0: it is not
  /// that kernel. Lengths differ by at most one token.
  std::uint16_t documents = 0;
};
struct Slice {
  std::int32_t start = 0;  ///< along `dim`
  std::int32_t dim = -1;   ///< -1: the last; where the output lacks it, one entry is selected
};
struct Add {
  double alpha = 1;         ///< what the second operand is multiplied by
  bool transposed = false;  ///< which is a matrix that lies the other way round
};
struct Number {  ///< add_scalar, mul_scalar, div by a number, fill
  double value = 0;
};
struct Clamp {  ///< an end that is not there: infinite
  double low = 0;
  double high = 0;
};
struct Power {
  double exponent = 0;
};
struct Sum {
  SumOver over = SumOver::broadcast;
};
struct Dropout {
  double probability = 0;
  std::int32_t block = 0;  ///< a part of the generator's key
};
struct Compare {
  double number = 0;  ///< where there is one operand
  Comparison how = Comparison::not_equal;
};
struct NllLoss {
  Reduction reduction = Reduction::mean;
};
struct TopK {
  std::int32_t k = 0;
  bool in_turn = false;  ///< whatever the scores: the next k of all, so that loads are balanced
  bool sorted = true;    ///< the largest first
};
struct Histc {
  std::int32_t bins = 0;
};
struct FloorDivide {
  std::int32_t divisor = 1;
};
struct RmsNorm {
  double epsilon = 0;
  bool unit_offset = false;  ///< Gemma's: multiplies by (1 + weight)
};
struct LayerNorm {
  double epsilon = 0;
};
struct SwiGlu {
  Gate gate = Gate::silu;
};
struct Dequantize {
  std::int32_t block = 64;  ///< weights a scale
  bool nested = false;      ///< scales are 8-bit themselves: widened inside
};
struct QuantizedProduct {
  std::int32_t inner = 0;  ///< K; 0: the product itself was made before, by mm_int8
  Dequantize of;
  bool biased = false;   ///< the last input is the layer's bias
  bool in_fp16 = false;  ///< in backward the weight comes out of its codes in fp16 and is cast
};
struct Float8 {             ///< fp8_amax, fp8_scale, float8_linear, mx_cast
  bool rowwise = false;     ///< a scale for each row or column, else one for all
  bool transposed = false;  ///< fp8_amax: the operand is a transposed view; mx_cast: its result is
  bool whole = false;       ///< float8_linear: with its casts and its product, for a compiler
  bool mx = false;          ///< float8_linear: of MXFP8Linear
};
struct TiledHead {
  std::int32_t tokens = 0, words = 0;  ///< of the largest tile of logits
  bool narrow = true;                  ///< its products are in bf16
};
struct Foreach {
  std::int32_t stage = 0;     ///< of the optimizer's ops; passes/optimizer.cpp lists them
  std::int32_t launches = 0;  ///< kernels; 0: by the lists that it walks along
  std::int32_t lists = 0;     ///< tensor lists; 0: of what is on the host
  bool scalars = false;       ///< a scalar for each tensor
};
/// What a tensor-parallel all-gather joins, and so what its backward does: parts of a sequence,
/// whose gradients are sums over ranks (reduce-scatter); parts of the vocabulary, whose gradients
/// are whole on each rank (the own part is copied out).
/// Ranks of adapters (LoRA's A in parts) are joined as the vocabulary is; their gradient is a sum
/// to be.
enum class Joined : std::uint8_t { tokens, vocabulary, ranks };
struct TpGather {
  Joined parts = Joined::tokens;
  std::int32_t ranks = 1;
  std::int32_t rank = 0;  ///< this one's place among them
};
struct TpScatter {
  std::int32_t ranks = 1;
  std::int32_t rank = 0;
};
/// What a copy of a split tensor moves: a sequence's parts, laid one after another before they are
/// reduced; such parts joined to a sequence; parts of the vocabulary joined. Under Ulysses, of R
/// ranks with S / R tokens each: heads of keys or values so many times; heads, (B, h, S / R, D) as
/// (R, S / R, B, h / R, D) and back; tokens, (B, h / R, S, D) as (S, B, h / R, D) and back;
/// sequences, (B, S, w) as (S, B, w) and back; what ranks made of heads, (R, S / R, B, w) as
/// (S / R, B, R w), and (B, S / R, R w) as that. words_apart: columns, as words_together joins
/// them.
enum class Moved : std::uint8_t {
  nothing,
  tokens_apart,
  tokens_together,
  words_together,
  heads_repeated,
  heads_apart,
  heads_together,
  tokens_first,
  tokens_last,
  sequences_inside,
  sequences_outside,
  widths_together,
  widths_apart,
  words_apart
};
struct Rearrange {
  Moved what = Moved::nothing;
  std::int32_t ranks = 1;  ///< or times, of what is repeated
};
/// Of cp_all_to_all: how a copy lays the gradient before it goes back, nothing where it lies so.
struct Exchange {
  Moved back = Moved::nothing;
  std::int32_t ranks = 1;
};
/// FSDP2's collectives and their copies, of experts that not all ranks have.
struct ExpertShards {
  std::int32_t ranks = 0;  ///< that share the same ones; 0: it is of what all ranks share
};
/// Ranks of a layer; or, of a pipeline, those with the first and the last stage, or with any.
enum class ReducedOver : std::uint8_t { layer, ends, stages };
/// Of an all-reduce over ranks that share the model.
struct TpReduce {
  bool maximum = false;  ///< instead of the sum
  ReducedOver over = ReducedOver::layer;
  std::int32_t stages = 2;  ///< that are reduced over, if any
};
struct Embedding {
  std::int32_t ranks = 1;  ///< that the rows are split over
  std::int32_t rank = 0;
};
/// Of send_recv: which of `StepProgram::exchanges` says what the messages are.
struct SendReceive {
  std::int32_t exchange = -1;
};
struct BucketCopy {
  /// Whose gradient it is: the trainer's ZeRO copies what of it is the rank's own; -1: all of it.
  std::int32_t parameter = 0;
};
struct Generated {
  std::int32_t launches = 1;
  std::int32_t body = -1;  ///< in Program::bodies; -1: planned, and not written out to be run
};
struct CompiledUnit {
  std::int32_t backward = 0;  ///< in Program::compiled
};
/// Of attention over a sequence that ranks share, whose ops stand before it in the program.
struct RingAttention {
  double scale = 1;
  std::uint16_t ranks = 1;
  std::uint16_t rank = 0;  ///< this one's place among them
  std::uint16_t ops = 0;   ///< those that it is made of
  SdpaKernel kernel = SdpaKernel::automatic;
  bool exchanged = false;  ///< keys and values go from rank to rank, instead of all to all at once
};
struct Captured {
  double flops = 0;           ///< of attention and convolution; 0: memory decides its time
  std::int32_t name = 0;      ///< in Program::captured_names
  std::int32_t launches = 0;  ///< as captured
};

/// What an op has beside its operands: the struct of its kind, none where its kind has none.
/// Trivially copyable, 24 bytes.
using Attributes =
    std::variant<std::monostate, RecordFunction, Product, LinearCrossEntropy, Sdpa, Slice, Add,
                 Number, Clamp, Power, Sum, Dropout, Compare, NllLoss, TopK, Histc, FloorDivide,
                 RmsNorm, LayerNorm, SwiGlu, Dequantize, QuantizedProduct, TiledHead, Foreach,
                 BucketCopy, TpGather, TpScatter, TpReduce, Rearrange, Embedding, SendReceive,
                 Captured, Generated, CompiledUnit, Float8, RingAttention, Exchange, ExpertShards>;

/// "inner=2048 form=nt"; empty where there are none.
[[nodiscard]] std::string to_string(const Attributes& attributes);
[[nodiscard]] const char* to_string(Form form);

}  // namespace ac_advisor::ir
