// Without fmt: the library that is loaded into others' processes writes with it.
#include <nlohmann/json.hpp>

#include "trace/json_fields.hpp"
#include "trace/saturating.hpp"

namespace ac_advisor::trace {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json place(Window window, Phase phase) {
  return {{"window", window_names[static_cast<std::size_t>(window)]},
          {"phase", phase_names[static_cast<std::size_t>(phase)]}};
}

void put(Json& json, const Work& work) {
  for (const WorkField& field : work_fields)
    if (work.*field.member != 0) json[field.key] = work.*field.member;
}

void put_totals(Json& out, const Trace& trace) {
  out["copies"] = Json::array();
  for (const CopyTotal& c : trace.copies)
    out["copies"].push_back({{"window", window_names[static_cast<std::size_t>(c.window)]},
                             {"name", c.name},
                             {"count", c.count},
                             {"ns", c.ns},
                             {"bytes", c.bytes}});
  for (std::size_t w = 0; w < window_names.size(); ++w)
    out["communication"][window_names[w]] = {{"kernels", trace.communication[w].kernels},
                                             {"ns", trace.communication[w].ns},
                                             {"exposed_ns", trace.communication[w].exposed_ns}};
  out["ops"] = Json::array();
  for (const OpTotal& o : trace.ops) {
    Json& json = out["ops"].emplace_back(place(o.window, o.phase));
    json["name"] = o.name;
    json["calls"] = o.calls;
    json["host_ns"] = o.host_ns;
    json["kernels"] = o.kernels;
    json["kernel_ns"] = o.kernel_ns;
  }
  out["recomputed"] = Json::array();
  for (const RecomputedTotal& r : trace.recomputed)
    out["recomputed"].push_back({{"window", window_names[static_cast<std::size_t>(r.window)]},
                                 {"path", r.path},
                                 {"op", r.op},
                                 {"kernels", r.kernels},
                                 {"kernel_ns", r.kernel_ns}});
  out["rank"] = or_null(trace.rank);
  out["world"] = or_null(trace.world);
  out["launches_recorded"] = trace.launches_recorded;
  out["unlinked_work"] = trace.unlinked_work;
}

Json trace_json(const Trace& trace) {
  Json out;
  out["source"] = trace.source;
  out["pid"] = trace.pid;
  out["process"] = trace.process;
  out["devices"] = Json::array();
  for (const Device& d : trace.devices)
    out["devices"].push_back({{"id", d.id},
                              {"name", d.name},
                              {"memory_bytes", d.memory_bytes},
                              {"bandwidth_bytes_per_second", d.bandwidth_bytes_per_second}});
  for (const StepField& field : step_fields) out["steps"][field.key] = trace.steps.*field.member;
  for (const AttributionField& field : attribution_fields)
    out["kernels_attributed_by"][field.key] = trace.attribution.*field.member;
  for (const PeakField& field : peak_fields)
    out["peak_memory"][field.key] = or_null(trace.memory.*field.member);
  for (std::size_t i = 0; i < phase_names.size(); ++i)
    out["dram_utilisation"][phase_names[i]] = or_null(trace.dram_utilisation[i]);
  out["dropped_records"] = trace.dropped_records;
  out["notes"] = trace.notes;
  out["work"] = Json::array();
  for (const Slice& s : trace.slices)
    put(out["work"].emplace_back(place(s.window, s.phase)), s.work);
  out["kernels"] = Json::array();
  for (const KernelTotal& k : trace.kernels) {
    Json& json = out["kernels"].emplace_back(place(k.window, k.phase));
    json["name"] = k.name;
    json["count"] = k.count;
    json["ns"] = k.ns;
    json["longest_ns"] = k.longest_ns;
    json["captured"] = k.captured;
  }
  out["ranges"] = Json::array();
  for (const RangeTotal& r : trace.ranges) {
    Json& json = out["ranges"].emplace_back(place(r.window, r.phase));
    json["path"] = r.path;
    json["entered"] = r.entered;
    json["host_ns"] = r.host_ns;
    put(json, r.work);
  }
  out["longest_gaps"] = Json::array();
  for (const Gap& g : trace.gaps) {
    Json& json = out["longest_gaps"].emplace_back(place(g.window, g.phase));
    json["start_ns"] = g.start_ns;
    json["ns"] = g.ns;
    json["device"] = g.device;
    json["range"] = g.range;
    json["before"] = g.before;
    json["after"] = g.after;
  }
  put_totals(out, trace);
  return out;
}

}  // namespace

std::string to_json(const TraceFile& file) {
  Json out;
  out["schema"] = schema;
  out["command"] = file.command;
  out["exit_code"] = or_null(file.exit_code);
  out["processes"] = Json::array();
  for (const Trace& trace : file.processes) out["processes"].push_back(trace_json(trace));
  // Names may not be UTF-8: what is not is replaced.
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ac_advisor::trace
