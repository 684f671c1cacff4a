#include "trace/recorder.hpp"

#include <doctest/doctest.h>
#include <pthread.h>
#include <unistd.h>

#include <thread>

#include "trace/find.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

DeviceWork kernel(std::int64_t start) {
  return {DeviceWork::Kind::kernel, "k", start, start + 10, 0, 0, false};
}

}  // namespace

TEST_CASE("a kernel's record finds the range its launch was in, whenever it comes") {
  Recorder recorder(::getpid());
  CHECK(recorder.push("step 1") == 0);
  CHECK(recorder.push("forward") == 1);
  recorder.api_call(7, true);
  CHECK(recorder.pop() == 1);
  recorder.api_call(8, true);
  CHECK(recorder.pop() == 0);
  recorder.work(kernel(100), 8);
  recorder.work(kernel(50), 7);
  recorder.work(kernel(200), 99);  // a launch that was not seen
  const Trace trace = recorder.report();
  CHECK(test::work_of(trace, Window::first_step, Phase::forward).kernels == 1);
  CHECK(test::work_of(trace, Window::first_step, Phase::other).kernels == 1);
  CHECK(test::work_of(trace, Window::outside, Phase::other).kernels == 1);
  CHECK(trace.attribution.own_range == 2);
  CHECK(trace.attribution.none == 1);
  REQUIRE(test::range_of(trace, "step/forward", Window::first_step, Phase::forward) != nullptr);
}

TEST_CASE("a thread without ranges is inside those of the main thread") {
  Recorder recorder(::getpid());
  recorder.push("backward");
  std::thread([&] { recorder.api_call(1, true); }).join();
  recorder.pop();
  std::thread([&] { recorder.api_call(2, true); }).join();
  recorder.work(kernel(0), 1);
  recorder.work(kernel(20), 2);
  const Trace trace = recorder.report();
  CHECK(test::work_of(trace, Window::outside, Phase::backward).kernels == 1);
  CHECK(trace.attribution.other_thread == 1);
  CHECK(trace.attribution.none == 1);
}

TEST_CASE("a thread of PyTorch's autograd is told by its name") {
  Recorder recorder(::getpid());
  recorder.push("step 1");
  std::thread([&] {
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    recorder.api_call(1, true);
    recorder.push("layers.0");
    recorder.api_call(2, true);
    recorder.pop();
  }).join();
  recorder.pop();
  recorder.work(kernel(0), 1);
  recorder.work(kernel(20), 2);
  const Trace trace = recorder.report();
  CHECK(test::work_of(trace, Window::first_step, Phase::backward).kernels == 2);
  CHECK(trace.attribution.thread_name == 1);
  CHECK(trace.attribution.own_range == 1);
}

TEST_CASE("ranges that are started hold for every thread until they are ended") {
  Recorder recorder(::getpid());
  const std::uint64_t range = recorder.start("forward");
  CHECK(range != 0);
  recorder.api_call(1, true);
  std::thread([&] { recorder.end(range); }).join();
  recorder.end(range);  // twice does nothing
  recorder.api_call(2, true);
  recorder.work(kernel(0), 1);
  recorder.work(kernel(20), 2);
  CHECK(test::work_of(recorder.report(), Window::outside, Phase::forward).kernels == 1);
}

TEST_CASE("the process's memory is its live allocations at their highest") {
  Recorder recorder(1);
  recorder.allocated(0x1000, 100, 0);
  recorder.allocated(0x2000, 50, 0);
  recorder.freed(0x1000);
  recorder.freed(0x1000);  // not there any more
  recorder.allocated(0x3000, 60, 0);
  recorder.allocated(0x4000, 1000, 1);  // another device: the higher of the two counts
  CHECK(recorder.report().memory.process == 1000);
  Recorder none(1);
  CHECK_FALSE(none.report().memory.process);
  CHECK(test::has(none.report().notes.front(), "no allocation was recorded"));
}

TEST_CASE("more pushes than the stack holds, and pops without a push, harm nothing") {
  Recorder recorder(::getpid());
  const int deep = static_cast<int>(Recorder::max_depth) + 10;
  for (int i = 0; i < deep; ++i) CHECK(recorder.push("r") == i);
  for (int i = deep - 1; i >= 0; --i) CHECK(recorder.pop() == i);
  CHECK(recorder.pop() == -1);
  recorder.push("forward");
  recorder.api_call(1, true);
  recorder.work(kernel(0), 1);
  CHECK(test::work_of(recorder.report(), Window::outside, Phase::forward).kernels == 1);
}

TEST_CASE("launches without records are told of: another tool took them") {
  Recorder recorder(1);
  recorder.api_call(1, true);
  CHECK(test::has(recorder.report().notes.back(), "another CUPTI client"));
}

TEST_CASE("threads that push, launch and report at once lose nothing") {
  Recorder recorder(::getpid());
  constexpr int threads = 4, each = 2000;
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        const auto number = static_cast<std::uint32_t>(t * each + i + 1);
        recorder.push("r" + std::to_string(t));
        recorder.api_call(number, true);
        recorder.pop();
        recorder.work(kernel(number * 100), number);
        if (i % 500 == 0) static_cast<void>(recorder.report());
      }
    });
  for (std::thread& thread : running) thread.join();
  const Trace trace = recorder.report();
  CHECK(trace.kernel_count() == threads * each);
  CHECK(trace.attribution.own_range == threads * each);
}
