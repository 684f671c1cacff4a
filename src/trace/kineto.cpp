// Chrome trace events as Kineto writes them (libkineto/src/output_json.cpp): times in microseconds
// with a fraction, categories in lower case (older ones capitalised).
#include "trace/kineto.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "trace/saturating.hpp"
#include "trace/timeline.hpp"

namespace ac_advisor::trace {
namespace {

constexpr std::size_t max_name = 512;
/// Where the work of the devices waits until its process is known; no pid is negative.
constexpr std::int64_t device_work = -1;

/// A JSON number in the units of `decimals` places after its point, exactly: microseconds since
/// 1970 with a fraction do not fit a double.
std::optional<std::int64_t> scaled(std::string_view text, std::size_t decimals) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.find_first_of("eE") != std::string_view::npos) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    value *= std::pow(10.0, static_cast<double>(decimals));
    if (error != std::errc() || end != text.data() + text.size() ||
        !(value <= static_cast<double>(clock_limit)))
      return std::nullopt;
    return static_cast<std::int64_t>(negative ? -value : value);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  const std::string_view fraction = text.substr(std::min(point + 1, text.size()));
  for (std::size_t i = 0; i < decimals; ++i) digits += i < fraction.size() ? fraction[i] : '0';
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value > clock_limit)
    return std::nullopt;
  return negative ? -value : value;
}

/// What of one event is looked at.
struct Event {
  std::string phase, category, name, thread_name;
  std::optional<std::int64_t> pid, tid, start, duration;
  std::optional<std::int64_t> correlation, device, bytes, graph, sequence, forward_thread;
  std::optional<std::int64_t> allocated, reserved, device_type;
};

struct NumberField {
  std::string_view key;
  std::optional<std::int64_t> Event::*member;
  std::size_t decimals;
};
constexpr NumberField event_numbers[] = {
    {"pid", &Event::pid, 0},
    {"tid", &Event::tid, 0},
    {"ts", &Event::start, 3},
    {"dur", &Event::duration, 3},
};
constexpr NumberField argument_numbers[] = {
    {"correlation", &Event::correlation, 0},
    {"device", &Event::device, 0},
    {"bytes", &Event::bytes, 0},
    {"Bytes", &Event::bytes, 0},
    {"graph id", &Event::graph, 0},
    {"Sequence number", &Event::sequence, 0},
    {"Fwd thread id", &Event::forward_thread, 0},
    {"Total Allocated", &Event::allocated, 0},
    {"Total Reserved", &Event::reserved, 0},
    {"Device Type", &Event::device_type, 0},
};

enum class Category { range, op, call, kernel, copy, memset, none };
Category category_of(const std::string& name) {
  static constexpr std::pair<std::string_view, Category> names[] = {
      {"user_annotation", Category::range}, {"cpu_op", Category::op},
      {"Operator", Category::op},           {"cuda_runtime", Category::call},
      {"cuda_driver", Category::call},      {"Runtime", Category::call},
      {"kernel", Category::kernel},         {"Kernel", Category::kernel},
      {"gpu_memcpy", Category::copy},       {"Memcpy", Category::copy},
      {"gpu_memset", Category::memset},     {"Memset", Category::memset}};
  for (const auto& [known, category] : names)
    if (name == known) return category;
  return Category::none;
}

/// Takes the events one at a time, while the text is being parsed.
class Events : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool has_events = false;
  std::optional<std::size_t> error_at;
  bool too_deep = false;
  std::map<std::int64_t, Timeline> processes;
  std::vector<Device> devices;
  MemoryPeaks memory;
  std::int64_t without_time = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t value) override { return number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return number(text); }
  bool string(string_t& text) override {
    if (inside() == Role::event) {
      if (key_ == "ph") event_.phase = text.substr(0, 8);
      if (key_ == "cat") event_.category = text.substr(0, 64);
      if (key_ == "name") event_.name = text.substr(0, max_name);
    }
    if (inside() == Role::arguments && key_ == "name") event_.thread_name = text.substr(0, 64);
    if (inside() == Role::device && key_ == "name") devices.back().name = text.substr(0, max_name);
    return true;
  }
  bool key(string_t& text) override {
    key_ = text.substr(0, 64);
    return true;
  }
  bool start_object(std::size_t) override { return open(object_role()); }
  bool start_array(std::size_t) override { return open(list_role()); }
  bool end_object() override {
    if (inside() == Role::event) take();
    inside_.pop_back();
    return true;
  }
  bool end_array() override {
    inside_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    error_at = position;
    return false;
  }

 private:
  enum class Role : std::uint8_t { none, top, events, event, arguments, devices, device, other };

  [[nodiscard]] Role inside() const { return inside_.empty() ? Role::none : inside_.back(); }
  [[nodiscard]] Role list_role() const {
    const bool top = inside() == Role::top;
    if (inside() == Role::none || (top && key_ == "traceEvents")) return Role::events;
    return top && key_ == "deviceProperties" ? Role::devices : Role::other;
  }
  [[nodiscard]] Role object_role() const {
    switch (inside()) {
      case Role::none:
        return Role::top;
      case Role::events:
        return Role::event;
      case Role::devices:
        return Role::device;
      case Role::event:
        return key_ == "args" ? Role::arguments : Role::other;
      default:
        return Role::other;
    }
  }
  bool open(Role role) {
    if (role == Role::events) has_events = true;
    if (role == Role::event) event_ = {};
    if (role == Role::device) devices.emplace_back();
    inside_.push_back(role);
    too_deep = inside_.size() > 256;
    return !too_deep;
  }
  bool number(std::string_view text) {
    if (inside() == Role::event) set(event_numbers, text);
    if (inside() == Role::arguments) set(argument_numbers, text);
    if (inside() == Role::device && key_ == "id") devices.back().id = scaled(text, 0).value_or(0);
    if (inside() == Role::device && key_ == "totalGlobalMem")
      devices.back().memory_bytes = std::max<std::int64_t>(scaled(text, 0).value_or(0), 0);
    return true;
  }
  template <std::size_t N>
  void set(const NumberField (&fields)[N], std::string_view text) {
    for (const NumberField& field : fields)
      if (key_ == field.key) event_.*field.member = scaled(text, field.decimals);
  }

  void take();
  void take_work(DeviceWork::Kind kind, std::int64_t start, std::int64_t end);

  std::vector<Role> inside_;
  std::string key_;
  Event event_;
};

