#pragma once

#include <cstdint>

#include "ac_advisor/model/step_config.hpp"
#include "trainer/collectives/collectives.hpp"

namespace ac_advisor::trainer {

/// Where a rank of the world is among pipeline, data-parallel, context-parallel and tensor-parallel
/// ranks: stages are farthest apart, tensor-parallel ranks side by side, those that share a
/// sequence next to them, as TorchTitan 0.2.2 builds its mesh (distributed/parallel_dims.py).
/// Parameters are sharded over those that see other sequences or other parts of one.
class Mesh {
 public:
  Mesh(const Layout& layout, std::int64_t rank)
      : tp_(layout.tp),
        cp_(layout.cp),
        ep_(layout.ep),
        data_(layout.replica_ranks()),
        shards_(layout.shard == Sharding::hsdp ? layout.hsdp_shards : layout.replica_ranks()),
        rank_(rank) {}

  [[nodiscard]] std::int64_t tp_rank() const { return rank_ % tp_; }
  [[nodiscard]] std::int64_t data_rank() const { return rank_ / tp_ % data_; }
  [[nodiscard]] std::int64_t pp_rank() const { return rank_ / (tp_ * data_); }
  /// Whose part of a sequence it has, and which of the sequences that ranks see at a time.
  [[nodiscard]] std::int64_t cp_rank() const { return data_rank() % cp_; }
  [[nodiscard]] std::int64_t sequences_rank() const { return data_rank() / cp_; }
  /// Which part of a sharded parameter it has.
  [[nodiscard]] std::int64_t shard() const { return data_rank() % shards_; }

  /// Which part of a layer's experts it has, of which other ranks have the same; and which part of
  /// one of those (transformers 5.23, distributed/utils.py: the mesh of experts, efsdp by ep).
  [[nodiscard]] std::int64_t ep_rank() const { return data_rank() % ep_; }
  [[nodiscard]] std::int64_t expert_shard() const { return shard() / ep_; }

  /// Those that have the other parts of its layers.
  [[nodiscard]] Group tensor_parallel() const { return {rank_ - tp_rank(), tp_, 1}; }
  /// Those that have the other parts of its sequences.
  [[nodiscard]] Group context_parallel() const { return {rank_ - cp_rank() * tp_, cp_, tp_}; }
  /// Those that see other sequences, or other parts of them.
  [[nodiscard]] Group data_parallel() const { return {rank_ - data_rank() * tp_, data_, tp_}; }
  /// Those that a parameter is sharded over: all of the above, or of hsdp:N as many as N.
  [[nodiscard]] Group sharded() const { return {rank_ - shard() * tp_, shards_, tp_}; }
  /// Those that have the other experts of its layers.
  [[nodiscard]] Group expert_parallel() const { return {rank_ - ep_rank() * tp_, ep_, tp_}; }
  /// Those that its own experts are sharded over.
  [[nodiscard]] Group expert_sharded() const {
    return {rank_ - expert_shard() * ep_ * tp_, shards_ / ep_, ep_ * tp_};
  }
  /// Those that have the same shard.
  [[nodiscard]] Group replicas() const {
    return {rank_ - data_rank() / shards_ * shards_ * tp_, data_ / shards_, shards_ * tp_};
  }
  /// Those in this one's place of the first and the last stage.
  [[nodiscard]] Group ends(std::int64_t stages) const {
    return {in_stage(0), 2, in_stage(stages - 1) - in_stage(0)};
  }
  /// Those in this one's place of all stages.
  [[nodiscard]] Group stages(std::int64_t count) const { return {in_stage(0), count, tp_ * data_}; }
  /// The rank in this one's place of another stage.
  [[nodiscard]] std::int64_t in_stage(std::int64_t pp_rank) const {
    return rank_ + (pp_rank - this->pp_rank()) * tp_ * data_;
  }

 private:
  std::int64_t tp_, cp_, ep_, data_, shards_, rank_;
};

}  // namespace ac_advisor::trainer
