// Profile to JSON and back. Bytes are exact integers; keys carry their unit.
#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/config_fields.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "emulation_json.hpp"
#include "fit_json.hpp"
#include "measured_json.hpp"
#include "memory_json.hpp"
#include "model_record.hpp"
#include "reader.hpp"

namespace ac_advisor::profile {
namespace {

constexpr std::array<const char*, 4> part_names{"forward", "backward", "input", "weights"};

Json to_json(const FieldValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json config_json(const StepConfig& config) {
  Json out = Json::object();
  for (const Field& field : saved_config_fields(config)) out[field.name] = to_json(field.value);
  return out;
}

Json evidence_json(const evidence::Evidence& e) {
  return {{"grade", evidence::to_string(e.grade)},
          {"steps", e.steps},
          {"unseen", e.unseen},
          {"pair_steps", e.pair_steps},
          {"expected_error_percent", e.expected_error_percent}};
}

void read_evidence(const Reader& r, evidence::Evidence& e) {
  e.grade = static_cast<evidence::Grade>(r.at("grade").node().one_of(evidence::grade_names));
  r.at("steps") >> e.steps;
  r.at("unseen") >> e.unseen;
  r.at("pair_steps") >> e.pair_steps;
  r.at("expected_error_percent") >> e.expected_error_percent;
}

template <typename Result, typename Io>
void visit_budget(Result& b, const Io& io) {
  io("budget_bytes", b.budget);
  io("least_feasible_bytes", b.least_feasible);
  io("formulation", b.formulation);
  io("solver", b.solver);
  io("recompute_seconds", b.recompute_seconds);
  io("lower_bound_seconds", b.lower_bound_seconds);
  io("optimality_gap", b.gap);
  io("plan", b.plan);
}

template <typename Counts, typename Io>
void visit_kernels(Counts& k, const Io& io) {
  io("launches", k.launches);
  io("dispatches", k.dispatches);
  io("flops", k.flops);
  io("bytes", k.bytes);
}

template <typename Seconds, typename Io>
void visit_time(Seconds& t, const Io& io) {
  io("step_seconds", t.step);
  io("by_phase_seconds", t.by_phase);
  io("launch_bound_seconds", t.launch_bound);
  io("communication_exposed_seconds", t.communication_exposed);
  io("recompute_seconds", t.recompute);
  io("tokens_per_second", t.tokens_per_second);
  io("mfu", t.mfu);
}

template <typename Phase, typename Io>
void visit_task_phase(Phase& t, const Io& io) {
  io("name", t.name);
  io("planned", t.planned);
  io("allocated_bytes", t.allocated);
  io("reserved_bytes", t.reserved);
  io("parameters_bytes", t.parameters);
  io("optimizer_states_bytes", t.optimizer_states);
  io("engine_bytes", t.engine);
  io("device_bytes", t.device);
  io("largest", t.largest);
}

void read_config(const Reader& reader, StepConfig& config) {
  for (const auto& [name, member] : reader.members()) {
    const Json& value = member.node().json();
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
      member.node().fail("has a type that no option has");
    try {
      if (!set_config_field(config, field)) member.node().fail("is not an option");
    } catch (const UserError& error) {
      member.node().fail(error.what());
    }
  }
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
  if (!time.has("basis")) return;
  const json::Node field = time.at("basis").node();
  const std::string name = field.text();
  for (const TimeBasis known : {TimeBasis::estimate, TimeBasis::calibrated, TimeBasis::measured})
    if (name == to_string(known) && estimate == (known != TimeBasis::measured)) {
      basis = known;
      return;
    }
  field.fail(estimate ? "must be estimate or calibrated, where time.estimate is true"
                      : "must be measured, where time.estimate is false");
}

}  // namespace

std::string to_json(const Profile& p, int indent) {
  Json out;
  out["schema"] = p.has("model") ? schema : schema_2;
  out["source"] = p.source;
  out["tool_version"] = p.tool_version;
  out["model"] = model_json(p.model);
  out["parameters"] = p.parameters;
  if (p.trainable_parameters) out["trainable_parameters"] = *p.trainable_parameters;
  out["config"] = config_json(p.config);
  out["device"] = p.device_name;
  out["memory"] = memory_json(p.memory);
  visit_kernels(p.kernels, Writing{out["kernels"]});
  out["time"] = {{"estimate", p.time.basis != TimeBasis::measured},
                 {"basis", to_string(p.time.basis)}};
  visit_time(p.time, Writing{out["time"]});
  if (p.time.bubble_share) out["time"]["bubble_share"] = *p.time.bubble_share;
  for (const PipelineSlot& slot : p.time.pipeline)
    out["time"]["pipeline"].push_back({slot.rank, slot.stage, slot.micro,
                                       part_names[static_cast<std::size_t>(slot.part)], slot.begin,
                                       slot.end});
  out["fit"] = fit_json(p.fit);
  for (const TaskPhase& phase : p.task_phases) {
    Json& written = out["task_phases"].emplace_back();
    visit_task_phase(phase, Writing{written});
    if (p.config.task.has_critic()) written["critic_bytes"] = phase.critic;
  }
  if (p.evidence) out["evidence"] = evidence_json(*p.evidence);
  if (p.budget) visit_budget(*p.budget, Writing{out["budget"]});
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

namespace {

PipelineSlot read_slot(const Reader& reader) {
  const std::vector<Reader> parts = reader.list();
  if (parts.size() != 6) reader.node().fail("must be a list of six");
  PipelineSlot slot;
  parts[0] >> slot.rank;
  parts[1] >> slot.stage;
  parts[2] >> slot.micro;
  slot.part = static_cast<PipelinePart>(parts[3].node().one_of(part_names));
  parts[4] >> slot.begin;
  parts[5] >> slot.end;
  return slot;
}

}  // namespace

Profile from_json(const std::string& text, const std::string& origin) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded())
    throw UserError(origin + ": not JSON, or cut short; give what plan --format json wrote");
  Profile p;
  const Reader r({root, origin, {}, "; is this a profile that ac-advisor wrote?"}, p.absent);
  if (r.has("absent")) r.at("absent") >> p.absent;
  const std::string written = r.at("schema").node().text();
  if (written != schema && written != schema_2)
    throw UserError(origin + ": \"schema\" is " + written + ", this version reads " + schema +
                    " and " + schema_2);
  r.at("source") >> p.source;
  r.at("tool_version") >> p.tool_version;
  if (const Reader model = r.at("model"); !model.is_absent())
    p.model = read_model(model.node().json(), origin);
  r.at("parameters") >> p.parameters;
  if (r.has("trainable_parameters"))
    r.at("trainable_parameters") >> p.trainable_parameters.emplace();
  read_config(r.at("config"), p.config);
  r.at("device") >> p.device_name;
  read_memory(r.at("memory"), p.memory);
  visit_kernels(p.kernels, Reading{r.at("kernels")});
  read_basis(r.at("time"), p.time.basis);
  visit_time(p.time, Reading{r.at("time")});
  if (r.at("time").has("bubble_share"))
    r.at("time").at("bubble_share") >> p.time.bubble_share.emplace();
  if (r.at("time").has("pipeline"))
    for (const Reader& slot : r.at("time").at("pipeline").list())
      p.time.pipeline.push_back(read_slot(slot));
  read_fit(r.at("fit"), p.fit);
  if (r.has("task_phases"))
    for (const Reader& phase : r.at("task_phases").list()) {
      TaskPhase& read = p.task_phases.emplace_back();
      visit_task_phase(read, Reading{phase});
      if (phase.has("critic_bytes")) phase.at("critic_bytes") >> read.critic;
    }
  if (r.has("evidence")) read_evidence(r.at("evidence"), p.evidence.emplace());
  if (r.has("budget")) visit_budget(p.budget.emplace(), Reading{r.at("budget")});
  const auto holds = [&](const char* key) { return r.has(key) && !r.at(key).is_absent(); };
  if (holds("numerics")) read_numerics(r.at("numerics"), p.numerics.emplace());
  if (holds("instruments")) read_instruments(r.at("instruments"), p.instruments.emplace());
  if (r.has("emulation")) {
    read_emulation(r.at("emulation"), p.emulation.emplace());
    read_steps(r.at("steps"), p.emulation->steps);
  }
  r.at("assumptions") >> p.assumptions;
  r.at("warnings") >> p.warnings;
  return p;
}

}  // namespace ac_advisor::profile
