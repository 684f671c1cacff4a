// NeMo AutoModel's clip_grad_norm (v0.5.0, components/training/utils.py), where gradients are
// DTensors of several meshes or placements, which torch.nn.utils.clip_grad_norm_ refuses to take
// together: a norm of each kind, its squares added up in fp32, one gradient after the other; then
// clip_grads_with_norm_ of each kind. Beside --tp --no-sp they are of three kinds.
#include <array>

#include "ac_advisor/passes/module_kind.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using V = OptimizerOps::V;
using Values = OptimizerOps::Values;

/// Split by outputs or by the vocabulary, by inputs, and what ranks of a layer have alike.
enum class Kind : std::uint8_t { columns, rows, alike };

Kind kind_of(const Parameter& parameter) {
  const ir::Module leaf = parameter.module.leaf;
  const bool whole = leaf == ir::Module::router || leaf == ir::Module::experts ||
                     module_of(ModuleKind::norm, leaf) != ir::Module::root;
  if (whole) return Kind::alike;
  return ir::split_by_inputs(leaf) ? Kind::rows : Kind::columns;
}

class Clip {
 public:
  explicit Clip(StepProgram& step) : ops_(step) {
    ops_.begin_stages(clip_stages);
    std::size_t i = 0;
    for (const Parameter& parameter : step.parameters) {
      if (!parameter.trained || parameter.tied != ir::no_id) continue;
      const V gradient = step.optimized[i++].gradient;
      if (gradient != ir::no_id)
        of_[static_cast<std::size_t>(kind_of(parameter))].push_back(gradient);
    }
  }

  void append() {
    Values norms;
    for (Kind kind : {Kind::columns, Kind::rows, Kind::alike})
      if (!of(kind).empty()) norms.push_back(norm(kind));
    if (norms.empty()) return;
    const V total = norms.size() == 1 ? norms.front() : total_of(norms);
    for (const Values& gradients : of_)
      if (!gradients.empty()) scale(gradients, total);
    const Values read{total};
    ops_.op({&read}, {}, 0, OpKind::copy_to_host);  // grad_norm.item()
    ops_.hold(norms);
  }

 private:
  [[nodiscard]] const Values& of(Kind kind) const { return of_[static_cast<std::size_t>(kind)]; }
  V made(const Values& from, const ir::Shape& shape = {}) {
    const V v = ops_.temporary(shape, DType::f32);
    ops_.kernel(from, {v});
    return v;
  }

  /// g.detach().float().abs().pow(2).sum(): g lives until the name is bound anew.
  V sum_of_squares(V gradient) {
    const ir::Shape shape = ops_.shape(gradient);
    const V wide = ops_.dtype(gradient) == DType::f32 ? gradient : made({gradient}, shape);
    const Values squares{made({made({wide}, shape)}, shape)};
    const V sum = ops_.temporary({}, DType::f32);
    ops_.op({&squares}, {sum}, reduction_launches(ops_.numel(gradient)));
    if (wide != gradient) ops_.hold({wide});
    return sum;
  }

  V norm(Kind kind) {
    V sum = made({});
    for (V gradient : of(kind)) sum = made({sum, sum_of_squares(gradient)});
    const Values reduced{sum};
    ops_.op({&reduced}, {}, 0, OpKind::all_reduce);
    if (kind != Kind::alike) ops_.op({&reduced}, {}, 0, OpKind::tp_all_reduce);
    return made({sum});
  }

  V total_of(const Values& norms) {
    V total = made({});
    for (V one : norms) total = made({total, made({one})});
    return made({total});
  }

  /// max_norm / (total + 1e-6), clamped.
  void scale(const Values& gradients, V total) {
    const V inverse = made({made({total})}), coefficient = made({inverse});
    const Values clamped{made({coefficient})};
    ops_.stage({&gradients, &clamped}, {}, 1);
    ops_.hold({coefficient});
  }

  OptimizerOps ops_;
  std::array<Values, 3> of_;
};

bool applies(const StepConfig& config) {
  return config.optimizer.clip_grad > 0 && config.layout.has_whole_tokens();
}
void run(StepProgram& step, const model::ModelSpec&, const StepConfig&) { Clip(step).append(); }

}  // namespace

extern const Pass clip_by_layout_pass;
const Pass clip_by_layout_pass{"clip-by-layout",
                               Stage::step,
                               "tp without parts of sequences: AutoModel's norms of each kind of "
                               "DTensor, and their temporaries",
                               applies,
                               run,
                               {},
                               Of::pytorch};

}  // namespace ac_advisor::passes
