#include "ac_advisor/trace/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/trace/summary.hpp"
#include "trace/kernel_kinds.hpp"
#include "trace/overhead.hpp"

namespace ac_advisor::trace {
namespace {

constexpr auto forward = static_cast<std::size_t>(Phase::forward);
constexpr auto backward = static_cast<std::size_t>(Phase::backward);
constexpr auto recompute = static_cast<std::size_t>(Phase::recompute);

using Verdict = Finding::Verdict;

const char* const tell_phases =
    "trace with torch.profiler, or put NVTX ranges named step, forward, backward and recompute "
    "around the phases (torch.cuda.nvtx.range_push), or trace under "
    "torch.autograd.profiler.emit_nvtx()";

bool has_phase(const Side& side, std::size_t phase) {
  return side.kernels[phase] + side.graphs[phase] > 0;
}

/// The phase that stands for the recomputation: itself, or what it runs in, or everything.
struct Scope {
  std::optional<std::size_t> phase;
  std::string name;
};
Scope scope_of(const Side& b) {
  if (has_phase(b, recompute)) return {recompute, "the recomputation"};
  if (has_phase(b, backward)) return {backward, "the backward, with the recomputation in it"};
  return {std::nullopt, "the whole step: nothing tells its phases"};
}

bool within(const Scope& scope, Phase phase) {
  return !scope.phase || *scope.phase == static_cast<std::size_t>(phase);
}

Work work_in(const Trace& trace, const Side& side, const Scope& scope) {
  Work total;
  for (const Slice& slice : trace.slices)
    if (slice.window == side.window && within(scope, slice.phase)) add(total, slice.work);
  return total;
}

double sum(const std::array<double, phase_names.size()>& by_phase) {
  double total = 0;
  for (const double value : by_phase) total += value;
  return total;
}

Finding launch_ratio(const Side& a, const Side& b) {
  Finding f;
  f.name = "launch ratio";
  f.limit = launch_ratio_limit;
  f.unit = "x";
  const Side& reference = has_phase(b, forward) ? b : a;
  if (!has_phase(reference, forward)) {
    f.how = "not measured: no range and no thread's name tells the forward's kernels";
    f.advice = tell_phases;
    return f;
  }
  if (reference.graphs[forward] + b.graphs[recompute] > 0 ||
      (!has_phase(b, recompute) && sum(a.graphs) + sum(b.graphs) > 0)) {
    f.how =
        "not measured: CUDA graphs were recorded as a whole, so that their kernels are not counted";
    f.advice = "profile with nsys --cuda-graph-trace=node";
    return f;
  }
  const double base = reference.kernels[forward];
  double again = b.kernels[recompute];
  f.estimate = !has_phase(b, recompute);
  if (f.estimate) {
    if (!a.steps_known || !b.steps_known) {
      f.how =
          "not measured: nothing tells the recomputation's kernels, and the traces do not tell "
          "their steps, so that B's kernels cannot be compared with A's";
      f.advice = tell_phases;
      return f;
    }
    again = std::max(sum(b.kernels) - sum(a.kernels), 0.0);
  }
  f.value = again / base;
  f.verdict = *f.value > f.limit ? Verdict::flagged : Verdict::fine;
  f.how = fmt::format("{:.0f} kernels {}, {:.0f} in the forward, a step", again,
                      f.estimate ? "more in B than in A" : "in the recomputation", base);
  if (f.verdict == Verdict::flagged)
    f.advice =
        "the recomputation launches more kernels than the forward: it runs unfused what the "
        "forward fuses. Compile inside the checkpoint (checkpoint(torch.compile(block))), and see "
        "that the same kernels (Liger, Transformer Engine) run in both";
  return f;
}

std::optional<double> peak_bandwidth(const Trace& trace) {
  if (trace.devices.empty()) return std::nullopt;
  if (const auto name = known_device(trace.devices.front().name))
    return simulate::find_device(*name).bandwidth;
  const std::int64_t told = trace.devices.front().bandwidth_bytes_per_second;
  return told > 0 ? std::optional<double>(static_cast<double>(told)) : std::nullopt;
}

std::string why_no_counters(const Trace& trace) {
  for (const std::string& note : trace.notes)
    if (note.starts_with("DRAM traffic: ")) return note.substr(14);
  return "not measured: this trace has no DRAM counters";
}

Finding recompute_bandwidth(const Trace& b_trace, const Side& b,
                            const std::optional<Prediction>& predicted) {
  Finding f;
  f.name = "bandwidth utilisation in recomputation";
  f.limit = 100 * bandwidth_limit;
  f.unit = "%";
  const std::optional<double> peak = peak_bandwidth(b_trace);
  if (b_trace.dram_utilisation[recompute]) {
    f.value = 100 * *b_trace.dram_utilisation[recompute];
    f.how = "DRAM reads and writes sampled while the recomputation's kernels ran";
  } else if (predicted && b.kernel_seconds[recompute] > 0 && peak && b.steps_known) {
    f.value = 100 * predicted->recompute_bytes / b.kernel_seconds[recompute] / *peak;
    f.estimate = true;
    f.how = fmt::format(
        "estimated: {:.3g} GB that {} predicts, over {:.3g} ms of measured kernel "
        "time, of {:.0f} GB/s",
        1e-9 * predicted->recompute_bytes, predicted->origin, 1e3 * b.kernel_seconds[recompute],
        1e-9 * *peak);
  } else {
    f.how = why_no_counters(b_trace);
    f.advice =
        "measure with nsys profile --gpu-metrics-devices=all --trace=cuda,nvtx, then nsys export "
        "--type sqlite (ac-advisor doctor says whether counters are permitted); or estimate with "
        "--plan FILE, the JSON of ac-advisor plan for this step";
    return f;
  }
  f.verdict = *f.value > f.limit ? Verdict::flagged : Verdict::fine;
  if (f.verdict == Verdict::flagged)
    f.advice =
        "the recomputation is bound by memory, not by arithmetic: it competes with the gradients "
        "for bandwidth. Recompute fewer bytes: fused kernels, or --ac selective that recomputes "
        "only what is cheap to move";
  return f;
}

Finding gaps(const Trace& a_trace, const Side& a, const Trace& b_trace, const Side& b) {
  Finding f;
  f.name = "longest gap between kernels";
  f.limit = 1e-3 * static_cast<double>(long_gap_ns);
  f.unit = "us";
  const Scope scope = scope_of(b);
  const Work work = work_in(b_trace, b, scope);
  f.value = 1e-3 * static_cast<double>(work.longest_gap_ns);
  f.verdict = *f.value > f.limit ? Verdict::flagged : Verdict::fine;
  const auto per_step = [](std::int64_t total, const Side& side) {
    return static_cast<double>(total) / static_cast<double>(side.steps);
  };
  f.how = fmt::format("{}: {:.3g} gaps over {:.0f} us, {:.3g} ms in all", scope.name,
                      per_step(work.long_gaps, b), f.limit, 1e-6 * per_step(work.long_gap_ns, b));
  const Work before = work_in(a_trace, a, {});
  f.how += fmt::format(" (A, whole step: {:.3g} gaps)", per_step(before.long_gaps, a));
  for (const Gap& gap : b_trace.gaps)
    if (gap.window == b.window && within(scope, gap.phase)) {
      f.how += fmt::format("; the longest is before {}", gap.after.substr(0, 60));
      break;
    }
  const double captured = work.kernel_ns > 0 ? static_cast<double>(work.captured_ns) /
                                                   static_cast<double>(work.kernel_ns)
                                             : 0;
  if (f.verdict == Verdict::flagged && captured > 0.5)
    f.advice = fmt::format(
        "the device waits for the host between CUDA graphs ({:.0f} % of the kernel time is in "
        "them): make the graphs larger, or look for what synchronises between them (.item(), "
        "print, copies to the host)",
        100 * captured);
  else if (f.verdict == Verdict::flagged)
    f.advice =
        "the device waits for the host: a captured graph has no such gaps, so capture fails or is "
        "not used. Look for synchronisation (.item(), print, RNG state that "
        "preserve_rng_state=True copies), graph breaks (TORCH_LOGS=graph_breaks) and allocator "
        "retries; capture the block, or issue less from Python";
  return f;
}

Finding fused_share(const Trace& b_trace, const Side& b) {
  Finding f;
  f.name = "time inside fused or captured kernels";
  f.limit = 100 * fused_share_limit;
  f.flagged_below = true;
  f.unit = "%";
  const Scope scope = scope_of(b);
  double total = 0, captured = 0, fused = 0, library = 0, unknown = 0;
  for (const KernelTotal& kernel : b_trace.kernels) {
    const KernelKind kind = kind_of(kernel.name);
    if (kernel.window != b.window || !within(scope, kernel.phase) ||
        kind == KernelKind::communication)
      continue;
    const auto time = static_cast<double>(kernel.ns);
    const double inside = kernel.count > 0 ? time * static_cast<double>(kernel.captured) /
                                                 static_cast<double>(kernel.count)
                                           : 0;
    if (kind == KernelKind::unknown) {  // in a graph or not is known all the same
      unknown += time - inside;
      total += inside;
    } else {
      total += time;
    }
    captured += inside;
    if (is_arithmetic(kind)) library += time - inside;
    if (kind == KernelKind::fused) fused += time - inside;
  }
  if (!(total + unknown > 0)) {
    f.how = "not measured: no kernel ran in " + scope.name;
    f.advice = tell_phases;
    return f;
  }
  if (unknown > total) {
    f.how = fmt::format("not measured: {:.0f} % of the kernel time is in kernels of unknown names",
                        100 * unknown / (total + unknown));
    return f;
  }
  f.value = 100 * (captured + fused + library) / total;
  f.verdict = *f.value < f.limit ? Verdict::flagged : Verdict::fine;
  f.how = fmt::format(
      "{}: {:.1f} % in CUDA graphs, {:.1f} % in fused kernels, {:.1f} % in matrix products and "
      "attention; the rest in single element-wise kernels, by their names",
      scope.name, 100 * captured / total, 100 * fused / total, 100 * library / total);
  if (unknown > 0)
    f.how += fmt::format("; {:.3g} ms per step in kernels of unknown names are left out",
                         1e-6 * unknown / static_cast<double>(b.steps));
  if (f.verdict == Verdict::flagged)
    f.advice =
        "fuse the element-wise kernels (torch.compile inside the checkpoint, Liger, Transformer "
        "Engine), or capture the blocks in CUDA graphs";
  return f;
}

/// The kinds of modules and the ops that B computes again.
std::vector<Hotspot> hotspots(const Trace& trace, const Side& b) {
  std::vector<Hotspot> list;
  for (const RecomputedTotal& r : trace.recomputed) {
    if (r.window != b.window) continue;
    const std::string module = module_kind(module_of(r.path));
    const auto known = std::find_if(list.begin(), list.end(), [&](const Hotspot& h) {
      return h.module == module && h.op == r.op;
    });
    Hotspot& spot = known == list.end() ? list.emplace_back(Hotspot{module, r.op}) : *known;
    spot.kernels += static_cast<double>(r.kernels) / static_cast<double>(b.steps);
    spot.seconds += 1e-9 * static_cast<double>(r.kernel_ns) / static_cast<double>(b.steps);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Hotspot& a, const Hotspot& z) { return a.seconds > z.seconds; });
  return list;
}

/// What was measured beside what was predicted.
void compare(Diagnosis& d, const Prediction& p) {
  d.prediction = p.origin + " (" + p.basis + ")";
  if (!d.a.steps_known || !d.b.steps_known) {
    d.notes.push_back(
        "the prediction is of a step, and a trace does not tell its steps: they are not compared");
    return;
  }
  if (p.step_seconds > 0) d.compared.push_back({"B's step", d.b.seconds, p.step_seconds});
  if (has_phase(d.b, recompute) && p.recompute_seconds > 0)
    d.compared.push_back(
        {"kernels of the recomputation", d.b.kernel_seconds[recompute], p.recompute_seconds});
  // Without A's plan, recomputing is all that checkpointing is predicted to cost.
  const double overhead = p.overhead_seconds.value_or(p.recompute_seconds);
  if (overhead > 0 || p.overhead_seconds)
    d.compared.push_back({p.overhead_seconds ? "overhead" : "overhead, against recomputation alone",
                          d.overhead_seconds, overhead});
}

/// What the readers noted, each once.
void reader_notes(Diagnosis& d, const Trace& a, const Trace& b) {
  const auto has = [](const Trace& trace, const std::string& note) {
    return std::find(trace.notes.begin(), trace.notes.end(), note) != trace.notes.end();
  };
  for (const std::string& note : a.notes)
    d.notes.push_back((has(b, note) ? "A and B: " : "A: ") + note);
  for (const std::string& note : b.notes)
    if (!has(a, note)) d.notes.push_back("B: " + note);
}

void note(Diagnosis& d, const Trace& trace, const Side& side, const char* which) {
  if (side.processes > 1)
    d.notes.push_back(
        fmt::format("{}: {} processes; the one with most kernel time (pid {}) is told "
                    "of",
                    which, side.processes, trace.pid));
  if (!side.steps_known)
    d.notes.push_back(
        fmt::format("{}: nothing tells the steps, so figures are of the whole trace; "
                    "name a range step, or trace with torch.profiler's schedule",
                    which));
  if (side.window == Window::first_step)
    d.notes.push_back(fmt::format("{}: one step only, which may include warming up", which));
  if (trace.devices.size() > 1)
    d.notes.push_back(
        fmt::format("{}: {} devices; their work is added up", which, trace.devices.size()));
  if (trace.dropped_records > 0)
    d.notes.push_back(
        fmt::format("{}: {} records were dropped by CUPTI: counts and times are too "
                    "low",
                    which, trace.dropped_records));
}

}  // namespace

