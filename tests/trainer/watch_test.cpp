// Ranks that wait for each other over c10d: who is named when one does not come, and how soon.
#include <sys/socket.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "trainer/collectives/c10d/c10d.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor {
namespace {

using trainer::Combine;
using trainer::Pending;
using trainer::RankFailure;
using trainer::Rendezvous;
using trainer::Transfer;
using trainer::Watch;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Runs `work(place)` on a thread a rank; the failures by rank, as "rank: what".
std::vector<std::string> on_ranks(std::int64_t world,
                                  const std::function<void(const Rendezvous&)>& work) {
  std::vector<std::string> failures(static_cast<std::size_t>(world));
  // A process has one flight recorder, and torch 2.11's takes no lock for a group's first entry: it
  // is made for one rank a process.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  std::vector<std::thread> threads;
  Rendezvous meeting;
  trainer::reserve_port(meeting);
  for (std::int64_t r = 0; r < world; ++r)
    threads.emplace_back([&, r] {
      Rendezvous where = meeting;
      where.rank = r;
      where.world = world;
      try {
        work(where);
      } catch (const RankFailure& failure) {
        failures[static_cast<std::size_t>(r)] = std::to_string(failure.rank) + ": " + failure.what;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

/// A process group whose collectives a device runs, which goes on until it is aborted.
class Stuck final : public c10d::Backend {
 public:
  Stuck(int rank, int size, std::atomic<bool>& aborted) : Backend(rank, size), aborted_(aborted) {}
  void abort() override { aborted_ = true; }

 private:
  std::atomic<bool>& aborted_;
};

class OnDevice final : public Pending {
 public:
  void wait() override {}
};

/// Rank 0's store as far as TCPStore's greeting (torch 2.11: a query and four bytes, to validate;
/// again, to ping, which are sent back). Nobody listens after that.
void answer_one_connection(int listener) {
  REQUIRE(listen(listener, 1) == 0);
  const int connection = accept(listener, nullptr, nullptr);
  char greeting[10];
  REQUIRE(recv(connection, greeting, sizeof greeting, MSG_WAITALL) == sizeof greeting);
  close(listener);
  REQUIRE(send(connection, greeting + 6, 4, 0) == 4);
  pause(0.5);
  close(connection);
}

/// A store whose server went between the connection and the first word.
class LostStore final : public c10d::HashStore {
 public:
  void set(const std::string&, const std::vector<std::uint8_t>&) override {
    throw std::runtime_error("Broken pipe");
  }
};

/// What Nccl does, without a device: collectives are begun and the host goes on.
class FakeNccl final : public trainer::C10d {
 public:
  FakeNccl(const Rendezvous& where, double timeout) : C10d(where, timeout) {}
  ~FakeNccl() override { static_cast<void>(stop_watching()); }
  std::atomic<bool> aborted = false, busy = true;

 private:
  Process make_group(c10::intrusive_ptr<c10d::Store>, int rank, int size) override {
    return c10::make_intrusive<Stuck>(rank, size, aborted);
  }
  std::unique_ptr<Pending> gather(const Process&, at::Tensor, at::Tensor) override {
    return std::make_unique<OnDevice>();
  }
  std::unique_ptr<Pending> scatter(const Process&, const at::Tensor&, at::Tensor,
                                   Combine) override {
    return std::make_unique<OnDevice>();
  }
  std::unique_ptr<Pending> reduce(const Process&, at::Tensor, Combine) override {
    return std::make_unique<OnDevice>();
  }
  std::unique_ptr<Pending> trade(const Process&, const at::Tensor&, at::Tensor) override {
    return std::make_unique<OnDevice>();
  }
  std::unique_ptr<Pending> transfer(const Process&, const std::vector<Transfer>&) override {
    return std::make_unique<OnDevice>();
  }
  bool under_way() override { return busy; }
};

/// Ends between the last of a wait's milliseconds and the next question.
class Late final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds timeout) override {
    if (isCompleted()) return Work::wait(timeout);
    finish();
    throw std::runtime_error("Operation timed out!");
  }
};

/// Its reductions end late; the other collectives are not used.
class LateGroup final : public trainer::C10d {
 public:
  explicit LateGroup(const Rendezvous& where) : C10d(where, 20) {}
  ~LateGroup() override { static_cast<void>(stop_watching()); }

 private:
  Process make_group(c10::intrusive_ptr<c10d::Store>, int rank, int size) override {
    return c10::make_intrusive<Stuck>(rank, size, aborted_);
  }
  std::unique_ptr<Pending> gather(const Process&, at::Tensor, at::Tensor) override {
    return nullptr;
  }
  std::unique_ptr<Pending> scatter(const Process&, const at::Tensor&, at::Tensor,
                                   Combine) override {
    return nullptr;
  }
  std::unique_ptr<Pending> reduce(const Process&, at::Tensor, Combine) override {
    finish(c10::make_intrusive<Late>());
    return nullptr;
  }
  std::unique_ptr<Pending> trade(const Process&, const at::Tensor&, at::Tensor) override {
    return nullptr;
  }
  std::unique_ptr<Pending> transfer(const Process&, const std::vector<Transfer>&) override {
    return nullptr;
  }

  std::atomic<bool> aborted_ = false;
};

}  // namespace

TEST_CASE("a collective that ends as its wait is given up has not failed") {
  const auto failures = on_ranks(2, [](const Rendezvous& where) {
    LateGroup c(where);
    complete(c.all_reduce(at::zeros({4}), c.all(), Combine::average));
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("collectives over c10d are what their names say, in groups of neighbours and replicas") {
  std::vector<at::Tensor> gathered(4), scattered(4), replicas(4);
  std::vector<double> averages(4);
  const auto failures = on_ranks(4, [&](const Rendezvous& where) {
    const auto c = trainer::make_gloo(where, 20);
    const auto r = static_cast<std::size_t>(where.rank);
    const auto value = static_cast<double>(r + 1);
    gathered[r] = at::zeros({4});
    gathered[r].narrow(0, where.rank % 2 * 2, 2).fill_(value);
    complete(c->all_gather(gathered[r], {where.rank / 2 * 2, 2, 1}));  // ranks 0 and 1, 2 and 3
    scattered[r] = at::zeros({1});
    complete(c->reduce_scatter(at::arange(4, at::kFloat) * value, scattered[r], c->all()));
    replicas[r] = at::full({3}, value);
    complete(c->all_reduce(replicas[r], {where.rank % 2, 2, 2}));  // ranks 0 and 2, 1 and 3
    averages[r] = c->average(value);
    c->barrier();
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
  CHECK(at::equal(gathered[1], at::tensor({1.0F, 1.0F, 2.0F, 2.0F})));
  CHECK(at::equal(gathered[2], at::tensor({3.0F, 3.0F, 4.0F, 4.0F})));
  for (int r = 0; r < 4; ++r) {  // the average of 1, 2, 3, 4 times the part's number
    CHECK(scattered[static_cast<std::size_t>(r)].item<float>() == 2.5F * static_cast<float>(r));
    CHECK(averages[static_cast<std::size_t>(r)] == 2.5);
  }
  CHECK(at::equal(replicas[1], at::full({3}, 3.0F)));  // (2 + 4) / 2
}

TEST_CASE("over Gloo, reductions add or take the greatest, parts and messages arrive") {
  std::vector<at::Tensor> sums(4), greatest(4), first(4), second(4), parts(4);
  const auto failures = on_ranks(4, [&](const Rendezvous& where) {
    const auto c = trainer::make_gloo(where, 20);
    const auto r = static_cast<std::size_t>(where.rank);
    const auto value = static_cast<double>(r + 1);
    sums[r] = at::full({2}, value);
    complete(c->all_reduce(sums[r], {where.rank / 2 * 2, 2, 1}, Combine::sum));
    greatest[r] = at::full({2}, r == 0 ? 9.0 : -value);
    complete(c->all_reduce(greatest[r], c->all(), Combine::maximum));
    parts[r] = at::zeros({2});
    complete(c->all_to_all(at::arange(2, at::kFloat) + 10.0 * value, parts[r],
                           {where.rank / 2 * 2, 2, 1}));
    first[r] = at::zeros({2});
    second[r] = at::zeros({3});
    const std::int64_t next = (where.rank + 1) % 4, previous = (where.rank + 3) % 4;
    complete(c->exchange({{at::full({3}, 10.0 * value), next, 2, true},
                          {at::full({2}, value), next, 1, true},
                          {first[r], previous, 1, false},
                          {second[r], previous, 2, false}}));
    c->barrier();  // what is sent is read before its sender is gone
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(at::equal(sums[1], at::full({2}, 3.0F)));  // 1 + 2
  CHECK(at::equal(sums[2], at::full({2}, 7.0F)));  // 3 + 4
  CHECK(at::equal(parts[3], at::tensor({31.0F, 41.0F})));
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(at::equal(greatest[r], at::full({2}, 9.0F)));
    const auto sender = static_cast<float>((r + 3) % 4 + 1);
    CHECK(at::equal(first[r], at::full({2}, sender)));
    CHECK(at::equal(second[r], at::full({3}, 10 * sender)));
  }
}

TEST_CASE("over Gloo, a rank that does not reach a collective is named by the others") {
  const auto start = Clock::now();
  const auto failures = on_ranks(3, [&](const Rendezvous& where) {
    const auto c = trainer::make_gloo(where, 3);
    c->barrier();
    if (where.rank == 1) pause(5);  // alive, elsewhere
    c->barrier();
  });
  for (const std::size_t r : {0, 2}) {
    CAPTURE(failures[r]);
    CHECK(failures[r] == "1: did not reach collective 3 in 3 s: it has begun 2");
  }
  CHECK(failures[1].starts_with("1: "));  // it is told why nobody waits for it any more
  CHECK(since(start) < 15);
}

TEST_CASE("over Gloo, a rank that gives up ends the others at once, by its name and words") {
  const auto start = Clock::now();
  const auto failures = on_ranks(3, [](const Rendezvous& where) {
    const auto c = trainer::make_gloo(where, 60);
    if (where.rank == 2) {
      c->abort("lost its disk");
      return;
    }
    c->barrier();
  });
  CHECK(failures[0] == "2: lost its disk");
  CHECK(failures[1] == "2: lost its disk");
  CHECK(since(start) < 20);
}

TEST_CASE("a rank that never comes is named at the meeting") {
  const auto failures = on_ranks(3, [](const Rendezvous& where) {
    if (where.rank == 1) return;
    const auto c = trainer::make_gloo(where, 2);
  });
  CHECK(failures[0] == "1: has not come in 2 s");
  CHECK(failures[2].starts_with("1: has not come") != failures[2].starts_with("0: has gone"));
  // Nobody keeps the store:
  CHECK(on_ranks(2,
                 [](const Rendezvous& where) {
                   if (where.rank == 0) return;
                   const auto c = trainer::make_gloo(where, 1);
                 })[1]
            .starts_with("0: "));
}

TEST_CASE("a store that is lost while ranks connect is a failure of the rank that holds it") {
  Watch::Settings settings;
  settings.world = 2;
  settings.store_rank = 0;
  settings.rank = 1;
  std::string told;
  try {
    const Watch watch(c10::make_intrusive<LostStore>(), settings);
  } catch (const RankFailure& failure) {
    told = std::to_string(failure.rank) + ": " + failure.what;
  }
  CHECK(told == "0: has gone, and the store with it");
  // One that answers the first of a rank's two connections.
  const auto failures = on_ranks(2, [](const Rendezvous& where) {
    if (where.rank == 0)
      answer_one_connection(where.listening);
    else
      static_cast<void>(trainer::make_gloo(where, 1));
  });
  CAPTURE(failures[1]);
  CHECK(failures[1].starts_with("0: "));
}

TEST_CASE("a device that waits for a rank that does not come is not waited for for ever") {
  const auto start = Clock::now();
  const auto failures = on_ranks(3, [](const Rendezvous& where) {
    FakeNccl c(where, 3);
    const at::Tensor buffer = at::zeros({4});
    complete(c.all_reduce(buffer, c.all(), Combine::average));
    if (where.rank == 1) {  // its host is elsewhere; then it waits for its device, too
      pause(5);
      c.wait_for_device([&] { return c.aborted.load(); });
      return;
    }
    complete(c.all_reduce(buffer, c.all(), Combine::average));
    // An aborted collective lets the device go on: that is no success.
    c.wait_for_device([&] { return c.aborted.load(); });
  });
  for (const std::string& failure : failures)
    CHECK(failure == "1: did not reach collective 2 in 3 s: it has begun 1");
  CHECK(since(start) < 15);
}

TEST_CASE("a device that ends in time is no failure, nor is a host that is busy elsewhere") {
  const auto failures = on_ranks(2, [](const Rendezvous& where) {
    FakeNccl c(where, 2);
    const at::Tensor buffer = at::zeros({4});
    complete(c.all_reduce(buffer, c.all(), Combine::average));
    const auto start = Clock::now();
    c.wait_for_device([&] { return since(start) > 1; });
    pause(3);  // nothing is under way: a checkpoint is written, say
    complete(c.all_reduce(buffer, c.all(), Combine::average));
    c.busy = false;  // not waited for, and ended
    pause(3);
    complete(c.all_reduce(buffer, c.all(), Combine::average));
    c.wait_for_device([] { return true; });
    CHECK_FALSE(c.aborted);
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
}

TEST_CASE("a collective that all have begun and that does not end is nobody's by name") {
  const auto failures = on_ranks(2, [](const Rendezvous& where) {
    FakeNccl c(where, 2);
    complete(c.all_reduce(at::zeros({4}), c.all(), Combine::average));
    c.wait_for_device([] { return false; });
  });
  for (const std::string& failure : failures)
    CHECK(failure == "-1: all ranks have begun collective 1, and it has not ended in 2 s");
}

TEST_CASE("a rank that is stuck where no failure reaches it is ended") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int> aborts = 0, ends = 0;
  Watch::Settings settings;
  settings.rank = 0;
  settings.world = 2;
  settings.timeout = 0.3;
  settings.grace = 0.3;
  settings.abort = [&] { ++aborts; };
  settings.give_up = [&](const RankFailure& failure) {
    ++ends;
    CHECK(failure.rank == 1);
  };
  Watch watch(store, settings);
  watch.begin();  // rank 1 never says anything
  pause(3.0);
  CHECK(watch.failed());
  CHECK(aborts == 1);
  CHECK(ends == 1);
}

}  // namespace ac_advisor
