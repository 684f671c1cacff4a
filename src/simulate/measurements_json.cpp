// `measurements` of a device file: written by `ac-advisor calibrate`, read with the file.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/simulate/measurements.hpp"
#include "json/node.hpp"

namespace ac_advisor::simulate {
namespace {

using ir::OpKind;
using json::Json;
using json::Node;

constexpr const char* schema = "ac-advisor/measurements/1";
constexpr std::uint8_t gathered_lists = 255;

constexpr const char* forms[] = {"nt", "nn", "tn"};
constexpr const char* layouts[] = {"plain",   "strided",         "rows",   "rows strided",
                                   "columns", "columns strided", "scalar", "scalar strided"};
constexpr DType dtypes[] = {DType::bf16, DType::f32, DType::i64, DType::i32, DType::u8, DType::f16};
constexpr const char* dtype_names[] = {"bf16", "fp32", "i64", "i32", "u8", "fp16"};

/// Seconds to four digits: more is noise, and fewer bytes.
double rounded(double seconds) { return std::stod(fmt::format("{:.4g}", seconds)); }

double at_least_0(const Node& node) {
  const double value = node.number();
  if (value < 0) node.fail("must be a number of at least 0");
  return value;
}

std::optional<OpKind> kind_of(const std::string& name) {
  for (std::size_t i = 0; i < ir::op_kind_count; ++i)
    if (kind_name(static_cast<OpKind>(i)) == name) return static_cast<OpKind>(i);
  return std::nullopt;
}

std::optional<std::uint8_t> variant_of(OpKind kind, const std::string& name) {
  for (unsigned v = 0; v < 256; ++v)
    if (variant_name(kind, static_cast<std::uint8_t>(v)) == name)
      return static_cast<std::uint8_t>(v);
  return std::nullopt;
}

/// {size…, seconds}: five numbers of a product; else three, or two without surroundings.
Point read_point(const Node& node, OpKind kind) {
  const bool product = is_product(kind);
  const std::vector<Node> numbers = node.list();
  if (product ? numbers.size() != 5 : numbers.size() != 2 && numbers.size() != 3)
    node.fail(product ? "must be [batch, m, n, k, seconds]"
                      : "must be [bytes, seconds] or [bytes, surroundings, seconds]");
  const std::size_t sizes = numbers.size() - 1;
  Size size{};
  for (std::size_t i = 0; i < sizes; ++i) size[i] = at_least_0(numbers[i]);
  const Point point{size, at_least_0(numbers[sizes])};
  if (point.seconds <= 0) node.fail("has no positive time");
  if (product && *std::min_element(point.size.begin(), point.size.end()) <= 0)
    node.fail("has a size of 0");
  return point;
}

Series read_series(const Node& node) {
  Series s;
  const auto kind = kind_of(node.at("op").text());
  if (!kind) node.at("op").fail("is no op of this version: calibrate anew");
  s.kind = *kind;
  s.in = dtypes[node.at("in").one_of(dtype_names)];
  s.out = dtypes[node.at("out").one_of(dtype_names)];
  const auto variant = variant_of(s.kind, node.at("variant").text());
  if (!variant) node.at("variant").fail("is not known");
  s.variant = *variant;
  s.issue_seconds = at_least_0(node.at("issue_seconds"));
  const std::vector<Node> points = node.at("points").list();
  if (points.empty()) node.at("points").fail("must be a list of points");
  for (const Node& point : points) {
    if (point.list().size() != points[0].list().size())
      point.fail("is not as long as the first: surroundings are of all points or of none");
    s.points.push_back(read_point(point, s.kind));
    if (s.points.size() > 1 && !(s.points[s.points.size() - 2].size < s.points.back().size))
      point.fail("is not larger than the one before it: points go in the order of their sizes");
  }
  return s;
}

}  // namespace

const std::string& kind_name(OpKind kind) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    std::map<std::string, int> seen;
    for (const ir::OpRow& row : ir::op_table()) {
      const int number = ++seen[row.name];
      list.push_back(number == 1 ? row.name : fmt::format("{}/{}", row.name, number));
    }
    return list;
  }();
  return names[static_cast<std::size_t>(kind)];
}

std::string variant_name(OpKind kind, std::uint8_t variant) {
  if (is_product(kind)) return variant < std::size(forms) ? forms[variant] : "";
  if (kind == OpKind::foreach)
    return variant == gathered_lists ? "gathered" : fmt::format("stage {}", variant);
  return variant < std::size(layouts) ? layouts[variant] : "";
}

std::string to_json(const Measurements& m, int indent) {
  Json list = Json::array();
  for (const Series& s : m.series) {
    Json points = Json::array();
    for (const Point& p : s.points) {
      Json point = Json::array();
      for (std::size_t i = 0; i < (is_product(s.kind) ? 4U : p.size[1] > 0 ? 2U : 1U); ++i)
        point.push_back(static_cast<std::int64_t>(p.size[i]));
      point.push_back(rounded(p.seconds));
      points.push_back(std::move(point));
    }
    list.push_back({{"op", kind_name(s.kind)},
                    {"in", dtype_names[static_cast<std::size_t>(s.in)]},
                    {"out", dtype_names[static_cast<std::size_t>(s.out)]},
                    {"variant", variant_name(s.kind, s.variant)},
                    {"issue_seconds", rounded(s.issue_seconds)},
                    {"points", std::move(points)}});
  }
  const Json out = {{"schema", schema}, {"device", m.device},   {"version", m.version},
                    {"date", m.date},   {"threads", m.threads}, {"series", std::move(list)}};
  return out.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Measurements read_measurements(const std::string& text, const std::string& origin) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) throw UserError(origin + ": \"measurements\" must be a JSON object");
  const Node node(root, origin, "measurements");
  if (node.at("schema").text() != schema)
    node.at("schema").fail(std::string("must be \"") + schema + "\"");
  Measurements m;
  m.device = node.at("device").text();
  m.version = node.at("version").text();
  m.date = node.at("date").text();
  m.threads = node.at("threads").amount();
  for (const Node& series : node.at("series").list()) m.series.push_back(read_series(series));
  std::sort(m.series.begin(), m.series.end(), before);
  return m;
}

}  // namespace ac_advisor::simulate
