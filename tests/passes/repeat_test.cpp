// Micro-batches that are written after the one before them are what the passes write.
#include "passes/pipeline/repeat.hpp"

#include <doctest/doctest.h>

#include <random>

#include "ac_advisor/ir/work.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "small_model.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

bool same(const ir::Value& a, const ir::Value& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.requires_grad == b.requires_grad &&
         a.permuted == b.permuted && a.batch_at == b.batch_at && a.distributed == b.distributed &&
         a.narrow_dim == b.narrow_dim && a.version == b.version && a.storage == b.storage &&
         a.base == b.base && a.producer == b.producer && a.narrow_start == b.narrow_start;
}
bool same(const ir::Op& a, const ir::Op& b) {
  return a.kind == b.kind && a.phase == b.phase && a.kept == b.kept && a.inputs == b.inputs &&
         a.outputs == b.outputs && a.module == b.module && a.first_operand == b.first_operand &&
         a.group == b.group && a.region == b.region && a.forward == b.forward &&
         to_string(a.attributes) == to_string(b.attributes);
}
bool same(const ir::Storage& a, const ir::Storage& b) {
  return a.bytes == b.bytes && a.role == b.role && a.module == b.module;
}
template <typename T>
bool all_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return same(x, y); });
}

/// Micro-batches that were written without passes.
std::int64_t check_repeated(const model::ModelSpec& model, const StepConfig& config) {
  const auto repeated = static_cast<std::size_t>(ir::Work::repeated);
  const std::int64_t before = ir::work_done()[repeated];
  const passes::StepProgram quick = passes::build_step(model, config);
  const std::int64_t count = ir::work_done()[repeated] - before;
  std::vector<passes::PassChange> changes;
  const passes::StepProgram whole = passes::build_step_logged(model, config, changes);
  CHECK(ir::work_done()[repeated] == before + count);
  CHECK(all_same(quick.program.ops, whole.program.ops));
  CHECK(all_same(quick.program.values, whole.program.values));
  CHECK(all_same(quick.program.storages, whole.program.storages));
  CHECK(quick.program.operands == whole.program.operands);
  CHECK(quick.program.compiled.size() == whole.program.compiled.size());
  CHECK(quick.program.bodies.size() == whole.program.bodies.size());
  CHECK(quick.resident == whole.resident);
  CHECK(quick.surviving == whole.surviving);
  CHECK(quick.micro_begin == whole.micro_begin);
  CHECK(quick.losses == whole.losses);
  CHECK(quick.loss == whole.loss);
  CHECK(quick.outputs == whole.outputs);
  CHECK(quick.in_line == whole.in_line);
  CHECK(quick.regions == whole.regions);
  for (std::size_t i = 0; i < quick.parameters.size(); ++i)
    CHECK(quick.parameters[i].gradient == whole.parameters[i].gradient);
  return count;
}

StepConfig drawn(std::mt19937& random) {
  const auto one_of = [&](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  StepConfig c = small_config();
  c.layout.pp = one_of(2, 4);
  c.layout.tp = one_of(1, 1, 2);
  c.layout.world = c.layout.pp * c.layout.tp;
  c.layout.pp_rank = static_cast<std::int64_t>(random()) % c.layout.pp;
  c.layout.pp_schedule = one_of(PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe,
                                PipelineSchedule::interleaved, PipelineSchedule::interleaved);
  c.layout.pp_chunks = c.layout.pp_schedule == PipelineSchedule::interleaved ? 2 : 1;
  c.run.grad_accum = c.layout.pp * one_of(2, 3, 6);
  if (random() % 2 == 0) {
    c.layout.world *= 4;
    c.layout.shard = one_of(Sharding::fsdp2, Sharding::hsdp);
    if (c.layout.shard == Sharding::hsdp) c.layout.hsdp_shards = 2;
    c.layout.fsdp_unit = one_of(FsdpUnit::block, FsdpUnit::torchtitan);
    c.precision.reduce_dtype = one_of(DType::bf16, DType::f32);
  }
  c.memory.ac = one_of(AcMode::none, AcMode::full, AcMode::selective, AcMode::every);
  c.memory.ac_arg = c.memory.ac == AcMode::every ? 2 : 0;
  c.memory.kernels = one_of(Kernels::eager, Kernels::fused, Kernels::compiled);
  c.memory.loss = one_of(LossKind::ce, LossKind::lc_ce);
  c.memory.hold_output = false;
  c.runtime.framework = one_of(std::string("hf"), std::string("torchtitan"));
  return c;
}

}  // namespace

TEST_CASE("micro-batches written after the one before are the passes' own, over drawn pipelines") {
  std::mt19937 random(11);
  const model::ModelSpec model = untied_model(16);
  std::int64_t planned = 0, repeated = 0;
  for (int i = 0; i < (sanitized ? 100 : 400); ++i) {
    const StepConfig config = drawn(random);
    if (passes::find_exclusion(model, config) != nullptr) continue;
    CAPTURE(i);
    ++planned;
    repeated += check_repeated(model, config);
  }
  CHECK(planned > (sanitized ? 15 : 60));
  CHECK(repeated > 4 * planned);  // no pass of most
}

TEST_CASE(
    "of an interleaved pipeline at most four of a rank's micro-batches are written by passes") {
  StepConfig c = small_config();
  c.layout.pp = c.layout.world = 4;
  c.layout.pp_rank = 1;
  c.layout.pp_schedule = PipelineSchedule::interleaved;
  c.layout.pp_chunks = 2;
  c.run.grad_accum = 32;
  c.memory.hold_output = false;
  CHECK(check_repeated(untied_model(16), c) >= passes::micro_batches_written(c) - 4);
}

}  // namespace ac_advisor::test
