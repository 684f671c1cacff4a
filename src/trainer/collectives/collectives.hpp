#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ac_advisor::trainer {

/// A rank that does not answer: which, and at what step, so that the run ends with its name.
struct RankFailure {
  std::int64_t rank = -1;  ///< -1: not known which
  std::string what;
};

/// What ranks do together. `emulate` is one process that stands for rank 0 of W: the same buffers,
/// no peer. `local` runs W ranks as threads of this process. `procs` is one process a rank.
/// Calls are collective over the whole world, in the same order on every rank; tensors are
/// contiguous. Reductions average over the group.
class Collectives {
 public:
  virtual ~Collectives() = default;
  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t world() const = 0;
  /// Whether peers are real, so that losses and gradients mean something.
  [[nodiscard]] virtual bool real() const { return true; }

  /// `buffer` is `group` parts; this rank's is filled, all are afterwards. Groups are `group`
  /// consecutive ranks.
  virtual void all_gather(at::Tensor buffer, std::int64_t group) = 0;
  /// `output` becomes the average over the group of part `rank % group` of each `input`.
  virtual void reduce_scatter(const at::Tensor& input, at::Tensor output, std::int64_t group) = 0;
  /// The average over the ranks that have this rank's place in their groups of `stride`
  /// consecutive ranks (1: over all of them).
  virtual void all_reduce(at::Tensor buffer, std::int64_t stride) = 0;
  virtual void barrier() = 0;
  /// This rank cannot go on: its peers' waiting calls end with a RankFailure that names it.
  virtual void abort(const std::string& why) = 0;
};

[[nodiscard]] std::unique_ptr<Collectives> make_single();
[[nodiscard]] std::unique_ptr<Collectives> make_emulated(std::int64_t world);
/// One for each rank; each is used by one thread. `timeout_seconds`: without a call from every rank
/// for that long, all fail.
[[nodiscard]] std::vector<std::unique_ptr<Collectives>> make_local(std::int64_t world,
                                                                   double timeout_seconds);

/// Where a process of several meets the others: torchrun's, srun's or mpirun's variables.
struct Rendezvous {
  std::int64_t rank = 0, world = 1, local_rank = 0;
  std::string address = "127.0.0.1";
  std::uint16_t port = 29500;
  std::string launcher;  ///< "torchrun", "srun", "mpirun"
};
/// From the environment; a world of 1 and no launcher where none of them started this process.
/// Throws UserError for variables that contradict each other or are not numbers.
[[nodiscard]] Rendezvous rendezvous_from_environment();
/// Gloo through c10d, met at a TCPStore.
[[nodiscard]] std::unique_ptr<Collectives> make_gloo(const Rendezvous& where,
                                                     double timeout_seconds);

}  // namespace ac_advisor::trainer
