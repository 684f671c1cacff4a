// DistributedDataParallel, PyTorch v2.11, torch/csrc/distributed/c10d/reducer.cpp: gradients are
// copied into buckets of 25 MiB (the first 1 MiB), in reverse order of parameters, and live there
// (gradient_as_bucket_view); a full bucket is all-reduced.
#include "gradient_hooks.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::OpKind;
using ir::Role;
using ir::ValueId;

constexpr std::int64_t first_bucket_bytes = 1 << 20, bucket_bytes = 25 << 20;

struct Bucket {
  std::int64_t bytes = 0;
  std::int32_t parameters = 0;
  std::int32_t waiting = 0;
  ValueId buffer = no_id;
};

class Ddp final : public GradientHooks {
 public:
  Ddp(StepProgram& step, const StepConfig& config) : GradientHooks(step, config) {
    bucket_of_.resize(s_.parameters.size());
    offset_.resize(s_.parameters.size());
    buckets_.emplace_back();
    for (std::size_t i = s_.parameters.size(); i-- > 0;) {
      const std::int64_t limit = buckets_.size() == 1 ? first_bucket_bytes : bucket_bytes;
      if (buckets_.back().bytes >= limit) buckets_.emplace_back();
      offset_[i] = buckets_.back().bytes / size_of(c_.precision.param_dtype);
      buckets_.back().bytes += p_.bytes(s_.parameters[i].value);
      ++buckets_.back().parameters;
      bucket_of_[i] = buckets_.size() - 1;
    }
    for (Bucket& bucket : buckets_) {
      bucket.buffer = p_.make({bucket.bytes / size_of(c_.precision.param_dtype)},
                              c_.precision.param_dtype, Role::gradient, {-1, ir::Module::root});
      s_.resident.push_back(bucket.buffer);
    }
    for (std::size_t i = 0; i < s_.parameters.size(); ++i) {
      const ir::Shape shape = p_.value(s_.parameters[i].value).shape;
      const ValueId part = p_.narrow(buckets_[bucket_of_[i]].buffer, 0, offset_[i], shape.numel());
      view_.push_back(p_.reshape(part, shape));
      s_.parameters[i].stored = s_.parameters[i].value;
      s_.resident.push_back(s_.parameters[i].value);
    }
  }

  [[nodiscard]] std::vector<OptimizedTensor> optimized() const override {
    std::vector<OptimizedTensor> tensors;
    for (std::size_t i = 0; i < s_.parameters.size(); ++i)
      tensors.push_back({s_.parameters[i].value, view_[i]});
    return tensors;
  }

 private:
  void begin_backward() override {
    for (Bucket& bucket : buckets_) bucket.waiting = bucket.parameters;
  }

  void on_gradient(std::size_t parameter, ValueId gradient) override {
    Bucket& bucket = buckets_[bucket_of_[parameter]];
    const ir::ModulePath module = s_.parameters[parameter].module;
    // A copy at first; later micro-batches add to the view. The all-reduce averages.
    emit(micro_batch() == 0 ? OpKind::bucket_copy : OpKind::accumulate_inplace, module,
         {view_[parameter], gradient}, {});
    const bool synchronise =
        !c_.layout.no_sync || micro_batch() + 1 == micro_batches_written(c_.run.grad_accum, true);
    if (--bucket.waiting == 0 && synchronise)
      emit(OpKind::all_reduce, {-1, ir::Module::root}, {bucket.buffer}, {});
  }

  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::int64_t> offset_;  ///< elements before the parameter's in its bucket
  std::vector<ValueId> view_;         ///< the bucket's part that is the parameter's gradient
};

}  // namespace

std::unique_ptr<ShardPass> make_ddp(StepProgram& step, const StepConfig& config) {
  return std::make_unique<Ddp>(step, config);
}

}  // namespace ac_advisor::passes
