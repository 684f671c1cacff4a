// Attention over sequences that ranks share: Transformer Engine's ring of keys and values, by
// FlashAttention (v2.11, pytorch/attention/dot_product_attention/context_parallel.py,
// AttnFuncWithCPAndKVP2P), as the ring's last rank runs it. A rank has two chunks of each sequence,
// one from either end, so that all have as much to do; of what another rank sends, the last one
// reads the first chunk with all of its queries.
#include "layers.hpp"

namespace ac_advisor::passes {
namespace {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// The backward of the ring: keys and values go round the other way, and with them the sums of
/// their gradients, in two buffers that are sent and received in turn.
class RingBackward {
 public:
  /// Numbers of what the node is given.
  struct Given {
    std::int32_t query, key_values, out, log_sums, first_state, gradient;
  };

  RingBackward(const Given& given, std::int64_t ranks, const Shape& query, const Shape& keys,
               DType dtype, double scale)
      : g_(given), ranks_(ranks), query_(query), keys_(keys), dtype_(dtype), scale_(scale) {}

  CompiledGraph write() {
    made_ = g_.gradient + 1;
    const Shape flat{2 * keys_.numel()}, both{2, 2 * keys_.numel()};
    std::int32_t gradient = g_.gradient;
    if (query_[0] > 1) {  // .view(*q.shape) of what is transposed
      gradient = make(query_);
      launch(OpKind::clone, {g_.gradient}, {gradient});
    }
    const std::int32_t queries = make(query_);
    const std::int32_t buffers[] = {make(both), make(both)};
    launch(OpKind::empty, {}, {queries, buffers[0], buffers[1]});
    launch(OpKind::clone, {g_.key_values}, {make(flat, buffers[0])});
    for (std::int64_t i = 0; i < ranks_; ++i) {
      const std::int32_t sent = buffers[i % 2], received = buffers[(i + 1) % 2];
      // Keys and values alone at first, gradients alone at last.
      const Shape& message = i == 0 || i + 1 == ranks_ ? flat : both;
      launch(OpKind::ring_exchange, {make(message, sent)}, {make(message, received)});
      step(i, gradient, queries, sent, received);
    }
    const std::int32_t last = buffers[ranks_ % 2];
    graph_.results = {queries, make(keys_, last), make(keys_, last)};
    graph_.results.resize(static_cast<std::size_t>(g_.gradient), -1);
    return std::move(graph_);
  }

 private:
  /// One tile's attention, whose gradients are added up.
  void step(std::int64_t i, std::int32_t gradient, std::int32_t queries, std::int32_t sent,
            std::int32_t received) {
    const bool own = i + 1 == ranks_;  // this rank's keys and values, which came round last
    Shape seen = keys_;
    if (!own) seen.set(2, seen[2] / 2);
    const std::int32_t of_query = make(query_), of_keys = make(seen), of_values = make(seen);
    const auto state = g_.first_state + static_cast<std::int32_t>(ranks_ - 1 - i);
    launch(
        OpKind::sdpa_backward,
        {gradient, g_.query, make(seen, sent), make(seen, sent), g_.out, g_.log_sums, state, state},
        {of_query, of_keys, of_values}, ir::Sdpa{scale_, 0, ir::SdpaKernel::flash, own});
    const auto add = [&](std::int32_t sum, std::int32_t part) {
      if (i == 0)
        launch(OpKind::clone, {part}, {sum});
      else
        launch(OpKind::accumulate_inplace, {sum, part}, {});
    };
    add(queries, of_query);
    add(make(seen, received), of_keys);
    add(make(seen, received), of_values);
  }

  std::int32_t make(const Shape& shape, std::int32_t over = -1) {
    graph_.made.push_back({shape, dtype_, over});
    return made_++;
  }
  void launch(OpKind kind, std::vector<std::int32_t> inputs, std::vector<std::int32_t> outputs,
              const ir::Attributes& attributes = {}) {
    graph_.launches.push_back(
        {kind, attributes, Module::attention_core, std::move(inputs), std::move(outputs)});
  }

  Given g_;
  std::int64_t ranks_;
  Shape query_, keys_;  ///< [B, heads, S, D], this rank's
  DType dtype_;
  double scale_;
  CompiledGraph graph_;
  std::int32_t made_ = 0;
};

}  // namespace

ir::ValueId MegatronLayers::ring_core(const Heads& heads) {
  leaf_ = Module::attention_core;
  const Heads taken = by_sequence(heads);
  const V query = taken.q, key = taken.k, value = taken.v;
  const Shape query_shape = shape(query), key_shape = shape(key);
  const std::int64_t ranks = config_.layout.cp, n = query_shape[1], kv = key_shape[1],
                     d = query_shape[3];
  const std::int64_t part = key_shape.numel();
  V kept = plain({2 * part}, dtype_), log_sums = ir::no_id;
  emit(OpKind::cat, {key, value}, {kept});
  std::vector<V> outs, sums, states, all{key, value, kept};
  const auto correct = [&](V sum, std::initializer_list<V> inputs) {  // a compiled function
    in_place(OpKind::generated, sum, inputs, ir::Generated{});
  };
  for (std::int64_t i = 0; i < ranks; ++i) {
    const V here = kept;
    if (i + 1 < ranks) {
      kept = plain({2 * part}, dtype_);
      emit(OpKind::ring_exchange, {here}, {kept});
      all.push_back(kept);
    }
    const std::int64_t seen = i == 0 ? seq_ : seq_ / 2;
    const auto keys = [&](std::int64_t begin) {
      return p_.reshape(p_.narrow(here, 0, begin, part / seq_ * seen), {batch_, kv, seen, d}, true);
    };
    outs.push_back(plain(query_shape, dtype_));
    p_.value(outs.back()).permuted = true;
    sums.push_back(plain({batch_, n, seq_}, DType::f32));
    states.push_back(plain({2}, DType::i64));
    emit(OpKind::sdpa, {query, keys(0), keys(part)},
         {outs.back(), sums.back(), states.back(),
          p_.on_storage_of(states.back(), {}, DType::i64, false)},
         ir::Sdpa{spec_.attention_scale, 0, ir::SdpaKernel::flash, i == 0});
    if (i == 1) {
      log_sums = plain(shape(sums[0]), DType::f32);
      emit(OpKind::clone, {sums[0]}, {log_sums});
    } else if (i > 1) {
      correct(log_sums, {log_sums, sums[static_cast<std::size_t>(i) - 1]});
    }
  }
  correct(log_sums, {log_sums, sums.back()});
  const V out = plain({batch_, seq_, n, d}, dtype_);
  emit(OpKind::generated, {outs[0], log_sums, sums[0]}, {out}, ir::Generated{});
  for (std::size_t i = 1; i < outs.size(); ++i) correct(out, {out, outs[i], log_sums, sums[i]});
  hold_all(all);
  hold_all(outs);
  hold_all(sums);

  std::vector<V> given{query, key, value, kept, p_.reshape(out, query_shape, true), log_sums};
  const auto first_state = static_cast<std::int32_t>(given.size());
  given.insert(given.end(), states.begin(), states.end());
  RingBackward backward({0, 3, 4, 5, first_state, static_cast<std::int32_t>(given.size())}, ranks,
                        query_shape, key_shape, dtype_, spec_.attention_scale);
  const V y = node(OpKind::autograd_function, given, out, backward.write());
  return by_token(y, n * d);
}

}  // namespace ac_advisor::passes
