// The backward of attention over a sequence that ranks share: PyTorch v2.11, torch/distributed/
// tensor/experimental/_context_parallel/_attention.py, _templated_ring_attention_backward. Keys and
// values come as in forward; the sums of their gradients, in fp32, go from rank to rank and home.
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {
namespace {

class RingBackward {
 public:
  explicit RingBackward(Derivation& d)
      : d_(d),
        a_(d.attributes<RingAttention>()),
        queries_(d.shape(d.in(0))),
        keys_(d.shape(d.in(1))),
        type_(d.dtype(d.in(0))),
        part_(keys_.numel()),
        half_(queries_[2] / 2),
        key_(d.in(1)),
        value_(d.in(2)) {}

  void run() {
    grad_query_ = zeros_like(d_.in(0));
    grad_key_ = zeros_like(key_);
    grad_value_ = zeros_like(value_);
    key_ = contiguous(key_);
    value_ = contiguous(value_);
    for (std::int64_t i = 0; i < a_.ranks; ++i) {
      receive(i);
      attend(i);
      add_to_keys(i);
      send_sums();
      add_to_queries(i);
    }
    d_.give(0, narrowed(grad_query_));
    const ValueId home = narrowed(arrived_sums_);
    hold({sent_sums_, arrived_sums_, sent_, gathered_, key_, value_, grad_key_, grad_value_});
    hold({of_query_, of_key_, of_value_, grad_query_});
    d_.give(1, as_keys(home, 0));
    d_.give(2, as_keys(home, part_));
  }

 private:
  /// Whether a step's keys are of a rank before this one in the ring, or its own.
  [[nodiscard]] bool before(std::int64_t i) const { return i <= a_.rank; }

  void hold(std::initializer_list<ValueId> values) {
    for (ValueId v : values)
      if (v != no_id) d_.emit_raw(OpKind::hold, {v}, {});
  }

  ValueId zeros_like(ValueId x) {
    const ValueId y = d_.make(d_.shape(x), DType::f32);
    d_.set_permuted(y, d_.permuted(x));
    d_.emit_raw(OpKind::fill, {}, {y}, Number{0.0});
    return y;
  }
  ValueId contiguous(ValueId x) {
    if (d_.in_order(x)) return x;
    return d_.emit(OpKind::clone, {x}, d_.shape(x), d_.dtype(x));
  }
  ValueId flat(ValueId x) { return d_.alias(contiguous(x), {part_}); }
  ValueId as_keys(ValueId both, std::int64_t start) {
    return d_.alias(d_.part(both, 0, start, part_), keys_);
  }
  ValueId first_chunk(ValueId x) { return d_.part(x, 2, 0, half_); }
  ValueId second_chunk(ValueId x) { return d_.part(x, 2, half_, half_); }
  ValueId narrowed(ValueId x) {
    if (type_ == DType::f32) return x;
    const ValueId y = d_.emit(OpKind::cast, {x}, d_.shape(x), type_);
    d_.set_permuted(y, d_.permuted(x));
    return y;
  }

  /// Keys and values of step i are there; those of the next are on their way.
  void receive(std::int64_t i) {
    if (i > 0) {
      const ValueId from = a_.exchanged ? arrived_ : gathered_;
      const std::int64_t at = a_.exchanged ? 0 : (a_.rank + a_.ranks - i) % a_.ranks * 2 * part_;
      hold({key_, value_});
      key_ = as_keys(from, at);
      value_ = as_keys(from, at + part_);
    }
    if (i + 1 == a_.ranks) return;
    const ValueId both = d_.emit(OpKind::cat, {d_.alias(key_, {part_}), d_.alias(value_, {part_})},
                                 {2 * part_}, type_);
    hold({sent_});  // `next_kv`, until it is bound anew
    sent_ = both;
    if (a_.exchanged)
      arrived_ = d_.emit(OpKind::ring_exchange, {sent_}, {2 * part_}, type_);
    else if (i == 0)
      gathered_ = d_.emit(OpKind::cp_all_gather, {sent_}, {a_.ranks * 2 * part_}, type_);
  }

  void attend(std::int64_t i) {
    const auto seen = [&](ValueId x) { return i == 0 || !before(i) ? x : first_chunk(x); };
    const auto own = [&](ValueId x) { return before(i) ? x : second_chunk(x); };
    const ValueId q = own(d_.in(0)), k = seen(key_), v = seen(value_), g = own(d_.grad()),
                  out = own(d_.out(0));
    ValueId log_sums = d_.out(1);
    if (!before(i)) {
      const Shape rows{queries_[0], queries_[1], half_};
      log_sums = d_.emit(OpKind::clone, {second_chunk(log_sums)}, rows, DType::f32);
    }
    const ValueId dq = like(q), dk = like(k), dv = like(v);
    d_.emit_raw(OpKind::sdpa_backward, {g, q, k, v, out, log_sums, d_.out(2), d_.out(3)},
                {dq, dk, dv}, Sdpa{.scale = a_.scale, .kernel = a_.kernel, .causal = i == 0});
    hold({of_query_, of_key_, of_value_});
    of_query_ = dq, of_key_ = dk, of_value_ = dv;
  }
  /// Tokens before heads, as a CPU's kernel has it; of a GPU's the size alone counts here.
  ValueId like(ValueId x) {
    const ValueId y = d_.make(d_.shape(x), type_);
    d_.set_permuted(y, true);
    return y;
  }

  void add(ValueId sum, ValueId part) { d_.emit_raw(OpKind::accumulate_inplace, {sum, part}, {}); }

  /// Of a chunk the sum is written into that chunk, and the whole is joined anew.
  ValueId joined(ValueId sum, ValueId part, bool to_first) {
    const ValueId first = first_chunk(sum), second = second_chunk(sum);
    add(to_first ? first : second, part);
    return d_.emit(OpKind::cat, {first, second}, d_.shape(sum), DType::f32);
  }

  void add_to_keys(std::int64_t i) {
    if (i == 0) {
      add(grad_key_, of_key_);
      add(grad_value_, of_value_);
      return;
    }
    hold({sent_sums_, grad_key_, grad_value_});
    grad_key_ = as_keys(arrived_sums_, 0);
    grad_value_ = as_keys(arrived_sums_, part_);
    if (before(i)) {
      grad_key_ = joined(grad_key_, of_key_, true);
      grad_value_ = joined(grad_value_, of_value_, true);
    } else {
      add(grad_key_, of_key_);
      add(grad_value_, of_value_);
    }
  }

  void send_sums() {
    const ValueId k = flat(grad_key_), v = flat(grad_value_);
    sent_sums_ = d_.emit(OpKind::cat, {k, v}, {2 * part_}, DType::f32);
    const ValueId next = d_.emit(OpKind::ring_exchange, {sent_sums_}, {2 * part_}, DType::f32);
    hold({arrived_sums_});  // the rotater's, until it has the next
    arrived_sums_ = next;
  }

  void add_to_queries(std::int64_t i) {
    if (before(i)) {
      add(grad_query_, of_query_);
      return;
    }
    const ValueId whole = grad_query_;
    grad_query_ = joined(whole, of_query_, false);
    hold({whole});
  }

  Derivation& d_;
  RingAttention a_;
  Shape queries_, keys_;  ///< [B, heads, this rank's tokens, D]
  DType type_;
  std::int64_t part_, half_;
  ValueId key_, value_;
  ValueId grad_query_ = no_id, grad_key_ = no_id, grad_value_ = no_id;  ///< fp32 sums
  ValueId of_query_ = no_id, of_key_ = no_id, of_value_ = no_id;        ///< the last step's
  ValueId sent_ = no_id, gathered_ = no_id, arrived_ = no_id;
  ValueId sent_sums_ = no_id, arrived_sums_ = no_id;
};

}  // namespace

void ring_attention(Derivation& d) { RingBackward(d).run(); }

}  // namespace ac_advisor::ir::derive
