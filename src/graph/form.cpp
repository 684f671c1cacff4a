#include "form.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace ac_advisor::graph {
namespace {

std::int64_t rounded(std::int64_t seq, const Form& form) {
  if (form.ceil > 1) return (seq + form.ceil - 1) / form.ceil * form.ceil;
  return seq / form.floor * form.floor;
}

/// `value` times `base` to the `power`; false where it does not fit.
bool multiply(std::int64_t& value, std::int64_t base, std::int64_t power) {
  for (std::int64_t i = 0; i < power; ++i)
    if (__builtin_mul_overflow(value, base, &value)) return false;
  return true;
}

std::optional<std::int64_t> of_terms(const Form& form, Size size) {
  const std::int64_t seq = rounded(size.seq, form);
  std::int64_t sum = 0;
  for (const Form::Term& term : form.terms) {
    std::int64_t value = term.coefficient;
    if (!multiply(value, size.batch, term.b) || !multiply(value, seq, term.s) ||
        __builtin_add_overflow(sum, value, &sum))
      return std::nullopt;
  }
  if (sum < 0) return std::nullopt;
  return sum / form.over + (sum % form.over > 0 ? 1 : 0);
}

/// Straight from the captured size of fewer tokens to that of more; before the first as there, and
/// beyond the last on along the last two.
std::optional<std::int64_t> between(const std::vector<Form::Point>& points, Size size,
                                    const Form& tokens) {
  std::vector<std::pair<double, double>> by_tokens;
  for (const Form::Point& point : points) {
    if (point.size == size) return point.value;
    const std::optional<std::int64_t> there = of_terms(tokens, point.size);
    if (!there) return std::nullopt;
    by_tokens.emplace_back(static_cast<double>(*there), static_cast<double>(point.value));
  }
  const std::optional<std::int64_t> own = of_terms(tokens, size);
  if (!own) return std::nullopt;
  const auto here = static_cast<double>(*own);
  std::sort(by_tokens.begin(), by_tokens.end());
  auto after = std::find_if(by_tokens.begin(), by_tokens.end(),
                            [&](const auto& point) { return point.first >= here; });
  if (after == by_tokens.end()) --after;
  double value = after->second;
  if (after != by_tokens.begin()) {
    const auto [left, from] = *(after - 1);
    const auto [right, to] = *after;
    if (right > left) value = from + (to - from) * (here - left) / (right - left);
  }
  constexpr double most = 9e18;
  if (!(value < most)) return std::nullopt;
  return std::max<std::int64_t>(0, std::llround(value));
}

/// As PyTorch decides it: aten/src/ATen/native/cuda/Reduce.cuh, v2.11, setReduceConfig. A thread
/// has 16 values, or up to 256 where the device is full.
std::optional<std::int64_t> of_reduction(const std::array<std::int64_t, 3>& reduction,
                                         std::int64_t tokens) {
  constexpr std::int64_t more_values = 16;
  const auto [unit, per, most] = reduction;
  const auto shared_by = [&](std::int64_t one) {
    return tokens / one + (tokens % one > 0 ? 1 : 0);
  };
  std::int64_t bytes = std::max(std::min(most, shared_by(per)), shared_by(more_values * per));
  if (__builtin_mul_overflow(bytes, unit, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

std::optional<std::int64_t> value_of(const Form& form, Size size, const Form& tokens) {
  if (!form.points.empty()) return between(form.points, size, tokens);
  if (!form.reduction) return of_terms(form, size);
  const std::optional<std::int64_t> all = of_terms(tokens, size);
  return all ? of_reduction(*form.reduction, *all) : std::nullopt;
}

std::optional<double> real_value_of(const Form& form, Size size, const Form& tokens) {
  if (form.terms.empty()) {
    const std::optional<std::int64_t> whole = value_of(form, size, tokens);
    return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
  }
  const auto batch = static_cast<double>(size.batch);
  const auto seq = static_cast<double>(rounded(size.seq, form));
  double sum = 0;
  for (const Form::Term& term : form.terms)
    sum += static_cast<double>(term.coefficient) * std::pow(batch, static_cast<double>(term.b)) *
           std::pow(seq, static_cast<double>(term.s));
  sum /= static_cast<double>(form.over);
  return sum >= 0 ? std::optional(sum) : std::nullopt;
}

}  // namespace ac_advisor::graph
