#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "ac_advisor/ir/module_path.hpp"

namespace ac_advisor::passes {

/// One call of a module's hooks before its forward or its backward: what a recorded trace has.
struct ModuleCall {
  ir::ModulePath module;
  std::vector<std::size_t> parameters;  ///< its own, ascending
};

/// What a hook has done to the gathered parameters, in order.
struct FetchAction {
  enum class Kind : std::uint8_t {
    gather,  ///< an all-gather into a buffer begins: of one parameter, which stays there; of
             ///< several
    split,   ///< several are copied out of their buffer
    drop,    ///< the last of several was waited for: their buffer goes
    free     ///< a parameter is not gathered any more
  };
  Kind kind{};
  std::int32_t buffer = -1;  ///< of gather, split and drop
  std::vector<std::size_t> parameters;
  bool operator==(const FetchAction&) const = default;
};

/// DeepSpeed's defaults, deepspeed/runtime/zero/config.py (v0.19.8), in elements.
struct FetchLimits {
  std::int64_t prefetch = 50'000'000;           ///< stage3_prefetch_bucket_size
  std::int64_t live = 1'000'000'000;            ///< stage3_max_live_parameters
  std::int64_t reuse_distance = 1'000'000'000;  ///< stage3_max_reuse_distance
};

/// PartitionedParameterCoordinator (deepspeed/runtime/zero/partitioned_param_coordinator.py,
/// v0.19.8): which parameters each hook of a micro-batch gathers, for itself and ahead, and which
/// it lets go. Without a complete trace (an empty one) nothing is gathered ahead, and all that a
/// module has gathered goes after it, what is whole between steps too.
class Zero3Fetches {
 public:
  /// By parameter: its elements, whether it is whole between steps, and whether it is frozen
  /// (empty: none is).
  Zero3Fetches(std::vector<std::int64_t> elements, std::vector<bool> persistent,
               std::vector<ModuleCall> trace, FetchLimits limits = {},
               std::vector<bool> frozen = {});

  /// reset_step: the model is called, and its calls will be those of `trace`.
  void begin(std::vector<ModuleCall> trace);
  /// fetch_sub_module, of a trace its next call, which it ends where it has none; `recomputing`:
  /// forward within backward.
  [[nodiscard]] std::vector<FetchAction> fetch(const ModuleCall& call, bool forward,
                                               bool recomputing = false);
  /// release_sub_module of a module that was fetched.
  [[nodiscard]] std::vector<FetchAction> release(const ModuleCall& of, bool forward);
  /// release_backward_leftovers: of modules whose inputs have no gradient.
  [[nodiscard]] std::vector<FetchAction> end_backward();

 private:
  enum class Status : std::uint8_t { partitioned, in_flight, whole };
  struct Use {
    std::size_t parameter = 0;
    std::int64_t call = 0;
  };
  using Actions = std::vector<FetchAction>;

  void activate(std::size_t parameter, ir::ModulePath module);
  void gather(std::vector<std::size_t> parameters, Actions& actions);
  void wait_for(std::size_t parameter, Actions& actions);
  void take_from_queue(const std::vector<std::size_t>& parameters);
  void prefetch(Actions& actions);
  void let_go(std::size_t parameter, Actions& actions);
  [[nodiscard]] bool used_soon(std::size_t parameter) const;
  [[nodiscard]] bool traced() const { return !trace_.empty(); }

  std::vector<std::int64_t> elements_;
  std::vector<bool> persistent_, frozen_;
  std::vector<ModuleCall> trace_;
  FetchLimits limits_;
  std::vector<std::int64_t> passed_;             ///< by call: elements of the calls before it
  std::vector<std::vector<std::int64_t>> uses_;  ///< by parameter: calls, ascending
  std::deque<Use> queue_;
  std::int64_t call_ = 0, live_ = 0;
  std::vector<Status> status_;
  std::vector<std::int64_t>
      fetched_for_;                     ///< by parameter: __most_recent_step_id_param_fetched_for
  std::vector<std::int32_t> waits_in_;  ///< by parameter: the buffer that it is to be waited for in
  std::vector<std::vector<ir::ModulePath>> active_;  ///< by parameter: ds_active_sub_modules
  struct Entered {
    ModuleCall call;
    std::vector<std::size_t> recomputed;  ///< ds_recompute_parameters: frozen, fetched meanwhile
  };
  std::vector<Entered> in_backward_;  ///< __active_backward_submodules
  struct Buffer {
    std::vector<std::size_t> parameters;
    std::size_t waiting = 0;
    bool complete = false;
  };
  std::vector<Buffer> buffers_;
};

}  // namespace ac_advisor::passes
