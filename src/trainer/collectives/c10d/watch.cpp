#include "trainer/collectives/c10d/watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace ac_advisor::trainer {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

double since(Clock::time_point then) { return Seconds(Clock::now() - then).count(); }

constexpr const char* store_has_gone = "has gone, and the store with it";

std::string heartbeat_key(std::int64_t rank) { return fmt::format("heartbeat/{}", rank); }

/// "<number> <text>": a rank's collectives and beats, or a failed rank and why.
std::pair<std::int64_t, std::string> parse(const std::string& told) {
  return {std::stoll(told), told.substr(told.find(' ') + 1)};
}

}  // namespace

/// Shared by the threads; the one that talks may be stuck in the store for longer than the watch
/// lives.
struct Watch::State {
  State(c10::intrusive_ptr<c10d::Store> s, Settings settings)
      : store(std::move(s)), set(std::move(settings)) {
    // Many ranks share one store.
    period = std::clamp(set.timeout / 20, 0.02, 0.2) * (1.0 + static_cast<double>(set.world) / 256);
    heard.resize(static_cast<std::size_t>(set.world));
  }

  /// Another rank's last heartbeat, and when it was first seen.
  struct Heard {
    std::int64_t calls = -1;
    std::string beats;
    Clock::time_point changed;
  };

  const c10::intrusive_ptr<c10d::Store> store;
  const Settings set;
  double period = 0;  ///< seconds between two heartbeats

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::int64_t calls = 0, beats = 0;
  bool inside = false;   ///< the caller waits for the others
  bool waiting = false;  ///< it does, or its device does
  bool meeting = false, explaining = false;
  bool stopping = false, talks = true, aborted = false;
  std::optional<Clock::time_point> store_lost;
  Clock::time_point progress = Clock::now();  ///< of `calls`
  Clock::time_point answered = Clock::now();  ///< by the store
  std::optional<Clock::time_point> looking;   ///< since when at the others' heartbeats
  std::vector<Heard> heard;
  std::optional<RankFailure> failure;
  Clock::time_point failed_at;
  bool told = false;      ///< the store knows the failure
  bool leaving = false;   ///< this rank, which holds the store, waits for the others to be gone
  std::int64_t gone = 0;  ///< others that need the store no more

  [[nodiscard]] bool stalled(double share) const {
    return waiting && since(progress) > share * set.timeout;
  }
  void set_failure(RankFailure what) {
    if (failure) return;
    failure = std::move(what);
    failed_at = Clock::now();
    changed.notify_all();
  }
  [[nodiscard]] std::optional<RankFailure> silent() const;
  [[nodiscard]] RankFailure missing() const;
  void talk();
  void one_round(bool look, const std::optional<RankFailure>& tell);
  void watch_clock();
};

/// A store, or a rank, of which nothing is heard any more.
std::optional<RankFailure> Watch::State::silent() const {
  if (store_lost) return RankFailure{set.store_rank, store_has_gone};
  const double patience = std::max(1.0, 5 * period);
  if (since(answered) > patience)
    return RankFailure{set.store_rank, "does not answer, nor does the store that it holds"};
  for (std::size_t r = 0; looking && r < heard.size(); ++r) {
    const double quiet = since(std::max(heard[r].changed, *looking));
    if (static_cast<std::int64_t>(r) != set.rank && quiet > patience)
      return RankFailure{static_cast<std::int64_t>(r),
                         fmt::format("has been silent for {:.1f} s, after {} collectives", quiet,
                                     std::max<std::int64_t>(0, heard[r].calls))};
  }
  return std::nullopt;
}

/// Who keeps the others waiting, as far as it can be told: who is silent, or else furthest behind.
RankFailure Watch::State::missing() const {
  if (const auto lost = silent()) return *lost;
  std::int64_t least = calls, most = calls, last = set.rank;
  for (std::size_t r = 0; r < heard.size(); ++r) {
    if (static_cast<std::int64_t>(r) == set.rank) continue;
    most = std::max(most, heard[r].calls);
    if (heard[r].calls >= least) continue;
    least = heard[r].calls;
    last = static_cast<std::int64_t>(r);
  }
  if (least == most)
    return {-1, fmt::format("all ranks have begun collective {}, and it has not ended in {} s",
                            calls, set.timeout)};
  return {last, fmt::format("did not reach collective {} in {} s: it has begun {}", most,
                            set.timeout, std::max<std::int64_t>(0, least))};
}

void Watch::State::one_round(bool look, const std::optional<RankFailure>& tell) {
  if (tell && !told) store->compareSet("failure", "", fmt::format("{} {}", tell->rank, tell->what));
  const std::int64_t count = set.serves_store ? store->add("gone", 0) : 0;
  std::optional<RankFailure> heard_of;
  if (!tell && store->check({"failure"})) {
    auto [rank, why] = parse(store->get_to_str("failure"));
    heard_of = {rank, why};
  }
  for (std::int64_t r = 0; look && r < set.world; ++r) {
    if (r == set.rank || !store->check({heartbeat_key(r)})) continue;
    auto [number, beat] = parse(store->get_to_str(heartbeat_key(r)));
    const std::scoped_lock lock(mutex);
    Heard& last = heard[static_cast<std::size_t>(r)];
    if (last.beats != beat) last = {number, beat, Clock::now()};
  }
  const std::scoped_lock lock(mutex);
  answered = Clock::now();
  gone = count;
  told = told || tell.has_value();
  if (heard_of) set_failure(*heard_of);
  changed.notify_all();
}

