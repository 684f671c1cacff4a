#include "trace_experts.hpp"

#include <limits>

namespace ac_advisor::passes::compile {

using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

bool trace_experts(Tracer& tracer, const ir::Program& program, const Op& op,
                   const TracedValues& values) {
  const bool reorders = op.module.leaf == ir::Module::mlp &&
                        (op.kind == OpKind::histc || op.kind == OpKind::sort ||
                         op.kind == OpKind::index);  // TorchTitan's TokenReorderer
  if (op.module.leaf != ir::Module::router && op.module.leaf != ir::Module::experts && !reorders)
    return false;
  const auto in = [&](std::size_t i) { return values.of(program.input(op, i)); };
  const ir::Value& result = program.value(program.output(op, 0));
  const auto set = [&](Tensor t) { values.set(program.output(op, 0), t); };
  const auto set_best = [&](const Tracer::Best& best) {
    set(best.values);
    values.set(program.output(op, 1), best.places);
  };
  switch (op.kind) {
    case OpKind::softmax:
      set(tracer.softmax(in(0)));
      return true;
    case OpKind::topk:
      set_best(tracer.topk(in(0), ir::attributes<ir::TopK>(op).k));
      return true;
    case OpKind::sort:
      set_best(tracer.sort(in(0)));
      return true;
    case OpKind::sum:
      if (ir::attributes<ir::Sum>(op).over == ir::SumOver::experts)
        set(tracer.sum_of_experts(in(0),
                                  program.value(program.input(op, 0)).shape[0] / result.shape[0]));
      else
        set(tracer.row_sum(in(0), result.shape));
      return true;
    case OpKind::div: {
      const Tensor a = in(0), b = in(1);
      set(tracer.divided(a, b));
      return true;
    }
    case OpKind::clone: {  // of what autograd saves, or of groups, for each one's experts
      const Tensor x = in(0);
      set(tracer.shape(x) == result.shape ? tracer.alias(x)
                                          : tracer.expanded_groups(x, result.shape.back()));
      return true;
    }
    case OpKind::floor_divide:
      set(tracer.floor_divide(in(0), ir::attributes<ir::FloorDivide>(op).divisor));
      return true;
    case OpKind::index: {
      const Tensor x = in(0), places = in(1);
      set(tracer.rows_at(x, places));
      return true;
    }
    case OpKind::gather: {
      const Tensor x = in(0), places = in(1);
      set(tracer.gather(x, places));
      return true;
    }
    case OpKind::histc:
      set(tracer.histc(in(0), result.shape.back()));
      return true;
    case OpKind::cumsum:
      set(tracer.cumsum(in(0)));
      return true;
    case OpKind::grouped_mm: {
      const Tensor rows = in(0), weight = in(1), offsets = in(2);
      set(tracer.grouped_product(rows, weight, offsets));
      return true;
    }
    case OpKind::empty:
      set(tracer.empty(result.shape, result.dtype));
      return true;
    case OpKind::arange:
      set(tracer.iota(result.shape[0]));
      return true;
    case OpKind::index_put: {
      const Tensor into = in(0), places = in(1), written = in(2);
      set(tracer.placed(into, places, written));
      return true;
    }
    case OpKind::scatter:  // a one for the best group
      set(tracer.one_of(in(1), result.shape.back()));
      return true;
    case OpKind::fill:  // zeros that it goes into
      return true;
    case OpKind::cast: {  // a mask of groups is one of each group's experts, too
      const Tensor x = in(0);
      const bool wide = tracer.shape(x) == result.shape;
      set(tracer.convert(wide ? x : tracer.expanded_groups(x, result.shape.back()), result.dtype));
      return true;
    }
    case OpKind::compare:  // of booleans
      set(tracer.bitwise_not(in(0)));
      return true;
    case OpKind::masked_fill: {
      const Tensor x = in(0), mask = in(1);
      set(tracer.masked_fill(x, mask, -std::numeric_limits<double>::infinity()));
      return true;
    }
    case OpKind::sigmoid:
      set(tracer.sigmoid(in(0)));
      return true;
    default:
      return false;
  }
}

}  // namespace ac_advisor::passes::compile
