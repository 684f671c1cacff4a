// What a sweep costs, counted: seconds differ by machine, ops do not.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/ir/work.hpp"

namespace ac_advisor::test {
namespace {

struct Costs {
  std::size_t configurations = 0;
  ir::WorkDone work{};
  std::set<std::int64_t> micro_batches;  ///< sizes that rows have

  [[nodiscard]] std::int64_t operator[](ir::Work kind) const {
    return work[static_cast<std::size_t>(kind)];
  }
};

Costs swept(const char* name, const OptionList& typed) {
  const model::ModelSpec model = model::load_model(name);
  const advise::Resolved resolved = advise::resolve(model, typed);
  advise::Space space = advise::space_around(model, resolved.config, resolved.options);
  space.threads = 1;
  space.largest_batches = 0;
  const ir::WorkDone before = ir::work_done();
  const advise::Sweep sweep = advise::sweep(model, resolved.config, space);
  Costs costs;
  costs.configurations = sweep.configurations;
  for (std::size_t i = 0; i < ir::work_kinds; ++i) costs.work[i] = ir::work_done()[i] - before[i];
  for (const advise::Row& row : sweep.rows)
    costs.micro_batches.insert(row.profile.config.run.batch);
  return costs;
}

}  // namespace

TEST_CASE("a sweep plans each configuration once, and compiles blocks that are alike once") {
  const Costs costs = swept("llama-3.2-1b", {{"--world", "8"}, {"--batch", "2"}});
  const auto configurations = static_cast<std::int64_t>(costs.configurations);
  CHECK(configurations > 60);
  // Beside the rows, the steps of the table of savings.
  CHECK(costs[ir::Work::programs] <= configurations + 8);
  // Kept, recomputed, or recomputed but for what selective keeps; the first block's input may be
  // its own.
  const auto sizes = static_cast<std::int64_t>(costs.micro_batches.size());
  CHECK(costs[ir::Work::blocks] <= 2 * 3 * sizes);
  // The allocator's two steps (three, where DistributedDataParallel makes its buckets anew), memory
  // with and without workspaces, the clock.
  CHECK(costs[ir::Work::walked_ops] <= 6 * costs[ir::Work::ops]);
}

TEST_CASE("a sweep of pipelines writes at most three micro-batches of a program by the passes") {
  const Costs costs = swept("llama-3.1-8b", {{"--framework", "torchtitan"},
                                             {"--world", "16"},
                                             {"--batch", "1"},
                                             {"--grad-accum", "16"},
                                             {"--seq", "512"},
                                             {"--pp", "4"},
                                             {"--kernels", "eager"},
                                             {"--loss", "ce"}});
  CHECK(costs.configurations > 20);
  CHECK(costs[ir::Work::micro_batches] <= 3 * costs[ir::Work::programs]);
  CHECK(costs[ir::Work::repeated] > costs[ir::Work::programs]);
}

}  // namespace ac_advisor::test
