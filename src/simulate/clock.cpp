#include "ac_advisor/simulate/clock.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::simulate {
namespace {

using ir::CostClass;
using ir::OpKind;
using ir::Phase;

/// Share of the peak that a matrix product reaches: the last wave of output tiles leaves
/// multiprocessors idle, and a tile's prologue and epilogue cost as much as `k_half` steps of K
/// (NVIDIA, Matrix Multiplication Background User's Guide).
double matmul_efficiency(const ir::Program& p, const ir::Op& op, const Device& d) {
  const ir::Shape out = p.value(p.output(op, 0)).shape;
  const double k = ir::inner_dimension(op), depth = k / (k + d.matmul_k_half);
  if (out.rank() < 2 || d.sm_count <= 0) return d.matmul_asymptote * depth;
  const double columns = static_cast<double>(out.back());
  const double rows = static_cast<double>(out.numel()) / std::max(columns, 1.0);
  const double tiles = std::ceil(rows / d.matmul_tile_m) * std::ceil(columns / d.matmul_tile_n);
  const double sms = static_cast<double>(d.sm_count);
  return d.matmul_asymptote * depth * tiles / (std::ceil(tiles / sms) * sms);
}

double bandwidth_share(const Device& d, CostClass cost) {
  switch (cost) {
    case CostClass::reduction:
      return d.reduction_bandwidth;
    case CostClass::embedding:
      return d.embedding_bandwidth;
    default:
      return d.pointwise_bandwidth;
  }
}

/// Seconds for the host to issue an op: Python's modules in forward and recomputation, the C++
/// engine in backward, a Python autograd.Function around each fused kernel.
double issue_seconds(const ir::Op& op, const Device& d) {
  switch (op.kind) {
    case OpKind::rms_norm:
    case OpKind::add_rms_norm:
    case OpKind::rope:
    case OpKind::swiglu:
    case OpKind::linear_cross_entropy:
    case OpKind::rms_norm_backward:
    case OpKind::add_rms_norm_backward:
    case OpKind::rope_backward:
    case OpKind::swiglu_backward:
    case OpKind::linear_cross_entropy_backward:
      return d.fused_op_seconds;
    default:
      break;
  }
  const double one = op.phase == Phase::backward ? d.backward_op_seconds : d.forward_op_seconds;
  return one * ir::dispatches(op);
}

bool is_collective(const ir::Op& op) { return ir::row(op.kind).cost == CostClass::collective; }

/// Ring algorithms: all-gather and reduce-scatter move (W - 1) / W of the whole buffer through each
/// rank's link, all-reduce twice that (NVIDIA nccl-tests, doc/PERFORMANCE.md).
double collective_seconds(const ir::Program& p, const ir::Op& op, const Device& d,
                          std::int64_t world) {
  double bytes = 0;
  for (ir::ValueId v : p.inputs(op)) bytes = std::max(bytes, static_cast<double>(p.bytes(v)));
  const double w = static_cast<double>(world);
  const double share = (w - 1.0) / w * (op.kind == OpKind::all_reduce ? 2.0 : 1.0);
  return d.collective_latency + bytes * share / (d.link_bandwidth * d.collective_bandwidth);
}

double roofline_seconds(const ir::Program& p, const ir::Op& op, const Device& d,
                        std::int64_t world) {
  const ir::OpRow& row = ir::row(op.kind);
  if (row.launches == 0) return 0;
  const double floor = d.kernel_floor_seconds * row.launches;
  if (is_collective(op)) return std::max(floor, collective_seconds(p, op, d, world));
  const double traffic = ir::traffic_bytes(p, op) / (d.bandwidth * bandwidth_share(d, row.cost));
  double compute = 0;
  if (row.cost == CostClass::matmul || row.cost == CostClass::attention) {
    // The first operand may be an fp32 gradient of a scalar; the second is a matrix in every kind.
    const bool half = p.value(p.input(op, 1)).dtype == DType::bf16;
    double rate = half ? d.bf16_flops : d.fp32_flops;
    if (row.cost == CostClass::matmul)
      rate *= matmul_efficiency(p, op, d);
    else
      rate *= op.kind == OpKind::sdpa ? d.attention_forward : d.attention_backward;
    compute = ir::flops(p, op) / rate;
  }
  return std::max({floor, compute, traffic});
}

/// What an op takes of the host and of the device.
struct OpTime {
  double host = 0, device = 0;
  bool measured = false;
  bool runs = false;  ///< the device has something to do
};

std::optional<OpTime> measured_time(const Signature& s, const Device& d) {
  const Series* series = d.measured->find(s);
  if (series == nullptr) return std::nullopt;
  // Where the host runs ahead, what launches nothing costs the device nothing.
  const bool runs = ir::row(s.kind).launches > 0 || !d.cuda;
  return OpTime{
      series->issue_seconds * static_cast<double>(std::max<std::size_t>(1, s.pieces.size())),
      runs ? seconds(*series, s) : 0, true, runs};
}

/// Times of a program's ops. Most blocks are alike: an op that looks like an earlier one of its
/// kind is not looked up again.
class OpTimes {
 public:
  OpTimes(const ir::Program& p, const Device& d, std::int64_t world)
      : p_(p), d_(d), world_(world), surroundings_(d.measured ? surroundings(p) : 0) {}

