#include <chrono>
#include <stdexcept>
#include <vector>

#include "trainer/backend/backend.hpp"
#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs what it issues at once.
class Cpu final : public Backend {
 public:
  [[nodiscard]] at::Device device() const override { return at::kCPU; }
  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] const KernelTable& kernels() const override { return cpu::kernels(); }
  [[nodiscard]] std::int64_t multiprocessors() const override { return 1; }

  [[nodiscard]] at::Tensor staging(at::IntArrayRef sizes, at::ScalarType type) const override {
    const MemoryTracker::Scope outside(nullptr);
    return at::zeros(sizes, at::TensorOptions().dtype(type));
  }
  void set_step_scalars(float learning_rate, std::uint64_t dropout_key) override {
    learning_rate_ = learning_rate;
    dropout_key_ = dropout_key;
  }
  [[nodiscard]] StepScalars step_scalars() const override {
    return {&learning_rate_, &dropout_key_};
  }
  void issue_step_scalars() override {}

  void finish() override {}
  [[nodiscard]] bool finished() override { return true; }
  std::size_t mark() override {
    marks_.push_back(Clock::now());
    return marks_.size() - 1;
  }
  [[nodiscard]] double seconds(std::size_t from, std::size_t to) const override {
    return std::chrono::duration<double>(marks_[to] - marks_[from]).count();
  }
  void clear_marks() override { marks_.clear(); }
  void hold(double) override {}

  [[nodiscard]] std::optional<DeviceMemory> memory() const override { return std::nullopt; }
  void reset_peak_memory() override {}
  void release_memory() override {}
  bool limit_memory(std::int64_t) override { return false; }

  [[nodiscard]] std::unique_ptr<Graph> capture(const std::function<void()>&) override {
    throw std::logic_error("a CPU captures no graphs");
  }

 private:
  float learning_rate_ = 0;
  std::uint64_t dropout_key_ = 0;
  std::vector<Clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<Cpu>(); }

}  // namespace ac_advisor::trainer
