#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "trainer/collectives/collectives.hpp"

namespace ac_advisor::trainer {

/// Sees that ranks that wait for each other do not wait for ever. One thread tells the store how
/// many collectives this rank has begun and reads there who has failed; another looks at the clock,
/// since a store whose machine has stopped answers nobody.
class Watch {
 public:
  struct Settings {
    std::int64_t rank = 0, world = 1;
    double timeout = 60;  ///< seconds that the others may make no progress
    double grace = 10;    ///< seconds after a failure in which this process is to end by itself
    bool serves_store = false;     ///< the store ends with this rank, so it ends last
    std::int64_t store_rank = -1;  ///< the rank that ends with the store; -1: none
    /// Ends what this rank waits in, from another thread, once somebody has failed.
    std::function<void()> abort = [] {};
    /// Whether begun collectives are still under way on a device; asked only when time is over.
    std::function<bool()> under_way = [] { return true; };
    /// This rank has not ended in `grace`: it is stuck where nothing reaches it.
    std::function<void(const RankFailure&)> give_up;
  };
  /// `store` is a connection that nobody else uses. Throws RankFailure where it is lost already.
  Watch(c10::intrusive_ptr<c10d::Store> store, Settings settings);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Returns when every rank has come; throws RankFailure naming one that has not.
  void meet();
  /// A collective begins, and the caller waits in it...
  void begin();
  /// ...or goes on, while a device waits for the others: until `under_way` denies it, or end().
  void go_on();
  /// The caller waits for the device.
  void wait_on();
  void end();
  /// Throws the RankFailure that anybody has told, or that the clock has found.
  void check() const;
  [[nodiscard]] bool failed() const;
  /// This rank fails; returns when the others can know.
  void fail(const std::string& why);
  /// The RankFailure behind an error that a collective has ended with: what was told, or which rank
  /// has fallen silent, or `error` of an unknown rank.
  [[nodiscard]] RankFailure explain(const std::string& error);

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread clock_;
};

}  // namespace ac_advisor::trainer
