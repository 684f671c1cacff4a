// The SQLite export of Nsight Systems, as docs.nvidia.com/nsight-systems describes its schema
// ("SQLite Schema Reference"). Times are nanoseconds since the capture began.
#include "trace/nsys.hpp"

#include <algorithm>
#include <map>

#include "ac_advisor/model/error.hpp"
#include "trace/saturating.hpp"
#include "trace/timeline.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::size_t max_name = 512;
constexpr std::int64_t max_rows = 200'000'000;
// NVTX_EVENTS.eventType
constexpr std::int64_t push_pop = 59, start_end = 60;
// Serialised ids: hardware, virtual machine, process (24 bits), thread (24 bits).
std::int64_t thread_of(std::int64_t global) { return global & 0xFFFFFF; }
std::int64_t process_of(std::int64_t global) { return (global >> 24) & 0xFFFFFF; }

std::int64_t on_clock(std::int64_t time) { return std::clamp(time, -clock_limit, clock_limit); }

/// "SELECT a, b, NULL FROM table": a column that this version lacks is NULL.
std::string select(const std::set<std::string>& have, const std::vector<std::string>& columns,
                   const std::string& table) {
  std::string query = "SELECT ";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    query += i == 0 ? "" : ", ";
    query += have.contains(columns[i]) ? "\"" + columns[i] + "\"" : std::string("NULL");
  }
  return query + " FROM \"" + table + "\"";
}

class Export {
 public:
  Export(const Database& database, const std::string& origin) : db_(database), origin_(origin) {}

  TraceFile read();

 private:
  /// Calls `row` for each row of a table that has all of `required`; false where it has not.
  template <typename Row>
  bool each(const std::string& table, const std::vector<std::string>& required,
            const std::vector<std::string>& optional, const Row& row) {
    const std::set<std::string> have = db_.columns(table);
    for (const std::string& column : required)
      if (!have.contains(column)) return false;
    std::vector<std::string> columns = required;
    columns.insert(columns.end(), optional.begin(), optional.end());
    Rows rows = db_.rows(select(have, columns, table));
    while (rows.next()) {
      if (++rows_ > max_rows) throw UserError(origin_ + ": more rows than any trace has");
      row(rows);
    }
    return true;
  }
  void read_strings();
  void read_threads();
  void read_ranges();
  void read_calls();
  bool read_work();
  void read_devices();
  void read_memory();
  void read_dram();
  [[nodiscard]] std::vector<Device> devices_of(std::int64_t pid) const;
  void put_dram(const Timeline& process, Trace& trace) const;
  [[nodiscard]] const std::string& string(std::int64_t id) const {
    static const std::string none;
    const auto found = strings_.find(id);
    return found == strings_.end() ? none : found->second;
  }
  [[nodiscard]] std::string work_name(const Rows& r, DeviceWork::Kind kind) const;

  const Database& db_;
  std::string origin_;
  std::int64_t rows_ = 0;
  std::map<std::int64_t, std::string> strings_;
  std::map<std::int64_t, Timeline> processes_;
  std::map<std::int64_t, std::int64_t> peak_of_process_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> dram_;    // (gpu, time)
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> gpu_of_;  // (pid, CUDA's number)
  std::vector<Device> devices_;
  std::vector<std::string> notes_;
};

void Export::read_strings() {
  each("StringIds", {"id", "value"}, {}, [&](const Rows& r) {
    strings_.emplace(r.integer(0), std::string(r.text(1).substr(0, max_name)));
  });
}

void Export::read_threads() {
  each("ThreadNames", {"globalTid", "nameId"}, {}, [&](const Rows& r) {
    processes_[process_of(r.integer(0))].thread_names[thread_of(r.integer(0))] =
        string(r.integer(1));
  });
}

void Export::read_ranges() {
  const bool there =
      each("NVTX_EVENTS", {"start", "end", "globalTid"}, {"eventType", "text", "textId"},
           [&](const Rows& r) {
             const std::int64_t type = r.is_null(3) ? push_pop : r.integer(3);
             if (type != push_pop && type != start_end) return;
             const std::int64_t start = on_clock(r.integer(0));
             // A range that was open when the capture ended has no end.
             const std::int64_t end = r.is_null(1) ? clock_limit : on_clock(r.integer(1));
             if (end < start) return;
             Timeline& process = processes_[process_of(r.integer(2))];
             const std::string name =
                 r.is_null(4) ? string(r.integer(5)) : std::string(r.text(4).substr(0, max_name));
             process.interval(
                 start, end, type == start_end ? Timeline::process_thread : thread_of(r.integer(2)),
                 name);
           });
  if (!there) notes_.push_back("ranges: none in this export; profile with --trace=cuda,nvtx");
}

