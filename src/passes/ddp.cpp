// DistributedDataParallel, PyTorch v2.11, torch/csrc/distributed/c10d/reducer.cpp: gradients are
// copied into buckets of 25 MiB (the first 1 MiB), in reverse order of parameters, and live there
// (gradient_as_bucket_view); a full bucket is all-reduced. Under no_sync() the reducer's hooks do
// nothing: gradients are the parameters' own, beside the buckets, until a backward that
// synchronises copies them (mark_variable_ready_dense).
#include <vector>

#include "ac_advisor/passes/pass.hpp"
#include "grad_compression.hpp"
#include "gradient_hooks.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using ir::Role;
using ir::ValueId;

constexpr std::int64_t first_bucket_bytes = 1 << 20, bucket_bytes = 25 << 20;

/// The buckets, and each parameter's part of one: its gradient, which the optimizer reads.
void make_buckets(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  ir::Program& p = step.program;
  const DType dtype = config.adapters.used() ? config.adapters.dtype : config.precision.param_dtype;
  std::vector<std::size_t> trained;
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    Parameter& parameter = step.parameters[i];
    parameter.stored = parameter.value;
    if (!parameter.trained) continue;
    parameter.optimized = trained.size();
    trained.push_back(i);
  }
  const std::size_t count = trained.size();
  std::vector<std::int64_t> bytes(1, 0), offset(count);
  std::vector<std::size_t> bucket_of(count);
  for (std::size_t i = count; i-- > 0;) {
    if (bytes.back() >= (bytes.size() == 1 ? first_bucket_bytes : bucket_bytes)) bytes.push_back(0);
    offset[i] = bytes.back() / size_of(dtype);
    bytes.back() += p.bytes(step.parameters[trained[i]].value);
    bucket_of[i] = bytes.size() - 1;
  }
  std::vector<ValueId> buckets;
  for (std::int64_t size : bytes) {
    buckets.push_back(
        p.make({size / size_of(dtype)}, dtype, Role::gradient, {-1, ir::Module::root}));
    step.resident.push_back(buckets.back());
  }
  if (config.compression.used()) {
    std::vector<std::vector<BucketPart>> parts(buckets.size());
    for (std::size_t i = count; i-- > 0;)
      parts[bucket_of[i]].push_back({offset[i], p.value(step.parameters[trained[i]].value).shape});
    for (std::size_t b = 0; b < buckets.size(); ++b)
      keep_for_compression(step, config, buckets[b], parts[b]);
  }
  for (const Parameter& parameter : step.parameters) step.resident.push_back(parameter.value);
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& parameter = step.parameters[trained[i]];
    const ir::Shape shape = p.value(parameter.value).shape;
    const ValueId part = p.narrow(buckets[bucket_of[i]], 0, offset[i], shape.numel());
    step.optimized.push_back({parameter.value, p.reshape(part, shape)});
  }
}

class Ddp final : public GradientHooks {
 public:
  using GradientHooks::GradientHooks;

 private:
  void begin_backward() override {
    waiting_.assign(p_.values.size(), 0);
    for (const OptimizedTensor& t : s_.optimized) ++waiting_[bucket_of(t)];
  }

  void on_gradient(std::size_t parameter, ValueId gradient) override {
    const OptimizedTensor& t = s_.optimized[s_.parameters[parameter].optimized];
    if (keeps_gradients()) return;
    // A copy at first; later micro-batches add to the view. The all-reduce averages.
    const bool copied = micro_batch() == 0 || c_.layout.no_sync;
    emit(copied ? OpKind::bucket_copy : OpKind::accumulate_inplace, s_.parameters[parameter].module,
         {t.gradient, gradient}, {});
    if (!copied && c_.runtime.kind == Runtime::pytorch)  // a copy divides by the world on its way
      emit(OpKind::div, s_.parameters[parameter].module, {t.gradient},
           {p_.on_storage_of(t.gradient, p_.value(t.gradient).shape, p_.value(t.gradient).dtype,
                             true)});
    if (--waiting_[bucket_of(t)] == 0) send(static_cast<ValueId>(bucket_of(t)));
  }

  void send(ValueId bucket) {
    if (!c_.compression.used()) emit(OpKind::all_reduce, {-1, ir::Module::root}, {bucket}, {});
    for (const CompressedBucket& kept : s_.compressed)
      if (kept.bucket == bucket) append_compression(s_, c_, kept, next_group_);
  }

  [[nodiscard]] bool keeps_gradients() const override {
    return c_.layout.no_sync &&
           static_cast<std::int64_t>(micro_batch()) + 1 < micro_batches_written(c_);
  }

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
    "ddp-buckets", Stage::before, "ddp: the buckets that gradients are views of",
    applies,       make_buckets,  {},
    Of::pytorch};
const Pass ddp_pass{"ddp",
                    Stage::micro_batch,
                    "ddp: gradients into their buckets, an all-reduce for each full one",
                    applies,
                    run,
                    {},
                    Of::pytorch};

}  // namespace ac_advisor::passes
