// Tensor parallelism of one rank, by PyTorch's DTensor (v2.11: torch/distributed/tensor/, parallel/
// style.py, parallel/loss.py), laid out as TorchTitan's llama is (v0.2.2, torchtitan/models/llama3/
// infra/parallelize.py, apply_non_moe_tp): q, k, v, gate and up by columns, o and down by rows,
// vocabulary in parts, norms and the residual stream on parts of each sequence.
#include "ac_advisor/ir/float8.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Comparison;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// Shard(1) to Replicate: an all-gather along dim 0; the parts are joined along the tokens by a
/// copy (torch/_utils.py, _maybe_view_chunk_cat), of one sequence by a view.
ir::ValueId Lowering::gathered(V x) {
  if (!splits_sequence()) return x;
  const Shape part = shape(x);
  const V all = out({part[0] * tp_, part[1], part[2]}, dtype(x), grad(x));
  emit(OpKind::tp_all_gather, {x}, {all}, ir::TpGather{ir::Joined::tokens, ranks(), tp_rank()});
  const Shape whole{part[0], part[1] * tp_, part[2]};
  p_.value(all).distributed = true;
  if (part[0] == 1) return p_.reshape(all, whole);
  const V joined = out(whole, dtype(x), grad(x));
  p_.value(joined).distributed = true;
  emit(OpKind::clone, {all}, {joined}, ir::Rearrange{ir::Moved::tokens_together, ranks()});
  if (dtype(x) == DType::f8) hold({x});  // `dt_inp`, until it is bound anew
  return joined;
}

/// torchao 0.18, float8/float8_tensor_parallel.py (TorchTitan's choice for tensorwise scaling):
/// what comes to a block's attention, MLP, o and down is cast before ranks gather it, by a scale of
/// all of their parts.
ir::ValueId Lowering::input_in_fp8(V x) {
  if (!shares_in_fp8()) return x;
  if (config_.memory.kernels == Kernels::compiled) {  // as float8_linear_as_one
    const V y = out(shape(x), DType::f8, grad(x));
    emit(OpKind::float8_linear, {x}, {y}, ir::Float8{});
    return y;
  }
  ir::Float8Writer f(p_, phase_, at(leaf_), false);
  const ir::Float8Operand a = f.cast(x, false, ir::Float8Writer::Along::rows, true);
  const V y = p_.on_storage_of(a.data, shape(x), DType::f8, false);
  p_.value(y).requires_grad = grad(x);
  emit(OpKind::float8_linear, {x, a.data}, {y}, ir::Float8{});
  return y;
}

/// NoopFwToFloat8BwDynamic: a layer's gradient is cast before ranks gather it.
ir::ValueId Lowering::gradient_in_fp8(V y) {
  if (!shares_in_fp8()) return y;
  const V same = p_.on_storage_of(y, shape(y), dtype(y), false);
  p_.value(same).requires_grad = grad(y);
  emit(OpKind::float8_linear, {y}, {same}, ir::Float8{});
  return same;
}

/// Partial to Shard(1): what each rank gets is laid together by a copy, then reduce-scattered. The
/// caller (style.py, _prepare_output_fn) holds what it redistributes until it has the result. NCCL
/// reads the copy until somebody waits for that: the first op that uses it.
ir::ValueId Lowering::scattered(V x) {
  if (tp_ == 1) return x;
  if (!splits_sequence()) return summed(x);
  const Shape whole = shape(x);
  const V in_turn = out({whole[0] * tp_, whole[1] / tp_, whole[2]}, dtype(x), grad(x));
  emit(OpKind::clone, {x}, {in_turn}, ir::Rearrange{ir::Moved::tokens_apart, ranks()});
  const V part = out({whole[0], whole[1] / tp_, whole[2]}, dtype(x), grad(x));
  emit(OpKind::tp_reduce_scatter, {in_turn}, {part}, ir::TpScatter{ranks(), tp_rank()});
  hold({x});
  in_flight_ = in_turn;
  return part;
}

/// Partial to Replicate, without sequence parallelism: a functional all-reduce, of a copy.
ir::ValueId Lowering::summed(V x) {
  const V y = out(shape(x), dtype(x), grad(x));
  emit(OpKind::tp_all_reduce, {x}, {y});
  hold({x});  // the caller's (style.py, _prepare_output_fn)
  return y;
}

