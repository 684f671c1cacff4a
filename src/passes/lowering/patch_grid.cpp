// transformers v5.23, vision_utils.py: what encoders of images of any size are told of the grids of
// their patches, small tensors that each forward makes anew.
#include "ac_advisor/model/image_size.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::OpKind;
using ir::Shape;

/// get_vision_position_ids: row and column of each patch, those of a merged one together.
void Lowering::patch_positions(PatchRows& rows) {
  const model::ImageGrid grid = model::image_grid(*spec_.tower->run, config_.run);
  const auto numbers = [&](OpKind kind, const Shape& size, std::initializer_list<V> from) {
    return make_int(kind, size, DType::i64, from);
  };
  numbers(OpKind::empty, {1}, {});  // spatial_merge_size, from the host
  emit(OpKind::host_read, {m_.tower.grids}, {});
  std::vector<V> all;
  for (std::size_t image = 0; image < rows.images.size(); ++image) {
    const V row = numbers(OpKind::arange, {grid.rows}, {});
    const V column = numbers(OpKind::arange, {grid.columns}, {});
    const V row_of = numbers(OpKind::clone, {grid.patches()}, {row});
    const V column_of = numbers(OpKind::clone, {grid.patches()}, {column});
    const V both = numbers(OpKind::cat, {grid.patches(), 2}, {row_of, column_of});
    all.push_back(numbers(OpKind::clone, {grid.patches(), 2}, {both}));  // repeat, of one frame
  }
  rows.positions = out({rows.rows, 2}, DType::i64, false);
  p_.emit(OpKind::cat, phase_, at(leaf_), all, std::vector<V>{rows.positions});
  rows.locals.push_back(rows.positions);
}

/// repeat_interleave: each entry of `x` as often as its image's entry of `counts`.
ir::ValueId Lowering::repeated_by(V x, V counts, std::int64_t total) {
  const std::int64_t images = shape(counts)[0];
  const V sums = make_int(OpKind::cumsum, {images}, DType::i64, {counts});
  const V right = make_int(OpKind::compare, {images}, DType::u8, {counts});
  emit(OpKind::host_read, {make_int(OpKind::sum, {}, DType::u8, {right})}, {});
  emit(OpKind::host_read, {sums}, {});
  const V which = make_int(OpKind::repeat_interleave, {total}, DType::i64, {counts, sums});
  return make_int(OpKind::index, {total}, DType::i64, {x, which});
}

/// get_vision_attention_seqlens, get_vision_window_index: where what attends to itself ends.
void Lowering::chunk_ends(PatchRows& rows) {
  const auto images = static_cast<std::int64_t>(rows.images.size());
  const V sizes = make_int(OpKind::mul, {images}, DType::i64, {m_.tower.grids, m_.tower.grids});
  const V lengths = repeated_by(sizes, m_.tower.grids, images);
  const V sums = make_int(OpKind::cumsum, {images}, DType::i32, {lengths});
  rows.image_ends = make_int(OpKind::pad, {images + 1}, DType::i32, {sums});
  rows.locals.push_back(rows.image_ends);
  if (rows.windows.empty()) return;
  emit(OpKind::host_read, {m_.tower.grids}, {});
  const auto windows = static_cast<std::int64_t>(rows.windows.size());
  const V given = make_int(OpKind::empty, {windows + 1}, DType::i32, {});  // from the host
  const V state = make_int(OpKind::fill, {1}, DType::i64, {});             // unique_consecutive
  rows.window_ends = make_int(OpKind::index, {windows + 1}, DType::i32, {given, state});
  emit(OpKind::host_read, {rows.window_ends}, {});
  const std::int64_t merge = spec_.tower->run->merge;
  rows.order = make_int(OpKind::empty, {rows.rows / (merge * merge)}, DType::i64, {});
  rows.locals.push_back(rows.window_ends);
}

/// _interpolation_axis_taps_weights: two places along an axis of the learned table for each patch,
/// and their weights.
std::pair<ir::ValueId, ir::ValueId> Lowering::axis_taps(V index, V size) {
  const std::int64_t n = shape(index)[0];
  const Shape one{n}, two{n, 2};
  const auto wide = [&](OpKind kind, const Shape& s, std::initializer_list<V> from) {
    return make_int(kind, s, DType::f32, from);
  };
  const V index_wide = wide(OpKind::cast, one, {index});
  const V scaled = wide(OpKind::mul_scalar, one, {index_wide});
  const V less = unary(OpKind::add_scalar, size, ir::Number{-1.0});
  const V source = wide(OpKind::div, one, {scaled, unary(OpKind::clamp, less)});
  const V floor = wide(OpKind::floor, one, {source});
  const V offsets = make_int(OpKind::arange, {2}, DType::i64, {});
  const V whole = make_int(OpKind::cast, one, DType::i64, {floor});
  const V raw = make_int(OpKind::add, two, DType::i64, {whole, offsets});
  const V taps = unary(OpKind::clamp, raw);
  const V rest = wide(OpKind::add, one, {source, floor});
  const V distance = unary(OpKind::abs, wide(OpKind::add, two, {rest, offsets}));
  const V weights = unary(OpKind::clamp, unary(OpKind::add_scalar, distance, ir::Number{1.0}));
  hold({index_wide, source, floor, offsets, raw, distance});
  return {taps, weights};
}

