#include <doctest/doctest.h>

#include "ac_advisor/model/error.hpp"
#include "snapshot/fixtures.hpp"
#include "snapshot/history.hpp"

using namespace ac_advisor;
using namespace ac_advisor::snapshot;

TEST_CASE("peaks are those that a counter saw, to the byte") {
  for (const char* name : {"train", "torch_2_0", "no_frames", "expandable", "late", "wrapped",
                           "two_devices", "streams", "oom"}) {
    CAPTURE(name);
    const std::string file = std::string(name) + ".pickle.gz";
    const auto expected = test::expected_of(file);
    const Analysis a = test::analyzed(file);
    CHECK(a.peak_allocated == expected["peak_allocated"]);
    CHECK(a.peak_reserved == expected["peak_reserved"]);
    CHECK(a.ended_allocated == expected["ended_allocated"]);
    CHECK(a.ended_reserved == expected["ended_reserved"]);
    std::int64_t sum = 0;
    for (const std::int64_t bytes : a.at_peak) sum += bytes;
    CHECK(sum == a.peak_allocated);
    REQUIRE_FALSE(a.timeline.empty());
    std::int64_t highest = 0;
    for (const Moment& m : a.timeline) highest = std::max(highest, m.allocated());
    CHECK(highest == a.peak_allocated);
  }
}

TEST_CASE("categories are those that the training had, to the byte") {
  for (const char* name :
       {"train", "torch_2_0", "expandable", "late", "wrapped", "two_devices", "frozen",
        "frozen_late", "own_optimizer_late", "distributed", "distributed_late"}) {
    CAPTURE(name);
    const std::string file = std::string(name) + ".pickle.gz";
    CHECK(test::at_peak(test::analyzed(file)) == test::expected_of(file)["at_peak"]);
  }
}

TEST_CASE("without stacks, sizes that repeat tell steps, and what stays tells states") {
  const Analysis a = test::analyzed("no_frames.pickle.gz");
  const auto expected = test::expected_of("no_frames.pickle.gz")["at_peak"];
  const auto found = test::at_peak(a);
  CHECK(found["gradients"] == expected["gradients"]);
  CHECK(found["workspace"] == expected["workspace"]);
  CHECK(found["parameters"] == expected["parameters"]);
  CHECK(found["optimizer_states"] == expected["optimizer_states"]);
  CHECK(a.how_steps.find("27 allocations") != std::string::npos);
}

TEST_CASE("a step's border is not inside an annotated optimizer's step, whatever its stacks say") {
  const Analysis a = test::analyzed("annotated.pickle.gz");
  CHECK(a.peak_allocated == test::expected_of("annotated.pickle.gz")["peak_allocated"]);
  REQUIRE(a.steps.size() == 3);
  for (const StepSummary& s : a.steps) CHECK(s.complete);
}

TEST_CASE("a step ends after its optimizer's: four steps, the first with the model's making") {
  const Analysis a = test::analyzed("train.pickle.gz");
  REQUIRE(a.steps.size() == 4);
  for (const StepSummary& s : a.steps) CHECK(s.complete);
  // The first step has no states until its optimizer runs.
  CHECK(a.steps[0].peak_allocated < a.steps[1].peak_allocated);
  for (std::size_t k = 1; k < 4; ++k) CHECK(a.steps[k].peak_allocated == a.peak_allocated);
  CHECK(a.peak_phase == "backward");
  CHECK(a.steps[1].peak_by_phase[2] == a.peak_allocated);
}

TEST_CASE("what is allocated between backward and the optimizer's step begins no step") {
  const Analysis a = test::analyzed("distributed.pickle.gz");
  REQUIRE(a.steps.size() == 4);
  for (const StepSummary& s : a.steps) CHECK(s.complete);
  CHECK(test::analyzed("distributed_late.pickle.gz").steps.size() == 3);
}

TEST_CASE("a history that begins late says so") {
  const Analysis a = test::analyzed("late.pickle.gz");
  CHECK(a.began_allocated > 0);
  REQUIRE_FALSE(a.notes.empty());
  CHECK(a.notes[0].find("already allocated") != std::string::npos);
}

TEST_CASE("a block keeps the rest that is too small to split off") {
  // A gradient of 3 MiB + 512 B in a free block that is at most 1 MiB larger takes all of it.
  const Snapshot s = read(test::snapshot_path("train.pickle.gz"));
  const History h = history_of(s, 0);
  std::int64_t larger = 0, total = 0;
  for (const Allocation& a : h.allocations) {
    const std::int64_t rounded = block_size(a.requested, s.settings);
    CHECK(a.size >= rounded);
    CHECK(a.size - rounded <= 1 << 20);
    larger += a.size > rounded ? 1 : 0;
    total += 1;
  }
  CHECK(larger > 0);
  CHECK(total == static_cast<std::int64_t>(h.allocations.size()));
}

