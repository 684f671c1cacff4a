#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/trace/trace.hpp"

/// What one trace says, alone; and what those of a run's ranks say together.
namespace ac_advisor::trace {

/// Version of the JSON of a summary, and of one of several ranks.
inline constexpr const char* summary_schema = "ac-advisor/trace-summary/1";
inline constexpr const char* ranks_schema = "ac-advisor/trace-ranks/1";

/// Totals, or means over steps.
struct Figures {
  double busy_seconds = 0, idle_seconds = 0;
  double idle_host_seconds = 0, idle_kernel_seconds = 0, idle_other_seconds = 0;
  double launches = 0, kernels = 0, graphs = 0, dispatches = 0;
  double kernel_seconds = 0, captured_seconds = 0;
  double memcpy_bytes = 0, memcpy_seconds = 0, memset_bytes = 0, memset_seconds = 0;
  double long_gaps = 0, long_gap_seconds = 0;
  double communication_seconds = 0, exposed_communication_seconds = 0;

  [[nodiscard]] double seconds() const { return busy_seconds + idle_seconds; }
  /// Idling before work whose launch is not in the trace.
  [[nodiscard]] double idle_unknown_seconds() const {
    return idle_seconds - idle_host_seconds - idle_kernel_seconds - idle_other_seconds;
  }
  /// Kernels that compute.
  [[nodiscard]] double compute_seconds() const { return kernel_seconds - communication_seconds; }
};

struct FigureField {
  const char* key;  ///< in JSON
  double Figures::*member;
};
/// All of them, in the order of the JSON.
inline constexpr std::array<FigureField, 19> figure_fields{{
    {"busy_seconds", &Figures::busy_seconds},
    {"idle_seconds", &Figures::idle_seconds},
    {"idle_host_seconds", &Figures::idle_host_seconds},
    {"idle_kernel_seconds", &Figures::idle_kernel_seconds},
    {"idle_other_seconds", &Figures::idle_other_seconds},
    {"launches", &Figures::launches},
    {"kernels", &Figures::kernels},
    {"graph_executions", &Figures::graphs},
    {"dispatches", &Figures::dispatches},
    {"kernel_seconds", &Figures::kernel_seconds},
    {"captured_seconds", &Figures::captured_seconds},
    {"memcpy_bytes", &Figures::memcpy_bytes},
    {"memcpy_seconds", &Figures::memcpy_seconds},
    {"memset_bytes", &Figures::memset_bytes},
    {"memset_seconds", &Figures::memset_seconds},
    {"gaps_over_50_us", &Figures::long_gaps},
    {"gap_over_50_us_seconds", &Figures::long_gap_seconds},
    {"communication_seconds", &Figures::communication_seconds},
    {"exposed_communication_seconds", &Figures::exposed_communication_seconds},
}};

/// A kernel, an op, a range, a module or a direction of copies: of the whole trace.
struct SummaryRow {
  std::string name;
  std::string kind;            ///< of a kernel: `kernel_kind_names`; else empty
  std::int64_t count = 0;      ///< kernels of it; of copies, copies; of an op, its calls
  double seconds = 0;          ///< on the device
  double host_seconds = 0;     ///< of an op or a range
  std::int64_t bytes = 0;      ///< of copies
  std::int64_t instances = 1;  ///< of a module: of this class, at this place of the model
};

/// What runs again, of the whole trace.
struct Recomputation {
  double seconds = 0;
  std::int64_t kernels = 0;
  std::vector<SummaryRow> by_module, by_op;
  std::vector<SummaryRow> by_module_and_op;  ///< `name` the module, `kind` the op
};

struct Summary {
  std::string origin, source, device, command;
  std::int64_t pid = 0, processes = 1;
  std::optional<std::int64_t> rank, world;
  bool on_gpu = true;             ///< false: nothing ran on a device, and only dispatches are told
  bool launches_recorded = true;  ///< false: `launches` and the causes of idling are not measured
  std::int64_t steps = 0;         ///< that launched something, the first one too
  Figures whole;
  /// Of a steady step: the mean over `step_count`, the first one left out where there are more.
  std::optional<Figures> step;
  std::int64_t step_count = 0;
  std::array<Figures, phase_names.size()> phases{};  ///< of a step; where none is told, of all
  std::map<std::string, double> seconds_by_kind;     ///< of kernels, by `kernel_kind_names`
  std::vector<SummaryRow> kernels, ops, ranges, modules, copies;  ///< most time first
  std::vector<Gap> gaps;
  std::optional<Recomputation> recomputation;
  MemoryPeaks memory;
  std::vector<std::string> notes;

  /// Of a step, where steps are told; else of all.
  [[nodiscard]] const Figures& shown() const { return step ? *step : whole; }
};

/// Of the process that is `busiest`, or, where no kernel ran, of the one that ran most ops. Throws
/// UserError where the trace has neither, naming how to record one.
[[nodiscard]] Summary summary_of(const TraceFile& file);
/// Of this process.
[[nodiscard]] Summary summary_of(const TraceFile& file, const Trace& trace);

/// One rank of a run.
struct RankSummary {
  std::string origin;
  std::optional<std::int64_t> rank;  ///< as the trace or its name tells it
  std::int64_t steps = 0;
  Figures step;  ///< of a steady step; of all where `steps` is 0
};
struct Ranks {
  std::vector<RankSummary> ranks;  ///< by rank
  /// (most - least) / mean over the ranks.
  double step_skew = 0, compute_skew = 0;
  std::size_t slowest = 0;  ///< index: computes longest, so that the others wait for it
  std::vector<std::string> notes;
};
/// Of summaries, each of a rank; at least one.
[[nodiscard]] Ranks ranks_of(const std::vector<Summary>& summaries);
/// The traces of a folder, read one after the other: a summary of each. What in it is no trace is
/// told in `left_out`. Throws UserError where none is.
[[nodiscard]] std::vector<Summary> summaries_of(const std::vector<std::string>& files,
                                                std::vector<std::string>& left_out);
/// "rank3", "rank_3", "rank-3", "worker3" in a file's name, or "[3]" where an application numbers
/// so.
[[nodiscard]] std::optional<std::int64_t> rank_in_name(const std::string& file);

/// "LlamaModel_0.LlamaDecoderLayer_3" of a range's path: the part that names modules. Empty: none.
[[nodiscard]] std::string module_of(const std::string& path);
/// "LlamaModel.LlamaDecoderLayer" of "LlamaModel_0.LlamaDecoderLayer_3"; "blocks.*.mlp" of
/// "blocks.3.mlp": what the same modules of all blocks share.
[[nodiscard]] std::string module_kind(const std::string& module);

}  // namespace ac_advisor::trace
