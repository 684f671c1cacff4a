// What two traces say: findings, overhead, and what to do about each.
#include "ac_advisor/reports/diagnosis.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/check_saved.hpp"
#include "reports/json_node.hpp"
#include "reports/trace_grids.hpp"

namespace ac_advisor::reports {
namespace {

using trace::Diagnosis;
using trace::Finding;

const char* verdict(const Finding& f) {
  switch (f.verdict) {
    case Finding::Verdict::fine:
      return "fine";
    case Finding::Verdict::flagged:
      return "FLAGGED";
    case Finding::Verdict::not_measured:
      return "not measured";
  }
  return "";
}

std::string value(const Finding& f) {
  return f.value ? fmt::format("{}{:.3g} {}", f.estimate ? "est. " : "", *f.value, f.unit) : "";
}

std::string limit(const Finding& f) {
  return fmt::format("{} {:.3g} {}", f.flagged_below ? "below" : "above", f.limit, f.unit);
}

std::string signed_ms(double seconds) { return fmt::format("{:+.3g}", 1e3 * seconds); }

std::string share_of(double part, double whole) {
  return whole != 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "";
}

Grid side_grid(const Diagnosis& d) {
  Grid grid({"a step", "A", "B", "B - A"});
  const auto row = [&](const char* name, double a, double b) {
    grid.row(
        {name, fmt::format("{:.4g}", a), fmt::format("{:.4g}", b), fmt::format("{:+.4g}", b - a)});
  };
  row("ms on the device's clock", 1e3 * d.a.seconds, 1e3 * d.b.seconds);
  row("ms busy", 1e3 * d.a.busy_seconds, 1e3 * d.b.busy_seconds);
  row("ms idle", 1e3 * d.a.idle_seconds, 1e3 * d.b.idle_seconds);
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i)
    if (d.a.kernels[i] > 0 || d.b.kernels[i] > 0)
      row(fmt::format("kernels, {}", trace::phase_names[i]).c_str(), d.a.kernels[i],
          d.b.kernels[i]);
  const auto memory = [&](const char* name, const std::optional<std::int64_t>& a,
                          const std::optional<std::int64_t>& b) {
    if (!a && !b) return;
    grid.row({name, a ? gib(*a) : "not measured", b ? gib(*b) : "not measured",
              a && b ? signed_gib(*b - *a) : ""});
  };
  memory("peak allocated GiB", d.a.memory.allocated, d.b.memory.allocated);
  memory("peak reserved GiB", d.a.memory.reserved, d.b.memory.reserved);
  memory("peak of the process GiB", d.a.memory.process, d.b.memory.process);
  memory("peak of the device GiB", d.a.memory.device_used, d.b.memory.device_used);
  return grid;
}

Grid finding_grid(const Diagnosis& d) {
  Grid grid({"finding", "value", "flagged", "verdict"});
  for (const Finding& f : d.findings) grid.row({f.name, value(f), limit(f), verdict(f)});
  return grid;
}

Grid overhead_grid(const Diagnosis& d) {
  Grid grid({"overhead of B", "ms per step", "of it", "of A's step"});
  for (const trace::OverheadPart& part : d.overhead)
    grid.row({part.name, signed_ms(part.seconds), share_of(part.seconds, d.overhead_seconds),
              share_of(part.seconds, d.a.seconds)});
  grid.row({"TOTAL", signed_ms(d.overhead_seconds), "", share_of(d.overhead_seconds, d.a.seconds)});
  return grid;
}

Grid hotspot_grid(const Diagnosis& d) {
  constexpr std::size_t most = 8;
  Grid grid({"recomputed in B", "op", "kernels", "ms per step", "of it"});
  double all = 0;
  for (const trace::Hotspot& h : d.hotspots) all += h.seconds;
  for (const trace::Hotspot& h : d.hotspots) {
    if (grid.rows().size() == most) break;
    grid.row({h.module.empty() ? "(no module told)" : h.module,
              h.op.empty() ? "(no op told)" : h.op, fmt::format("{:.4g}", h.kernels),
              fmt::format("{:.3g}", 1e3 * h.seconds), share_of(h.seconds, all)});
  }
  return grid;
}

Grid compared_grid(const Diagnosis& d) {
  Grid grid({"ms per step", "measured", "predicted", "difference", "of predicted"});
  for (const trace::Compared& c : d.compared)
    grid.row(
        {c.name, fmt::format("{:.4g}", 1e3 * c.measured), fmt::format("{:.4g}", 1e3 * c.predicted),
         signed_ms(c.measured - c.predicted),
         c.predicted > 0 ? fmt::format("{:+.0f} %", 100 * (c.measured / c.predicted - 1)) : ""});
  return grid;
}

/// "most of the recomputation is in LlamaDecoderLayer.LlamaMLP, aten::mm"
std::string hottest(const Diagnosis& d) {
  const trace::Hotspot& h = d.hotspots.front();
  double all = 0;
  for (const trace::Hotspot& each : d.hotspots) all += each.seconds;
  return fmt::format("of the recomputation's {} of kernels per step, most is in {}{}: {} ({})",
                     duration(all), h.module.empty() ? "" : h.module + ", ",
                     h.op.empty() ? "ops that the trace does not tell" : h.op, duration(h.seconds),
                     share_of(h.seconds, all));
}

/// Worth a word: more than a tenth of the overhead, and of the step a hundredth.
bool matters(const trace::OverheadPart& part, const Diagnosis& d) {
  return !part.advice.empty() && part.seconds > 0.1 * d.overhead_seconds &&
         part.seconds > 0.01 * d.a.seconds;
}

std::string heading(const trace::Side& side, const char* name) {
  return fmt::format("{}: {} ({}{}{})", name, side.origin, side.source,
                     side.device.empty() ? "" : ", " + side.device,
                     side.steps_known
                         ? fmt::format(", {} step{}", side.steps, side.steps == 1 ? "" : "s")
                         : ", steps not told");
}

Json side_json(const trace::Side& s) {
  Json out;
  out["file"] = s.origin;
  out["source"] = s.source;
  out["device"] = s.device;
  out["steps"] = s.steps_known ? Json(s.steps) : Json();
  out["seconds"] = s.seconds;
  out["busy_seconds"] = s.busy_seconds;
  out["idle_seconds"] = s.idle_seconds;
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i) {
    out["kernels"][trace::phase_names[i]] = s.kernels[i];
    out["launches"][trace::phase_names[i]] = s.launches[i];
    out["kernel_seconds"][trace::phase_names[i]] = s.kernel_seconds[i];
    out["graph_executions"][trace::phase_names[i]] = s.graphs[i];
  }
  const auto bytes = [](const std::optional<std::int64_t>& b) { return b ? Json(*b) : Json(); };
  out["peak_memory"] = {{"allocated_bytes", bytes(s.memory.allocated)},
                        {"reserved_bytes", bytes(s.memory.reserved)},
                        {"process_bytes", bytes(s.memory.process)},
                        {"device_used_bytes", bytes(s.memory.device_used)}};
  return out;
}

}  // namespace