void Export::read_calls() {
  const bool there = each("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "globalTid", "correlationId"},
                          {"nameId"}, [&](const Rows& r) {
                            processes_[process_of(r.integer(1))].call(
                                on_clock(r.integer(0)), thread_of(r.integer(1)),
                                static_cast<std::uint64_t>(r.integer(2)), string(r.integer(3)));
                          });
  if (!there)
    notes_.push_back(
        "launches and ranges of kernels: no CUDA API calls in this export; profile "
        "with --trace=cuda,nvtx");
}

// ENUM_CUDA_MEMCPY_OPER
std::string copy_name(std::int64_t kind) {
  static constexpr const char* names[] = {nullptr, "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                          "AtoD",  "DtoA", "DtoD", "HtoH", "PtoP"};
  const bool known = kind > 0 && kind < static_cast<std::int64_t>(std::size(names));
  return std::string("Memcpy") + (known ? std::string(" ") + names[kind] : "");
}

// Of columns 5 to 7 and 10.
std::string Export::work_name(const Rows& r, DeviceWork::Kind kind) const {
  switch (kind) {
    case DeviceWork::Kind::kernel:
      return string(r.is_null(5) ? r.integer(6) : r.integer(5));
    case DeviceWork::Kind::copy:
      return copy_name(r.integer(10));
    case DeviceWork::Kind::memset:
      return "Memset";
    case DeviceWork::Kind::graph:
      return "[CUDA graph " + std::to_string(r.integer(7)) + "]";
  }
  return {};
}

// With --cuda-graph-trace=graph, the default, what a graph executes is one row of GRAPH_TRACE, and
// in no other table.
bool Export::read_work() {
  struct Table {
    const char* name;
    DeviceWork::Kind kind;
  };
  static constexpr Table tables[] = {
      {"CUPTI_ACTIVITY_KIND_KERNEL", DeviceWork::Kind::kernel},
      {"CUPTI_ACTIVITY_KIND_MEMCPY", DeviceWork::Kind::copy},
      {"CUPTI_ACTIVITY_KIND_MEMSET", DeviceWork::Kind::memset},
      {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", DeviceWork::Kind::graph},
  };
  bool any = false;
  std::int64_t negative = 0;
  for (const Table& table : tables)
    any |= each(table.name, {"start", "end", "deviceId"},
                {"correlationId", "globalPid", "demangledName", "shortName", "graphId",
                 "graphNodeId", "bytes", "copyKind"},
                [&](const Rows& r) {
                  const std::int64_t start = on_clock(r.integer(0)), end = on_clock(r.integer(1));
                  if (end < start) {
                    ++negative;
                    return;
                  }
                  // An old export has no process: what it holds is of one.
                  const bool alone = r.is_null(4) && processes_.size() == 1;
                  const std::int64_t pid =
                      alone ? processes_.begin()->first : process_of(r.integer(4));
                  Timeline& process = processes_[pid];
                  process.work.push_back({start, end, static_cast<std::uint64_t>(r.integer(3)),
                                          r.integer(9), process.names.id(work_name(r, table.kind)),
                                          process.devices.index(r.integer(2)), table.kind,
                                          r.integer(7) > 0 || r.integer(8) > 0});
                });
  if (negative > 0)
    notes_.push_back(std::to_string(negative) + " records of a negative duration were left out");
  return any;
}

void Export::read_devices() {
  each("TARGET_INFO_GPU", {"id", "name"}, {"totalMemory", "memoryBandwidth"}, [&](const Rows& r) {
    devices_.push_back({r.integer(0), std::string(r.text(1).substr(0, max_name)),
                        std::max<std::int64_t>(r.integer(2), 0),
                        std::max<std::int64_t>(r.integer(3), 0)});
  });
}

// Allocations (0) and frees (1) of device memory, by address; kinds 2 and 3 of
// ENUM_CUDA_MEM_KIND are the device's.
void Export::read_memory() {
  struct Live {
    std::map<std::int64_t, std::int64_t> sizes;
    std::int64_t now = 0, peak = 0;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Live> live;  // by process and device
  struct Event {
    std::int64_t time, address, bytes, operation, device, pid;
  };
  std::vector<Event> events;
  const bool there =
      each("CUDA_GPU_MEMORY_USAGE_EVENTS",
           {"start", "address", "bytes", "memoryOperationType", "deviceId"},
           {"memKind", "globalPid"}, [&](const Rows& r) {
             if (!r.is_null(5) && r.integer(5) != 2 && r.integer(5) != 3) return;
             events.push_back({r.integer(0), r.integer(1), std::max<std::int64_t>(r.integer(2), 0),
                               r.integer(3), r.integer(4), process_of(r.integer(6))});
           });
  if (!there) {
    notes_.push_back("device memory: not in this export; profile with --cuda-memory-usage=true");
    return;
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.time < b.time; });
  for (const Event& e : events) {
    Live& l = live[{e.pid, e.device}];
    if (e.operation == 0) {
      if (l.sizes.emplace(e.address, e.bytes).second) add_to(l.now, e.bytes);
      l.peak = std::max(l.peak, l.now);
    } else if (const auto found = l.sizes.find(e.address); found != l.sizes.end()) {
      l.now = std::max<std::int64_t>(l.now - found->second, 0);
      l.sizes.erase(found);
    }
  }
  for (const auto& [key, l] : live) {
    std::int64_t& peak = peak_of_process_[key.first];
    peak = std::max(peak, l.peak);
  }
}

/// Samples of read and write bandwidth, per cent of the peak, by (device, time).
void Export::read_dram() {
  std::set<std::pair<std::int64_t, std::int64_t>> wanted;  // (typeId, metricId)
  each("TARGET_INFO_GPU_METRICS", {"typeId", "metricId", "metricName"}, {}, [&](const Rows& r) {
    const std::string_view name = r.text(2);
    const bool dram = name.starts_with("DRAM Read") || name.starts_with("DRAM Write");
    if (dram && name.find('%') != std::string_view::npos)
      wanted.emplace(r.integer(0), r.integer(1));
  });
  if (!wanted.empty())
    each("GPU_METRICS", {"timestamp", "typeId", "metricId", "value"}, {}, [&](const Rows& r) {
      if (!wanted.contains({r.integer(1), r.integer(2)})) return;
      add_to(dram_[{r.integer(1) & 0xFF, on_clock(r.integer(0))}],
             std::clamp<std::int64_t>(r.integer(3), 0, 100));
    });
  if (dram_.empty())
    notes_.push_back("DRAM traffic: not measured; profile with --gpu-metrics-devices=all");
  each("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"}, {}, [&](const Rows& r) {
    gpu_of_[{r.integer(2), r.integer(1)}] = r.integer(0);
  });
}

/// Under the numbers that CUDA gave them in the process.
std::vector<Device> Export::devices_of(std::int64_t pid) const {
  std::vector<Device> devices;
  for (const auto& [key, gpu] : gpu_of_)
    for (Device device : devices_)
      if (key.first == pid && device.id == gpu) {
        device.id = key.second;
        devices.push_back(device);
      }
  return devices.empty() ? devices_ : devices;
}

/// The mean of the samples taken while a kernel of the phase ran.
void Export::put_dram(const Timeline& process, Trace& trace) const {
  std::array<double, phase_names.size()> sum{};
  std::array<std::int64_t, phase_names.size()> count{};
  for (const Timeline::Stretch& kernel : process.stretches) {
    const auto known = gpu_of_.find({process.pid, kernel.device});
    const std::int64_t gpu = known == gpu_of_.end() ? kernel.device : known->second;
    const auto phase = static_cast<std::size_t>(kernel.phase);
    for (auto sample = dram_.lower_bound({gpu, kernel.start});
         sample != dram_.end() && sample->first.first == gpu && sample->first.second < kernel.end;
         ++sample) {
      sum[phase] += static_cast<double>(std::min<std::int64_t>(sample->second, 100));
      ++count[phase];
    }
  }
  for (std::size_t i = 0; i < sum.size(); ++i)
    if (count[i] > 0) trace.dram_utilisation[i] = sum[i] / static_cast<double>(count[i]) / 100.0;
}

TraceFile Export::read() {
  read_strings();
  read_threads();
  read_ranges();
  read_calls();
  if (!read_work())
    throw UserError(
        origin_ +
        ": no table CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET or _GRAPH_TRACE; is this "
        "an export of Nsight Systems, profiled with --trace=cuda,nvtx?");
  read_devices();
  read_memory();
  read_dram();
  TraceFile file;
  file.origin = origin_;
  for (auto& [pid, process] : processes_) {
    if (process.work.empty()) continue;
    Trace& trace = file.processes.emplace_back();
    trace.source = "nsight-systems";
    trace.devices = devices_of(pid);
    process.pid = pid;
    process.keep_stretches = !dram_.empty();
    process.totals(trace);
    put_dram(process, trace);
    if (const auto peak = peak_of_process_.find(pid); peak != peak_of_process_.end())
      trace.memory.process = peak->second;
    trace.notes.insert(trace.notes.end(), notes_.begin(), notes_.end());
    trace.notes.push_back(
        "memory of PyTorch's caching allocator: not in an export of Nsight "
        "Systems");
  }
  return file;
}

}  // namespace

TraceFile read_nsys(const Database& database, const std::string& origin) {
  return Export(database, origin).read();
}

}  // namespace ac_advisor::trace
