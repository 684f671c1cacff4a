#include "ac_advisor/trace/read.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "trace/find.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

TraceFile own() {
  TraceFile file = read_trace_bytes(test::fixture("kineto_full.json"), "t");
  file.command = "python train.py";
  file.exit_code = 0;
  Trace& trace = file.processes[0];
  trace.process = "python";
  trace.dram_utilisation[0] = 0.5;
  trace.memory.process = 7;
  trace.dropped_records = 3;
  return file;
}

}  // namespace

TEST_CASE("a trace survives its own JSON") {
  const TraceFile before = own();
  const std::string text = to_json(before);
  const TraceFile after = read_trace_bytes(text, "t");
  CHECK(after.command == "python train.py");
  CHECK(after.exit_code == 0);
  CHECK(to_json(after) == text);
  REQUIRE(after.processes.size() == 1);
  CHECK(after.processes[0].kernel_count() == before.processes[0].kernel_count());
  CHECK(after.processes[0].memory.process == 7);
  CHECK_FALSE(after.processes[0].memory.device_used);
}

TEST_CASE("the file is told by its contents, and what must be converted is told how") {
  const struct {
    std::string bytes, name, part;
  } cases[] = {
      {"\x1f\x8b\x08", "t.json.gz", "t.json.gz: is cut off: its gzip stream has no end"},
      {"QDSTRM", "report1.nsys-rep", "nsys export --type sqlite report1.nsys-rep"},
      {"hello", "t.txt", "neither JSON nor SQLite"},
      {"  \n", "t.json", "is empty"},
      {"", "t.json", "is empty"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.name);
    CHECK_THROWS_WITH_AS(static_cast<void>(read_trace_bytes(c.bytes, c.name)),
                         doctest::Contains(c.part.c_str()), UserError);
  }
}

TEST_CASE("files that cannot be read are refused") {
  CHECK_THROWS_WITH_AS(static_cast<void>(read_trace("/no/such/file")),
                       doctest::Contains("No such file"), UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_trace(std::string(test::source_dir))),
                       doctest::Contains("is a folder"), UserError);
}

TEST_CASE("a trace of this program that is cut off is refused") {
  const std::string whole = to_json(own());
  for (std::size_t size = 64; size < whole.size() - 2; size += 97) {
    CAPTURE(size);
    CHECK_THROWS_AS(static_cast<void>(read_trace_bytes(whole.substr(0, size), "t")), UserError);
  }
}

TEST_CASE("a field of the wrong type or range is named") {
  const std::string whole = to_json(own());
  const struct {
    const char *from, *to, *part;
  } cases[] = {
      {"\"pid\": 100", "\"pid\": \"x\"", "\"processes[0].pid\": \"x\" must be an integer"},
      {"\"count\": 1,", "\"count\": -1,", "count\": -1 must be an integer from 0"},
      {"\"phase\": \"forward\"", "\"phase\": \"sideways\"",
       "phase\": \"sideways\" is not known here; known: forward"},
      {"\"forward\": 0.5", "\"forward\": 1.5",
       "dram_utilisation.forward\": 1.5 must be a number from 0 to 1"},
      {"\"dropped_records\": 3", "\"dropped_records\": 18446744073709551615",
       "must be an integer from 0 to 2^61"},
      {"\"notes\"", "\"nodes\"", "notes\" is missing; is this a trace"},
      {"ac-advisor/gpu-trace/1", "ac-advisor/gpu-trace/1.5", "\"schema\" must be"},
  };
  for (const auto& c : cases) {
    CAPTURE(std::string(c.part));
    std::string text = whole;
    const auto at = text.find(c.from);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(c.from).size(), c.to);
    CHECK_THROWS_WITH_AS(static_cast<void>(read_trace_bytes(text, "t")), doctest::Contains(c.part),
                         UserError);
  }
}

TEST_CASE("the busiest process is told of, and a trace without kernels is refused") {
  TraceFile file = own();
  file.processes.push_back(file.processes[0]);
  file.processes[1].pid = 200;
  for (Slice& slice : file.processes[1].slices) slice.work.kernel_ns *= 2;
  CHECK(busiest(file).pid == 200);
  CHECK_THROWS_WITH_AS(static_cast<void>(busiest(TraceFile{.origin = "t"})),
                       doctest::Contains("no kernel ran"), UserError);
}
