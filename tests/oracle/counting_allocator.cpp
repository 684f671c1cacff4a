// Counts the bytes of PyTorch's CPU tensors, exactly, without a dispatch mode (a mode turns the
// autograd engine's in-place gradient accumulation off). Loaded with ctypes by cpu_peaks.py, which
// also builds it:
//   g++ -std=c++20 -O2 -shared -fPIC -I TORCH/include counting_allocator.cpp -L TORCH/lib -lc10
//   -ltorch_cpu
// One thread only: the counters are plain integers.

#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kHeader =
    64;  // PyTorch's CPU alignment; holds the size and the number of the block

struct Block {
  std::size_t bytes;
  std::uint64_t number;
};

struct Counters {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  std::uint64_t allocations = 0;
  bool logging = false;
  std::vector<std::string> lines;
  std::string op;       // the op that runs, by RecordFunction
  std::string peak_op;  // the one that ran at the peak
  std::vector<std::string> enclosing_ops;
};

Counters& counters() {
  static Counters instance;
  return instance;
}

void log(const std::string& what, const Block& block) {
  auto& now = counters();
  if (now.logging) {
    now.lines.push_back("        " + what + " %" + std::to_string(block.number) + " " +
                        std::to_string(block.bytes) + "   live " + std::to_string(now.live));
  }
}

void release(void* data) {
  if (data == nullptr) {
    return;
  }
  auto* block = reinterpret_cast<Block*>(static_cast<char*>(data) - kHeader);
  counters().live -= static_cast<std::int64_t>(block->bytes);
  log("free", *block);
  std::free(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) {
      return {nullptr, nullptr, &release, cpu};
    }
    const std::size_t whole = (bytes + kHeader + kHeader - 1) / kHeader * kHeader;
    void* memory = std::aligned_alloc(kHeader, whole);
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    auto& now = counters();
    const auto* block = new (memory) Block{bytes, now.allocations++};
    now.live += static_cast<std::int64_t>(bytes);
    if (now.live > now.peak) {
      now.peak = now.live;
      now.peak_op = now.op;
    }
    log("alloc", *block);
    void* data = static_cast<char*>(memory) + kHeader;
    return {data, data, &release, cpu};
  }

  at::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

std::unique_ptr<at::ObserverContext> op_starts(const at::RecordFunction& function) {
  auto& now = counters();
  now.enclosing_ops.push_back(std::exchange(now.op, function.name()));
  if (now.logging) {
    now.lines.push_back(std::string(2 * now.enclosing_ops.size(), ' ') + now.op);
  }
  return nullptr;
}

void op_ends(const at::RecordFunction&, at::ObserverContext*) {
  auto& now = counters();
  if (!now.enclosing_ops.empty()) {
    now.op = now.enclosing_ops.back();
    now.enclosing_ops.pop_back();
  }
}

}  // namespace

extern "C" {

void install() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
  at::addGlobalCallback(
      at::RecordFunctionCallback(&op_starts, &op_ends)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

std::int64_t live_bytes() { return counters().live; }
std::int64_t peak_bytes() { return counters().peak; }
const char* peak_op() { return counters().peak_op.c_str(); }

// The peak begins again at what is alive now.
void reset_peak() {
  counters().peak = counters().live;
  counters().peak_op.clear();
}

void start_log() {
  counters().lines.clear();
  counters().logging = true;
}

void note(const char* text) {
  if (counters().logging) {
    counters().lines.push_back("== " + std::string(text) + "   live " +
                               std::to_string(counters().live));
  }
}

void write_log(const char* path) {
  counters().logging = false;
  std::ofstream file(path);
  for (const auto& line : counters().lines) {
    file << line << '\n';
  }
}

}  // extern "C"