Diagnosis diagnose(const TraceFile& a_file, const TraceFile& b_file,
                   const std::optional<Prediction>& predicted) {
  const Trace &a = busiest(a_file), &b = busiest(b_file);
  Diagnosis d;
  d.a = summarize(a_file);
  d.b = summarize(b_file);
  d.findings = {launch_ratio(d.a, d.b), recompute_bandwidth(b, d.b, predicted),
                gaps(a, d.a, b, d.b), fused_share(b, d.b)};
  d.overhead_seconds = d.b.seconds - d.a.seconds;
  d.overhead = split_overhead(a, d.a, b, d.b);
  d.hotspots = hotspots(b, d.b);
  if (predicted) compare(d, *predicted);
  note(d, a, d.a, "A");
  note(d, b, d.b, "B");
  if (d.a.source != d.b.source)
    d.notes.push_back("A and B come from different profilers: their overheads differ");
  if (d.a.device != d.b.device)
    d.notes.push_back(fmt::format("A ran on {}, B on {}", d.a.device, d.b.device));
  if (d.a.steps_known != d.b.steps_known)
    d.notes.push_back(
        "only one trace tells its steps: the overhead below compares a step with a "
        "whole trace and means nothing");
  if (d.overhead_seconds < 0)
    d.notes.push_back("B's step is shorter than A's: is A the trace without checkpointing?");
  if (has_phase(d.a, recompute))
    d.notes.push_back("A has recomputation: it should be the trace without checkpointing");
  reader_notes(d, a, b);
  return d;
}

}  // namespace ac_advisor::trace
