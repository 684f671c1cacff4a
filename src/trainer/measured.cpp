#include "trainer/measured.hpp"

#include <algorithm>
#include <cmath>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "ac_advisor/version.hpp"
#include "advise/storage_category.hpp"
#include "advise/timeline.hpp"

namespace ac_advisor::trainer {
namespace {

/// What was live at the peak, from a step that stops to look there.
void look_at_peak(Rank& rank, profile::Memory& m, ir::OpId peak_op) {
  const Built& built = rank.built();
  const ir::Program& p = built.step.program;
  const auto categories = advise::storage_categories(built.step, built.schedule);
  std::int64_t largest_sum = 0;
  const auto snapshot = [&] {
    std::int64_t sum = 0;
    rank.tracker().each_live([&](std::int64_t bytes, ir::StorageId) { sum += bytes; });
    if (sum <= largest_sum) return;
    largest_sum = sum;
    m.at_peak.fill(0);
    m.at_peak_by_module.clear();
    std::vector<std::pair<std::int64_t, ir::StorageId>> tensors;
    rank.tracker().each_live([&](std::int64_t bytes, ir::StorageId s) {
      const auto category =
          s == ir::no_id ? profile::Category::workspace : categories[static_cast<std::size_t>(s)];
      m.at_peak[static_cast<std::size_t>(category)] += bytes;
      m.at_peak_by_module[s == ir::no_id ? "workspace" : advise::top_module(p.storage(s).module)] +=
          bytes;
      if (s != ir::no_id) tensors.emplace_back(bytes, s);
    });
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    m.largest.clear();
    for (std::size_t i = 0; i < std::min<std::size_t>(10, tensors.size()); ++i) {
      const auto [bytes, s] = tensors[i];
      const auto value = std::find_if(p.values.begin(), p.values.end(),
                                      [s = s](const ir::Value& v) { return v.storage == s; });
      m.largest.push_back(
          {to_string(p.storage(s).module),
           value->producer == ir::no_id ? "" : ir::row(p.op(value->producer).kind).name,
           ir::to_string(value->shape), to_option(value->dtype),
           categories[static_cast<std::size_t>(s)], bytes});
    }
  };
  rank.tracker().set_watch(peak_op, snapshot);
  static_cast<void>(rank.step());
  rank.tracker().set_watch(ir::no_id, nullptr);
}

void note_peaks(Rank& rank, profile::Memory& m) {
  const MemoryTracker& tracker = rank.tracker();
  const ir::Program& p = rank.built().step.program;
  const MemoryTracker::Peak peak = tracker.peak();
  m.peak_allocated = peak.bytes;
  m.peak_excluding_workspace = tracker.declared_peak().bytes;
  m.host_pinned = rank.executor().host().peak();
  m.peak_by_phase = tracker.peak_by_phase();
  m.peak_by_phase_excluding_workspace = tracker.declared_peak_by_phase();
  for (auto* phases : {&m.peak_by_phase, &m.peak_by_phase_excluding_workspace})
    (*phases)[2] = std::max((*phases)[2], (*phases)[3]);  // recomputation is inside backward
  m.peak_step = peak.op;
  m.peak_phase = profile::phase_names[0];
  if (peak.op != ir::no_id) {
    const ir::Op& op = p.op(peak.op);
    m.peak_phase = profile::phase_names[static_cast<std::size_t>(op.phase)];
    m.peak_op = ir::row(op.kind).name;
    m.peak_module = to_string(op.module);
  }
  if (const auto memory = rank.backend().memory()) m.peak_reserved = memory->peak_reserved;
}

void describe_cpu(profile::Profile& result) {
  result.absent = {
      {"memory.peak_reserved_bytes", "a CPU has no caching allocator"},
      {"kernels.dispatches", "the trainer calls kernels, it dispatches nothing"},
      {"kernels.flops", "not counted: a CPU run has no hardware counters here"},
      {"kernels.bytes", "not counted: a CPU run has no hardware counters here"},
      {"time.launch_bound_seconds", "a CPU runs what it issues"},
      {"time.communication_exposed_seconds", "not told apart from the phase that waits"},
      {"time.mfu", "the peak FLOP/s of this CPU is not known"},
      {"instruments", "a CPU run is neither traced nor counted"},
      {"fit", "the machine's memory is not the device's"}};
  result.assumptions.push_back(
      "times are wall-clock seconds of the fastest step but the first, "
      "on a machine that others may have used");
  if (result.config.precision.compute_dtype == DType::bf16)
    result.assumptions.push_back(
        "in bf16 oneDNN's scratch inside LibTorch's allocator is part of the workspace, what it "
        "allocates elsewhere is not counted");
}

void describe_gpu(profile::Profile& result, const Built& built, const Backend& backend) {
  const StepConfig& c = built.config;
  const simulate::Device& planned = simulate::find_device(c.device.gpu);
  result.absent = {
      {"kernels.launches", "not traced: measure with --trace"},
      {"kernels.dispatches", "the trainer calls kernels, it dispatches nothing"},
      {"kernels.flops", "not counted"},
      {"kernels.bytes", "not counted: measure with --counters"},
      {"time.launch_bound_seconds", "not traced: measure with --trace"},
      {"time.communication_exposed_seconds", "not told apart from the phase that waits"},
      {"fit", "it has fitted: what it reserved is memory.peak_reserved_bytes"}};
  if (c.runtime.cuda_graph != CudaGraph::off)
    for (const char* path : {"time.by_phase_seconds", "time.recompute_seconds"})
      result.absent[path] = "a captured step has no events between its phases";
  const simulate::StepTime predicted =
      simulate::walk_time(built.step, planned, simulate::run_of(c), c.run.grad_accum);
  result.time.mfu = predicted.at_peak / result.time.step;
  result.assumptions.push_back(
      "times are wall-clock seconds from the first issue to the last kernel's end, of the fastest "
      "step but the first two; phases by CUDA events");
  result.assumptions.push_back("mfu is of the peak FLOP/s in the device file of " + planned.name);
  const double memory = static_cast<double>(backend.memory()->total),
               usable = static_cast<double>(planned.usable_bytes);
  if (backend.multiprocessors() != planned.sm_count || std::abs(memory - usable) > 0.1 * usable)
    result.warnings.push_back("planned for " + planned.title + ", ran on " + result.device_name +
                              ": give the --gpu that it is");
}

}  // namespace

Live live_now(Rank& rank) {
  const Built& built = rank.built();
  const auto categories = advise::storage_categories(built.step, built.schedule);
  Live live;
  rank.tracker().each_live([&](std::int64_t bytes, ir::StorageId s) {
    const bool scratch = s == ir::no_id;
    live.bytes += bytes;
    live.by_category[scratch ? "workspace"
                             : profile::to_string(categories[static_cast<std::size_t>(s)])] +=
        bytes;
    live.by_module[scratch ? "workspace"
                           : advise::top_module(built.step.program.storage(s).module)] += bytes;
  });
  return live;
}

Observed observe(Rank& rank, std::int64_t steps,
                 const std::function<bool(std::int64_t, const Rank::Result&)>& after_step,
                 const std::function<void(std::int64_t)>& before_step,
                 const std::function<void()>& trained) {
  Observed observed;
  MemoryTracker& tracker = rank.tracker();
  const ir::Program& p = rank.built().step.program;
  profile::Memory& m = observed.memory;
  const bool device = tracker.counts_by_device();
  const std::int64_t sampled = device ? std::min<std::int64_t>(1, steps - 1) : steps - 1;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t number = rank.steps_done();
    before_step(number);
    tracker.set_sampling(i == sampled);
    const Rank::Result result = rank.step();
    observed.losses.push_back(result.loss);
    if (!device || i != sampled || steps < 3) observed.timings.push_back(result.timing);
    if (i == 0) observed.first_step_peak = tracker.peak().bytes;
    if (i == sampled) note_peaks(rank, m);
    tracker.set_sampling(false);
    if (!after_step(number, result)) return observed;
  }
  trained();
  m.first_step_peak = observed.first_step_peak;
  // One more step for the timeline, one to look at the peak: neither is timed, nor in a graph.
  rank.executor().set_capture(CudaGraph::off);
  tracker.set_sampling(true);
  std::vector<std::int64_t> live(p.ops.size(), 0);
  rank.executor().set_observer(
      [&](ir::OpId op) { live[static_cast<std::size_t>(op)] = tracker.live(); });
  static_cast<void>(rank.step());
  rank.executor().set_observer(nullptr);
  m.timeline = advise::thin_timeline(p, live);
  look_at_peak(rank, m, static_cast<ir::OpId>(m.peak_step));
  tracker.set_sampling(false);
  rank.executor().drop_survivors();
  m.resident = tracker.live();
  return observed;
}

