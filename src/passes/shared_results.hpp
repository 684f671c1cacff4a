#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace ac_advisor::passes {

/// Results that configurations share: each is made by whoever asks first, and kept until as many
/// others as `most` were asked for since. Two threads that ask at once may both make it.
template <typename Result>
class SharedResults {
 public:
  explicit SharedResults(std::size_t most) : most_(most) {}

  /// `make()` where no result has this key, which says all that the result depends on.
  template <typename Make>
  std::shared_ptr<const Result> get(const std::string& key, const Make& make) {
    if (std::shared_ptr<const Result> found = find(key)) return found;
    auto made = std::make_shared<const Result>(make());
    const std::lock_guard lock(mutex_);
    return keep(key, std::move(made));
  }

 private:
  std::shared_ptr<const Result> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    if (const auto at = young_.find(key); at != young_.end()) return at->second;
    const auto at = old_.find(key);
    return at == old_.end() ? nullptr : keep(key, at->second);
  }
  std::shared_ptr<const Result> keep(const std::string& key, std::shared_ptr<const Result> result) {
    if (young_.size() >= most_) old_ = std::exchange(young_, {});
    return young_.try_emplace(key, std::move(result)).first->second;
  }

  std::size_t most_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Result>> young_, old_;
};

}  // namespace ac_advisor::passes
