// torchao 0.18's Float8Linear (float8/float8_linear.py, float8_utils.py, float8_ops.py), as
// AOTAutograd traces it: what eager PyTorch makes and drops are nodes like others here, equal ones
// one, so a weight is scaled once for both products and for all that reads it.
#include <algorithm>
#include <iterator>
#include <vector>

#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

namespace {

/// torch.finfo(torch.float8_e4m3fn).max and e5m2's; float8_utils.py: EPS.
constexpr double largest_e4m3 = 448, largest_e5m2 = 57344, least_amax = 1e-12;
/// The dtype of fp64's size.
constexpr DType wide = DType::i64;

Shape matrix_of(const Shape& shape) { return {shape.numel() / shape.back(), shape.back()}; }

}  // namespace

/// AOTAutograd unpacks a weight that was gathered in fp8 into its elements and its scale
/// (torch/_functorch/_aot_autograd/subclass_utils.py, v2.11), and goes on to take the numbers of
/// the arguments that are parameters (fw_metadata.static_input_indices) for those of what it has
/// unpacked: which weights are free to save is off by the scales before them. Of a checkpoint's
/// arguments the parameters come last.
void Tracer::misplace_parameters(bool checkpointed) {
  const auto is_scale = [&](Tensor t) { return node(t.node).shape.rank() == 0; };
  const auto is_parameter = [&](Tensor t) { return node(t.node).parameter; };
  std::vector<Tensor> arguments;
  std::copy_if(placeholders_.begin(), placeholders_.end(), std::back_inserter(arguments),
               [&](Tensor t) { return !is_scale(t); });
  if (std::none_of(arguments.begin(), arguments.end(),
                   [&](Tensor t) { return node(t.node).dtype == DType::f8; }))
    return;
  if (checkpointed)
    std::stable_partition(arguments.begin(), arguments.end(),
                          [&](Tensor t) { return !is_parameter(t); });
  std::vector<bool> free_to_save;
  for (Tensor t : arguments) free_to_save.push_back(is_parameter(t));
  free_to_save.resize(2 * arguments.size(), false);
  std::size_t at = 0;
  for (Tensor t : arguments) {
    graph_.node(t.node).parameter = free_to_save[at];
    at += node(t.node).dtype == DType::f8 ? 2 : 1;
  }
}

/// hp_tensor_to_float8_dynamic: amax_to_scale in fp64, to_fp8_saturated in fp32.
Tracer::Float8Node Tracer::float8_node(NodeId x, Float8Scale by, bool gradient, bool keep,
                                       bool shared) {
  const double largest = gradient ? largest_e5m2 : largest_e4m3;
  const NodeId magnitudes = like(Target::abs, {x}, x);
  Shape shape = node(x).shape;
  if (by == Float8Scale::of_rows) shape.set(shape.rank() - 1, 1);
  if (by == Float8Scale::of_columns) shape.set(0, 1);
  const NodeId amax = by == Float8Scale::of_all
                          ? emit(Target::max, {magnitudes}, Shape{}, node(x).dtype)
                          : emit(Target::amax, {magnitudes}, shape, node(x).dtype);
  if (keep && by == Float8Scale::of_all) keep_node(amax);
  const NodeId clamped = [&] {
    NodeId in_fp64 = convert_node(amax, wide);
    if (shared) in_fp64 = collective(Target::all_reduce, in_fp64, Shape(node(in_fp64).shape));
    return like(Target::clamp_min, {in_fp64}, in_fp64, least_amax);
  }();
  const NodeId inverse = like(Target::reciprocal, {clamped}, clamped);
  NodeId scale = convert_node(like(Target::mul, {inverse}, inverse, largest), DType::f32);
  if (by != Float8Scale::of_all) {  // round_scales_to_power_of_2
    const NodeId exponent = like(Target::log2, {scale}, scale);
    const NodeId whole = like(Target::floor, {exponent}, exponent);
    scale = like(Target::exp2, {whole}, whole);
  }
  const NodeId scaled = binary(Target::mul, convert_node(x, DType::f32), scale);
  const NodeId above = like(Target::clamp_min, {scaled}, scaled, -largest);
  const NodeId within = like(Target::clamp_max, {above}, above, largest);
  return {emit(Target::convert, {within}, node(within).shape, DType::f8, gradient ? 1 : 0), scale};
}

/// addmm_float8_unwrapped: the inverses of both scales are the product's; of rows and columns and
/// without fast accumulation they multiply it afterwards.
NodeId Tracer::float8_product(const Float8Node& a, const Float8Node& b, bool fast, bool keep) {
  const NodeId of_a = like(Target::reciprocal, {a.scale}, a.scale);
  const NodeId of_b = like(Target::reciprocal, {b.scale}, b.scale);
  const Shape shape{node(a.data).shape[0], node(b.data).shape[1]};
  if (!fast && node(a.scale).shape.rank() > 0) {
    const NodeId scales = emit(Target::mul, {of_a, of_b}, shape, DType::f32);
    const NodeId one = emit(Target::full, {}, Shape{}, DType::f32, 0, 1);
    const NodeId plain = emit(Target::scaled_mm, {a.data, b.data, one, one}, shape, DType::bf16);
    return convert_node(binary(Target::mul, plain, scales), DType::bf16);
  }
  const NodeId y =
      emit(Target::scaled_mm, {a.data, b.data, of_a, of_b}, shape, DType::bf16, 0, fast ? 1 : 0);
  if (keep)
    for (NodeId n : {of_a, of_b, y}) keep_node(n);
  return y;
}

