// Ranks as threads of one process: a call leaves its tensor where the others of its group see it,
// waits for all of them, computes its own result from theirs, and waits again before anybody goes
// on. A message is copied on its way, so that nobody waits for its reader.
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <tuple>

#include "trainer/collectives/collectives.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {
namespace {

/// Where the ranks of a group meet.
struct Meeting {
  std::vector<at::Tensor> tensors;  ///< by place in the group
  std::vector<bool> here;
  std::int64_t waiting = 0, generation = 0;
};

struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Group, Meeting> meetings;
  /// By sender, receiver and tag.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int32_t>, at::Tensor> mail;
  bool failed = false;
  RankFailure failure;
  double timeout = 0;
};

/// `sum` becomes what it and `other` have combined.
void combine(const at::Tensor& sum, const at::Tensor& other, Combine how) {
  at::Tensor into = sum;
  if (how == Combine::maximum)
    at::maximum_out(into, sum, other);
  else
    into.add_(other);
}

class Local final : public Collectives {
 public:
  Local(std::shared_ptr<Shared> shared, std::int64_t rank, std::int64_t world)
      : s_(std::move(shared)), rank_(rank), world_(world) {}
  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t world() const override { return world_; }

  std::unique_ptr<Pending> all_gather(at::Tensor buffer, const Group& group) override {
    const at::Tensor flat = buffer.view({-1});
    const std::int64_t part = flat.numel() / group.size, mine = group.place_of(rank_);
    together(flat, group, [&](const std::vector<at::Tensor>& of) {
      for (std::int64_t r = 0; r < group.size; ++r)
        if (r != mine)
          flat.narrow(0, r * part, part)
              .copy_(of[static_cast<std::size_t>(r)].narrow(0, r * part, part));
    });
    return nullptr;
  }

  std::unique_ptr<Pending> reduce_scatter(const at::Tensor& input, at::Tensor output,
                                          const Group& group, Combine how) override {
    const at::Tensor sum = output.view({-1});
    const std::int64_t part = sum.numel(), begin = group.place_of(rank_) * part;
    together(input.view({-1}), group, [&](const std::vector<at::Tensor>& of) {
      sum.copy_(of.front().narrow(0, begin, part));
      for (std::size_t r = 1; r < of.size(); ++r) combine(sum, of[r].narrow(0, begin, part), how);
      if (how == Combine::average) sum.div_(static_cast<double>(group.size));
    });
    return nullptr;
  }

  /// Each rank sums a slice for all, so that no rank needs a second buffer.
  std::unique_ptr<Pending> all_reduce(at::Tensor buffer, const Group& group, Combine how) override {
    const at::Tensor flat = buffer.view({-1});
    const std::int64_t slice = (flat.numel() + group.size - 1) / group.size,
                       begin = std::min(group.place_of(rank_) * slice, flat.numel()),
                       size = std::min(slice, flat.numel() - begin);
    together(flat, group, [&](const std::vector<at::Tensor>& of) {
      if (size <= 0) return;
      const at::Tensor sum = of.front().narrow(0, begin, size);
      for (std::size_t i = 1; i < of.size(); ++i) combine(sum, of[i].narrow(0, begin, size), how);
      if (how == Combine::average) sum.div_(static_cast<double>(group.size));
      for (std::size_t i = 1; i < of.size(); ++i) of[i].narrow(0, begin, size).copy_(sum);
    });
    return nullptr;
  }

  std::unique_ptr<Pending> all_to_all(const at::Tensor& input, at::Tensor output,
                                      const Group& group) override {
    const at::Tensor flat = output.view({-1});
    const std::int64_t part = flat.numel() / group.size, begin = group.place_of(rank_) * part;
    together(input.view({-1}), group, [&](const std::vector<at::Tensor>& of) {
      for (std::int64_t r = 0; r < group.size; ++r)
        flat.narrow(0, r * part, part)
            .copy_(of[static_cast<std::size_t>(r)].narrow(0, begin, part));
    });
    return nullptr;
  }

