// DeepSpeed's ZeRO 1 and 2 with bf16, deepspeed/runtime/zero/stage_1_and_2.py (v0.18): the whole
// parameters in bf16; an fp32 master copy and fp32 moments of this rank's partition; gradients go
// through a bucket of `reduce_bucket_size` elements; stage 2 keeps only the partition's share.
#include <algorithm>

#include "gradient_hooks.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::OpKind;
using ir::Role;
using ir::ValueId;

constexpr std::int64_t reduce_bucket_elements = 500'000'000;  // zero/config.py, default 5e8

class Zero final : public GradientHooks {
 public:
  Zero(StepProgram& step, const StepConfig& config) : GradientHooks(step, config) {
    std::int64_t elements = 0;
    for (Parameter& parameter : s_.parameters) {
      parameter.stored = parameter.value;
      s_.resident.push_back(parameter.value);
      elements += p_.value(parameter.value).shape.numel();
    }
    partition_ = (elements + c_.layout.world - 1) / c_.layout.world;
    master_ = p_.make({partition_}, DType::f32, Role::optimizer_state, {-1, ir::Module::optimizer});
    s_.resident.push_back(master_);
    bucket_elements_ = std::min(reduce_bucket_elements, elements);
  }

  [[nodiscard]] std::vector<OptimizedTensor> optimized() const override {
    return {{master_, fp32_gradient_}};
  }

  /// The updated partition goes to the parameters in their own dtype, and to the other ranks, in
  /// place.
  void after_optimizer() override {
    std::vector<ValueId> in{master_};
    for (const Parameter& parameter : s_.parameters) in.push_back(parameter.value);
    emit(OpKind::all_gather, {-1, ir::Module::optimizer}, in, {});
    p_.ops.back().phase = ir::Phase::optimizer;
  }

 private:
  void begin_backward() override {
    bucket_ = p_.make({reduce_bucket_elements}, c_.precision.compute_dtype, Role::communication,
                      {-1, ir::Module::root});
    emit(OpKind::empty, {-1, ir::Module::root}, {}, {bucket_});
    if (averaged_ == no_id) {
      averaged_ =
          p_.make({partition_}, c_.precision.compute_dtype, Role::gradient, {-1, ir::Module::root});
      emit(OpKind::fill, {-1, ir::Module::root}, {}, {averaged_});
    }
    filled_ = 0;
  }

  void on_gradient(std::size_t parameter, ValueId gradient) override {
    const std::int64_t elements = p_.value(gradient).shape.numel();
    const ir::ModulePath module = s_.parameters[parameter].module;
    if (filled_ + elements > reduce_bucket_elements) flush();
    const ir::OpId copy =
        emit(OpKind::bucket_copy, module, {p_.narrow(bucket_, 0, filled_, elements), gradient}, {});
    p_.op(copy).dim = static_cast<std::int32_t>(parameter);
    if (c_.layout.shard == Sharding::zero1) kept_.push_back(gradient);  // until the step
    filled_ += elements;
  }

  void flush() {
    if (filled_ == 0) return;
    emit(OpKind::all_reduce, {-1, ir::Module::root}, {p_.narrow(bucket_, 0, 0, filled_), averaged_},
         {});
    filled_ = 0;
  }

  void end_backward() override {
    flush();
    // step(): the partition's gradient in fp32, then the updated partition to bf16 and gathered
    for (ValueId v : kept_) emit(OpKind::hold, {-1, ir::Module::root}, {v}, {});
    kept_.clear();
    fp32_gradient_ =
        p_.make({partition_}, DType::f32, Role::temporary, {-1, ir::Module::optimizer});
    emit(OpKind::cast, {-1, ir::Module::optimizer}, {averaged_}, {fp32_gradient_});
    p_.ops.back().phase = ir::Phase::optimizer;
  }

  std::int64_t partition_ = 0, bucket_elements_ = 0, filled_ = 0;
  ValueId master_ = no_id, bucket_ = no_id, averaged_ = no_id, fp32_gradient_ = no_id;
  std::vector<ValueId> kept_;
};

}  // namespace

std::unique_ptr<ShardPass> make_zero(StepProgram& step, const StepConfig& config) {
  return std::make_unique<Zero>(step, config);
}

}  // namespace ac_advisor::passes