/// preprocess_addmm: an operand that lies the wrong way round is copied, and turned.
NodeId Tracer::turned_copy(NodeId x) {
  const NodeId copied = like(Target::clone, {x}, x);
  return permute_node(copied, false);
}

/// matmul_with_hp_or_float8_args of x and weight.t(). `scale`: what a weight that was gathered in
/// fp8 was multiplied by.
Tensor Tracer::float8_linear(Tensor x, Tensor weight, const Tensor* scale,
                             const Float8Layer& layer) {
  const bool rowwise = layer.rowwise, cast_before = dtype(x) == DType::f8;
  // Of rows and columns the largest are reduced where ranks have parts of what they go along.
  const bool shared = layer.sharing != Float8Sharing::none;
  const bool along_inputs = layer.sharing == Float8Sharing::of_inputs || (shared && !rowwise),
             along_outputs = layer.sharing == Float8Sharing::of_outputs || (shared && !rowwise);
  const Float8Scale rows = rowwise ? Float8Scale::of_rows : Float8Scale::of_all,
                    columns = rowwise ? Float8Scale::of_columns : Float8Scale::of_all;
  const Shape all = shape(x), flat = matrix_of(all);
  const std::int64_t width = shape(weight)[0];
  const NodeId across = permute_node(weight.node, false);
  Float8Node a = cast_before ? Float8Node{x.node, float8_scale_of(x.node)}
                             : float8_node(x.node, rows, false, layer.keep_amax, along_inputs);
  const NodeId given_scale = scale != nullptr ? scale->node : -1;
  const Float8Node b = given_scale >= 0
                           ? Float8Node{across, given_scale}
                           : float8_node(across, columns, false, layer.keep_amax, along_inputs);
  a.data = view_node(a.data, flat);
  if (rowwise) a.scale = view_node(a.scale, {flat[0], 1});
  const NodeId y = float8_product(a, b, true, layer.keep);
  const bool trained = x.requires_grad || weight.requires_grad;
  return made(view_node(y, with_last(all, width)), trained, [=, this](NodeId g) {
    const NodeId flat_g = view_node(g, {flat[0], width});
    const bool given = node(g).dtype == DType::f8;
    const Float8Node of_rows = given ? Float8Node{flat_g, float8_scale_of(g)}
                                     : float8_node(flat_g, rows, !rowwise, false, along_outputs);
    // The weight once more, with a scale for each of the other dimension's.
    const NodeId again = permute_node(weight.node, false);
    Float8Node w = given_scale >= 0 ? Float8Node{again, given_scale}
                                    : float8_node(again, rows, false, false, along_outputs);
    if (rowwise) w.scale = permute_node(w.scale, false);
    w.data = turned_copy(w.data);
    const NodeId gx =
        x.requires_grad ? view_node(float8_product(of_rows, w, false, false), all) : -1;
    NodeId gw = -1;
    if (weight.requires_grad) {
      Float8Node of_columns =
          given ? of_rows : float8_node(flat_g, columns, !rowwise, false, shared && !rowwise);
      const NodeId flat_x = view_node(x.node, flat);
      Float8Node in = cast_before ? Float8Node{flat_x, a.scale}
                                  : float8_node(flat_x, columns, false, false, shared && !rowwise);
      const NodeId turned = permute_node(of_columns.data, false);
      if (rowwise) of_columns.scale = permute_node(of_columns.scale, false);
      of_columns.data = like(Target::clone, {turned}, turned);
      in.data = turned_copy(permute_node(in.data, false));
      gw = float8_product(of_columns, in, false, false);
    }
    if (gx >= 0) give(x, gx);
    if (gw >= 0) give(weight, gw);
  });
}

/// float8_tensor_parallel.py: PrepareFloat8ModuleInput and Float8RowwiseParallel.
Tensor Tracer::float8_input(Tensor x, bool keep_amax) {
  const Float8Node cast = float8_node(x.node, Float8Scale::of_all, false, keep_amax, true);
  float8_scales_[cast.data] = cast.scale;
  return made(cast.data, x.requires_grad, [=, this](NodeId g) { give(x, g); });
}

/// NoopFwToFloat8BwDynamic
Tensor Tracer::float8_gradient(Tensor y) {
  return made(y.node, y.requires_grad, [=, this](NodeId g) {
    const Float8Node cast = float8_node(g, Float8Scale::of_all, true, false, true);
    float8_scales_[cast.data] = cast.scale;
    give(y, cast.data);
  });
}

}  // namespace ac_advisor::passes::compile