  std::unique_ptr<Pending> exchange(const std::vector<Transfer>& batch) override {
    const MemoryTracker::Scope outside(nullptr);
    for (const Transfer& t : batch)
      if (t.sends) post(t);
    for (const Transfer& t : batch)
      if (!t.sends) t.tensor.copy_(take(t.peer, t.tag));
    return nullptr;
  }

  void barrier() override {
    std::unique_lock lock(s_->mutex);
    meet(lock, all());
  }

  void abort(const std::string& why) override {
    const std::scoped_lock lock(s_->mutex);
    if (s_->failed) return;
    s_->failed = true;
    s_->failure = {rank_, why};
    s_->changed.notify_all();
  }

 private:
  void post(const Transfer& t) {
    at::Tensor copy = t.tensor.clone();
    const std::scoped_lock lock(s_->mutex);
    if (s_->failed) throw s_->failure;
    s_->mail[{rank_, t.peer, t.tag}] = std::move(copy);
    s_->changed.notify_all();
  }

  at::Tensor take(std::int64_t from, std::int32_t tag) {
    std::unique_lock lock(s_->mutex);
    const std::tuple<std::int64_t, std::int64_t, std::int32_t> key{from, rank_, tag};
    wait(
        lock, [&] { return s_->mail.contains(key); },
        [&] {
          return RankFailure{from, fmt::format("sent nothing in {} s", s_->timeout)};
        });
    return std::move(s_->mail.extract(key).mapped());
  }

  template <typename Work>
  void together(const at::Tensor& mine, const Group& group, Work work) {
    std::vector<at::Tensor> of;
    const auto place = static_cast<std::size_t>(group.place_of(rank_));
    {
      std::unique_lock lock(s_->mutex);
      meeting(group).tensors[place] = mine;
      meet(lock, group);
      of = meeting(group).tensors;
    }
    {
      const MemoryTracker::Scope outside(nullptr);  // scratch of sums is not the step's
      work(of);
    }
    of.clear();
    std::unique_lock lock(s_->mutex);
    meet(lock, group);
    meeting(group).tensors[place].reset();
  }

  Meeting& meeting(const Group& group) {
    Meeting& m = s_->meetings[group];
    m.tensors.resize(static_cast<std::size_t>(group.size));
    m.here.resize(static_cast<std::size_t>(group.size), false);
    return m;
  }

  void meet(std::unique_lock<std::mutex>& lock, const Group& group) {
    if (s_->failed) throw s_->failure;
    Meeting& m = meeting(group);
    const std::int64_t generation = m.generation;
    m.here[static_cast<std::size_t>(group.place_of(rank_))] = true;
    if (++m.waiting == group.size) {
      m.waiting = 0;
      m.here.assign(m.here.size(), false);
      ++m.generation;
      s_->changed.notify_all();
      return;
    }
    wait(
        lock, [&] { return m.generation != generation; },
        [&] {
          RankFailure missing;
          for (std::int64_t place = 0; place < group.size; ++place)
            if (!m.here[static_cast<std::size_t>(place)])
              missing = {group.member(place),
                         fmt::format("did not reach the collective in {} s", s_->timeout)};
          return missing;
        });
  }

  /// Until `done`, or a rank has failed; `late` says which has, once the time is over.
  template <typename Done, typename Late>
  void wait(std::unique_lock<std::mutex>& lock, Done done, Late late) {
    const bool over = !s_->changed.wait_for(lock, std::chrono::duration<double>(s_->timeout),
                                            [&] { return done() || s_->failed; });
    if (done()) return;
    if (over && !s_->failed) {
      s_->failed = true;
      s_->failure = late();
      s_->changed.notify_all();
    }
    throw s_->failure;
  }

  std::shared_ptr<Shared> s_;
  std::int64_t rank_, world_;
};

}  // namespace

std::vector<std::unique_ptr<Collectives>> make_local(std::int64_t world, double timeout_seconds) {
  auto shared = std::make_shared<Shared>();
  shared->timeout = timeout_seconds;
  std::vector<std::unique_ptr<Collectives>> ranks;
  for (std::int64_t r = 0; r < world; ++r)
    ranks.push_back(std::make_unique<Local>(shared, r, world));
  return ranks;
}

}  // namespace ac_advisor::trainer
