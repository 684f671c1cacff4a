#include "ac_advisor/simulate/measurements.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::simulate {
namespace {

using ir::OpKind;
using ir::Program;
using ir::ValueId;

constexpr std::size_t nearest_points = 6;

bool on_lists(OpKind kind) {
  return kind == OpKind::adamw_fused || kind == OpKind::sgd_fused || kind == OpKind::foreach;
}

/// Not laid out as its shape says: heads before tokens, a part of its storage, or repeated.
bool strided(const Program& p, ValueId v) {
  return p.value(v).permuted || p.storage(p.storage_of(v)).bytes != p.bytes(v);
}

// Variants of what is no product: layout in bit 0, in bits 1 and 2 what a reduction leaves, or what
// a pointwise op repeats over its output.
enum Reduced : std::uint8_t { same = 0, rows = 1, columns = 2, scalar = 3 };

std::uint8_t layout_variant(const Program& p, const ir::Op& op) {
  bool any = false;
  for (ValueId v : p.inputs(op)) any = any || strided(p, v);
  for (ValueId v : p.outputs(op)) any = any || strided(p, v);
  std::uint8_t reduced = same;
  if (ir::row(op.kind).cost == ir::CostClass::reduction && op.inputs > 0 && op.outputs > 0) {
    const ir::Shape &in = p.value(p.input(op, 0)).shape, &out = p.value(p.output(op, 0)).shape;
    if (out.numel() == 1)
      reduced = scalar;
    else if (out.numel() < in.numel())
      reduced = out.back() == in.back() ? columns : rows;
  }
  if (ir::row(op.kind).cost == ir::CostClass::pointwise && op.outputs > 0)
    for (ValueId v : p.inputs(op)) {
      const ir::Shape &in = p.value(v).shape, &out = p.value(p.output(op, 0)).shape;
      if (in.numel() >= out.numel()) continue;
      reduced = in.numel() == 1 ? scalar : in.back() == out.back() ? columns : rows;
    }
  return static_cast<std::uint8_t>(reduced << 1U | (any ? 1U : 0U));
}

double count(const ir::Shape& shape) { return static_cast<double>(shape.numel()); }

Size product_size(const Program& p, const ir::Op& op) {
  const ir::Shape& out = p.value(p.output(op, 0)).shape;
  switch (op.kind) {
    case OpKind::sdpa:
    case OpKind::sdpa_backward: {
      const ir::Shape& q = p.value(p.input(op, op.kind == OpKind::sdpa ? 0 : 1)).shape;
      const double documents = std::max<int>(1, ir::attributes<ir::Sdpa>(op).documents);
      const double tokens = static_cast<double>(q[2]) / documents;
      return {static_cast<double>(q[0] * q[1]) * documents, tokens, tokens,
              static_cast<double>(q[3])};
    }
    case OpKind::linear_cross_entropy:
    case OpKind::linear_cross_entropy_backward: {
      const std::size_t hidden = op.kind == OpKind::linear_cross_entropy ? 0 : 1;
      const ir::Shape& weight = p.value(p.input(op, hidden + 1)).shape;
      const double k = ir::inner_dimension(op);
      return {1, count(p.value(p.input(op, hidden)).shape) / k, static_cast<double>(weight[0]), k};
    }
    default:
      break;
  }
  const auto n = out.rank() > 0 ? static_cast<double>(out.back()) : 1.0;
  double batch = 1;
  if (op.kind == OpKind::bmm || op.kind == OpKind::baddbmm)
    for (std::size_t i = 0; i + 2 < out.rank(); ++i) batch *= static_cast<double>(out[i]);
  if (op.kind == OpKind::grouped_mm) batch = count(p.value(p.input(op, 2)).shape);
  return {batch, count(out) / n / batch, n, static_cast<double>(ir::inner_dimension(op))};
}

double units(const Size& size) { return size[0] * size[1] * size[2] * size[3]; }

/// Of sizes' logarithms.
double distance2(const Size& a, const Size& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

auto name_of(const Series& s) { return std::tuple(s.kind, s.in, s.out); }
auto name_of(const Signature& s) { return std::tuple(s.kind, s.in, s.out); }

}  // namespace

Size log2(const Size& size) {
  Size logs{};
  std::transform(size.begin(), size.end(), logs.begin(),
                 [](double x) { return x > 0 ? std::log2(x) : 0; });
  return logs;
}

bool before(const Series& a, const Series& b) {
  return std::tuple_cat(name_of(a), std::tuple(a.variant)) <
         std::tuple_cat(name_of(b), std::tuple(b.variant));
}

double surroundings(const Program& p) {
  double bytes = 0, ops = 0;
  for (const ir::Op& op : p.ops)
    if (ir::row(op.kind).launches > 0) {
      bytes += ir::traffic_bytes(p, op);
      ++ops;
    }
  return std::max(1.0, bytes / std::max(1.0, ops));
}

bool is_product(OpKind kind) {
  const ir::CostClass cost = ir::row(kind).cost;
  return cost == ir::CostClass::matmul || cost == ir::CostClass::attention;
}

bool has_surroundings(OpKind kind) { return !is_product(kind) && !on_lists(kind); }

Signature signature(const Program& p, const ir::Op& op) {
  Signature s;
  s.kind = op.kind;
  if (op.inputs > 0) s.in = s.out = p.value(p.input(op, 0)).dtype;
  if (op.outputs > 0) s.out = p.value(p.output(op, 0)).dtype;
  if (is_product(op.kind)) {
    // The first operand may be an fp32 gradient of a scalar; the second is a matrix in every kind.
    s.in = p.value(p.input(op, 1)).dtype;
    if (const auto* product = std::get_if<ir::Product>(&op.attributes))
      s.variant = static_cast<std::uint8_t>(product->form);
    s.size = product_size(p, op);
    // Without a window a query sees (S + 1) / 2 keys.
    if (ir::row(op.kind).cost == ir::CostClass::attention)
      s.share = ir::keys_per_query(p, op) / ((s.size[1] + 1.0) / 2.0);
    return s;
  }
  if (on_lists(op.kind)) {
    if (op.kind == OpKind::foreach)
      s.variant = static_cast<std::uint8_t>(ir::attributes<ir::Foreach>(op).stage);
    if (op.phase != ir::Phase::optimizer) s.variant = 255;  // FSDP's copy of shards
    for (ValueId v : p.inputs(op))
      if (p.value(v).shape.numel() > 1) s.pieces.push_back(static_cast<double>(p.bytes(v)));
    return s;
  }
  s.variant = layout_variant(p, op);
  s.size[0] = ir::traffic_bytes(p, op);
  return s;
}

double interpolate(const std::vector<Point>& points, double bytes) {
  const auto x = [](const Point& p) { return p.log2_size[0]; };
  const auto y = [](const Point& p) { return std::log2(p.seconds); };
  const Point &first = points.front(), &last = points.back();
  if (bytes <= 0 || first.size[0] <= 0) return first.seconds;
  if (bytes >= last.size[0]) return last.seconds * bytes / last.size[0];
  if (bytes <= first.size[0]) {
    if (points.size() == 1) return first.seconds * bytes / first.size[0];
    const double slope =
        std::clamp((y(points[1]) - y(first)) / (x(points[1]) - x(first)), 0.0, 1.0);
    return first.seconds * std::pow(bytes / first.size[0], slope);
  }
  const auto above = std::upper_bound(points.begin(), points.end(), bytes,
                                      [](double b, const Point& p) { return b < p.size[0]; });
  const Point &a = *(above - 1), &b = *above;
  const double t = (std::log2(bytes) - x(a)) / (x(b) - x(a));
  return std::exp2(y(a) + t * (y(b) - y(a)));
}

double local_seconds(const std::vector<Point>& points, const Size& size) {
  // Where points do not tell, a time grows as its bytes do, and surroundings do not matter.
  constexpr double usual_slope = 1.0, trust = 0.02, least_distance2 = 0.1;
  const Size wanted = log2(size);
  double weights = 0, x = 0, z = 0, y = 0, xx = 0, xz = 0, zz = 0, xy = 0, zy = 0;
  for (const Point& p : points) {
    const double distance = distance2(p.log2_size, wanted) + least_distance2;
    const double w = 1.0 / (distance * distance);
    const double px = p.log2_size[0] - wanted[0], pz = p.log2_size[1] - wanted[1];
    const double py = std::log2(p.seconds) - usual_slope * px;
    weights += w;
    x += w * px, z += w * pz, y += w * py;
    xx += w * px * px, xz += w * px * pz, zz += w * pz * pz;
    xy += w * px * py, zy += w * pz * py;
  }
  x /= weights, z /= weights, y /= weights;
  xx = xx / weights - x * x + trust, zz = zz / weights - z * z + trust;
  xz = xz / weights - x * z, xy = xy / weights - x * y, zy = zy / weights - z * y;
  // A time neither falls as bytes grow nor grows faster than they do.
  const double along_bytes =
      std::clamp((xy * zz - zy * xz) / (xx * zz - xz * xz), -usual_slope, 1.0 - usual_slope);
  const double along_surroundings = std::clamp((zy - along_bytes * xz) / zz, 0.0, 1.0);
  return std::exp2(y - along_bytes * x - along_surroundings * z);
}

double product_seconds(const std::vector<Point>& points, const Size& size) {
  std::array<std::pair<double, const Point*>, nearest_points> near{};
  std::size_t found = 0;
  const Size wanted = log2(size);
  for (const Point& p : points) {
    const double d = distance2(p.log2_size, wanted);
    if (d == 0) return p.seconds;
    if (found == near.size() && d >= near[found - 1].first) continue;
    std::size_t at = found < near.size() ? found++ : found - 1;
    for (; at > 0 && near[at - 1].first > d; --at) near[at] = near[at - 1];
    near[at] = {d, &p};
  }
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < found; ++i) {
    const auto& [d, p] = near[i];
    sum += std::log(units(p->size) / p->seconds) / d;
    weights += 1.0 / d;
  }
  return units(size) / std::exp(sum / weights);
}

const Series* Measurements::find(const Signature& s) const {
  const auto first = std::lower_bound(
      series.begin(), series.end(), s,
      [](const Series& one, const Signature& wanted) { return name_of(one) < name_of(wanted); });
  const Series* other = nullptr;
  for (auto one = first; one != series.end() && name_of(*one) == name_of(s); ++one) {
    if (one->variant == s.variant) return &*one;
    if (other == nullptr) other = &*one;
  }
  return other;
}

double seconds(const Series& series, const Signature& s) {
  if (is_product(s.kind)) return s.share * product_seconds(series.points, s.size);
  if (!on_lists(s.kind))
    return s.size[1] > 0 && series.points.front().size[1] > 0
               ? local_seconds(series.points, s.size)
               : interpolate(series.points, s.size[0]);
  double sum = 0;
  for (double bytes : s.pieces) sum += interpolate(series.points, bytes);
  return s.pieces.empty() ? series.points.front().seconds : sum;
}

}  // namespace ac_advisor::simulate
