#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"

using namespace ac_advisor;

TEST_CASE("a sequence beyond the model's positions is told once") {
  model::ModelSpec m;
  m.max_positions = 2048;
  StepConfig c;
  c.run.seq = 2048;
  CHECK(advise::model_warnings(m, c).empty());
  c.run.seq = 2049;
  REQUIRE(advise::model_warnings(m, c).size() == 1);
  CHECK(advise::model_warnings(m, c)[0].find("--seq 2049 is beyond the model's "
                                             "max_position_embeddings, 2048") == 0);
  m.max_positions = 0;  // not told
  CHECK(advise::model_warnings(m, c).empty());
}

TEST_CASE("experts that FSDP2 pads to its ranks are told") {
  model::ModelSpec m;
  m.moe.emplace().experts = 8;
  StepConfig c;
  c.layout.shard = Sharding::fsdp2;
  c.layout.world = 64;  // a part of an expert cannot be: 8 are padded to 64
  REQUIRE(advise::model_warnings(m, c).size() == 1);
  CHECK(
      advise::model_warnings(m, c)[0] ==
      "8 experts of a layer are sharded over 64 ranks by their first dimension, and padded to 64: "
      "each rank gathers and stores 8.0 times their size; shard over at most 8 ranks (--shard "
      "hsdp:8), or share experts with --ep");
  c.layout.world = 8;
  CHECK(advise::model_warnings(m, c).empty());
  c.layout.world = 64;
  c.layout.shard = Sharding::hsdp;
  c.layout.hsdp_shards = 8;
  CHECK(advise::model_warnings(m, c).empty());
  c.layout.shard = Sharding::ddp;
  CHECK(advise::model_warnings(m, c).empty());
}

TEST_CASE("a dtype of the file that differs from the planned one is told once") {
  model::ModelSpec m;
  StepConfig c;
  m.reading.dtype = "bfloat16";
  CHECK(advise::model_warnings(m, c).empty());
  for (const char* other : {"float16", "float32"}) {
    m.reading.dtype = other;
    REQUIRE(advise::model_warnings(m, c).size() == 1);
    CHECK(advise::model_warnings(m, c)[0] ==
          std::string("the configuration's dtype is ") + other +
              ", parameters are planned in bfloat16; override with --param-dtype");
  }
  c.precision.param_dtype = DType::f32;
  CHECK(advise::model_warnings(m, c).empty());
  m.reading.dtype = "auto";
  CHECK(advise::model_warnings(m, c).empty());
}
