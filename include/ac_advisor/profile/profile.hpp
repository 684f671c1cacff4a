#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/evidence/evidence.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::profile {

/// Version of the JSON that `to_json` writes; the major number changes when a reader must.
inline constexpr const char* schema = "ac-advisor/profile/1";
/// Of a profile whose model, configuration and times are not known (`absent` has "model"): what a
/// reader of version 1 cannot read.
inline constexpr const char* schema_2 = "ac-advisor/profile/2";

/// The phases of a step, in order; index of every per-phase array below.
inline constexpr std::array<const char*, 5> phase_names{"forward", "loss", "backward", "recompute",
                                                        "optimizer"};

/// What a storage is for. `at_peak` sums to the peak.
enum class Category : std::uint8_t {
  parameters,
  reference_parameters,  ///< of the second model that DPO compares with
  gathered_parameters,
  gradients,
  optimizer_states,
  inputs,
  activations,  ///< made by the forward and kept for backward
  recomputed,   ///< made again in backward
  activation_gradients,
  temporaries,
  loss,  ///< logits and what the loss makes of them
  communication,
  held_output,
  workspace,
  waiting_worker,  ///< of PPO's critic while its actor runs, or the other way round
  unknown          ///< of a snapshot: what nothing tells the purpose of
};
inline constexpr std::size_t category_count = 16;
[[nodiscard]] const char* to_string(Category category);
/// Which only some profiles have, and JSON where they have bytes.
[[nodiscard]] constexpr bool is_optional(Category category) {
  return category == Category::unknown || category == Category::reference_parameters ||
         category == Category::waiting_worker;
}

/// One storage alive at the peak.
struct LiveTensor {
  std::string module;  ///< `blocks.3.mlp`
  std::string op;      ///< op that made it; empty for what exists before the step
  std::string shape;   ///< "[8, 2048, 8192]"
  std::string dtype;
  Category category{};
  std::int64_t bytes = 0;
};

/// One point of the memory timeline, after an op.
struct TimelinePoint {
  std::int32_t op = 0;
  std::uint8_t phase = 0;
  std::int64_t allocated_bytes = 0;
};

/// What the ranks of one place in a pipeline, and of one part of each sequence, hold.
struct RankMemory {
  std::int64_t pp_rank = 0;
  std::int64_t cp_rank = 0;          ///< whose part of each sequence they have
  std::vector<std::int64_t> stages;  ///< that they have
  std::int64_t count = 0;            ///< ranks that are alike
  std::int64_t peak_allocated = 0;
  std::optional<std::int64_t> peak_reserved;  ///< none where no allocator caches
};

struct Memory {
  std::int64_t peak_allocated = 0;
  std::int64_t peak_reserved = 0;
  std::int64_t peak_excluding_workspace = 0;
  std::int64_t first_step_peak = 0;  ///< the step that has no optimizer moments yet
  std::int64_t resident = 0;         ///< alive between steps
  /// The highest while DPO's reference runs its forward; 0: none runs.
  std::int64_t reference_forward_peak = 0;
  std::int64_t cublas_workspace = 0;  ///< of all cuBLAS handles, which is there all the time
  std::int64_t host_pinned = 0;       ///< pinned host memory that tensors wait in; 0: none
  std::string peak_phase;
  std::int64_t peak_step = 0;  ///< index into the schedule
  std::string peak_op, peak_module;
  std::array<std::int64_t, category_count> at_peak{};
  std::array<std::int64_t, 5> peak_by_phase{};
  std::array<std::int64_t, 5> peak_by_phase_excluding_workspace{};
  std::map<std::string, std::int64_t> at_peak_by_module;  ///< top-level modules: blocks, lm_head, …
  std::vector<LiveTensor> largest;      ///< at the peak, largest first, at most ten
  std::vector<RankMemory> ranks;        ///< of a pipeline, or measured: by pp_rank
  std::vector<TimelinePoint> timeline;  ///< thinned to at most 400 points, extremes kept
};

struct Counts {
  std::array<std::int64_t, 5> launches{};    ///< kernels that the GPU sees
  std::array<std::int64_t, 5> dispatches{};  ///< ops that PyTorch dispatches
  std::array<double, 5> flops{};
  std::array<double, 5> bytes{};  ///< read and written in device memory
};

/// Where times come from.
enum class TimeBasis : std::uint8_t {
  estimate,    ///< a roofline with the device file's efficiencies
  calibrated,  ///< predicted from ops that were measured on the device
  measured     ///< of a step that ran
};
[[nodiscard]] const char* to_string(TimeBasis basis);
[[nodiscard]] const char* time_word(TimeBasis basis);  ///< "estimated", "calibrated", "measured"

