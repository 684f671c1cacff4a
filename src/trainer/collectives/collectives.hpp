#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ac_advisor::trainer {

/// A rank that does not answer: which, and at what step, so that the run ends with its name.
struct RankFailure {
  std::int64_t rank = -1;  ///< -1: not known which
  std::string what;
};

/// A collective that was begun. Its tensors are neither read nor written nor freed before wait():
/// on a GPU that makes the current stream wait, and the host goes on; elsewhere the caller waits.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};
/// Waits for what was begun, if it is not done already.
inline void complete(const std::unique_ptr<Pending>& begun) {
  if (begun) begun->wait();
}

/// What ranks do together. `emulate` is one process that stands for rank 0 of W: the same buffers,
/// no peer. `local` runs W ranks as threads of this process. `procs` is one process a rank, `nccl`
/// one process a GPU. Calls are collective over the whole world, in the same order on every rank;
/// tensors are contiguous. Reductions average over the group. What is begun may be done already:
/// then null is returned.
class Collectives {
 public:
  virtual ~Collectives() = default;
  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t world() const = 0;
  /// Whether peers are real, so that losses and gradients mean something.
  [[nodiscard]] virtual bool real() const { return true; }

  /// `buffer` is `group` parts; this rank's is filled, all are afterwards. Groups are `group`
  /// consecutive ranks.
  [[nodiscard]] virtual std::unique_ptr<Pending> all_gather(at::Tensor buffer,
                                                            std::int64_t group) = 0;
  /// `output` becomes the average over the group of part `rank % group` of each `input`.
  [[nodiscard]] virtual std::unique_ptr<Pending> reduce_scatter(const at::Tensor& input,
                                                                at::Tensor output,
                                                                std::int64_t group) = 0;
  /// The average over the ranks that have this rank's place in their groups of `stride`
  /// consecutive ranks (1: over all of them).
  [[nodiscard]] virtual std::unique_ptr<Pending> all_reduce(at::Tensor buffer,
                                                            std::int64_t stride) = 0;
  virtual void barrier() = 0;
  /// The average over all ranks of a number that the host has.
  [[nodiscard]] virtual double average(double value);
  /// Returns when `done` (a CUDA event's query) says so. Ends with a RankFailure instead of waiting
  /// for a device that waits for a rank that is gone.
  virtual void wait_for_device(const std::function<bool()>& done);
  /// After the last collective: returns when every rank has ended its own. A rank that is gone
  /// earlier takes with its connections what a slower one has not read yet.
  virtual void leave() {}
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
  std::int64_t rank = 0, world = 1;
  std::int64_t local_rank =
      0;  ///< among the ranks of this machine: which of its devices is this one's
  std::string address = "127.0.0.1";
  std::uint16_t port = 29500;
  int listening = -1;    ///< a socket bound to `port`, which rank 0's store takes over; -1: none
  std::string launcher;  ///< "torchrun", "srun", "mpirun"
  bool launcher_serves_store = false;  ///< the store at `port` is the launcher's, not rank 0's
  std::string attempt = "0";           ///< of a launcher that starts a run again
};
/// Binds a free port of this machine and keeps it for rank 0's store, so that nobody else takes it
/// in between. Throws UserError where there is none.
void reserve_port(Rendezvous& where);
/// From the environment; a world of 1 and no launcher where none of them started this process.
/// Throws UserError for variables that contradict each other or are not numbers.
[[nodiscard]] Rendezvous rendezvous_from_environment();
/// Gloo through c10d, met at a TCPStore. Throws RankFailure naming a rank that does not come.
[[nodiscard]] std::unique_ptr<Collectives> make_gloo(const Rendezvous& where,
                                                     double timeout_seconds);
/// NCCL through c10d, on the current CUDA device, which the caller has chosen by `local_rank`.
/// Throws UserError where there is no device, or no NCCL in this program.
[[nodiscard]] std::unique_ptr<Collectives> make_nccl(const Rendezvous& where,
                                                     double timeout_seconds);
/// Throws UserError in a program without NCCL. Asks no device, so that processes may be forked
/// after.
void require_nccl();

}  // namespace ac_advisor::trainer
