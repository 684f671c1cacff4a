#include "injection/library/activity.hpp"

#include <doctest/doctest.h>

#include "trace/find.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

template <typename Record>
void take(const Record& record, Recorder& recorder) {
  injection::take(*reinterpret_cast<const CUpti_Activity*>(&record), recorder);
}

CUpti_ActivityKernel9 kernel(std::uint64_t start, std::uint64_t end) {
  CUpti_ActivityKernel9 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = "_Z3fooILi4EEvPf";
  record.start = start;
  record.end = end;
  return record;
}

Work total(const Trace& trace) {
  Work sum;
  for (const Slice& slice : trace.slices) add(sum, slice.work);
  return sum;
}

}  // namespace

TEST_CASE("CUPTI: a kernel's record is read: name, times, graph") {
  Recorder recorder(1);
  take(kernel(1000, 3000), recorder);
  CUpti_ActivityKernel9 captured = kernel(4000, 4500);
  captured.graphId = 7;
  take(captured, recorder);
  const Trace trace = recorder.report();
  CHECK(total(trace).kernels == 2);
  CHECK(total(trace).kernel_ns == 2500);
  CHECK(total(trace).captured_kernels == 1);
  CHECK(total(trace).captured_ns == 500);
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace.kernels[0].name == "void foo<4>(float*)");
}

TEST_CASE("CUPTI: a record of the newest layout is read as one of CUDA 12") {
#if CUPTI_API_VERSION >= 130000
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = "k";
  record.start = 10;
  record.end = 30;
  record.graphId = 1;
  Recorder recorder(1);
  take(record, recorder);
  CHECK(total(recorder.report()).captured_ns == 20);
#endif
}

TEST_CASE("CUPTI: copies, memsets, allocations and devices are read") {
  Recorder recorder(1);
  CUpti_ActivityMemcpy5 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.start = 10;
  copy.end = 20;
  copy.bytes = 4096;
  take(copy, recorder);
  CUpti_ActivityMemset4 memset{};
  memset.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  memset.start = 30;
  memset.end = 35;
  memset.bytes = 64;
  take(memset, recorder);
  CUpti_ActivityMemory3 memory{};
  memory.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  memory.address = 0x1000;
  memory.bytes = 777;
  take(memory, recorder);
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  take(memory, recorder);
  memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;  // the host's
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  memory.bytes = 1 << 20;
  take(memory, recorder);
  CUpti_ActivityDevice4 device{};
  device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  device.name = "NVIDIA X";
  device.globalMemoryBandwidth = 3;
  take(device, recorder);
  const Trace trace = recorder.report();
  CHECK(total(trace).copy_bytes == 4096);
  CHECK(total(trace).memset_bytes == 64);
  CHECK(total(trace).memset_ns == 5);
  CHECK(trace.memory.process == 777);
  REQUIRE(trace.devices.size() == 1);
  CHECK(trace.devices[0].bandwidth_bytes_per_second == 3000);
}

TEST_CASE("CUPTI: records without a time are counted as dropped, other kinds are left out") {
  Recorder recorder(1);
  take(kernel(0, 0), recorder);
  take(kernel(50, 40), recorder);
  CUpti_ActivityAPI other{};
  other.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  take(other, recorder);
  CUpti_ActivityKernel9 nameless = kernel(1, 2);
  nameless.name = nullptr;
  take(nameless, recorder);
  const Trace trace = recorder.report();
  CHECK(trace.dropped_records == 2);
  CHECK(total(trace).kernels == 1);
  CHECK(trace.kernels[0].name == "[nameless kernel]");
}
