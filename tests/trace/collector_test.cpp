#include "trace/collector.hpp"

#include <doctest/doctest.h>

#include "trace/find.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

using Kind = DeviceWork::Kind;

DeviceWork kernel(std::int64_t start, std::int64_t end, const char* name = "k") {
  return {Kind::kernel, name, start, end, 0, 0, false};
}

Trace report(const Collector& collector) {
  Trace trace;
  collector.report(trace);
  return trace;
}

Work total(const Trace& trace) {
  Work sum;
  for (const Slice& slice : trace.slices) add(sum, slice.work);
  return sum;
}

}  // namespace

TEST_CASE("busy time counts overlapping streams once, idle time the gaps between") {
  RangeTree tree;
  Collector collector(tree);
  collector.work(kernel(1000, 2000), RangeTree::root);
  collector.work(kernel(1500, 2500), RangeTree::root);    // overlaps
  collector.work(kernel(1600, 1700), RangeTree::root);    // inside
  collector.work(kernel(2600, 2700), RangeTree::root);    // after 100
  collector.work(kernel(62700, 62800), RangeTree::root);  // after 60000: a long gap
  const Trace trace = report(collector);
  const Work work = total(trace);
  CHECK(work.kernels == 5);
  CHECK(work.kernel_ns == 1000 + 1000 + 100 + 100 + 100);
  CHECK(work.busy_ns == 1500 + 100 + 100);
  CHECK(work.idle_ns == 100 + 60000);
  CHECK(work.long_gaps == 1);
  CHECK(work.long_gap_ns == 60000);
  CHECK(work.longest_gap_ns == 60000);
  REQUIRE(trace.gaps.size() == 1);
  CHECK(trace.gaps[0].start_ns == 2700 - 1000);
}

TEST_CASE("a gap of 50 us is none yet, one of a nanosecond more is") {
  for (const std::int64_t gap : {50'000, 50'001}) {
    RangeTree tree;
    Collector collector(tree);
    collector.work(kernel(0, 10), RangeTree::root);
    collector.work(kernel(10 + gap, 20 + gap), RangeTree::root);
    CHECK(total(report(collector)).long_gaps == (gap > 50'000 ? 1 : 0));
  }
}

TEST_CASE("a gap belongs to the work that follows it") {
  RangeTree tree;
  const NodeId forward = tree.enter(RangeTree::root, "forward");
  const NodeId backward = tree.enter(RangeTree::root, "backward");
  Collector collector(tree);
  collector.work(kernel(0, 1000, "a"), forward);
  collector.work(kernel(101'000, 102'000, "b"), backward);
  const Trace trace = report(collector);
  CHECK(test::work_of(trace, Window::outside, Phase::forward).long_gaps == 0);
  CHECK(test::work_of(trace, Window::outside, Phase::backward).long_gaps == 1);
  REQUIRE(trace.gaps.size() == 1);
  CHECK(trace.gaps[0].before == "a");
  CHECK(trace.gaps[0].after == "b");
  CHECK(trace.gaps[0].range == "backward");
  CHECK(trace.gaps[0].ns == 100'000);
}

TEST_CASE("records that come out of order, as buffers of streams do, give the same totals") {
  RangeTree tree;
  Collector in_order(tree), mixed(tree);
  constexpr int n = 2000;
  for (int i = 0; i < n; ++i) in_order.work(kernel(100 * i, 100 * i + 60), RangeTree::root);
  for (int i = 0; i < n; i += 2) mixed.work(kernel(100 * i, 100 * i + 60), RangeTree::root);
  for (int i = 1; i < n; i += 2) mixed.work(kernel(100 * i, 100 * i + 60), RangeTree::root);
  for (const Collector* collector : {&in_order, &mixed}) {
    const Work work = total(report(*collector));
    CHECK(work.busy_ns == n * 60);
    CHECK(work.idle_ns == (n - 1) * 40);
  }
}

TEST_CASE("devices have timelines of their own") {
  RangeTree tree;
  Collector collector(tree);
  DeviceWork other = kernel(500, 1500);
  other.device = 3;
  collector.work(kernel(0, 1000), RangeTree::root);
  collector.work(other, RangeTree::root);
  Trace trace;
  trace.devices = {{.id = 0, .name = "zero"}, {.id = 1, .name = "idle"}};
  collector.report(trace);
  CHECK(total(trace).busy_ns == 2000);
  CHECK(total(trace).idle_ns == 0);
  REQUIRE(trace.devices.size() == 2);  // those that worked
  CHECK(trace.devices[0].name == "zero");
  CHECK(trace.devices[1].id == 3);
}

TEST_CASE("copies, memsets and kernels of graphs are counted apart") {
  RangeTree tree;
  Collector collector(tree);
  collector.launch(RangeTree::root);
  collector.work({Kind::copy, "c", 0, 10, 0, 4096, false}, RangeTree::root);
  collector.work({Kind::memset, "m", 10, 15, 0, 256, false}, RangeTree::root);
  collector.work({Kind::kernel, "k", 15, 35, 0, 0, true}, RangeTree::root);
  collector.work({Kind::kernel, "k", 35, 45, 0, 0, false}, RangeTree::root);
  const Trace trace = report(collector);
  const Work work = total(trace);
  CHECK(work.launches == 1);
  CHECK(work.copies == 1);
  CHECK(work.copy_bytes == 4096);
  CHECK(work.memset_bytes == 256);
  CHECK(work.captured_kernels == 1);
  CHECK(work.captured_ns == 20);
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace.kernels[0].count == 2);
  CHECK(trace.kernels[0].ns == 30);
  CHECK(trace.kernels[0].longest_ns == 20);
  CHECK(trace.kernels[0].captured == 1);
}

TEST_CASE("a long run does not grow: names and gaps are bounded, totals are not lost") {
  RangeTree tree;
  Collector collector(tree);
  constexpr int n = 100'000;
  for (int i = 0; i < n; ++i)
    collector.work(kernel(100'000L * i, 100'000L * i + 10, ("k" + std::to_string(i)).c_str()),
                   RangeTree::root);
  const Trace trace = report(collector);
  CHECK(trace.kernels.size() == Collector::max_kernels + 1);
  CHECK(trace.kernels[0].name == "[others]");
  CHECK(trace.kernels[0].count == n - static_cast<int>(Collector::max_kernels));
  CHECK(trace.gaps.size() == Collector::gaps_kept);
  CHECK(total(trace).kernels == n);
  CHECK(total(trace).long_gaps == n - 1);
}

TEST_CASE("a report does not change the collection") {
  RangeTree tree;
  Collector collector(tree);
  collector.work(kernel(0, 10), RangeTree::root);
  CHECK(total(report(collector)).busy_ns == 10);
  CHECK(total(report(collector)).busy_ns == 10);
  collector.work(kernel(20, 30), RangeTree::root);
  CHECK(total(report(collector)).busy_ns == 20);
}

TEST_CASE("times beyond any clock, and ends before starts, overflow nothing") {
  RangeTree tree;
  Collector collector(tree);
  const std::int64_t least = INT64_MIN, most = INT64_MAX;
  for (int i = 0; i < 20; ++i) {
    collector.work(kernel(least, most), RangeTree::root);
    collector.work(kernel(most, least), RangeTree::root);
  }
  const Work work = total(report(collector));
  CHECK(work.kernels == 40);
  CHECK(work.kernel_ns > 0);
  CHECK(work.busy_ns >= 0);
}
