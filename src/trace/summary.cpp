#include "ac_advisor/trace/summary.hpp"

#include <algorithm>
#include <set>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/diagnose.hpp"
#include "trace/kernel_kinds.hpp"

namespace ac_advisor::trace {
namespace {

double seconds(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

void put(Figures& out, const Work& w, double steps) {
  const auto count = [&](std::int64_t n) { return static_cast<double>(n) / steps; };
  const auto time = [&](std::int64_t ns) { return seconds(ns) / steps; };
  out.busy_seconds += time(w.busy_ns);
  out.idle_seconds += time(w.idle_ns);
  out.idle_host_seconds += time(w.idle_host_ns);
  out.idle_kernel_seconds += time(w.idle_kernel_ns);
  out.idle_other_seconds += time(w.idle_other_ns);
  out.launches += count(w.launches);
  out.kernels += count(w.kernels);
  out.graphs += count(w.graphs);
  out.dispatches += count(w.dispatches);
  out.kernel_seconds += time(w.kernel_ns);
  out.captured_seconds += time(w.captured_ns);
  out.memcpy_bytes += count(w.copy_bytes);
  out.memcpy_seconds += time(w.copy_ns);
  out.memset_bytes += count(w.memset_bytes);
  out.memset_seconds += time(w.memset_ns);
  out.long_gaps += count(w.long_gaps);
  out.long_gap_seconds += time(w.long_gap_ns);
}

void put(Figures& out, const Communication& c, double steps) {
  out.communication_seconds += seconds(c.ns) / steps;
  out.exposed_communication_seconds += seconds(c.exposed_ns) / steps;
}

std::vector<SummaryRow> sorted(const std::map<std::string, SummaryRow>& rows) {
  std::vector<SummaryRow> list;
  for (const auto& [name, row] : rows) {
    list.push_back(row);
    if (list.back().name.empty()) list.back().name = name;
  }
  std::stable_sort(list.begin(), list.end(), [](const SummaryRow& a, const SummaryRow& b) {
    if (a.seconds != b.seconds) return a.seconds > b.seconds;
    return a.host_seconds != b.host_seconds ? a.host_seconds > b.host_seconds : a.bytes > b.bytes;
  });
  return list;
}

void put_kernels(Summary& s, const Trace& trace) {
  std::map<std::string, SummaryRow> rows;
  for (const KernelTotal& k : trace.kernels) {
    const char* const kind = kernel_kind_names[static_cast<std::size_t>(kind_of(k.name))];
    SummaryRow& row = rows[k.name];
    row.kind = kind;
    row.count += k.count;
    row.seconds += seconds(k.ns);
    s.seconds_by_kind[kind] += seconds(k.ns);
  }
  s.kernels = sorted(rows);
}

void put_ops(Summary& s, const Trace& trace) {
  std::map<std::string, SummaryRow> rows;
  for (const OpTotal& o : trace.ops) {
    if (o.name.starts_with("autograd::engine::")) continue;  // around the node that it runs
    SummaryRow& row = rows[o.name];
    row.count += o.calls;
    row.seconds += seconds(o.kernel_ns);
    row.host_seconds += seconds(o.host_ns);
  }
  s.ops = sorted(rows);
}

void put_ranges(Summary& s, const Trace& trace) {
  std::map<std::string, SummaryRow> ranges, modules;
  std::map<std::string, std::set<std::string>> instances;
  for (const RangeTotal& r : trace.ranges) {
    if (r.path.empty()) continue;
    const auto add_to = [&](SummaryRow& row) {
      row.count += r.work.kernels + r.work.graphs;
      row.seconds += seconds(r.work.kernel_ns);
    };
    SummaryRow& range = ranges[r.path];
    add_to(range);
    range.host_seconds += seconds(r.host_ns);
    const std::string module = module_of(r.path);
    if (module.empty()) continue;
    const std::string kind = module_kind(module);
    add_to(modules[kind]);
    instances[kind].insert(module);
  }
  for (auto& [kind, row] : modules)
    row.instances = static_cast<std::int64_t>(instances[kind].size());
  s.ranges = sorted(ranges);
  s.modules = sorted(modules);
  std::erase_if(s.modules, [](const SummaryRow& row) { return row.count == 0; });
}

void put_recomputation(Summary& s, const Trace& trace) {
  if (trace.recomputed.empty()) return;
  Recomputation again;
  std::map<std::string, SummaryRow> modules, ops, both;
  std::map<std::string, std::set<std::string>> instances;
  for (const RecomputedTotal& r : trace.recomputed) {
    again.seconds += seconds(r.kernel_ns);
    again.kernels += r.kernels;
    const std::string module = module_of(r.path);
    const std::string kind = module.empty() ? "(no module told)" : module_kind(module);
    const std::string op = r.op.empty() ? "(no op told)" : r.op;
    instances[kind].insert(module);
    SummaryRow& pair = both[kind + '\n' + op];
    pair.name = kind;
    pair.kind = op;
    for (SummaryRow* row : {&modules[kind], &ops[op], &pair}) {
      row->count += r.kernels;
      row->seconds += seconds(r.kernel_ns);
    }
  }
  for (auto& [kind, row] : modules)
    row.instances = static_cast<std::int64_t>(instances[kind].size());
  again.by_module = sorted(modules);
  again.by_op = sorted(ops);
  again.by_module_and_op = sorted(both);
  s.recomputation = std::move(again);
}

void put_copies(Summary& s, const Trace& trace) {
  std::map<std::string, SummaryRow> rows;
  for (const CopyTotal& c : trace.copies) {
    SummaryRow& row = rows[c.name];
    row.count += c.count;
    row.seconds += seconds(c.ns);
    row.bytes += c.bytes;
  }
  s.copies = sorted(rows);
}

/// The window of the steady steps and their number, as `diagnose` chooses them.
void put_steps(Summary& s, const Trace& trace) {
  const Steps& steps = trace.steps;
  s.steps = steps.first + steps.later > 0 ? steps.first + steps.later : steps.optimizer;
  Window window = Window::outside;
  if (steps.first + steps.later > 0)
    window = steps.later > 0 ? Window::later_steps : Window::first_step;
  s.step_count = steps.later > 0 ? steps.later : std::min<std::int64_t>(s.steps, 1);
  if (window == Window::outside) s.step_count = steps.optimizer;
  const double count = static_cast<double>(std::max<std::int64_t>(s.step_count, 1));
  if (s.step_count > 0) s.step.emplace();
  for (const Slice& slice : trace.slices) {
    put(s.whole, slice.work, 1);
    if (slice.window != window) continue;
    if (s.step) put(*s.step, slice.work, count);
    put(s.phases[static_cast<std::size_t>(slice.phase)], slice.work, count);
  }
  for (std::size_t w = 0; w < window_names.size(); ++w) {
    put(s.whole, trace.communication[w], 1);
    if (s.step && w == static_cast<std::size_t>(window))
      put(*s.step, trace.communication[w], count);
  }
}

std::int64_t dispatches(const Trace& trace) {
  std::int64_t total = 0;
  for (const Slice& slice : trace.slices) total += slice.work.dispatches;
  return total;
}

constexpr const char* record_a_gpu =
    "to see a GPU's work, record it: torch.profiler.profile(activities=[ProfilerActivity.CPU, "
    "ProfilerActivity.CUDA]), ac-advisor trace -- CMD, or nsys profile --trace=cuda,nvtx";

}  // namespace

Summary summary_of(const TraceFile& file, const Trace& trace) {
  Summary s;
  s.origin = file.origin;
  s.source = trace.source;
  s.command = file.command;
  if (!trace.devices.empty()) s.device = trace.devices.front().name;
  s.pid = trace.pid;
  s.processes = static_cast<std::int64_t>(file.processes.size());
  s.rank = trace.rank;
  s.world = trace.world;
  s.on_gpu = trace.kernel_count() > 0;
  s.launches_recorded = trace.launches_recorded;
  put_steps(s, trace);
  put_kernels(s, trace);
  put_ops(s, trace);
  put_ranges(s, trace);
  put_recomputation(s, trace);
  put_copies(s, trace);
  s.gaps = trace.gaps;
  s.memory = trace.memory;
  s.notes = trace.notes;
  if (!s.on_gpu)
    s.notes.insert(s.notes.begin(),
                   std::string("no kernel ran on a GPU: only what the CPU dispatched is told; ") +
                       record_a_gpu);
  if (trace.devices.size() > 1)
    s.notes.push_back(std::to_string(trace.devices.size()) + " devices: their times are added up");
  if (trace.dropped_records > 0)
    s.notes.push_back(std::to_string(trace.dropped_records) +
                      " records were dropped by CUPTI: counts and times are too low");
  if (s.on_gpu && s.steps == 0)
    s.notes.push_back(
        "nothing tells the steps: name a range step, or trace with torch.profiler's schedule");
  return s;
}

Summary summary_of(const TraceFile& file) {
  const auto most = std::max_element(
      file.processes.begin(), file.processes.end(),
      [](const Trace& a, const Trace& b) { return dispatches(a) < dispatches(b); });
  const bool kernels = std::any_of(file.processes.begin(), file.processes.end(),
                                   [](const Trace& t) { return t.kernel_count() > 0; });
  if (!kernels && (most == file.processes.end() || dispatches(*most) == 0))
    throw UserError(file.origin + ": neither a kernel of a GPU nor an op of PyTorch is in this " +
                    "trace; " + record_a_gpu);
  return summary_of(file, kernels ? busiest(file) : *most);
}

}  // namespace ac_advisor::trace
