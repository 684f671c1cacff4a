// `measurements` of a device file: written by `ac-advisor calibrate`, read with the file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/simulate/measurements.hpp"

namespace ac_advisor::simulate {
namespace {

using Json = nlohmann::ordered_json;
using ir::OpKind;

constexpr const char* schema = "ac-advisor/measurements/1";
constexpr std::uint8_t gathered_lists = 255;

constexpr const char* forms[] = {"nt", "nn", "tn"};
constexpr const char* layouts[] = {"plain",   "strided",         "rows",   "rows strided",
                                   "columns", "columns strided", "scalar", "scalar strided"};
constexpr DType dtypes[] = {DType::bf16, DType::f32, DType::i64, DType::i32, DType::u8};
constexpr const char* dtype_names[] = {"bf16", "fp32", "i64", "i32", "u8"};

/// Seconds to four digits: more is noise, and fewer bytes.
double rounded(double seconds) { return std::stod(fmt::format("{:.4g}", seconds)); }

class Reader {
 public:
  explicit Reader(std::string origin) : origin_(std::move(origin)) {}

  [[noreturn]] void refuse(const std::string& path, const std::string& what) const {
    throw UserError(origin_ + ": \"" + path + "\" " + what);
  }
  [[nodiscard]] const Json& at(const Json& node, const char* key, const std::string& path) const {
    if (!node.is_object() || !node.contains(key)) refuse(path + key, "is missing");
    return node[key];
  }
  [[nodiscard]] std::string text(const Json& node, const char* key, const std::string& path) const {
    const Json& value = at(node, key, path);
    if (!value.is_string()) refuse(path + key, "must be a string");
    return value.get<std::string>();
  }
  [[nodiscard]] double number(const Json& value, const std::string& path) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
      refuse(path, "must be a number of at least 0");
    return value.get<double>();
  }
  template <typename Names>
  [[nodiscard]] std::size_t one_of(const Json& node, const char* key, const std::string& path,
                                   const Names& names) const {
    const std::string word = text(node, key, path);
    const auto* const found = std::find(std::begin(names), std::end(names), word);
    if (found == std::end(names)) refuse(path + key, "is \"" + word + "\", which is not known");
    return static_cast<std::size_t>(found - std::begin(names));
  }

 private:
  std::string origin_;
};

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
Point read_point(const Reader& r, const Json& node, OpKind kind, const std::string& path) {
  const bool product = is_product(kind);
  const std::size_t numbers = node.is_array() ? node.size() : 0;
  if (product ? numbers != 5 : numbers != 2 && numbers != 3)
    r.refuse(path, product ? "must be [batch, m, n, k, seconds]"
                           : "must be [bytes, seconds] or [bytes, surroundings, seconds]");
  const std::size_t sizes = numbers - 1;
  Size size{};
  for (std::size_t i = 0; i < sizes; ++i) size[i] = r.number(node[i], path);
  const Point point{size, r.number(node[sizes], path)};
  if (point.seconds <= 0) r.refuse(path, "has no positive time");
  if (is_product(kind) && *std::min_element(point.size.begin(), point.size.end()) <= 0)
    r.refuse(path, "has a size of 0");
  return point;
}

Series read_series(const Reader& r, const Json& node, const std::string& path) {
  Series s;
  const std::string name = r.text(node, "op", path);
  const auto kind = kind_of(name);
  if (!kind)
    r.refuse(path + "op", "is \"" + name + "\", which is no op of this version: calibrate anew");
  s.kind = *kind;
  s.in = dtypes[r.one_of(node, "in", path, dtype_names)];
  s.out = dtypes[r.one_of(node, "out", path, dtype_names)];
  const std::string variant = r.text(node, "variant", path);
  const auto known = variant_of(s.kind, variant);
  if (!known) r.refuse(path + "variant", "is \"" + variant + "\", which is not known");
  s.variant = *known;
  s.issue_seconds = r.number(r.at(node, "issue_seconds", path), path + "issue_seconds");
  const Json& points = r.at(node, "points", path);
  if (!points.is_array() || points.empty()) r.refuse(path + "points", "must be a list of points");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::string here = fmt::format("{}points[{}]", path, i);
    s.points.push_back(read_point(r, points[i], s.kind, here));
    if (points[i].size() != points[0].size())
      r.refuse(here, "is not as long as the first: surroundings are of all points or of none");
    if (i > 0 && !(s.points[i - 1].size < s.points[i].size))
      r.refuse(here, "is not larger than the one before it: points go in the order of their sizes");
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
  const Reader r(origin);
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) throw UserError(origin + ": \"measurements\" must be a JSON object");
  const std::string path = "measurements.";
  if (r.text(root, "schema", path) != schema)
    r.refuse(path + "schema", std::string("must be \"") + schema + "\"");
  Measurements m;
  m.device = r.text(root, "device", path);
  m.version = r.text(root, "version", path);
  m.date = r.text(root, "date", path);
  m.threads = static_cast<std::int64_t>(r.number(r.at(root, "threads", path), path + "threads"));
  const Json& series = r.at(root, "series", path);
  if (!series.is_array()) r.refuse(path + "series", "must be a list");
  for (std::size_t i = 0; i < series.size(); ++i)
    m.series.push_back(read_series(r, series[i], fmt::format("{}series[{}].", path, i)));
  std::sort(m.series.begin(), m.series.end(), before);
  return m;
}

}  // namespace ac_advisor::simulate
