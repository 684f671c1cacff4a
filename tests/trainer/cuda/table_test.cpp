// A GPU's kernels in whole steps, on the host: the values are those of the CPU's kernels, and the
// memory is what the planner says of a GPU. What only a GPU can show is in tests/gpu.
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/ir/tiles.hpp"
#include "ac_advisor/simulate/memory.hpp"
#include "trainer/cuda/host_cuda.hpp"
#include "trainer/cuda/steps_alike.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/kernels/cuda/cuda.hpp"
#include "trainer/kernels/cuda/device/device.hpp"
#include "trainer/refused_ops.hpp"

namespace ac_advisor {
namespace {

using test::on_cpu;
using test::oracle_model;
using test::with;

test::Outcome on_gpu(const model::ModelSpec& model, const OptionList& options, int steps = 2,
                     bool emulated = false) {
  return test::on_gpu(test::make_host_cuda, model, options, steps, emulated);
}

/// The planner's peaks for the trainer on a GPU whose allocator does not round.
simulate::MemoryTrace predicted(const model::ModelSpec& model, const OptionList& options) {
  const auto built =
      trainer::build(model, test::trainer_config(with(options, {{"--gpu", "h200"}})));
  simulate::MemoryModel unrounded;
  unrounded.round_to_512 = unrounded.workspaces = false;
  return simulate::walk_memory(built->step, built->schedule, unrounded);
}

}  // namespace

TEST_CASE("a GPU has a kernel for every op kind that the trainer runs") {
  for (const ir::OpRow& row : ir::op_table()) {
    CAPTURE(row.name);
    const bool there = trainer::cuda::kernels()[static_cast<std::size_t>(row.kind)] != nullptr;
    CHECK(there != test::refused_by_trainer(row.kind));
  }
}

TEST_CASE("a GPU's kernels train as a CPU's do: fp32, seven families, fused and eager") {
  for (const char* name :
       {"tiny-llama", "gemma2", "gemma3_text", "mistral", "phi3", "qwen2", "qwen3"})
    test::check_kernels_and_losses(test::make_host_cuda, oracle_model(name), test::fp32_steps,
                                   {1e-6, 2e-5, 1e-4});
}

TEST_CASE("a GPU's kernels train as a CPU's do: bf16 with flash attention") {
  const OptionList options{{"--param-dtype", "bf16"},
                           {"--compute-dtype", "bf16"},
                           {"--reduce-dtype", "bf16"},
                           {"--ac", "selective"}};
  // Rounding to 8 bits of mantissa at other places: far below what a wrong kernel gives.
  test::check_kernels_and_losses(test::make_host_cuda, model::load_model("tiny-llama"), options,
                                 {2e-3, 0.05, 0.05}, 1);
}

TEST_CASE("a GPU's kernels draw the same dropout, and recompute it") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* ac : {"none", "full", "grouped:2"}) {
    const OptionList options{
        {"--attn", "eager"}, {"--dropout", "0.1"}, {"--ac", ac}, {"--grad-accum", "3"}};
    CAPTURE(ac);
    CHECK(test::largest_difference(on_gpu(model, options).gradients,
                                   on_cpu(model, options).gradients) < 2e-5);
  }
}

TEST_CASE("on a GPU each storage lives as the planner says, in every mode") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* shard : {"none", "fsdp2", "zero2", "ddp"})
    for (const char* ac : {"none", "full", "selective", "attention", "grouped:2", "sqrt"})
      for (const char* loss : {"ce", "lc-ce", "chunked:24"})
        for (const char* kernels : {"eager", "fused"}) {
          const bool sharded = std::string_view(shard) != "none";
          const OptionList options{{"--ac", ac},           {"--loss", loss},
                                   {"--kernels", kernels}, {"--shard", shard},
                                   {"--attn", "eager"},    {"--world", sharded ? "3" : "1"},
                                   {"--force", ""}};
          const simulate::MemoryTrace plan = predicted(model, options);
          const test::Outcome run = on_gpu(model, options, 2, /*emulated=*/sharded);
          CAPTURE(shard);
          CAPTURE(ac);
          CAPTURE(loss);
          CAPTURE(kernels);
          CHECK(run.declared_peak == plan.peak);
          for (std::size_t phase = 0; phase < ir::phase_count; ++phase)
            if (phase != static_cast<std::size_t>(ir::Phase::backward))
              CHECK(run.declared_by_phase[phase] == plan.peak_by_phase[phase]);
        }
}

