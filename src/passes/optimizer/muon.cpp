// torch.optim.Muon (v2.11, _muon.py) on the matrices of the blocks, fused AdamW on all else. One
// matrix after the other; its locals live until the next one's take their names.
#include "ops.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using V = OptimizerOps::V;

constexpr int newton_schulz_steps = 5;  // DEFAULT_NS_STEPS

class Muon {
 public:
  explicit Muon(OptimizerOps& ops) : ops_(ops) {}

  void step(const OptimizedTensor& t) {
    const DType dtype = ops_.dtype(t.gradient);
    const V momentum = ops_.state(ops_.shape(t.parameter), dtype, t.parameter);
    ops_.kernel({t.gradient, momentum}, {});  // lerp_
    const V nesterov = ops_.temporary(ops_.shape(t.parameter), dtype);
    ops_.kernel({t.gradient, momentum}, {nesterov});
    rebind(update_, nesterov);
    rebind(update_, orthogonal(nesterov));
    ops_.kernel({t.parameter}, {});  // weight decay
    ops_.kernel({t.parameter, update_}, {});
  }
  void end() { rebind(update_, ir::no_id); }

 private:
  void rebind(V& name, V value) {
    if (name != ir::no_id) ops_.hold({name});
    name = value;
  }

  /// _zeropower_via_newtonschulz, of a matrix or of its transpose, whichever is wider than high.
  V orthogonal(V update) {
    const ir::Shape given = ops_.shape(update);
    const std::int64_t rows = std::min(given[0], given[1]), columns = std::max(given[0], given[1]);
    V x = update;
    if (ops_.dtype(update) != DType::bf16) {
      x = ops_.temporary(given, DType::bf16);
      ops_.kernel({update}, {x});
    }
    const V norm = ops_.temporary({}, DType::bf16), clamped = ops_.temporary({}, DType::bf16);
    ops_.kernel({x}, {norm});
    ops_.kernel({norm}, {clamped});
    ops_.hold({norm});
    ops_.kernel({x, clamped}, {});  // div_
    ops_.hold({clamped});
    V gram = ir::no_id, polynomial = ir::no_id;
    for (int i = 0; i < newton_schulz_steps; ++i) {
      rebind(gram, ops_.product(x, x, {rows, rows}, columns));
      rebind(polynomial, ops_.product_added_to(gram, gram, gram, {rows, rows}, rows));
      rebind(x, ops_.product_added_to(x, polynomial, x, {rows, columns}, rows));
    }
    ops_.hold({gram, polynomial});
    return x;
  }

  OptimizerOps& ops_;
  V update_ = ir::no_id;
};

}  // namespace

void append_muon(OptimizerOps& ops, const OptimizerChoice& choice) {
  std::vector<OptimizedTensor> others;
  Muon muon(ops);
  ops.range();
  for (const OptimizedTensor& t : ops.tensors()) {
    const bool matrix = ops.shape(t.parameter).rank() == 2 && ops.module_of(t.parameter).block >= 0;
    if (!matrix)
      others.push_back(t);
    else if (t.gradient != ir::no_id)
      muon.step(t);
  }
  muon.end();
  if (!others.empty()) append_adamw_of(ops, others, choice);
}

}  // namespace ac_advisor::passes
