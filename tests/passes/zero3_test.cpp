// DeepSpeed's ZeRO 3: what a rank keeps, and what a micro-batch gathers; tests/oracle has real
// steps.
#include <doctest/doctest.h>

#include <algorithm>

#include "passes/sharding/zero3_fetches.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using passes::FetchAction;
using passes::ModuleCall;
using Kind = FetchAction::Kind;

StepConfig over(std::int64_t world) {
  StepConfig c = small_config();
  c.layout.shard = Sharding::zero3;
  c.layout.world = world;
  return c;
}

std::int64_t resident_bytes(const passes::StepProgram& step, ir::Role role) {
  std::int64_t bytes = 0;
  for (ir::ValueId v : step.resident)
    if (const ir::Storage& s = step.program.storage(step.program.storage_of(v)); s.role == role)
      bytes += s.bytes;
  return bytes;
}

ModuleCall call(std::int16_t module, std::vector<std::size_t> parameters) {
  return {{module, ir::Module::q_proj}, std::move(parameters)};
}

}  // namespace

TEST_CASE("zero3: a rank keeps 2 bytes of each part, 2 of its gradient, 12 of master and moments") {
  const passes::StepProgram step = passes::build_step(small_model(), over(3));
  std::int64_t parts = 0;
  for (const passes::Parameter& parameter : step.parameters)
    parts += (step.program.value(parameter.value).shape.numel() + 2) / 3;
  CHECK(resident_bytes(step, ir::Role::parameter) == 2 * parts);
  CHECK(resident_bytes(step, ir::Role::gradient) == 2 * parts);
  CHECK(resident_bytes(step, ir::Role::communication) == 1'000'000'000);
  // A master and two moments; a step counter.
  CHECK(resident_bytes(step, ir::Role::optimizer_state) == 12 * parts + 4);
}

TEST_CASE(
    "zero3: several parameters are copied out at the first wait, their buffer goes at the last") {
  // Limits that take one call's two parameters ahead.
  passes::Zero3Fetches fetches({10, 20, 30}, {false, false, false},
                               {call(0, {}), call(1, {0}), call(2, {1}), call(3, {2})},
                               {25, 1000, 0});
  CHECK(fetches.fetch(call(0, {}), true) == std::vector<FetchAction>{{Kind::gather, 0, {0, 1}}});
  CHECK(fetches.fetch(call(1, {0}), true) ==
        std::vector<FetchAction>{{Kind::split, 0, {0, 1}}, {Kind::gather, 1, {2}}});
  CHECK(fetches.release(call(1, {0}), true) == std::vector<FetchAction>{{Kind::free, -1, {0}}});
  CHECK(fetches.fetch(call(2, {1}), true) == std::vector<FetchAction>{{Kind::drop, 0, {0, 1}}});
}

TEST_CASE("zero3: nothing is gathered ahead beyond the limit of live elements") {
  passes::Zero3Fetches fetches({10, 20}, {false, false}, {call(0, {0}), call(1, {1})}, {25, 10, 0});
  CHECK(fetches.fetch(call(0, {0}), true) == std::vector<FetchAction>{{Kind::gather, 0, {0}}});
  CHECK(fetches.release(call(0, {0}), true) == std::vector<FetchAction>{{Kind::free, -1, {0}}});
  CHECK(fetches.fetch(call(1, {1}), true) == std::vector<FetchAction>{{Kind::gather, 1, {1}}});
}

TEST_CASE("zero3: what the trace uses again within the reuse distance is kept") {
  const std::vector<ModuleCall> trace{call(0, {0}), call(1, {1}), call(0, {0})};
  passes::Zero3Fetches near({10, 20}, {false, false}, trace, {0, 1000, 21});
  CHECK(near.fetch(trace[0], true).size() == 1);
  CHECK(near.release(trace[0], true).empty());
  passes::Zero3Fetches far({10, 20}, {false, false}, trace, {0, 1000, 20});
  CHECK(far.fetch(trace[0], true).size() == 1);
  CHECK(far.release(trace[0], true) == std::vector<FetchAction>{{Kind::free, -1, {0}}});
}

TEST_CASE("zero3: without a trace nothing is gathered ahead, and all goes after its module") {
  passes::Zero3Fetches fetches({10, 20}, {true, false}, {});
  const ModuleCall both = call(0, {0, 1}), after = call(1, {1});
  CHECK(fetches.fetch(both, true) == std::vector<FetchAction>{{Kind::gather, 0, {1}}});
  CHECK(fetches.release(both, true) ==
        std::vector<FetchAction>{{Kind::free, -1, {0}}, {Kind::free, -1, {1}}});
  CHECK(fetches.fetch(after, true) == std::vector<FetchAction>{{Kind::gather, 1, {1}}});
  CHECK(fetches.fetch(both, true) == std::vector<FetchAction>{{Kind::gather, 2, {0}}});
}

TEST_CASE("zero3: a frozen weight that a recomputation gathered goes with the module that waits") {
  // Backward enters call 1 and recomputes call 0, whose weight the trace uses once more.
  const std::vector<ModuleCall> trace{call(1, {1}), call(0, {0}), call(0, {0})};
  const auto freed_with = [&](std::vector<bool> frozen) {
    passes::Zero3Fetches fetches({10, 20}, {false, false}, trace, {0, 1000, 1000}, frozen);
    CHECK(fetches.fetch(trace[0], false).size() == 1);
    CHECK(fetches.fetch(trace[1], true, /*recomputing=*/true).size() == 1);
    CHECK(fetches.release(trace[1], true).empty());
    return fetches.release(trace[0], false);
  };
  const FetchAction own{Kind::free, -1, {1}}, recomputed{Kind::free, -1, {0}};
  CHECK(freed_with({}) == std::vector<FetchAction>{own});
  CHECK(freed_with({true, false}) == std::vector<FetchAction>{own, recomputed});
}

}  // namespace ac_advisor::test
