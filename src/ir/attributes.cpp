#include "ac_advisor/ir/attributes.hpp"

#include <fmt/format.h>

#include <type_traits>

namespace ac_advisor::ir {
namespace {

std::string place(std::int32_t ranks, std::int32_t rank) {
  return fmt::format("ranks={}", ranks) +
         (rank == 0 ? std::string() : fmt::format(" rank={}", rank));
}

// A row for each struct: its fields by name, in the order in which a dump has them.

std::string text(std::monostate) { return {}; }
std::string text(const RecordFunction& a) { return fmt::format("ranges={}", a.ranges); }
std::string text(const Product& a) {
  return fmt::format("inner={} form={}", a.inner, to_string(a.form)) +
         (a.alpha == 1 ? "" : fmt::format(" alpha={}", a.alpha)) +
         (a.saves_input ? " saves_input=true" : "") + (a.copies_first ? " copies_first=true" : "");
}
std::string text(const LinearCrossEntropy& a) {
  return fmt::format("hidden={} soft_cap={}", a.hidden, a.soft_cap);
}
std::string text(const Sdpa& a) {
  constexpr const char* kernels[] = {"", " kernel=flash", " kernel=cudnn", " kernel=efficient",
                                     " kernel=flash_attn"};
  return fmt::format("scale={} window={}{}{}{}", a.scale, a.window,
                     kernels[static_cast<std::size_t>(a.kernel)], a.causal ? "" : " causal=false",
                     a.documents > 0 ? fmt::format(" documents={}", a.documents) : "");
}
std::string text(const Slice& a) {
  return fmt::format("start={}", a.start) + (a.dim < 0 ? "" : fmt::format(" dim={}", a.dim));
}
std::string text(const Add& a) {
  return fmt::format("alpha={}{}", a.alpha, a.transposed ? " transposed" : "");
}
std::string text(const Number& a) { return fmt::format("value={}", a.value); }
std::string text(const Clamp& a) { return fmt::format("low={} high={}", a.low, a.high); }
std::string text(const Power& a) { return fmt::format("exponent={}", a.exponent); }
std::string text(const Sum& a) {
  constexpr const char* names[] = {"broadcast", "experts", "groups", "choices"};
  return fmt::format("over={}", names[static_cast<std::size_t>(a.over)]);
}
std::string text(const Dropout& a) {
  return fmt::format("probability={} block={}", a.probability, a.block);
}
std::string text(const Compare& a) {
  constexpr const char* names[] = {"not_equal", "less_equal", "greater", "both",
                                   "either",    "equal",      "below",   "at_least"};
  return fmt::format("how={} number={}", names[static_cast<std::size_t>(a.how)], a.number);
}
std::string text(const NllLoss& a) {
  return fmt::format("reduction={}", a.reduction == Reduction::mean  ? "mean"
                                     : a.reduction == Reduction::sum ? "sum"
                                                                     : "none");
}
std::string text(const TopK& a) {
  return fmt::format("k={}{}{}", a.k, a.in_turn ? " in_turn=true" : "",
                     a.sorted ? "" : " sorted=false");
}
std::string text(const Histc& a) { return fmt::format("bins={}", a.bins); }
std::string text(const FloorDivide& a) { return fmt::format("divisor={}", a.divisor); }
std::string text(const RmsNorm& a) {
  return fmt::format("epsilon={} unit_offset={}", a.epsilon, a.unit_offset);
}
std::string text(const LayerNorm& a) { return fmt::format("epsilon={}", a.epsilon); }
std::string text(const SwiGlu& a) {
  return fmt::format("gate={}", a.gate == Gate::silu ? "silu" : "gelu_tanh");
}
std::string text(const Float8& a) {
  return fmt::format("scaling={}{}{}", a.rowwise ? "rowwise" : "tensorwise",
                     a.transposed ? " transposed=true" : "", a.whole ? " whole=true" : "");
}
std::string text(const Foreach& a) {
  return fmt::format("stage={}", a.stage) +
         (a.launches == 0 ? "" : fmt::format(" launches={}", a.launches));
}
std::string text(const Dequantize& a) {
  return fmt::format("block={} nested={}", a.block, a.nested);
}
std::string text(const QuantizedProduct& a) {
  return fmt::format("inner={} {}{}{}", a.inner, text(a.of), a.biased ? " biased=true" : "",
                     a.in_fp16 ? " in_fp16=true" : "");
}
std::string text(const TiledHead& a) {
  return fmt::format("tokens={} words={} narrow={}", a.tokens, a.words, a.narrow);
}
std::string text(const TpGather& a) {
  constexpr const char* parts[] = {"tokens", "vocabulary", "ranks"};
  return fmt::format("parts={} ", parts[static_cast<std::size_t>(a.parts)]) +
         place(a.ranks, a.rank);
}
std::string text(const TpScatter& a) { return place(a.ranks, a.rank); }
std::string text(const ExpertShards& a) {
  return a.ranks == 0 ? std::string() : fmt::format("expert_ranks={}", a.ranks);
}
std::string text(const TpReduce& a) {
  constexpr const char* over[] = {"", "over=ends", "over=stages"};
  return a.maximum ? "maximum=true" : over[static_cast<std::size_t>(a.over)];
}
std::string text(const Embedding& a) {
  return a.ranks == 1 ? std::string() : place(a.ranks, a.rank);
}
const char* name_of(Moved what) {
  constexpr const char* names[] = {"nothing",          "tokens_apart",      "tokens_together",
                                   "words_together",   "heads_repeated",    "heads_apart",
                                   "heads_together",   "tokens_first",      "tokens_last",
                                   "sequences_inside", "sequences_outside", "widths_together",
                                   "widths_apart",     "words_apart"};
  return names[static_cast<std::size_t>(what)];
}
std::string text(const Rearrange& a) {
  return a.what == Moved::nothing ? std::string() : fmt::format("moved={}", name_of(a.what));
}
std::string text(const Exchange& a) {
  return a.back == Moved::nothing ? std::string() : fmt::format("back={}", name_of(a.back));
}
std::string text(const SendReceive&) { return {}; }
std::string text(const BucketCopy& a) { return fmt::format("parameter={}", a.parameter); }
std::string text(const Generated& a) { return "launches=" + std::to_string(a.launches); }
std::string text(const CompiledUnit& a) { return "backward=" + std::to_string(a.backward); }
std::string text(const RingAttention& a) {
  return fmt::format("scale={} {} exchanged={}", a.scale, place(a.ranks, a.rank), a.exchanged);
}
std::string text(const Captured& a) {
  return (a.flops == 0 ? std::string() : fmt::format("flops={:.6g} ", a.flops)) +
         fmt::format("launches={}", a.launches);
}

}  // namespace

static_assert(std::is_trivially_copyable_v<Attributes> && sizeof(Attributes) <= 24);

std::string to_string(const Attributes& attributes) {
  return std::visit([](const auto& a) { return text(a); }, attributes);
}

const char* to_string(Form form) {
  constexpr const char* names[] = {"nt", "nn", "tn"};
  return names[static_cast<std::size_t>(form)];
}

}  // namespace ac_advisor::ir
