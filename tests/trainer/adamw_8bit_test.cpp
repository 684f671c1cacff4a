// AdamW with moments in 8 bits: against bitsandbytes' and torchao's own steps
// (tests/oracle/optimizers, written by tests/oracle/optimizer_8bit_reference.py), and the plan's
// bytes.
#include <fmt/format.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/kernels/adamw_8bit.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

using trainer::dynamic_map::Ties;

/// bitsandbytes' CPU library finds a code in a table that is coarser than the halfway points are
/// (19 of 10240 drawn numbers became the second nearest, each within a thousandth of halfway):
/// after the first step tensors are as near as that lets them be. Its GPU kernels compare exactly.
struct Case {
  const char* name;
  Ties ties;
  double apart;         ///< of tensors after the first step, and of scales
  std::int64_t unlike;  ///< codes, of 4864
};
constexpr Case cases[] = {{"adamw_8bit", Ties::down, 1e-3, 40},
                          {"adamw_8bit_torchao", Ties::up, 1e-6, 2}};

/// How many elements differ, of blocks that are not all zero: of those any code stands for zero.
std::int64_t unlike(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scales) {
  const at::Tensor each = scales.repeat_interleave(trainer::dynamic_map::block);
  return a.ne(b).logical_and(each.narrow(0, 0, a.numel()) > 1e-9).sum().item<std::int64_t>();
}

const std::vector<const char*> optimizers{"adamw-8bit", "adamw-8bit-torchao"};

}  // namespace

TEST_CASE("AdamW in 8 bits: bitsandbytes' and torchao's tensors, codes and scales are met") {
  trainer::OptimizerSettings settings;
  settings.learning_rate = 1e-2;
  for (const Case& c : cases) {
    const trainer::SafetensorsFile file(test::source_folder() + "/tests/oracle/optimizers/" +
                                        c.name + ".safetensors");
    const auto read = [&](const std::string& name) { return test::read_all(file, name); };
    CAPTURE(c.name);
    const auto is_map = [&](const char* name, const trainer::dynamic_map::Map& map) {
      const at::Tensor expected = read(name);
      return std::equal(map.begin(), map.end(), expected.const_data_ptr<float>());
    };
    CHECK(is_map("map1", trainer::dynamic_map::signed_map()));
    CHECK(is_map("map2", trainer::dynamic_map::unsigned_map()));
    int in_bytes = 0;
    for (int i = 0; i < 3; ++i) {
      const auto of = [&](const std::string& name) { return fmt::format("{}.{}", i, name); };
      CAPTURE(i);
      const at::Tensor p = read(of("begin")), end1 = read(of("codes1")), end2 = read(of("codes2"));
      const at::Tensor first = at::zeros_like(end1), second = at::zeros_like(end2);
      const bool bytes = file.has(of("scales1"));
      at::Tensor scales1, scales2;
      if (bytes) scales1 = at::zeros_like(read(of("scales1")));
      if (bytes) scales2 = at::zeros_like(read(of("scales2")));
      in_bytes += bytes ? 1 : 0;
      for (int step = 0; step < 3; ++step) {
        const at::Tensor g = read(of(fmt::format("gradient.{}", step)));
        if (bytes)
          trainer::adamw_8bit::update(p, g, {first, scales1, read("map1")},
                                      {second, scales2, read("map2")}, step + 1, settings, c.ties);
        else
          trainer::adamw_8bit::update(p, g, first, second, step + 1, settings);
        CHECK(test::largest_difference({p}, {read(of(fmt::format("after.{}", step)))}) <
              (step == 0 || !bytes ? 1e-6 : c.apart));
      }
      if (bytes) {
        CHECK(unlike(first, end1, scales1) <= c.unlike);
        CHECK(unlike(second, end2, scales2) <= c.unlike);
        CHECK(test::largest_difference({scales1, scales2},
                                       {read(of("scales1")), read(of("scales2"))}) < c.apart);
      } else {
        CHECK(test::largest_difference({first, second}, {end1, end2}) < 1e-6);
      }
    }
    CHECK(in_bytes == (c.ties == Ties::down ? 2 : 1));
  }
}

TEST_CASE("AdamW in 8 bits: predicted is measured to the byte, sharded and with adapters") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  int compared = 0;
  for (const char* optimizer : optimizers)
    for (const char* shard : {"none", "ddp", "fsdp2", "hsdp:2"})
      for (const char* lora : {"0", "16"})
        for (const char* clip : {"0", "1"}) {
          OptionList options{{"--seq", "24"},
                             {"--optimizer", optimizer},
                             {"--lora", lora},
                             {"--clip-grad", clip},
                             {"--shard", shard}};
          if (std::string_view(shard) != "none") options.emplace_back("--world", "4");
          StepConfig config;
          try {
            config = test::trainer_config(options);
            static_cast<void>(trainer::build(model, config));
          } catch (const UserError&) {
            continue;  // bitsandbytes' has no shards
          }
          const std::string label = fmt::format("{} {} {} {}", optimizer, shard, lora, clip);
          CAPTURE(label);
          const profile::Memory predicted = advise::plan(model, config).memory;
          const test::Outcome run =
              test::run_steps(model, config, 2, test::random_tokens(model.vocab), true);
          CHECK(run.peak == predicted.peak_allocated);
          CHECK(run.declared_peak == predicted.peak_excluding_workspace);
          ++compared;
        }
  CHECK(compared == 8 + 16);
}

TEST_CASE("AdamW in 8 bits trains as AdamW does, and ranks train alike") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const auto run = [&](const char* optimizer, const OptionList& more) {
    return test::run_steps(
        model,
        test::trainer_config(test::with({{"--seq", "24"}, {"--optimizer", optimizer}}, more)), 4,
        test::random_tokens(model.vocab));
  };
  const test::Outcome whole = run("adamw", {{"--batch", "4"}});
  for (const char* optimizer : optimizers) {
    CAPTURE(optimizer);
    const test::Outcome alone = run(optimizer, {{"--batch", "4"}});
    // Moments' codes are within a few percent of them: parameters stay near AdamW's, and are not
    // the same.
    const double apart = test::largest_difference(alone.parameters, whole.parameters);
    CHECK(apart > 0);
    CHECK(alone.losses.back() == doctest::Approx(whole.losses.back()).epsilon(0.01));
    const test::Outcome ddp =
        run(optimizer, {{"--batch", "1"}, {"--shard", "ddp"}, {"--world", "4"}});
    CHECK(ddp.losses.back() == doctest::Approx(alone.losses.back()).epsilon(1e-4));
  }
  const test::Outcome sharded =
      run("adamw-8bit-torchao", {{"--batch", "1"}, {"--shard", "fsdp2"}, {"--world", "4"}});
  CHECK(sharded.losses.back() == doctest::Approx(whole.losses.back()).epsilon(0.01));
}

}  // namespace ac_advisor
