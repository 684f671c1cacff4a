#include "ac_advisor/simulate/clock.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/ir/work.hpp"
#include "collective_time.hpp"
#include "graph_pool.hpp"
#include "host_copies.hpp"
#include "host_time.hpp"
#include "kernel_time.hpp"
#include "model_flops.hpp"
#include "rate_limiter.hpp"

namespace ac_advisor::simulate {
namespace {

using ir::CostClass;
using ir::OpKind;
using ir::Phase;

/// What an op takes of the host and of the device.
struct OpTime {
  double host = 0;
  KernelSeconds device;
  bool measured = false;
  bool runs = false;  ///< the device has something to do
};

std::optional<OpTime> measured_time(const Signature& s, const Device& d) {
  const Series* series = d.measured->find(s);
  if (series == nullptr) return std::nullopt;
  // Where the host runs ahead, what launches nothing costs the device nothing.
  const bool runs = ir::row(s.kind).launches > 0 || !d.cuda;
  const double device = runs ? seconds(*series, s) : 0;
  return OpTime{
      series->issue_seconds * static_cast<double>(std::max<std::size_t>(1, s.pieces.size())),
      {device, device},
      true,
      runs};
}

/// Times of a program's ops. Most blocks are alike: an op that looks like an earlier one of its
/// kind is not looked up again.
class OpTimes {
 public:
  OpTimes(const ir::Program& p, const Device& d, const Run& run)
      : p_(p),
        d_(d),
        issue_(p, d),
        kernels_(p, d, run),
        surroundings_(d.measured ? surroundings(p) : 0) {}

  OpTime operator()(const ir::Op& op) {
    if (d_.measured && !is_collective(op)) {
      Signature s = signature(p_, op);
      if (has_surroundings(s.kind)) s.size[1] = surroundings_;
      if (const auto time = measured(std::move(s))) return *time;
    }
    return {issue_(op), kernels_(op), false, ir::row(op.kind).launches > 0};
  }

 private:
  std::optional<OpTime> measured(Signature s) {
    auto& known = known_[static_cast<std::size_t>(s.kind)];
    for (const auto& [like, time] : known)
      if (like == s) return time;
    const auto time = measured_time(s, d_);
    known.emplace_back(std::move(s), time);
    return time;
  }

  const ir::Program& p_;
  const Device& d_;
  IssueTimes issue_;
  KernelTimes kernels_;
  double surroundings_;
  std::array<std::vector<std::pair<Signature, std::optional<OpTime>>>, ir::op_kind_count> known_;
};

/// What the host issues of a captured step: a launch for each graph, nothing for its ops. What
/// torch.compile does not record it issues op by op.
class GraphLaunches {
 public:
  GraphLaunches(const ir::Program& program, const Device& device, CudaGraph graph)
      : p_(program), device_(device), graph_(graph) {}

  [[nodiscard]] bool of_compiler() const { return !p_.compiled.empty(); }

  double seconds_before(const ir::Op& op, double alone) {
    if (of_compiler() && !is_recorded(p_, op)) return alone;
    const bool same = before_ != nullptr && (graph_ == CudaGraph::step || together(*before_, op));
    before_ = &op;
    return same ? 0.0 : device_.graph_launch_seconds;
  }

 private:
  [[nodiscard]] bool together(const ir::Op& a, const ir::Op& b) const {
    if (!of_compiler()) return passes::same_segment(a, b);
    return (a.phase < Phase::backward) == (b.phase < Phase::backward);
  }

  const ir::Program& p_;
  const Device& device_;
  CudaGraph graph_;
  const ir::Op* before_ = nullptr;
};

/// When collectives run: one after another, so the compute stream meets them in order.
class Collectives {
 public:
  void add(double begin, double end) { running_.push_back({begin, end}); }

  /// When a kernel that starts at `start` is done; what runs beside a collective is slower.
  double finish(double start, const KernelSeconds& kernel) {
    while (next_ < running_.size() && running_[next_].end <= start) ++next_;
    double now = start, left = 1.0;  // share of the kernel's work
    for (std::size_t i = next_; i < running_.size() && left > 0; ++i) {
      const double before = running_[i].begin - now;
      if (before > 0) {
        if (left * kernel.alone <= before) break;
        left -= before / kernel.alone;
        now = running_[i].begin;
      }
      const double during = running_[i].end - now;
      if (left * kernel.beside <= during) return now + left * kernel.beside;
      left -= during / kernel.beside;
      now = running_[i].end;
    }
    return now + std::max(0.0, left) * kernel.alone;
  }

