#include "ac_advisor/reports/oom.hpp"
#include "ac_advisor/version.hpp"
#include "reports/json_node.hpp"

namespace ac_advisor::reports {
namespace {

constexpr const char* kinds[] = {"allocator", "device", "engine", "recoverable"};

Json bytes(const std::optional<oom::Amount>& amount) {
  return amount ? Json(amount->bytes) : Json();
}

Json tensor_json(const oom::Tensor& t) {
  return {{"what", t.what},
          {"shape", t.shape},
          {"made_by", text_or_null(t.made_by)},
          {"rows", t.rows > 0 ? Json(t.rows) : Json()},
          {"width", t.width},
          {"element_bytes", t.element},
          {"bytes", t.bytes},
          {"certain", t.certain},
          {"op", text_or_null(t.op)},
          {"module", text_or_null(t.module)},
          {"phase", text_or_null(t.plan_phase)}};
}

Json error_json(const oom::Finding& f) {
  const oom::Error& e = f.error;
  Json out{{"kind", kinds[static_cast<std::size_t>(e.kind)]},
           {"backend", e.backend},
           {"message", e.message},
           {"requested_bytes", bytes(e.requested)},
           {"capacity_bytes", bytes(e.capacity)},
           {"free_bytes", bytes(e.free)},
           {"allocated_bytes", bytes(e.allocated)},
           {"reserved_unallocated_bytes", bytes(e.unallocated)},
           {"allowed_bytes", bytes(e.allowed)},
           {"process_bytes", bytes(e.this_process)},
           {"devices", e.devices},
           {"ranks", e.ranks},
           {"times", e.times}};
  out["other_processes"] = Json::array();
  for (const oom::Process& p : e.others)
    out["other_processes"].push_back({{"id", p.id}, {"bytes", p.in_use.bytes}});
  out["role"] = text_or_null(f.role);
  out["phase"] = text_or_null(f.phase);
  out["frame"] = text_or_null(f.where);
  out["tensor"] = f.tensor ? tensor_json(*f.tensor) : Json();
  out["alternatives"] = Json::array();
  for (const oom::Tensor& t : f.alternatives) out["alternatives"].push_back(tensor_json(t));
  out["fragmented"] = f.fragmented;
  out["missing_bytes"] = f.missing;
  out["why"] = text_or_null(f.need);
  out["notes"] = f.notes;
  return out;
}

Json change_json(const advise::Change& c) {
  Json options = Json::array();
  for (const auto& [name, value] : c.options) options.push_back({name, value});
  return {{"options", options},
          {"technique", c.technique},
          {"peak_allocated_bytes", c.profile.memory.peak_allocated},
          {"peak_reserved_bytes", c.profile.memory.peak_reserved},
          {"step_seconds", c.profile.time.step},
          {"slower", c.slower}};
}

}  // namespace

std::string json(const oom::Explanation& e) {
  Json out{{"schema", "ac-advisor/oom/1"}, {"tool_version", version}};
  out["errors"] = Json::array();
  for (const oom::Finding& f : e.findings) out["errors"].push_back(error_json(f));
  out["cache_flushes"] = e.flushes;
  out["suggestions"] = e.suggestions;
  out["plan"] = Json();
  out["changes"] = Json::array();
  if (e.planned) {
    out["plan"] = Json::parse(profile::to_json(e.planned->profile, -1));
    for (const advise::Change& c : e.planned->changes) out["changes"].push_back(change_json(c));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::reports
