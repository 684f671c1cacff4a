// --fp8: torchao's Float8Linear in the step.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/ir/float8.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using ir::OpKind;
using ir::Phase;

StepConfig with_fp8(Fp8Recipe recipe) {
  StepConfig c = small_config();
  c.precision.fp8 = recipe;
  return c;
}

std::int64_t count(const ir::Program& p, OpKind kind, Phase phase) {
  return std::count_if(p.ops.begin(), p.ops.end(),
                       [&](const ir::Op& op) { return op.kind == kind && op.phase == phase; });
}

/// Scratch of fp8_amax over [rows, columns], by the H100's 132 multiprocessors.
std::int64_t scratch(std::int64_t rows, std::int64_t columns, const ir::Shape& scales) {
  ir::Program p;
  const auto in = p.make({rows, columns}, DType::bf16, ir::Role::activation, {}),
             out = p.make(scales, DType::bf16, ir::Role::activation, {});
  const auto id = p.emit(OpKind::fp8_amax, Phase::forward, {}, {in}, {out}, ir::Float8{});
  ir::WorkspaceTarget target;
  target.sm_count = 132;
  return ir::workspace_bytes(p, p.op(id), target);
}

}  // namespace

TEST_CASE("a block's seven linear layers are products in fp8, the head is not") {
  for (const Fp8Recipe recipe : {Fp8Recipe::tensorwise, Fp8Recipe::rowwise}) {
    const ir::Program p = passes::build_step(small_model(), with_fp8(recipe)).program;
    CHECK(count(p, OpKind::scaled_mm, Phase::forward) == 4 * 7);
    CHECK(count(p, OpKind::scaled_mm, Phase::backward) == 4 * 7 * 2);
    CHECK(count(p, OpKind::fp8_amax, Phase::forward) == 4 * 7 * 2);
    CHECK(count(p, OpKind::fp8_amax, Phase::backward) == 4 * 7 * 4);
    CHECK(count(p, OpKind::mm, Phase::forward) == 1);
    CHECK(count(p, OpKind::mm, Phase::backward) == 2);
  }
}

TEST_CASE("ranks of a layer reduce the largest of what they have parts of") {
  // Tensorwise: what comes to attention, o, the MLP and down, and seven weights; backward seven
  // gradients and seven weights. Rowwise: input and weight of o and down, whose rows are split;
  // backward gradient and weight of the five others.
  const struct {
    Fp8Recipe recipe;
    std::int64_t forward, backward;
  } cases[] = {{Fp8Recipe::tensorwise, 4 + 7, 7 + 7}, {Fp8Recipe::rowwise, 2 * 2, 5 * 2}};
  for (const auto& [recipe, forward, backward] : cases) {
    StepConfig c = with_fp8(recipe);
    c.layout.tp = c.layout.world = 2;
    const ir::Program p = passes::build_step(small_model(), c).program;
    CHECK(count(p, OpKind::tp_all_reduce, Phase::forward) == 4 * forward);
    CHECK(count(p, OpKind::tp_all_reduce, Phase::backward) == 4 * backward);
  }
}

TEST_CASE("tensorwise, ranks of a layer gather inputs and gradients in 8 bits") {
  StepConfig c = with_fp8(Fp8Recipe::tensorwise);
  c.layout.tp = c.layout.world = 2;
  const ir::Program p = passes::build_step(small_model(), c).program;
  const auto in_fp8 = [&](Phase phase) {
    return std::count_if(p.ops.begin(), p.ops.end(), [&](const ir::Op& op) {
      return op.kind == OpKind::tp_all_gather && op.phase == phase &&
             p.value(p.output(op, 0)).dtype == DType::f8;
    });
  };
  CHECK(in_fp8(Phase::forward) == 4 * 2);
  CHECK(in_fp8(Phase::backward) == 4 * 2);
}

TEST_CASE(
    "compiled blocks have the same products, and copy queries', keys' and values' input for each") {
  for (const Fp8Recipe recipe : {Fp8Recipe::tensorwise, Fp8Recipe::rowwise}) {
    StepConfig config = with_fp8(recipe);
    config.memory.kernels = Kernels::compiled;
    const ir::Program p = passes::build_step(small_model(), config).program;
    CHECK(count(p, OpKind::fp8_product, Phase::forward) == 4 * 7);
    CHECK(count(p, OpKind::fp8_product, Phase::backward) == 4 * 7 * 2);
    CHECK(count(p, OpKind::scaled_mm, Phase::forward) == 0);
    CHECK(count(p, OpKind::mm, Phase::forward) == 1);
    std::set<ir::ValueId> inputs;
    for (const ir::Op& op : p.ops)
      if (op.kind == OpKind::fp8_product && op.phase == Phase::forward && op.module.block == 0)
        inputs.insert(p.input(op, 0));
    // Gate's and up's is of more operands, and is stored once (config.py: realize_reads_threshold).
    CHECK(inputs.size() == 3 + 1 + 1 + 1);
  }
}

