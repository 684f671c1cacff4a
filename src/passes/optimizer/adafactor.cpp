// transformers v5.23, optimization.py: Adafactor.step with scale_parameter=False,
// relative_step=False and no first moment, as TrainingArguments(optim="adafactor") makes it. One
// parameter after the other; its locals live until the next one's take their names.
#include "ops.hpp"

namespace ac_advisor::passes {

void append_adafactor(OptimizerOps& ops, const OptimizerChoice&) {
  using V = OptimizerOps::V;
  V wide_gradient = ir::no_id, wide_parameter = ir::no_id, update = ir::no_id;
  const auto rebind = [&](V& name, V value) {
    if (name != ir::no_id) ops.hold({name});
    name = value;
  };
  const auto scalar = [&](DType dtype) { return ops.temporary({}, dtype); };
  ops.range();
  for (const OptimizedTensor& t : ops.tensors()) {
    if (t.gradient == ir::no_id) continue;
    const ir::Shape shape = ops.shape(t.parameter);
    const bool factored = shape.rank() >= 2;
    V gradient = t.gradient, parameter = t.parameter;
    rebind(wide_gradient, ir::no_id);
    if (ops.dtype(gradient) != DType::f32) {
      wide_gradient = ops.temporary(shape, DType::f32);
      ops.kernel({gradient}, {wide_gradient});
      gradient = wide_gradient;
    }
    OptimizerOps::Values moments;
    if (factored) {
      ir::Shape row = shape, column = shape;
      row.set(shape.rank() - 1, 1);
      column.set(shape.rank() - 2, 1);
      moments = {ops.state(row, DType::f32, t.parameter),
                 ops.state(column, DType::f32, t.parameter)};
    } else {
      moments = {ops.state(shape, DType::f32, t.parameter)};
    }
    rebind(wide_parameter, ir::no_id);
    if (ops.dtype(parameter) != DType::f32) {
      wide_parameter = ops.temporary(shape, DType::f32);
      ops.kernel({parameter}, {wide_parameter});
      parameter = wide_parameter;
    }
    const V length = scalar(DType::f32);  // state["RMS"]: norm, div
    ops.kernel({parameter}, {length});
    ops.kernel({length}, {ops.state({}, DType::f32, t.parameter)});
    const V square = ops.temporary(shape, DType::f32), shifted = ops.temporary(shape, DType::f32);
    ops.kernel({gradient}, {square});
    ops.kernel({square}, {shifted});
    rebind(update, shifted);
    if (factored) {
      for (V moment : moments) {  // mul_, add_ of the mean
        ops.kernel({moment}, {});
        const V mean = ops.temporary(ops.shape(moment), DType::f32);
        ops.kernel({update}, {mean});
        ops.kernel({moment, mean}, {});
      }
      const V mean = scalar(DType::f32);  // _approx_sq_grad
      const V rows = ops.temporary(ops.shape(moments[0]), DType::f32);
      const V columns = ops.temporary(ops.shape(moments[1]), DType::f32);
      ops.kernel({moments[0]}, {mean});
      ops.kernel({moments[0], mean}, {rows});
      ops.kernel({rows}, {});  // rsqrt_
      ops.kernel({moments[1]}, {columns});
      const V product = ops.temporary(shape, DType::f32);
      ops.kernel({rows, columns}, {product});
      rebind(update, product);
    } else {
      ops.kernel({moments[0]}, {});  // mul_, add_
      ops.kernel({moments[0], update}, {});
      const V root = ops.temporary(shape, DType::f32);
      ops.kernel({moments[0]}, {root});
      rebind(update, root);
    }
    ops.kernel({update, gradient}, {});  // mul_
    const V norm = scalar(DType::f32), mean_square = scalar(DType::f32), ratio = scalar(DType::f32);
    ops.kernel({update}, {norm});
    ops.kernel({norm}, {mean_square});
    ops.kernel({mean_square}, {ratio});  // over the threshold
    ops.kernel({ratio}, {});             // clamp_
    ops.kernel({update, ratio}, {});     // div_
    ops.kernel({update}, {});            // mul_ by the learning rate
    const V negative = ops.temporary(shape, DType::f32);
    ops.kernel({update}, {negative});
    ops.kernel({parameter, negative}, {});                                   // add_
    if (parameter != t.parameter) ops.kernel({t.parameter, parameter}, {});  // p.copy_
  }
  for (V* local : {&wide_gradient, &wide_parameter, &update}) rebind(*local, ir::no_id);
}

}  // namespace ac_advisor::passes