TEST_CASE("roundup_power2_divisions enlarges blocks as the allocator does") {
  AllocatorSettings settings;
  CHECK(block_size(1, settings) == 512);
  CHECK(block_size(1200, settings) == 1536);
  settings.roundup_power2_divisions[1] = 4;  // 1 MiB: of the sizes below 2 MiB
  // 1200 = 1024 + 176; a quarter of 1024 is 256: the next is 1280, but below 4 x 512 it is not used
  CHECK(block_size(1200, settings) == 1536);
  // 5000 lies in [4096, 8192); quarters of 4096: 5120
  CHECK(block_size(5000, settings) == 5120);
  CHECK(block_size(4096, settings) == 4096);
}

TEST_CASE("the device with the highest peak is shown, or the one that is named") {
  const Snapshot s = read(test::snapshot_path("two_devices.pickle.gz"));
  const Analysis a = analyze(s);
  CHECK(a.device == 1);
  REQUIRE(a.devices.size() == 2);
  AnalyzeOptions options;
  options.device = 0;
  CHECK(analyze(s, options).peak_allocated ==
        test::expected_of("two_devices.pickle.gz")["first_peak"]);
  options.device = 7;
  CHECK_THROWS_WITH_AS(static_cast<void>(analyze(s, options)), doctest::Contains("devices 0, 1"),
                       UserError);
}

TEST_CASE("memory that waits for another stream is not allocated, and not yet free") {
  const Snapshot s = read(test::snapshot_path("streams.pickle.gz"));
  const History h = history_of(s, 0);
  REQUIRE(h.allocations.size() == 3);
  const Allocation &waits = h.allocations[0], &side = h.allocations[1], &other = h.allocations[2];
  CHECK(waits.freed < waits.reusable);
  CHECK(side.stream == 0x5555);
  CHECK(other.address != waits.address);  // asked for while the first still waited
}

TEST_CASE("an out-of-memory error tells what was there and what would have fitted") {
  const Analysis a = test::analyzed("oom.pickle.gz");
  REQUIRE(a.out_of_memory.size() == 1);
  const OutOfMemory& o = a.out_of_memory[0];
  constexpr std::int64_t mib = 1 << 20;
  CHECK(o.requested == 25 * mib);
  // Pairs of 9 and 1.5 MiB, the large ones freed. Segments of 20 MiB: 9, 1.5, 9.5 (the rest is not
  // split off), then 1.5, 9, 1.5 and 8 that are free: 40 of 64 MiB.
  CHECK(o.reserved == 40 * mib);
  CHECK(o.device_free == 24 * mib);
  CHECK(o.allocated == 3 * (mib + mib / 2));
  CHECK(o.cached == 40 * mib - 3 * (mib + mib / 2));
  CHECK(o.largest_free == 9 * mib + mib / 2);
  CHECK(o.would_have_fitted == 24 * mib);
  // 24 + 35.5 MiB, in granules of 2 MiB
  CHECK(o.would_have_fitted_expandable == 58 * mib);
  CHECK(o.where == "train.py:80 <module>");
  REQUIRE_FALSE(o.stack.empty());
  CHECK(o.stack[0] == "functional.py:3494 cross_entropy");
}

TEST_CASE("segments that are partly free are named with what pins them") {
  const Analysis a = test::analyzed("oom.pickle.gz");
  REQUIRE_FALSE(a.fragmentation.pinned.empty());
  const PinnedSegment& p = a.fragmentation.pinned[0];
  CHECK(p.size == 20 << 20);
  CHECK(p.smallest == (1 << 20) + (1 << 19));
  CHECK(p.smallest_where == "train.py:60 batch");
}

TEST_CASE("the allocator's replica reserves what the snapshot's allocator reserved") {
  for (const char* name : {"train", "torch_2_0", "no_frames"}) {
    CAPTURE(name);
    const Fragmentation f = test::analyzed(std::string(name) + ".pickle.gz").fragmentation;
    CHECK(f.replayed_reserved == f.peak_reserved);
  }
  const Fragmentation f = test::analyzed("expandable.pickle.gz").fragmentation;
  CHECK(f.replayed_expandable == f.peak_reserved);
}

TEST_CASE("two snapshots: what the second has more") {
  const Snapshot a = read(test::snapshot_path("protocol_5.pickle.gz"));
  const Snapshot b = read(test::snapshot_path("train.pickle.gz"));
  const Growth g = growth(a, b, {});
  CHECK(g.b_allocated == test::expected_of("train.pickle.gz")["ended_allocated"]);
  std::int64_t grown = 0;
  for (const Growth::Row& row : g.rows) grown += row.b - row.a;
  CHECK(grown == g.b_allocated - g.a_allocated);
  REQUIRE_FALSE(g.rows.empty());
  CHECK(g.rows[0].category == profile::Category::optimizer_states);
  const Growth none = growth(b, b, {});
  CHECK(none.rows.empty());
}

TEST_CASE("the timeline is cut to as many moments as asked for, with its peak") {
  AnalyzeOptions options;
  options.moments = 10;
  const Analysis a = analyze(read(test::snapshot_path("train.pickle.gz")), options);
  CHECK(a.timeline.size() <= 10);
  std::int64_t highest = 0;
  for (const Moment& m : a.timeline) highest = std::max(highest, m.allocated());
  CHECK(highest == a.peak_allocated);
}
