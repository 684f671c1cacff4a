// One process a rank on CPUs. The only file that sees Gloo.
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/collectives/c10d/c10d.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {
namespace {

class Gloo final : public C10d {
 public:
  Gloo(const Rendezvous& where, double timeout_seconds) : C10d(where, timeout_seconds) {
    barrier();  // the first group is made while nothing is under way
  }
  ~Gloo() override { static_cast<void>(stop_watching()); }

 private:
  /// Gloo's thread lets go of the tensors a moment after it has said that it is done; what frees
  /// one next counts on that.
  void finish_all_of(const Work& work) {
    finish(work);
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (work.use_count() > 1 && std::chrono::steady_clock::now() < patience)
      std::this_thread::yield();
  }

  Process make_group(c10::intrusive_ptr<c10d::Store> store, int rank, int size) override {
    // A little more than this project's own clock has, which knows who is missing.
    auto options = c10d::ProcessGroupGloo::Options::create(
        std::chrono::milliseconds(static_cast<std::int64_t>(timeout() * 1000) + 1000));
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice(false));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  }

  std::unique_ptr<Pending> gather(const Process& group, at::Tensor buffer,
                                  at::Tensor part) override {
    std::vector<at::Tensor> inputs{part};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (std::int64_t r = 0; r < group->getSize(); ++r)
      outputs[0].push_back(buffer.narrow(0, r * part.numel(), part.numel()));
    finish_all_of(group->allgather(outputs, inputs));
    return nullptr;
  }

  /// Gloo's own reduce_scatter wants a whole reduction as well: summed once, a part is kept.
  std::unique_ptr<Pending> scatter(const Process& group, const at::Tensor& input, at::Tensor output,
                                   Combine how) override {
    static_cast<void>(reduce(group, input, how));
    output.copy_(input.narrow(0, group->getRank() * output.numel(), output.numel()));
    return nullptr;
  }

  std::unique_ptr<Pending> reduce(const Process& group, at::Tensor buffer, Combine how) override {
    c10d::AllreduceOptions options;
    if (how == Combine::maximum) options.reduceOp = c10d::ReduceOp::MAX;
    std::vector<at::Tensor> tensors{buffer};
    finish_all_of(group->allreduce(tensors, options));
    if (how == Combine::average) buffer.div_(static_cast<double>(group->getSize()));
    if (group->getSize() != world()) return nullptr;
    // Every rank is here, and has received what was sent before.
    for (const auto& [work, copy] : sent_) work->wait();
    sent_.clear();
    return nullptr;
  }

  std::unique_ptr<Pending> trade(const Process& group, const at::Tensor& input,
                                 at::Tensor output) override {
    at::Tensor given = input;
    std::vector<std::int64_t> equal;
    finish_all_of(group->alltoall_base(output, given, equal, equal, {}));
    return nullptr;
  }

  /// Gloo sends when its peer receives, which a schedule may have after what this rank frees next:
  /// copies are sent, that are no part of the step.
  std::unique_ptr<Pending> transfer(const Process& group,
                                    const std::vector<Transfer>& batch) override {
    const MemoryTracker::Scope outside(nullptr);
    std::vector<Work> received;
    for (const Transfer& t : batch) {
      const auto peer = static_cast<int>(t.peer);
      std::vector<at::Tensor> tensors{t.sends ? t.tensor.clone() : t.tensor};
      if (t.sends)
        sent_.emplace_back(group->send(tensors, peer, t.tag), tensors.front());
      else
        received.push_back(group->recv(tensors, peer, t.tag));
    }
    for (const Work& work : received) work->wait();  // a wait that ends early breaks the connection
    return nullptr;
  }

  std::vector<std::pair<Work, at::Tensor>> sent_;
};

}  // namespace

std::unique_ptr<Collectives> make_gloo(const Rendezvous& where, double timeout_seconds) {
  return std::make_unique<Gloo>(where, timeout_seconds);
}

}  // namespace ac_advisor::trainer
