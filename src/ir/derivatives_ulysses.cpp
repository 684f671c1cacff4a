// Derivatives of Ulysses' exchanges (DeepSpeed 0.19.8, deepspeed/sequence/layer.py,
// _dim_zero_all_to_all_backward), and of the copies around them: to autograd a copy is a view and a
// clone, whose gradient is seen through the view, and copied where the next reshape cannot see it.
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {

void clone(Derivation& d) {
  const auto how = d.attributes<Rearrange>();
  const ValueId g = d.grad();
  const Shape whole = d.shape(d.in(0));
  const auto seen = [&](std::int8_t batch_at) {
    const ValueId x = d.alias(g, whole);
    if (whole[0] > 1) d.program().value(x).batch_at = batch_at;
    d.give(0, x);
  };
  if (how.what == Moved::sequences_inside) return seen(1);
  if (how.what == Moved::heads_repeated) {
    const ValueId of_copies = d.alias(g, {whole[0], whole[1], how.ranks, whole[2], whole[3]});
    const ValueId x = d.emit(OpKind::sum, {of_copies}, whole, d.dtype(g), Sum{SumOver::groups});
    d.set_permuted(x, whole[0] == 1);
    return d.give(0, x);
  }
  if (how.what != Moved::heads_apart) return pass_to_all(d);
  const bool one_head = d.shape(d.out())[2] == 1;
  if (one_head) return seen(2);
  // [S / R, B, R, h / R, D] to all heads: they do not lie together, so reshape copies
  const ValueId x =
      d.emit(OpKind::clone, {g}, whole, d.dtype(g), Rearrange{Moved::heads_together, how.ranks});
  d.set_permuted(x, whole[0] == 1);
  d.give(0, x);
}

void cp_all_to_all(Derivation& d) {
  const auto how = d.attributes<Exchange>();
  ValueId g = d.grad();
  if (how.back != Moved::nothing)  // grad.contiguous()
    g = d.emit(OpKind::clone, {g}, d.shape(d.out()), d.dtype(g), Rearrange{how.back, how.ranks});
  d.give(0, d.emit(OpKind::cp_all_to_all, {g}, d.shape(d.in(0)), d.dtype(g)));
}

void weighted_loss(Derivation& d) {
  // inputs: this rank's loss, all ranks' counts of labels, which of these are above 0, their sum;
  // the nodes of transformers' deepspeed_sp_compute_loss: DivBackward0, MulBackward0,
  // WhereBackward0 and _AllGather.backward (torch/distributed/nn/functional.py, v2.11), which sums
  // over ranks
  const auto ranks = d.attributes<TpScatter>().ranks;
  const Shape all{ranks};
  const ValueId share = d.emit(OpKind::div, {d.grad(), d.in(3)}, {}, DType::f32);
  const ValueId products = d.emit(OpKind::mul, {share, d.in(1)}, all, DType::f32);
  const ValueId zero = d.emit(OpKind::fill, {}, {}, DType::f32);
  const ValueId kept = d.emit(OpKind::masked_fill, {d.in(2), products, zero}, all, DType::f32);
  const ValueId joined = d.make(all, DType::f32);
  d.emit_raw(OpKind::empty, {}, {joined});
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    d.emit_raw(OpKind::copy, {d.part(joined, 0, rank, 1), d.part(kept, 0, rank, 1)}, {});
  d.give(0, d.emit(OpKind::cp_reduce_scatter, {joined}, {}, DType::f32));
}

}  // namespace ac_advisor::ir::derive
