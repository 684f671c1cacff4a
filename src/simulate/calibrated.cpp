// A device file made of measurements.
#include "ac_advisor/simulate/calibrated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::simulate {
namespace {

using Json = nlohmann::ordered_json;
using ir::CostClass;
using ir::OpKind;

/// FLOPs of one of the units (batch m n k) that a product's size multiplies to.
double flops_per_unit(OpKind kind) {
  const ir::OpRow& row = ir::row(kind);
  // Attention's row counts a causal half of the scores: (S + 1) / 2 of S.
  return row.cost == CostClass::attention ? row.flops_per_output / 2.0 : row.flops_per_output;
}

double rate(const Series& s, const Point& p) {
  if (!is_product(s.kind)) return p.size[0] / p.seconds;
  return p.size[0] * p.size[1] * p.size[2] * p.size[3] * flops_per_unit(s.kind) / p.seconds;
}

double best_rate(const Series& s) {
  double best = 0;
  for (const Point& p : s.points) best = std::max(best, rate(s, p));
  return best;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The rate of the largest op of each series of the class: beyond all caches.
double large_rate(const Measurements& m, CostClass cost) {
  std::vector<double> rates;
  for (const Series& s : m.series)
    if (ir::row(s.kind).cost == cost && s.points.back().size[0] > 0)
      rates.push_back(rate(s, s.points.back()));
  return median(std::move(rates));
}

double best_flops(const Measurements& m, CostClass cost, DType dtype, OpKind only) {
  double best = 0;
  for (const Series& s : m.series)
    if (ir::row(s.kind).cost == cost && s.in == dtype && (only == OpKind::count_ || s.kind == only))
      best = std::max(best, best_rate(s));
  return best;
}

/// "amd-epyc-9654" of "AMD EPYC 9654 (…)"
std::string slug(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0)
      out += static_cast<char>(std::tolower(u));
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.substr(0, 40);
}

/// Sets figures by their dotted paths.
class Figures {
 public:
  Figures(Json& root, std::string source) : root_(root), source_(std::move(source)) {}
  void set(const std::string& path, const Json& value, const std::string& note,
           bool estimate = false) {
    Json* node = &root_;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      node = &(*node)[path.substr(begin, end - begin)];
      begin = end + 1;
    }
    *node = {{"value", value}, {"source", source_ + ": " + note}, {"estimate", estimate}};
  }
  void estimated(const std::string& path, double value, const std::string& note) {
    if (value > 0) set(path, rounded(value), note, true);
  }
  void measured(const std::string& path, double value, const std::string& note) {
    if (value > 0) set(path, rounded(value), note);
  }

 private:
  static double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

  Json& root_;
  std::string source_;
};

}  // namespace

std::vector<Reached> reached(const Measurements& m) {
  std::vector<Reached> list;
  for (const Series& s : m.series) {
    auto at = std::find_if(list.begin(), list.end(),
                           [&](const Reached& r) { return r.kind == s.kind && r.dtype == s.in; });
    if (at == list.end()) at = list.insert(at, {s.kind, s.in, 0, s.points.front().seconds, 0});
    at->points += s.points.size();
    for (const Point& p : s.points)
      at->least_seconds = std::min(at->least_seconds, p.seconds + s.issue_seconds);
    at->rate = std::max(at->rate, best_rate(s));
  }
  return list;
}

