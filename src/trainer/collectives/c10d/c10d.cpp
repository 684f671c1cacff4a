#include "trainer/collectives/c10d/c10d.hpp"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "trainer/failure.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {
namespace {

/// c10d logs each lost connection with a stack trace; what there is to know is in what it throws. A
/// user's own level wins.
void quiet_logs() {
  static const bool once = [] {
    setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
    c10::initLogging();
    return true;
  }();
  static_cast<void>(once);
}

/// Two connections: one for the collectives, one for the watch alone.
struct Connections {
  c10::intrusive_ptr<c10d::Store> collectives, watch;
};

Connections meet_at_store(const Rendezvous& where, double timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.port = where.port;
  options.isServer = where.rank == 0 && !where.launcher_serves_store;
  if (options.isServer && where.listening >= 0) options.masterListenFd = where.listening;
  options.numWorkers = static_cast<std::size_t>(where.world);
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  try {
    const auto first = c10::make_intrusive<c10d::TCPStore>(where.address, options);
    return {first, first->clone()};
  } catch (const std::exception& error) {
    throw RankFailure{where.launcher_serves_store ? -1 : 0, first_line(error.what())};
  }
}

[[noreturn]] void end_process(std::int64_t rank, const RankFailure& failure) {
  std::fprintf(
      stderr, "ac-trainer: rank %lld: rank %lld failed: %s; this rank is stuck and is ended\n",
      static_cast<long long>(rank), static_cast<long long>(failure.rank), failure.what.c_str());
  std::fflush(nullptr);
  _exit(3);
}

}  // namespace

C10d::C10d(const Rendezvous& where, double timeout_seconds)
    : where_(where), timeout_(timeout_seconds) {
  const MemoryTracker::Scope outside(nullptr);
  quiet_logs();
  // A launcher that starts a run again keeps its store; each attempt has its own keys.
  const auto [collectives, watch] = meet_at_store(where, timeout_seconds);
  const std::string attempt = "ac_advisor/" + where.attempt;
  store_ = c10::make_intrusive<c10d::PrefixStore>(attempt, collectives);
  Watch::Settings settings;
  settings.rank = where.rank;
  settings.world = where.world;
  settings.timeout = timeout_seconds;
  settings.serves_store = where.rank == 0 && !where.launcher_serves_store;
  settings.store_rank = where.launcher_serves_store ? -1 : 0;
  settings.abort = [this] { abort_groups(); };
  settings.under_way = [this] { return under_way(); };
  settings.give_up = [rank = where.rank](const RankFailure& failure) {
    end_process(rank, failure);
  };
  watch_ = std::make_unique<Watch>(c10::make_intrusive<c10d::PrefixStore>(attempt, watch),
                                   std::move(settings));
  watch_->meet();
}

C10d::~C10d() = default;

std::unique_ptr<Pending> C10d::all_gather(at::Tensor buffer, const Group& group) {
  return guarded([&] {
    const at::Tensor flat = buffer.view({-1});
    const std::int64_t part = flat.numel() / group.size;
    return gather(process(group), flat, flat.narrow(0, group.place_of(where_.rank) * part, part));
  });
}

std::unique_ptr<Pending> C10d::reduce_scatter(const at::Tensor& input, at::Tensor output,
                                              const Group& group, Combine how) {
  return guarded([&] { return scatter(process(group), input.view({-1}), output.view({-1}), how); });
}

std::unique_ptr<Pending> C10d::all_reduce(at::Tensor buffer, const Group& group, Combine how) {
  return guarded([&] { return reduce(process(group), buffer.view({-1}), how); });
}

std::unique_ptr<Pending> C10d::all_to_all(const at::Tensor& input, at::Tensor output,
                                          const Group& group) {
  return guarded([&] { return trade(process(group), input.view({-1}), output.view({-1})); });
}

std::unique_ptr<Pending> C10d::exchange(const std::vector<Transfer>& batch) {
  return guarded([&] { return transfer(process(all()), batch); });
}

void C10d::barrier() { static_cast<void>(average(0)); }

void C10d::wait_for_device(const std::function<bool()>& done) {
  watch_->wait_on();
  for (int asked = 0; !done(); ++asked) {
    watch_->check();
    // The end of a step is near for a while; after that there is time.
    if (asked > 1000) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  watch_->check();  // a device whose collectives were aborted is done, too
  watch_->end();
}

/// By the store: a barrier of the group's own would end as unevenly as what came before it.
void C10d::leave() {
  const MemoryTracker::Scope outside(nullptr);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_);
  const auto pause = std::chrono::milliseconds(2 + where_.world / 16);  // many share one store
  const std::int64_t all = where_.world * ++left_;
  try {
    std::int64_t count = store_->add("left", 1);
    while (count < all && !watch_->failed() && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(pause);
      count = store_->add("left", 0);
    }
  } catch (const std::exception&) {
    // The store ends with the rank that holds it: what there was to wait for is over.
  }
}

void C10d::abort(const std::string& why) { watch_->fail(why); }

void C10d::abort_groups() {
  each_group([](c10d::Backend& group) { group.abort(); });
}

std::unique_ptr<Pending> C10d::guarded(const std::function<std::unique_ptr<Pending>()>& begin) {
  const MemoryTracker::Scope outside(nullptr);  // c10d's buffers are none of the step's
  watch_->check();
  watch_->begin();
  try {
    auto begun = begin();
    begun ? watch_->go_on() : watch_->end();
    return begun;
  } catch (const std::exception& error) {
    throw watch_->explain(first_line(error.what()));
  }
}

void C10d::finish(const Work& work) {
  while (!work->isCompleted()) {
    try {
      work->wait(std::chrono::milliseconds(50));
    } catch (const std::exception&) {
      // Those 50 ms are over, even where the work has ended since; what it threw it throws again.
    }
    watch_->check();
  }
  work->wait();
}

C10d::Process C10d::process(const Group& group) {
  {
    const std::scoped_lock lock(groups_mutex_);
    if (const auto found = groups_.find(group); found != groups_.end()) return found->second;
  }
  const std::string name = fmt::format("g{}.{}.{}", group.first, group.size, group.stride);
  const Process made =
      make_group(c10::make_intrusive<c10d::PrefixStore>(name, store_),
                 static_cast<int>(group.place_of(where_.rank)), static_cast<int>(group.size));
  const std::scoped_lock lock(groups_mutex_);
  return groups_[group] = made;
}

void C10d::each_group(const std::function<void(c10d::Backend&)>& visit) {
  const std::scoped_lock lock(groups_mutex_);
  for (const auto& [name, group] : groups_) visit(*group);
}

}  // namespace ac_advisor::trainer