/// DTensor.from_local(x, Replicate()), which each layer split by its outputs does for itself: x, of
/// which backward adds up the ranks' gradients. A sum that is on its way is an
/// AsyncCollectiveTensor, to which the engine adds nothing in place.
ir::ValueId Lowering::replicated(V x) {
  p_.value(p_.root(x)).distributed = true;
  const V y = p_.on_storage_of(x, shape(x), dtype(x), false);
  p_.value(y).requires_grad = grad(x);
  p_.value(y).distributed = true;
  emit(OpKind::tp_replicate, {x}, {y}, ir::TpScatter{ranks(), tp_rank()});
  return y;
}

/// As gathered(), where all ranks have the same gradient of what they gathered: to_local() of a
/// DTensor that they have alike.
ir::ValueId Lowering::gathered_alike(V x) {
  if (!splits_sequence()) return x;
  const V all = gathered(x);
  p_.value(all).requires_grad = false;
  const V y = p_.on_storage_of(all, shape(all), dtype(all), false);
  p_.value(y).requires_grad = grad(x);
  emit(OpKind::tp_replicate, {x, all}, {y}, ir::TpScatter{ranks(), tp_rank()});
  return y;
}

void Lowering::wait() {
  hold({in_flight_});
  in_flight_ = ir::no_id;
}

/// Shard(-1) to Replicate of (B, S, V / ranks): joined along the vocabulary by a copy.
ir::ValueId Lowering::whole_vocabulary(V logits) {
  const Shape part = shape(logits);
  const V all = out({part[0] * tp_, part[1], part[2]}, dtype(logits), grad(logits));
  emit(OpKind::tp_all_gather, {logits}, {all},
       ir::TpGather{ir::Joined::vocabulary, ranks(), tp_rank()});
  const V joined = out({part[0], part[1], part[2] * tp_}, dtype(logits), grad(logits));
  emit(OpKind::clone, {all}, {joined}, ir::Rearrange{ir::Moved::words_together, ranks()});
  hold({logits});
  return joined;
}

/// NeMo AutoModel's LinearLoRA of DTensors (v0.5.0, _peft/lora.py; distributed/parallel_styles.py,
/// ColwiseParallelLora, RowwiseParallelLora): every A and B is split. Of a layer that is split by
/// outputs A has its ranks in parts, whose results are gathered, B its outputs.
ir::ValueId Lowering::adapted_in_parts(V x, const Linear& l) {
  const V base = base_linear(x, l);
  V up = ir::no_id;
  if (ir::split_by_inputs(leaf_)) {
    up = adapter_by_rows(x, l);
  } else {
    const V down = base_linear(x, {l.lora_a});
    const Shape part = shape(down);
    const V all = out({part[0] * tp_, part[1], part[2]}, dtype(down), true);
    emit(OpKind::tp_all_gather, {down}, {all}, ir::TpGather{ir::Joined::ranks, ranks(), tp_rank()});
    const V joined = out({part[0], part[1], part[2] * tp_}, dtype(down), true);
    emit(OpKind::clone, {all}, {joined}, ir::Rearrange{ir::Moved::words_together, ranks()});
    hold({down});  // the hook's argument
    up = base_linear(unary(OpKind::mul_scalar, joined, ir::Number{2.0}), {l.lora_b});
  }
  const V y = binary(OpKind::add, base, up);
  hold({x});  // the caller's argument
  return y;
}

/// Of one that is split by inputs A has its inputs in parts, B its ranks: what A makes is a sum to
/// be, which B's product scatters by itself. Both results are such sums; they are added first.
ir::ValueId Lowering::adapter_by_rows(V x, const Linear& l) {
  p_.value(p_.root(x)).distributed = true;  // its two gradients are
  const auto product = [&](V in, V weight) {
    Shape size = shape(in);
    size.set(size.rank() - 1, shape(weight)[0]);
    const V y = out(size, dtype(in), false);
    emit(OpKind::mm, {in, weight}, {y}, ir::Product{static_cast<std::int32_t>(shape(in).back())});
    return y;
  };
  const V down = product(x, l.lora_a);
  const V scaled = unary(OpKind::mul_scalar, down, ir::Number{2.0});
  const Shape whole = shape(scaled);
  const V in_turn = out({whole[0] * tp_, whole[1], whole[2] / tp_}, dtype(scaled), false);
  emit(OpKind::clone, {scaled}, {in_turn}, ir::Rearrange{ir::Moved::words_apart, ranks()});
  const V part = out({whole[0], whole[1], whole[2] / tp_}, dtype(scaled), false);
  emit(OpKind::tp_reduce_scatter, {in_turn}, {part}, ir::TpScatter{ranks(), tp_rank()});
  const V made = product(part, l.lora_b);
  const V up = p_.on_storage_of(made, shape(made), dtype(made), false);
  p_.value(up).requires_grad = true;
  emit(OpKind::row_adapter, {x, l.lora_a, l.lora_b, scaled}, {up},
       ir::TpScatter{ranks(), tp_rank()});
  return up;
}

