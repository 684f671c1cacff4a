#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/read.hpp"
#include "trace/find.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

/// A database file that the SQL makes.
std::string database(const std::string& name, const std::string& sql) {
  const std::string path = std::string(test::binary_dir) + "/" + name;
  std::filesystem::remove(path);
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  char* error = nullptr;
  const int result = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error);
  CAPTURE(std::string(error == nullptr ? "" : error));
  REQUIRE(result == SQLITE_OK);
  sqlite3_close(db);
  return path;
}

/// A file for each test: they run at once.
Trace read_fixture(const std::string& name) {
  const TraceFile file = read_trace(database(name, test::fixture("nsys.sql")));
  REQUIRE(file.processes.size() == 1);
  return file.processes[0];
}

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("nsys: kernels get the range of their launch, across threads") {
  const Trace trace = read_fixture("nsys ü?#.sqlite");
  CHECK(trace.source == "nsight-systems");
  CHECK(trace.pid == 100);
  const Window later = Window::later_steps;
  CHECK(test::work_of(trace, later, Phase::forward).kernels == 2);
  CHECK(test::work_of(trace, later, Phase::recompute).kernels == 1);
  CHECK(test::work_of(trace, later, Phase::recompute).kernel_ns == 100'000);
  // Launched from the autograd thread while the main thread's range backward was open.
  const Work backward = test::work_of(trace, later, Phase::backward);
  CHECK(backward.launches == 1);
  CHECK(backward.kernels == 2);
  CHECK(backward.captured_kernels == 2);
  CHECK(test::work_of(trace, later, Phase::other).copy_bytes == 4096);
  CHECK(trace.attribution.own_range == 3);
  CHECK(trace.attribution.other_thread == 2);
  const RangeTotal* again =
      test::range_of(trace, "step/backward/layers.0", later, Phase::recompute);
  REQUIRE(again != nullptr);
  CHECK(again->work.kernels == 1);
  CHECK(again->host_ns == 90'000);
}

TEST_CASE("nsys: gaps, memory, devices and DRAM samples") {
  const Trace trace = read_fixture("nsys.sqlite");
  const Work recompute = test::work_of(trace, Window::later_steps, Phase::recompute);
  CHECK(recompute.long_gaps == 1);
  CHECK(recompute.longest_gap_ns == 100'000);
  // 1000 and 500 live at once; then the first goes and 700 comes. Host memory does not count.
  CHECK(trace.memory.process == 1500);
  REQUIRE(trace.devices.size() == 1);
  CHECK(trace.devices[0].name == "NVIDIA H200");  // CUDA's device 0 is GPU 1
  CHECK(trace.devices[0].bandwidth_bytes_per_second == 4'800'000'000'000);
  const auto share = [&](Phase phase) {
    return trace.dram_utilisation[static_cast<std::size_t>(phase)];
  };
  REQUIRE(share(Phase::recompute));
  CHECK(*share(Phase::recompute) == doctest::Approx((0.60 + 0.30 + 0.50 + 0.20) / 2));
  REQUIRE(share(Phase::forward));
  CHECK(*share(Phase::forward) == doctest::Approx(0.60));
  CHECK_FALSE(share(Phase::backward));
}

TEST_CASE("nsys: graphs that were recorded as a whole are busy time, and told") {
  // --cuda-graph-trace=graph, the default: one execution of 300 us from 1,400,000 in place of the
  // fixture's two kernels of graph nodes; it is in no other table.
  const TraceFile file = read_trace(database(
      "graphs.sqlite",
      test::fixture("nsys.sql") +
          "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NOT NULL;"
          "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT "
          "NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER, "
          "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, graphId INTEGER "
          "NOT "
          "NULL, graphExecId INTEGER);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1410000, 1710000, 0, 1, NULL, 7, "
          "14, "
          "(1 << 56) + (100 << 24), 9, 10);"));
  REQUIRE(file.processes.size() == 1);
  const Trace& trace = file.processes[0];
  const Work backward = test::work_of(trace, Window::later_steps, Phase::backward);
  CHECK(backward.graphs == 1);
  CHECK(backward.kernels == 0);
  CHECK(backward.launches == 1);
  CHECK(backward.busy_ns == 300'000);
  CHECK(backward.kernel_ns == 300'000);
  CHECK(backward.captured_ns == 300'000);
  std::string notes;
  for (const std::string& note : trace.notes) notes += note + "\n";
  CHECK(test::has(notes, "1 executions of CUDA graphs were recorded as a whole"));
  const bool named = std::any_of(trace.kernels.begin(), trace.kernels.end(),
                                 [](const KernelTotal& k) { return k.name == "[CUDA graph 9]"; });
  CHECK(named);
}

TEST_CASE("nsys: an export of graphs alone is a trace") {
  const TraceFile file = read_trace(
      database("graph_only.sqlite",
               "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, "
               "graphId INT); INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (0, 10, 0, 1), "
               "(20, 30, 0, 1), (50, 40, 0, 1);"));
  CHECK(busiest(file).kernel_count() == 2);
  std::string notes;
  for (const std::string& note : busiest(file).notes) notes += note + "\n";
  CHECK(test::has(notes, "1 records of a negative duration were left out"));
}

TEST_CASE("nsys: an export with the kernels alone is read, and what it lacks is said") {
  const Trace trace =
      read_trace(database("least.sqlite",
                          "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId "
                          "INT); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10, 0);"))
          .processes.at(0);
  CHECK(trace.kernel_count() == 1);
  std::string notes;
  for (const std::string& note : trace.notes) notes += note + "\n";
  for (const char* part : {"ranges: none", "no CUDA API calls", "--cuda-memory-usage=true",
                           "--gpu-metrics-devices=all", "PyTorch's caching allocator"}) {
    CAPTURE(part);
    CHECK(test::has(notes, part));
  }
}

TEST_CASE("nsys: another database is refused by what it lacks") {
  CHECK_THROWS_WITH_AS(
      static_cast<void>(read_trace(database("other.sqlite", "CREATE TABLE t (a)"))),
      doctest::Contains("no table CUPTI_ACTIVITY_KIND_KERNEL"), UserError);
}

TEST_CASE("nsys: a view in place of a table is not run") {
  const std::string path = database(
      "view.sqlite",
      "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(start, end, deviceId) AS (SELECT "
      "1, 2, 0 UNION ALL SELECT start + 1, end + 1, 0 FROM c) SELECT * FROM c");
  CHECK_THROWS_WITH_AS(static_cast<void>(read_trace(path)), doctest::Contains("no table"),
                       UserError);
}

TEST_CASE("nsys: text where numbers belong, and numbers beyond any clock, crash nothing") {
  const std::string path = database(
      "odd.sqlite",
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, correlationId, globalPid, "
      "demangledName); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('x', x'00ff', NULL, 1e300, "
      "-1, 'name'), (-9223372036854775808, 9223372036854775807, 9223372036854775807, 1, 1, 1); "
      "CREATE TABLE NVTX_EVENTS (start, end, globalTid, text); INSERT INTO NVTX_EVENTS VALUES "
      "(5, 1, 1, 'ends before it starts'), ('a', 'b', 'c', x'ff00ff');");
  std::int64_t kernels = 0;
  for (const Trace& trace : read_trace(path).processes) kernels += trace.kernel_count();
  CHECK(kernels == 2);
}

TEST_CASE("nsys: a file that was cut off or damaged is refused or read, never a crash") {
  const std::string whole = bytes_of(database("whole.sqlite", test::fixture("nsys.sql")));
  REQUIRE(whole.size() > 4096);
  for (std::size_t size = 1; size < whole.size(); size += 509) {
    CAPTURE(size);
    CHECK_THROWS_AS(static_cast<void>(read_trace_bytes(whole.substr(0, size), "cut.sqlite")),
                    UserError);
  }
  for (std::size_t at = 16; at < whole.size(); at += 61) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    try {
      static_cast<void>(read_trace_bytes(damaged, "damaged.sqlite"));
    } catch (const UserError&) {
      // the answer to bad input
    }
  }
}
