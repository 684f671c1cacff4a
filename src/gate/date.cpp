#include "ac_advisor/gate/date.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "ac_advisor/model/error.hpp"
#include "model/in_quotes.hpp"

namespace ac_advisor::gate {
namespace {

/// All of `text` as digits; -1 otherwise.
std::int64_t digits(std::string_view text) {
  std::int64_t n = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, n);
  const bool whole = error == std::errc{} && stop == end && text.front() != '-';
  return whole ? n : -1;
}

}  // namespace

Date parse_date(const std::string& text, const std::string& where) {
  const std::string_view view = text;
  if (view.size() == 10 && view[4] == '-' && view[7] == '-') {
    const std::int64_t year = digits(view.substr(0, 4)), month = digits(view.substr(5, 2)),
                       day = digits(view.substr(8, 2));
    if (year >= 0 && month >= 0 && day >= 0) {
      const Date date{std::chrono::year(static_cast<int>(year)),
                      std::chrono::month(static_cast<unsigned>(month)),
                      std::chrono::day(static_cast<unsigned>(day))};
      if (date.ok()) return date;
    }
  }
  throw UserError(fmt::format("{}: {} is not a date; write a day of the calendar as YYYY-MM-DD",
                              where, model::in_quotes(text)));
}

std::string to_string(Date date) {
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

Date today() {
  using namespace std::chrono;
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");
  if (epoch == nullptr || *epoch == '\0') return floor<days>(system_clock::now());
  constexpr std::int64_t most = 253402300799;  // 9999-12-31
  const std::int64_t seconds_since = digits(epoch);
  if (seconds_since < 0 || seconds_since > most)
    throw UserError("SOURCE_DATE_EPOCH " + model::in_quotes(epoch) +
                    ": must be seconds since 1970, up to the year 9999");
  return floor<days>(sys_seconds(seconds(seconds_since)));
}

}  // namespace ac_advisor::gate
