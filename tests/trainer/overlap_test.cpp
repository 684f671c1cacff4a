// Collectives that end late: the executor waits where it must, and not before.
#include <cmath>

#include "trainer/delayed_collectives.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/memory_tracker.hpp"
#include "trainer/run_step.hpp"

namespace ac_advisor {
namespace {

using trainer::complete;

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

std::unique_ptr<trainer::Collectives> alone(test::DelayedLog& log) {
  return test::make_delayed(trainer::make_single(), log);
}

}  // namespace

TEST_CASE(
    "with collectives that end late a step has the same bits, and touches nothing too early") {
  const auto model = model::load_model("tiny-llama");
  const auto data = test::random_tokens(model.vocab);
  for (const OptionList& sharding : std::vector<OptionList>{
           {{"--world", "2"}, {"--shard", "fsdp2"}},
           {{"--world", "2"}, {"--shard", "fsdp2"}, {"--ac", "full"}, {"--loss", "lc-ce"}},
           {{"--world", "2"}, {"--shard", "fsdp2"}, {"--grad-accum", "2"}, {"--ac", "selective"}},
           {{"--world", "4"}, {"--shard", "hsdp:2"}, {"--ac", "full"}},
           {{"--world", "2"}, {"--shard", "ddp"}},
           {{"--world", "2"}, {"--shard", "ddp"}, {"--grad-accum", "3"}},
           {{"--world", "2"}, {"--shard", "zero1"}},
           {{"--world", "2"}, {"--shard", "zero2"}, {"--ac", "full"}}}) {
    const StepConfig config = test::trainer_config(sharding);
    test::DelayedLog log;
    const test::Outcome now = test::run_steps(model, config, 2, data);
    const test::Outcome late =
        test::run_steps(model, config, 2, data, false, nullptr,
                        [&](auto inner) { return test::make_delayed(std::move(inner), log); });
    CAPTURE(shard_option(config));
    CHECK_MESSAGE(log.faults.empty(), joined(log.faults));
    CHECK(late.losses == now.losses);
    CHECK(test::bit_identical(late.gradients, now.gradients));
    CHECK(test::bit_identical(late.parameters, now.parameters));
    CHECK(late.peak == now.peak);
    CHECK(log.under_way == 0);
    // A prefetched gather beside a reduction, on each rank. tiny-llama is one bucket of DDP, and
    // ZeRO's reductions are read at once.
    const bool gathers =
        config.layout.shard == Sharding::fsdp2 || config.layout.shard == Sharding::hsdp;
    CHECK(log.most_under_way >= (gathers ? 2 : 1) * config.layout.world);
  }
}

TEST_CASE("what is read before its collective has ended is no number") {
  test::DelayedLog log;
  const at::Tensor buffer = at::ones({8});
  const auto collectives = alone(log);
  const auto begun = collectives->all_reduce(buffer, collectives->all());
  CHECK(std::isnan(buffer.sum().item<double>()));
  complete(begun);
  CHECK(buffer.sum().item<double>() == 8.0);
  CHECK(log.faults.empty());
}

TEST_CASE("what is written, freed or forgotten while its collective runs is noticed") {
  test::DelayedLog log;
  at::Tensor input = at::ones({4}), output = at::zeros({4});
  const auto collectives = alone(log);
  {
    const auto begun = collectives->reduce_scatter(input, output, collectives->all());
    input.fill_(2.0);
    complete(begun);
  }
  CHECK(joined(log.faults) == "reduce_scatter: its input was written while it ran\n");
  log.faults.clear();
  {
    const auto begun = collectives->reduce_scatter(input, output, collectives->all());
    input.reset();
    output.reset();
    complete(begun);
  }
  CHECK(joined(log.faults) ==
        "reduce_scatter: its input was freed while it ran\n"
        "reduce_scatter: its result was freed while it ran\n");
  log.faults.clear();
  const at::Tensor buffer = at::ones({4});
  {
    const auto begun = collectives->all_gather(buffer, collectives->all());
    at::Tensor(buffer).fill_(1.0);
    complete(begun);
  }
  CHECK(joined(log.faults) == "all_gather: its result was written while it ran\n");
  log.faults.clear();
  static_cast<void>(collectives->all_gather(buffer, collectives->all()));
  CHECK(joined(log.faults) == "all_gather was never waited for\n");
}

}  // namespace ac_advisor
