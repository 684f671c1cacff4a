// Profile to JSON and back. Bytes are exact integers; keys carry their unit.
#include <cmath>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/config_fields.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "emulation_json.hpp"
#include "model_record.hpp"
#include "reader.hpp"

namespace ac_advisor::profile {
namespace {

Json to_json(const FieldValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json config_json(const StepConfig& config) {
  Json out = Json::object();
  for (const Field& field : saved_config_fields(config)) out[field.name] = to_json(field.value);
  return out;
}

Json memory_json(const Memory& m) {
  Json out;
  out["peak_allocated_bytes"] = m.peak_allocated;
  out["peak_reserved_bytes"] = m.peak_reserved;
  out["peak_excluding_workspace_bytes"] = m.peak_excluding_workspace;
  out["first_step_peak_bytes"] = m.first_step_peak;
  out["resident_bytes"] = m.resident;
  out["peak_phase"] = m.peak_phase;
  out["peak_step"] = m.peak_step;
  out["peak_op"] = m.peak_op;
  out["peak_module"] = m.peak_module;
  out["at_peak"] = Json::object();
  for (std::size_t i = 0; i < category_count; ++i)
    if (static_cast<Category>(i) != Category::unknown || m.at_peak[i] != 0)
      out["at_peak"][to_string(static_cast<Category>(i))] = m.at_peak[i];
  out["peak_by_phase"] = by_phase(m.peak_by_phase);
  out["peak_by_phase_excluding_workspace"] = by_phase(m.peak_by_phase_excluding_workspace);
  out["at_peak_by_module"] = m.at_peak_by_module;
  out["largest"] = Json::array();
  for (const LiveTensor& t : m.largest)
    out["largest"].push_back({{"module", t.module},
                              {"op", t.op},
                              {"shape", t.shape},
                              {"dtype", t.dtype},
                              {"category", to_string(t.category)},
                              {"bytes", t.bytes}});
  out["timeline"] = Json::array();
  for (const TimelinePoint& p : m.timeline)
    out["timeline"].push_back({p.op, phase_names[p.phase], p.allocated_bytes});
  return out;
}

Json budget_json(const BudgetResult& b) {
  return {{"budget_bytes", b.budget},
          {"least_feasible_bytes", b.least_feasible},
          {"formulation", b.formulation},
          {"solver", b.solver},
          {"recompute_seconds", b.recompute_seconds},
          {"lower_bound_seconds", b.lower_bound_seconds},
          {"optimality_gap", b.gap},
          {"plan", b.plan}};
}

void read_config(const Reader& reader, StepConfig& config) {
  if (reader.is_absent()) return;
  if (!reader.json().is_object()) reader.fail("must be an object");
  for (const auto& [name, value] : reader.json().items()) {
    Field field{name, false};
    if (value.is_boolean())
      field.value = value.get<bool>();
    else if (value.is_number_integer())
      field.value = value.get<std::int64_t>();
    else if (value.is_number())
      field.value = value.get<double>();
    else if (value.is_string())
      field.value = value.get<std::string>();
    else
      reader.at(name).fail("has a type that no option has");
    try {
      if (!set_config_field(config, field)) reader.at(name).fail("is not an option");
    } catch (const UserError& error) {
      reader.at(name).fail(error.what());
    }
  }
}

/// Bytes by name, where the field is there.
void read_modules(const Reader& modules, std::map<std::string, std::int64_t>& bytes) {
  if (modules.is_absent()) return;
  if (!modules.json().is_object()) modules.fail("must be an object");
  for (const auto& [name, value] : modules.json().items()) modules.at(name) >> bytes[name];
}

Category category_of(const Reader& reader) {
  std::string name;
  reader >> name;
  for (std::size_t i = 0; i < category_count; ++i)
    if (name == to_string(static_cast<Category>(i))) return static_cast<Category>(i);
  reader.fail("is not a category");
}

void read_memory(const Reader& r, Memory& m) {
  r.at("peak_allocated_bytes") >> m.peak_allocated;
  r.at("peak_reserved_bytes") >> m.peak_reserved;
  r.at("peak_excluding_workspace_bytes") >> m.peak_excluding_workspace;
  r.at("first_step_peak_bytes") >> m.first_step_peak;
  r.at("resident_bytes") >> m.resident;
  r.at("peak_phase") >> m.peak_phase;
  r.at("peak_step") >> m.peak_step;
  r.at("peak_op") >> m.peak_op;
  r.at("peak_module") >> m.peak_module;
  const Reader categories = r.at("at_peak");
  for (std::size_t i = 0; i < category_count; ++i)
    if (static_cast<Category>(i) != Category::unknown || categories.json().contains("unknown"))
      categories.at(to_string(static_cast<Category>(i))) >> m.at_peak[i];
  r.at("peak_by_phase") >> m.peak_by_phase;
  r.at("peak_by_phase_excluding_workspace") >> m.peak_by_phase_excluding_workspace;
  read_modules(r.at("at_peak_by_module"), m.at_peak_by_module);
  const Reader largest = r.at("largest");
  for (const Json& item : largest.list()) {
    const Reader t = largest.item(item);
    LiveTensor tensor;
    t.at("module") >> tensor.module;
    t.at("op") >> tensor.op;
    t.at("shape") >> tensor.shape;
    t.at("dtype") >> tensor.dtype;
    tensor.category = category_of(t.at("category"));
    t.at("bytes") >> tensor.bytes;
    m.largest.push_back(std::move(tensor));
  }
  const Reader timeline = r.at("timeline");
  for (const Json& item : timeline.list()) {
    if (!item.is_array() || item.size() != 3) timeline.fail("must hold lists of three");
    TimelinePoint point;
    std::int64_t op = 0;
    std::string phase;
    timeline.item(item[0]) >> op;
    timeline.item(item[1]) >> phase;
    timeline.item(item[2]) >> point.allocated_bytes;
    point.op = static_cast<std::int32_t>(op);
    for (std::size_t i = 0; i < phase_names.size(); ++i)
      if (phase == phase_names[i]) point.phase = static_cast<std::uint8_t>(i);
    m.timeline.push_back(point);
  }
}

void read_budget(const Reader& r, BudgetResult& b) {
  r.at("budget_bytes") >> b.budget;
  r.at("least_feasible_bytes") >> b.least_feasible;
  r.at("formulation") >> b.formulation;
  r.at("solver") >> b.solver;
  r.at("recompute_seconds") >> b.recompute_seconds;
  r.at("lower_bound_seconds") >> b.lower_bound_seconds;
  r.at("optimality_gap") >> b.gap;
  r.at("plan") >> b.plan;
}

Json numerics_json(const Numerics& n) {
  return {{"losses", n.losses},
          {"gradient_digest", n.gradient_digest},
          {"parity_error", n.parity_error},
          {"parity", n.parity},
          {"reference", n.reference}};
}

void read_numerics(const Reader& r, Numerics& n) {
  const Reader losses = r.at("losses");
  for (const Json& item : losses.list()) {
    n.losses.push_back(std::nan(""));  // JSON has no other way to say it than null
    if (!item.is_null()) losses.item(item) >> n.losses.back();
  }
  r.at("gradient_digest") >> n.gradient_digest;
  r.at("parity_error") >> n.parity_error;
  r.at("parity") >> n.parity;
  r.at("reference") >> n.reference;
}

Json instruments_json(const Instruments& all) {
  Json runs = Json::array(), overheads = Json::object();
  for (const Instruments::Run& run : all.runs) {
    runs.push_back({{"instrument", run.instrument}, {"step_seconds", run.step_seconds}});
    if (const auto percent = all.overhead_percent(run)) overheads[run.instrument] = *percent;
  }
  Json out = {{"runs", runs},
              {"overhead_percent", overheads},
              {"dram_read_bytes", by_phase(all.dram_read_bytes)},
              {"dram_write_bytes", by_phase(all.dram_write_bytes)},
              {"dram_percent_of_peak", by_phase(all.dram_percent_of_peak)},
              {"gaps_over_50_us", by_phase(all.long_gaps)},
              {"gap_seconds", by_phase(all.long_gap_seconds)},
              {"idle_seconds", by_phase(all.idle_seconds)}};
  if (all.whole)
    out["step"] = {{"kernels", all.whole->kernels},
                   {"launches", all.whole->launches},
                   {"gaps_over_50_us", all.whole->long_gaps},
                   {"gap_seconds", all.whole->long_gap_seconds},
                   {"idle_seconds", all.whole->idle_seconds}};
  return out;
}

void read_instruments(const Reader& r, Instruments& all) {
  const Reader runs = r.at("runs");
  for (const Json& item : runs.list()) {
    const Reader run = runs.item(item);
    run.at("instrument") >> all.runs.emplace_back().instrument;
    run.at("step_seconds") >> all.runs.back().step_seconds;
  }
  r.at("dram_read_bytes") >> all.dram_read_bytes;
  r.at("dram_write_bytes") >> all.dram_write_bytes;
  r.at("dram_percent_of_peak") >> all.dram_percent_of_peak;
  r.at("gaps_over_50_us") >> all.long_gaps;
  r.at("gap_seconds") >> all.long_gap_seconds;
  r.at("idle_seconds") >> all.idle_seconds;
  if (!r.json().contains("step")) return;
  const Reader step = r.at("step");
  profile::TracedStep& whole = all.whole.emplace();
  step.at("kernels") >> whole.kernels;
  step.at("launches") >> whole.launches;
  step.at("gaps_over_50_us") >> whole.long_gaps;
  step.at("gap_seconds") >> whole.long_gap_seconds;
  step.at("idle_seconds") >> whole.idle_seconds;
}

/// "memory.peak_reserved_bytes" becomes null.
void set_absent(Json& out, const std::string& path) {
  Json* node = &out;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    node = &(*node)[path.substr(begin, end - begin)];
    begin = end + 1;
  }
  *node = nullptr;
}

/// Older files have `estimate` alone.
void read_basis(const Reader& time, TimeBasis& basis) {
  if (time.is_absent()) return;
  bool estimate = true;
  time.at("estimate") >> estimate;
  basis = estimate ? TimeBasis::estimate : TimeBasis::measured;
  if (!time.json().contains("basis")) return;
  const Reader field = time.at("basis");
  std::string name;
  field >> name;
  for (const TimeBasis known : {TimeBasis::estimate, TimeBasis::calibrated, TimeBasis::measured})
    if (name == to_string(known) && estimate == (known != TimeBasis::measured)) {
      basis = known;
      return;
    }
  field.fail(estimate ? "must be estimate or calibrated, where time.estimate is true"
                      : "must be measured, where time.estimate is false");
}

void read_time(const Reader& r, Time& time) {
  read_basis(r, time.basis);
  r.at("step_seconds") >> time.step;
  r.at("by_phase_seconds") >> time.by_phase;
  r.at("launch_bound_seconds") >> time.launch_bound;
  r.at("communication_exposed_seconds") >> time.communication_exposed;
  r.at("recompute_seconds") >> time.recompute;
  r.at("tokens_per_second") >> time.tokens_per_second;
  r.at("mfu") >> time.mfu;
}

}  // namespace

std::string to_json(const Profile& p, int indent) {
  Json out;
  out["schema"] = p.has("model") ? schema : schema_2;
  out["source"] = p.source;
  out["tool_version"] = p.tool_version;
  out["model"] = model_json(p.model);
  out["parameters"] = p.parameters;
  out["config"] = config_json(p.config);
  out["device"] = p.device_name;
  out["memory"] = memory_json(p.memory);
  out["kernels"] = {{"launches", by_phase(p.kernels.launches)},
                    {"dispatches", by_phase(p.kernels.dispatches)},
                    {"flops", by_phase(p.kernels.flops)},
                    {"bytes", by_phase(p.kernels.bytes)}};
  out["time"] = {{"estimate", p.time.basis != TimeBasis::measured},
                 {"basis", to_string(p.time.basis)},
                 {"step_seconds", p.time.step},
                 {"by_phase_seconds", by_phase(p.time.by_phase)},
                 {"launch_bound_seconds", p.time.launch_bound},
                 {"communication_exposed_seconds", p.time.communication_exposed},
                 {"recompute_seconds", p.time.recompute},
                 {"tokens_per_second", p.time.tokens_per_second},
                 {"mfu", p.time.mfu}};
  out["fit"] = {{"fits", p.fit.fits},
                {"required_bytes", p.fit.required},
                {"usable_bytes", p.fit.usable},
                {"context_bytes", p.fit.context},
                {"communication_bytes", p.fit.communication},
                {"margin_bytes", p.fit.margin}};
  if (p.budget) out["budget"] = budget_json(*p.budget);
  if (p.numerics) out["numerics"] = numerics_json(*p.numerics);
  if (p.instruments) out["instruments"] = instruments_json(*p.instruments);
  if (p.emulation) {
    out["steps"] = steps_json(p.emulation->steps);
    out["emulation"] = emulation_json(*p.emulation);
  }
  if (!p.absent.empty()) out["absent"] = p.absent;
  for (const auto& [path, reason] : p.absent) set_absent(out, path);
  out["assumptions"] = p.assumptions;
  out["warnings"] = p.warnings;
  // Names come from files: what is not UTF-8 is replaced, not refused.
  return out.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Profile from_json(const std::string& text, const std::string& origin) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded())
    throw UserError(origin + ": not JSON, or cut short; give what plan --format json wrote");
  Profile p;
  const Reader r(root, origin, "", p.absent);
  if (root.is_object() && root.contains("absent")) {
    const Reader absent = r.at("absent");
    if (!absent.json().is_object()) absent.fail("must be an object of reasons");
    for (const auto& [path, reason] : absent.json().items()) absent.at(path) >> p.absent[path];
  }
  std::string written;
  r.at("schema") >> written;
  if (written != schema && written != schema_2)
    throw UserError(origin + ": \"schema\" is " + written + ", this version reads " + schema +
                    " and " + schema_2);
  r.at("source") >> p.source;
  r.at("tool_version") >> p.tool_version;
  if (const Reader model = r.at("model"); !model.is_absent())
    p.model = read_model(model.json(), origin);
  r.at("parameters") >> p.parameters;
  if (const Reader config = r.at("config"); !config.is_absent()) read_config(config, p.config);
  r.at("device") >> p.device_name;
  read_memory(r.at("memory"), p.memory);
  if (const Reader kernels = r.at("kernels"); !kernels.is_absent()) {
    kernels.at("launches") >> p.kernels.launches;
    kernels.at("dispatches") >> p.kernels.dispatches;
    kernels.at("flops") >> p.kernels.flops;
    kernels.at("bytes") >> p.kernels.bytes;
  }
  if (const Reader time = r.at("time"); !time.is_absent()) read_time(time, p.time);
  if (const Reader fit = r.at("fit"); !fit.is_absent()) {
    fit.at("fits") >> p.fit.fits;
    fit.at("required_bytes") >> p.fit.required;
    fit.at("usable_bytes") >> p.fit.usable;
    fit.at("context_bytes") >> p.fit.context;
    fit.at("communication_bytes") >> p.fit.communication;
    fit.at("margin_bytes") >> p.fit.margin;
  }
  if (root.contains("budget")) read_budget(r.at("budget"), p.budget.emplace());
  if (root.contains("numerics"))
    if (const Reader all = r.at("numerics"); !all.is_absent())
      read_numerics(all, p.numerics.emplace());
  if (root.contains("instruments"))
    if (const Reader all = r.at("instruments"); !all.is_absent())
      read_instruments(all, p.instruments.emplace());
  if (root.contains("emulation")) {
    read_emulation(r.at("emulation"), p.emulation.emplace());
    read_steps(r.at("steps"), p.emulation->steps);
  }
  r.at("assumptions") >> p.assumptions;
  r.at("warnings") >> p.warnings;
  return p;
}

}  // namespace ac_advisor::profile
