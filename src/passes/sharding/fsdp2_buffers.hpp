#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// FSDPParamGroup: the parameters that one fully_shard call gathers together.
struct ParamGroup {
  std::vector<std::size_t> parameters;  ///< indices into StepProgram::parameters
  std::int64_t shards = 1;              ///< ranks that share them
  std::int32_t within = -1;             ///< of experts: the unit whose forward theirs is part of
  bool experts = false;
  bool second_dim = false;         ///< its parameters are sharded along their second dimension
  std::int64_t shard_bytes = 0;    ///< padded, on one rank, in the dtypes of what is gathered
  std::int64_t trained_numel = 0;  ///< padded elements on one rank that have a gradient
  bool reshard_after_forward = true;
  bool unsharded = false;
  bool in_backward = false;  ///< begun, and left for another module's ops before its own end
  [[nodiscard]] bool empty() const { return parameters.empty(); }  ///< a state without a group
  bool copying = false;  ///< of one rank: asked for, and nobody has waited for it yet
  ir::ValueId all_gather_output = ir::no_id;  ///< of an all-gather that nobody has waited for yet
  std::vector<ir::ValueId> in_parts;  ///< reshard_after_forward=N: its parts, until backward
  std::vector<ir::ValueId> gathered;  ///< unsharded parameters, while they are
  std::vector<std::int32_t> post_forward_indices;
};

/// Ranks that share one copy of the parameters.
[[nodiscard]] std::int64_t fsdp_shards(const StepConfig& config);
/// Of this one: of an expert that not all ranks have, those that have it.
[[nodiscard]] std::int64_t fsdp_shards(const StepConfig& config, const Parameter& parameter);
/// Elements of one rank's dim-0 shard of `shape`, padded.
[[nodiscard]] std::int64_t fsdp_shard_numel(const ir::Shape& shape, std::int64_t shards);
/// Whether experts, so many of a layer on a rank, are sharded along their second dimension, as more
/// ranks have a part of them (TorchTitan v0.2.2, models/llama4/infra/parallelize.py, apply_fsdp).
[[nodiscard]] bool shards_second_dim(const StepConfig& config, std::int64_t experts);
/// Elements of one rank's shard of the parameter, padded.
[[nodiscard]] std::int64_t fsdp_shard_numel(const StepConfig& config, const Parameter& parameter,
                                            const ir::Shape& shape);

/// The groups of a micro-batch (of the stage that is written) and what they allocate: PyTorch
/// v2.11, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py. The ops go to the end of the
/// program.
class Fsdp2Buffers {
 public:
  Fsdp2Buffers(StepProgram& step, const StepConfig& config);

  ParamGroup& root() { return groups_.back(); }
  ParamGroup& group(std::int32_t index) { return groups_[static_cast<std::size_t>(index)]; }
  std::vector<ParamGroup>& groups() { return groups_; }
  /// Those that have parameters, as nn.Module.modules() of the root finds them.
  [[nodiscard]] std::vector<ParamGroup*> in_module_order();
  /// What is gathered ahead once this one is whole, in forward and in backward, where it was told
  /// so (TorchTitan v0.2.2, models/llama4/infra/parallelize.py, apply_fsdp, with --ep): the block
  /// that comes next and its experts, or the module at the end. Empty: nothing, or by FSDP2's own
  /// order.
  [[nodiscard]] std::vector<ParamGroup*> after(const ParamGroup& group);
  [[nodiscard]] std::vector<ParamGroup*> before(const ParamGroup& group);
  /// Whose parameters the head's are.
  ParamGroup& head() { return head_ < 0 ? root() : group(head_); }
  /// A second model's, which TRL's prepare_fsdp makes one unit of; null: there is none.
  ParamGroup* reference() { return reference_ < 0 ? nullptr : &group(reference_); }
  /// Of the module that the op is in; -1: the root's.
  [[nodiscard]] std::int32_t group_of(const ir::Op& op) const { return group_of(op.module); }

  void set_phase(ir::Phase phase) { phase_ = phase; }
  /// DTensor.full_tensor of a parameter that an op is about to read, and no unit gathers: once a
  /// forward. What the policy's has read stays for its backward while others (`apart`) run, and is
  /// read on where these end (`returns`).
  void gather_what_is_read(const ir::Op& op);
  void read_head_anew(bool apart, bool returns);
  /// Whether it is, or views, a parameter that is gathered.
  [[nodiscard]] bool is_gathered(ir::ValueId v) const {
    const auto i = static_cast<std::size_t>(p_.root(v));
    return i < instance_.size() && instance_[i] != ir::no_id;
  }
  /// The same of a parameter's gathered copy, while there is one; else the value itself.
  [[nodiscard]] ir::ValueId instance(ir::ValueId v);
  void hold(ir::ValueId v);
  /// Profiler ranges, whose begin and end PyTorch dispatches as ops.
  void record(std::int32_t ranges);

