// A trace's summary to JSON and back. Times are seconds, sizes bytes; all but "step" and "phases"
// is of the whole trace.
#include <cmath>

#include "ac_advisor/reports/trace_summary.hpp"
#include "reports/check_saved.hpp"
#include "reports/json_node.hpp"

namespace ac_advisor::reports {
namespace {

using trace::Figures;
using trace::Summary;
using trace::SummaryRow;

constexpr std::size_t most_rows = 500;

/// A member of a row, under the key that it has in its list.
struct RowField {
  const char* key;
  std::string SummaryRow::*text = nullptr;
  std::int64_t SummaryRow::*count = nullptr;
  double SummaryRow::*figure = nullptr;
};
using RowFields = std::vector<RowField>;

const RowFields kernel_fields{{"name", &SummaryRow::name},
                              {"kind", &SummaryRow::kind},
                              {"count", nullptr, &SummaryRow::count},
                              {"seconds", nullptr, nullptr, &SummaryRow::seconds}};
const RowFields op_fields{{"name", &SummaryRow::name},
                          {"calls", nullptr, &SummaryRow::count},
                          {"host_seconds", nullptr, nullptr, &SummaryRow::host_seconds},
                          {"kernel_seconds", nullptr, nullptr, &SummaryRow::seconds}};
const RowFields range_fields{{"name", &SummaryRow::name},
                             {"kernels", nullptr, &SummaryRow::count},
                             {"kernel_seconds", nullptr, nullptr, &SummaryRow::seconds},
                             {"host_seconds", nullptr, nullptr, &SummaryRow::host_seconds}};
const RowFields module_fields{{"name", &SummaryRow::name},
                              {"instances", nullptr, &SummaryRow::instances},
                              {"kernels", nullptr, &SummaryRow::count},
                              {"kernel_seconds", nullptr, nullptr, &SummaryRow::seconds}};
const RowFields copy_fields{{"name", &SummaryRow::name},
                            {"count", nullptr, &SummaryRow::count},
                            {"bytes", nullptr, &SummaryRow::bytes},
                            {"seconds", nullptr, nullptr, &SummaryRow::seconds}};
const RowFields again_op_fields{{"name", &SummaryRow::name},
                                {"kernels", nullptr, &SummaryRow::count},
                                {"kernel_seconds", nullptr, nullptr, &SummaryRow::seconds}};
const RowFields pair_fields{{"module", &SummaryRow::name},
                            {"op", &SummaryRow::kind},
                            {"kernels", nullptr, &SummaryRow::count},
                            {"kernel_seconds", nullptr, nullptr, &SummaryRow::seconds}};

struct List {
  const char* key;
  std::vector<SummaryRow> Summary::*rows;
  const RowFields* fields;
};
const List lists[] = {{"top_kernels", &Summary::kernels, &kernel_fields},
                      {"top_ops", &Summary::ops, &op_fields},
                      {"by_range", &Summary::ranges, &range_fields},
                      {"by_module", &Summary::modules, &module_fields},
                      {"memcpy", &Summary::copies, &copy_fields}};

struct PeakField {
  const char* key;
  std::optional<std::int64_t> trace::MemoryPeaks::*member;
};
constexpr PeakField peak_fields[] = {{"allocated_bytes", &trace::MemoryPeaks::allocated},
                                     {"reserved_bytes", &trace::MemoryPeaks::reserved},
                                     {"process_bytes", &trace::MemoryPeaks::process},
                                     {"device_used_bytes", &trace::MemoryPeaks::device_used}};

/// A count is written as one.
Json figure(double value) {
  const bool whole = std::floor(value) == value && std::abs(value) < 9e15;
  return whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

bool is_of_launches(std::string_view key) {
  return key == "launches" || key == "idle_host_seconds" || key == "idle_kernel_seconds" ||
         key == "idle_other_seconds";
}

/// What the trace cannot tell is null: `absent` says why.
Json figures_json(const Summary& s, const Figures& f) {
  Json out;
  for (const trace::FigureField& field : trace::figure_fields) {
    const std::string_view key = field.key;
    const bool told =
        (s.on_gpu || key == "dispatches") && (s.launches_recorded || !is_of_launches(key));
    const bool seconds = key.ends_with("seconds");
    out[field.key] = !told ? Json() : seconds ? Json(f.*field.member) : figure(f.*field.member);
  }
  return out;
}

Figures read_figures(const Node& node) {
  Figures f;
  for (const trace::FigureField& field : trace::figure_fields)
    f.*field.member = check_figure(node.get_or<double>(field.key, 0), node.place);
  return f;
}

Json rows_json(const std::vector<SummaryRow>& rows, const RowFields& fields) {
  Json out = Json::array();
  for (const SummaryRow& row : rows) {
    if (out.size() == most_rows) break;
    Json& json = out.emplace_back(Json::object());
    for (const RowField& field : fields)
      json[field.key] = field.text != nullptr    ? Json(row.*field.text)
                        : field.count != nullptr ? Json(row.*field.count)
                                                 : Json(row.*field.figure);
  }
  return out;
}

std::vector<SummaryRow> read_rows(const Node& root, const char* key, const RowFields& fields) {
  std::vector<SummaryRow> rows;
  for (const Json& item : root.list(key)) {
    const Node node{item, fmt::format("{}: \"{}[{}]\"", root.place, key, rows.size())};
    SummaryRow& row = rows.emplace_back();
    for (const RowField& field : fields) {
      if (field.text != nullptr)
        row.*field.text = node.get<std::string>(field.key);
      else if (field.count != nullptr)
        row.*field.count = check_count(node.get<std::int64_t>(field.key), node.place);
      else
        row.*field.figure = check_figure(node.get<double>(field.key), node.place);
    }
  }
  return rows;
}

Json gaps_json(const Summary& s) {
  Json out = Json::array();
  for (const trace::Gap& gap : s.gaps)
    out.push_back({{"start_seconds", 1e-9 * static_cast<double>(gap.start_ns)},
                   {"seconds", 1e-9 * static_cast<double>(gap.ns)},
                   {"device", gap.device},
                   {"phase", trace::phase_names[static_cast<std::size_t>(gap.phase)]},
                   {"range", gap.range},
                   {"before", gap.before},
                   {"after", gap.after}});
  return out;
}

trace::Phase phase_named(const Node& node) {
  const auto name = node.get<std::string>("phase");
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i)
    if (name == trace::phase_names[i]) return static_cast<trace::Phase>(i);
  throw UserError(node.place + ": \"phase\" is not a phase that is known here");
}

std::vector<trace::Gap> read_gaps(const Node& root) {
  std::vector<trace::Gap> gaps;
  for (const Json& item : root.list("gaps")) {
    const Node node{item, fmt::format("{}: \"gaps[{}]\"", root.place, gaps.size())};
    const auto ns = [&](const char* key) {
      const double seconds = check_figure(node.get<double>(key), node.place);
      if (!(std::abs(seconds) < 2e9)) throw UserError(node.place + " is beyond any measurement");
      return static_cast<std::int64_t>(std::llround(1e9 * seconds));
    };
    trace::Gap& gap = gaps.emplace_back();
    gap.start_ns = ns("start_seconds");
    gap.ns = ns("seconds");
    gap.device = node.get<std::int64_t>("device");
    gap.phase = phase_named(node);
    gap.range = node.get<std::string>("range");
    gap.before = node.get<std::string>("before");
    gap.after = node.get<std::string>("after");
  }
  return gaps;
}

Json recomputation_json(const trace::Recomputation& again) {
  return {{"kernel_seconds", again.seconds},
          {"kernels", again.kernels},
          {"by_module", rows_json(again.by_module, module_fields)},
          {"by_op", rows_json(again.by_op, again_op_fields)},
          {"by_module_and_op", rows_json(again.by_module_and_op, pair_fields)}};
}

trace::Recomputation read_recomputation(const Node& node) {
  trace::Recomputation again;
  again.seconds = check_figure(node.get<double>("kernel_seconds"), node.place);
  again.kernels = check_count(node.get<std::int64_t>("kernels"), node.place);
  again.by_module = read_rows(node, "by_module", module_fields);
  again.by_op = read_rows(node, "by_op", again_op_fields);
  again.by_module_and_op = read_rows(node, "by_module_and_op", pair_fields);
  return again;
}

Json absent_json(const Summary& s) {
  Json out = Json::object();
  if (!s.on_gpu)
    for (const char* key : {"busy_seconds", "idle_seconds", "launches", "kernels", "memcpy_bytes"})
      out[key] = "no work of a GPU is in this trace";
  else if (!s.launches_recorded)
    for (const char* key :
         {"launches", "idle_host_seconds", "idle_kernel_seconds", "idle_other_seconds"})
      out[key] = "no calls of the CUDA API are in this trace";
  if (!s.step) out["step"] = "nothing tells the steps";
  if (!s.recomputation) out["recomputation"] = "no kernel is known to run again";
  return out;
}

Json summary_json(const Summary& s) {
  Json out;
  out["schema"] = trace::summary_schema;
  out["file"] = s.origin;
  out["source"] = s.source;
  out["device"] = s.device;
  out["command"] = s.command;
  out["pid"] = s.pid;
  out["processes"] = s.processes;
  out["rank"] = or_null(s.rank);
  out["world_size"] = or_null(s.world);
  out["on_gpu"] = s.on_gpu;
  out["launches_recorded"] = s.launches_recorded;
  out["steps"] = s.steps;
  out.update(figures_json(s, s.whole));
  out["steps_in_mean"] = s.step_count;
  out["step"] = s.step ? figures_json(s, *s.step) : Json();
  if (s.step) out["step"]["seconds"] = s.on_gpu ? Json(s.step->seconds()) : Json();
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i)
    out["phases"][trace::phase_names[i]] = figures_json(s, s.phases[i]);
  out["kernel_seconds_by_kind"] = Json::object();
  for (const auto& [kind, seconds] : s.seconds_by_kind)
    out["kernel_seconds_by_kind"][kind] = seconds;
  for (const List& list : lists) out[list.key] = rows_json(s.*list.rows, *list.fields);
  out["gaps"] = gaps_json(s);
  out["recomputation"] = s.recomputation ? recomputation_json(*s.recomputation) : Json();
  for (const PeakField& field : peak_fields)
    out["peak_memory"][field.key] = or_null(s.memory.*field.member);
  out["absent"] = absent_json(s);
  out["notes"] = s.notes;
  return out;
}

Summary read_summary(const Node& root) {
  Summary s;
  s.origin = root.get<std::string>("file");
  s.source = root.get<std::string>("source");
  s.device = root.get<std::string>("device");
  s.command = root.get<std::string>("command");
  s.pid = root.get<std::int64_t>("pid");
  s.processes = check_count(root.get<std::int64_t>("processes"), root.place);
  const auto optional = [](const Node& node, const char* key) {
    return node.at(key).is_null() ? std::nullopt
                                  : std::optional<std::int64_t>(node.get<std::int64_t>(key));
  };
  s.rank = optional(root, "rank");
  s.world = optional(root, "world_size");
  s.on_gpu = root.get<bool>("on_gpu");
  s.launches_recorded = root.get<bool>("launches_recorded");
  s.steps = check_count(root.get<std::int64_t>("steps"), root.place);
  s.step_count = check_count(root.get<std::int64_t>("steps_in_mean"), root.place);
  s.whole = read_figures(root);
  if (!root.at("step").is_null()) s.step = read_figures(root.child("step"));
  for (std::size_t i = 0; i < trace::phase_names.size(); ++i)
    s.phases[i] = read_figures(root.child("phases").child(trace::phase_names[i]));
  const Node kinds = root.child("kernel_seconds_by_kind");
  if (!kinds.json.is_object()) throw UserError(kinds.place + " must be an object");
  for (const auto& [kind, seconds] : kinds.json.items())
    s.seconds_by_kind[kind] = check_figure(kinds.get<double>(kind.c_str()), kinds.place);
  for (const List& list : lists) s.*list.rows = read_rows(root, list.key, *list.fields);
  s.gaps = read_gaps(root);
  if (!root.at("recomputation").is_null())
    s.recomputation = read_recomputation(root.child("recomputation"));
  for (const PeakField& field : peak_fields)
    s.memory.*field.member = optional(root.child("peak_memory"), field.key);
  s.notes = root.get<std::vector<std::string>>("notes");
  return s;
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json parse(const std::string& text, const std::string& origin) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw UserError(origin + ": not JSON, or cut short");
  return json;
}

}  // namespace

