#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What an out-of-memory error's text says, as it is pasted: PyTorch's since 1.13, of CUDA, HIP or
/// XPU, with the launcher's log and tracebacks around it.
namespace ac_advisor::oom {

/// A size as a text has it: "13.91 GiB" is so many bytes, give or take half of its last digit.
struct Amount {
  std::int64_t bytes = 0, slack = 0;
  [[nodiscard]] std::int64_t least() const { return bytes - slack; }
  [[nodiscard]] std::int64_t most() const { return bytes + slack; }
};

/// Of a traceback.
struct Frame {
  std::string file, function;
  std::string source;  ///< the line itself; empty: not in the text
  std::int64_t line = 0;
};

struct Process {
  std::int64_t id = 0;
  Amount in_use;
};

enum class Kind : std::uint8_t {
  allocator,  ///< PyTorch's allocator was refused
  device,  ///< something else was, and does not say how much it asked for: NCCL, cuBLAS, a driver
  engine,  ///< an inference engine has no room for its KV cache
  recoverable  ///< PyTorch's allocator released what it had cached, and went on
};

struct Error {
  Kind kind = Kind::allocator;
  std::string backend = "CUDA";  ///< or "HIP", "XPU"
  std::string message;           ///< its first sentence or two, one line
  bool old_wording = false;      ///< PyTorch's until 2.0: "(GPU 0; 15.78 GiB total capacity; …)"
  std::optional<Amount> requested, capacity, free;
  std::optional<Amount> allocated;                ///< by PyTorch, in tensors
  std::optional<Amount> unallocated;              ///< reserved by PyTorch, in no tensor
  std::optional<Amount> allowed;                  ///< set_per_process_memory_fraction's
  std::optional<Amount> private_pools;            ///< of CUDA graphs
  std::optional<Amount> this_process;             ///< in use, with what is not PyTorch's
  std::vector<Process> others;                    ///< that have memory of the device in use
  std::vector<std::int64_t> devices, ranks;       ///< that told the same
  std::int64_t times = 1;                         ///< that it is in the text
  std::vector<Frame> frames;                      ///< outermost first
  std::optional<Amount> needed_kv, available_kv;  ///< of an engine
};

/// "13.91 GiB", "76.0 MiB"
[[nodiscard]] std::string size_text(std::int64_t bytes);

/// The errors of a text, in its order; what several ranks say alike is one.
[[nodiscard]] std::vector<Error> read_errors(std::string_view text);

/// DeepSpeed's warning: times that the allocator released its cache since the step before; the most
/// that the text has, 0: none.
[[nodiscard]] std::int64_t cache_flushes(std::string_view text);

}  // namespace ac_advisor::oom
