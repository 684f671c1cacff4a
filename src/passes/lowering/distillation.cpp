// TRL v1.16, trainer/distillation_trainer.py: DistillationTrainer._compute_loss with beta 1, its
// default; kernels/chunked_divergence.py: ChunkedDivergenceFunction. The derivative is
// ir/derivatives_tiled.cpp's.
#include <algorithm>

#include "lowering.hpp"
#include "passes/lowering/tiled_head.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

/// _get_last_hidden_state: without the last token, then the completion's alone, as views.
ir::ValueId Lowering::last_states(V hidden, std::int64_t width) {
  const std::int64_t rows = config_.run.batch, all = config_.run.seq,
                     completion = all - config_.task.prompt;
  const auto start = static_cast<std::int32_t>(all - 1 - completion);
  const V without_last = sliced(hidden, {rows, all - 1, width}, ir::Slice{0, 1});
  return sliced(without_last, {rows, completion, width}, ir::Slice{start, 1});
}

/// The teacher's forward, under torch.no_grad, while what the student saved is alive.
ir::ValueId Lowering::teacher_states() {
  V states{};
  apart(ir::Owner::reference, [&](Lowering& teacher) {
    teacher.phase_ = Phase::loss;
    teacher.backbone();
    teacher.end_autocast();
    states = teacher.last_states(teacher.hidden_, teacher.spec_.hidden);
  });
  return states;
}

/// states.reshape(-1, width)[valid]
ir::ValueId Lowering::compared_rows(V states, V valid) {
  const ir::Shape s = shape(states), flat{s[0] * s[1], s[2]};
  V rows = s[0] == 1 ? p_.reshape(states, flat) : p_.reshape(unary(OpKind::clone, states), flat);
  const V chosen = out(flat, dtype(states), grad(states));
  emit(OpKind::index, {rows, valid}, {chosen});
  return chosen;
}

/// What the products of a head are computed in.
DType Lowering::product_dtype(const HeadOf& of) const {
  return config_.precision.autocast ? config_.precision.compute_dtype : dtype(of.rows);
}

Lowering::Divergence Lowering::divergence_of(std::int64_t tokens) {
  const auto zeros = [&] { return make_int(OpKind::fill, {tokens}, DType::f32, {}); };
  const auto least = [&] { return make_int(OpKind::add_scalar, {tokens}, DType::f32, {zeros()}); };
  Divergence d;
  for (V& most : d.most) most = least();
  for (V& sum : d.sums) sum = zeros();
  for (V& buffer : d.buffers) {
    buffer = out({std::min(tokens, tile_tokens), tile_words}, DType::f32, false);
    emit(OpKind::empty, {}, {buffer});
  }
  return d;
}

/// most + log(sum of exponentials), of some of the tokens.
ir::ValueId Lowering::log_sum(V most, V exponentials, std::int64_t start, std::int64_t n) {
  const V logarithm =
      make_int(OpKind::log, {n}, DType::f32, {p_.narrow(exponentials, 0, start, n)});
  return make_int(OpKind::add, {n}, DType::f32, {p_.narrow(most, 0, start, n), logarithm});
}

/// Tiles of both models' logits in fp32, each pair folded into the statistics of its tokens.
void Lowering::fold_tiles(const std::array<HeadOf, 2>& heads, const std::array<V, 2>& rows,
                          const Divergence& d) {
  const std::int64_t n = shape(rows[0])[0], words = shape(heads[0].weight)[0];
  for (std::int64_t word = 0; word < words; word += tile_words) {
    const std::int64_t w = std::min(tile_words, words - word);
    std::array<V, 2> tiles{};
    for (std::size_t i = 0; i < 2; ++i) {
      tiles[i] = p_.on_storage_of(d.buffers[i], {n, w}, DType::f32, true);
      const V part = narrowed(p_.narrow(heads[i].weight, 0, word, w), product_dtype(heads[i]));
      emit(OpKind::mm, {rows[i], part}, {tiles[i]},
           ir::Product{static_cast<std::int32_t>(shape(part).back())});
    }
    p_.emit(OpKind::generated, phase_, at(leaf_),
            std::vector<V>{tiles[0], tiles[1], d.most[0], d.exponentials()}, std::vector<V>{},
            ir::Generated{});
  }
}

