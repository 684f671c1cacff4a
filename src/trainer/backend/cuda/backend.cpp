// One GPU through LibTorch: its caching allocator, a stream of its own, events, graphs.
#include "trainer/backend/backend.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "trainer/failure.hpp"
#include "trainer/kernels/cuda/cuda.hpp"

namespace ac_advisor::trainer {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
constexpr auto all_pools = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// Of the emulated device (src/emulator/record.cpp), where that is preloaded.
using EmulatorCounts = void (*)(std::uint64_t*);
const auto emulator_counts =
    reinterpret_cast<EmulatorCounts>(::dlsym(RTLD_DEFAULT, "ac_advisor_emulator_counts"));

/// What the device reads of a step; the same words on the host, in pinned memory.
struct Words {
  std::uint64_t dropout_key = 0;
  float learning_rate = 0;
};

/// A pool of LibTorch's lives as long as a graph that was captured into it, and cannot be begun
/// again afterwards: the graphs own its number.
using Pool = std::shared_ptr<const c10::MempoolId_t>;

class CapturedGraph final : public Graph {
 public:
  explicit CapturedGraph(Pool pool) : pool_(std::move(pool)) {}
  void replay() override { graph.replay(); }
  at::cuda::CUDAGraph graph;

 private:
  Pool pool_;
};

class Cuda final : public Backend {
 public:
  explicit Cuda(c10::DeviceIndex index) : index_(index) {
    choose_stream(index);
    C10_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&device_words_), sizeof(Words)));
    C10_CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&host_words_), sizeof(Words)));
  }
  ~Cuda() override {
    cudaFree(device_words_);
    cudaFreeHost(host_words_);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  [[nodiscard]] at::Device device() const override { return {at::kCUDA, index_}; }
  [[nodiscard]] std::string name() const override {
    return at::cuda::getDeviceProperties(index_)->name;
  }
  [[nodiscard]] const KernelTable& kernels() const override { return cuda::kernels(); }
  [[nodiscard]] std::int64_t multiprocessors() const override {
    return at::cuda::getDeviceProperties(index_)->multiProcessorCount;
  }

  [[nodiscard]] std::optional<std::int64_t> launched() const override {
    if (emulator_counts == nullptr) return std::nullopt;
    std::array<std::uint64_t, 12> times_and_bytes{};  // kernels, memory sets, copies within, …
    emulator_counts(times_and_bytes.data());
    return static_cast<std::int64_t>(times_and_bytes[0] + times_and_bytes[2] + times_and_bytes[4]);
  }

  [[nodiscard]] at::Tensor staging(at::IntArrayRef sizes, at::ScalarType type) const override {
    return at::zeros(sizes, at::TensorOptions().dtype(type).pinned_memory(true));
  }
  void set_step_scalars(float learning_rate, std::uint64_t dropout_key) override {
    *host_words_ = {dropout_key, learning_rate};
  }
  [[nodiscard]] StepScalars step_scalars() const override {
    return {&device_words_->learning_rate, &device_words_->dropout_key};
  }
  void issue_step_scalars() override {
    C10_CUDA_CHECK(cudaMemcpyAsync(device_words_, host_words_, sizeof(Words),
                                   cudaMemcpyHostToDevice, current().stream()));
  }

  void finish() override { current().synchronize(); }
  [[nodiscard]] bool finished() override { return current().query(); }
  std::size_t mark() override {
    if (marks_ == events_.size()) events_.emplace_back(unsigned{cudaEventDefault});
    events_[marks_].record(current());
    return marks_++;
  }
  [[nodiscard]] double seconds(std::size_t from, std::size_t to) const override {
    return static_cast<double>(events_[from].elapsed_time(events_[to])) * 1e-3;
  }
  void clear_marks() override { marks_ = 0; }
  void hold(double seconds) override {
    constexpr double cycles_per_second = 2e9;  // an H100's 1.98 GHz; slower devices hold longer
    at::cuda::sleep(static_cast<std::int64_t>(seconds * cycles_per_second));
  }

  [[nodiscard]] std::optional<DeviceMemory> memory() const override {
    const auto stats = allocator::getDeviceStats(index_);
    const auto &allocated = stats.allocated_bytes[all_pools],
               &reserved = stats.reserved_bytes[all_pools];
    const auto total =
        static_cast<std::int64_t>(at::cuda::getDeviceProperties(index_)->totalGlobalMem);
    return DeviceMemory{allocated.current, allocated.peak, reserved.current,
                        std::max(peak_reserved_, reserved.peak), total};
  }
  void reset_peak_memory() override {
    peak_reserved_ = memory()->peak_reserved;
    allocator::resetPeakStats(index_);
  }
  void release_memory() override {
    finish();
    at::cuda::clearCublasWorkspaces();
    allocator::setMemoryFraction(1.0, index_);  // of a run before
    allocator::emptyCache();
    allocator::resetPeakStats(index_);
    peak_reserved_ = 0;
  }
  bool limit_memory(std::int64_t bytes) override {
    const auto total = static_cast<double>(at::cuda::getDeviceProperties(index_)->totalGlobalMem);
    if (static_cast<double>(bytes) > total) return false;
    allocator::setMemoryFraction(static_cast<double>(bytes) / total, index_);
    return true;
  }

  [[nodiscard]] std::unique_ptr<Graph> capture(const std::function<void()>& issue) override {
    finish();
    Pool pool = pool_.lock();
    if (!pool) {
      pool = std::make_shared<const c10::MempoolId_t>(at::cuda::graph_pool_handle());
      pool_ = pool;
      // What issued steps have cached serves no graph, and while one is captured nothing is given
      // back: a step that needs more than half of the device would not find its memory.
      allocator::emptyCache();
    }
    auto captured = std::make_unique<CapturedGraph>(pool);
    captured->graph.capture_begin(*pool, cudaStreamCaptureModeThreadLocal);
    try {
      issue();
    } catch (...) {
      try {
        captured->graph.capture_end();  // leaves the stream usable; what failed first is told
      } catch (const std::exception&) {
      }
      throw;
    }
    captured->graph.capture_end();
    return captured;
  }

 private:
  /// Graphs are captured on a stream that is not the default one, so all work goes to one such.
  static void choose_stream(c10::DeviceIndex index) {
    c10::cuda::set_device(index);
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    const auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index);
    c10::cuda::setCurrentCUDAStream(stream);
  }
  /// Where LibTorch's ops go: of the last backend that was made, should there be two.
  [[nodiscard]] c10::cuda::CUDAStream current() const {
    return c10::cuda::getCurrentCUDAStream(index_);
  }

  c10::DeviceIndex index_;
  Words* device_words_ = nullptr;
  Words* host_words_ = nullptr;
  std::vector<at::cuda::CUDAEvent> events_;
  std::size_t marks_ = 0;
  std::int64_t peak_reserved_ = 0;
  std::weak_ptr<const c10::MempoolId_t> pool_;  ///< of the graphs that there are
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(std::int64_t index, bool expandable_segments) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess)
    throw Failure{3, std::string("no CUDA device: ") + cudaGetErrorString(status) +
                         "; `ac-advisor doctor` says what is missing"};
  // A launcher may show each process its own GPU alone (srun --gpus-per-task=1).
  if (count == 1) index = 0;
  if (index >= count)
    throw Failure{3, "GPU " + std::to_string(index) + " is not there: this machine shows " +
                         std::to_string(count) + "; start one process per GPU"};
  allocator::CUDAAllocatorConfig::instance();  // what the environment says comes first
  c10::CachingAllocator::setAllocatorSettings(std::string("expandable_segments:") +
                                              (expandable_segments ? "True" : "False"));
  return std::make_unique<Cuda>(static_cast<c10::DeviceIndex>(index));
}

}  // namespace ac_advisor::trainer
