// The lists that Megatron-LM's arguments are written as: Python of digits, [ ], ( ), commas, + and
// * (core_v0.19.0, megatron/training/arguments.py, _eval_pattern).
#include <charconv>

#include "megatron_keys.hpp"

namespace ac_advisor::intake::megatron_keys {
namespace {

using Numbers = std::vector<std::int64_t>;

class Expression {
 public:
  explicit Expression(std::string_view text) : rest_(text) {}

  std::optional<Numbers> read() {
    std::optional<Value> all = sum(0);
    return all && rest_.empty() && !all->count ? std::optional(std::move(all->list)) : std::nullopt;
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 16;
  static constexpr int deepest = 32;

  /// A list, or how often one is repeated.
  struct Value {
    Numbers list;
    std::optional<std::int64_t> count;
  };

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<std::int64_t> number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{} || value < 0) return {};
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::optional<Value> atom(int depth) {
    if (depth > deepest) return {};
    if (take('(')) {
      std::optional<Value> within = sum(depth + 1);
      return within && take(')') ? std::move(within) : std::nullopt;
    }
    if (!take('[')) {
      const std::optional<std::int64_t> count = number();
      return count ? std::optional(Value{{}, count}) : std::nullopt;
    }
    Value all;
    while (!take(']')) {
      const std::optional<std::int64_t> one = number();
      if (!one || all.list.size() == most) return {};
      all.list.push_back(*one);
      if (!take(',') && (rest_.empty() || rest_.front() != ']')) return {};
    }
    return all;
  }

  std::optional<Value> product(int depth) {
    std::optional<Value> left = atom(depth);
    while (left && take('*')) {
      std::optional<Value> right = atom(depth);
      if (!right || left->count.has_value() == right->count.has_value()) return {};
      const Numbers& once = left->count ? right->list : left->list;
      const std::int64_t times = left->count ? *left->count : *right->count;
      if (times > static_cast<std::int64_t>(most) ||
          once.size() * static_cast<std::uint64_t>(times) > most)
        return {};
      Value all;
      for (std::int64_t i = 0; i < times; ++i)
        all.list.insert(all.list.end(), once.begin(), once.end());
      left = std::move(all);
    }
    return left;
  }

  std::optional<Value> sum(int depth) {
    std::optional<Value> left = product(depth);
    while (left && take('+')) {
      const std::optional<Value> right = product(depth);
      if (!right || left->count || right->count || left->list.size() + right->list.size() > most)
        return {};
      left->list.insert(left->list.end(), right->list.begin(), right->list.end());
    }
    return left;
  }

  std::string_view rest_;
};

}  // namespace

std::optional<Numbers> listed(std::string_view expression) { return Expression(expression).read(); }

}  // namespace ac_advisor::intake::megatron_keys
