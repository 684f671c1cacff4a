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

/// Ranks that act together: first, first + stride, …
struct Group {
  std::int64_t first = 0, size = 1, stride = 1;

  [[nodiscard]] std::int64_t member(std::int64_t place) const { return first + place * stride; }
  [[nodiscard]] std::int64_t place_of(std::int64_t rank) const { return (rank - first) / stride; }
  auto operator<=>(const Group&) const = default;
};

/// A message to or from one other rank.
struct Transfer {
  at::Tensor tensor;
  std::int64_t peer = 0;
  std::int32_t tag = 0;  ///< that no other message under way from the one to the other has
  bool sends = false;
};

/// How a reduction combines what the ranks of a group have.
enum class Combine : std::uint8_t { average, sum, maximum };

/// What ranks do together. `emulate` is one process that stands for one rank of W: the same
/// buffers, no peer. `local` runs W ranks as threads of this process. `procs` is one process a
/// rank, `nccl` one process a GPU. A group's calls are collective over it, in the same order on
/// each of its ranks; tensors are contiguous. What is begun may be done already: then null is
/// returned.
class Collectives {
 public:
  virtual ~Collectives() = default;
  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t world() const = 0;
  [[nodiscard]] Group all() const { return {0, world(), 1}; }
  /// Whether peers are real, so that losses and gradients mean something.
  [[nodiscard]] virtual bool real() const { return true; }

  /// `buffer` is a part for each rank of the group; this rank's is filled, all are afterwards.
  [[nodiscard]] virtual std::unique_ptr<Pending> all_gather(at::Tensor buffer,
                                                            const Group& group) = 0;
  /// `output` becomes what the group's inputs have combined at this rank's part.
  [[nodiscard]] virtual std::unique_ptr<Pending> reduce_scatter(const at::Tensor& input,
                                                                at::Tensor output,
                                                                const Group& group,
                                                                Combine how = Combine::average) = 0;
  [[nodiscard]] virtual std::unique_ptr<Pending> all_reduce(at::Tensor buffer, const Group& group,
                                                            Combine how = Combine::average) = 0;
  /// Equal parts, one for each rank of the group: `output` becomes what each has for this one, in
  /// their order.
  [[nodiscard]] virtual std::unique_ptr<Pending> all_to_all(const at::Tensor& input,
                                                            at::Tensor output,
                                                            const Group& group) = 0;
  /// Sends and receives that begin together; each other rank has the counterpart in a batch of its
  /// own. What is sent may be under way after the call.
  [[nodiscard]] virtual std::unique_ptr<Pending> exchange(const std::vector<Transfer>& batch) = 0;
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
[[nodiscard]] std::unique_ptr<Collectives> make_emulated(std::int64_t world, std::int64_t rank = 0);
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
