// torch.nn.utils.clip_grad_norm_ with foreach, PyTorch v2.11, torch/nn/utils/clip_grad.py. Of
// DTensors each norm is of its shard, so that the norms of sharded gradients are parts of a sum
// over ranks, those of replicas are not (torch/distributed/tensor/_ops/_math_ops.py, _NormPartial);
// their vector is reduced, over one dimension of the mesh after the other. A norm of something that
// is a sum to be needs the sum: a copy of it is reduced, for the norms and again for the product,
// which is then the copy's. TorchTitan's own function (v0.2.2, distributed/utils.py) calls these,
// and reduces the square of the norm over the stages of a pipeline, in place. With --ep it takes
// the experts' norm, on their own mesh, apart from that of the rest, and adds their squares.
#include <algorithm>
#include <cstdint>

#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"
#include "passes/sharding/fsdp2_buffers.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using model::ModelSpec;
using V = OptimizerOps::V;
using Values = OptimizerOps::Values;

/// The trainer has made gradients like their parameters before: tensor_parallel.cpp.
bool reduces_later(const StepConfig& c) {
  return c.layout.tp > 1 && !c.layout.gathers() && c.runtime.kind != Runtime::ac_trainer;
}

class Clip {
 public:
  Clip(StepProgram& step, const StepConfig& config)
      : step_(step),
        layout_(config.layout),
        sharded_(config.layout.gathers()),
        shards_of_experts_(fsdp_shards(config) / config.layout.ep),
        reduces_(reduces_later(config)),
        ops_(step) {
    std::size_t i = 0;
    for (const Parameter& parameter : step.parameters)
      if (parameter.trained && parameter.tied == ir::no_id)
        add(parameter, step.optimized[i++].gradient);
  }

  void append() {
    if (all_.of.empty() && experts_.of.empty()) return;
    V total = norm_of_kinds();
    if (layout_.pp > 1) total = over_stages(total);
    for (const Gradients* kind : {&experts_, &all_}) {
      if (kind->of.empty()) continue;
      const Values by = factors(total), multiplied = reduced(*kind);
      at(ClipStage::scale).stage({&multiplied, &by}, {}, 1);
    }
    ops_.hold({total});
  }

 private:
  /// What clip_grad_norm_ takes together.
  struct Gradients {
    Values of;
    std::vector<bool> sum_to_be, replicated;
  };

  void add(const Parameter& parameter, V gradient) {
    if (gradient == ir::no_id) return;
    dtype_ = ops_.dtype(gradient);
    const std::int64_t own = step_.program.value(parameter.value).shape.numel();
    const bool whole = reduces_ && ops_.numel(gradient) > own;
    Gradients& kind = parameter.expert ? experts_ : all_;
    kind.of.push_back(gradient);
    kind.sum_to_be.push_back(reduces_ && (parameter.partial || parameter.summed));
    kind.replicated.push_back(parameter.partial || whole);
  }

  OptimizerOps& at(ClipStage stage) {
    ops_.begin_stages(static_cast<std::int32_t>(stage));
    return ops_;
  }
  V scalar() { return ops_.temporary({}, dtype_); }
  V kernel(ClipStage stage, V from, V to) {
    at(stage).kernel({from}, {to});
    return to;
  }

  /// All gradients, with reduced copies of those that are sums to be.
  Values reduced(const Gradients& kind) {
    Values all = kind.of;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!kind.sum_to_be[i]) continue;
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
  Values norms(const Gradients& kind) {
    constexpr std::int64_t chunk_elements = 65536;
    const Values of = reduced(kind);
    std::int64_t chunks = 1;
    for (V v : of) chunks = std::max(chunks, (ops_.numel(v) + chunk_elements - 1) / chunk_elements);
    const Values sums{ops_.temporary({static_cast<std::int64_t>(of.size()) * chunks}, DType::f32)};
    at(ClipStage::zeros).kernel({}, sums);
    Values made;
    for (std::size_t i = 0; i < of.size(); ++i) made.push_back(scalar());
    at(ClipStage::norms).stage({&of}, made, 1);
    at(ClipStage::sums).op({&sums, &made}, {}, 1);
    ops_.hold(of);
    return made;
  }

  /// _NormPartial to Replicate: squares, their sum over ranks, its root.
  V over_ranks(V norms, OpKind reduction) {
    const auto next = [&] { return ops_.temporary(ops_.shape(norms), dtype_); };
    const V squares = kernel(ClipStage::square, norms, next());
    const Values from{squares}, sums{next()};
    if (reduction == OpKind::tp_all_reduce) {
      ops_.op({&from}, sums, 0, reduction);
    } else {
      ops_.op({&from}, sums, 0, OpKind::clone);
      ops_.op({&sums}, {}, 0, reduction);
    }
    return kernel(ClipStage::root, sums.front(), next());
  }