  OpTime operator()(const ir::Op& op) {
    if (d_.measured && !is_collective(op)) {
      Signature s = signature(p_, op);
      if (has_surroundings(s.kind)) s.size[1] = surroundings_;
      if (const auto time = measured(std::move(s))) return *time;
    }
    return {issue_seconds(op, d_), roofline_seconds(p_, op, d_, world_), false,
            ir::row(op.kind).launches > 0};
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
  std::int64_t world_;
  double surroundings_;
  std::array<std::vector<std::pair<Signature, std::optional<OpTime>>>, ir::op_kind_count> known_;
};

/// What the host issues of a captured step: a launch for each graph, nothing for its ops.
class GraphLaunches {
 public:
  GraphLaunches(const Device& device, CudaGraph graph) : device_(device), graph_(graph) {}

  double seconds_before(const ir::Op& op) {
    const bool same =
        before_ != nullptr && (graph_ == CudaGraph::step || passes::same_segment(*before_, op));
    before_ = &op;
    return same ? 0.0 : device_.graph_launch_seconds;
  }

 private:
  const Device& device_;
  CudaGraph graph_;
  const ir::Op* before_ = nullptr;
};

struct Clocks {
  double host = 0, compute = 0, communication = 0;
};

}  // namespace

double op_seconds(const ir::Program& p, const ir::Op& op, const Device& d, std::int64_t world) {
  return OpTimes(p, d, world)(op).device;
}

StepTime walk_time(const passes::StepProgram& step, const Device& device, std::int64_t world,
                   std::int64_t grad_accum, CudaGraph graph) {
  const ir::Program& p = step.program;
  GraphLaunches launches(device, graph);
  OpTimes times(p, device, world);
  StepTime time;
  Clocks t;
  std::vector<double> ready(p.storages.size(), 0.0);  // when a collective's buffer is complete
  // A CPU runs what it issues; only where it was measured, since its estimates count on overlap.
  const bool in_order = device.measured && !device.cuda;
  double weight = 1.0;
  std::size_t micro = 0;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    if (micro < step.micro_begin.size() && static_cast<std::size_t>(step.micro_begin[micro]) == i) {
      weight =
          static_cast<double>(passes::micro_batch_runs(micro, step.micro_begin.size(), grad_accum));
      ++micro;
    }
    if (op.phase == Phase::optimizer) weight = 1.0;
    const ir::OpRow& row = ir::row(op.kind);
    const double before = t.compute;
    double wait = 0;
    const bool collective = is_collective(op);
    if (!collective)
      for (ir::ValueId v : p.inputs(op))
        wait = std::max(wait, ready[static_cast<std::size_t>(p.storage_of(v))]);
    if (op.phase == Phase::optimizer) wait = std::max(wait, t.communication);
    const OpTime cost = times(op);
    t.host += graph == CudaGraph::off ? cost.host : launches.seconds_before(op);
    if (collective) {
      const double start = std::max({t.host, t.communication, t.compute});
      t.communication = start + cost.device;
      for (ir::ValueId v : p.inputs(op))
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
      t.compute += cost.device;
    }
    if (in_order) t.host = t.compute;
    if (!cost.measured) time.unmeasured += weight * (t.compute - before);
    time.by_phase[static_cast<std::size_t>(op.phase)] += weight * (t.compute - before);
    if (op.phase <= Phase::loss) {
      if (row.cost == CostClass::matmul || row.cost == CostClass::attention)
        time.model_flops += weight * 3.0 * ir::flops(p, op);
    }
  }
  for (double seconds : time.by_phase) time.step += seconds;
  return time;
}

}  // namespace ac_advisor::simulate