TEST_CASE("a layer whose sizes are no multiples of 16 stays as it is") {
  model::ModelSpec model = small_model();
  model.intermediate = 168;  // 10.5 times 16
  const ir::Program p = passes::build_step(model, with_fp8(Fp8Recipe::tensorwise)).program;
  CHECK(count(p, OpKind::scaled_mm, Phase::forward) == 4 * 4);
  CHECK(count(p, OpKind::mm, Phase::forward) == 4 * 3 + 1);
}

TEST_CASE("nothing in 8 bits waits for backward: a layer saves what it was given") {
  const passes::StepProgram step =
      passes::build_step(small_model(), with_fp8(Fp8Recipe::tensorwise));
  const ir::Program& p = step.program;
  const passes::Schedule schedule = passes::make_schedule(step);
  std::int64_t operands = 0;
  for (const ir::Op& op : p.ops)
    for (ir::ValueId v : p.outputs(op)) {
      if (p.value(v).dtype != DType::f8 || op.phase != Phase::forward) continue;
      ++operands;
      const ir::OpId last = schedule.last_use[static_cast<std::size_t>(p.storage_of(v))];
      CHECK(p.op(last).phase == Phase::forward);
    }
  CHECK(operands == 4 * 7 * 2);
}

TEST_CASE("rowwise, a product of backward is multiplied by fp32 scales of its own size") {
  const ir::Program p = passes::build_step(small_model(), with_fp8(Fp8Recipe::rowwise)).program;
  for (const ir::Op& op : p.ops) {
    if (op.kind != OpKind::scaled_mm) continue;
    CHECK(op.inputs == (op.phase == Phase::forward ? 4 : 5));
    if (op.phase != Phase::backward) continue;
    const ir::ValueId scales = p.input(op, 4);
    CHECK(p.value(scales).dtype == DType::f32);
    CHECK(p.value(scales).shape.numel() == p.value(p.output(op, 0)).shape.numel());
  }
}

TEST_CASE("an amax over all of a tensor is shared by up to four blocks a multiprocessor") {
  // 512 threads a block: 2^21 elements are 4096 a thread, of which 16 a block at least: 256 blocks
  CHECK(scratch(2048, 1024, {}) == 2 * 256 + 512);
  // 12288 a thread would be 768 blocks; there are 4 x 132: 1056 bytes, and the semaphore
  CHECK(scratch(2048, 3072, {}) == 1536 + 512);
  // 255 a thread
  CHECK(scratch(255, 512, {}) == 0);
}

TEST_CASE("an amax over columns keeps a maximum of each thread, one of rows nothing") {
  // 32 threads of four columns, four rows a block: 512 rows a thread, 32 blocks of 16 each
  CHECK(scratch(2048, 1024, {1, 1024}) == 2 * 1024 * 32 * (32 * 4) + 512);
  CHECK(scratch(2048, 1024, {2048, 1}) == 0);
}

TEST_CASE("--fp8-all-gather gathers a byte a weight, and casts no weight in the step") {
  StepConfig c = with_fp8(Fp8Recipe::tensorwise);
  c.layout.world = 2;
  c.layout.shard = Sharding::fsdp2;
  c.precision.fp8_all_gather = true;
  const ir::Program p = passes::build_step(small_model(), c).program;
  CHECK(count(p, OpKind::fp8_amax, Phase::forward) == 4 * 7);       // of inputs
  CHECK(count(p, OpKind::fp8_amax, Phase::backward) == 4 * 7 * 3);  // the gradient twice, the input
  std::int64_t bytes = 0;
  for (const ir::Op& op : p.ops)
    if (op.kind == OpKind::all_gather_copy_out && op.phase == Phase::forward &&
        op.module.block == 0)
      for (ir::ValueId v : p.outputs(op)) bytes += p.bytes(v);
  // q, k, v, o of 64 x 64, 32, 32, 64; three of 64 x 160; two norms of 64 in bf16
  CHECK(bytes == 64 * (64 + 32 + 32 + 64) + 3 * 64 * 160 + 2 * 64 * 2);
}