  /// total_norm **= 2, all_reduce, total_norm **= 0.5.
  V over_stages(V norm) {
    const auto in_place = [&](V v) { return step_.program.on_storage_of(v, {}, dtype_, false); };
    const V square = kernel(ClipStage::square, norm, in_place(norm));
    ir::Program& p = step_.program;
    p.emit(OpKind::tp_all_reduce, ir::Phase::optimizer, {-1, ir::Module::optimizer}, {square}, {},
           ir::TpReduce{false, ir::ReducedOver::stages, static_cast<std::int32_t>(layout_.pp)});
    p.ops.back().group = p.ops[p.ops.size() - 2].group;
    return kernel(ClipStage::root, square, in_place(norm));
  }

  V norm_of(const Gradients& kind) {
    const Values each = norms(kind);
    // Replicate to _NormPartial: a norm by the root of the ranks; stack takes one layout of all.
    Values alike = each;
    for (std::size_t i = 0; i < each.size(); ++i)
      if (kind.replicated[i]) alike[i] = kernel(ClipStage::divide, each[i], scalar());
    V stacked = ops_.temporary({static_cast<std::int64_t>(each.size())}, dtype_);
    // aten/src/ATen/native/cuda/Shape.cu, CAT_ARRAY_BATCH_SIZE: what one kernel joins.
    constexpr std::int32_t joined_at_once = 128;
    const auto joined = static_cast<std::int32_t>(each.size());
    at(ClipStage::stack).op({&alike}, {stacked}, (joined + joined_at_once - 1) / joined_at_once);
    if (sharded_) stacked = over_ranks(stacked, OpKind::all_reduce);
    // The experts' mesh has a dimension for the ranks that share them out, and one for their
    // shards: one reduction where these are TorchTitan's "loss_mesh"
    // (_get_flattened_mesh_by_layout).
    if (&kind == &experts_ && shards_of_experts_ > 1 && layout_.shard == Sharding::hsdp)
      stacked = over_ranks(stacked, OpKind::all_reduce);
    if (layout_.tp > 1) stacked = over_ranks(stacked, OpKind::tp_all_reduce);
    const V total = kernel(ClipStage::norm, stacked, scalar());
    ops_.hold(each);
    return total;
  }

  V norm_of_kinds() {
    if (experts_.of.empty()) return norm_of(all_);
    const V of_experts = norm_of(experts_);
    if (all_.of.empty()) return of_experts;
    const V of_rest = norm_of(all_);
    const V squares[] = {kernel(ClipStage::square, of_experts, scalar()),
                         kernel(ClipStage::square, of_rest, scalar())};
    const V sum = scalar();
    at(ClipStage::norm).kernel({squares[0], squares[1]}, {sum});
    ops_.hold({of_experts, of_rest, squares[0], squares[1]});
    return kernel(ClipStage::root, sum, step_.program.on_storage_of(sum, {}, dtype_, false));
  }

  /// max_norm / (total + 1e-6), clamped and as it is.
  Values factors(V total) {
    const V shifted = scalar(), inverse = scalar(), coefficient = scalar(), clamped = scalar();
    kernel(ClipStage::shift, total, shifted);
    kernel(ClipStage::invert, shifted, inverse);  // a reciprocal and a product
    kernel(ClipStage::coefficient, inverse, coefficient);
    kernel(ClipStage::clamp, coefficient, clamped);
    return {clamped, coefficient};
  }

  StepProgram& step_;
  const Layout& layout_;
  bool sharded_;
  std::int64_t shards_of_experts_;
  bool reduces_;
  OptimizerOps ops_;
  Gradients experts_;  ///< that not all ranks have
  Gradients all_;      ///< others
  DType dtype_ = DType::f32;
};

/// DeepSpeed clips its partition's gradient inside its own step: sharding/zero.cpp. What is on the
/// host is clipped there: on_host.cpp. FSDP1 has a function of its own: sharding/fsdp1_clip.cpp,
/// and so has AutoModel where layers are shared and tokens are not: clip_by_layout.cpp.
bool clips(const StepConfig& config) {
  return config.optimizer.clip_grad > 0 && !config.layout.zero() &&
         config.layout.shard != Sharding::fsdp1 && config.memory.offload != Offload::parameters &&
         !config.layout.has_whole_tokens();
}
bool clips_parts(const StepConfig& config) { return clips(config) && reduces_later(config); }
bool clips_alike(const StepConfig& config) { return clips(config) && !reduces_later(config); }

void run(StepProgram& step, const ModelSpec&, const StepConfig& config) {
  Clip(step, config).append();
}

}  // namespace

extern const Pass tp_clip_pass, clip_grad_pass;
const Pass tp_clip_pass{
    "tp-clip",   Stage::step, "tp: the norm of gradients that are sums to be, or whole",
    clips_parts, run,         {},
    Of::pytorch};
const Pass clip_grad_pass{
    "clip-grad", Stage::step, "the norm of all gradients, and its temporaries", clips_alike, run,
    {},          Of::pytorch};

}  // namespace ac_advisor::passes
