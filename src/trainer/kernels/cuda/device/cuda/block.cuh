#pragma once

#include <cstdint>

#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

/// The bodies' execution policy on the device: the threads that work on one row, which are a block,
/// or a power of two up to 32 of one warp.
class Threads {
 public:
  /// What a warp hands to the others in a reduction: 8 bytes, two turns of them.
  using Scratch = std::uint32_t[2][32][2];

  __device__ Threads(int count, Scratch& scratch, float* shared = nullptr)
      : count_(count),
        thread_(static_cast<int>(threadIdx.x) % count),
        scratch_(scratch),
        shared_(shared) {}

  /// Registers of a thread: slot s of thread t has the element s * count + t.
  template <class V, int P>
  struct Kept {
    __device__ explicit Kept(const Threads&) {}
    __device__ V& operator[](int slot) { return slots[slot]; }
    V slots[P];
  };
  template <class V>
  struct Kept<V, 0> {
    __device__ explicit Kept(const Threads&) {}
  };

  __device__ int count() const { return count_; }
  __device__ bool first() const { return thread_ == 0; }
  __device__ float& shared(int thread) { return shared_[thread]; }
  __device__ void sync() { __syncthreads(); }

  /// f(thread)
  template <class F>
  __device__ void threads(F f) {
    f(thread_);
  }
  /// f(i, slot) for each i in [0, n), n <= P * count; P = 0: any n, and no slot.
  template <int P, class F>
  __device__ void each(int n, F f) {
    if constexpr (P == 0) {
      for (int i = thread_; i < n; i += count_) f(i, 0);
    } else {
#pragma unroll
      for (int slot = 0; slot < P; ++slot) {
        const int i = slot * count_ + thread_;
        if (i < n) f(i, slot);
      }
    }
  }
  /// f(i) for the share of [0, n) that block `part` of `parts` has.
  template <class F>
  __device__ void part(int part, int parts, int n, F f) {
    for (int i = part * count_ + thread_; i < n; i += parts * count_) f(i);
  }
  /// Sum of f(i, slot), known to all threads.
  template <int P, class F>
  __device__ float sum(int n, F f) {
    float mine = 0;
    each<P>(n, [&](int i, int slot) { mine += f(i, slot); });
    return joined(mine, [](float a, float b) { return a + b; });
  }
  /// step(state, load(i)) for each i, P loads ahead; then the threads' states merged in a tree.
  template <int P, class State, class Load, class Step, class Merge>
  __device__ State reduce(int n, Load load, Step step, Merge merge) {
    State state{};
    decltype(load(0)) loaded[P];
    for (int first = 0; first < n; first += P * count_) {
#pragma unroll
      for (int slot = 0; slot < P; ++slot) {
        const int i = first + slot * count_ + thread_;
        if (i < n) loaded[slot] = load(i);
      }
#pragma unroll
      for (int slot = 0; slot < P; ++slot)
        if (first + slot * count_ + thread_ < n) step(state, loaded[slot]);
    }
    return joined(state, merge);
  }

 private:
  template <class State>
  static constexpr int words = sizeof(State) / 4;

  template <class State>
  __device__ static State exchanged(const State& state, int offset, unsigned mask) {
    std::uint32_t bits[words<State>];
    memcpy(bits, &state, sizeof state);
#pragma unroll
    for (int i = 0; i < words<State>; ++i) bits[i] = __shfl_xor_sync(mask, bits[i], offset);
    State other;
    memcpy(&other, bits, sizeof other);
    return other;
  }

  template <class State, class Merge>
  __device__ State joined(State state, Merge merge) {
    static_assert(sizeof(State) <= 8 && sizeof(State) % 4 == 0);
    const int lane = static_cast<int>(threadIdx.x) % 32, lanes = count_ < 32 ? count_ : 32;
    const unsigned mask =
        lanes == 32 ? 0xFFFFFFFFU : ((1U << lanes) - 1U) << (lane / lanes * lanes);
    for (int offset = lanes / 2; offset > 0; offset /= 2)
      state = merge(state, exchanged(state, offset, mask));
    if (count_ <= 32) return state;
    // One barrier a reduction: a turn's scratch is written again only after the other's barrier.
    std::uint32_t(&turn)[32][2] = scratch_[turn_];
    turn_ ^= 1;
    if (lane == 0) memcpy(turn[thread_ / 32], &state, sizeof state);
    __syncthreads();
    state = State{};
    if (lane < count_ / 32) memcpy(&state, turn[lane], sizeof state);
    for (int offset = 16; offset > 0; offset /= 2)
      state = merge(state, exchanged(state, offset, 0xFFFFFFFFU));
    return state;
  }

  int count_, thread_, turn_ = 0;
  Scratch& scratch_;
  float* shared_;
};

}  // namespace ac_advisor::trainer::cuda::device
