#include "trainer/delayed_collectives.hpp"

#include <chrono>
#include <condition_variable>
#include <limits>
#include <optional>
#include <thread>

#include "trainer/memory_tracker.hpp"

namespace ac_advisor::test {
namespace {

using trainer::Collectives;
using trainer::Combine;
using trainer::Group;
using trainer::MemoryTracker;
using trainer::Pending;

/// A tensor's place, without keeping its memory alive.
class Place {
 public:
  explicit Place(const at::Tensor& tensor)
      : storage_(tensor.storage().getWeakStorageImpl()),
        options_(tensor.options()),
        sizes_(tensor.sizes().vec()),
        strides_(tensor.strides().vec()),
        offset_(tensor.storage_offset()) {}
  /// Undefined where the memory was freed.
  [[nodiscard]] at::Tensor tensor() const {
    const auto alive = storage_.lock();
    if (!alive) return {};
    return at::empty({0}, options_).set_(c10::Storage(alive), offset_, sizes_, strides_);
  }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  at::TensorOptions options_;
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_;
};

class Delayed final : public Pending {
 public:
  /// `read`: what the collective reads and does not write; `result` is put into `written` in the
  /// end.
  Delayed(DelayedLog& log, std::string name, const at::Tensor& read, const at::Tensor& written,
          at::Tensor result)
      : log_(log),
        name_(std::move(name)),
        read_(read.defined() ? std::optional<Place>(read) : std::nullopt),
        as_read_(read.defined() ? read.clone() : at::Tensor()),
        written_(written),
        result_(std::move(result)) {
    at::Tensor(written).fill_(std::numeric_limits<double>::quiet_NaN());
    {
      const std::scoped_lock lock(log_.mutex);
      ++log_.begun;
      log_.most_under_way = std::max(log_.most_under_way, ++log_.under_way);
    }
    device_ = std::thread([this] { run(); });
  }
  ~Delayed() override {
    if (!asked_) log_.fault(name_ + " was never waited for");
    finish();
    device_.join();
    const std::scoped_lock lock(log_.mutex);
    --log_.under_way;
  }
  void wait() override { finish(); }

 private:
  void finish() {
    std::unique_lock lock(mutex_);
    asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return ended_; });
  }

  void run() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return asked_; });
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    const MemoryTracker::Scope outside(nullptr);
    if (read_) {
      const at::Tensor now = read_->tensor();
      if (!now.defined())
        log_.fault(name_ + ": its input was freed while it ran");
      else if (!at::equal(now, as_read_))
        log_.fault(name_ + ": its input was written while it ran");
    }
    if (const at::Tensor now = written_.tensor(); !now.defined())
      log_.fault(name_ + ": its result was freed while it ran");
    else if (!at::isnan(now).all().item<bool>())
      log_.fault(name_ + ": its result was written while it ran");
    else
      at::Tensor(now).copy_(result_);
    ended_ = true;
    changed_.notify_all();
  }

  DelayedLog& log_;
  std::string name_;
  std::optional<Place> read_;
  at::Tensor as_read_;
  Place written_;
  at::Tensor result_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false, ended_ = false;
  std::thread device_;
};

class DelayedCollectives final : public Collectives {
 public:
  DelayedCollectives(std::unique_ptr<Collectives> inner, DelayedLog& log)
      : inner_(std::move(inner)), log_(log) {}
  [[nodiscard]] std::int64_t rank() const override { return inner_->rank(); }
  [[nodiscard]] std::int64_t world() const override { return inner_->world(); }

  std::unique_ptr<Pending> all_gather(at::Tensor buffer, const Group& group) override {
    const MemoryTracker::Scope outside(nullptr);
    const at::Tensor result = buffer.clone();
    complete(inner_->all_gather(result, group));
    return std::make_unique<Delayed>(log_, "all_gather", at::Tensor(), buffer, result);
  }
  std::unique_ptr<Pending> reduce_scatter(const at::Tensor& input, at::Tensor output,
                                          const Group& group, Combine how) override {
    const MemoryTracker::Scope outside(nullptr);
    const at::Tensor result = at::empty_like(output);
    complete(inner_->reduce_scatter(input, result, group, how));
    return std::make_unique<Delayed>(log_, "reduce_scatter", input, output, result);
  }
  std::unique_ptr<Pending> all_reduce(at::Tensor buffer, const Group& group, Combine how) override {
    const MemoryTracker::Scope outside(nullptr);
    const at::Tensor result = buffer.clone();
    complete(inner_->all_reduce(result, group, how));
    return std::make_unique<Delayed>(log_, "all_reduce", at::Tensor(), buffer, result);
  }
  std::unique_ptr<Pending> all_to_all(const at::Tensor& input, at::Tensor output,
                                      const Group& group) override {
    const MemoryTracker::Scope outside(nullptr);
    const at::Tensor result = at::empty_like(output);
    complete(inner_->all_to_all(input, result, group));
    return std::make_unique<Delayed>(log_, "all_to_all", input, output, result);
  }
  /// A message that is awaited at once: its counterpart waits for it.
  std::unique_ptr<Pending> exchange(const std::vector<trainer::Transfer>& batch) override {
    complete(inner_->exchange(batch));
    return nullptr;
  }
  void barrier() override { inner_->barrier(); }
  void abort(const std::string& why) override { inner_->abort(why); }

 private:
  std::unique_ptr<Collectives> inner_;
  DelayedLog& log_;
};

}  // namespace

void DelayedLog::fault(const std::string& what) {
  const std::scoped_lock lock(mutex);
  faults.push_back(what);
}

std::unique_ptr<Collectives> make_delayed(std::unique_ptr<Collectives> inner, DelayedLog& log) {
  return std::make_unique<DelayedCollectives>(std::move(inner), log);
}

}  // namespace ac_advisor::test