/// Seconds.
/// What a rank of a pipeline does with a micro-batch: a backward whole, or its two parts.
enum class PipelinePart : std::uint8_t { forward, backward, input_backward, weight_backward };
/// When, in seconds from the step's begin.
struct PipelineSlot {
  std::int64_t rank = 0, stage = 0, micro = 0;
  PipelinePart part = PipelinePart::forward;
  double begin = 0, end = 0;
};

struct Time {
  TimeBasis basis = TimeBasis::estimate;
  double step = 0;
  std::array<double, 5> by_phase{};
  double launch_bound = 0;  ///< the device waits for the host
  double communication_exposed = 0;
  double recompute = 0;
  double tokens_per_second = 0;  ///< over all ranks
  double mfu = 0;                ///< model FLOPs over peak FLOP/s
  /// Of a pipeline: share of the schedule that ranks wait, a mean over them.
  std::optional<double> bubble_share;
  /// Of a pipeline that was planned in detail: what its ranks compute when, by rank. Empty where
  /// that is more than a few thousand.
  std::vector<PipelineSlot> pipeline;
};

/// What PyTorch's allocator does on a device that has less than it would reserve. Bytes.
struct Pressure {
  std::int64_t unlimited_reserved = 0;  ///< that it would reserve
  std::int64_t retries = 0;  ///< of a step: it releases cached blocks and asks the device again
  std::int64_t released_segments = 0;               ///< by these
  double seconds = 0;                               ///< that these take: an estimate
  std::optional<std::int64_t> expandable_reserved;  ///< with expandable_segments:True; none: as it
                                                    ///< is, or not looked at
  std::int64_t excess = 0;  ///< what is allocated at the peak, over what it may reserve; or 0
  /// The request that it refuses; no bytes: none, or not looked at.
  std::int64_t refused = 0;
  std::string phase, op, module;  ///< of what asks for it
};

/// Whether it fits the device: what PyTorch's allocator reserves there + context + communication
/// buffers + margin ≤ usable. Without room for all that it would reserve it releases what it has
/// cached and asks again, before it is out of memory.
struct Fit {
  bool fits = false;
  std::int64_t required = 0;  ///< where nothing fits what is allocated stands for what is reserved
  std::int64_t usable = 0;
  std::int64_t context = 0, communication = 0, margin = 0;
  std::int64_t engine = 0;  ///< --rollout vllm:SHARE: of an inference engine beside the trainer
  /// --rollout generate: the estimated peak between steps, while completions are written; 0: none
  std::int64_t generation = 0;
  std::optional<Pressure> pressure;  ///< none: there is room for all that it would reserve

  [[nodiscard]] std::int64_t beside() const { return context + communication + margin + engine; }
  [[nodiscard]] std::int64_t limit() const { return usable - beside(); }  ///< of the allocator
};

/// Of a step of several phases, one: what is on the device while it runs. Bytes.
struct TaskPhase {
  /// "rollout", "old_log_prob", "ref_log_prob", "values", "update_critic", "update",
  /// "update_weights"
  std::string name;
  bool planned = false;  ///< op by op; else by arithmetic of what is there: an estimate
  std::int64_t allocated = 0, reserved = 0;           ///< by the trainer's process, at its peak
  std::int64_t parameters = 0, optimizer_states = 0;  ///< of those, all through the phase
  std::int64_t critic = 0;  ///< likewise both of PPO's critic, the others being the actor's
  std::int64_t engine = 0;  ///< of an inference engine, awake or asleep
  std::int64_t device = 0;  ///< all of it, and what CUDA and NCCL take
  std::string largest;      ///< tensor at its peak; empty: not looked at

  /// Without what is cached: what the device has to have, its margin included.
  [[nodiscard]] std::int64_t required(const Fit& fit) const {
    return allocated + fit.context + fit.communication + fit.margin + engine;
  }
};

/// "fits", "fits_by_releasing", "does_not_fit"
[[nodiscard]] const char* to_string(const Fit& fit);

/// How budget: was solved.
struct BudgetResult {
  std::int64_t budget = 0;
  std::int64_t least_feasible = 0;
  std::string formulation, solver;
  double recompute_seconds = 0, lower_bound_seconds = 0;
  double gap = 0;    ///< (recompute - bound) / recompute; 0 when optimal
  std::string plan;  ///< "blocks 0–5 full, 6–15 none"
};

/// What only a real step has.
struct Numerics {
  std::vector<double> losses;   ///< of each step, averaged over ranks and micro-batches
  std::string gradient_digest;  ///< of the first step's gradients, bit by bit
  double parity_error = 0;  ///< largest ‖Δ‖/‖g‖ of a parameter against the reference step
  std::string parity;       ///< "bit-identical", "within 1e-5", "DIFFERS: <parameter>"
  std::string reference;    ///< what the gradients were compared with
};

