// A trace that `to_json` wrote, read back.
#include "ac_advisor/model/error.hpp"
#include "json/node.hpp"
#include "trace/json_fields.hpp"

namespace ac_advisor::trace {
namespace {

using json::Json;
using json::Node;

Window window_of(const Node& r) { return static_cast<Window>(r.at("window").one_of(window_names)); }
Phase phase_of(const Node& r) { return static_cast<Phase>(r.at("phase").one_of(phase_names)); }

template <typename Each>
void each(const Node& list, const Each& read) {
  for (const Node& item : list.list()) read(item);
}

Work read_work(const Node& r) {
  Work work;
  for (const WorkField& field : work_fields)
    if (r.has(field.key)) work.*field.member = r.at(field.key).amount();
  return work;
}

/// What files of the first versions have not.
void read_totals(const Node& r, Trace& trace) {
  if (r.has("copies"))
    each(r.at("copies"), [&](const Node& c) {
      trace.copies.push_back({c.at("name").text(), window_of(c), c.at("count").amount(),
                              c.at("ns").amount(), c.at("bytes").amount()});
    });
  if (r.has("communication"))
    for (std::size_t w = 0; w < window_names.size(); ++w) {
      const Node c = r.at("communication").at(window_names[w]);
      trace.communication[w] = {c.at("kernels").amount(), c.at("ns").amount(),
                                c.at("exposed_ns").amount()};
    }
  if (r.has("ops"))
    each(r.at("ops"), [&](const Node& o) {
      trace.ops.push_back({o.at("name").text(), window_of(o), phase_of(o), o.at("calls").amount(),
                           o.at("host_ns").amount(), o.at("kernels").amount(),
                           o.at("kernel_ns").amount()});
    });
  if (r.has("recomputed"))
    each(r.at("recomputed"), [&](const Node& again) {
      trace.recomputed.push_back({again.at("path").text(), again.at("op").text(), window_of(again),
                                  again.at("kernels").amount(), again.at("kernel_ns").amount()});
    });
  if (r.has("rank") && !r.at("rank").is_null()) trace.rank = r.at("rank").integer();
  if (r.has("world") && !r.at("world").is_null()) trace.world = r.at("world").integer();
  if (r.has("launches_recorded")) trace.launches_recorded = r.at("launches_recorded").truth();
  if (r.has("unlinked_work")) trace.unlinked_work = r.at("unlinked_work").amount();
}

Trace read_trace(const Node& r) {
  Trace trace;
  trace.source = r.at("source").text();
  trace.pid = r.at("pid").integer();
  trace.process = r.at("process").text();
  each(r.at("devices"), [&](const Node& d) {
    trace.devices.push_back({d.at("id").integer(), d.at("name").text(),
                             d.at("memory_bytes").amount(),
                             d.at("bandwidth_bytes_per_second").amount()});
  });
  for (const StepField& field : step_fields)
    trace.steps.*field.member = r.at("steps").at(field.key).amount();
  for (const AttributionField& field : attribution_fields)
    trace.attribution.*field.member = r.at("kernels_attributed_by").at(field.key).amount();
  for (const PeakField& field : peak_fields)
    if (const Node peak = r.at("peak_memory").at(field.key); !peak.is_null())
      trace.memory.*field.member = peak.amount();
  for (std::size_t i = 0; i < phase_names.size(); ++i)
    if (const Node share = r.at("dram_utilisation").at(phase_names[i]); !share.is_null())
      trace.dram_utilisation[i] = share.number(0, 1);
  trace.dropped_records = r.at("dropped_records").amount();
  each(r.at("notes"), [&](const Node& note) { trace.notes.push_back(note.text()); });
  each(r.at("work"), [&](const Node& s) {
    trace.slices.push_back({window_of(s), phase_of(s), read_work(s)});
  });
  each(r.at("kernels"), [&](const Node& k) {
    trace.kernels.push_back({k.at("name").text(), window_of(k), phase_of(k), k.at("count").amount(),
                             k.at("ns").amount(), k.at("longest_ns").amount(),
                             k.at("captured").amount()});
  });
  each(r.at("ranges"), [&](const Node& range) {
    trace.ranges.push_back({range.at("path").text(), window_of(range), phase_of(range),
                            range.at("entered").amount(), range.at("host_ns").amount(),
                            read_work(range)});
  });
  each(r.at("longest_gaps"), [&](const Node& g) {
    trace.gaps.push_back({g.at("start_ns").integer(), g.at("ns").amount(), g.at("device").integer(),
                          window_of(g), phase_of(g), g.at("range").text(), g.at("before").text(),
                          g.at("after").text()});
  });
  read_totals(r, trace);
  return trace;
}

}  // namespace

TraceFile from_json(const std::string& text, const std::string& origin) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) throw UserError(origin + ": not JSON, or cut off");
  const Node r(root, origin, {}, "; is this a trace that ac-advisor wrote?");
  if (!r.has("schema") || r.at("schema").text() != schema)
    throw UserError(origin + ": \"schema\" must be \"" + schema + "\"");
  TraceFile file;
  file.origin = origin;
  file.command = r.at("command").text();
  if (const Node code = r.at("exit_code"); !code.is_null()) file.exit_code = code.integer();
  each(r.at("processes"), [&](const Node& p) { file.processes.push_back(read_trace(p)); });
  return file;
}

}  // namespace ac_advisor::trace