TEST_CASE(
    "mx: a layer casts twice and multiplies once, backward casts four times for two products") {
  const ir::Program p = passes::build_step(small_model(), with_fp8(Fp8Recipe::mx)).program;
  CHECK(count(p, OpKind::mx_cast, Phase::forward) == 4 * 7 * 2);
  CHECK(count(p, OpKind::mx_cast, Phase::backward) == 4 * 7 * 4);
  CHECK(count(p, OpKind::fp8_product, Phase::forward) == 4 * 7);
  CHECK(count(p, OpKind::fp8_product, Phase::backward) == 4 * 7 * 2);
  CHECK(count(p, OpKind::mm, Phase::forward) == 1);  // the head
  for (const ir::Op& op : p.ops) {
    if (op.kind != OpKind::mx_cast) continue;
    CHECK(p.bytes(p.output(op, 0)) == p.value(p.input(op, 0)).shape.numel());
    CHECK(p.bytes(p.output(op, 1)) * 32 == p.bytes(p.output(op, 0)));
  }
}

TEST_CASE("mx: scales are laid out in tiles of 128 rows and four columns, which zeros fill up") {
  const auto laid = [](const ir::Shape& scales) {
    ir::Program p;
    ir::Float8Writer writer(p, Phase::forward, {}, false);
    const auto operand = [&] {
      const ir::Shape data{scales[0], scales[1] * 32};
      return ir::Float8Operand{p.make(data, DType::f8, ir::Role::activation, {}),
                               p.make(scales, DType::u8, ir::Role::activation, {})};
    };
    writer.mx_product(operand(), operand(), {scales[0], scales[0]}, DType::bf16, {});
    const ir::Op& op = p.ops.front();
    REQUIRE(op.kind == OpKind::mx_blocked);
    return std::pair(p.bytes(p.outputs(op).back()), ir::launches(p, op));
  };
  // Four tiles: their order is a copy, and so is turning each over.
  CHECK(laid({256, 8}) == std::pair<std::int64_t, std::int64_t>{256 * 8, 2});
  CHECK(laid({128, 8}) == std::pair<std::int64_t, std::int64_t>{128 * 8, 1});
  CHECK(laid({256, 4}) == std::pair<std::int64_t, std::int64_t>{256 * 4, 1});
  // 160 rows of five take 256 of eight: zeros, and the scales among them, before both copies.
  CHECK(laid({160, 5}) == std::pair<std::int64_t, std::int64_t>{256 * 8, 4});
  CHECK(laid({64, 2}) == std::pair<std::int64_t, std::int64_t>{128 * 4, 3});
}

TEST_CASE("mx: a product that selective keeps is not laid out again, its casts are made again") {
  StepConfig c = with_fp8(Fp8Recipe::mx);
  c.memory.ac = AcMode::selective;
  const ir::Program p = passes::build_step(small_model(), c).program;
  // Products 1, 3, 5 and 7 of a block are kept.
  CHECK(count(p, OpKind::fp8_product, Phase::recompute) == 4 * 3);
  CHECK(count(p, OpKind::mx_blocked, Phase::recompute) == 4 * 3 * 2);
  CHECK(count(p, OpKind::mx_cast, Phase::recompute) == 4 * 7 * 2);
}

TEST_CASE("mx needs a device of compute capability 10.0") {
  StepConfig c = with_fp8(Fp8Recipe::mx);
  c.device.gpu = "h100-80gb";
  CHECK_THROWS_WITH_AS(static_cast<void>(advise::plan(small_model(), c, false)),
                       doctest::Contains("such as b200"), UserError);
  c.device.gpu = "b200";
  CHECK(advise::plan(small_model(), c, false).time.step > 0);
}

TEST_CASE("a device without FP8 refuses --fp8, and says which have it") {
  StepConfig c = with_fp8(Fp8Recipe::rowwise);
  c.device.gpu = "a100-80gb";
  CHECK_THROWS_WITH_AS(static_cast<void>(advise::plan(small_model(), c, false)),
                       doctest::Contains("compute capability 8.9"), UserError);
}

TEST_CASE("products in fp8 run at the device's FP8 peak: twice that of bf16 on an H100") {
  StepConfig c = with_fp8(Fp8Recipe::tensorwise);
  const double with = advise::plan(small_model(), c, false).time.step;
  CHECK(with > 0);
  c.precision.fp8 = Fp8Recipe::none;
  // small matrices: the casts cost more than products of half the time give back
  CHECK(with > advise::plan(small_model(), c, false).time.step);
}

}  // namespace ac_advisor::test
