#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "trainer/collectives/c10d/watch.hpp"
#include "trainer/collectives/collectives.hpp"

namespace ac_advisor::trainer {

/// One process a rank over c10d, met at its TCPStore: what Gloo and NCCL share.
class C10d : public Collectives {
 public:
  using Process = c10::intrusive_ptr<c10d::Backend>;  ///< a group's, of c10d
  using Work = c10::intrusive_ptr<c10d::Work>;

  ~C10d() override;
  [[nodiscard]] std::int64_t rank() const final { return where_.rank; }
  [[nodiscard]] std::int64_t world() const final { return where_.world; }
  std::unique_ptr<Pending> all_gather(at::Tensor buffer, const Group& group) final;
  std::unique_ptr<Pending> reduce_scatter(const at::Tensor& input, at::Tensor output,
                                          const Group& group, Combine how) final;
  std::unique_ptr<Pending> all_reduce(at::Tensor buffer, const Group& group, Combine how) final;
  std::unique_ptr<Pending> all_to_all(const at::Tensor& input, at::Tensor output,
                                      const Group& group) final;
  std::unique_ptr<Pending> exchange(const std::vector<Transfer>& batch) final;
  void barrier() final;
  void wait_for_device(const std::function<bool()>& done) final;
  void leave() final;
  void abort(const std::string& why) final;

 protected:
  /// Meets the other ranks at the store.
  C10d(const Rendezvous& where, double timeout_seconds);

  // What a kind of process group has of its own. Calls may throw what c10d throws.
  virtual Process make_group(c10::intrusive_ptr<c10d::Store> store, int rank, int size) = 0;
  /// `part` is this rank's in `buffer`.
  virtual std::unique_ptr<Pending> gather(const Process& group, at::Tensor buffer,
                                          at::Tensor part) = 0;
  virtual std::unique_ptr<Pending> scatter(const Process& group, const at::Tensor& input,
                                           at::Tensor output, Combine how) = 0;
  virtual std::unique_ptr<Pending> reduce(const Process& group, at::Tensor buffer, Combine how) = 0;
  virtual std::unique_ptr<Pending> trade(const Process& group, const at::Tensor& input,
                                         at::Tensor output) = 0;
  virtual std::unique_ptr<Pending> transfer(const Process& group,
                                            const std::vector<Transfer>& batch) = 0;
  /// Whether collectives are still under way on a device.
  [[nodiscard]] virtual bool under_way() { return true; }
  /// Ends what is under way, from another thread.
  virtual void abort_groups();

  /// Blocks until `work` has ended, or a rank has failed.
  void finish(const Work& work);
  /// Runs `begin`; what it throws becomes a RankFailure.
  std::unique_ptr<Pending> guarded(const std::function<std::unique_ptr<Pending>()>& begin);
  void each_group(const std::function<void(c10d::Backend&)>& visit);
  /// For the destructor of the class below: nothing of it is called any more. Returns whether all
  /// went well.
  bool stop_watching() {
    const bool good = watch_ && !watch_->failed();
    watch_.reset();
    return good;
  }
  [[nodiscard]] double timeout() const { return timeout_; }

 private:
  Process process(const Group& group);

  Rendezvous where_;
  double timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::mutex groups_mutex_;
  std::map<Group, Process> groups_;
  std::unique_ptr<Watch> watch_;
  std::int64_t left_ = 0;  ///< calls of leave()
};

}  // namespace ac_advisor::trainer