void raise(std::optional<std::int64_t>& peak, const std::optional<std::int64_t>& value) {
  if (value && *value >= 0 && (!peak || *value > *peak)) peak = value;
}

void Events::take() {
  const Event& e = event_;
  if (e.phase == "M" && e.name == "thread_name" && e.pid && e.tid) {
    processes[*e.pid].thread_names[*e.tid] = e.thread_name;
    return;
  }
  if (e.phase == "i" && e.name == "[memory]" && e.device_type == 1) {
    raise(memory.allocated, e.allocated);
    raise(memory.reserved, e.reserved);
    return;
  }
  const Category category = e.phase == "X" ? category_of(e.category) : Category::none;
  if (category == Category::none) return;
  const std::int64_t duration = e.duration.value_or(0);
  if (!e.start || duration < 0 || !e.pid || !e.tid) {
    ++without_time;
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
        processes[*e.pid].calls.push_back({start, *e.tid,
                                           static_cast<std::uint64_t>(*e.correlation),
                                           is_launch(e.name), is_graph_launch(e.name)});
      return;
    case Category::op:
    case Category::range: {
      // A gradient node's own range has the number of its forward op and that one's thread.
      const bool recorded = e.sequence && *e.sequence >= 0 && e.forward_thread.value_or(0) == 0;
      Timeline& process = processes[*e.pid];
      process.intervals.push_back(
          {start, end, *e.tid, process.names.id(e.name), category == Category::op, recorded});
      return;
    }
    case Category::none:
      return;
  }
}

// Its pid is the device's number: which process it is of is told by the launch, afterwards.
void Events::take_work(DeviceWork::Kind kind, std::int64_t start, std::int64_t end) {
  Timeline& all = processes[device_work];
  all.work.push_back({kind, all.names.id(event_.name), start, end, event_.device.value_or(0),
                      static_cast<std::uint64_t>(event_.correlation.value_or(0)),
                      event_.bytes.value_or(0), event_.graph.value_or(0) > 0});
}

/// A file is of one process: the one that called the CUDA API, or else ran most ops.
Timeline one_process(std::map<std::int64_t, Timeline>& processes) {
  Timeline device = std::move(processes[device_work]);
  processes.erase(device_work);
  auto host = processes.end();
  const auto size = [](const Timeline& t) { return std::pair{t.calls.size(), t.intervals.size()}; };
  for (auto it = processes.begin(); it != processes.end(); ++it)
    if (host == processes.end() || size(it->second) > size(host->second)) host = it;
  Timeline whole;
  if (host != processes.end()) {
    whole = std::move(host->second);
    whole.pid = host->first;
  }
  for (Timeline::Work& work : device.work) {
    work.name = whole.names.id(device.names[work.name]);
    whole.work.push_back(work);
  }
  return whole;
}

void explain(Trace& trace, std::int64_t without_time) {
  trace.notes.push_back("DRAM traffic: not measured; a Kineto trace has no DRAM counters");
  if (!trace.memory.allocated)
    trace.notes.push_back("peak memory: not measured; trace with profile_memory=True");
  trace.notes.push_back("device memory outside PyTorch's allocator: not in a Kineto trace");
  if (without_time > 0)
    trace.notes.push_back(std::to_string(without_time) +
                          " events without a time, process or thread were left out");
}

}  // namespace

TraceFile read_kineto(std::istream& stream, const std::string& origin) {
  Events events;
  const bool whole = nlohmann::json::sax_parse(stream, &events);
  if (events.too_deep) throw UserError(origin + ": nested deeper than any trace of torch.profiler");
  if (!whole)
    throw UserError(origin + ": not whole JSON: it ends or breaks at byte " +
                    std::to_string(events.error_at.value_or(0)) +
                    "; was the program stopped while it wrote the trace?");
  if (!events.has_events)
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
  timeline.totals(trace);
  explain(trace, events.without_time);
  return file;
}

}  // namespace ac_advisor::trace
