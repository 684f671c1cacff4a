// DistributedDataParallel, PyTorch v2.11, torch/csrc/distributed/c10d/reducer.cpp: gradients are
// copied into buckets of 25 MiB (the first 1 MiB), in the order in which they came; a full bucket
// is all-reduced. With gradient_as_bucket_view they live there. Without, which is the default, they
// are the parameters' own beside the buckets, and are copied back when backward ends
// (finalize_bucket_dense). Under no_sync() the reducer's hooks do nothing: gradients are the
// parameters' own until a backward that synchronises copies them (mark_variable_ready_dense).
#include <map>
#include <vector>

#include "ac_advisor/passes/pass.hpp"
#include "grad_compression.hpp"
#include "gradient_hooks.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using ir::Role;
using ir::ValueId;

constexpr std::int64_t first_bucket_bytes = 1 << 20, bucket_bytes = 25 << 20;

/// What the optimizer goes over; the buckets come with the first gradients.
void number_trained(StepProgram& step, const model::ModelSpec&, const StepConfig&) {
  std::size_t trained = 0;
  for (Parameter& parameter : step.parameters) {
    parameter.stored = parameter.value;
    if (parameter.trained) parameter.optimized = trained++;
    step.resident.push_back(parameter.value);
  }
}

/// The buckets, and each parameter's part of one: its gradient, which the optimizer reads. `order`:
/// parameters as their gradients come, by which the second step makes the buckets anew.
void make_buckets(StepProgram& step, const StepConfig& config,
                  const std::vector<std::pair<ir::OpId, std::size_t>>& order) {
  ir::Program& p = step.program;
  const DType dtype = trained_dtype(config);
  std::vector<std::int64_t> bytes(1, 0);
  std::vector<BucketPart> parts;
  std::vector<std::size_t> bucket_of;
  for (const auto& [op, i] : order) {
    if (bytes.back() >= (bytes.size() == 1 ? first_bucket_bytes : bucket_bytes)) bytes.push_back(0);
    const ValueId value = step.parameters[i].value;
    parts.push_back({bytes.back() / size_of(dtype), p.value(value).shape});
    bytes.back() += p.bytes(value);
    bucket_of.push_back(bytes.size() - 1);
  }
  std::vector<ValueId> buckets;
  for (std::int64_t size : bytes) {
    buckets.push_back(
        p.make({size / size_of(dtype)}, dtype, Role::gradient, {-1, ir::Module::root}));
    step.resident.push_back(buckets.back());
  }
  step.optimized.resize(order.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    const Parameter& parameter = step.parameters[order[n].second];
    const ir::Shape shape = parts[n].shape;
    const ValueId part = p.narrow(buckets[bucket_of[n]], 0, parts[n].begin, shape.numel());
    step.optimized[parameter.optimized] = {parameter.value, p.reshape(part, shape)};
  }
  for (std::size_t b = 0; b < buckets.size() && config.compression.used(); ++b) {
    std::vector<BucketPart> own;
    for (std::size_t n = 0; n < parts.size(); ++n)
      if (bucket_of[n] == b) own.push_back(parts[n]);
    keep_for_compression(step, config, buckets[b], own);
  }
}

class Ddp final : public GradientHooks {
 public:
  using GradientHooks::GradientHooks;

 private:
  /// _sync_buffers (torch/nn/parallel/distributed.py): the first rank's buffers, those of one dtype
  /// joined, before each forward after a backward that has reduced gradients.
  void begin_forward() override {
    if (c_.runtime.kind != Runtime::pytorch || (c_.layout.no_sync && micro_batch() > 0)) return;
    std::map<DType, std::vector<ValueId>> buffers;
    for (ValueId v : s_.buffers) buffers[p_.value(v).dtype].push_back(v);
    for (auto& [dtype, joined] : buffers) {
      std::int64_t elements = 0;
      std::vector<ValueId> flat;
      for (ValueId v : joined) {
        const std::int64_t n = p_.value(v).shape.numel();
        flat.push_back(p_.reshape(v, {n}));
        elements += n;
      }
      ValueId sent = flat.front();
      if (flat.size() > 1) {
        sent = p_.make({elements}, dtype, Role::communication, {-1, ir::Module::root});
        p_.emit(OpKind::cat, ir::Phase::forward, {-1, ir::Module::root}, flat,
                std::vector<ValueId>{sent});
      }
      joined.insert(joined.begin(), sent);
      p_.emit(OpKind::broadcast, ir::Phase::forward, {-1, ir::Module::root}, joined,
              std::vector<ValueId>{});
    }
  }

