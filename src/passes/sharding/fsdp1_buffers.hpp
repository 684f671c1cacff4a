#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Flat parameters of the blocks and of the root, and this rank's shards of them, which the
/// optimizer updates a parameter's part at a time (use_orig_params).
void make_flat_parameters(StepProgram& step, const StepConfig& config);

/// What the units of FullyShardedDataParallel allocate in a micro-batch: PyTorch v2.11,
/// torch/distributed/fsdp/_flat_param.py and _runtime_utils.py. The ops go to the end of the
/// program.
class Fsdp1Buffers {
 public:
  Fsdp1Buffers(StepProgram& step, const StepConfig& config);

  [[nodiscard]] std::size_t root() const { return units_.size() - 1; }
  /// Whose forward or backward the op is part of.
  [[nodiscard]] std::size_t unit_of(const ir::Op& op) const {
    return op.module.block >= 0 ? static_cast<std::size_t>(op.module.block) : root();
  }
  void set_phase(ir::Phase phase) { phase_ = phase; }
  /// Whether it is, or views, a parameter of a unit that is gathered.
  [[nodiscard]] bool is_gathered(ir::ValueId v) const;
  /// The same of the gathered flat parameter, while there is one; else the value itself.
  [[nodiscard]] ir::ValueId instance(ir::ValueId v);
  /// Profiler ranges.
  void record(std::int32_t ranges);

  /// Brings this rank's shard to the device, casts it to the compute dtype and gathers the whole,
  /// unless it is there.
  void unshard(std::size_t unit);
  void reshard(std::size_t unit);
  /// Lets go of a shard that came from the host and is viewed.
  void use_sharded_views(std::size_t unit);
  /// The backward of the views: the gradients of a unit's parameters become one.
  void join_gradients(std::size_t unit);
  /// Reduces it to this rank's part.
  void reduce(std::size_t unit);
  /// Lets go of the parts that have gone to the host.
  void finish_backward();

 private:
  struct Unit {
    ir::ValueId gathered = ir::no_id;
    ir::ValueId viewed = ir::no_id;    ///< its shard from the host, by original parameters
    ir::ValueId gradient = ir::no_id;  ///< of the whole flat parameter
  };

  ir::OpId emit(ir::OpKind kind, ir::ModulePath module, std::span<const ir::ValueId> in,
                std::span<const ir::ValueId> out);
  ir::OpId emit(ir::OpKind kind, ir::ModulePath module, std::initializer_list<ir::ValueId> in,
                std::initializer_list<ir::ValueId> out) {
    return emit(kind, module, std::span(in.begin(), in.size()), std::span(out.begin(), out.size()));
  }
  [[nodiscard]] FlatParameter& flat(std::size_t unit) { return s_.flat[unit]; }
  [[nodiscard]] ir::ModulePath fsdp_of(std::size_t unit) const;
  /// On storage of its own, in another dtype.
  ir::ValueId cast(ir::ValueId from, DType dtype, ir::Role role, ir::ModulePath module);
  ir::ValueId padded(std::size_t unit, ir::ValueId gradient);
  void divide(ir::ValueId v, double by, ir::ModulePath module);
  [[nodiscard]] bool offloads() const { return c_.memory.offload == Offload::parameters; }
  ir::ValueId pre_unshard(std::size_t unit);
  void keep(std::size_t unit, ir::ValueId sharded);
  void leave(std::size_t unit, ir::ValueId sharded);
  /// To the optimizer, as views of the unit's.
  void give_gradient(std::size_t unit, ir::ValueId sharded);

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;
  std::vector<Unit> units_;
  std::vector<ir::ValueId> saved_;     ///< reduced gradients that have been copied to the host
  std::vector<ir::ValueId> instance_;  ///< by value: of a parameter that is gathered
  std::int32_t next_group_ = -1'000'000'000;
  ir::Phase phase_ = ir::Phase::forward;
};

}  // namespace ac_advisor::passes