void describe_emulated(profile::Profile& result) {
  const std::string computes_nothing = "an emulated device computes nothing";
  result.source = "emulated";
  result.numerics.reset();
  for (auto it = result.absent.begin(); it != result.absent.end();)
    it = it->first.starts_with("time.") ? result.absent.erase(it) : std::next(it);
  result.absent["time"] = computes_nothing;
  result.absent["numerics"] = computes_nothing;
  result.absent["kernels.bytes"] = computes_nothing;
  if (result.config.runtime.cuda_graph == CudaGraph::off)
    result.absent.erase("kernels.launches");
  else
    result.absent["kernels.launches"] = "a captured step is one launch";
  result.time = {};
  result.assumptions = {
      "allocated and reserved are LibTorch's own counts, launches the emulated device's (kernels, "
      "memory sets, copies within it)"};
}

profile::Profile measured_profile(const Built& built, const Observed& observed,
                                  const Backend& backend) {
  profile::Profile result;
  result.source = "measured";
  result.tool_version = version;
  result.model = built.spec;
  result.parameters = model::parameter_count(built.spec);
  result.config = built.config;
  result.device_name = backend.name();
  result.memory = observed.memory;
  // The first step warms caches up; of the others the fastest is disturbed the least.
  const auto first = observed.timings.begin() + (observed.timings.size() > 1 ? 1 : 0);
  const StepTiming& timing = *std::min_element(
      first, observed.timings.end(),
      [](const StepTiming& a, const StepTiming& b) { return a.seconds < b.seconds; });
  const StepConfig& c = built.config;
  result.time.step = timing.seconds;
  result.time.by_phase = timing.by_phase;
  result.time.recompute = timing.by_phase[static_cast<std::size_t>(ir::Phase::recompute)];
  result.time.tokens_per_second =
      static_cast<double>(c.run.batch * c.run.seq * c.run.grad_accum * c.layout.data_ranks()) /
      timing.seconds;
  result.time.basis = profile::TimeBasis::measured;
  result.kernels.launches = timing.launches;
  result.numerics.emplace();
  result.numerics->losses = observed.losses;
  if (backend.memory())
    describe_gpu(result, built, backend);
  else
    describe_cpu(result);
  return result;
}

}  // namespace ac_advisor::trainer