void Watch::State::talk() {
  try {
    for (bool last = false; !last;) {
      std::optional<RankFailure> tell;
      std::string heartbeat;
      {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, Seconds(meeting || leaving ? 0.01 : period),
                         [&] { return stopping || (failure && !told); });
        last = stopping;
        heartbeat = fmt::format("{} {}", calls, ++beats);
        tell = failure;
        if (!stalled(0.5) && !explaining && !meeting)
          looking.reset();
        else if (!looking)
          looking = Clock::now();
      }
      store->set(heartbeat_key(set.rank), heartbeat);
      one_round(looking.has_value(), tell);
    }
    if (!set.serves_store) store->add("gone", 1);
  } catch (const std::exception&) {
    const std::scoped_lock lock(mutex);
    store_lost = Clock::now();
  }
  const std::scoped_lock lock(mutex);
  talks = false;
  changed.notify_all();
}

void Watch::State::watch_clock() {
  std::thread aborting;
  bool gave_up = false;
  std::unique_lock lock(mutex);
  while (!stopping || (aborting.joinable() && !aborted)) {
    changed.wait_for(lock, Seconds(period / 2));
    if (stalled(1.0) && !failure) {
      const std::int64_t asked_at = calls;
      lock.unlock();
      const bool under_way = set.under_way();
      lock.lock();
      if (!under_way && !inside && asked_at == calls) waiting = false;
      if (stalled(1.0)) set_failure(missing());
    }
    // A store that ends a moment before this rank's last collective does is no failure.
    if (store_lost && waiting &&
        since(std::max(progress, *store_lost)) > std::min(2.0, set.timeout))
      set_failure(missing());
    if (failure && !aborting.joinable())
      aborting = std::thread([this] {
        try {
          set.abort();
        } catch (const std::exception&) {
          // What it did not end, `give_up` does.
        }
        const std::scoped_lock done(mutex);
        aborted = true;
      });
    if (failure && set.give_up && !gave_up && since(failed_at) > set.grace) {
      gave_up = true;
      set.give_up(*failure);
    }
  }
  lock.unlock();
  if (aborting.joinable()) aborting.join();
}

Watch::Watch(c10::intrusive_ptr<c10d::Store> store, Settings settings)
    : state_(std::make_shared<State>(std::move(store), std::move(settings))) {
  try {
    state_->store->set(heartbeat_key(state_->set.rank), "0 0");
  } catch (const std::exception&) {
    throw RankFailure{state_->set.store_rank, store_has_gone};
  }
  std::thread([state = state_] { state->talk(); }).detach();
  clock_ = std::thread([state = state_.get()] { state->watch_clock(); });
}

Watch::~Watch() {
  std::unique_lock lock(state_->mutex);
  State& s = *state_;
  // The others can read, of a failure above all, only as long as the store lives.
  s.leaving = s.set.serves_store;
  if (s.leaving)
    s.changed.wait_for(lock, Seconds(std::max(10 * s.period, 2.0)),
                       [&] { return s.gone == s.set.world - 1 || !s.talks; });
  s.stopping = true;
  s.changed.notify_all();
  s.changed.wait_for(lock, std::chrono::seconds(1), [&] { return !s.talks; });
  lock.unlock();
  clock_.join();
}

void Watch::meet() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.meeting = true;
  const auto absent = [&] {
    std::size_t r = 0;
    while (r < s.heard.size() &&
           (s.heard[r].calls >= 0 || static_cast<std::int64_t>(r) == s.set.rank))
      ++r;
    return r;
  };
  s.changed.wait_for(lock, Seconds(s.set.timeout),
                     [&] { return s.failure || s.store_lost || absent() == s.heard.size(); });
  s.meeting = false;
  if (s.failure) throw RankFailure(*s.failure);
  if (s.store_lost) throw RankFailure(*s.silent());
  if (const std::size_t r = absent(); r < s.heard.size())
    throw RankFailure{static_cast<std::int64_t>(r),
                      fmt::format("has not come in {} s", s.set.timeout)};
}

void Watch::begin() {
  const std::scoped_lock lock(state_->mutex);
  ++state_->calls;
  state_->progress = Clock::now();
  state_->inside = state_->waiting = true;
}

void Watch::go_on() {
  const std::scoped_lock lock(state_->mutex);
  state_->inside = false;
}

void Watch::end() {
  const std::scoped_lock lock(state_->mutex);
  state_->inside = state_->waiting = false;
}

void Watch::wait_on() {
  const std::scoped_lock lock(state_->mutex);
  if (!state_->waiting) state_->progress = Clock::now();
  state_->inside = state_->waiting = true;
}

void Watch::check() const {
  const std::scoped_lock lock(state_->mutex);
  if (state_->failure) throw RankFailure(*state_->failure);
}

bool Watch::failed() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->failure.has_value();
}

void Watch::fail(const std::string& why) {
  std::unique_lock lock(state_->mutex);
  state_->set_failure({state_->set.rank, why});
  state_->changed.wait_for(lock, std::chrono::seconds(1),
                           [&] { return state_->told || !state_->talks; });
}

RankFailure Watch::explain(const std::string& error) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.explaining = true;
  s.changed.wait_for(lock, Seconds(std::max(1.0, 5 * s.period) + 3 * s.period),
                     [&] { return s.failure || s.store_lost; });
  s.explaining = false;
  const auto gone = s.silent();
  s.set_failure(gone ? RankFailure{gone->rank, fmt::format("{} ({})", gone->what, error)}
                     : RankFailure{-1, error});
  return *s.failure;
}

}  // namespace ac_advisor::trainer
