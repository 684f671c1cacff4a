// transformers v5.23: Qwen2_5_VLModel.get_rope_index and Qwen3VLModel's, three positions a token;
// Qwen3VLTextModel._deepstack_process, features of images that blocks add to their outputs.
#include "ac_advisor/model/image_size.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// A sequence at a time: its text counts on, each image has its rows' and columns' numbers.
ir::ValueId Lowering::grid_positions() {
  leaf_ = Module::rotary;
  const model::TowerRun& run = *spec_.tower->run;
  const model::ImageGrid grid = model::image_grid(run, config_.run);
  const std::int64_t b = config_.run.batch, s = config_.run.seq, images = config_.run.images;
  const std::int64_t rows = grid.rows / run.merge, columns = grid.columns / run.merge;
  const std::int64_t tokens = rows * columns;
  const auto numbers = [&](OpKind kind, const Shape& size, std::initializer_list<V> from) {
    return make_int(kind, size, DType::i64, from);
  };
  const V all = numbers(OpKind::fill, {3, b, s}, {});
  std::vector<V> ends;
  for (std::int64_t sequence = 0; sequence < b; ++sequence) {
    std::vector<V> parts;
    V position = ir::no_id;
    emit(OpKind::host_read, {m_.tower.token_types}, {});
    const auto text = [&](std::int64_t length) {
      const V counted = numbers(OpKind::arange, {length}, {});
      parts.push_back(numbers(OpKind::add, {3, length}, {counted}));
      if (position != ir::no_id) position = numbers(OpKind::add_scalar, {}, {position});
    };
    text(1);
    for (std::int64_t image = 0; image < images; ++image) {
      const auto count = [&](std::int64_t n) {
        return numbers(OpKind::add_scalar, {n}, {numbers(OpKind::arange, {n}, {})});
      };
      emit(OpKind::host_read, {m_.tower.grids}, {});
      const V time = count(1), row = count(rows), column = count(columns);
      const V grids = numbers(OpKind::cat, {3, tokens}, {time, row, column});
      parts.push_back(numbers(OpKind::add_scalar, {3, tokens}, {grids}));
      const V larger = make_int(OpKind::compare, {}, DType::u8, {m_.tower.grids});
      emit(OpKind::host_read, {larger}, {});
      position = numbers(OpKind::add_scalar, {}, {numbers(OpKind::floor_divide, {}, {larger})});
      if (image + 1 < images) text(2);
    }
    text(s - images * (tokens + 2) + 1);
    const V joined = out({3, s}, DType::i64, false);
    p_.emit(OpKind::cat, phase_, at(leaf_), parts, std::vector<V>{joined});
    emit(OpKind::copy, {all, joined}, {p_.on_storage_of(all, {3, b, s}, DType::i64, true)});
    const V last = numbers(OpKind::amax, {}, {joined});
    ends.push_back(numbers(OpKind::add_scalar, {}, {numbers(OpKind::add_scalar, {}, {last})}));
    hold_all(parts);
    hold({joined, position});
  }
  for (const V end : ends) emit(OpKind::host_read, {end}, {});
  const V deltas = numbers(OpKind::empty, {b, 1}, {});  // torch.tensor, from the host
  hold_all(ends);
  beside_decoder_.push_back(deltas);  // self.rope_deltas
  return all;
}

/// Qwen3VLTextModel._deepstack_process: in a copy of the hidden states.
ir::ValueId Lowering::with_deep_features(V hidden, std::size_t layer) {
  leaf_ = Module::embed;
  const V copy = unary(OpKind::clone, hidden);
  const V features = cast(deep_features_[layer], dtype(copy));
  const V rows = out(shape(features), dtype(copy), grad(copy));
  emit(OpKind::index, {copy, image_mask_}, {rows});
  const V sums = binary(OpKind::add, rows, features);
  const V y = p_.on_storage_of(copy, shape(copy), dtype(copy), true);
  p_.value(y).requires_grad = grad(copy) || grad(sums);
  emit(OpKind::index_put, {copy, image_mask_, sums}, {y});
  hold({hidden, sums});  // the caller's, `local_this`
  return y;
}

}  // namespace ac_advisor::passes
