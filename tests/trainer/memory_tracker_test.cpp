// The memory tracker where a device's allocator counts, which is made up here.
#include "trainer/memory_tracker.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor {
namespace {

using ir::Phase;
using trainer::MemoryTracker;

/// What a caching allocator counts, in blocks of 512 bytes.
struct MadeUpDevice {
  std::int64_t allocated = 0, peak = 0, asked = 0;

  void allocate(std::int64_t blocks) { peak = std::max(peak, allocated += 512 * blocks); }
  void free(std::int64_t blocks) { allocated -= 512 * blocks; }
  /// Memory that is gone when the op ends.
  void scratch(std::int64_t blocks) {
    allocate(blocks);
    free(blocks);
  }
  MemoryTracker::DeviceCounter counter() {
    return {[this] { return allocated; },
            [this] {
              ++asked;
              return std::exchange(peak, allocated);
            }};
  }
};

std::size_t index(Phase phase) { return static_cast<std::size_t>(phase); }

}  // namespace

TEST_CASE("device memory: sampled peaks by op and phase, with workspaces and without") {
  MadeUpDevice device;
  MemoryTracker tracker;
  tracker.count_by(device.counter());
  CHECK(tracker.counts_by_device());
  device.allocate(4);  // parameters
  tracker.hold(0, 4 * 512);
  device.scratch(100);  // before what is measured
  tracker.reset_peaks();
  tracker.set_sampling(true);

  tracker.begin_op(0, Phase::forward);
  device.allocate(2);
  tracker.hold(1, 2 * 512);
  device.scratch(3);
  tracker.end_op();
  CHECK(tracker.peak().bytes == (4 + 2 + 3) * 512);
  CHECK(tracker.declared_peak().bytes == (4 + 2) * 512);

  tracker.begin_op(1, Phase::backward);
  device.allocate(5);
  tracker.hold(2, 5 * 512);
  tracker.end_op();
  device.free(2);
  tracker.let_go(1);
  CHECK(tracker.live() == (4 + 5) * 512);

  tracker.begin_op(2, Phase::optimizer);
  device.scratch(1);
  tracker.end_op();
  tracker.end_step();

  CHECK(tracker.peak().bytes == (4 + 2 + 5) * 512);
  CHECK(tracker.peak().op == 1);
  CHECK(tracker.declared_peak().bytes == (4 + 2 + 5) * 512);
  CHECK(tracker.peak_by_phase()[index(Phase::forward)] == (4 + 2 + 3) * 512);
  CHECK(tracker.declared_peak_by_phase()[index(Phase::forward)] == (4 + 2) * 512);
  CHECK(tracker.peak_by_phase()[index(Phase::backward)] == (4 + 2 + 5) * 512);
  // What was freed before a phase began is none of its own.
  CHECK(tracker.peak_by_phase()[index(Phase::optimizer)] == (4 + 5 + 1) * 512);
  CHECK(tracker.declared_peak_by_phase()[index(Phase::optimizer)] == (4 + 5) * 512);
  CHECK(tracker.peak_by_phase()[index(Phase::loss)] == 0);
}

TEST_CASE("device memory: a phase has at least what it inherits") {
  MadeUpDevice device;
  MemoryTracker tracker;
  tracker.count_by(device.counter());
  device.allocate(7);
  tracker.hold(0, 7 * 512);
  tracker.reset_peaks();
  tracker.set_sampling(true);
  tracker.begin_op(0, Phase::backward);  // it only frees
  tracker.end_op();
  CHECK(tracker.peak_by_phase()[index(Phase::backward)] == 7 * 512);
  CHECK(tracker.declared_peak_by_phase()[index(Phase::backward)] == 7 * 512);
}

TEST_CASE("device memory: without sampling only the step's peak is known, and asked for once") {
  MadeUpDevice device;
  MemoryTracker tracker;
  tracker.count_by(device.counter());
  device.allocate(2);
  tracker.reset_peaks();
  const std::int64_t asked = device.asked;
  for (ir::OpId op = 0; op < 10; ++op) {
    tracker.begin_op(op, op < 5 ? Phase::forward : Phase::backward);
    device.scratch(op == 3 ? 6 : 1);
    tracker.end_op();
  }
  CHECK(device.asked == asked);
  CHECK(tracker.peak().bytes == 2 * 512);  // as it was when the step began
  tracker.end_step();
  CHECK(device.asked == asked + 1);
  CHECK(tracker.peak().bytes == (2 + 6) * 512);
}

