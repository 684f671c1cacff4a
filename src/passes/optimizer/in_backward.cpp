// An optimizer for each parameter that steps as soon as its gradient is accumulated and then drops
// it (torch.Tensor.register_post_accumulate_grad_hook; torchtune's OptimizerInBackward). All
// gradients never exist at once.
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "passes/sharding/gradient_hooks.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using ir::ValueId;

class InBackward final : public GradientHooks {
 public:
  using GradientHooks::GradientHooks;

 private:
  void begin_backward() override {}

  void on_gradient(std::size_t index, ValueId gradient) override {
    const Parameter& parameter = s_.parameters[index];
    std::vector<ValueId> reads{parameter.value, gradient};
    const ir::Value like = p_.value(parameter.value);
    const auto state = [&](const ir::Shape& shape, DType dtype) {
      const ValueId v = p_.make(shape, dtype, ir::Role::optimizer_state, parameter.module);
      s_.optimizer_states.push_back(v);
      s_.resident.push_back(v);
      reads.push_back(v);
    };
    const bool adamw = c_.optimizer.kind == Optimizer::adamw;
    if (adamw) {
      state({}, DType::f32);
      state(like.shape, like.dtype);
      state(like.shape, like.dtype);
    }
    emit(adamw ? OpKind::adamw_fused : OpKind::sgd_fused, {-1, ir::Module::optimizer}, reads, {});
  }

  void end_backward() override {
    // What the first step's end has and its backward had not.
    emit(OpKind::record_function, {-1, ir::Module::optimizer}, {}, {});
    p_.ops.back().phase = ir::Phase::optimizer;
  }
};

bool applies(const StepConfig& config) { return config.optimizer.in_backward; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  InBackward(step, config).rewrite();
}

using model::ModelSpec;

constexpr Exclusion exclusions_of_in_backward[] = {
    {"--optimizer-in-backward --grad-accum N, N above 1",
     "gradients that are dropped at once cannot accumulate", "use --grad-accum 1",
     [](const ModelSpec&, const StepConfig& c) { return applies(c) && c.run.grad_accum > 1; },
     [](const ModelSpec&, const StepConfig& c) {
       return "--optimizer-in-backward --grad-accum " + std::to_string(c.run.grad_accum);
     }},
    {"--optimizer-in-backward --clip-grad NORM", "the norm needs all gradients at once",
     "drop one of them",
     [](const ModelSpec&, const StepConfig& c) { return applies(c) && c.optimizer.clip_grad > 0; }},
    {"--optimizer-in-backward, --shard other than none",
     "planned where gradients are whole, and not reduced between ranks", "use --shard none",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.layout.shard != Sharding::none;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--optimizer-in-backward --shard " + shard_option(c);
     }},
    {"--optimizer-in-backward --master-weights",
     "Transformer Engine's FusedAdam steps all parameters at once", "drop one of them",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.optimizer.master_weights;
     }},
    {"--optimizer-in-backward, --optimizer other than adamw or sgd",
     "planned with the two that step in one kernel", "use --optimizer adamw or sgd",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.optimizer.kind != Optimizer::adamw &&
              c.optimizer.kind != Optimizer::sgd;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--optimizer-in-backward --optimizer ") + to_option(c.optimizer.kind);
     }},
};

}  // namespace

extern const Pass optimizer_in_backward_pass;
const Pass optimizer_in_backward_pass{
    "optimizer-in-backward",
    Stage::micro_batch,
    "each parameter updated as soon as its gradient is there, which is dropped then",
    applies,
    run,
    exclusions_of_in_backward};

}  // namespace ac_advisor::passes
