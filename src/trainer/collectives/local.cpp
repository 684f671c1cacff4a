// Ranks as threads of one process: a call leaves its tensor where the others see it, waits for all,
// computes its own result from theirs, and waits again before anybody goes on.
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "trainer/collectives/collectives.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {
namespace {

struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<at::Tensor> tensors;
  std::vector<std::int64_t> calls;  ///< by rank, to tell who is missing
  std::int64_t waiting = 0, generation = 0;
  bool failed = false;
  RankFailure failure;
  double timeout = 0;
};

class Local final : public Collectives {
 public:
  Local(std::shared_ptr<Shared> shared, std::int64_t rank, std::int64_t world)
      : s_(std::move(shared)), rank_(rank), world_(world) {}
  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t world() const override { return world_; }

  std::unique_ptr<Pending> all_gather(at::Tensor buffer, std::int64_t group) override {
    const std::int64_t part = buffer.numel() / group, mine = rank_ % group, first = rank_ - mine;
    exchange(buffer, [&] {
      for (std::int64_t r = 0; r < group; ++r)
        if (r != mine)
          buffer.narrow(0, r * part, part).copy_(peer(first + r).narrow(0, r * part, part));
    });
    return nullptr;
  }

  std::unique_ptr<Pending> reduce_scatter(const at::Tensor& input, at::Tensor output,
                                          std::int64_t group) override {
    const std::int64_t part = output.numel(), mine = rank_ % group, first = rank_ - mine;
    exchange(input, [&] {
      output.copy_(peer(first).narrow(0, mine * part, part));
      for (std::int64_t r = 1; r < group; ++r)
        output.add_(peer(first + r).narrow(0, mine * part, part));
      output.div_(static_cast<double>(group));
    });
    return nullptr;
  }

  /// Each rank sums a slice for all, so that no rank needs a second buffer.
  std::unique_ptr<Pending> all_reduce(at::Tensor buffer, std::int64_t stride) override {
    std::vector<std::int64_t> members;
    for (std::int64_t r = rank_ % stride; r < world_; r += stride) members.push_back(r);
    const auto count = static_cast<std::int64_t>(members.size());
    const std::int64_t slice = (buffer.numel() + count - 1) / count, place = rank_ / stride;
    const at::Tensor flat = buffer.view({-1});
    exchange(flat, [&] {
      const std::int64_t begin = std::min(place * slice, flat.numel()),
                         size = std::min(slice, flat.numel() - begin);
      if (size <= 0) return;
      at::Tensor sum = peer(members.front()).narrow(0, begin, size);
      for (std::size_t i = 1; i < members.size(); ++i)
        sum.add_(peer(members[i]).narrow(0, begin, size));
      sum.div_(static_cast<double>(count));
      for (std::size_t i = 1; i < members.size(); ++i)
        peer(members[i]).narrow(0, begin, size).copy_(sum);
    });
    return nullptr;
  }

  void barrier() override { meet(); }

  void abort(const std::string& why) override {
    const std::scoped_lock lock(s_->mutex);
    if (s_->failed) return;
    s_->failed = true;
    s_->failure = {rank_, why};
    s_->changed.notify_all();
  }

 private:
  [[nodiscard]] at::Tensor peer(std::int64_t rank) const {
    return s_->tensors[static_cast<std::size_t>(rank)];
  }

  template <typename Work>
  void exchange(const at::Tensor& mine, Work work) {
    {
      const std::scoped_lock lock(s_->mutex);
      s_->tensors[static_cast<std::size_t>(rank_)] = mine;
    }
    meet();
    {
      const MemoryTracker::Scope outside(nullptr);  // scratch of sums is not the step's
      work();
    }
    meet();
    const std::scoped_lock lock(s_->mutex);
    s_->tensors[static_cast<std::size_t>(rank_)].reset();
  }

  void meet() {
    std::unique_lock lock(s_->mutex);
    ++s_->calls[static_cast<std::size_t>(rank_)];
    if (s_->failed) throw s_->failure;
    const std::int64_t generation = s_->generation;
    if (++s_->waiting == world_) {
      s_->waiting = 0;
      ++s_->generation;
      s_->changed.notify_all();
      return;
    }
    const bool met = s_->changed.wait_for(lock, std::chrono::duration<double>(s_->timeout), [&] {
      return s_->generation != generation || s_->failed;
    });
    if (s_->failed && s_->generation == generation) throw s_->failure;
    if (met) return;
    const std::int64_t most = s_->calls[static_cast<std::size_t>(rank_)];
    s_->failed = true;
    for (std::int64_t r = 0; r < world_; ++r)
      if (s_->calls[static_cast<std::size_t>(r)] < most)
        s_->failure = {r, fmt::format("did not reach the collective in {} s", s_->timeout)};
    s_->changed.notify_all();
    throw s_->failure;
  }

  std::shared_ptr<Shared> s_;
  std::int64_t rank_, world_;
};

}  // namespace

std::vector<std::unique_ptr<Collectives>> make_local(std::int64_t world, double timeout_seconds) {
  auto shared = std::make_shared<Shared>();
  shared->tensors.resize(static_cast<std::size_t>(world));
  shared->calls.resize(static_cast<std::size_t>(world), 0);
  shared->timeout = timeout_seconds;
  std::vector<std::unique_ptr<Collectives>> ranks;
  for (std::int64_t r = 0; r < world; ++r)
    ranks.push_back(std::make_unique<Local>(shared, r, world));
  return ranks;
}

}  // namespace ac_advisor::trainer
