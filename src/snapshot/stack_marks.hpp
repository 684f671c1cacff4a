#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/snapshot/snapshot.hpp"

namespace ac_advisor::snapshot {

/// What a stack tells of the moment at which it was taken; bits.
enum Mark : std::uint16_t {
  in_python = 1,        ///< a Python frame: autograd's threads have none of their own
  in_module_call = 2,   ///< inside of an nn.Module's forward
  in_module_setup = 4,  ///< a module is made, moved or loaded
  in_backward = 8,      ///< the autograd engine, or a Function's backward
  in_recompute = 16,    ///< a checkpoint runs its forward again
  in_optimizer = 32,    ///< an optimizer's step, or gradient clipping
  in_zero_grad = 64,    ///<
  in_gather = 128,      ///< FSDP gathers parameters
  in_communication = 256,
  in_workspace = 512,  ///< a library's scratch, where C++ frames were recorded
  in_loss = 1024,
  in_buckets = 2048  ///< DistributedDataParallel makes its buckets
};

/// Marks of every stack of a snapshot, by StackId.
[[nodiscard]] std::vector<std::uint16_t> stack_marks(const Snapshot& snapshot);

/// "modeling_llama.py:176 forward": the innermost frame that is not PyTorch's own, or else the
/// innermost of all; empty for a stack without frames.
[[nodiscard]] std::string site(const Snapshot& snapshot, StackId stack);
/// The same as a frame's index; -1: none.
[[nodiscard]] std::int64_t site_frame(const Snapshot& snapshot, StackId stack);
/// All of a stack, innermost first, at most `most` frames: "file.py:12 name".
[[nodiscard]] std::vector<std::string> stack_lines(const Snapshot& snapshot, StackId stack,
                                                   std::size_t most);

}  // namespace ac_advisor::snapshot
