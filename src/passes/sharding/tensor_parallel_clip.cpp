// torch.nn.utils.clip_grad_norm_ of tensor-parallel gradients (PyTorch v2.11): DTensor computes
// each norm on its shard, so that the norms of sharded gradients are parts of a sum over ranks,
// those of replicas are not (torch/distributed/tensor/_ops/_math_ops.py, _NormPartial). A norm of
// something that is a sum to be needs the sum: a copy of it is reduced, for the norms and again for
// the product, which is then the copy's. TorchTitan's own function (v0.2.2, distributed/utils.py)
// calls these, and reads the norm, which is whole already.
#include <algorithm>
#include <cstdint>

#include "ac_advisor/passes/pass.hpp"
#include "passes/optimizer/ops.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using V = OptimizerOps::V;
using Values = OptimizerOps::Values;

bool applies(const StepConfig& config) {
  return config.layout.tp > 1 && config.optimizer.clip_grad > 0;
}

class Clip {
 public:
  Clip(StepProgram& step, const StepConfig& config)
      : step_(step), sharded_(config.layout.gathers()), ops_(step) {
    std::size_t i = 0;
    for (const Parameter& parameter : step.parameters)
      if (parameter.trained) add(parameter, step.optimized[i++].gradient);
  }

  void append() {
    if (gradients_.empty()) return;
    ops_.begin_stages(clip_stages);
    const V total = norm_of_all();
    const Values by = append_clip_factors(ops_, total), multiplied = reduced();
    ops_.stage({&multiplied, &by}, {}, 1);
    ops_.hold({total});
  }

 private:
  void add(const Parameter& parameter, V gradient) {
    if (gradient == ir::no_id) return;
    dtype_ = ops_.dtype(gradient);
    const bool whole =
        !sharded_ && ops_.numel(gradient) > step_.program.value(parameter.value).shape.numel();
    gradients_.push_back(gradient);
    sum_to_be_.push_back(parameter.partial && !sharded_);
    replicated_ += parameter.partial || whole ? 1 : 0;
  }

  V scalar() { return ops_.temporary({}, dtype_); }

  /// All gradients, with reduced copies of those that are sums to be.
  Values reduced() {
    Values all = gradients_;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!sum_to_be_[i]) continue;
      const Values from{all[i]};
      const V copy = step_.program.make(ops_.shape(from.front()), dtype_, ir::Role::gradient,
                                        {-1, ir::Module::optimizer});
      ops_.op({&from}, {copy}, 0, OpKind::tp_all_reduce);
      all[i] = copy;
    }
    return all;
  }

  /// _foreach_norm (aten/src/ATen/native/cuda/ForeachReduceOp.cu): zeros for a sum of each chunk of
  /// the longest tensor, of every tensor; the sums; a norm of each tensor's.
  Values norms() {
    constexpr std::int64_t chunk_elements = 65536;
    const Values of = reduced();
    std::int64_t chunks = 1;
    for (V v : of) chunks = std::max(chunks, (ops_.numel(v) + chunk_elements - 1) / chunk_elements);
    const Values sums{ops_.temporary({static_cast<std::int64_t>(of.size()) * chunks}, DType::f32)};
    ops_.kernel({}, sums);
    Values made;
    for (std::size_t i = 0; i < of.size(); ++i) made.push_back(scalar());
    ops_.stage({&of, &sums}, {}, 1);
    ops_.op({&sums}, made, 1);
    ops_.hold(of);
    return made;
  }

  /// _NormPartial to Replicate: squares, their sum over ranks, its root.
  V over_ranks(V norms, OpKind reduction) {
    const auto next = [&] { return ops_.temporary(ops_.shape(norms), dtype_); };
    const V squares = next();
    ops_.kernel({norms}, {squares});
    const Values from{squares}, sums{next()};
    if (reduction == OpKind::tp_all_reduce) {
      ops_.op({&from}, sums, 0, reduction);
    } else {
      ops_.op({&from}, sums, 0, OpKind::clone);
      ops_.op({&sums}, {}, 0, reduction);
    }
    const V roots = next();
    ops_.kernel(sums, {roots});
    return roots;
  }

  V norm_of_all() {
    const Values each = norms();
    // Replicate to _NormPartial: a norm by the root of the ranks; stack takes one layout of all.
    Values alike = each;
    for (std::size_t i = 0; i < replicated_; ++i) {
      alike[i] = scalar();
      ops_.kernel({each[i]}, {alike[i]});
    }
    V stacked = ops_.temporary({static_cast<std::int64_t>(each.size())}, dtype_);
    // aten/src/ATen/native/cuda/Shape.cu, CAT_ARRAY_BATCH_SIZE: what one kernel joins.
    constexpr std::int32_t joined_at_once = 128;
    const auto joined = static_cast<std::int32_t>(each.size());
    ops_.op({&alike}, {stacked}, (joined + joined_at_once - 1) / joined_at_once);
    if (sharded_) stacked = over_ranks(stacked, OpKind::all_reduce);
    stacked = over_ranks(stacked, OpKind::tp_all_reduce);
    const V total = scalar();
    ops_.kernel({stacked}, {total});
    ops_.hold(each);
    return total;
  }

  StepProgram& step_;
  bool sharded_;
  OptimizerOps ops_;
  Values gradients_;
  std::vector<bool> sum_to_be_;
  std::size_t replicated_ = 0;
  DType dtype_ = DType::f32;
};

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Clip(step, config).append();
}

}  // namespace

extern const Pass tp_clip_pass;
const Pass tp_clip_pass{
    "tp-clip",  Stage::step, "tp: the norm of gradients that are shards, replicas and sums to be",
    applies,    run,         {},
    Of::pytorch};

}  // namespace ac_advisor::passes