std::string calibrated_device_file(const std::string& base, const Measurements& m,
                                   std::int64_t memory_bytes) {
  Json root = Json::parse(base);
  const bool cpu = root["kind"] == "cpu";
  const std::string threads = cpu ? fmt::format(", {} threads", m.threads) : std::string();
  const std::string source = fmt::format("measured by ac-advisor calibrate {} on {}{}, {}",
                                         m.version, m.device, threads, m.date);
  Figures f(root, source);
  root["name"] = slug(m.device) + (cpu ? fmt::format("-{}-threads", m.threads) : std::string());
  root["title"] = m.device + threads + ", calibrated " + m.date;
  root["aliases"] = Json::array();
  // Fractions of the base's peaks, which the measured ones replace.
  root["efficiency"].erase("kinds");
  root["efficiency"]["attention"].erase("cudnn");
  if (memory_bytes > 0) {
    f.set("memory_bytes", memory_bytes, "the memory that the system reports");
    f.set("usable_bytes", memory_bytes, "as memory_bytes");
  }
  const double bandwidth = large_rate(m, CostClass::pointwise);
  f.measured("bandwidth_bytes_per_second", bandwidth,
             "median over pointwise kinds at their largest size");
  f.measured("efficiency.pointwise.bandwidth_fraction", bandwidth > 0 ? 1.0 : 0,
             "the bandwidth is that of pointwise kinds");
  for (const auto& [path, cost] :
       {std::pair{"efficiency.reduction.bandwidth_fraction", CostClass::reduction},
        std::pair{"efficiency.embedding.bandwidth_fraction", CostClass::embedding}})
    if (bandwidth > 0)
      f.measured(path, large_rate(m, cost) / bandwidth, "median over its kinds at their largest");
  Json& peaks = root["peak_flops_per_second"];
  if (const double published = peaks.contains("fp8") ? peaks["fp8"]["value"].get<double>() : 0;
      published > 0) {  // nothing runs in FP8: as much of its peak as of that in bf16
    const double half = best_flops(m, CostClass::matmul, DType::bf16, OpKind::mm);
    f.estimated("peak_flops_per_second.fp8",
                half * published / peaks["bf16"]["value"].get<double>(),
                "the fastest product in bf16, times the ratio of the published peaks");
  }
  for (const auto& [name, dtype] : {std::pair{"fp32", DType::f32}, std::pair{"bf16", DType::bf16}})
    f.measured(std::string("peak_flops_per_second.") + name,
               best_flops(m, CostClass::matmul, dtype, OpKind::mm), "the fastest matrix product");
  const DType usual = cpu ? DType::f32 : DType::bf16;
  const double peak = best_flops(m, CostClass::matmul, usual, OpKind::mm);
  f.measured("efficiency.matmul.asymptote", peak > 0 ? 1.0 : 0, "the peak is a matrix product's");
  if (peak > 0) {
    f.measured("efficiency.attention.forward",
               best_flops(m, CostClass::attention, usual, OpKind::sdpa) / peak, "the fastest");
    f.measured("efficiency.attention.backward",
               best_flops(m, CostClass::attention, usual, OpKind::sdpa_backward) / peak,
               "the fastest");
  }
  std::vector<double> smallest;
  for (const Series& s : m.series)
    if (ir::row(s.kind).cost == CostClass::pointwise)
      smallest.push_back(cpu ? s.points.front().seconds : s.issue_seconds);
  for (const char* path : {"host.forward_op_seconds", "host.backward_op_seconds",
                           "host.fused_op_seconds", "host.native_op_seconds"})
    f.measured(path, median(smallest), "median over pointwise kinds, of a small op, by ac-trainer");
  root["measurements"] = Json::parse(to_json(m));
  // Figures a line each, a series a line: for a person, and for a diff.
  std::string text = root.dump(2, ' ', false, Json::error_handler_t::replace);
  const std::size_t at = text.find("  \"measurements\"");
  text.resize(at);
  text += "  \"measurements\": {\n";
  for (const auto& [key, value] : root["measurements"].items())
    if (key != "series") text += fmt::format("    \"{}\": {},\n", key, value.dump());
  text += "    \"series\": [";
  const char* separator = "\n";
  for (const Json& series : root["measurements"]["series"]) {
    text += separator + ("      " + series.dump());
    separator = ",\n";
  }
  return text + "\n    ]\n  }\n}\n";
}

}  // namespace ac_advisor::simulate