/// RowwiseParallel of nn.Embedding: looked up where the row is, zero elsewhere, summed over ranks.
ir::ValueId Lowering::parallel_embedding() {
  const ir::OwnRows own = own_rows(m_.ids, part(spec_.vocab), tp_rank());
  const V x = out({config_.run.batch, config_.run.seq, spec_.hidden}, dtype_, grad(m_.embed));
  emit(OpKind::embedding, {m_.embed, m_.ids}, {x}, ir::Embedding{ranks(), tp_rank()});
  zero_elsewhere(x, own.elsewhere);
  hold({own.rows, own.elsewhere});
  return as_leaf(spec_.scaled_embedding ? scaled_sum(x) : scattered(x));
}

/// Gemma2TextScaledWordEmbedding: DTensor's product by a number is of the ranks' sum; the frame has
/// what they add up.
ir::ValueId Lowering::scaled_sum(V x) {
  const V sum = out(shape(x), dtype(x), grad(x));
  emit(OpKind::tp_all_reduce, {x}, {sum});
  const V y = binary(OpKind::mul, sum, m_.embed_scale);
  hold({x});
  return y;
}

/// targets != ignored
ir::ValueId Lowering::counted(V targets) {
  return make_int(OpKind::compare, shape(targets), DType::u8, {targets},
                  ir::Compare{-100.0, Comparison::not_equal});
}

/// torch.where(targets != ignored, value, 0): the zero is a tensor first.
ir::ValueId Lowering::where_counted(V targets, V value) {
  const V counts = counted(targets);
  const V zero = make_int(OpKind::fill, {}, dtype(value), {});
  return make_int(OpKind::masked_fill, shape(value), dtype(value), {counts, value, zero});
}

/// loss_parallel: _log_softmax and _nll_loss_forward on shards of the logits, (tokens, V / ranks)
/// in fp32. Maximum, sum of exponentials and the targets' entries are reduced over ranks.
ir::ValueId Lowering::vocab_parallel_loss(V logits, V labels) {
  const Shape s = shape(logits), column{s[0], 1}, row{s[0]};
  const auto made = [&](OpKind kind, const Shape& size, std::initializer_list<V> in,
                        const ir::Attributes& a = {}) {
    return make_int(kind, size, DType::f32, in, a);
  };
  const V largest = made(OpKind::tp_all_reduce, column, {made(OpKind::amax, column, {logits})},
                         ir::TpReduce{true});
  const V shifted = made(OpKind::add, s, {logits, largest}, ir::Add{-1.0});
  const V exponentials = made(OpKind::exp, s, {shifted});
  const V sums = made(OpKind::tp_all_reduce, column, {made(OpKind::sum, column, {exponentials})});
  const V log_sums = made(OpKind::log, column, {sums});
  const V log_probabilities = made(OpKind::add, s, {shifted, log_sums}, ir::Add{-1.0});
  hold({shifted, largest, sums, log_sums});

  const V targets = p_.reshape(labels, row);
  const V safe = where_counted(targets, targets);
  const ir::OwnRows own = own_rows(safe, s[1], tp_rank());
  const V found = made(OpKind::gather, column, {log_probabilities, own.rows});
  zero_elsewhere(found, own.elsewhere);
  const V all = made(OpKind::tp_all_reduce, column, {found});
  const V losses = where_counted(targets, made(OpKind::neg, row, {p_.reshape(all, row)}));
  const V wide = make_int(OpKind::cast, row, DType::i64, {counted(targets)});  // sum's own
  const V sum = make_int(OpKind::sum, {}, DType::i64, {wide});
  const V count = made(OpKind::cast, {}, {sum});
  const V total = made(OpKind::sum, {}, {losses});
  const V mean = made(OpKind::div, {}, {total, count});
  hold({losses, safe, own.rows, found, all});

  const V loss = p_.on_storage_of(mean, {}, DType::f32, false);
  p_.value(loss).requires_grad = true;
  emit(OpKind::vocab_parallel_loss, {logits, log_probabilities, targets, count}, {loss},
       ir::TpScatter{ranks(), tp_rank()});
  return loss;
}

}  // namespace ac_advisor::passes
