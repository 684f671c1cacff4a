#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "passes/small_model.hpp"

namespace ac_advisor::test {

TEST_CASE("every op kind has a row of its own, a name and sensible columns") {
  for (std::size_t i = 0; i < ir::op_kind_count; ++i) {
    const ir::OpRow& row = ir::op_table()[i];
    INFO(row.name);
    CHECK(row.kind == static_cast<ir::OpKind>(i));
    CHECK(std::strlen(row.name) > 0);
    // what launches a kernel is dispatched, moves bytes or computes; what does not, does neither
    CHECK((row.launches > 0) == (row.cost != ir::CostClass::none));
    CHECK((row.launches > 0) == (row.traffic > 0));
    if (row.cost == ir::CostClass::matmul || row.cost == ir::CostClass::attention)
      CHECK(row.flops_per_output > 0);
  }
}

TEST_CASE("every kind that a model's forward uses with gradients has a derivative") {
  for (Kernels kernels : {Kernels::eager, Kernels::fused}) {
    StepConfig config = small_config();
    config.memory.kernels = kernels;
    const passes::StepProgram step = passes::build_step(small_model(), config);
    const ir::Program& p = step.program;
    for (const ir::Op& op : p.ops) {
      const auto outputs = p.outputs(op);
      const bool trained = std::any_of(outputs.begin(), outputs.end(),
                                       [&](ir::ValueId v) { return p.value(v).requires_grad; });
      if (op.phase > ir::Phase::loss || !trained) continue;
      INFO(ir::row(op.kind).name);
      CHECK((ir::row(op.kind).derive != nullptr));
    }
  }
}

TEST_CASE("a matrix product costs two operations a multiply-add") {
  ir::Program p;
  const auto x = p.make({3, 5}, DType::bf16, ir::Role::activation, {});
  const auto w = p.make({7, 5}, DType::bf16, ir::Role::parameter, {});
  const auto y = p.make({3, 7}, DType::bf16, ir::Role::activation, {});
  const ir::Op& op =
      p.op(p.emit(ir::OpKind::mm, ir::Phase::forward, {}, {x, w}, {y}, ir::Product{5}));
  CHECK(ir::flops(p, op) == 2 * 3 * 5 * 7);
  CHECK(ir::traffic_bytes(p, op) == 2 * (3 * 5 + 7 * 5 + 3 * 7));
}

TEST_CASE("an embedding reads the rows it puts out, not the whole table") {
  ir::Program p;
  const auto table = p.make({1000, 8}, DType::bf16, ir::Role::parameter, {});
  const auto ids = p.make({4}, DType::i64, ir::Role::input, {});
  const auto y = p.make({4, 8}, DType::bf16, ir::Role::activation, {});
  const ir::Op& op = p.op(p.emit(ir::OpKind::embedding, ir::Phase::forward, {}, {table, ids}, {y}));
  CHECK(ir::traffic_bytes(p, op) == 2 * (4 * 8 * 2) + 4 * 8);
}

TEST_CASE("sizes that do not fit 64 bits are an error, not a wrap-around") {
  CHECK_THROWS_AS(static_cast<void>(ir::checked_mul(std::int64_t{1} << 40, std::int64_t{1} << 40)),
                  UserError);
  CHECK_THROWS_AS(static_cast<void>(ir::Shape({1 << 30, 1 << 30, 1 << 30}).numel()), UserError);
}

TEST_CASE("a fused optimizer's traffic has what it writes in place") {
  ir::Program p;
  const auto make = [&] { return p.make({1000}, DType::f32, ir::Role::parameter, {}); };
  const auto parameter = make(), gradient = make(), first = make(), second = make();
  const ir::Op adamw = p.op(p.emit(ir::OpKind::adamw_fused, ir::Phase::optimizer, {},
                                   {parameter, gradient, first, second}, {}));
  CHECK(ir::traffic_bytes(p, adamw) == 4000.0 * (4 + 3));  // all are read, the gradient stays
  const ir::Op sgd =
      p.op(p.emit(ir::OpKind::sgd_fused, ir::Phase::optimizer, {}, {parameter, gradient}, {}));
  CHECK(ir::traffic_bytes(p, sgd) == 4000.0 * (2 + 1));
}

}  // namespace ac_advisor::test
