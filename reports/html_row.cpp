#include "reports/html_row.hpp"

#include <algorithm>
#include <cstdlib>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/config_fields.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "reports/command_line.hpp"
#include "reports/grids.hpp"
#include "reports/room.hpp"

namespace ac_advisor::reports {
namespace {

double rounded(double x) { return std::strtod(fmt::format("{:.6g}", x).c_str(), nullptr); }

template <typename T, std::size_t N>
Json rounded(const std::array<T, N>& list) {
  Json out = Json::array();
  for (const T x : list) out.push_back(rounded(x));
  return out;
}

Json value_json(const profile::FieldValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json changed_options(const StepConfig& config, const StepConfig& base) {
  Json out = Json::object();
  const std::vector<profile::Field> fields = profile::config_fields(config),
                                    others = profile::config_fields(base);
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (!(fields[i] == others[i])) out[fields[i].name] = value_json(fields[i].value);
  return out;
}

Json live_tensors(const profile::Memory& m) {
  Json out = Json::array();
  for (const profile::LiveTensor& t : m.largest) {
    if (out.size() == 10) break;
    out.push_back({t.module, t.op, t.dtype + " " + t.shape, static_cast<int>(t.category), t.bytes});
  }
  return out;
}

/// The largest twelve.
Json modules(const profile::Memory& m) {
  std::vector<std::pair<std::string, std::int64_t>> list(m.at_peak_by_module.begin(),
                                                         m.at_peak_by_module.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  list.resize(std::min<std::size_t>(list.size(), 12));
  Json out = Json::array();
  for (const auto& [name, bytes] : list) out.push_back({name, bytes});
  return out;
}

/// [rank, stage, micro-batch, part, begin, end] in order; parts as PipelinePart counts them.
Json pipeline_slots(const profile::Time& time) {
  Json out = Json::array();
  for (const profile::PipelineSlot& slot : time.pipeline)
    out.push_back({slot.rank, slot.stage, slot.micro, static_cast<int>(slot.part),
                   rounded(slot.begin), rounded(slot.end)});
  return out;
}

/// Sizes of the mesh of ranks, outermost first, and ranks of a node; 0: not known.
Json mesh(const StepConfig& c) {
  const Layout& l = c.layout;
  std::int64_t node = l.node_size;
  try {
    node = simulate::find_device(c.device.gpu).ranks_of_node(l.node_size);
  } catch (const UserError&) {
    // A device file of another machine.
  }
  return {{"pp", l.pp}, {"dp", l.data_ranks()}, {"cp", l.cp}, {"tp", l.tp}, {"node", node}};
}

Json with_peak(const profile::Profile& p, std::int64_t unit) {
  const profile::Memory& m = p.memory;
  Json out;
  out["unit"] = unit;  // bytes a step of the timeline's integers: a 4096th of the peak
  out["largest"] = live_tensors(m);
  out["modules"] = modules(m);
  if (!p.time.pipeline.empty()) out["pipeline"] = pipeline_slots(p.time);
  if (!m.ranks.empty()) {
    const Grid grid = rank_grid(p);
    out["ranks"] = {{"head", grid.head()}, {"rows", grid.rows()}};
  }
  if (!p.task_phases.empty()) {
    const Grid grid = task_phase_grid(p);
    out["task_phases"] = {
        {"head", grid.head()}, {"rows", grid.rows()}, {"note", task_phase_note(p)}};
  }
  return out;
}

std::int64_t unit_of(const profile::Memory& m) {
  return std::max<std::int64_t>(1, m.peak_allocated / 4096);
}

}  // namespace

std::size_t Sentences::add(const std::string& text) {
  const auto [found, added] = at_.emplace(text, list_.size());
  if (added) list_.push_back(text);
  return found->second;
}

/// What was not measured is null, never 0; its reason becomes a note.
void leave_out_absent(const profile::Profile& p, Json& out) {
  const auto absent = [&](const char* path) { return p.absent.contains(path); };
  const Json nothing(nullptr), phases(std::vector<Json>(5, nothing));
  if (absent("memory.peak_reserved_bytes")) out["reserved"] = nothing;
  if (absent("kernels.dispatches")) out["dispatches"] = phases;
  if (absent("kernels.bytes")) out["bytes"] = phases;
  if (absent("kernels.flops")) out["flops"] = phases;
  if (absent("time.launch_bound_seconds")) out["waits"][0] = nothing;
  if (absent("time.communication_exposed_seconds")) out["waits"][1] = nothing;
  if (absent("time.mfu")) out["mfu"] = nothing;
  if (absent("fit")) {
    out["fits"] = nothing;
    out["fit"] = phases;
  }
}

Json row_json(const profile::Profile& p, const StepConfig& base, Sentences& notes) {
  const profile::Memory& m = p.memory;
  Json out;
  out["options"] = changed_options(p.config, base);
  out["peak"] = m.peak_allocated;
  out["reserved"] = m.peak_reserved;
  out["bare"] = m.peak_excluding_workspace;
  out["first"] = m.first_step_peak;
  out["resident"] = m.resident;
  out["where"] = {m.peak_phase, m.peak_op, m.peak_module, m.peak_step};
  out["atPeak"] = m.at_peak;
  out["phasePeak"] = m.peak_by_phase;
  out["launches"] = p.kernels.launches;
  out["dispatches"] = p.kernels.dispatches;
  out["bytes"] = rounded(p.kernels.bytes);
  out["flops"] = rounded(p.kernels.flops);
  out["seconds"] = rounded(p.time.by_phase);
  out["step"] = rounded(p.time.step);
  out["waits"] = {rounded(p.time.launch_bound), rounded(p.time.communication_exposed),
                  rounded(p.time.recompute)};
  out["tokens"] = rounded(p.time.tokens_per_second);
  out["mfu"] = rounded(p.time.mfu);
  out["fits"] = p.fit.fits;
  out["fit"] = {p.fit.required,      p.fit.usable, p.fit.context,
                p.fit.communication, p.fit.margin, p.fit.engine};
  if (const profile::TaskPhase* phase = deciding_phase(p)) out["phase"] = phase->name;
  leave_out_absent(p, out);
  if (p.source != "simulated") out["source"] = p.source;
  if (p.time.basis != profile::TimeBasis::estimate) out["timeWord"] = time_word(p.time.basis);
  if (p.budget) out["budget"] = {p.budget->budget, p.budget->plan, rounded(p.budget->gap)};
  if (p.config.layout.world > 1) out["mesh"] = mesh(p.config);
  if (const auto options = options_of(p.config)) out["command"] = command_line(*options);
  out["notes"] = Json::array();
  if (p.evidence) out["notes"].push_back(notes.add("Evidence: " + evidence::sentence(*p.evidence)));
  for (const std::string& text : p.warnings) out["notes"].push_back(notes.add("Warning: " + text));
  for (const std::string& text : p.assumptions) out["notes"].push_back(notes.add(text));
  for (const auto& [path, reason] : p.absent)
    out["notes"].push_back(notes.add("Not measured: " + path + ": " + reason));
  return out;
}

Json detail_json(const Detail& detail) {
  const std::int64_t unit = unit_of(detail.profile.memory);
  Json out = with_peak(detail.profile, unit);
  Json ops = Json::array(), categories = Json::object();
  std::string phases;
  for (const advise::CategoryPoint& point : detail.timeline) {
    ops.push_back(point.op);
    phases += static_cast<char>('0' + point.phase);
  }
  for (std::size_t c = 0; c < profile::category_count; ++c) {
    const bool lives = std::any_of(detail.timeline.begin(), detail.timeline.end(),
                                   [&](const auto& point) { return point.bytes[c] != 0; });
    if (!lives) continue;
    Json& list = categories[std::to_string(c)] = Json::array();
    for (const advise::CategoryPoint& point : detail.timeline)
      list.push_back((point.bytes[c] + unit / 2) / unit);
  }
  out["ops"] = std::move(ops);
  out["phases"] = phases;
  out["categories"] = std::move(categories);
  return out;
}

Json detail_json(const profile::Profile& p) {
  const std::int64_t unit = unit_of(p.memory);
  Json out = with_peak(p, unit);
  Json ops = Json::array(), total = Json::array();
  std::string phases;
  // A file may have more points than a screen has columns: stretches of a few, their highest kept.
  const std::vector<profile::TimelinePoint>& points = p.memory.timeline;
  const std::size_t stretch = points.size() / 400 + 1;
  for (std::size_t begin = 0; begin < points.size(); begin += stretch) {
    const auto from = points.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to =
        points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), begin + stretch));
    const auto high = std::max_element(from, to, [](const auto& a, const auto& b) {
      return a.allocated_bytes < b.allocated_bytes;
    });
    ops.push_back(high->op);
    phases += static_cast<char>('0' + high->phase);
    total.push_back((high->allocated_bytes + unit / 2) / unit);
  }
  out["ops"] = std::move(ops);
  out["phases"] = phases;
  out["total"] = std::move(total);
  return out;
}

Json settings_json(const profile::Profile& p) {
  Json out = Json::array();
  for (const std::string& target : advise::export_targets()) {
    Json setting;
    setting["target"] = target;
    try {
      const advise::ExportResult result = advise::export_setting(target, p.model, p.config);
      setting["version"] = result.version;
      setting["text"] = result.text;
      setting["notes"] = result.notes;
    } catch (const UserError& error) {
      setting["refused"] = error.what();
    }
    out.push_back(std::move(setting));
  }
  return out;
}

}  // namespace ac_advisor::reports
