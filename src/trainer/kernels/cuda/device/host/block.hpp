#pragma once

#include <cstddef>
#include <vector>

#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

/// The bodies' execution policy on the host: `count` threads, one after another, between barriers.
/// Sums are taken in the order of cuda/block.cuh.
class Threads {
 public:
  explicit Threads(int count) : count_(count), shared_(static_cast<std::size_t>(count)) {}

  /// All threads' registers: slot i is of element i.
  template <class V, int P>
  struct Kept {
    explicit Kept(const Threads& block) : slots(static_cast<std::size_t>(P * block.count())) {}
    V& operator[](int slot) { return slots[static_cast<std::size_t>(slot)]; }
    std::vector<V> slots;
  };

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] bool first() const { return true; }
  float& shared(int thread) { return shared_[static_cast<std::size_t>(thread)]; }
  void sync() {}

  template <class F>
  void threads(F f) {
    for (int thread = 0; thread < count_; ++thread) f(thread);
  }
  template <int P, class F>
  void each(int n, F f) {
    for (int i = 0; i < n; ++i) f(i, i);
  }
  template <class F>
  void part(int part, int parts, int n, F f) {
    for (int first = part * count_; first < n; first += parts * count_)
      for (int i = first; i < n && i < first + count_; ++i) f(i);
  }
  template <int P, class F>
  float sum(int n, F f) {
    std::vector<float> mine(static_cast<std::size_t>(count_), 0.0F);
    for (int i = 0; i < n; ++i) mine[static_cast<std::size_t>(i % count_)] += f(i, i);
    return joined(mine, [](float a, float b) { return a + b; });
  }
  template <int P, class State, class Load, class Step, class Merge>
  State reduce(int n, Load load, Step step, Merge merge) {
    std::vector<State> states(static_cast<std::size_t>(count_));
    for (int i = 0; i < n; ++i) step(states[static_cast<std::size_t>(i % count_)], load(i));
    return joined(states, merge);
  }

 private:
  /// What a butterfly of shuffles leaves in the first of states [begin, begin + lanes).
  template <class State, class Merge>
  static State butterfly(const std::vector<State>& states, std::size_t begin, std::size_t lanes,
                         Merge merge) {
    std::vector<State> now(states.begin() + static_cast<std::ptrdiff_t>(begin),
                           states.begin() + static_cast<std::ptrdiff_t>(begin + lanes));
    for (std::size_t offset = lanes / 2; offset > 0; offset /= 2)
      for (std::size_t lane = 0; lane < offset; ++lane)
        now[lane] = merge(now[lane], now[lane + offset]);
    return now[0];
  }

  template <class State, class Merge>
  State joined(const std::vector<State>& states, Merge merge) {
    if (count_ <= 32) return butterfly(states, 0, states.size(), merge);
    std::vector<State> warps(32);
    for (std::size_t warp = 0; warp * 32 < states.size(); ++warp)
      warps[warp] = butterfly(states, warp * 32, 32, merge);
    return butterfly(warps, 0, 32, merge);
  }

  int count_;
  std::vector<float> shared_;
};

}  // namespace ac_advisor::trainer::cuda::device