  /// Issues the all-gather.
  void unshard(ParamGroup& group);
  /// The same on the stream that computes.
  void unshard_in_line(ParamGroup& group);
  /// Copies out what was gathered. `forward`: its buffer is kept for the next group's overlap.
  void wait_for_unshard(ParamGroup& group, bool forward);
  void reshard(ParamGroup& group);
  /// After forward: to all ranks' shards, or to parts on some of them.
  void reshard_after_forward(ParamGroup& group);
  /// Without a reduction: the group's gradients are added in the reduce dtype, where that differs.
  void widen(ParamGroup& group);
  /// The same of those that wait for this micro-batch's backward for inputs.
  void widen_waiting(ParamGroup& group, std::int64_t micro);
  /// What was added so far waits for that of micro-batch `micro`.
  void wait_for(ParamGroup& group, std::int64_t micro);
  /// Writes down for the next micro-batch of the stage what is gathered.
  void keep();
  /// FSDPParamGroup.post_backward: reshards the group and reduces its gradients to this rank's
  /// shards.
  void post_backward(ParamGroup& group);
  void release_all_gather();
  void release_reductions();

 private:
  ir::OpId emit(ir::OpKind kind, ir::ModulePath module, std::span<const ir::ValueId> in,
                std::span<const ir::ValueId> out);
  /// The same of an op between the group's ranks, or to and from its buffers.
  void emit(ir::OpKind kind, const ParamGroup& group, std::span<const ir::ValueId> in,
            std::span<const ir::ValueId> out);
  ir::ValueId buffer(std::int64_t numel, DType dtype, ir::Role role, ir::ModulePath module);
  [[nodiscard]] std::int32_t group_of(ir::ModulePath module) const;
  [[nodiscard]] ir::ModulePath module_of(const ParamGroup& group) const {
    return {s_.parameters[group.parameters.front()].module.block, ir::Module::fsdp};
  }
  [[nodiscard]] ir::ValueId shard(std::size_t parameter) const {
    return s_.parameters[parameter].stored;
  }
  /// What was added so far, and this micro-batch's.
  void take_widened(ParamGroup& group);
  void add_to_widened(const ParamGroup& group, Parameter& parameter);
  /// Tensor parallelism: the group's gradients as their parameters are split.
  void redistribute(ParamGroup& group);
  ir::ValueId scaled_shard(std::size_t parameter, ir::ModulePath module);
  [[nodiscard]] bool offloads() const { return c_.memory.offload == Offload::parameters; }
  ir::ValueId fetched_shard(std::size_t parameter, ir::ModulePath module);
  ir::ValueId divided(ir::ValueId v, ir::ModulePath module, bool before);
  void copy_out(ParamGroup& group);
  ir::ValueId unsharded_like(std::size_t parameter);
  void copy_out_by_rank(ParamGroup& group, ir::ValueId gathered);
  void cast_and_copy(ParamGroup& group);
  void gather_parts(ParamGroup& group);
  ir::ValueId reduced(const ParamGroup& group, ir::ValueId input, DType type, ir::Role role);
  void reduce(ParamGroup& group);
  void store(ParamGroup& group, ir::ValueId sharded);
  void store_on_host(ParamGroup& group, ir::ValueId sharded);
  void add(std::size_t parameter);
  [[nodiscard]] bool is_tied() const;
  [[nodiscard]] std::vector<ir::ValueId> by_rank(ParamGroup& group,
                                                 const std::vector<ir::ValueId>& gradients);
  [[nodiscard]] bool of_titan() const {
    return c_.run.transformer_impl == TransformerImpl::torchtitan;
  }
  [[nodiscard]] std::vector<ParamGroup*> beside(const ParamGroup& group, std::int32_t step);

  StepProgram& s_;
  ir::Program& p_;
  const StepConfig& c_;
  /// Blocks or segments, the ends' of their own, each block's experts, the root.
  std::vector<ParamGroup> groups_;
  std::vector<std::int32_t> group_of_block_;
  std::int32_t units_ = 0;                   ///< groups of blocks
  std::int32_t embedding_ = -1, head_ = -1;  ///< groups; -1: in the root's
  std::int32_t experts_ = -1;                ///< that of the first block's; -1: in the block's
  std::int32_t reference_ = -1;
  ir::ValueId head_read_ = ir::no_id;  ///< by the policy's forward, while a reference's runs
  std::vector<ir::ValueId> instance_;
  ir::ValueId held_all_gather_ = ir::no_id, held_reduce_scatter_ = ir::no_id;
  std::vector<ir::ValueId> held_all_reduce_;
  std::int32_t next_group_ = -1'000'000'000;
  ir::Phase phase_ = ir::Phase::forward;
};

}  // namespace ac_advisor::passes