 private:
  struct Interval {
    double begin = 0, end = 0;
  };
  std::vector<Interval> running_;
  std::size_t next_ = 0;
};

struct Clocks {
  double host = 0, compute = 0, communication = 0;
  double gathered = 0;  ///< when the last all-gather's output had been copied out
  KernelSeconds since;  ///< of the kernels after that
};

/// What kernels that ran since `begin` had taken longer, had the collective been known that runs
/// from then until `end`: a forward's all-gather is issued after the block that it runs beside.
double late_contention(const Clocks& t, double begin, double end) {
  const double overlap = std::min(end, t.compute) - begin;
  if (overlap <= 0 || t.since.beside <= 0) return 0;
  return overlap * (1.0 - t.since.alone / t.since.beside);
}

}  // namespace

Run run_of(const StepConfig& config) {
  // The ranks of one stage are neighbours (TorchTitan 0.2.2: pp is the outermost dimension).
  Run run(config.layout.world / config.layout.pp);
  run.shards = config.layout.shard == Sharding::hsdp ? config.layout.hsdp_shards : 0;
  if (config.layout.optimizer_instances > 1) run.shards = config.layout.instance_ranks();
  run.tp = config.layout.tp;
  run.cp = config.layout.cp;
  run.expert_ranks = config.layout.expert_ranks();
  run.node_size = config.layout.node_size;
  run.network = config.layout.network_gbps * 1e9 / 8.0;
  run.attention = config.run.attention;
  return run;
}

double op_seconds(const ir::Program& p, const ir::Op& op, const Device& d, const Run& run) {
  return OpTimes(p, d, run)(op).device.alone;
}

StepTime walk_time(const passes::StepProgram& step, const Device& device, const Run& run,
                   std::int64_t grad_accum, CudaGraph graph) {
  const ir::Program& p = step.program;
  ir::count(ir::Work::walked_ops, p.ops.size());
  GraphLaunches launches(p, device, graph);
  OpTimes times(p, device, run);
  const ModelFlops model_flops(step, device);
  Collectives collectives;
  std::optional<HostCopies> copies;  // from the first one on
  std::optional<ShardCopies> shards;
  RateLimiter limiter;
  std::optional<OptimizerCopies> optimizer;
  StepTime time;
  Clocks t;
  if (graph == CudaGraph::off || launches.of_compiler()) t.host = device.step_seconds;
  std::vector<double> ready(p.storages.size(), 0.0);  // when a collective's buffer is complete
  // A CPU runs what it issues; only where it was measured, since its estimates count on overlap.
  const bool in_order = device.measured && !device.cuda;
  double weight = 1.0;
  const std::vector<passes::Stretch> stretches = passes::stretches_of(step, grad_accum);
  time.by_stretch.resize(stretches.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    for (; next < stretches.size() && static_cast<std::size_t>(stretches[next].begin) == i;
         ++next) {
      weight = static_cast<double>(stretches[next].runs);
      if (optimizer) optimizer->begin_micro_batch();
    }
    if (op.phase == Phase::optimizer) weight = 1.0;
    const double before = t.compute;
    double wait = 0;
    const bool collective = is_collective(op);
    if (!collective)
      for (ir::ValueId v : p.inputs(op))
        wait = std::max(wait, ready[static_cast<std::size_t>(p.storage_of(v))]);
    if (op.phase == Phase::optimizer)
      wait = std::max({wait, t.communication, shards ? shards->left() : 0.0});
    const OpTime cost = times(op);
    if (op.kind == OpKind::send_recv) {  // what it waits for is other ranks: pipeline_time's
      t.host += cost.host;
      continue;
    }
    t.host += graph == CudaGraph::off ? cost.host : launches.seconds_before(op, cost.host);
    if (is_shard_copy(op)) {
      if (!shards) shards.emplace(p, device);
      if (op.kind == OpKind::copy_from_host)
        shards->from_host(op, std::max(t.host, t.gathered));
      else
        shards->to_host(op, std::max(t.host, t.communication));
      // FSDP2: a sum on the host waits for what is added (foreach_reduce, non_blocking).
      if (op.kind == OpKind::copy_to_host && next > 1 && step.flat.empty())
        t.host = std::max(t.host, shards->left());
      continue;
    }
    if (is_optimizer_copy(op)) {
      if (!optimizer) optimizer.emplace(p, device);
      if (op.kind == OpKind::copy_from_host)
        optimizer->from_host(op, t.host);
      else
        optimizer->to_host(op, t.host, t.compute);
      continue;
    }
    if (op.kind == OpKind::copy_to_host) {
      if (!copies) copies.emplace(p, device);
      copies->to_host(op, t.host, t.compute);
      continue;
    }
    if (op.kind == OpKind::copy_from_host) {
      ready[static_cast<std::size_t>(p.storage_of(p.output(op, 0)))] =
          copies->from_host(op, t.host);
      continue;
    }
    if (optimizer && op.kind == OpKind::hold && op.phase == Phase::optimizer)
      wait = std::max(wait, optimizer->end());
    if (copies && op.kind == OpKind::hold) wait = std::max(wait, copies->freed(op));
    if (collective) {
      // An all-gather reads what the optimizer left: it waits for no kernel, but for the copy of
      // the one before it (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, unshard). The
      // others read what the compute stream has just made.
      const bool early = op.kind == OpKind::all_gather && op.phase != Phase::optimizer;
      if (early && of_flat_parameter(p, op)) t.host = limiter.gather(t.host);
      double begin = std::max({t.host, t.communication, early ? t.gathered : t.compute});
      if (shards) begin = std::max(begin, early ? shards->arrived() : shards->left());
      t.communication = begin + cost.device.alone;
      collectives.add(begin, t.communication);
      if (early) {
        const double late = late_contention(t, begin, t.communication);
        t.compute += late;
        time.contention += weight * late;
        time.by_phase[static_cast<std::size_t>(op.phase)] += weight * late;
      }
      const bool exchanged = op.kind == OpKind::ring_exchange;  // what is sent may be read
      for (ir::ValueId v : p.inputs(op))
        if (!exchanged) ready[static_cast<std::size_t>(p.storage_of(v))] = t.communication;
      if (exchanged || makes_new_tensors(op.kind))  // an op that reads what it made waits
        for (ir::ValueId v : p.outputs(op))
          ready[static_cast<std::size_t>(p.storage_of(v))] = t.communication;
      continue;
    }
    if (wait > t.compute) {
      time.communication_exposed += weight * (wait - t.compute);
      t.compute = wait;
    }
    if (cost.runs) {
      if (t.host > t.compute) {
        time.launch_bound += weight * (t.host - t.compute);
        t.compute = t.host;
      }
      const double end = collectives.finish(t.compute, cost.device);
      time.contention += weight * (end - t.compute - cost.device.alone);
      t.compute = end;
      t.since.alone += cost.device.alone;
      t.since.beside += cost.device.beside;
    }
    if (copies && op.kind != OpKind::hold) copies->read(op, t.compute);
    if (op.kind == OpKind::host_read) t.host = std::max(t.host, t.compute);
    if (const double seconds = host_optimizer_seconds(p, op); seconds > 0) {
      if (optimizer) t.host = std::max(t.host, optimizer->next_gradient());
      t.host = t.compute = std::max(t.compute, t.host) + seconds;
    }
    if (op.kind == OpKind::hold && of_flat_parameter(p, op)) limiter.free(t.compute);
    if (op.kind == OpKind::all_gather_copy_out) {
      t.gathered = t.compute;
      t.since = {};
    }
    if (in_order) t.host = t.compute;
    if (!cost.measured) time.unmeasured += weight * (t.compute - before);
    time.by_phase[static_cast<std::size_t>(op.phase)] += weight * (t.compute - before);
    if (next > 0 && op.phase != Phase::optimizer)
      time.by_stretch[next - 1] += weight * (t.compute - before);
    time.at_peak += weight * model_flops.seconds_at_peak(static_cast<ir::OpId>(i));
  }
  for (double seconds : time.by_phase) time.step += seconds;
  return time;
}

}  // namespace ac_advisor::simulate