TEST_CASE("linear + cross-entropy's scratch on a GPU is what the op table says") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* dtype : {"fp32", "bf16"}) {
    const OptionList options{{"--loss", "lc-ce"},       {"--kernels", "fused"},
                             {"--param-dtype", dtype},  {"--compute-dtype", dtype},
                             {"--reduce-dtype", dtype}, {"--attn", "eager"},
                             {"--no-hold-output", ""},  {"--seq", "512"}};
    const auto built =
        trainer::build(model, test::trainer_config(with(options, {{"--gpu", "h200"}})));
    const ir::Program& p = built->step.program;
    const auto data = test::random_tokens(model.vocab);
    trainer::MemoryTracker::install();
    const auto alone = trainer::make_single();
    trainer::Rank rank(*built, *alone, data, 1, 0, test::make_host_cuda());
    rank.load_weights(nullptr);
    std::int64_t checked = 0;
    for (std::size_t i = 0; i < p.ops.size(); ++i) {
      const ir::OpKind kind = p.ops[i].kind;
      if (kind != ir::OpKind::linear_cross_entropy &&
          kind != ir::OpKind::linear_cross_entropy_backward)
        continue;
      std::int64_t most = 0;
      rank.tracker().set_watch(static_cast<ir::OpId>(i), [&] {
        std::int64_t scratch = 0;
        rank.tracker().each_live([&](std::int64_t bytes, ir::StorageId s) {
          if (s == ir::no_id) scratch += (bytes + 511) / 512 * 512;
        });
        most = std::max(most, scratch);
      });
      static_cast<void>(rank.step());
      ir::WorkspaceTarget target;
      target.trainer = true;
      CAPTURE(dtype);
      CHECK(most == ir::workspace_bytes(p, p.ops[i], target));
      ++checked;
    }
    CHECK(checked == 2);
  }
}

TEST_CASE("linear + cross-entropy launches on a GPU what the op table counts") {
  model::ModelSpec model = model::load_model("tiny-llama");
  model.vocab = 2 * ir::cuda_loss_tile_vocab + 1;  // three tiles of words
  const OptionList options{{"--loss", "lc-ce"}, {"--kernels", "fused"}, {"--attn", "eager"},
                           {"--batch", "2"},    {"--seq", "32"},        {"--gpu", "h200"}};
  const auto built = trainer::build(model, test::trainer_config(options));
  test::products() = 0;
  static_cast<void>(on_gpu(model, options, 1));
  CHECK(test::products() == 3 + 3 * 3);  // forward; logits again and two gradients
  const ir::Program& p = built->step.program;
  for (const ir::Op& op : p.ops) {
    if (op.kind == ir::OpKind::linear_cross_entropy)
      CHECK(ir::launches(p, op, true) == 3 * 2 + 2 + 1);  // two fills, the mean
    if (op.kind == ir::OpKind::linear_cross_entropy_backward)
      CHECK(ir::launches(p, op, true) == 3 * 4 + 1);  // the scale
    if (op.kind == ir::OpKind::adamw_fused)
      CHECK(ir::launches(p, op, true) ==
            trainer::cuda::device::adamw_launches(
                static_cast<std::int64_t>(built->step.parameters.size())));
  }
}

TEST_CASE("captured steps and segments train as issued ones do") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* graph : {"step", "segments"})
    for (const char* accum : {"1", "4"}) {
      const OptionList options{{"--ac", "full"},
                               {"--kernels", "fused"},
                               {"--attn", "eager"},
                               {"--dropout", "0.1"},
                               {"--grad-accum", accum}};
      CAPTURE(graph);
      CAPTURE(accum);
      const test::GraphCounts before = test::graph_counts();
      const test::Outcome issued = on_gpu(model, options, 6);
      CHECK(test::graph_counts().captured == before.captured);
      const test::Outcome replayed = on_gpu(model, with(options, {{"--cuda-graph", graph}}), 6);
      const test::GraphCounts after = test::graph_counts();
      CHECK(after.replayed - before.replayed == 4 * (after.captured - before.captured));
      CHECK((std::string_view(graph) == "step") == (after.captured - before.captured == 1));
      CHECK(replayed.losses == issued.losses);
      CHECK(test::bit_identical(replayed.parameters, issued.parameters));
    }
}

}  // namespace ac_advisor
