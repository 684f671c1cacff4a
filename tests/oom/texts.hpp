#pragma once

#include <string>

namespace ac_advisor::test {

/// A message as PyTorch 2.2 and later write it, with what stands before it.
struct Message {
  std::string requested, capacity = "79.11 GiB", free, allocated, unallocated;
  std::string processes = {};  ///< "Process 23444 has 70.25 GiB memory in use. "
  std::string before = {};     ///< frames

  [[nodiscard]] std::string text() const {
    return before + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + requested +
           ". GPU 0 has a total capacity of " + capacity + " of which " + free + " is free. " +
           processes + "Of the allocated memory " + allocated + " is allocated by PyTorch, and " +
           unallocated +
           " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
           "try "
           "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
           "documentation for Memory Management  "
           "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)\n";
  }
};

inline std::string frame(const std::string& file, int line, const std::string& function,
                         const std::string& source) {
  return "  File \"" + file + "\", line " + std::to_string(line) + ", in " + function + "\n    " +
         source + "\n";
}

}  // namespace ac_advisor::test
