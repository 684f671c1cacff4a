// One process a rank on CPUs. The only file that sees Gloo.
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trainer/collectives/c10d/c10d.hpp"

namespace ac_advisor::trainer {
namespace {

class Gloo final : public C10d {
 public:
  Gloo(const Rendezvous& where, double timeout_seconds) : C10d(where, timeout_seconds) {
    barrier();  // the first group is made while nothing is under way
  }
  ~Gloo() override { static_cast<void>(stop_watching()); }

 private:
  Group make_group(c10::intrusive_ptr<c10d::Store> store, int rank, int size) override {
    // A little more than this project's own clock has, which knows who is missing.
    auto options = c10d::ProcessGroupGloo::Options::create(
        std::chrono::milliseconds(static_cast<std::int64_t>(timeout() * 1000) + 1000));
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice(false));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  }

  std::unique_ptr<Pending> gather(const Group& group, at::Tensor buffer, at::Tensor part) override {
    std::vector<at::Tensor> inputs{part};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (std::int64_t r = 0; r < group->getSize(); ++r)
      outputs[0].push_back(buffer.narrow(0, r * part.numel(), part.numel()));
    finish(group->allgather(outputs, inputs));
    return nullptr;
  }

  /// Gloo's own reduce_scatter wants a whole reduction as well: summed once, a part is kept.
  std::unique_ptr<Pending> scatter(const Group& group, const at::Tensor& input,
                                   at::Tensor output) override {
    std::vector<at::Tensor> tensors{input};
    finish(group->allreduce(tensors));
    output.copy_(input.narrow(0, group->getRank() * output.numel(), output.numel()));
    output.div_(static_cast<double>(group->getSize()));
    return nullptr;
  }

  std::unique_ptr<Pending> reduce(const Group& group, at::Tensor buffer) override {
    std::vector<at::Tensor> tensors{buffer};
    finish(group->allreduce(tensors));
    buffer.div_(static_cast<double>(group->getSize()));
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<Collectives> make_gloo(const Rendezvous& where, double timeout_seconds) {
  return std::make_unique<Gloo>(where, timeout_seconds);
}

}  // namespace ac_advisor::trainer
