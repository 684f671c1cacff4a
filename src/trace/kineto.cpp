// Chrome trace events as Kineto writes them (libkineto/src/output_json.cpp): times in microseconds
// with a fraction, categories in lower case (torch 1.8 and 1.9: capitalised, threads as texts).
#include "trace/kineto.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "ac_advisor/model/error.hpp"
#include "trace/kineto_event.hpp"
#include "trace/saturating.hpp"
#include "trace/timeline.hpp"

namespace ac_advisor::trace {
namespace {

using Token = JsonScanner::Token;

constexpr std::size_t max_name = 512;
/// Where the work of the devices waits until its process is known.
constexpr std::int64_t device_work = std::numeric_limits<std::int64_t>::min();

enum class Category { range, op, call, kernel, copy, memset, python, none };
Category category_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Category> names[] = {
      {"cpu_op", Category::op},         {"user_annotation", Category::range},
      {"Operator", Category::op},       {"python_function", Category::python},
      {"cuda_runtime", Category::call}, {"cuda_driver", Category::call},
      {"Runtime", Category::call},      {"xpu_runtime", Category::call},
      {"kernel", Category::kernel},     {"Kernel", Category::kernel},
      {"gpu_memcpy", Category::copy},   {"Memcpy", Category::copy},
      {"gpu_memset", Category::memset}, {"Memset", Category::memset}};
  for (const auto& [known, category] : names)
    if (name == known) return category;
  return Category::none;
}

/// Annotations of PyTorch's own that older versions file among the ops.
bool is_annotation(std::string_view name) {
  return name.starts_with("ProfilerStep") || name.starts_with("Optimizer.") ||
         name.starts_with("enumerate(DataLoader)");
}

/// What was left out, by why.
struct LeftOut {
  std::int64_t without_time = 0, negative = 0;
};

/// Takes the events one at a time, while the text is being read.
class Events {
 public:
  explicit Events(JsonScanner& json) : json_(json) {}

  /// The whole document; false where it has no list of events.
  bool read();

  std::unordered_map<std::int64_t, Timeline> processes;
  std::vector<Device> devices;
  MemoryPeaks memory;
  std::optional<std::int64_t> rank, world;
  LeftOut left_out;

 private:
  void read_list();
  void read_devices();
  void read_distributed();
  void take();
  void take_work(DeviceWork::Kind kind, std::int64_t start, std::int64_t end);
  Timeline& process() {
    if (last_ == nullptr || last_pid_ != *event_.pid) {
      last_ = &processes[*event_.pid];
      last_pid_ = *event_.pid;
    }
    return *last_;
  }

