#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainer/kernels/kernels.hpp"

namespace ac_advisor::trainer {

/// What a device's caching allocator counts, in bytes.
struct DeviceMemory {
  std::int64_t allocated = 0, peak_allocated = 0;  ///< the peak since reset_peak_memory()
  std::int64_t reserved = 0, peak_reserved = 0;    ///< the peak since release_memory()
  std::int64_t total = 0;                          ///< that the device has
};

/// Numbers of a step that kernels read in the device's memory: a captured graph finds new ones.
struct StepScalars {
  const float* learning_rate = nullptr;
  const std::uint64_t* dropout_key = nullptr;
};

/// Issued work that can be issued again as a whole: a CUDA graph.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay() = 0;
};

/// A device that steps run on: its kernels, and what is needed of it beyond tensors. Made and used
/// on the rank's thread.
class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual at::Device device() const = 0;
  /// As the driver calls it.
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual const KernelTable& kernels() const = 0;
  [[nodiscard]] virtual std::int64_t multiprocessors() const = 0;

  /// Memory of the host that the device copies from and to without waiting.
  [[nodiscard]] virtual at::Tensor staging(at::IntArrayRef sizes, at::ScalarType type) const = 0;
  /// Issues the copy of a step's numbers to where kernels read them.
  virtual void set_step_scalars(float learning_rate, std::uint64_t dropout_key) = 0;
  [[nodiscard]] virtual StepScalars step_scalars() const = 0;
  /// The copy alone, again: part of what is captured.
  virtual void issue_step_scalars() = 0;

  /// Waits for all that was issued.
  virtual void finish() = 0;
  /// Whether all that was issued is done; does not wait.
  [[nodiscard]] virtual bool finished() = 0;
  /// Notes a point of the issued work: its number.
  virtual std::size_t mark() = 0;
  /// Between two marks, in seconds; after finish().
  [[nodiscard]] virtual double seconds(std::size_t from, std::size_t to) const = 0;
  virtual void clear_marks() = 0;
  /// Issues work that does nothing for so long, so that what is issued behind it waits in the
  /// queue.
  virtual void hold(double seconds) = 0;

  /// Kernels, memory sets and copies within the device so far, where the device tells: an emulated
  /// one does.
  [[nodiscard]] virtual std::optional<std::int64_t> launched() const { return std::nullopt; }

  /// None where the trainer itself counts each allocation (a CPU).
  [[nodiscard]] virtual std::optional<DeviceMemory> memory() const = 0;
  virtual void reset_peak_memory() = 0;
  /// Gives cached memory back, so that the next run begins as a new process would.
  virtual void release_memory() = 0;
  /// Bytes that the allocator may reserve at most; false where it cannot be limited so.
  virtual bool limit_memory(std::int64_t bytes) = 0;

  /// What `issue` issues, without running it. All of a backend's graphs share memory: they are
  /// replayed in the order of capture.
  [[nodiscard]] virtual std::unique_ptr<Graph> capture(const std::function<void()>& issue) = 0;
};

[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend();
/// GPU `index` of this machine. Throws UserError where this program is built without CUDA, Failure
/// where there is no driver or no such GPU.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(std::int64_t index,
                                                         bool expandable_segments = false);

}  // namespace ac_advisor::trainer
