#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::simulate {

/// How large an op is: {batch, m, n, k} of a matrix product (attention: heads of all sequences,
/// tokens, tokens, head_dim), or {bytes, surroundings(program), 0, 0} of anything else.
using Size = std::array<double, 4>;
[[nodiscard]] Size log2(const Size& size);

/// What an op's time is looked up by. Kind, dtypes and variant name a series, size a point of it.
struct Signature {
  ir::OpKind kind{};
  DType in = DType::f32, out = DType::f32;
  std::uint8_t variant = 0;  ///< a product's Form; a stage of `foreach`; else layout, reduction
  Size size{};
  double share = 1;  ///< of a causal product that a sliding window leaves
  /// Ops on a list of tensors: bytes of each. Their time is the sum over the list, `size` unused.
  std::vector<double> pieces;
  bool operator==(const Signature&) const = default;
};
/// `size` is without surroundings, which a caller takes once for all of a program's ops.
[[nodiscard]] Signature signature(const ir::Program& program, const ir::Op& op);
/// Bytes that an op of this program moves, on average: what the ops in between leave of a cache. A
/// small op among small ones finds its operands, and its own code, where it left them; among large
/// ones it does not, and takes up to ten times as long.
[[nodiscard]] double surroundings(const ir::Program& program);
/// Looked up by {batch, m, n, k}, not by bytes.
[[nodiscard]] bool is_product(ir::OpKind kind);
/// Neither a product nor on a list of tensors: looked up by bytes and surroundings.
[[nodiscard]] bool has_surroundings(ir::OpKind kind);

struct Point {
  Size size{};
  double seconds = 0;
  Size log2_size = log2(size);  ///< taken once: points are compared at every look-up
};

/// Measured seconds of one kind of op at several sizes.
struct Series {
  ir::OpKind kind{};
  DType in = DType::f32, out = DType::f32;
  std::uint8_t variant = 0;
  double issue_seconds = 0;   ///< of the host, where the device runs behind it; 0 on a CPU
  std::vector<Point> points;  ///< in the order of their sizes
};

/// The order that find() needs: kind, dtypes, variant.
[[nodiscard]] bool before(const Series& a, const Series& b);

/// What `ac-advisor calibrate` measured: a part of a device file.
struct Measurements {
  std::string device;          ///< as the machine calls it
  std::string version;         ///< of ac-advisor
  std::string date;            ///< YYYY-MM-DD
  std::int64_t threads = 0;    ///< of a CPU
  std::vector<Series> series;  ///< by kind, dtypes and variant, which find() searches by

  /// The series of the signature: its own variant, or another one of the same kind and dtypes.
  /// Null: that kind was not measured.
  [[nodiscard]] const Series* find(const Signature& signature) const;
};
[[nodiscard]] double seconds(const Series& series, const Signature& signature);

/// Seconds at `bytes`, piecewise linear in log-log through `points`. Beyond the largest the rate
/// stays that of the last; below the smallest the first segment goes on, its slope held within
/// [0, 1]: a time neither grows as sizes shrink nor falls faster than they do.
[[nodiscard]] double interpolate(const std::vector<Point>& points, double bytes);
/// Seconds at {bytes, surroundings}: log seconds as a plane over both in log, fitted anew for each
/// size with weights that fall with the fourth power of the distance.
[[nodiscard]] double local_seconds(const std::vector<Point>& points, const Size& size);
/// Seconds of a product of this size at the speed (batch m n k a second) of the points that are
/// nearest in log {batch, m, n, k}: their mean in log, weighted by the inverse square of the
/// distance.
[[nodiscard]] double product_seconds(const std::vector<Point>& points, const Size& size);

/// `measurements` of a device file, as JSON text; deterministic.
[[nodiscard]] std::string to_json(const Measurements& measurements, int indent = -1);
/// Throws UserError naming `origin` and the field.
[[nodiscard]] Measurements read_measurements(const std::string& text, const std::string& origin);

/// A kind's name in device files: its row's, numbered where several kinds share one ("mul/2").
[[nodiscard]] const std::string& kind_name(ir::OpKind kind);
[[nodiscard]] std::string variant_name(ir::OpKind kind, std::uint8_t variant);

}  // namespace ac_advisor::simulate
