// litgpt's step, whose loop keeps what a forward made until the next one is done.
#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/passes/schedule.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

StepConfig config() {
  StepConfig c = small_config();
  c.run.transformer_impl = TransformerImpl::litgpt;
  c.run.seq = 300;  // chunks of 128, 128 and 44 tokens
  c.memory.wide_output = true;
  c.optimizer.kind = Optimizer::adamw_foreach;
  return c;
}
StepConfig with_adapters() {
  StepConfig c = config();
  c.adapters.rank = 8;
  c.adapters.targets = "query,value";
  c.adapters.dtype = DType::bf16;
  return c;
}

std::int64_t bytes_carried(const passes::StepProgram& step) {
  std::int64_t bytes = 0;
  for (const passes::Carried& c : step.carried) {
    bytes += step.program.bytes(c.made);
  }
  return bytes;
}
std::int64_t trained(const passes::StepProgram& step) {
  std::int64_t elements = 0;
  for (const passes::Parameter& p : step.parameters)
    if (p.trained) elements += step.program.value(p.value).shape.numel();
  return elements;
}

}  // namespace

TEST_CASE("litgpt's logits in fp32 are there until the next forward is done") {
  constexpr std::int64_t logits = 2 * 300 * 512 * 4;
  const passes::StepProgram lora = passes::build_step(small_model(), with_adapters());
  CHECK(lora.carried.size() == 3);
  CHECK(bytes_carried(lora) == logits);
  const passes::StepProgram whole = passes::build_step(small_model(), config());
  CHECK(whole.carried.size() == 1);
  CHECK(bytes_carried(whole) == logits);
  const passes::Schedule schedule = passes::make_schedule(lora);
  for (const passes::Carried& c : lora.carried) {
    const auto last = [&](ir::ValueId v) {
      return schedule.last_use[static_cast<std::size_t>(lora.program.storage_of(v))];
    };
    CHECK(last(c.made) == ir::no_id);  // it outlives the step
    CHECK(lora.program.op(last(c.before)).phase == ir::Phase::forward);
  }
}

TEST_CASE("bitsandbytes 0.41 keeps the inputs of layers in 4 bits as long as the graph") {
  StepConfig c = with_adapters();
  c.adapters.quantize = Quantization::nf4;
  c.optimizer.kind = Optimizer::paged_adamw;
  const std::size_t without = passes::build_step(small_model(), c).carried.size();
  c.adapters.saves_inputs = true;
  // Of four blocks what o, gate and up, and down are given, of three q, k and v's, as the first
  // block's needs no gradient, and the head's.
  CHECK(passes::build_step(small_model(), c).carried.size() == without + 4 * 3 + 3 + 1);
}

TEST_CASE("q, k and v of litgpt's adapters share A, and each has its rows of B") {
  // 4 blocks, hidden 64, queries 64, keys and values 32 wide.
  CHECK(trained(passes::build_step(small_model(), with_adapters())) == 4 * 8 * (2 * 64 + 64 + 32));
  StepConfig c = with_adapters();
  c.adapters.targets = "key,head";
  CHECK(trained(passes::build_step(small_model(), c)) == 4 * 8 * (64 + 32) + 8 * (64 + 512));
}

}  // namespace ac_advisor::test