/// ChunkedDivergenceFunction.forward, of the student and its teacher. Its locals die with it.
ir::ValueId Lowering::divergence(const std::array<HeadOf, 2>& heads) {
  const std::int64_t all = shape(heads[0].rows)[0];
  const Divergence d = divergence_of(all);
  std::array<V, 4> of_chunk{ir::no_id, ir::no_id, ir::no_id, ir::no_id};
  const auto rebind = [&](std::size_t which, V next) {
    hold({of_chunk[which]});
    of_chunk[which] = next;
  };
  for (std::int64_t start = 0; start < all; start += tile_tokens) {
    const std::int64_t n = std::min(tile_tokens, all - start);
    for (std::size_t i = 0; i < 2; ++i)
      rebind(i, narrowed(p_.narrow(heads[i].rows, 0, start, n), product_dtype(heads[i])));
    fold_tiles(heads, {of_chunk[0], of_chunk[1]}, d);
    rebind(2, log_sum(d.most[0], d.exponentials(), start, n));
    rebind(3, log_sum(d.most[1], d.teachers_exponentials(), start, n));
  }
  const V student = log_sum(d.most[0], d.exponentials(), 0, all);
  rebind(2, ir::no_id);
  const V teacher = log_sum(d.most[1], d.teachers_exponentials(), 0, all);
  rebind(3, ir::no_id);
  const auto each = [&](OpKind kind, V a, V b) {
    return make_int(kind, {all}, DType::f32, {a, b});
  };
  const V entropy = each(OpKind::add, student, each(OpKind::div, d.products(), d.exponentials())),
          apart = each(OpKind::add, each(OpKind::div, d.gaps(), d.exponentials()), student);
  const V result = out({all}, DType::f32, grad(heads[0].rows) || grad(heads[0].weight));
  emit(OpKind::tiled_divergence,
       {heads[0].rows, heads[0].weight, heads[1].rows, heads[1].weight, student, teacher, apart},
       {result}, tiles_in(product_dtype(heads[0])));
  hold({apart, of_chunk[0], of_chunk[1]});
  for (const V most : d.most) hold({most});
  for (const V sum : d.sums) hold({sum});
  for (const V buffer : d.buffers) hold({buffer});
  make_int(OpKind::sum, {}, DType::f32, {entropy});  // what is logged, of which a step has a mean
  hold({entropy});
  return result;
}

void Lowering::loss_distillation() {
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const V states = last_states(hidden_, spec_.hidden);
  end_autocast();
  const V taught = teacher_states();
  phase_ = Phase::loss;
  leaf_ = Module::loss;
  const std::int64_t tokens = config_.run.batch * (config_.run.seq - config_.task.prompt);
  const V valid = make_int(OpKind::compare, {tokens}, DType::u8, {m_.labels},
                           ir::Compare{0.0, ir::Comparison::not_equal});
  const V counted = make_int(OpKind::sum, {}, DType::i64, {valid});
  const HeadOf student{compared_rows(states, valid), m_.lm_head},
      teacher{compared_rows(taught, valid), s_.reference.lm_head};
  const V of_tokens = divergence({student, teacher});
  const V total = out({}, DType::f32, grad(of_tokens));
  emit(OpKind::sum, {of_tokens}, {total});
  s_.loss = unary(OpKind::div, total, ir::Number{static_cast<double>(tokens)});
  hold({valid, of_tokens, total, student.rows, teacher.rows});
  hold({hidden_, states, taught});
  make_int(OpKind::sum, {}, DType::i64, {counted});
  s_.outputs = {of_tokens};
}

}  // namespace ac_advisor::passes
