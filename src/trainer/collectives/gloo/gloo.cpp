// One process a rank on CPUs: c10d's Gloo, met at its TCPStore. The only file that sees c10d.
#define USE_C10D_GLOO
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <map>

#include "trainer/collectives/collectives.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

class Gloo final : public Collectives {
 public:
  Gloo(const Rendezvous& where, double timeout_seconds)
      : rank_(where.rank),
        world_(where.world),
        timeout_(static_cast<std::int64_t>(timeout_seconds * 1000)) {
    guarded([&] {
      c10d::TCPStoreOptions options;
      options.port = where.port;
      options.isServer = where.rank == 0;
      options.numWorkers = static_cast<std::size_t>(where.world);
      options.waitWorkers = false;
      options.timeout = timeout_;
      store_ = c10::make_intrusive<c10d::TCPStore>(where.address, options);
      all_ = make_group("all", rank_, world_);
    });
  }

  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t world() const override { return world_; }

  void all_gather(at::Tensor buffer, std::int64_t group) override {
    guarded([&] {
      const std::int64_t part = buffer.numel() / group, mine = rank_ % group;
      at::Tensor input = buffer.narrow(0, mine * part, part);
      std::vector<at::Tensor> inputs{input};
      std::vector<std::vector<at::Tensor>> outputs(1);
      for (std::int64_t r = 0; r < group; ++r)
        outputs[0].push_back(buffer.narrow(0, r * part, part));
      neighbours(group)->allgather(outputs, inputs)->wait();
    });
  }

  void reduce_scatter(const at::Tensor& input, at::Tensor output, std::int64_t group) override {
    guarded([&] {
      // Gloo's own reduce_scatter wants a whole reduction as well: summed once, a part is kept.
      at::Tensor sum = input;
      std::vector<at::Tensor> tensors{sum};
      neighbours(group)->allreduce(tensors)->wait();
      output.copy_(sum.narrow(0, rank_ % group * output.numel(), output.numel()));
      output.div_(static_cast<double>(group));
    });
  }

  void all_reduce(at::Tensor buffer, std::int64_t stride) override {
    guarded([&] {
      std::vector<at::Tensor> tensors{buffer.view({-1})};
      const std::int64_t members = world_ / stride;
      (stride == 1 ? all_ : replicas(stride))->allreduce(tensors)->wait();
      buffer.div_(static_cast<double>(members));
    });
  }

  void barrier() override {
    guarded([&] { all_->barrier()->wait(); });
  }

  void abort(const std::string& why) override {
    try {
      store_->set("failure", std::vector<std::uint8_t>(why.begin(), why.end()));
      store_->set("failed_rank",
                  std::vector<std::uint8_t>{static_cast<std::uint8_t>(rank_ & 0xFF)});
    } catch (const std::exception&) {
      return;  // the store is gone with rank 0: the peers see their connections end
    }
  }

 private:
  Group make_group(const std::string& name, std::int64_t rank, std::int64_t size) {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice(false));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>(name, store_), static_cast<int>(rank),
        static_cast<int>(size), options);
  }

  /// `size` consecutive ranks with this one among them.
  Group neighbours(std::int64_t size) {
    if (size == world_) return all_;
    Group& group = groups_["n" + std::to_string(size)];
    if (!group) group = make_group(fmt::format("n{}.{}", size, rank_ / size), rank_ % size, size);
    return group;
  }
  /// Every `stride`-th rank, this one among them.
  Group replicas(std::int64_t stride) {
    Group& group = groups_["r" + std::to_string(stride)];
    if (!group)
      group = make_group(fmt::format("r{}.{}", stride, rank_ % stride), rank_ / stride,
                         world_ / stride);
    return group;
  }

  template <typename Work>
  void guarded(Work work) {
    const MemoryTracker::Scope outside(nullptr);  // Gloo's buffers are none of the step's
    try {
      work();
    } catch (const std::exception& error) {
      const std::string what = error.what();
      throw RankFailure{failed_rank(), what.substr(0, what.find('\n'))};
    }
  }

  /// Which rank said that it failed, or -1.
  std::int64_t failed_rank() {
    try {
      if (store_ && store_->check({"failed_rank"})) return store_->get("failed_rank").at(0);
    } catch (const std::exception&) {
      return 0;  // the store was rank 0's
    }
    return -1;
  }

  std::int64_t rank_, world_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  Group all_;
  std::map<std::string, Group> groups_;
};

}  // namespace

std::unique_ptr<Collectives> make_gloo(const Rendezvous& where, double timeout_seconds) {
  return std::make_unique<Gloo>(where, timeout_seconds);
}

}  // namespace ac_advisor::trainer
