// The parameters of an encoder that does not run.
#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "small_model.hpp"

using namespace ac_advisor;

namespace {

model::ModelSpec with_tower() {
  model::ModelSpec m = test::small_model();
  // Three blocks of 100 x 7 and 100 elements, and one table of 5 x 300.
  m.tower = model::Tower{"siglip_vision_model", {{3, {{100, 7}, {100}}}, {1, {{5, 300}}}}};
  return m;
}

std::int64_t rounded(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

}  // namespace

TEST_CASE("a tower adds its parameters to the peak, and neither gradients nor moments") {
  const StepConfig c = test::small_config();
  const std::int64_t tower = 3 * (rounded(2 * 700) + rounded(2 * 100)) + rounded(2 * 1500);
  CHECK(advise::plan(with_tower(), c).memory.peak_allocated ==
        advise::plan(test::small_model(), c).memory.peak_allocated + tower);
  CHECK(advise::plan(with_tower(), c).parameters ==
        advise::plan(test::small_model(), c).parameters + 3 * 800 + 1500);
}

TEST_CASE("fsdp2 shards a tower's tensors by rows, padded, and does not gather what does not run") {
  StepConfig c = test::small_config();
  c.layout.world = 8;
  c.layout.shard = Sharding::fsdp2;
  // ceil(100 / 8) = 13 rows of 7 and of 1, ceil(5 / 8) = 1 row of 300
  const std::int64_t tower = 3 * (rounded(2 * 13 * 7) + rounded(2 * 13)) + rounded(2 * 300);
  CHECK(advise::plan(with_tower(), c).memory.peak_allocated ==
        advise::plan(test::small_model(), c).memory.peak_allocated + tower);
}

TEST_CASE("the result says what of a tower is planned") {
  const profile::Profile p = advise::plan(with_tower(), test::small_config());
  bool told = false;
  for (const std::string& note : p.assumptions)
    told = told || note.find(
                       "vision tower's (siglip_vision_model, projector included): they are "
                       "held, and as no images are planned they do not run") != std::string::npos;
  CHECK(told);
}
