// The page of a snapshot: its timeline, aggregated here so that a browser has at most some 16,000
// points to draw however long the history is.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ac_advisor/version.hpp"
#include "reports/html_template.hpp"
#include "reports/snapshot_grids.hpp"

namespace ac_advisor::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_rows = 200;
constexpr std::int64_t unit = 512;  ///< blocks are multiples of it

Json grids_json(const std::vector<TitledGrid>& grids) {
  Json out = Json::array();
  for (const TitledGrid& g : grids)
    out.push_back({{"title", g.title}, {"head", g.grid.head()}, {"rows", g.grid.rows()}});
  return out;
}

/// Numbers of a curve as differences, which are short.
template <typename Get>
Json curve(const std::vector<snapshot::Moment>& moments, const Get& get) {
  Json out = Json::array();
  std::int64_t last = 0;
  for (const snapshot::Moment& m : moments) {
    const std::int64_t now = get(m);
    out.push_back(now - last);
    last = now;
  }
  return out;
}

Json timeline_json(const snapshot::Analysis& a) {
  Json out{{"unit", unit}};
  out["events"] = curve(a.timeline, [](const auto& m) { return m.event; });
  if (!a.timeline.empty() && a.timeline.front().time_us != 0) {
    const std::int64_t begin = a.timeline.front().time_us;
    out["times"] = curve(a.timeline, [&](const auto& m) { return m.time_us - begin; });
  }
  out["reserved"] = curve(a.timeline, [](const auto& m) { return m.reserved / unit; });
  out["lowest"] = curve(a.timeline, [](const auto& m) { return m.lowest / unit; });
  out["categories"] = Json::object();
  for (std::size_t c = 0; c < profile::category_count; ++c) {
    bool any = false;
    for (const snapshot::Moment& m : a.timeline) any = any || m.bytes[c] != 0;
    if (any)
      out["categories"][std::to_string(c)] =
          curve(a.timeline, [&](const auto& m) { return m.bytes[c] / unit; });
  }
  return out;
}

/// Texts, each once, in a list.
class Texts {
 public:
  std::size_t of(const std::string& text) {
    const auto [found, fresh] = known_.try_emplace(text, known_.size());
    if (fresh) list_.push_back(text);
    return found->second;
  }
  [[nodiscard]] const Json& list() const { return list_; }

 private:
  std::map<std::string, std::size_t> known_;
  Json list_ = Json::array();
};

/// Stacks are lists of numbers of frames.
Json bars_json(const snapshot::Analysis& a) {
  Json list = Json::array(), stacks = Json::array();
  Texts sites, frames;
  std::map<std::vector<std::string>, std::size_t> known;
  for (const snapshot::Bar& b : a.bars) {
    const auto [stack, fresh] = known.try_emplace(b.stack, known.size());
    if (fresh) {
      Json numbers = Json::array();
      for (const std::string& frame : b.stack) numbers.push_back(frames.of(frame));
      stacks.push_back(std::move(numbers));
    }
    list.push_back({b.born, b.freed, b.size / unit, static_cast<int>(b.category), sites.of(b.where),
                    stack->second});
  }
  return {{"sites", sites.list()}, {"frames", frames.list()}, {"stacks", stacks}, {"list", list}};
}

Json steps_json(const snapshot::Analysis& a) {
  Json list = Json::array();
  for (const snapshot::StepSummary& s : a.steps) list.push_back({s.begin, s.end, s.complete});
  return list;
}

Json base_json() {
  Json out{{"version", version}, {"rows", Json::array()}, {"phases", profile::phase_names}};
  out["categories"] = Json::array();
  for (std::size_t c = 0; c < profile::category_count; ++c)
    out["categories"].push_back(to_string(static_cast<profile::Category>(c)));
  return out;
}

Json analysis_json(const snapshot::Analysis& a) {
  Json out = base_json();
  out["file"] = a.origin;
  out["device"] = a.device;
  out["count"] = a.events;
  out["seconds"] = a.seconds > 0 ? Json(a.seconds) : Json();
  out["peak"] = a.peak_allocated;
  out["peakReserved"] = a.peak_reserved;
  out["peakEvent"] = a.peak_event;
  out["peakPhase"] = a.peak_phase;
  out["peakWhere"] = a.peak_where;
  out["free"] = a.fragmentation.free_then;
  out["atPeak"] = a.at_peak;
  out["complete"] =
      std::count_if(a.steps.begin(), a.steps.end(), [](const auto& s) { return s.complete; });
  out["timeline"] = timeline_json(a);
  out["bars"] = bars_json(a);
  out["steps"] = steps_json(a);
  out["oom"] = Json::array();
  for (const snapshot::OutOfMemory& o : a.out_of_memory) out["oom"].push_back(o.event);
  out["tables"] = grids_json(grids(a, most_rows));
  out["notes"] = a.notes;
  if (!a.allocator_settings.empty())
    out["notes"].push_back("PYTORCH_CUDA_ALLOC_CONF=" + a.allocator_settings);
  return out;
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& s : sentences)
    text += "<p class=\"verdict\">" + escape_html(printable(s)) + ".</p>\n";
  return text;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string page(const std::string& title, const std::vector<std::string>& verdict,
                 const Json& data) {
  return filled(html_part("snapshot.html"), [&](std::string_view name) -> std::string {
    if (name == "title") return escape_html(printable(title));
    if (name == "verdict") return joined(verdict);
    if (name == "style") return std::string(html_part("report.css"));
    if (name == "data")
      return escape_json(data.dump(-1, ' ', false, Json::error_handler_t::replace));
    return scripts_text(
        {"elements.js", "figures.js", "charts.js", "history.js", "theme.js", "snapshot.js"});
  });
}

}  // namespace

std::string html(const snapshot::Analysis& a) {
  return page(file_name(a.origin), sentences(a), analysis_json(a));
}

std::string html(const snapshot::Against& r) {
  Json data = analysis_json(r.analysis);
  Json tables = grids_json(grids(r, most_rows));
  for (Json& table : data["tables"]) tables.push_back(std::move(table));
  data["tables"] = std::move(tables);
  data["plan"] = r.plan;
  return page(file_name(r.analysis.origin), r.findings, data);
}

std::string html(const snapshot::Growth& g) {
  Json data = base_json();
  data["file"] = g.b_origin;
  data["device"] = g.device;
  data["tables"] = grids_json(grids(g, most_rows));
  data["notes"] = Json::array();
  return page(file_name(g.b_origin) + " after " + file_name(g.a_origin), sentences(g), data);
}

}  // namespace ac_advisor::reports
