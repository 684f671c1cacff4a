// Trace to JSON and back. Times are integers in nanoseconds, sizes in bytes.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/trace.hpp"
#include "trace/saturating.hpp"

namespace ac_advisor::trace {
namespace {

using Json = nlohmann::ordered_json;

struct WorkField {
  const char* key;
  std::int64_t Work::*member;
};
constexpr WorkField work_fields[] = {
    {"launches", &Work::launches},
    {"kernels", &Work::kernels},
    {"kernel_ns", &Work::kernel_ns},
    {"captured_kernels", &Work::captured_kernels},
    {"captured_ns", &Work::captured_ns},
    {"copies", &Work::copies},
    {"copy_ns", &Work::copy_ns},
    {"copy_bytes", &Work::copy_bytes},
    {"memsets", &Work::memsets},
    {"memset_ns", &Work::memset_ns},
    {"memset_bytes", &Work::memset_bytes},
    {"busy_ns", &Work::busy_ns},
    {"idle_ns", &Work::idle_ns},
    {"long_gaps", &Work::long_gaps},
    {"long_gap_ns", &Work::long_gap_ns},
    {"longest_gap_ns", &Work::longest_gap_ns},
    {"graphs", &Work::graphs},
    {"idle_host_ns", &Work::idle_host_ns},
    {"dispatches", &Work::dispatches},
    {"idle_kernel_ns", &Work::idle_kernel_ns},
    {"idle_other_ns", &Work::idle_other_ns},
};

struct StepField {
  const char* key;
  std::int64_t Steps::*member;
};
constexpr StepField step_fields[] = {
    {"first", &Steps::first},         {"first_host_ns", &Steps::first_host_ns},
    {"later", &Steps::later},         {"later_host_ns", &Steps::later_host_ns},
    {"optimizer", &Steps::optimizer},
};

struct AttributionField {
  const char* key;
  std::int64_t Attribution::*member;
};
constexpr AttributionField attribution_fields[] = {
    {"own_range", &Attribution::own_range},
    {"range_of_main_thread", &Attribution::other_thread},
    {"thread_name", &Attribution::thread_name},
    {"none", &Attribution::none},
};

struct PeakField {
  const char* key;
  std::optional<std::int64_t> MemoryPeaks::*member;
};
constexpr PeakField peak_fields[] = {
    {"allocated_bytes", &MemoryPeaks::allocated},
    {"reserved_bytes", &MemoryPeaks::reserved},
    {"process_bytes", &MemoryPeaks::process},
    {"device_used_bytes", &MemoryPeaks::device_used},
};

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

/// Typed access that names the path of what is wrong.
class Reader {
 public:
  Reader(const Json& node, std::string place) : node_(node), place_(std::move(place)) {}

  [[nodiscard]] bool has(const char* key) const { return node_.is_object() && node_.contains(key); }
  [[nodiscard]] Reader at(const std::string& key) const {
    if (!node_.is_object()) fail("must be an object");
    const auto found = node_.find(key);
    if (found == node_.end()) fail("lacks \"" + key + "\"; is this a trace that ac-advisor wrote?");
    return {*found, place_ + "." + key};
  }
  template <typename Each>
  void each(const Each& read) const {
    if (!node_.is_array()) fail("must be a list");
    for (std::size_t i = 0; i < node_.size(); ++i)
      read(Reader(node_[i], place_ + "[" + std::to_string(i) + "]"));
  }
  [[nodiscard]] std::int64_t integer() const {
    if (!node_.is_number_integer()) fail("must be an integer");
    if (node_.is_number_unsigned() && node_.get<std::uint64_t>() > max_value)
      fail("is beyond any measurement");
    const auto value = node_.get<std::int64_t>();
    if (value < -static_cast<std::int64_t>(max_value)) fail("is beyond any measurement");
    return value;
  }
  /// A count, a size or a duration.
  [[nodiscard]] std::int64_t amount() const {
    const std::int64_t value = integer();
    if (value < 0) fail("must not be negative");
    return value;
  }
  [[nodiscard]] bool truth() const {
    if (!node_.is_boolean()) fail("must be true or false");
    return node_.get<bool>();
  }
  [[nodiscard]] std::string text() const {
    if (!node_.is_string()) fail("must be a string");
    return node_.get<std::string>();
  }
  [[nodiscard]] double share() const {
    if (!node_.is_number()) fail("must be a number");
    const auto value = node_.get<double>();
    if (!(value >= 0 && value <= 1)) fail("must be from 0 to 1");
    return value;
  }
  [[nodiscard]] bool is_null() const { return node_.is_null(); }
  template <std::size_t N>
  [[nodiscard]] std::size_t one_of(const std::array<const char*, N>& names) const {
    const std::string name = text();
    for (std::size_t i = 0; i < N; ++i)
      if (name == names[i]) return i;
    fail("is not a name that is known here");
  }

 private:
  static constexpr std::uint64_t max_value = std::uint64_t{1} << 61;
  [[noreturn]] void fail(const std::string& what) const { throw UserError(place_ + " " + what); }