/// get_vision_interpolation_indices_and_weights: four places of the learned table for each patch.
void Lowering::interpolation(PatchRows& rows) {
  const std::int64_t n = rows.rows;
  const auto images = static_cast<std::int64_t>(rows.images.size());
  const V grids = m_.tower.grids;
  const auto numbers = [&](OpKind kind, std::int64_t size, std::initializer_list<V> from) {
    return make_int(kind, {size}, DType::i64, from);
  };
  const V counts = numbers(OpKind::mul, images, {numbers(OpKind::mul, images, {grids, grids})});
  const V heights = repeated_by(grids, counts, n), widths = repeated_by(grids, counts, n);
  const V sums = numbers(OpKind::cumsum, images, {counts});
  const V starts = repeated_by(numbers(OpKind::pad, images, {sums}), counts, n);
  const V total = make_int(OpKind::sum, {}, DType::i64, {counts});
  emit(OpKind::host_read, {total}, {});
  const auto of_patch = [&](OpKind kind, std::initializer_list<V> from) {
    return make_int(kind, {n}, DType::i64, from);
  };
  // remainders are of one kernel, too
  const V counted = of_patch(OpKind::arange, {});
  const V apart = of_patch(OpKind::add, {counted, starts});
  const V within = of_patch(OpKind::mul, {apart, of_patch(OpKind::mul, {heights, widths})});
  const V blocks = of_patch(OpKind::floor_divide, {widths});
  const V in_column = of_patch(OpKind::clone, {within});
  const V in_row = of_patch(OpKind::clone, {of_patch(OpKind::floor_divide, {within})});
  const V column_of = of_patch(OpKind::mul, {of_patch(OpKind::floor_divide, {within}), blocks});
  const V row_of = of_patch(OpKind::mul, {within, of_patch(OpKind::mul_scalar, {blocks})});
  const V row = of_patch(OpKind::add, {of_patch(OpKind::mul_scalar, {row_of}), in_row});
  const V column = of_patch(OpKind::add, {of_patch(OpKind::mul_scalar, {column_of}), in_column});
  const auto [row_taps, row_weights] = axis_taps(row, heights);
  const auto [column_taps, column_weights] = axis_taps(column, widths);
  const Shape square{n, 4};
  rows.taps = make_int(OpKind::add, square, DType::i64,
                       {make_int(OpKind::mul_scalar, {n, 2}, DType::i64, {row_taps}), column_taps});
  rows.weights = make_int(OpKind::mul, square, DType::f32, {row_weights, column_weights});
  hold({counts, heights, widths, starts, within, blocks, in_column, in_row, column_of, row_of, row,
        column, row_taps, row_weights, column_taps, column_weights});
  rows.locals.insert(rows.locals.end(), {rows.taps, rows.weights});
}

/// Qwen2_5_VLVisionRotaryEmbedding.forward: cos and sin of both angles, (patches, head), in fp32.
void Lowering::patch_angles(PatchRows& rows) {
  const model::TowerRun& run = *spec_.tower->run;
  const std::int64_t width = run.hidden / run.heads, n = rows.rows;
  const V positions = make_int(OpKind::cast, {n, 2}, DType::f32, {rows.positions});
  const V angles = out({n, 2, width / 4}, DType::f32, false);
  emit(OpKind::mul, {positions, m_.tower.inv_freq}, {angles});
  const auto of = [&](OpKind kind) {
    return unary(OpKind::mul_scalar, unary(kind, angles), ir::Number{1.0});
  };
  const V cos_apart = of(OpKind::cos), sin_apart = of(OpKind::sin);
  const auto recomposed = [&](V each) {
    const V both = out({n, width / 2}, DType::f32, false);
    emit(OpKind::cat, {p_.narrow(each, 1, 0, 1), p_.narrow(each, 1, 1, 1)}, {both});
    const V twice = out({n, width}, DType::f32, false);
    emit(OpKind::cat, {both, both}, {twice});
    return twice;
  };
  V cos = recomposed(cos_apart), sin = recomposed(sin_apart);
  hold({angles});
  if (rows.order != ir::no_id) {
    const V cos_first = cos, sin_first = sin;
    cos = in_order(cos, rows.order);
    sin = in_order(sin, rows.order);
    hold({cos_first, sin_first});
  }
  rows.rotary = {p_.reshape(cos, {1, 1, n, width}), p_.reshape(sin, {1, 1, n, width})};
  rows.locals.insert(rows.locals.end(), {cos, sin});
}

}  // namespace ac_advisor::passes
