// A diagnosis that `json` wrote, read back.
#include "ac_advisor/reports/diagnosis.hpp"
#include "reports/check_saved.hpp"
#include "reports/json_node.hpp"

namespace ac_advisor::reports {
namespace {

using trace::Finding;

double figure(const Node& node, const char* key) {
  return check_figure(node.get<double>(key), node.place);
}

std::array<double, trace::phase_names.size()> by_phase(const Node& node) {
  std::array<double, trace::phase_names.size()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = figure(node, trace::phase_names[i]);
  return values;
}

std::optional<std::int64_t> bytes(const Node& node, const char* key) {
  if (node.at(key).is_null()) return std::nullopt;
  return check_count(node.get<std::int64_t>(key), node.place);
}

trace::Side read_side(const Node& node) {
  trace::Side s;
  s.origin = node.get<std::string>("file");
  s.source = node.get<std::string>("source");
  s.device = node.get<std::string>("device");
  s.steps_known = !node.at("steps").is_null();
  if (s.steps_known) s.steps = check_count(node.get<std::int64_t>("steps"), node.place);
  s.seconds = figure(node, "seconds");
  s.busy_seconds = figure(node, "busy_seconds");
  s.idle_seconds = figure(node, "idle_seconds");
  s.kernels = by_phase(node.child("kernels"));
  s.launches = by_phase(node.child("launches"));
  s.kernel_seconds = by_phase(node.child("kernel_seconds"));
  if (node.json.contains("graph_executions")) s.graphs = by_phase(node.child("graph_executions"));
  const Node memory = node.child("peak_memory");
  s.memory.allocated = bytes(memory, "allocated_bytes");
  s.memory.reserved = bytes(memory, "reserved_bytes");
  s.memory.process = bytes(memory, "process_bytes");
  s.memory.device_used = bytes(memory, "device_used_bytes");
  return s;
}

Finding read_finding(const Node& node) {
  Finding f;
  f.name = node.get<std::string>("name");
  const auto verdict = node.get<std::string>("verdict");
  f.verdict = verdict == "FLAGGED" ? Finding::Verdict::flagged
              : verdict == "fine"  ? Finding::Verdict::fine
                                   : Finding::Verdict::not_measured;
  if (!node.at("value").is_null()) f.value = figure(node, "value");
  f.limit = figure(node, "limit");
  f.flagged_below = node.get<std::string>("flagged") == "below";
  f.unit = node.get<std::string>("unit");
  f.estimate = node.get<bool>("estimate");
  f.how = node.get<std::string>("how");
  f.advice = node.get<std::string>("advice");
  return f;
}

template <typename Each>
void each(const Node& root, const char* key, const Each& read) {
  std::size_t i = 0;
  for (const Json& item : root.list(key))
    read(Node{item, fmt::format("{}: \"{}[{}]\"", root.place, key, i++)});
}

}  // namespace

trace::Diagnosis diagnosis_from_json(const std::string& text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw UserError(origin + ": not JSON, or cut short");
  const Node root{json, origin};
  trace::Diagnosis d;
  d.a = read_side(root.child("a"));
  d.b = read_side(root.child("b"));
  each(root, "findings", [&](const Node& f) { d.findings.push_back(read_finding(f)); });
  d.overhead_seconds = figure(root, "overhead_seconds");
  each(root, "overhead", [&](const Node& part) {
    d.overhead.push_back({part.get<std::string>("name"), figure(part, "seconds"),
                          part.get<std::string>("how"), part.get<std::string>("advice")});
  });
  // What the first files of this version have not.
  if (json.contains("recomputation"))
    each(root, "recomputation", [&](const Node& h) {
      d.hotspots.push_back({h.get<std::string>("module"), h.get<std::string>("op"),
                            figure(h, "kernels"), figure(h, "seconds")});
    });
  if (json.contains("compared")) {
    d.prediction = root.get_or<std::string>("prediction", "");
    each(root, "compared", [&](const Node& c) {
      d.compared.push_back({c.get<std::string>("name"), figure(c, "measured_seconds"),
                            figure(c, "predicted_seconds")});
    });
  }
  d.notes = root.get<std::vector<std::string>>("notes");
  return d;
}

}  // namespace ac_advisor::reports
