#include "trainer/cuda/host_cuda.hpp"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include "trainer/kernels/cuda/cuda.hpp"
#include "trainer/kernels/cuda/torch/torch.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer::cuda {

// What kernels/cuda/torch/torch.cpp takes from LibTorch's CUDA library.

device::Stream stream() { return nullptr; }

void product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  const MemoryTracker::Scope outside(nullptr);  // cuBLAS widens nothing in memory
  ++test::products();
  const at::Tensor y = at::mm(a.to(at::kFloat), b.to(at::kFloat));
  if (accumulate)
    out.add_(y);
  else
    out.copy_(y);
}

FlashAttention flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               std::optional<double> scale) {
  auto [y, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
      q, k, v, /*dropout_p=*/0.0, /*is_causal=*/true, {}, scale);
  return {y, log_sum_exp};
}

std::array<at::Tensor, 3> flash_attention_backward(const at::Tensor& gradient, const at::Tensor& q,
                                                   const at::Tensor& k, const at::Tensor& v,
                                                   const FlashAttention& forward,
                                                   std::optional<double> scale) {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, q, k, v, forward.output, forward.log_sum_exp, /*dropout_p=*/0.0,
      /*is_causal=*/true, {}, scale);
  return {dq, dk, dv};
}

}  // namespace ac_advisor::trainer::cuda

namespace ac_advisor::test {
namespace {

using trainer::Backend;

/// Captured work has run once, as a test's device has no other way to know it: its first replay is
/// that run.
class Again final : public trainer::Graph {
 public:
  explicit Again(std::function<void()> issue) : issue_(std::move(issue)) {}
  void replay() override {
    ++graph_counts().replayed;
    if (!first_) issue_();
    first_ = false;
  }

 private:
  std::function<void()> issue_;
  bool first_ = true;
};

class HostCuda final : public Backend {
 public:
  [[nodiscard]] at::Device device() const override { return at::kCPU; }
  [[nodiscard]] std::string name() const override { return "a GPU's kernels on the host"; }
  [[nodiscard]] const trainer::KernelTable& kernels() const override {
    return trainer::cuda::kernels();
  }
  [[nodiscard]] std::int64_t multiprocessors() const override { return 132; }
  [[nodiscard]] at::Tensor staging(at::IntArrayRef sizes, at::ScalarType type) const override {
    return cpu_->staging(sizes, type);
  }
  void set_step_scalars(float learning_rate, std::uint64_t dropout_key) override {
    next_rate_ = learning_rate;
    next_key_ = dropout_key;
  }
  // What is not issued again, a graph does not see.
  void issue_step_scalars() override { cpu_->set_step_scalars(next_rate_, next_key_); }
  [[nodiscard]] trainer::StepScalars step_scalars() const override { return cpu_->step_scalars(); }
  void finish() override {}
  [[nodiscard]] bool finished() override { return true; }
  std::size_t mark() override { return cpu_->mark(); }
  [[nodiscard]] double seconds(std::size_t from, std::size_t to) const override {
    return cpu_->seconds(from, to);
  }
  void clear_marks() override { cpu_->clear_marks(); }
  void hold(double) override {}
  [[nodiscard]] std::optional<trainer::DeviceMemory> memory() const override {
    return std::nullopt;
  }
  void reset_peak_memory() override {}
  void release_memory() override {}
  bool limit_memory(std::int64_t) override { return false; }
  [[nodiscard]] std::unique_ptr<trainer::Graph> capture(
      const std::function<void()>& issue) override {
    ++graph_counts().captured;
    issue();
    return std::make_unique<Again>(issue);
  }

 private:
  std::unique_ptr<Backend> cpu_ = trainer::make_cpu_backend();
  float next_rate_ = 0;
  std::uint64_t next_key_ = 0;
};

}  // namespace

int& products() {
  static int count = 0;
  return count;
}

GraphCounts& graph_counts() {
  static GraphCounts counts;
  return counts;
}

std::unique_ptr<trainer::Backend> make_host_cuda() { return std::make_unique<HostCuda>(); }

}  // namespace ac_advisor::test