TEST_CASE("device memory: sampling begins with the peak that is there then, and can be ended") {
  MadeUpDevice device;
  MemoryTracker tracker;
  tracker.set_sampling(true);  // no device: nothing to ask
  tracker.end_op();
  tracker.count_by(device.counter());
  tracker.reset_peaks();
  device.scratch(50);
  tracker.set_sampling(true);
  tracker.begin_op(0, Phase::forward);
  device.scratch(3);
  tracker.end_op();
  CHECK(tracker.peak().bytes == 3 * 512);
  tracker.set_sampling(false);
  tracker.begin_op(1, Phase::forward);
  device.scratch(9);
  tracker.end_op();
  CHECK(tracker.peak().bytes == 3 * 512);
}

TEST_CASE("device memory: a storage is held once, in whole blocks, until it is let go") {
  MadeUpDevice device;
  MemoryTracker tracker;
  const auto held = [&] {
    std::int64_t sum = 0;
    tracker.each_live([&](std::int64_t bytes, ir::StorageId storage) {
      if (storage != ir::no_id) sum += bytes;
    });
    return sum;
  };
  tracker.hold(1, 4096);  // a host's allocations are counted themselves
  CHECK(held() == 0);
  tracker.count_by(device.counter());
  tracker.hold(1, 513);
  CHECK(held() == 1024);
  tracker.hold(1, 513);  // an op writes it again
  CHECK(held() == 1024);
  tracker.hold(2, 512);
  CHECK(held() == 1024 + 512);
  tracker.let_go(3);
  CHECK(held() == 1024 + 512);
  tracker.let_go(1);
  CHECK(held() == 512);
  tracker.let_go(1);
  CHECK(held() == 512);
  tracker.hold(1, 100);
  CHECK(held() == 512 + 512);
}

TEST_CASE("device memory: what is live at a watched op is what is held, and workspace") {
  MadeUpDevice device;
  MemoryTracker tracker;
  tracker.count_by(device.counter());
  std::vector<std::pair<ir::StorageId, std::int64_t>> live;
  int seen = 0;
  tracker.set_watch(1, [&] {
    ++seen;
    tracker.each_live(
        [&](std::int64_t bytes, ir::StorageId storage) { live.emplace_back(storage, bytes); });
  });
  tracker.set_sampling(true);
  for (ir::OpId op = 0; op < 3; ++op) {
    tracker.begin_op(op, Phase::forward);
    device.allocate(2);
    tracker.hold(op, 2 * 512);
    device.scratch(3);
    tracker.end_op();
  }
  CHECK(seen == 1);
  CHECK(live == std::vector<std::pair<ir::StorageId, std::int64_t>>{
                    {0, 2 * 512}, {1, 2 * 512}, {ir::no_id, 3 * 512}});
}

TEST_CASE("a tensor that outlives its tracker leaves the tracker's memory alone") {
  MemoryTracker::install();
  alignas(MemoryTracker) std::array<unsigned char, sizeof(MemoryTracker)> memory;
  auto* tracker = new (memory.data()) MemoryTracker;
  at::Tensor kept, other;
  {
    const MemoryTracker::Scope scope(tracker);
    kept = at::ones({10});
    other = at::ones({20});
  }
  CHECK(tracker->live() == (10 + 20) * 4);
  other.reset();
  tracker->~MemoryTracker();
  memory.fill(0x5a);
  std::thread([&] { kept.reset(); }).join();
  CHECK(std::all_of(memory.begin(), memory.end(), [](unsigned char c) { return c == 0x5a; }));
}

TEST_CASE("device memory: the host's allocations are not counted, nor limited") {
  MemoryTracker::install();
  MadeUpDevice device;
  MemoryTracker tracker;
  const MemoryTracker::Scope scope(&tracker);
  CHECK(MemoryTracker::current() == &tracker);
  tracker.count_by(device.counter());
  CHECK(MemoryTracker::current() == nullptr);
  tracker.set_limit(64);
  device.allocate(1);
  tracker.reset_peaks();
  const at::Tensor staged = at::ones({1000});
  CHECK(tracker.live() == 512);
  CHECK(tracker.peak().bytes == 512);
  CHECK(tracker.allocations() == 0);
}

}  // namespace ac_advisor
