// tests/trace/data/kineto_*.json, but for kineto_ddp.json.gz, are written by hand in the form of
// torch.profiler's traces: two steps, without and with a checkpoint.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/read.hpp"
#include "ac_advisor/trace/summary.hpp"
#include "trace/find.hpp"
#include "trace/kineto_event.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

Trace read(const std::string& text) {
  const TraceFile file = read_trace_bytes(text, "t.json");
  REQUIRE(file.processes.size() == 1);
  return file.processes[0];
}

std::string events(const std::string& list) { return "{\"traceEvents\": [" + list + "]}"; }

}  // namespace

TEST_CASE("Kineto: kernels get the phase of their launch") {
  const Trace trace = read(test::fixture("kineto_full.json"));
  CHECK(trace.source == "kineto");
  CHECK(trace.pid == 100);
  CHECK(trace.steps.first == 1);
  CHECK(trace.steps.later == 1);
  CHECK(trace.steps.later_host_ns == 999'500);
  for (const Window window : {Window::first_step, Window::later_steps}) {
    CHECK(test::work_of(trace, window, Phase::forward).kernels == 2);
    CHECK(test::work_of(trace, window, Phase::forward).kernel_ns == 140'000);
    CHECK(test::work_of(trace, window, Phase::recompute).kernels == 2);
    CHECK(test::work_of(trace, window, Phase::recompute).kernel_ns == 160'000);
    CHECK(test::work_of(trace, window, Phase::backward).kernels == 1);
    CHECK(test::work_of(trace, window, Phase::optimizer).kernels == 1);
    CHECK(test::work_of(trace, window, Phase::other).copies == 1);
  }
  CHECK(trace.attribution.none == 0);
}

TEST_CASE("Kineto: a trace without a checkpoint has no recomputation") {
  const Trace trace = read(test::fixture("kineto_none.json"));
  for (const Slice& slice : trace.slices) CHECK(slice.phase != Phase::recompute);
}

TEST_CASE("Kineto: gaps, copies, memory and devices") {
  const Trace trace = read(test::fixture("kineto_full.json"));
  // The forward's last kernel ends at 2160 us, the recomputation's first begins at 2220.
  const Work recompute = test::work_of(trace, Window::later_steps, Phase::recompute);
  CHECK(recompute.idle_ns == 60'000);
  CHECK(recompute.long_gaps == 1);
  const Work other = test::work_of(trace, Window::later_steps, Phase::other);
  CHECK(other.copy_bytes == 4096);
  CHECK(other.copy_ns == 2'500);
  CHECK(trace.memory.allocated == std::int64_t{1} << 30);
  CHECK(trace.memory.reserved == std::int64_t{2} << 30);
  CHECK_FALSE(trace.memory.process);
  REQUIRE(trace.devices.size() == 1);  // of two, one worked
  CHECK(trace.devices[0].name == "NVIDIA H100 80GB HBM3");
  CHECK(trace.devices[0].memory_bytes == 85017624576);
}

TEST_CASE("Kineto: times since 1970 keep their nanoseconds") {
  // 1712195495505583.125 us: a double has a quarter of a microsecond left there.
  const Trace trace = read(events(
      R"({"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1712195495505583.125,"dur":1.5,
          "args":{"device":0,"correlation":1}},
         {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":1712195495505584.999,"dur":1,
          "args":{"device":0,"correlation":2}})"));
  const Work work = test::work_of(trace, Window::outside, Phase::other);
  CHECK(work.idle_ns == 1'874 - 1'500);
  CHECK(work.busy_ns == 2'500);
}

TEST_CASE("Kineto: kernels that a graph launched are captured, with the argument or without") {
  const Trace trace = read(events(
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":5,"tid":5,"ts":1,"dur":1,
          "args":{"correlation":1}},
         {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":1,
          "args":{"device":0,"correlation":1}},
         {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":6,"dur":1,
          "args":{"device":0,"correlation":1}},
         {"ph":"X","cat":"kernel","name":"c","pid":0,"tid":7,"ts":7,"dur":1,
          "args":{"device":0,"correlation":9,"graph id":3}})"));
  const Work work = test::work_of(trace, Window::outside, Phase::other);
  CHECK(work.launches == 1);
  CHECK(work.kernels == 3);
  CHECK(work.captured_kernels == 3);
}

TEST_CASE("Kineto: the plain list of events, and categories of older versions") {
  const Trace trace = read(
      R"([{"ph":"X","cat":"Kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":1,"args":{"device":0}},
          {"ph":"X","cat":"Memset","name":"m","pid":0,"tid":7,"ts":6,"dur":1,
           "args":{"device":0,"bytes":64}}])");
  CHECK(trace.kernel_count() == 1);
  CHECK(test::work_of(trace, Window::outside, Phase::other).memset_bytes == 64);
}

TEST_CASE("Kineto: an autograd thread without ops is told by its name") {
  const Trace trace = read(events(
      R"j({"ph":"M","name":"thread_name","pid":5,"tid":6,"args":{"name":"thread 6 (pt_autograd_0)"}},
         {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":5,"tid":6,"ts":1,"dur":1,
          "args":{"correlation":1}},
         {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":1,
          "args":{"device":0,"correlation":1}})j"));
  CHECK(test::work_of(trace, Window::outside, Phase::backward).kernels == 1);
  CHECK(trace.attribution.thread_name == 1);
}

TEST_CASE("Kineto: what is not measured is said") {
  std::string notes;
  for (const std::string& note : read(events("")).notes) notes += note + "\n";
  CHECK(test::has(notes, "a Kineto trace has no DRAM counters"));
  CHECK(test::has(notes, "profile_memory=True"));
}

TEST_CASE("Kineto: events that lack what they need are left out and counted") {
  const Trace trace = read(events(
      R"({"ph":"X","cat":"kernel","name":"no time","pid":0,"tid":7},
         {"ph":"X","cat":"kernel","name":"no thread","pid":0,"ts":5,"dur":1},
         {"ph":"X","cat":"kernel","name":"backwards","pid":0,"tid":7,"ts":5,"dur":-1},
         {"ph":"X"}, {}, 7, "x", [], null)"));
  CHECK(trace.kernel_count() == 0);
  std::string notes;
  for (const std::string& note : trace.notes) notes += note + "\n";
  CHECK(test::has(notes, "2 events without a time, process or thread were left out"));
  CHECK(test::has(notes, "1 events of a negative duration were left out"));
}

TEST_CASE("Kineto: a number beyond any clock is none") {
  CHECK(scaled("1700000000000000.123456", 3) == 1700000000000000123);
  CHECK(scaled("-12.5", 3) == -12500);
  CHECK(scaled("230584300921369394", 0) == 230584300921369394);
  CHECK_FALSE(scaled("2305843009213693953", 0).has_value());
  CHECK_FALSE(scaled("1011111111111111111", 1).has_value());
  CHECK_FALSE(scaled("10111111111111111110", 0).has_value());
  CHECK_FALSE(scaled("99999999999999999999999999", 3).has_value());
}

TEST_CASE("Kineto: a file that was cut off is refused with the byte where it ends") {
  const std::string whole = test::fixture("kineto_full.json");
  for (std::size_t size = 1; size < whole.size() - 2; size += 13) {
    CAPTURE(size);
    std::string error;
    try {
      static_cast<void>(read_trace_bytes(whole.substr(0, size), "cut.json"));
    } catch (const UserError& e) {
      error = e.what();
    }
    CHECK(test::has(error, "cut.json: is cut off"));
  }
}

TEST_CASE(
    "Kineto: threads and processes that are texts, and steps among the ops (torch 1.8, 1.9)") {
  // As output_json.cpp of that time wrote it: "tid": "31383", kernels on "stream 7", categories
  // capitalised, no device among the arguments of copies.
  const Trace trace = read(test::fixture("kineto_torch18.json"));
  CHECK(trace.pid == 31383);
  CHECK(trace.steps.first == 1);
  CHECK(trace.steps.later == 1);
  const Work forward = test::work_of(trace, Window::later_steps, Phase::forward);
  CHECK(forward.kernels == 1);
  CHECK(forward.launches == 1);
  CHECK(forward.kernel_ns == 100'000);
  CHECK(test::work_of(trace, Window::later_steps, Phase::backward).kernels == 1);
  CHECK(test::work_of(trace, Window::later_steps, Phase::optimizer).kernels == 1);
  CHECK(test::work_of(trace, Window::later_steps, Phase::other).copy_bytes == 4096);
  CHECK(trace.devices.size() == 1);
}

TEST_CASE("Kineto: before torch 1.8 the process says what ran where") {
  const Trace trace = read(
      R"([{"name":"mm","ph":"X","ts":1.5,"dur":10,"tid":1,"pid":"CPU functions","args":{}},
          {"name":"mm","ph":"s","ts":1.5,"tid":1,"pid":"CPU functions","id":0,"cat":"cpu_to_cuda"},
          {"name":"mm","ph":"X","ts":3,"dur":7,"tid":0,"pid":"CUDA functions","args":{}}])");
  CHECK(trace.kernel_count() == 1);
  CHECK(test::work_of(trace, Window::outside, Phase::other).kernel_ns == 7'000);
}

TEST_CASE("Kineto: steps that launch nothing are not steps") {
  const std::string launch =
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":5,"tid":5,"ts":%,"dur":1,
          "args":{"correlation":%}},
         {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%.5,"dur":2,
          "args":{"device":0,"correlation":%}},)";
  const std::string step =
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#%","pid":5,"tid":5,"ts":%00,"dur":50},)";
  const auto with = [](std::string text, std::initializer_list<int> numbers) {
    for (const int number : numbers) text.replace(text.find('%'), 1, std::to_string(number));
    return text;
  };
  std::string list;
  // torch 2.11 leaves one behind the last; a loop may have one before the first.
  for (const int n : {1, 2, 3, 4, 5}) list += with(step, {n, n});
  for (const int n : {2, 3, 4}) list += with(launch, {n * 100 + 10, n, n * 100 + 12, n});
  list += R"({"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":5,"tid":5,
              "ts":510,"dur":1,"args":{"correlation":99}})";
  const Trace trace = read(events(list));
  CHECK(trace.steps.first == 1);
  CHECK(trace.steps.later == 2);
  CHECK(trace.steps.later_host_ns == 2 * 50'000);
  CHECK(test::work_of(trace, Window::first_step, Phase::other).kernels == 1);
  CHECK(test::work_of(trace, Window::later_steps, Phase::other).kernels == 2);
}

TEST_CASE("Kineto: invalid JSON that torch.profiler writes loses no event") {
  std::string text = test::fixture("kineto_full.json");
  const std::string plain = to_json(read_trace_bytes(text, "t"));
  // Behind the first event: a path of Windows, quotes, a control byte, no UTF-8, NaN.
  const std::size_t at = text.find("{\"name\": \"process_name\"");
  REQUIRE(at != std::string::npos);
  text.insert(
      at,
      "{\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"torch\\cuda\\x.py(1): f\", "
      "\"pid\": 1, \"tid\": 1, \"ts\": NaN, \"dur\": Infinity},\n"
      "{\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"L = Library(\"_t\", \"IMPL\")\n"
      "\x01\xff(1): <module>\", \"pid\": 1, \"tid\": 1, \"ts\": 5},\n");
  TraceFile file = read_trace_bytes("\xef\xbb\xbf" + text, "t");
  REQUIRE_FALSE(file.processes[0].notes.empty());
  CHECK(test::has(file.processes[0].notes.back(), "not valid JSON in"));
  file.processes[0].notes.pop_back();
  CHECK(to_json(file) == plain);
}

TEST_CASE("Kineto: work whose launch is not in the trace is counted and told") {
  const Trace trace = read(events(
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":5,"tid":5,"ts":1,"dur":1,
          "args":{"correlation":1}},
         {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":1,
          "args":{"device":0,"correlation":1}},
         {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":9,"dur":1,
          "args":{"device":0,"correlation":77}})"));
  CHECK(trace.unlinked_work == 1);
  std::string notes;
  for (const std::string& note : trace.notes) notes += note + "\n";
  CHECK(test::has(notes, "1 kernels, copies and memsets were launched outside the trace"));
}

TEST_CASE("Kineto: kernels belong to modules, the backward's by the number of their forward op") {
  // Two blocks; the autograd thread runs MmBackward0 of block 1 (number 7): it computes that block
  // again and then its gradient.
  const Trace trace = read(test::fixture("kineto_modules.json"));
  const std::string block = "ProfilerStep/nn.Module: Net_0/nn.Module: Block_1";
  const Window later = Window::first_step;
  const RangeTotal* forward =
      test::range_of(trace, block + "/nn.Module: Linear_1", later, Phase::forward);
  REQUIRE(forward != nullptr);
  CHECK(forward->work.kernels == 1);
  const RangeTotal* backward =
      test::range_of(trace, block + "/nn.Module: Linear_1", later, Phase::backward);
  REQUIRE(backward != nullptr);
  CHECK(backward->work.kernels == 1);
  // Which module of the block an op that runs again is of, the trace does not tell.
  REQUIRE(trace.recomputed.size() == 1);
  CHECK(trace.recomputed[0].path == block);
  CHECK(trace.recomputed[0].op == "aten::mm");
  CHECK(trace.recomputed[0].kernels == 1);
}

TEST_CASE("Kineto: an op that runs again belongs to the modules whose frames are around it") {
  // As above, and the autograd thread has the frames of what the checkpoint calls, as with_stack
  // records them there.
  std::string text = test::fixture("kineto_modules.json");
  const auto frame = [](const char* name, int ts, int dur) {
    return R"({"ph": "X", "cat": "python_function", "name": "nn.Module: )" + std::string(name) +
           R"(", "pid": 100, "tid": 101, "ts": )" + std::to_string(ts) + R"(, "dur": )" +
           std::to_string(dur) + R"(, "args": {"Python id": 9}},)";
  };
  const std::size_t list = text.find('[', text.find("traceEvents"));
  REQUIRE(list != std::string::npos);
  text.insert(list + 1, frame("Block_1", 1504, 60) + frame("Linear_1", 1506, 40));
  const Trace trace = read(text);
  REQUIRE(trace.recomputed.size() == 1);
  CHECK(trace.recomputed[0].path ==
        "ProfilerStep/nn.Module: Net_0/nn.Module: Block_1/nn.Module: Linear_1");
  CHECK(trace.recomputed[0].kernels == 1);
}

TEST_CASE("Kineto: under DDP what a convolutional net runs again belongs to the layers that do") {
  // torch.profiler's own events of ops and modules, a kernel for each op (make_ddp.py): two blocks
  // of a convolution, a norm, an addition and a ReLU.
  const TraceFile file = read_trace(test::fixture_path("kineto_ddp.json.gz"));
  REQUIRE(file.processes.size() == 1);
  std::map<std::string, std::int64_t> kernels;
  for (const RecomputedTotal& op : file.processes[0].recomputed)
    kernels[module_kind(module_of(op.path))] += op.kernels;
  const std::string block = "DistributedDataParallel.Net.Block";
  CHECK(kernels ==
        std::map<std::string, std::int64_t>{
            {block, 2}, {block + ".Conv2d", 2}, {block + ".BatchNorm2d", 2}, {block + ".ReLU", 2}});
}

TEST_CASE("Kineto: other JSON is refused by what it lacks, and nesting has an end") {
  CHECK_THROWS_WITH_AS(static_cast<void>(read_trace_bytes("{\"a\": 1}", "x")),
                       doctest::Contains("\"traceEvents\" is missing"), UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_trace_bytes(std::string(100'000, '['), "x")),
                       doctest::Contains("nested deeper"), UserError);
}
