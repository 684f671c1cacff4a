// Collectives among threads: what each rank gets, and that nobody waits for ever.
#include <chrono>
#include <thread>

#include "trainer/collectives/collectives.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor {
namespace {

/// Runs `work(rank's collectives)` on a thread a rank; the failures by rank.
template <typename Work>
std::vector<std::string> on_ranks(std::int64_t world, double timeout, Work work) {
  auto ranks = trainer::make_local(world, timeout);
  std::vector<std::string> failures(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        work(*ranks[r]);
      } catch (const trainer::RankFailure& failure) {
        failures[r] = std::to_string(failure.rank) + ": " + failure.what;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

}  // namespace

TEST_CASE("all-gather, reduce-scatter and all-reduce among threads are what their names say") {
  std::vector<at::Tensor> gathered(4), scattered(4), reduced(4), replicas(4);
  on_ranks(4, 20, [&](trainer::Collectives& c) {
    const auto r = static_cast<std::size_t>(c.rank());
    const auto value = static_cast<double>(r + 1);
    gathered[r] = at::zeros({4});
    gathered[r].narrow(0, c.rank() % 2 * 2, 2).fill_(value);
    complete(c.all_gather(gathered[r], {c.rank() / 2 * 2, 2, 1}));  // ranks 0 and 1, 2 and 3
    scattered[r] = at::zeros({1});
    complete(c.reduce_scatter(at::arange(4, at::kFloat) * value, scattered[r], c.all()));
    reduced[r] = at::full({5}, value);
    complete(c.all_reduce(reduced[r], c.all()));
    replicas[r] = at::full({3}, value);
    complete(c.all_reduce(replicas[r], {c.rank() % 2, 2, 2}));  // ranks 0 and 2, 1 and 3
  });
  CHECK(at::equal(gathered[0], at::tensor({1.0F, 1.0F, 2.0F, 2.0F})));
  CHECK(at::equal(gathered[3], at::tensor({3.0F, 3.0F, 4.0F, 4.0F})));
  // The average over ranks of rank's value times the part's number: (1 + 2 + 3 + 4) / 4 = 2.5.
  for (int r = 0; r < 4; ++r)
    CHECK(scattered[static_cast<std::size_t>(r)].item<float>() == 2.5F * static_cast<float>(r));
  for (const at::Tensor& t : reduced) CHECK(at::equal(t, at::full({5}, 2.5F)));
  CHECK(at::equal(replicas[0], at::full({3}, 2.0F)));  // (1 + 3) / 2
  CHECK(at::equal(replicas[3], at::full({3}, 3.0F)));  // (2 + 4) / 2
}

TEST_CASE("a reduction adds, or takes the greatest, where it is asked to") {
  std::vector<at::Tensor> sums(4), greatest(4), scattered(4);
  const auto failures = on_ranks(4, 20, [&](trainer::Collectives& c) {
    const auto r = static_cast<std::size_t>(c.rank());
    const auto value = static_cast<double>(r + 1);
    const trainer::Group neighbours{c.rank() / 2 * 2, 2, 1};
    sums[r] = at::full({2}, value);
    complete(c.all_reduce(sums[r], neighbours, trainer::Combine::sum));
    greatest[r] = at::full({2}, r == 0 ? 9.0 : -value);
    complete(c.all_reduce(greatest[r], c.all(), trainer::Combine::maximum));
    scattered[r] = at::zeros({1});
    complete(c.reduce_scatter(at::arange(2, at::kFloat) + value, scattered[r], neighbours,
                              trainer::Combine::sum));
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(at::equal(sums[1], at::full({2}, 3.0F)));  // 1 + 2
  CHECK(at::equal(sums[2], at::full({2}, 7.0F)));  // 3 + 4
  for (const at::Tensor& t : greatest) CHECK(at::equal(t, at::full({2}, 9.0F)));
  CHECK(scattered[0].item<float>() == 3.0F);  // (0 + 1) + (0 + 2)
  CHECK(scattered[3].item<float>() == 9.0F);  // (1 + 3) + (1 + 4)
}

TEST_CASE("what each rank of a group has for each other one changes hands") {
  std::vector<at::Tensor> received(4);
  const auto failures = on_ranks(4, 20, [&](trainer::Collectives& c) {
    const auto r = static_cast<std::size_t>(c.rank());
    received[r] = at::zeros({2, 2});
    const at::Tensor own = at::arange(4, at::kFloat).view({2, 2}) + 10.0 * static_cast<double>(r);
    complete(c.all_to_all(own, received[r], {c.rank() % 2, 2, 2}));  // 0 and 2, 1 and 3
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(at::equal(received[0], at::tensor({0.0F, 1.0F, 20.0F, 21.0F}).view({2, 2})));
  CHECK(at::equal(received[3], at::tensor({12.0F, 13.0F, 32.0F, 33.0F}).view({2, 2})));
}

/// Each rank sends its number to the next, the last to the first, in one batch with what it
/// receives.
TEST_CASE("messages between ranks that all send before they receive arrive, each by its tag") {
  std::vector<at::Tensor> first(3), second(3);
  const auto failures = on_ranks(3, 20, [&](trainer::Collectives& c) {
    const auto r = static_cast<std::size_t>(c.rank());
    const std::int64_t next = (c.rank() + 1) % 3, previous = (c.rank() + 2) % 3;
    first[r] = at::zeros({2});
    second[r] = at::zeros({3});
    const auto value = static_cast<double>(r + 1);
    complete(c.exchange({{at::full({3}, 10.0 * value), next, 2, true},
                         {at::full({2}, value), next, 1, true},
                         {first[r], previous, 1, false},
                         {second[r], previous, 2, false}}));
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  for (std::size_t r = 0; r < 3; ++r) {
    const auto sender = static_cast<float>((r + 2) % 3 + 1);
    CHECK(at::equal(first[r], at::full({2}, sender)));
    CHECK(at::equal(second[r], at::full({3}, 10 * sender)));
  }
}

TEST_CASE("a message whose sender never comes names it when the time is over") {
  const auto failures = on_ranks(2, 0.5, [](trainer::Collectives& c) {
    if (c.rank() == 0) complete(c.exchange({{at::zeros({2}), 1, 1, false}}));
  });
  CHECK_MESSAGE(failures[0].starts_with("1: "), failures[0]);
}

TEST_CASE("a rank that gives up ends the others at once, by its name") {
  const auto start = std::chrono::steady_clock::now();
  const auto failures = on_ranks(3, 60, [](trainer::Collectives& c) {
    if (c.rank() == 1) {
      c.abort("lost its disk");
      return;
    }
    c.barrier();
  });
  CHECK(failures[0] == "1: lost its disk");
  CHECK(failures[2] == "1: lost its disk");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("a rank that never comes is named when the time is over") {
  const auto failures = on_ranks(3, 0.5, [](trainer::Collectives& c) {
    if (c.rank() != 2) c.barrier();
  });
  CHECK(failures[0].starts_with("2: did not reach the collective"));
  CHECK(failures[1].starts_with("2: did not reach the collective"));
}

TEST_CASE("what an allocation is for is counted, and a limit is kept") {
  trainer::MemoryTracker::install();
  trainer::MemoryTracker tracker;
  const trainer::MemoryTracker::Scope scope(&tracker);
  tracker.set_storage(7);
  at::Tensor a = at::empty({100}, at::kFloat);
  tracker.set_storage(ir::no_id);
  {
    const at::Tensor scratch = at::empty({50}, at::kFloat);
    CHECK(tracker.live() == 600);
  }
  CHECK(tracker.live() == 400);
  CHECK(tracker.peak().bytes == 600);
  CHECK(tracker.declared_peak().bytes == 400);
  tracker.set_limit(500);
  CHECK_THROWS_AS(static_cast<void>(at::empty({26}, at::kFloat)), trainer::OutOfMemory);
  CHECK(tracker.live() == 400);
  a.reset();
  CHECK(tracker.live() == 0);
}

}  // namespace ac_advisor