  void begin_backward() override {
    if (micro_batch() == 0) make_buckets(s_, c_, ready_);
    waiting_.assign(p_.values.size(), 0);
    for (const OptimizedTensor& t : s_.optimized) ++waiting_[bucket_of(t)];
  }

  void on_gradient(std::size_t parameter, ValueId gradient) override {
    const OptimizedTensor& t = s_.optimized[s_.parameters[parameter].optimized];
    if (!reduces()) return;
    // A copy at first; later micro-batches add to the view. The all-reduce averages.
    const bool copied = !views() || micro_batch() == 0 || c_.layout.no_sync;
    emit(copied ? OpKind::bucket_copy : OpKind::accumulate_inplace, s_.parameters[parameter].module,
         {t.gradient, gradient}, {});
    if (!copied && c_.runtime.kind == Runtime::pytorch)  // a copy divides by the world on its way
      emit(OpKind::div, s_.parameters[parameter].module, {t.gradient},
           {p_.on_storage_of(t.gradient, p_.value(t.gradient).shape, p_.value(t.gradient).dtype,
                             true)});
    if (--waiting_[bucket_of(t)] == 0) send(static_cast<ValueId>(bucket_of(t)));
  }

  /// finalize_bucket_dense: each of a bucket's parts goes back to where the optimizer reads it.
  void end_backward() override {
    if (views() || !reduces()) return;
    for (const auto& [op, i] : ready_) {
      Parameter& parameter = s_.parameters[i];
      emit(OpKind::bucket_copy, parameter.module,
           {parameter.gradient, s_.optimized[parameter.optimized].gradient}, {});
    }
    if (!last()) return;
    for (const auto& [op, i] : ready_) {
      const Parameter& parameter = s_.parameters[i];
      s_.optimized[parameter.optimized].gradient = parameter.gradient;
      s_.surviving.push_back(parameter.gradient);
    }
  }

  /// The trainer's gradients are in their buckets.
  [[nodiscard]] bool views() const {
    return c_.layout.bucket_views || c_.runtime.kind != Runtime::pytorch;
  }
  [[nodiscard]] bool reduces() const { return !c_.layout.no_sync || last(); }

  void send(ValueId bucket) {
    if (!c_.compression.used()) emit(OpKind::all_reduce, {-1, ir::Module::root}, {bucket}, {});
    for (const CompressedBucket& kept : s_.compressed)
      if (kept.bucket == bucket) append_compression(s_, c_, kept, next_group_);
  }

  [[nodiscard]] bool keeps_gradients() const override { return !views() || !reduces(); }

  [[nodiscard]] std::size_t bucket_of(const OptimizedTensor& t) const {
    return static_cast<std::size_t>(p_.root(t.gradient));
  }

  std::vector<std::int32_t> waiting_;  ///< by bucket's value: parameters without a gradient yet
};

bool applies(const StepConfig& config) { return config.layout.shard == Sharding::ddp; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Ddp(step, config).rewrite();
}

}  // namespace

extern const Pass ddp_buckets_pass, ddp_pass;
const Pass ddp_buckets_pass{
    "ddp-buckets", Stage::before,  "ddp: which parameters will have gradients",
    applies,       number_trained, {},
    Of::pytorch};
const Pass ddp_pass{"ddp",
                    Stage::micro_batch,
                    "ddp: gradients into their buckets, an all-reduce for each full one",
                    applies,
                    run,
                    {},
                    Of::pytorch};

}  // namespace ac_advisor::passes
