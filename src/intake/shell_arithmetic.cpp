// GNU Bash manual, 6.5 Shell Arithmetic: + - * / % ** and parentheses, of decimal integers and
// names.
#include <charconv>
#include <limits>

#include "shell.hpp"

namespace ac_advisor::intake {
namespace {

using Number = std::optional<std::int64_t>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return c == '_' || is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

Number times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return {};
  return product;
}

Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 62) return {};
  Number result = 1;
  for (std::int64_t i = 0; i < exponent && result; ++i) result = times(*result, base);
  return result;
}

struct Operator {
  std::string_view sign;
  int precedence;
};
constexpr Operator operators[] = {{"**", 3}, {"*", 2}, {"/", 2}, {"%", 2}, {"+", 1}, {"-", 1}};

Number result_of(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (sign == "+" && !__builtin_add_overflow(a, b, &sum)) return sum;
  if (sign == "-" && !__builtin_sub_overflow(a, b, &sum)) return sum;
  if (sign == "*") return times(a, b);
  if (sign == "**") return power(a, b);
  const bool divides = b != 0 && !(a == std::numeric_limits<std::int64_t>::min() && b == -1);
  if (sign == "/" && divides) return a / b;
  if (sign == "%" && divides) return a % b;
  return {};
}

class Expression {
 public:
  using Value = std::function<Number(std::string_view)>;
  Expression(std::string_view text, const Value& value) : text_(text), value_(value) {}

  Number whole() {
    const Number result = sum(1);
    skip();
    return at_ == text_.size() ? result : Number();
  }

 private:
  void skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }

  [[nodiscard]] const Operator* next() {
    skip();
    for (const Operator& o : operators)
      if (text_.substr(at_).starts_with(o.sign)) return &o;
    return nullptr;
  }

  /// Operators from `least` precedence on; ** alone is right-associative.
  Number sum(int least) {
    constexpr int most_depth = 64;
    if (depth_ >= most_depth) return {};
    ++depth_;
    Number left = operand();
    for (const Operator* o = next(); left && o != nullptr && o->precedence >= least; o = next()) {
      at_ += o->sign.size();
      const Number right = sum(o->sign == "**" ? o->precedence : o->precedence + 1);
      left = right ? result_of(o->sign, *left, *right) : Number();
    }
    --depth_;
    return left;
  }

  Number operand() {
    bool negative = false;
    for (skip(); at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+'); skip())
      negative ^= text_[at_++] == '-';
    Number result;
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      result = sum(1);
      skip();
      if (at_ >= text_.size() || text_[at_] != ')') return {};
      ++at_;
    } else {
      result = term();
    }
    return result && negative ? times(*result, -1) : result;
  }

  Number term() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return {};
    if (!is_digit(word[0])) return value_(word);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool octal = word.size() > 1 && word[0] == '0';
    if (error != std::errc{} || end != word.data() + word.size() || octal) return {};
    return number;
  }

  std::string_view text_;
  const Value& value_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(std::string_view)>& value) {
  return Expression(text, value).whole();
}

}  // namespace ac_advisor::intake
