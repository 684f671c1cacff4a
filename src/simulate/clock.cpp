#include "ac_advisor/simulate/clock.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::simulate {
namespace {

using ir::CostClass;
using ir::OpKind;
using ir::Phase;

/// Share of the multiprocessors that work when the output is cut into 128 x 128 tiles: the last
/// wave is partly empty (NVIDIA, Matrix Multiplication Background User's Guide, "wave quantization").
double wave_efficiency(const ir::Program& p, const ir::Op& op, const Device& device) {
  const ir::Shape out = p.value(p.output(op, 0)).shape;
  if (out.rank() < 2 || device.sm_count <= 0) return 1.0;
  const auto tiles_of = [](double rows, double columns) {
    return std::ceil(rows / 128.0) * std::ceil(columns / 128.0);
  };
  const double columns = static_cast<double>(out.back());
  const double rows = static_cast<double>(out.numel()) / std::max(columns, 1.0);
  const double tiles = tiles_of(rows, columns), sms = static_cast<double>(device.sm_count);
  return tiles / (std::ceil(tiles / sms) * sms);
}

double efficiency(const Device& d, CostClass cost) {
  switch (cost) {
    case CostClass::matmul: return d.matmul_efficiency;
    case CostClass::attention: return d.attention_efficiency;
    case CostClass::reduction: return d.reduction_efficiency;
    case CostClass::embedding: return d.embedding_efficiency;
    default: return d.pointwise_efficiency;
  }
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
  return bytes * share / (d.link_bandwidth * d.collective_efficiency);
}

struct Clocks {
  double host = 0, compute = 0, communication = 0;
};

}  // namespace

double op_seconds(const ir::Program& p, const ir::Op& op, const Device& d, std::int64_t world) {
  const ir::OpRow& row = ir::row(op.kind);
  if (row.launches == 0) return 0;
  const double floor = d.kernel_floor_seconds * row.launches;
  if (is_collective(op)) return std::max(floor, collective_seconds(p, op, d, world));
  const double bytes = ir::traffic_bytes(p, op);
  const double memory = bytes / (d.bandwidth * std::min(d.pointwise_efficiency, 1.0));
  double compute = 0;
  if (row.cost == CostClass::matmul || row.cost == CostClass::attention) {
    const bool half = op.outputs > 0 && p.value(p.input(op, 0)).dtype == DType::bf16;
    double rate = (half ? d.bf16_flops : d.fp32_flops) * efficiency(d, row.cost);
    if (row.cost == CostClass::matmul && op.outputs > 0) rate *= wave_efficiency(p, op, d);
    compute = ir::flops(p, op) / rate;
  }
  const double traffic = row.cost == CostClass::matmul || row.cost == CostClass::attention
                             ? memory
                             : bytes / (d.bandwidth * efficiency(d, row.cost));
  return std::max({floor, compute, traffic});
}

StepTime walk_time(const passes::StepProgram& step, const Device& device, std::int64_t world,
                   std::int64_t grad_accum) {
  const ir::Program& p = step.program;
  StepTime time;
  Clocks t;
  std::vector<double> ready(p.storages.size(), 0.0);  // when a collective's buffer is complete
  double weight = 1.0;
  std::size_t micro = 0;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    if (micro < step.micro_begin.size() && static_cast<std::size_t>(step.micro_begin[micro]) == i) {
      weight = micro == 0 ? 1.0 : static_cast<double>(grad_accum - 1);
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
    t.host += device.host_issue_seconds * ir::dispatches(op);
    if (collective) {
      const double start = std::max({t.host, t.communication, t.compute});
      t.communication = start + op_seconds(p, op, device, world);
      for (ir::ValueId v : p.inputs(op))
        ready[static_cast<std::size_t>(p.storage_of(v))] = t.communication;
      continue;
    }
    if (wait > t.compute) {
      time.communication_exposed += weight * (wait - t.compute);
      t.compute = wait;
    }
    if (row.launches > 0) {
      if (t.host > t.compute) {
        time.launch_bound += weight * (t.host - t.compute);
        t.compute = t.host;
      }
      t.compute += op_seconds(p, op, device, world);
    }
    time.by_phase[static_cast<std::size_t>(op.phase)] += weight * (t.compute - before);
    if (op.phase <= Phase::loss) {
      const CostClass cost = row.cost;
      if (cost == CostClass::matmul || cost == CostClass::attention)
        time.model_flops += weight * 3.0 * ir::flops(p, op);
    }
  }
  for (double seconds : time.by_phase) time.step += seconds;
  return time;
}

}  // namespace ac_advisor::simulate