  const Json& node_;
  std::string place_;
};

Window window_of(const Reader& r) {
  return static_cast<Window>(r.at("window").one_of(window_names));
}
Phase phase_of(const Reader& r) { return static_cast<Phase>(r.at("phase").one_of(phase_names)); }

Work read_work(const Reader& r) {
  Work work;
  for (const WorkField& field : work_fields)
    if (r.has(field.key)) work.*field.member = r.at(field.key).amount();
  return work;
}

/// What files of the first versions have not.
void read_totals(const Reader& r, Trace& trace) {
  if (r.has("copies"))
    r.at("copies").each([&](const Reader& c) {
      trace.copies.push_back({c.at("name").text(), window_of(c), c.at("count").amount(),
                              c.at("ns").amount(), c.at("bytes").amount()});
    });
  if (r.has("communication"))
    for (std::size_t w = 0; w < window_names.size(); ++w) {
      const Reader c = r.at("communication").at(window_names[w]);
      trace.communication[w] = {c.at("kernels").amount(), c.at("ns").amount(),
                                c.at("exposed_ns").amount()};
    }
  if (r.has("ops"))
    r.at("ops").each([&](const Reader& o) {
      trace.ops.push_back({o.at("name").text(), window_of(o), phase_of(o), o.at("calls").amount(),
                           o.at("host_ns").amount(), o.at("kernels").amount(),
                           o.at("kernel_ns").amount()});
    });
  if (r.has("recomputed"))
    r.at("recomputed").each([&](const Reader& again) {
      trace.recomputed.push_back({again.at("path").text(), again.at("op").text(), window_of(again),
                                  again.at("kernels").amount(), again.at("kernel_ns").amount()});
    });
  if (r.has("rank") && !r.at("rank").is_null()) trace.rank = r.at("rank").integer();
  if (r.has("world") && !r.at("world").is_null()) trace.world = r.at("world").integer();
  if (r.has("launches_recorded")) trace.launches_recorded = r.at("launches_recorded").truth();
  if (r.has("unlinked_work")) trace.unlinked_work = r.at("unlinked_work").amount();
}

Trace read_trace(const Reader& r) {
  Trace trace;
  trace.source = r.at("source").text();
  trace.pid = r.at("pid").integer();
  trace.process = r.at("process").text();
  r.at("devices").each([&](const Reader& d) {
    trace.devices.push_back({d.at("id").integer(), d.at("name").text(),
                             d.at("memory_bytes").amount(),
                             d.at("bandwidth_bytes_per_second").amount()});
  });
  for (const StepField& field : step_fields)
    trace.steps.*field.member = r.at("steps").at(field.key).amount();
  for (const AttributionField& field : attribution_fields)
    trace.attribution.*field.member = r.at("kernels_attributed_by").at(field.key).amount();
  for (const PeakField& field : peak_fields)
    if (const Reader peak = r.at("peak_memory").at(field.key); !peak.is_null())
      trace.memory.*field.member = peak.amount();
  for (std::size_t i = 0; i < phase_names.size(); ++i)
    if (const Reader share = r.at("dram_utilisation").at(phase_names[i]); !share.is_null())
      trace.dram_utilisation[i] = share.share();
  trace.dropped_records = r.at("dropped_records").amount();
  r.at("notes").each([&](const Reader& note) { trace.notes.push_back(note.text()); });
  r.at("work").each([&](const Reader& s) {
    trace.slices.push_back({window_of(s), phase_of(s), read_work(s)});
  });
  r.at("kernels").each([&](const Reader& k) {
    trace.kernels.push_back({k.at("name").text(), window_of(k), phase_of(k), k.at("count").amount(),
                             k.at("ns").amount(), k.at("longest_ns").amount(),
                             k.at("captured").amount()});
  });
  r.at("ranges").each([&](const Reader& range) {
    trace.ranges.push_back({range.at("path").text(), window_of(range), phase_of(range),
                            range.at("entered").amount(), range.at("host_ns").amount(),
                            read_work(range)});
  });
  r.at("longest_gaps").each([&](const Reader& g) {
    trace.gaps.push_back({g.at("start_ns").integer(), g.at("ns").amount(), g.at("device").integer(),
                          window_of(g), phase_of(g), g.at("range").text(), g.at("before").text(),
                          g.at("after").text()});
  });
  read_totals(r, trace);
  return trace;
}

}  // namespace

std::int64_t Trace::kernel_count() const {
  Work total;
  for (const Slice& slice : slices) add(total, slice.work);
  add_to(total.kernels, total.graphs);
  return total.kernels;
}

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

TraceFile from_json(const std::string& text, const std::string& origin) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) throw UserError(origin + ": not JSON, or cut off");
  const Reader r(root, origin + ":");
  if (!r.has("schema") || r.at("schema").text() != schema)
    throw UserError(origin + ": \"schema\" must be \"" + schema + "\"");
  TraceFile file;
  file.origin = origin;
  file.command = r.at("command").text();
  if (const Reader code = r.at("exit_code"); !code.is_null()) file.exit_code = code.integer();
  r.at("processes").each([&](const Reader& p) { file.processes.push_back(read_trace(p)); });
  return file;
}

const Trace& busiest(const TraceFile& file) {
  const auto kernel_ns = [](const Trace& trace) {
    Work total;
    for (const Slice& slice : trace.slices) add(total, slice.work);
    return total.kernel_ns;
  };
  const auto most =
      std::max_element(file.processes.begin(), file.processes.end(),
                       [&](const Trace& a, const Trace& b) { return kernel_ns(a) < kernel_ns(b); });
  if (most == file.processes.end() || most->kernel_count() == 0)
    throw UserError(
        file.origin +
        ": no kernel ran on a GPU in this trace; record one of a GPU: torch.profiler.profile("
        "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), ac-advisor trace -- CMD, or "
        "nsys profile --trace=cuda,nvtx");
  return *most;
}

}  // namespace ac_advisor::trace