std::vector<std::string> sentences(const Diagnosis& d) {
  std::vector<std::string> lines;
  for (const Finding& f : d.findings) {
    lines.push_back(f.name + ": " + f.how);
    if (!f.advice.empty()) lines.push_back("what to do: " + f.advice);
  }
  for (const trace::OverheadPart& part : d.overhead)
    if (matters(part, d))
      lines.push_back(part.name + ": " + part.how + ". What to do: " + part.advice);
  if (!d.hotspots.empty()) lines.push_back(hottest(d));
  if (!d.prediction.empty() && !d.compared.empty()) {
    const trace::Compared& last = d.compared.back();
    lines.push_back(fmt::format("{}: measured {}, predicted {} by {}", last.name,
                                duration(last.measured), duration(last.predicted), d.prediction));
  }
  for (const std::string& note : d.notes) lines.push_back("note: " + note);
  return lines;
}

std::vector<TitledGrid> grids(const Diagnosis& d) {
  std::vector<TitledGrid> list{{"The two steps", side_grid(d)},
                               {"Findings", finding_grid(d)},
                               {"Overhead, by cause", overhead_grid(d)}};
  if (!d.hotspots.empty()) list.push_back({"What runs again", hotspot_grid(d)});
  if (!d.compared.empty())
    list.push_back({"Measured and predicted by " + d.prediction, compared_grid(d)});
  return list;
}

