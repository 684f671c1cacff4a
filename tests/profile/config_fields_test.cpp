#include "ac_advisor/profile/config_fields.hpp"

#include <doctest/doctest.h>

#include <set>

#include "ac_advisor/model/error.hpp"
#include "profile/full_profile.hpp"

using namespace ac_advisor;

TEST_CASE("every option goes through its field and back") {
  std::vector<StepConfig> configs{StepConfig{}, test::full_profile().config};
  for (AcMode mode : {AcMode::none, AcMode::full, AcMode::selective, AcMode::attention,
                      AcMode::sqrt, AcMode::grouped, AcMode::every, AcMode::budget}) {
    StepConfig c;
    c.memory.ac = mode;
    if (mode >= AcMode::grouped && mode != AcMode::sqrt) c.memory.ac_arg = 3;
    configs.push_back(c);
  }
  for (Sharding shard : {Sharding::ddp, Sharding::zero1, Sharding::zero2, Sharding::fsdp1,
                         Sharding::fsdp2, Sharding::zero3}) {
    StepConfig c;
    c.layout.shard = shard;
    c.optimizer.kind = Optimizer::sgd;
    c.runtime.kind = Runtime::ac_trainer;
    c.memory.hold_output = false;
    configs.push_back(c);
  }
  for (const StepConfig& config : configs) {
    StepConfig read;
    for (const profile::Field& field : profile::config_fields(config)) {
      CAPTURE(field.name);
      CHECK(profile::set_config_field(read, field));
    }
    CHECK(read == config);
  }
}

TEST_CASE("field names are unique and are those of the options") {
  std::set<std::string> names;
  for (const profile::Field& field : profile::config_fields({}))
    CHECK_MESSAGE(names.insert(field.name).second, field.name);
  for (const char* name : {"batch", "seq", "grad_accum", "gpu", "world", "shard", "ac", "ac_scope",
                           "loss", "hold_output", "kernels", "optimizer", "attn", "param_dtype"})
    CHECK_MESSAGE(names.count(name) == 1, name);
}

TEST_CASE("a name that is none is told, a value that is none is refused") {
  StepConfig config;
  CHECK_FALSE(profile::set_config_field(config, {"colour", std::string("red")}));
  CHECK_THROWS_AS(profile::set_config_field(config, {"ac", std::string("half")}), UserError);
  CHECK_THROWS_AS(profile::set_config_field(config, {"ac", std::string("grouped:x")}), UserError);
  CHECK_THROWS_AS(profile::set_config_field(config, {"batch", std::string("8")}), UserError);
  CHECK_THROWS_AS(profile::set_config_field(config, {"kernels", std::int64_t{1}}), UserError);
  CHECK(config == StepConfig{});
}