/// A traced step as a whole, with what is in none of its phases: means over steps.
struct TracedStep {
  double kernels = 0;   ///< that the device ran
  double launches = 0;  ///< by the host; a captured graph is one
  double long_gaps = 0, long_gap_seconds = 0, idle_seconds = 0;
};

/// What a trace and hardware counters say of a measured step, each from a run of its own, and what
/// each instrument costs the step it looks at. What was not measured is among the absent ones.
struct Instruments {
  struct Run {
    std::string instrument;  ///< "timing" (none), "memory", "trace", "counters"
    double step_seconds = 0;
  };
  std::vector<Run> runs;
  std::array<double, 5> dram_read_bytes{}, dram_write_bytes{};
  std::array<double, 5> dram_percent_of_peak{};  ///< over the time of the phase
  std::array<double, 5> long_gaps{};  ///< times that the device idled over 50 µs: a mean over steps
  std::array<double, 5> long_gap_seconds{};
  std::array<double, 5> idle_seconds{};  ///< between kernels, before work of the phase
  std::optional<TracedStep> whole;

  /// What `run` adds to a step that nothing looks at; empty without a run named "timing".
  [[nodiscard]] std::optional<double> overhead_percent(const Run& run) const;
};

/// Fields of `instruments` that only hardware counters fill, by their paths in JSON.
inline constexpr std::array<const char*, 3> counted_fields{"instruments.dram_read_bytes",
                                                           "instruments.dram_write_bytes",
                                                           "instruments.dram_percent_of_peak"};

/// A step of a program that ran on an emulated device; a step ends with an optimizer step.
struct EmulatedStep {
  std::int64_t index = 0;
  std::int64_t peak_allocated = 0, peak_reserved = 0;
  std::array<std::int64_t, 5> peak_by_phase{};
  std::array<std::int64_t, 5> launches{};             ///< kernels, memsets and copies on the device
  std::int64_t host_copies = 0, host_copy_bytes = 0;  ///< between host and device
};

/// A kernel of the step that the profile is of.
struct KernelCount {
  std::string name;  ///< as the library registered it, mangled
  std::array<std::int64_t, 5> launches{};
};

/// The allocation that the program was refused.
struct OutOfMemory {
  std::int64_t requested = 0, allocated = 0, reserved = 0, device_free = 0;
  std::string phase;
  std::int64_t step = 0;
};

/// What only an emulated device tells.
struct Emulation {
  std::string command;
  std::int64_t rank = 0, world = 1;
  std::int64_t device_total = 0, device_context = 0;
  std::int64_t device_peak = 0;  ///< in use on the device, the context included
  std::int64_t copied_to_host = 0, copied_from_host = 0, copied_on_device = 0;  ///< bytes
  std::vector<EmulatedStep> steps;
  std::vector<KernelCount> kernels;  ///< most launched first
  std::optional<OutOfMemory> out_of_memory;
};

/// Where a step's numbers came from, and the numbers: one type for predicted and measured.
struct Profile {
  std::string source = "simulated";  ///< or "emulated", "measured"
  std::string tool_version;
  model::ModelSpec model;
  std::int64_t parameters = 0;                       ///< the model's, and its adapters'
  std::optional<std::int64_t> trainable_parameters;  ///< the adapters'; none: all are trained
  StepConfig config;
  std::string device_name;
  Memory memory;
  Counts kernels;
  Time time;
  Fit fit;
  std::vector<TaskPhase> task_phases;          ///< in their order; empty: the step is but one
  std::optional<evidence::Evidence> evidence;  ///< none of what was measured
  std::optional<BudgetResult> budget;
  std::optional<Numerics> numerics;           ///< none where nothing was run
  std::optional<Instruments> instruments;     ///< none where neither traced nor counted
  std::optional<Emulation> emulation;         ///< of a program on an emulated device
  std::map<std::string, std::string> absent;  ///< field by its path in JSON → why it has no value
  std::vector<std::string> assumptions;       ///< "routing is balanced", …
  std::vector<std::string> warnings;          ///< a fallback that was taken, advice

  [[nodiscard]] bool has(const std::string& field) const { return !absent.contains(field); }
};

/// `indent` < 0: one line. Bytes are integers, keys carry their unit.
[[nodiscard]] std::string to_json(const Profile& profile, int indent = 2);
/// Reads what `to_json` wrote. Throws UserError naming `origin` and the field.
[[nodiscard]] Profile from_json(const std::string& text, const std::string& origin);

}  // namespace ac_advisor::profile
