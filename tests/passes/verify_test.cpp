#include "ac_advisor/passes/verify.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ac_advisor/ir/op_table.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

/// Every test of this binary verifies what it builds, after every pass.
const bool verifying = passes::verifies_passes() = true;

std::string found(const passes::StepProgram& step) {
  try {
    passes::verify(step);
    passes::verify(step, passes::make_schedule(step));
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "a program";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The first op of backward, which reads what the forward saved.
std::size_t first_of_backward(const passes::StepProgram& step) {
  std::size_t i = 0;
  while (step.program.ops[i].phase != ir::Phase::backward) ++i;
  return i;
}

}  // namespace

TEST_CASE("verify takes a step with checkpoints, and finds what breaks it") {
  CHECK(verifying);
  const passes::StepProgram step = build(AcMode::full);
  CHECK(found(step) == "a program");

  passes::StepProgram broken = step;
  broken.program.operands[5] = static_cast<ir::ValueId>(broken.program.values.size());
  CHECK(says(found(broken), "is not there"));

  broken = step;
  broken.program.values.back().storage = static_cast<ir::StorageId>(broken.program.storages.size());
  CHECK(says(found(broken), "which is not there"));

  broken = step;
  std::swap(broken.program.ops[1], broken.program.ops[first_of_backward(step)]);
  CHECK(says(found(broken), "reads value"));

  broken = step;
  broken.program.ops[0].attributes = ir::Product{};
  CHECK(says(found(broken), "attributes of another kind"));

  broken = step;
  broken.program.ops[first_of_backward(step)].phase = ir::Phase::forward;
  CHECK(says(found(broken), "of an earlier phase"));
}

TEST_CASE("verify finds a storage that is read after its end, and one that never ends") {
  const passes::StepProgram step = build(AcMode::none);
  passes::Schedule schedule = passes::make_schedule(step);
  CHECK_NOTHROW(passes::verify(step, schedule));

  // What dies last dies with the first op instead.
  const ir::StorageId last = schedule.freed.back();
  passes::Schedule early = schedule;
  early.freed.pop_back();
  early.freed.insert(early.freed.begin(), last);
  for (std::size_t i = 1; i + 1 < early.free_begin.size(); ++i) ++early.free_begin[i];
  CHECK_THROWS_WITH_AS(passes::verify(step, early), doctest::Contains("is not alive"),
                       std::logic_error);

  passes::Schedule never = schedule;
  never.freed.pop_back();
  for (std::int32_t& begin : never.free_begin)
    begin = std::min(begin, static_cast<std::int32_t>(never.freed.size()));
  CHECK_THROWS_WITH_AS(passes::verify(step, never), doctest::Contains("outlives the step"),
                       std::logic_error);
}

TEST_CASE("verify finds an op before its phase, whatever its name") {
  for (const ir::OpKind kind : {ir::OpKind::copy, ir::OpKind::bucket_copy}) {
    CAPTURE(ir::row(kind).name);
    passes::StepProgram broken = build(AcMode::none);
    ir::Op& op = broken.program.ops[first_of_backward(broken)];
    op.kind = kind;
    op.attributes = ir::row(kind).attributes;
    op.phase = ir::Phase::forward;
    CHECK(says(found(broken), "of an earlier phase"));
  }
}

TEST_CASE("verify finds what a step leaves and does not say, or the next one does not find") {
  const passes::StepProgram step = build(AcMode::none);
  const passes::Schedule schedule = passes::make_schedule(step);
  const auto says_now = [&](const passes::StepProgram& broken, const char* what) {
    CHECK_THROWS_WITH_AS(passes::verify(broken, schedule), doctest::Contains(what),
                         std::logic_error);
  };
  passes::StepProgram silent = step;
  REQUIRE_FALSE(silent.surviving.empty());
  silent.surviving.clear();
  says_now(silent, "outlives the step, which does not say so");

  // The largest of what ends in the step.
  const auto bytes = [&](ir::StorageId s) { return step.program.storage(s).bytes; };
  const ir::StorageId large =
      *std::max_element(schedule.freed.begin(), schedule.freed.end(),
                        [&](ir::StorageId a, ir::StorageId b) { return bytes(a) < bytes(b); });
  ir::ValueId in_large = 0;
  while (step.program.storage_of(in_large) != large) ++in_large;
  passes::StepProgram promised = step;
  promised.surviving.push_back(in_large);
  says_now(promised, "is to outlive the step, and ends in it");

  // The loss is found as something that is larger; what is carried ends in the step.
  REQUIRE(step.loss != ir::no_id);
  passes::StepProgram larger = step;
  larger.carried.push_back({step.loss, in_large});
  says_now(larger, "bytes are carried");
  passes::StepProgram gone = step;
  gone.carried.push_back({in_large, in_large});
  says_now(gone, "is carried, and does not outlive the step");
}

}  // namespace ac_advisor::test
