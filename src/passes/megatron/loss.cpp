// The LM head and _VocabParallelCrossEntropy (core_v0.16, tensor_parallel/cross_entropy.py): one
// fp32 copy of the logits, which becomes their exponentials, the softmax, and its gradient.
#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Phase;
using ir::Shape;

ir::ValueId MegatronLayers::vocab_parallel_cross_entropy(V logits, V labels) {
  const Shape s = shape(logits), tokens{s[0], s[1]}, row{s[0] * s[1]};
  const V wide = plain(s, DType::f32);
  emit(OpKind::cast, {logits}, {wide});
  const V most = plain(tokens, DType::f32), places = plain(tokens, DType::i64);
  emit(OpKind::max, {wide}, {most, places});
  hold({places});
  if (tp_ > 1) emit(OpKind::tp_all_reduce, {most}, {});
  const V shifted = in_place(OpKind::add, wide, {wide, most}, ir::Add{-1.0});
  const auto [rows, elsewhere] = own_rows(labels, part(spec_.vocab), 0);
  const V order = plain(row, DType::i64);
  emit(OpKind::arange, {}, {order});
  const V found = plain(row, DType::f32), predicted = plain(row, DType::f32);
  emit(OpKind::index, {shifted, rows}, {found});
  emit(OpKind::clone, {found}, {predicted});
  zero_elsewhere(predicted, elsewhere);
  const V exponentials = in_place(OpKind::exp, shifted, {shifted});
  const V sums = plain({s[0], s[1], 1}, DType::f32);
  emit(OpKind::sum, {exponentials}, {sums});
  hold({order, found});
  if (tp_ > 1) {
    emit(OpKind::tp_all_reduce, {predicted}, {});
    emit(OpKind::tp_all_reduce, {sums}, {});
  }
  const V log_sums = plain({s[0], s[1], 1}, DType::f32), losses = plain(tokens, DType::f32);
  emit(OpKind::log, {sums}, {log_sums});
  emit(OpKind::add, {log_sums, predicted}, {losses}, ir::Add{-1.0});
  const V softmax = in_place(OpKind::div, exponentials, {exponentials, sums}, ir::Number{});
  hold({most, sums, predicted});

  // backward: logits, softmax, elsewhere, rows; the gradient.
  CompiledGraph g;
  g.made = {{row, DType::i64, -1},  // 5: arange
            {row, DType::f32, -1},  // 6: target_mask.float()
            {row, DType::f32, -1},  // 7: softmax_update
            {row, DType::f32, -1},  // 8: grad_2d[arange, target]
            {row, DType::f32, -1},  // 9: less the update
            {s, DType::f32, 1},     // 10: put back
            {s, DType::f32, 1}};    // 11: times the gradient
  const auto leaf = Module::loss;
  g.launches = {{OpKind::arange, {}, leaf, {}, {5}},
                {OpKind::cast, {}, leaf, {2}, {6}},
                {OpKind::add_scalar, ir::Number{1.0}, leaf, {6}, {7}},
                {OpKind::index, {}, leaf, {1, 3}, {8}},
                {OpKind::add, ir::Add{-1.0}, leaf, {8, 7}, {9}},
                {OpKind::index_put, {}, leaf, {1, 5, 3, 9}, {10}},
                {OpKind::mul, {}, leaf, {10, 4}, {11}}};
  g.results = {11, -1, -1, -1};
  return node(OpKind::autograd_function, {logits, softmax, elsewhere, rows}, losses, std::move(g));
}

/// fusions/fused_cross_entropy.py: four compiled functions. The exponentials are a tensor beside
/// the fp32 logits, which live until the forward returns; backward puts the softmax less one at its
/// place into another, of which a last kernel makes the gradient in bf16.
ir::ValueId MegatronLayers::fused_cross_entropy(V logits, V labels) {
  const Shape s = shape(logits), tokens{s[0], s[1]}, row{s[0] * s[1]};
  const auto generated = [&](std::initializer_list<V> read, std::initializer_list<V> made) {
    emit(OpKind::generated, read, made, ir::Generated{});
  };
  const V wide = plain(s, DType::f32), most = plain(tokens, DType::f32);
  generated({logits}, {wide, most});
  if (tp_ > 1) emit(OpKind::tp_all_reduce, {most}, {});
  const V elsewhere = plain(tokens, DType::u8), rows = plain(row, DType::i64),
          predicted_and_sums = plain({2 * s[0], s[1]}, DType::f32), softmax = plain(s, DType::f32);
  generated({wide, labels, most}, {elsewhere, rows, predicted_and_sums, softmax});
  if (tp_ > 1) emit(OpKind::tp_all_reduce, {predicted_and_sums}, {});
  const V losses = plain(tokens, DType::f32);
  generated({softmax, predicted_and_sums},
            {p_.on_storage_of(softmax, s, DType::f32, true), losses});
  hold({wide, most, predicted_and_sums});

  CompiledGraph g;
  // logits, softmax, elsewhere, rows, gradient
  g.made = {{s, DType::f32, -1}, {s, dtype_, -1}};
  g.launches = {{OpKind::generated, ir::Generated{}, Module::loss, {1, 2, 3}, {5}},
                {OpKind::generated, ir::Generated{}, Module::loss, {5, 4}, {6}}};
  g.results = {6, -1, -1, -1};
  return node(OpKind::autograd_function, {logits, softmax, elsewhere, rows}, losses, std::move(g));
}

void MegatronLayers::loss(V hidden) {
  const V logits = linear(hidden, m_.lm_head, ir::no_id, Split::columns, Module::lm_head);
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V labels = plain({seq_, batch_}, DType::i64);
  emit(OpKind::clone, {p_.reshape(labels_, {seq_, batch_})}, {labels});
  const V losses = config_.memory.loss == LossKind::ce_compiled
                       ? fused_cross_entropy(logits, labels)
                       : vocab_parallel_cross_entropy(logits, labels);
  hold({logits, labels, hidden});
  // pretrain_gpt.py, loss_func: the sum of what the mask counts, over the number of micro-batches.
  const V by_sequence = out({batch_, seq_}, DType::f32, true);
  emit(OpKind::clone, {p_.reshape(losses, {batch_, seq_})}, {by_sequence});
  const V counted = out({batch_, seq_}, DType::f32, true);
  emit(OpKind::mul, {by_sequence, loss_mask_}, {counted});
  const V total = out({}, DType::f32, true);
  emit(OpKind::sum, {counted}, {total});
  s_.loss = total;
}

}  // namespace ac_advisor::passes
