// DeepSpeed's ZeRO 1 and 2 with bf16, deepspeed/runtime/zero/stage_1_and_2.py (v0.18): the whole
// parameters in bf16; an fp32 master copy and fp32 moments of this rank's partition; gradients go
// through a bucket of `reduce_bucket_size` elements; stage 2 keeps only the partition's share.
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "gradient_hooks.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::OpKind;
using ir::Role;
using ir::ValueId;

constexpr std::int64_t reduce_bucket_elements = 500'000'000;  // zero/config.py, default 5e8

/// Whole parameters, and this rank's partition of all of them in fp32.
void make_partition(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  ir::Program& p = step.program;
  std::int64_t elements = 0;
  for (Parameter& parameter : step.parameters) {
    parameter.stored = parameter.value;
    step.resident.push_back(parameter.value);
    elements += p.value(parameter.value).shape.numel();
  }
  const std::int64_t partition = (elements + config.layout.world - 1) / config.layout.world;
  const ValueId master =
      p.make({partition}, DType::f32, Role::optimizer_state, {-1, ir::Module::optimizer});
  step.resident.push_back(master);
  step.optimized = {{master, no_id}};
}

class Zero final : public GradientHooks {
 public:
  using GradientHooks::GradientHooks;

 private:
  void begin_backward() override {
    bucket_ = p_.make({reduce_bucket_elements}, c_.precision.compute_dtype, Role::communication,
                      {-1, ir::Module::root});
    emit(OpKind::empty, {-1, ir::Module::root}, {}, {bucket_});
    if (s_.averaged == no_id) {
      s_.averaged = p_.make({partition()}, c_.precision.compute_dtype, Role::gradient,
                            {-1, ir::Module::root});
      emit(OpKind::fill, {-1, ir::Module::root}, {}, {s_.averaged});
    }
    filled_ = 0;
  }

  void on_gradient(std::size_t parameter, ValueId gradient) override {
    const std::int64_t elements = p_.value(gradient).shape.numel();
    const ir::ModulePath module = s_.parameters[parameter].module;
    if (filled_ + elements > reduce_bucket_elements) flush();
    const ir::OpId copy =
        emit(OpKind::bucket_copy, module, {p_.narrow(bucket_, 0, filled_, elements), gradient}, {});
    p_.op(copy).attributes = ir::BucketCopy{static_cast<std::int32_t>(parameter)};
    if (c_.layout.shard == Sharding::zero1) kept_.push_back(gradient);  // until the step
    filled_ += elements;
  }

  void flush() {
    if (filled_ == 0) return;
    emit(OpKind::all_reduce, {-1, ir::Module::root},
         {p_.narrow(bucket_, 0, 0, filled_), s_.averaged}, {});
    filled_ = 0;
  }

  void end_backward() override {
    flush();
    // step(): the partition's gradient in fp32, then the updated partition to bf16 and gathered
    for (ValueId v : kept_) emit(OpKind::hold, {-1, ir::Module::root}, {v}, {});
    kept_.clear();
    const ValueId wide =
        p_.make({partition()}, DType::f32, Role::temporary, {-1, ir::Module::optimizer});
    emit(OpKind::cast, {-1, ir::Module::optimizer}, {s_.averaged}, {wide});
    s_.optimized.front().gradient = wide;
    p_.ops.back().phase = ir::Phase::optimizer;
  }

  [[nodiscard]] std::int64_t partition() const {
    return p_.value(s_.optimized.front().parameter).shape[0];
  }

  std::int64_t filled_ = 0;
  ValueId bucket_ = no_id;
  std::vector<ValueId> kept_;
};

bool applies(const StepConfig& config) { return config.layout.zero(); }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Zero(step, config).rewrite();
}

/// The updated partition goes to the parameters in their own dtype, and to the other ranks, in
/// place.
void gather(StepProgram& step, const model::ModelSpec&, const StepConfig&) {
  std::vector<ValueId> in{step.optimized.front().parameter};
  for (const Parameter& parameter : step.parameters) in.push_back(parameter.value);
  ir::Program& p = step.program;
  const std::int32_t group = p.ops.back().group + 1;
  p.emit(OpKind::all_gather, ir::Phase::optimizer, {-1, ir::Module::optimizer}, in, {});
  p.ops.back().group = group;
}

constexpr Exclusion exclusions_of_zero[] = {
    {"--no-sync --shard zero1 or zero2", "DeepSpeed reduces every micro-batch's buckets",
     "leave --no-sync out",
     [](const model::ModelSpec&, const StepConfig& c) { return c.layout.no_sync && applies(c); },
     [](const model::ModelSpec&, const StepConfig& c) {
       return "--no-sync --shard " + shard_option(c);
     }},
};

}  // namespace

extern const Pass zero_partition_pass, zero_pass, zero_gather_pass;
const Pass zero_partition_pass{
    "zero-partition", Stage::before,  "zero1, zero2: this rank's fp32 partition of all parameters",
    applies,          make_partition, {}};
const Pass zero_pass{"zero",
                     Stage::micro_batch,
                     "zero1, zero2: gradients through a bucket into the partition's average",
                     applies,
                     run,
                     exclusions_of_zero};
const Pass zero_gather_pass{
    "zero-gather", Stage::step, "zero1, zero2: the updated partition back into the parameters",
    applies,       gather,      {}};

}  // namespace ac_advisor::passes
