// One process a GPU. Compiled into CUDA builds only; no_nccl/ stands for it elsewhere.
#define USE_C10D_NCCL
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <mutex>

#include "trainer/collectives/c10d/c10d.hpp"
#include "trainer/failure.hpp"

namespace ac_advisor::trainer {
namespace {

/// torch 2.11's ProcessGroupNCCL.hpp: its own watchdog is not to end this process, of which
/// c10d/watch.cpp takes care by name; it is only to abort what hangs (2: CleanUpOnly). A user's own
/// setting wins.
void settle_environment() {
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"},
           {"TORCH_NCCL_ENABLE_MONITORING", "0"},
           {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
           {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},
           {"TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "0"}})
    setenv(name, value, /*overwrite=*/0);
}

/// The end of the last collective that the compute stream waits for; asked by the watch's clock.
class LastEvent {
 public:
  void record() {
    const std::scoped_lock lock(mutex_);
    if (at::cuda::currentStreamCaptureStatus() != at::cuda::CaptureStatus::None) return;
    event_.record();
  }
  [[nodiscard]] bool done() {
    // A thread that is stuck in the driver may hold the mutex: then nothing is done.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    try {
      return lock.owns_lock() && event_.query();
    } catch (const std::exception&) {  // of a kernel that has failed; whoever waits for it is told
      return false;
    }
  }

 private:
  std::mutex mutex_;
  at::cuda::CUDAEvent event_;
};

/// The current stream waits; the host goes on. The work, and with it its tensors, is let go.
class OnStream final : public Pending {
 public:
  OnStream(C10d::Work work, std::shared_ptr<LastEvent> last)
      : work_(std::move(work)), last_(std::move(last)) {}
  void wait() override {
    if (!work_) return;
    work_->wait();
    work_.reset();
    last_->record();
  }

 private:
  C10d::Work work_;
  std::shared_ptr<LastEvent> last_;
};

class Nccl final : public C10d {
 public:
  Nccl(const Rendezvous& where, double timeout_seconds)
      : C10d(where, timeout_seconds), device_(c10::cuda::current_device()) {
    settle_environment();
    // Beside LibTorch's allocator, whose figures are the step's.
    C10_CUDA_CHECK(cudaMalloc(&number_, sizeof(double)));
    barrier();  // the communicator is made while nothing else runs
  }
  ~Nccl() override {
    if (stop_watching()) each_group([](c10d::Backend& group) { group.shutdown(); });
    C10_CUDA_CHECK_WARN(cudaFree(number_));
  }

  [[nodiscard]] double average(double value) override {
    const at::Tensor number = at::from_blob(
        number_, {1}, at::TensorOptions().dtype(at::kDouble).device(at::kCUDA, device_));
    number.fill_(value);
    complete(all_reduce(number, all(), Combine::average));
    at::cuda::CUDAEvent reduced;
    reduced.record();
    wait_for_device([&] { return reduced.query(); });
    double result =
        0;  // the copy would wait for ever where a rank is gone; now there is nothing to wait for
    C10_CUDA_CHECK(cudaMemcpy(&result, number_, sizeof result, cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  Process make_group(c10::intrusive_ptr<c10d::Store> store, int rank, int size) override {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    // A little more than this project's own clock has, which knows who is missing.
    options->timeout =
        std::chrono::milliseconds(static_cast<std::int64_t>(timeout() * 1000) + 5000);
    auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
    group->setBoundDeviceId(at::Device(at::kCUDA, device_));
    return group;
  }

  std::unique_ptr<Pending> begun(Work work) {
    return std::make_unique<OnStream>(std::move(work), last_);
  }

  std::unique_ptr<Pending> gather(const Process& group, at::Tensor buffer,
                                  at::Tensor part) override {
    return begun(group->_allgather_base(buffer, part));
  }

  std::unique_ptr<Pending> scatter(const Process& group, const at::Tensor& input, at::Tensor output,
                                   Combine how) override {
    c10d::ReduceScatterOptions options;
    options.reduceOp = reduction(how);
    at::Tensor whole = input;
    return begun(group->_reduce_scatter_base(output, whole, options));
  }

  std::unique_ptr<Pending> reduce(const Process& group, at::Tensor buffer, Combine how) override {
    c10d::AllreduceOptions options;
    options.reduceOp = reduction(how);
    std::vector<at::Tensor> tensors{buffer};
    return begun(group->allreduce(tensors, options));
  }

  std::unique_ptr<Pending> trade(const Process& group, const at::Tensor& input,
                                 at::Tensor output) override {
    at::Tensor given = input;
    std::vector<std::int64_t> equal;
    return begun(group->alltoall_base(output, given, equal, equal, {}));
  }

  /// One kernel for all of them: two ranks that send to each other first would wait for ever.
  std::unique_ptr<Pending> transfer(const Process& group,
                                    const std::vector<Transfer>& batch) override {
    group->startCoalescing();
    for (const Transfer& t : batch) {
      std::vector<at::Tensor> tensors{t.tensor};
      const auto peer = static_cast<int>(t.peer);
      t.sends ? group->send(tensors, peer, t.tag) : group->recv(tensors, peer, t.tag);
    }
    return begun(group->endCoalescing());
  }

  static c10d::ReduceOp reduction(Combine how) {
    if (how == Combine::maximum) return c10d::ReduceOp::MAX;
    return how == Combine::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::AVG;
  }

  [[nodiscard]] bool under_way() override { return !last_->done(); }

  c10::DeviceIndex device_;
  std::shared_ptr<LastEvent> last_ = std::make_shared<LastEvent>();
  void* number_ = nullptr;
};

}  // namespace

void require_nccl() {}

std::unique_ptr<Collectives> make_nccl(const Rendezvous& where, double timeout_seconds) {
  const c10::DeviceIndex count = c10::cuda::device_count();
  const bool own_gpu = count == 1;  // each process is shown its own (srun --gpus-per-task=1)
  if (where.local_rank >= count && !own_gpu)
    throw Failure{3, "--collectives nccl: rank " + std::to_string(where.rank) + " is number " +
                         std::to_string(where.local_rank) + " of this machine, which shows " +
                         std::to_string(count) +
                         " GPUs; nccl needs one a rank, --collectives procs runs on CPUs"};
  c10::cuda::set_device(own_gpu ? c10::DeviceIndex{0}
                                : static_cast<c10::DeviceIndex>(where.local_rank));
  return std::make_unique<Nccl>(where, timeout_seconds);
}

}  // namespace ac_advisor::trainer
