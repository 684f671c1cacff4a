// The ring of PyTorch's context parallelism (lower_context.cpp, derivatives_context.cpp) against
// its source, op by op, and what its ranks hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

StepConfig ring(const OptionList& options) {
  StepConfig config = resolve_options(options);
  config.run.batch = 2;
  config.run.seq = 64;
  return config;
}

std::int64_t count(const passes::StepProgram& step, ir::OpKind kind, ir::Phase phase) {
  return std::count_if(step.program.ops.begin(), step.program.ops.end(),
                       [&](const ir::Op& op) { return op.kind == kind && op.phase == phase; });
}

constexpr std::int64_t layers = 4;

}  // namespace

TEST_CASE("a rank gathers keys and values once, and sends the sums of their gradients each step") {
  for (const std::int64_t ranks : {2, 4}) {
    const std::string n = std::to_string(ranks);
    const StepConfig config = ring({{"--cp", n}, {"--world", n}});
    const passes::StepProgram step = passes::build_step(small_model(), config);
    using ir::OpKind;
    CHECK(count(step, OpKind::cp_all_gather, ir::Phase::forward) == layers);
    CHECK(count(step, OpKind::cp_all_gather, ir::Phase::backward) == layers);
    CHECK(count(step, OpKind::sdpa, ir::Phase::forward) == layers * ranks);
    CHECK(count(step, OpKind::sdpa_backward, ir::Phase::backward) == layers * ranks);
    CHECK(count(step, OpKind::ring_exchange, ir::Phase::backward) == layers * ranks);
    const StepConfig passed = ring({{"--cp", n}, {"--world", n}, {"--cp-method", "alltoall"}});
    const passes::StepProgram other = passes::build_step(small_model(), passed);
    CHECK(count(other, OpKind::cp_all_gather, ir::Phase::forward) == 0);
    CHECK(count(other, OpKind::ring_exchange, ir::Phase::forward) == layers * (ranks - 1));
    CHECK(count(other, OpKind::ring_exchange, ir::Phase::backward) == layers * (2 * ranks - 1));
  }
}

TEST_CASE("Ulysses exchanges q, k, v and what attention makes, and their gradients") {
  using enum ir::OpKind;
  const OptionList two{{"--cp", "2"}, {"--world", "2"}, {"--cp-method", "ulysses"}};
  const auto step_of = [&](const OptionList& more) {
    OptionList options = two;
    options.insert(options.end(), more.begin(), more.end());
    return passes::build_step(small_model(), ring(options));
  };
  const passes::StepProgram step = step_of({});
  CHECK(count(step, cp_all_to_all, ir::Phase::forward) == layers * 4);
  CHECK(count(step, cp_all_to_all, ir::Phase::backward) == layers * 4);
  CHECK(count(step, cp_all_gather, ir::Phase::forward) == layers);  // positions
  CHECK(count(step, sdpa, ir::Phase::forward) == layers);
  CHECK(count(step, cp_all_gather, ir::Phase::loss) == 2);  // losses, and counts of labels
  CHECK(count(step, cp_reduce_scatter, ir::Phase::backward) == 1);
  const passes::StepProgram kept = step_of({{"--ac", "selective"}});
  CHECK(count(kept, cp_all_to_all, ir::Phase::recompute) == layers * 4);
  CHECK(count(kept, sdpa, ir::Phase::recompute) == 0);
}

TEST_CASE("heads of keys and values that are fewer than the ranks are repeated") {
  const auto copies = [](const char* ranks) {
    const passes::StepProgram step = passes::build_step(
        small_model(), ring({{"--cp", ranks}, {"--world", ranks}, {"--cp-method", "ulysses"}}));
    return std::count_if(step.program.ops.begin(), step.program.ops.end(), [](const ir::Op& op) {
      const auto* how = std::get_if<ir::Rearrange>(&op.attributes);
      return op.phase == ir::Phase::forward && how && how->what == ir::Moved::heads_repeated;
    });
  };
  CHECK(copies("2") == 0);
  CHECK(copies("4") == layers * 2);
}

TEST_CASE("a selective policy sees a ring as one op: it is kept, and nothing of it runs again") {
  const OptionList four{{"--cp", "4"}, {"--world", "4"}};
  const auto recomputed = [&](const char* ac) {
    OptionList options = four;
    options.emplace_back("--ac", ac);
    const passes::StepProgram step = passes::build_step(small_model(), ring(options));
    return count(step, ir::OpKind::sdpa, ir::Phase::recompute);
  };
  CHECK(recomputed("full") == layers * 4);
  CHECK(recomputed("selective") == 0);
}

TEST_CASE("no rank of a long sequence holds more than the usual one, of two a hundredth at most") {
  for (const char* ac : {"none", "full", "selective"})
    for (const char* method : {"allgather", "alltoall"})
      for (const std::int64_t ranks : {2, 4, 8}) {
        const std::string n = std::to_string(ranks);
        StepConfig config =
            ring({{"--cp", n}, {"--world", n}, {"--ac", ac}, {"--cp-method", method}});
        config.run.seq = 16384;
        const auto peak = [&] {
          return advise::plan(small_model(), config, false).memory.peak_allocated;
        };
        const std::int64_t usual = peak();
        for (config.layout.cp_rank = 0; config.layout.cp_rank < ranks; ++config.layout.cp_rank) {
          CAPTURE(config.layout.cp_rank);
          CAPTURE(ranks);
          CHECK(peak() <= (ranks > 2 ? usual : usual + usual / 100));
        }
      }
}

}  // namespace ac_advisor::test
