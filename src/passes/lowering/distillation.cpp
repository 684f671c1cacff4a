// TRL v1.16, trainer/distillation_trainer.py: DistillationTrainer._compute_loss with beta 1, its
// default; kernels/chunked_divergence.py: ChunkedDivergenceFunction. The derivative is
// ir/derivatives_tiled.cpp's.
#include <algorithm>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Phase;

namespace {

constexpr std::int64_t tile_tokens = 4096;  // TOKEN_CHUNK_SIZE
constexpr std::int64_t tile_words = 32768;  // VOCAB_CHUNK_SIZE

}  // namespace

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

/// Every tile of both models' logits in fp32, folded into statistics of the student's and the
/// teacher's tokens, (N): the student's log-sum-exp, and what the divergence is beside it. Locals
/// of the function die with it.
ir::ValueId Lowering::divergence(const HeadOf& student, const HeadOf& teacher) {
  const std::int64_t all = shape(student.rows)[0], words = shape(student.weight)[0];
  std::vector<V> frame;
  const auto local = [&](V v) {
    frame.push_back(v);
    return v;
  };
  const auto zeros = [&] { return make_int(OpKind::fill, {all}, DType::f32, {}); };
  const auto least = [&] {
    return local(make_int(OpKind::add_scalar, {all}, DType::f32, {zeros()}));
  };
  const V student_most = least(), teacher_most = least();
  std::array<V, 7> sums{};  // of exponentials, products with logits and gaps; the last two of a JSD
  for (V& sum : sums) sum = local(zeros());
  const auto [sum, products, teacher_sum, teacher_gap, gap, jsd, kl] = sums;
  std::array<V, 2> buffers{};
  for (V& buffer : buffers) {
    buffer = local(out({std::min(all, tile_tokens), tile_words}, DType::f32, false));
    emit(OpKind::empty, {}, {buffer});
  }
  const auto narrowed = [&](V part, DType type) {
    return dtype(part) == type ? part : make_int(OpKind::cast, shape(part), type, {part});
  };
  const auto computes_in = [&](const HeadOf& of) {
    return config_.precision.autocast ? config_.precision.compute_dtype : dtype(of.rows);
  };
  const auto log_sum = [&](V most, V exponentials, std::int64_t start, std::int64_t n) {
    const V part = p_.narrow(exponentials, 0, start, n);
    const V logarithm = make_int(OpKind::log, {n}, DType::f32, {part});
    return make_int(OpKind::add, {n}, DType::f32, {p_.narrow(most, 0, start, n), logarithm});
  };
  std::array<V, 4> of_chunk{ir::no_id, ir::no_id, ir::no_id, ir::no_id};
  const auto rebind = [&](std::size_t which, V next) {
    hold({of_chunk[which]});
    of_chunk[which] = next;
  };
  for (std::int64_t start = 0; start < all; start += tile_tokens) {
    const std::int64_t n = std::min(tile_tokens, all - start);
    const HeadOf* const models[] = {&student, &teacher};
    for (std::size_t i = 0; i < 2; ++i)
      rebind(i, narrowed(p_.narrow(models[i]->rows, 0, start, n), computes_in(*models[i])));
    for (std::int64_t word = 0; word < words; word += tile_words) {
      const std::int64_t w = std::min(tile_words, words - word);
      std::array<V, 2> tiles{};
      for (std::size_t i = 0; i < 2; ++i) {
        tiles[i] = p_.on_storage_of(buffers[i], {n, w}, DType::f32, true);
        const V part = narrowed(p_.narrow(models[i]->weight, 0, word, w), computes_in(*models[i]));
        emit(OpKind::mm, {of_chunk[i], part}, {tiles[i]},
             ir::Product{static_cast<std::int32_t>(shape(part).back())});
      }
      p_.emit(OpKind::generated, phase_, at(leaf_),
              std::vector<V>{tiles[0], tiles[1], student_most, sum}, std::vector<V>{},
              ir::Generated{});
    }
    rebind(2, log_sum(student_most, sum, start, n));
    rebind(3, log_sum(teacher_most, teacher_sum, start, n));
  }
  const V of_student = log_sum(student_most, sum, 0, all);
  rebind(2, ir::no_id);
  const V of_teacher = log_sum(teacher_most, teacher_sum, 0, all);
  rebind(3, ir::no_id);
  const auto each = [&](OpKind kind, V a, V b) {
    return make_int(kind, {all}, DType::f32, {a, b});
  };
  const V entropy = each(OpKind::add, of_student, each(OpKind::div, products, sum)),
          apart = each(OpKind::add, each(OpKind::div, gap, sum), of_student);
  const V result = out({all}, DType::f32, grad(student.rows) || grad(student.weight));
  emit(OpKind::tiled_divergence,
       {student.rows, student.weight, teacher.rows, teacher.weight, of_student, of_teacher, apart},
       {result},
       ir::TiledHead{static_cast<std::int32_t>(tile_tokens), static_cast<std::int32_t>(tile_words),
                     is_half(computes_in(student))});
  hold({apart, of_chunk[0], of_chunk[1]});
  hold_all(frame);
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
  const V of_tokens = divergence(student, teacher);
  const V total = out({}, DType::f32, grad(of_tokens));
  emit(OpKind::sum, {of_tokens}, {total});
  s_.loss = unary(OpKind::div, total, ir::Number{static_cast<double>(tokens)});
  hold({valid, of_tokens, total, student.rows, teacher.rows});
  hold({hidden_, states, taught});
  make_int(OpKind::sum, {}, DType::i64, {counted});
  s_.outputs = {of_tokens};
}

}  // namespace ac_advisor::passes
