#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/trace/machine.hpp"
#include "trace/shared_library.hpp"

namespace ac_advisor::trace {

/// The driver's management library, loaded where there is one. Needs no CUDA context.
class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Empty where it works.
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] std::vector<Gpu> gpus() const;
  /// Used bytes of the device that uses most; -1 where it cannot be read.
  [[nodiscard]] std::int64_t most_used_bytes() const;

 private:
  SharedLibrary library_;
  std::string error_;
  std::vector<void*> devices_;
};

}  // namespace ac_advisor::trace