  JsonScanner& json_;
  KinetoEvent event_;
  Timeline* last_ = nullptr;
  std::int64_t last_pid_ = 0;
};

bool Events::read() {
  const Token first = json_.next();
  if (first == Token::array) {
    read_list();
    static_cast<void>(json_.next());
    return true;
  }
  if (first != Token::object) return false;
  bool any = false;
  while (json_.next() == Token::key) {
    const std::string key(json_.text());
    if (key == "traceEvents") {
      const Token value = json_.next();
      if (value == Token::object) json_.leave();
      if (value != Token::array) continue;
      read_list();
      any = true;
    } else if (key == "deviceProperties") {
      read_devices();
    } else if (key == "distributedInfo") {
      read_distributed();
    } else {
      json_.skip_value();
    }
  }
  static_cast<void>(json_.next());
  return any;
}

void Events::read_list() {
  for (Token token = json_.next(); token != Token::array_end && token != Token::end;
       token = json_.next()) {
    if (token == Token::object) {
      read_event(json_, event_);
      take();
    } else if (token == Token::array) {
      json_.leave();
    }
  }
}

void Events::read_devices() {
  if (const Token token = json_.next(); token != Token::array) {
    if (token == Token::object) json_.leave();
    return;
  }
  for (Token token = json_.next(); token != Token::array_end && token != Token::end;
       token = json_.next()) {
    if (token == Token::array) json_.leave();
    if (token != Token::object) continue;
    Device& device = devices.emplace_back();
    while (json_.next() == Token::key) {
      const std::string key(json_.text());
      if (key != "name" && key != "id" && key != "totalGlobalMem") {
        json_.skip_value();
        continue;
      }
      const Token value = json_.next();
      if (value == Token::object || value == Token::array) json_.leave();
      if (value == Token::text && key == "name") device.name = json_.text().substr(0, max_name);
      if (value != Token::number) continue;
      const std::int64_t number = std::max<std::int64_t>(scaled(json_.text(), 0).value_or(0), 0);
      if (key == "id") device.id = number;
      if (key == "totalGlobalMem") device.memory_bytes = number;
    }
  }
}

void Events::read_distributed() {
  if (const Token token = json_.next(); token != Token::object) {
    if (token == Token::array) json_.leave();
    return;
  }
  while (json_.next() == Token::key) {
    const std::string key(json_.text());
    if (key != "rank" && key != "world_size") {
      json_.skip_value();
      continue;
    }
    const Token value = json_.next();
    if (value == Token::object || value == Token::array) json_.leave();
    if (value == Token::number) (key == "rank" ? rank : world) = scaled(json_.text(), 0);
  }
}

void raise(std::optional<std::int64_t>& peak, const std::optional<std::int64_t>& value) {
  if (value && *value >= 0 && (!peak || *value > *peak)) peak = value;
}

void Events::take() {
  KinetoEvent& e = event_;
  if (e.phase == "M" && e.name == "thread_name" && e.pid && e.tid) {
    process().thread_names[*e.tid] = e.thread_name;
    return;
  }
  if (e.phase == "i" && e.name == "[memory]" && e.device_type == 1) {
    raise(memory.allocated, e.allocated);
    raise(memory.reserved, e.reserved);
    return;
  }
  if (e.phase != "X") return;
  Category category = category_of(e.category);
  // torch before 1.8: no categories, but processes of these names; the work is named after its op.
  if (e.category.empty() && e.pid_text == "CUDA functions") category = Category::kernel;
  if (e.category.empty() && e.pid_text == "CPU functions") category = Category::op;
  if (category == Category::none) return;
  const bool module = category == Category::python && e.name.starts_with(module_prefix);
  if (category == Category::python && !module) return;
  if (!e.start || !e.pid || !e.tid) {
    ++left_out.without_time;
    return;
  }
  const std::int64_t duration = e.duration.value_or(0);
  if (duration < 0) {
    ++left_out.negative;
    return;
  }
  const std::int64_t start = *e.start, end = std::min(start + duration, clock_limit);
  switch (category) {
    case Category::kernel:
      return take_work(DeviceWork::Kind::kernel, start, end);
    case Category::copy:
      return take_work(DeviceWork::Kind::copy, start, end);
    case Category::memset:
      return take_work(DeviceWork::Kind::memset, start, end);
    case Category::call:
      if (e.correlation)
        process().call(start, *e.tid, static_cast<std::uint64_t>(*e.correlation), e.name);
      return;
    case Category::op:
    case Category::python:
    case Category::range: {
      // A gradient node's own range has the number of its forward op and that one's thread.
      const bool recorded = e.sequence && *e.sequence >= 0 && e.forward_thread.value_or(0) == 0;
      const bool op = category == Category::op && !is_annotation(e.name);
      process().interval(start, end, *e.tid, e.name, op, op && recorded, e.sequence);
      return;
    }
    case Category::none:
      return;
  }
}

// Its pid is the device's number: which process it is of is told by the launch, afterwards.
void Events::take_work(DeviceWork::Kind kind, std::int64_t start, std::int64_t end) {
  Timeline& all = processes[device_work];
  const std::int64_t device =
      event_.device.value_or(event_.pid_text.empty() ? *event_.pid : std::int64_t{0});
  all.work.push_back({start, end, static_cast<std::uint64_t>(event_.correlation.value_or(0)),
                      event_.bytes.value_or(0), all.names.id(event_.name),
                      all.devices.index(device), kind, event_.graph.value_or(0) > 0});
}

/// A file is of one process: the one that called the CUDA API, or else ran most ops.
Timeline one_process(std::unordered_map<std::int64_t, Timeline>& processes) {
  Timeline device = std::move(processes[device_work]);
  processes.erase(device_work);
  auto host = processes.end();
  const auto more = [](const auto& a, const auto& b) {
    const std::pair of_a{a.second.calls.size(), a.second.intervals.size()};
    const std::pair of_b{b.second.calls.size(), b.second.intervals.size()};
    return of_a != of_b ? of_a > of_b : a.first < b.first;
  };
  for (auto it = processes.begin(); it != processes.end(); ++it)
    if (host == processes.end() || more(*it, *host)) host = it;
  Timeline whole;
  if (host != processes.end()) {
    whole = std::move(host->second);
    whole.pid = host->first;
  }
  for (Timeline::Work& work : device.work) work.name = whole.names.id(device.names[work.name]);
  whole.work = std::move(device.work);
  whole.devices = std::move(device.devices);
  return whole;
}

void explain(Trace& trace, const LeftOut& left_out, std::int64_t repairs) {
  const auto note = [&](std::string text) { trace.notes.push_back(std::move(text)); };
  note("DRAM traffic: not measured; a Kineto trace has no DRAM counters");
  if (!trace.memory.allocated) note("peak memory: not measured; trace with profile_memory=True");
  note("device memory outside PyTorch's allocator: not in a Kineto trace");
  if (left_out.without_time > 0)
    note(std::to_string(left_out.without_time) +
         " events without a time, process or thread were left out");
  if (left_out.negative > 0)
    note(std::to_string(left_out.negative) + " events of a negative duration were left out");
  if (repairs > 0)
    note("the file is not valid JSON in " + std::to_string(repairs) +
         " places (unescaped bytes, NaN, stray commas); they were read as they were meant");
}

}  // namespace

TraceFile read_kineto(files::ByteSource& source, const std::string& origin) {
  JsonScanner json(source, origin);
  Events events(json);
  if (!events.read())
    throw UserError(origin +
                    ": \"traceEvents\" is missing; give what torch.profiler's "
                    "export_chrome_trace or ac-advisor trace wrote");
  Timeline timeline = one_process(events.processes);
  TraceFile file;
  file.origin = origin;
  Trace& trace = file.processes.emplace_back();
  trace.source = "kineto";
  trace.devices = std::move(events.devices);
  trace.memory = events.memory;
  trace.rank = events.rank;
  trace.world = events.world;
  timeline.totals(trace);
  explain(trace, events.left_out, json.repairs());
  return file;
}

}  // namespace ac_advisor::trace
