#include "kernel_time.hpp"

#include <algorithm>
#include <cmath>

#include "ac_advisor/ir/op_table.hpp"
#include "collective_time.hpp"

namespace ac_advisor::simulate {
namespace {

using ir::CostClass;
using ir::OpKind;

double bandwidth_share(const Device& d, const ir::OpRow& row) {
  const double kind = d.kind_bandwidth[static_cast<std::size_t>(row.kind)];
  if (kind > 0) return kind;
  switch (row.cost) {
    case CostClass::reduction:
      return d.reduction_bandwidth;
    case CostClass::embedding:
      return d.embedding_bandwidth;
    default:
      return d.pointwise_bandwidth;
  }
}

/// Ops that PyTorch runs through TensorIterator or its concatenation, one thread an element where
/// operands are not contiguous alike (aten/src/ATen/native/cuda/CUDALoops.cuh, Shape.cu).
bool iterates(OpKind kind) {
  switch (kind) {
    case OpKind::cast:
    case OpKind::clone:
    case OpKind::add:
    case OpKind::add_scalar:
    case OpKind::mul:
    case OpKind::mul_scalar:
    case OpKind::div:
    case OpKind::neg:
    case OpKind::clamp:
    case OpKind::minimum:
    case OpKind::where:
    case OpKind::copy_part:
    case OpKind::pow:
    case OpKind::exp:
    case OpKind::exp_of:
    case OpKind::log_sigmoid:
    case OpKind::cat:
    case OpKind::silu:
    case OpKind::gelu_tanh:
    case OpKind::gelu:
    case OpKind::relu:
    case OpKind::sigmoid:
    case OpKind::tanh:
    case OpKind::copy:
    case OpKind::masked_fill:
    case OpKind::silu_backward:
    case OpKind::gelu_backward:
    case OpKind::relu_backward:
    case OpKind::sigmoid_backward:
    case OpKind::tanh_backward:
    case OpKind::slice_backward:
    case OpKind::accumulate:
    case OpKind::accumulate_inplace:
      return true;
    default:
      return false;
  }
}

/// Elements that a kernel handles one by one: none where all operands lie alike and without gaps,
/// so that a thread moves 16 bytes at a time.
double strided_elements(const ir::Program& p, const ir::Op& op) {
  if (!iterates(op.kind) || op.outputs == 0) return 0;
  const ir::Value& out = p.value(p.output(op, 0));
  const std::int64_t numel = out.shape.numel();
  const auto gaps = [&](ir::ValueId v) {  // a part of a larger tensor, not whole rows of it
    const ir::Value& value = p.value(v);
    return value.narrow_dim != 0 && p.bytes(v) < p.storage(p.storage_of(v)).bytes;
  };
  bool strided = op.kind == OpKind::slice_backward || gaps(p.output(op, 0));
  std::int64_t largest = 0;
  for (ir::ValueId v : p.inputs(op)) {
    const ir::Value& in = p.value(v);
    const std::int64_t size = in.shape.numel();
    largest = std::max(largest, size);
    if (size == 1) continue;
    strided = strided || gaps(v) || in.permuted != out.permuted ||
              (size != numel && op.kind != OpKind::cat);
  }
  if (!strided) return 0;
  return static_cast<double>(op.kind == OpKind::slice_backward ? largest : numel);
}

/// Whether two ops of one kind have operands of the same shapes, types and layouts.
bool same_work(const ir::Program& p, const ir::Op& a, const ir::Op& b) {
  if (a.inputs != b.inputs || a.outputs != b.outputs) return false;
  const CostClass cost = ir::row(a.kind).cost;
  if (a.kind == OpKind::captured &&
      ir::attributes<ir::Captured>(a).flops != ir::attributes<ir::Captured>(b).flops)
    return false;
  if (cost == CostClass::matmul && ir::inner_dimension(a) != ir::inner_dimension(b)) return false;
  if (cost == CostClass::attention &&
      (ir::attributes<ir::Sdpa>(a).window != ir::attributes<ir::Sdpa>(b).window ||
       ir::attributes<ir::Sdpa>(a).documents != ir::attributes<ir::Sdpa>(b).documents))
    return false;
  for (std::int32_t i = 0; i < a.inputs + a.outputs; ++i) {
    const ir::ValueId va = p.operands[static_cast<std::size_t>(a.first_operand + i)],
                      vb = p.operands[static_cast<std::size_t>(b.first_operand + i)];
    const ir::Value &x = p.value(va), &y = p.value(vb);
    if (x.shape != y.shape || x.dtype != y.dtype || x.permuted != y.permuted ||
        x.narrow_dim != y.narrow_dim ||
        p.storage(p.storage_of(va)).bytes != p.storage(p.storage_of(vb)).bytes)
      return false;
  }
  return true;
}

/// How many standard deviations the slowest of `ranks` is expected to lie off: the mean of the
/// largest of so many normal values, by its limit (Gumbel).
double deviations_of_slowest(std::int64_t ranks) {
  if (ranks < 2) return 0;
  constexpr double four_pi = 12.566370614, euler = 0.5772156649;
  const double log = std::log(static_cast<double>(ranks)), root = std::sqrt(2.0 * log);
  return root - (std::log(log) + std::log(four_pi)) / (2.0 * root) + euler / root;
}

}  // namespace

bool is_collective(const ir::Op& op) { return ir::row(op.kind).cost == CostClass::collective; }

KernelTimes::KernelTimes(const ir::Program& program, const Device& device, const Run& run)
    : p_(program), d_(device), run_(run) {
  slowest_ = 1.0 + d_.spread * deviations_of_slowest(run.world);
  free_sms_ = static_cast<double>(std::max<std::int64_t>(1, d_.sm_count - d_.collective_sms));
  // What arrives over the link is written to memory, what leaves is read.
  const double taken = 2.0 * d_.link_bandwidth * d_.collective_bandwidth;
  if (d_.cuda && d_.bandwidth > 0) free_bandwidth_ = std::max(0.5, 1.0 - taken / d_.bandwidth);
}

KernelSeconds KernelTimes::product(const ir::Op& op, double peak) const {
  const ir::Shape out = p_.value(p_.output(op, 0)).shape;
  if (out.rank() < 2) {  // a fused loss: products of large tiles
    const double seconds =
        ir::flops(p_, op) / (peak * d_.matmul_asymptote) *
        (1.0 + d_.matmul_k_half / std::max(1.0, static_cast<double>(ir::inner_dimension(op))));
    return {seconds,
            seconds * static_cast<double>(std::max<std::int64_t>(1, d_.sm_count)) / free_sms_};
  }
  const double columns = static_cast<double>(out.back());
  const MatmulShape shape{static_cast<double>(out.numel()) / std::max(columns, 1.0), columns,
                          static_cast<double>(ir::inner_dimension(op))};
  return {matmul_seconds(shape, d_, peak, static_cast<double>(d_.sm_count)),
          matmul_seconds(shape, d_, peak, free_sms_)};
}

/// FlashAttention counts a backward as 2.5 times a forward, and so does the op table.
double KernelTimes::attention(const ir::Op& op, double peak) const {
  const AttentionRate& rate = run_.attention == Attention::cudnn    ? d_.cudnn
                              : run_.attention == Attention::flash1 ? d_.flash1
                                                                    : d_.flash;
  const bool forward = op.kind == OpKind::sdpa;
  const ir::Shape q = p_.value(p_.input(op, forward ? 0 : 1)).shape;  // [B, heads, S, D]
  double share = forward ? rate.forward : rate.backward;
  if (q.rank() == 4) {
    const double documents = std::max<int>(1, ir::attributes<ir::Sdpa>(op).documents);
    const double tokens = static_cast<double>(q[2]) / documents, dim = static_cast<double>(q[3]);
    share *= tokens / (tokens + rate.half_tokens);
    const double narrow = std::clamp((128.0 - dim) / 64.0, 0.0, 1.0);
    share *= 1.0 + (rate.head_64 - 1.0) * narrow;
  }
  return ir::flops(p_, op) / (peak * share);
}

/// Attention and convolution of an imported graph: at the rate of a large product (an estimate: the
/// graph does not say which kernel's tiles they are made of).
double KernelTimes::imported(const ir::Op& op, double work) const {
  const bool half = op.inputs > 0 && size_of(p_.value(p_.input(op, 0)).dtype) == 2;
  return work / ((half ? d_.bf16_flops : d_.fp32_flops) * d_.matmul_asymptote);
}

double KernelTimes::memory(const ir::Op& op) const {
  const double bytes =
      ir::traffic_bytes(p_, op) / (d_.bandwidth * bandwidth_share(d_, ir::row(op.kind)));
  if (d_.strided_elements <= 0) return bytes;
  return std::max(bytes, strided_elements(p_, op) / d_.strided_elements);
}

KernelSeconds KernelTimes::operator()(const ir::Op& op) {
  constexpr std::size_t most_operands = 8;  // an optimizer's lists are looked at once anyway
  if (ir::row(op.kind).launches == 0) return {};
  if (static_cast<std::size_t>(op.inputs) + op.outputs > most_operands) return kernel(op);
  auto& known = known_[static_cast<std::size_t>(op.kind)];
  for (const Known& k : known)
    if (same_work(p_, k.op, op)) return k.seconds;
  known.push_back({op, kernel(op)});
  return known.back().seconds;
}

KernelSeconds KernelTimes::kernel(const ir::Op& op) const {
  const ir::OpRow& row = ir::row(op.kind);
  const double floor = d_.kernel_floor_seconds * row.launches;
  if (is_collective(op)) {
    const double seconds = floor + collective_seconds(p_, op, d_, run_);
    return {seconds, seconds};
  }
  KernelSeconds compute;
  if (row.cost == CostClass::matmul || row.cost == CostClass::attention) {
    // The first operand may be an fp32 gradient of a scalar; the second is a matrix in every kind.
    const double peak = d_.peak_flops(p_.value(p_.input(op, 1)).dtype);
    if (row.cost == CostClass::matmul) {
      compute = product(op, peak);
    } else {
      compute.alone = attention(op, peak);
      compute.beside =
          compute.alone * static_cast<double>(std::max<std::int64_t>(1, d_.sm_count)) / free_sms_;
    }
  }
  if (const double work = op.kind == OpKind::captured ? ir::flops(p_, op) : 0; work > 0)
    compute = {imported(op, work), imported(op, work)};
  // From a kernel's end to the next one's first work: the shortest kernel does nothing else.
  const double traffic = memory(op);
  compute.alone *= slowest_;
  compute.beside *= slowest_;
  return {floor + std::max(compute.alone, traffic),
          floor + std::max(compute.beside, traffic / free_bandwidth_)};
}

}  // namespace ac_advisor::simulate