std::string json(const Summary& s) { return dump(summary_json(s)); }

Summary summary_from_json(const std::string& text, const std::string& origin) {
  const Json json = parse(text, origin);
  return read_summary({json, origin});
}

std::string json(const RankSummaries& ranks) {
  Json out;
  out["schema"] = trace::ranks_schema;
  out["folder"] = ranks.origin;
  out["step_skew"] = ranks.together.step_skew;
  out["compute_skew"] = ranks.together.compute_skew;
  const trace::RankSummary& slowest = ranks.together.ranks[ranks.together.slowest];
  out["slowest"] = {{"rank", or_null(slowest.rank)}, {"file", slowest.origin}};
  out["ranks"] = Json::array();
  for (const trace::RankSummary& r : ranks.together.ranks) {
    Json& json = out["ranks"].emplace_back(Json::object());
    json["rank"] = or_null(r.rank);
    json["file"] = r.origin;
    json["steps_in_mean"] = r.steps;
    json["seconds"] = r.step.seconds();
    json["compute_seconds"] = r.step.compute_seconds();
    for (const trace::FigureField& field : trace::figure_fields)
      json[field.key] = r.step.*field.member;
  }
  out["traces"] = Json::array();
  for (const Summary& s : ranks.each) out["traces"].push_back(summary_json(s));
  out["notes"] = ranks.together.notes;
  return dump(out);
}

RankSummaries ranks_from_json(const std::string& text, const std::string& origin) {
  const Json json = parse(text, origin);
  const Node root{json, origin};
  RankSummaries ranks;
  ranks.origin = root.get<std::string>("folder");
  for (const Json& item : root.list("traces"))
    ranks.each.push_back(
        read_summary({item, fmt::format("{}: \"traces[{}]\"", origin, ranks.each.size())}));
  if (ranks.each.empty()) throw UserError(origin + ": \"traces\" is empty");
  ranks.together = trace::ranks_of(ranks.each);
  return ranks;
}

}  // namespace ac_advisor::reports