std::string table(const Diagnosis& d, const Style& style) {
  std::string text =
      wrap(printable(heading(d.a, "A")) + "\n" + printable(heading(d.b, "B")) + "\n", style.width);
  for (const TitledGrid& table : grids(d)) text += "\n" + table.grid.text(style.color, style.width);
  text += "\n";
  for (const std::string& line : sentences(d))
    text += wrap("- " + printable(line) + "\n", style.width);
  return text;
}

std::string markdown(const Diagnosis& d) {
  std::string text =
      escape_markdown(heading(d.a, "A")) + "  \n" + escape_markdown(heading(d.b, "B")) + "\n";
  for (const TitledGrid& table : grids(d)) text += "\n" + table.grid.markdown();
  text += "\n";
  for (const std::string& line : sentences(d)) text += "- " + escape_markdown(line) + "\n";
  return text;
}

std::string csv(const Diagnosis& d) {
  Grid grid({"kind", "name", "value", "unit", "limit", "verdict", "estimate", "how", "advice"});
  for (const Finding& f : d.findings)
    grid.row({"finding", f.name, f.value ? fmt::format("{}", *f.value) : "", f.unit,
              fmt::format("{}", f.limit), verdict(f), f.estimate ? "yes" : "no", f.how, f.advice});
  for (const trace::OverheadPart& part : d.overhead)
    grid.row({"overhead", part.name, fmt::format("{}", part.seconds), "seconds", "", "", "no",
              part.how, part.advice});
  for (const trace::Hotspot& h : d.hotspots)
    grid.row({"recomputation", h.module + " " + h.op, fmt::format("{}", h.seconds), "seconds", "",
              "", "no", "", ""});
  for (const trace::Compared& c : d.compared) {
    grid.row({"measured", c.name, fmt::format("{}", c.measured), "seconds", "", "", "no", "", ""});
    grid.row({"predicted", c.name, fmt::format("{}", c.predicted), "seconds", "", "", "yes",
              d.prediction, ""});
  }
  for (const std::string& note : d.notes) grid.row({"note", "", "", "", "", "", "", note, ""});
  return grid.csv();
}

std::string json(const Diagnosis& d) {
  Json out;
  out["schema"] = diagnosis_schema;
  out["a"] = side_json(d.a);
  out["b"] = side_json(d.b);
  out["findings"] = Json::array();
  for (const Finding& f : d.findings)
    out["findings"].push_back({{"name", f.name},
                               {"verdict", verdict(f)},
                               {"value", f.value ? Json(*f.value) : Json()},
                               {"limit", f.limit},
                               {"flagged", f.flagged_below ? "below" : "above"},
                               {"unit", f.unit},
                               {"estimate", f.estimate},
                               {"how", f.how},
                               {"advice", f.advice}});
  out["overhead_seconds"] = d.overhead_seconds;
  out["overhead"] = Json::array();
  for (const trace::OverheadPart& part : d.overhead)
    out["overhead"].push_back({{"name", part.name},
                               {"seconds", part.seconds},
                               {"how", part.how},
                               {"advice", part.advice}});
  out["recomputation"] = Json::array();
  for (const trace::Hotspot& h : d.hotspots)
    out["recomputation"].push_back(
        {{"module", h.module}, {"op", h.op}, {"kernels", h.kernels}, {"seconds", h.seconds}});
  out["prediction"] = d.prediction.empty() ? Json() : Json(d.prediction);
  out["compared"] = Json::array();
  for (const trace::Compared& c : d.compared)
    out["compared"].push_back(
        {{"name", c.name}, {"measured_seconds", c.measured}, {"predicted_seconds", c.predicted}});
  out["notes"] = d.notes;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::reports
