#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What a CUDA program did on the device, in totals: bounded, however long the program ran.
namespace ac_advisor::trace {

/// Version of the JSON that `to_json` writes.
inline constexpr const char* schema = "ac-advisor/gpu-trace/1";

/// A device that waits longer than this between two pieces of work waits for the host.
inline constexpr std::int64_t long_gap_ns = 50'000;

/// From one kernel's end to the next one's start where both are queued: 1 to 2 us on data-centre
/// GPUs, more behind large grids. An estimate; it only names the cause of idling.
inline constexpr std::int64_t queue_gap_ns = 5'000;

/// What of a training step the work belongs to; `other` where neither a range nor a thread says.
enum class Phase : std::uint8_t { forward, backward, recompute, optimizer, other };
inline constexpr std::array<const char*, 5> phase_names{"forward", "backward", "recompute",
                                                        "optimizer", "other"};

/// Steps are told by ranges such as `ProfilerStep#3` or `step 3`; the first one warms up.
enum class Window : std::uint8_t { outside, first_step, later_steps };
inline constexpr std::array<const char*, 3> window_names{"outside", "first_step", "later_steps"};

/// Totals of device work, and of the device's waiting before it. Times are nanoseconds.
struct Work {
  std::int64_t launches = 0;  ///< calls of the host; a captured graph is one
  std::int64_t kernels = 0;
  std::int64_t kernel_ns = 0;
  std::int64_t captured_kernels = 0;  ///< in a CUDA graph
  std::int64_t captured_ns = 0;
  std::int64_t copies = 0;
  std::int64_t copy_ns = 0;
  std::int64_t copy_bytes = 0;
  std::int64_t memsets = 0;
  std::int64_t memset_ns = 0;
  std::int64_t memset_bytes = 0;
  std::int64_t busy_ns = 0;  ///< some stream of the device runs; overlaps counted once
  std::int64_t idle_ns = 0;  ///< none does, before this work
  std::int64_t long_gaps = 0;
  std::int64_t long_gap_ns = 0;
  std::int64_t longest_gap_ns = 0;
  std::int64_t graphs = 0;  ///< executions of CUDA graphs that were recorded as a whole
  // Parts of idle_ns; the rest has no launch in the trace.
  std::int64_t idle_host_ns = 0;    ///< the work was launched after the device had run dry
  std::int64_t idle_kernel_ns = 0;  ///< it was queued, and began at most `queue_gap_ns` later
  std::int64_t idle_other_ns = 0;  ///< it was queued, and waited longer: for another stream or rank
  std::int64_t dispatches = 0;     ///< ops of PyTorch that call no other, views not counted
};
void add(Work& total, const Work& part);

struct Slice {
  Window window{};
  Phase phase{};
  Work work;
};

struct KernelTotal {
  std::string name;  ///< demangled
  Window window{};
  Phase phase{};
  std::int64_t count = 0;
  std::int64_t ns = 0;
  std::int64_t longest_ns = 0;
  std::int64_t captured = 0;
};

/// Copies of one direction: "Memcpy HtoD (Pinned -> Device)".
struct CopyTotal {
  std::string name;
  Window window{};
  std::int64_t count = 0, ns = 0, bytes = 0;
};

/// Kernels that communicate; exposed: while no other kernel of the device runs.
struct Communication {
  std::int64_t kernels = 0, ns = 0, exposed_ns = 0;
};

/// One op of PyTorch: its calls, and the kernels that it launches itself, not by an op inside it.
struct OpTotal {
  std::string name;
  Window window{};
  Phase phase{};
  std::int64_t calls = 0, host_ns = 0;  ///< without the ops inside it
  std::int64_t kernels = 0, kernel_ns = 0;
};

/// Kernels that run again, by the range and the op that launched them.
struct RecomputedTotal {
  std::string path, op;
  Window window{};
  std::int64_t kernels = 0, kernel_ns = 0;
};

/// One NVTX range or annotation, by its path: "step/forward/layers.3".
struct RangeTotal {
  std::string path;
  Window window{};
  Phase phase{};
  std::int64_t entered = 0;
  std::int64_t host_ns = 0;  ///< between push and pop
  Work work;                 ///< of this range alone, without the ranges inside it
};

struct Gap {
  std::int64_t start_ns = 0;  ///< since the first work of the trace
  std::int64_t ns = 0;
  std::int64_t device = 0;
  Window window{};
  Phase phase{};
  std::string range;  ///< of the work that follows
  std::string before, after;
};

struct Device {
  std::int64_t id = 0;
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int64_t bandwidth_bytes_per_second = 0;  ///< as the driver reports it; 0: not told
};

/// High-water marks in bytes; empty: not measured (`Trace::notes` says why).
struct MemoryPeaks {
  std::optional<std::int64_t> allocated;    ///< live in PyTorch's caching allocator
  std::optional<std::int64_t> reserved;     ///< held by it
  std::optional<std::int64_t> process;      ///< this process's device allocations, pools included
  std::optional<std::int64_t> device_used;  ///< the whole device, sampled; other processes included
};

struct Steps {
  std::int64_t first = 0;  ///< 1 where a step was seen
  std::int64_t first_host_ns = 0;
  std::int64_t later = 0;
  std::int64_t later_host_ns = 0;
  std::int64_t optimizer = 0;  ///< optimizer steps, where no range tells the steps
};

/// How many kernels got their range, and so their phase, from where.
struct Attribution {
  std::int64_t own_range = 0;     ///< a range of the launching thread
  std::int64_t other_thread = 0;  ///< the main thread's range at that time: autograd's threads
  std::int64_t thread_name = 0;   ///< a thread named pt_autograd_N: backward or recomputation
  std::int64_t none = 0;
};

/// One process of a traced program.
struct Trace {
  std::string source;  ///< "cupti", "kineto" or "nsight-systems"
  std::int64_t pid = 0;
  std::string process;
  std::vector<Device> devices;
  Steps steps;
  Attribution attribution;
  std::vector<Slice> slices;
  std::vector<KernelTotal> kernels;  ///< most time first
  std::vector<RangeTotal> ranges;
  std::vector<Gap> gaps;  ///< the longest, longest first
  std::vector<CopyTotal> copies;
  std::array<Communication, window_names.size()> communication{};
  std::vector<OpTotal> ops;  ///< most time first
  std::vector<RecomputedTotal> recomputed;
  std::optional<std::int64_t> rank, world;  ///< of a distributed run
  bool launches_recorded = true;            ///< false: the trace has no calls of the CUDA API
  std::int64_t unlinked_work = 0;           ///< work whose launch is not in the trace
  MemoryPeaks memory;
  /// Share of the peak DRAM bandwidth while kernels of the phase ran; empty: no counters.
  std::array<std::optional<double>, phase_names.size()> dram_utilisation;
  std::int64_t dropped_records = 0;
  std::vector<std::string> notes;  ///< what was not measured, and why

  /// Kernels, and graphs that were recorded as a whole.
  [[nodiscard]] std::int64_t kernel_count() const;
};

struct TraceFile {
  std::string origin;   ///< the file's name, for headings
  std::string command;  ///< empty: not known
  std::optional<std::int64_t> exit_code;
  std::vector<Trace> processes;
};

[[nodiscard]] std::string to_json(const TraceFile& file);
/// Reads what `to_json` wrote. Throws UserError naming `origin` and the field.
[[nodiscard]] TraceFile from_json(const std::string& text, const std::string& origin);

/// The process with most kernel time, which a diagnosis is about. Throws UserError where there is
/// none that ran a kernel, with how to record one that did.
[[nodiscard]] const Trace& busiest(const TraceFile& file);

}  // namespace ac_advisor::trace
