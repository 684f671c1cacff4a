// Derivatives of tensor parallelism: PyTorch v2.11, torch/distributed/tensor/_redistribute.py,
// placement_types.py, parallel/loss.py.
#include "derivatives.hpp"
#include "own_rows.hpp"

namespace ac_advisor::ir::derive {

void tp_all_gather(Derivation& d) {
  // input: this rank's part; output: all parts, rank after rank
  const ValueId x = d.in(0), g = d.grad();
  const auto gather = d.attributes<TpGather>();
  if (gather.parts == Joined::vocabulary) {
    // Replicate to Shard: the own part, copied
    d.give(0, d.emit(OpKind::clone, {d.part(g, 0, gather.rank * d.shape(x)[0], d.shape(x)[0])},
                     d.shape(x), d.dtype(g)));
    return;
  }
  // Partial to Shard: chunks along the tokens, or of the ranks of adapters, are laid one after
  // another, then reduce-scattered
  const Moved apart = gather.parts == Joined::ranks ? Moved::words_apart : Moved::tokens_apart;
  const ValueId in_turn =
      d.emit(OpKind::clone, {g}, d.shape(g), d.dtype(g), Rearrange{apart, gather.ranks});
  d.give(0, d.emit(OpKind::tp_reduce_scatter, {in_turn}, d.shape(x), d.dtype(g),
                   TpScatter{gather.ranks, gather.rank}));
}

void tp_reduce_scatter(Derivation& d) {
  // input: sums to be, [ranks x B, S / ranks, H]; output: [B, S / ranks, H]. Shard to Replicate: an
  // all-gather along dim 0, whose parts are joined along the tokens; of one sequence by a view.
  const ValueId g = d.grad();
  const Shape whole = d.shape(d.in(0));
  const auto of = d.attributes<TpScatter>();
  const ValueId parts = d.emit(OpKind::tp_all_gather, {g}, whole, d.dtype(g),
                               TpGather{Joined::tokens, of.ranks, of.rank});
  const bool one = d.shape(g)[0] == 1;
  d.give(0, one ? parts
                : d.emit(OpKind::clone, {parts}, whole, d.dtype(g),
                         Rearrange{Moved::tokens_together, of.ranks}));
}

/// Replicate to Partial in backward: the gradient as it is.
void tp_all_reduce(Derivation& d) { d.give(0, d.grad()); }

/// Partial to Replicate (_api.py, _FromTorchTensor.backward). Of what was gathered of `in(0)`,
/// whose gradient all ranks have alike: Replicate to Shard, this rank's tokens of it, of one
/// sequence a view.
void tp_replicate(Derivation& d) {
  const ValueId g = d.grad();
  if (d.inputs() > 1) {
    const Shape own = d.shape(d.in(0));
    const ValueId tokens = d.part(g, 1, d.attributes<TpScatter>().rank * own[1], own[1]);
    d.give(0, own[0] == 1 ? tokens : d.emit(OpKind::clone, {tokens}, own, d.dtype(g)));
    return;
  }
  d.give(0, d.emit(OpKind::tp_all_reduce, {g}, d.shape(d.in(0)), d.dtype(g), TpReduce{}));
}

/// NeMo AutoModel's RowwiseParallelLora (v0.5.0, distributed/parallel_styles.py): A's columns are
/// split, B's ranks. DTensor's backward of B(2 A(x)): B's gradient is of all ranks, a sum to be;
/// what comes to A is gathered for each of its two products.
void row_adapter(Derivation& d) {
  // inputs: x [B, S, I / T], a [r, I / T], b [O, r / T], 2 A(x) [B, S, r], a sum to be
  const ValueId x = d.in(0), a = d.in(1), b = d.in(2), scaled = d.in(3), g = d.grad();
  const auto of = d.attributes<TpScatter>();
  const DType type = d.dtype(g);
  const std::int64_t rank = d.shape(a)[0], part = d.shape(b)[1], outputs = d.shape(b)[0],
                     tokens = d.shape(scaled).numel() / rank;
  const auto product = [&](ValueId left, ValueId right, const Shape& shape, std::int64_t inner,
                           Form form) {
    return d.emit(OpKind::mm, {left, right}, shape, type,
                  Product{static_cast<std::int32_t>(inner), form});
  };
  const auto gathered = [&](ValueId own, const Shape& whole) {
    return d.emit(OpKind::tp_all_gather, {own}, whole, type,
                  TpGather{Joined::ranks, of.ranks, of.rank});
  };
  const ValueId of_b = product(g, scaled, {outputs, rank}, tokens, Form::tn);
  d.give(2, d.part(of_b, 1, 0, part));
  const Shape own{tokens, part};
  const ValueId of_scaled = product(g, b, own, outputs, Form::nn);
  const ValueId of_down = d.emit(OpKind::mul_scalar, {of_scaled}, own, type, Number{2.0});
  const ValueId turned = d.emit(OpKind::clone, {of_down}, {part, tokens}, type);
  const ValueId by_rank = gathered(turned, {rank, tokens});
  d.give(1, product(by_rank, x, d.shape(a), tokens, Form::nn));
  if (!d.needs(0)) return;
  const ValueId in_turn = gathered(of_down, {of.ranks * tokens, part});
  const ValueId joined = d.emit(OpKind::clone, {in_turn}, {tokens, rank}, type,
                                Rearrange{Moved::words_together, of.ranks});
  d.give(0, product(joined, a, d.shape(x), rank, Form::nn));
}

void all_to_all(Derivation& d) {
  // the other way round (torch/csrc/distributed/c10d/Functional.cpp, AllToAllSingle)
  const ValueId x = d.in(0);
  d.give(0, d.emit(OpKind::all_to_all, {d.grad()}, d.shape(x), d.dtype(x)));
}

void vocab_parallel_loss(Derivation& d) {
  // inputs: logits [N, V / ranks] in fp32, their log-probabilities, targets, the number of targets;
  // _nll_loss_and_log_softmax_backward: (-1 at the target + exp(log-probability)) * gradient. The
  // backward of log_softmax passes that on.
  const ValueId log_probabilities = d.in(1), targets = d.in(2), counted = d.in(3);
  const Shape logits = d.shape(log_probabilities), rows{logits[0]}, column{logits[0], 1};
  const DType wide = d.dtype(log_probabilities);
  const auto make = [&](OpKind kind, std::initializer_list<ValueId> in, const Shape& shape,
                        DType type,
                        const Attributes& a = {}) { return d.emit(kind, in, shape, type, a); };
  const auto kept_or_zero = [&](ValueId value, const Shape& shape, DType type) {
    const ValueId counts =
        make(OpKind::compare, {targets}, rows, DType::u8, Compare{-100.0, Comparison::not_equal});
    const ValueId zero = make(OpKind::fill, {}, {}, type);
    return make(OpKind::masked_fill, {counts, value, zero}, shape, type);
  };
  const ValueId share = make(OpKind::div, {d.grad(), counted}, {}, wide);
  const ValueId safe = kept_or_zero(targets, rows, DType::i64);
  const ValueId zeros = make(OpKind::fill, {}, logits, wide);
  const auto [own, elsewhere] =
      write_own_rows(safe, logits[1], d.attributes<TpScatter>().rank,
                     [&](OpKind kind, std::initializer_list<ValueId> in, DType type,
                         const Attributes& a) { return make(kind, in, rows, type, a); });
  d.emit_raw(OpKind::mask_shard, {own, elsewhere}, {d.overwrite(own)});
  const ValueId masked = make(OpKind::cast, {elsewhere}, rows, wide);
  const ValueId update = make(OpKind::add_scalar, {masked}, rows, wide, Number{-1.0});
  const ValueId places = make(OpKind::arange, {}, rows, DType::i64);
  d.emit_raw(OpKind::index_put, {zeros, places, own, update}, {d.overwrite(zeros)});
  const ValueId scale = kept_or_zero(share, column, wide);
  const ValueId probabilities = make(OpKind::exp, {log_probabilities}, logits, wide);
  const ValueId sum = make(OpKind::add, {zeros, probabilities}, logits, wide, Add{});
  d.give(0, make(OpKind::mul, {sum, scale}, logits, wide));
  d.emit_raw(OpKind::hold, {scale, safe, zeros, elsewhere, own, update, places}, {});
}

}  // namespace ac_advisor::ir::derive
