#include "advise/room.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "advise/planned.hpp"

using namespace ac_advisor;

namespace {

/// A device that leaves PyTorch's allocator about `limit` bytes: 98 % of it are no margin.
simulate::Device device_with(std::int64_t limit) {
  simulate::Device d = simulate::find_device("h100-80gb");
  constexpr std::int64_t nccl = std::int64_t{256} << 20;
  d.usable_bytes =
      static_cast<std::int64_t>(static_cast<double>(limit + d.context_bytes + nccl) / 0.98);
  return d;
}

struct Step {
  StepConfig config = resolve_options({{"--batch", "2"},
                                       {"--seq", "2048"},
                                       {"--ac", "full"},
                                       {"--world", "8"},
                                       {"--shard", "fsdp2"},
                                       {"--held-until", "backward"}});
  passes::StepProgram program = passes::build_step(model::load_model("llama-3.2-1b"), config);
  passes::Schedule schedule = passes::make_schedule(program);

  [[nodiscard]] advise::Room within(std::int64_t limit) const {
    const simulate::Device device = device_with(limit);
    return advise::room_of(program, schedule, advise::memory_model(device, config), device, config,
                           true);
  }
};

}  // namespace

TEST_CASE("a step fits, fits by releasing what is cached, or does not fit, as the limit falls") {
  const Step step;
  const advise::Room free = step.within(std::int64_t{70} << 30);
  CHECK(free.fit.fits);
  CHECK_FALSE(free.fit.pressure);
  CHECK(std::string(to_string(free.fit)) == "fits");
  const std::int64_t reserved = free.walk.peak_reserved;
  std::int64_t allocated = 0;
  for (const simulate::AllocatorStep& s : free.walk.steps)
    allocated = std::max(allocated, s.peak_allocated);
  REQUIRE(reserved > allocated + (std::int64_t{64} << 20));

  const advise::Room tight = step.within(reserved - (std::int64_t{32} << 20));
  REQUIRE(tight.fit.pressure);
  CHECK(tight.fit.fits);
  CHECK(std::string(to_string(tight.fit)) == "fits_by_releasing");
  CHECK(tight.fit.pressure->unlimited_reserved == reserved);
  CHECK(tight.walk.peak_reserved <= tight.fit.limit());
  CHECK(tight.fit.required <= tight.fit.usable);
  std::int64_t retries = 0;
  for (const simulate::AllocatorStep& s : tight.walk.steps) retries += s.retries;
  CHECK(retries > 0);
  CHECK(tight.fit.pressure->expandable_reserved);

  constexpr std::int64_t lacking = std::int64_t{512} << 20;
  const advise::Room none = step.within(allocated - lacking);
  REQUIRE(none.fit.pressure);
  CHECK_FALSE(none.fit.fits);
  CHECK(std::string(to_string(none.fit)) == "does_not_fit");
  CHECK(none.fit.pressure->excess == allocated - none.fit.limit());
  CHECK(none.fit.required == allocated + none.fit.beside());
  CHECK(none.fit.pressure->refused > 0);
  CHECK_FALSE(none.fit.pressure->phase.empty());
}

TEST_CASE("what the allocator does under pressure is in the JSON, and read back") {
  profile::Profile p = advise::plan(model::load_model("tiny-llama"),
                                    resolve_options({{"--batch", "1"}, {"--seq", "64"}}));
  p.fit.pressure = profile::Pressure{90, 3, 12, 0.012, 70, 0, 0, "", "", ""};
  const profile::Profile q = profile::from_json(profile::to_json(p), "p.json");
  REQUIRE(q.fit.pressure);
  CHECK(q.fit.pressure->unlimited_reserved == 90);
  CHECK(q.fit.pressure->retries == 3);
  CHECK(q.fit.pressure->released_segments == 12);
  CHECK(q.fit.pressure->expandable_reserved == 70);
  CHECK(q.fit.pressure->refused == 0);
  p.fit.pressure->refused = 5;
  p.fit.pressure->op = "mm";
  CHECK(profile::from_json(profile::to_json(p), "p.json").fit.pressure->op == "mm");
}

TEST_CASE(
    "an engine beside the trainer takes its share, and completions that it writes have to fit") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const OptionList grpo{{"--framework", "trl"},
                        {"--task", "grpo"},
                        {"--prompt", "512"},
                        {"--seq", "1024"},
                        {"--batch", "4"}};
  const auto planned = [&](const OptionList& more) {
    OptionList all = grpo;
    all.insert(all.end(), more.begin(), more.end());
    return advise::plan(model, resolve_options(all)).fit;
  };
  const profile::Fit served = planned({{"--rollout", "served"}}),
                     beside = planned({{"--rollout", "vllm:0.25"}}), alone = planned({});
  CHECK(served.engine == 0);
  CHECK(served.generation == 0);
  CHECK(beside.engine == beside.usable / 4);
  CHECK(beside.required == served.required + beside.engine);
  CHECK_FALSE(planned({{"--rollout", "vllm:0.9"}}).fits);
  CHECK(alone.required == served.required);  // writing needs less than the step
  // 512 micro-batches of 4 rows: 2048 x 1024 tokens of 16 layers' keys and values, 8 heads of 64 in
  // fp32, are 128 GiB
  const profile::Fit many = planned({{"--grad-accum", "512"}});
  CHECK(many.generation > std::int64_t{128} << 30);
  CHECK(many.required == many.generation + many.beside());
  CHECK_FALSE(many.fits);
}
