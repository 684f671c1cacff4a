// Executor::begin on programs that are written out here: when the executor waits for a collective,
// down to the storages that no op touches any more.
#include "trainer/executor.hpp"

#include <chrono>
#include <thread>

#include "trainer/delayed_collectives.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor {
namespace {

using ir::OpId;
using ir::StorageId;
using ir::ValueId;

/// Ops that fill a tensor of four numbers each, with 1, 2, 3, …, and read nothing.
struct Fills {
  explicit Fills(int ops) {
    ir::Program& p = step.program;
    for (int i = 0; i < ops; ++i) {
      const ValueId v = p.make({4}, DType::f32, ir::Role::activation, {});
      p.emit(ir::OpKind::fill, ir::Phase::forward, {}, {}, {v}, ir::Number{i + 1.0});
    }
    step.micro_begin = {0};
    schedule.free_begin.assign(static_cast<std::size_t>(ops) + 1, 0);
    schedule.last_use.assign(p.storages.size(), ir::no_id);
  }
  /// The one storage that ends in the step.
  void free_after(OpId op, StorageId storage) {
    schedule.freed = {storage};
    for (std::size_t next = static_cast<std::size_t>(op) + 1; next < schedule.free_begin.size();
         ++next)
      schedule.free_begin[next] = 1;
    schedule.last_use[static_cast<std::size_t>(storage)] = op;
  }

  passes::StepProgram step;
  passes::Schedule schedule;
};

/// Runs `program` once; `after(op, executor)` is called after each op and its frees.
void run(const Fills& program, trainer::Collectives& collectives,
         const std::function<void(OpId, trainer::Executor&)>& after,
         const std::function<void(trainer::Executor&)>& at_end = {}) {
  const StepConfig config;
  const auto backend = trainer::make_cpu_backend();
  trainer::MemoryTracker::install();
  trainer::MemoryTracker tracker;
  trainer::Executor executor(program.step, program.schedule, config, *backend, tracker,
                             collectives);
  executor.set_observer([&](OpId op) { after(op, executor); });
  static_cast<void>(executor.run([](std::int64_t, const std::vector<at::Tensor>&) {},
                                 [](std::int64_t, double) {}));
  if (at_end) at_end(executor);
}

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

}  // namespace

TEST_CASE("a storage that is freed unread waits for its collective first, and not before") {
  Fills program(3);
  program.free_after(2, 0);
  test::DelayedLog log;
  const auto collectives = test::make_delayed(trainer::make_single(), log);
  std::vector<std::int64_t> under_way;  // after each op
  run(program, *collectives, [&](OpId op, trainer::Executor& executor) {
    if (op == 0)
      executor.begin(collectives->all_reduce(executor.tensor(0), collectives->all()), {0});
    under_way.push_back(log.under_way);
  });
  CHECK(under_way == std::vector<std::int64_t>{1, 1, 0});
  CHECK_MESSAGE(log.faults.empty(), joined(log.faults));
}

TEST_CASE("a mark that is set when a step's inputs are there is one of the step's") {
  const Fills program(1);
  const StepConfig config;
  const auto backend = trainer::make_cpu_backend();
  const auto collectives = trainer::make_single();
  trainer::MemoryTracker::install();
  trainer::MemoryTracker tracker;
  trainer::Executor executor(program.step, program.schedule, config, *backend, tracker,
                             *collectives);
  std::size_t inputs = 0, first_op = 0;
  executor.set_observer([&](OpId) { first_op = backend->mark(); });
  for (int step = 0; step < 2; ++step) {
    static_cast<void>(executor.run(
        [&](std::int64_t, const std::vector<at::Tensor>&) {
          inputs = backend->mark();
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        },
        [](std::int64_t, double) {}));
    CHECK(inputs < first_op);
    CHECK(backend->seconds(inputs, first_op) >= 0.02);
  }
}

TEST_CASE("a collective of two storages has ended when either of them is freed") {
  for (const StorageId freed : {0, 1}) {
    Fills program(3);
    program.free_after(2, freed);
    test::DelayedLog log;
    const auto collectives = test::make_delayed(trainer::make_single(), log);
    run(program, *collectives, [&](OpId op, trainer::Executor& executor) {
      if (op == 1)
        executor.begin(
            collectives->reduce_scatter(executor.tensor(0), executor.tensor(1), collectives->all()),
            {0, 1});
    });
    CAPTURE(freed);
    CHECK(log.begun == 1);
    CHECK(log.under_way == 0);
    CHECK_MESSAGE(log.faults.empty(), joined(log.faults));
  }
}

TEST_CASE("a step ends when the collectives do that are still under way") {
  const Fills program(2);
  test::DelayedLog log;
  const auto collectives = test::make_delayed(trainer::make_single(), log);
  run(
      program, *collectives,
      [&](OpId op, trainer::Executor& executor) {
        if (op == 1)
          executor.begin(collectives->all_reduce(executor.tensor(1), collectives->all()), {1});
      },
      [&](trainer::Executor& executor) {
        CHECK(log.begun == 1);
        CHECK(log.under_way == 0);
        CHECK(at::equal(executor.tensor(1), at::full({4}, 2.0F)));  // and no NaN any more
      });
  CHECK_MESSAGE(log.faults.empty(), joined(log.faults));
}

}  // namespace ac_advisor
