// What stands before a line of a log: ranks, actors, hosts and containers, which tell lines of
// several processes apart, and times, levels and source places of loggers, which do not.
#include "prefixes.hpp"

#include <algorithm>
#include <charconv>

namespace ac_advisor::oom {
namespace {

constexpr std::size_t npos = std::string_view::npos;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::size_t skip_spaces(std::string_view s, std::size_t at) {
  while (at < s.size() && s[at] == ' ') ++at;
  return at;
}

std::size_t skip_digits(std::string_view s, std::size_t at) {
  while (at < s.size() && is_digit(s[at])) ++at;
  return at;
}

std::int64_t number_at(std::string_view s, std::size_t at) {
  std::int64_t n = -1;
  std::from_chars(s.data() + at, s.data() + s.size(), n);
  return n;
}

std::string_view word_at(std::string_view s, std::size_t at) {
  const std::size_t end = s.find(' ', at);
  return s.substr(at, end == npos ? npos : end - at);
}

// Each returns where its prefix ends, `at` where it is not one.

/// "[rank3]:", "[default3]:" and mpirun's "[1,3]<stderr>:"
std::size_t after_rank(std::string_view s, std::size_t at, std::int64_t& rank) {
  for (const std::string_view word : {"[rank", "[default", "[1,"}) {
    if (!s.substr(at).starts_with(word)) continue;
    const std::size_t begin = at + word.size();
    std::size_t end = skip_digits(s, begin);
    if (end == begin) continue;
    const std::string_view rest = s.substr(end);
    for (const std::string_view close : {"]:", "]<stderr>:", "]<stdout>:"})
      if (rest.starts_with(close)) {
        rank = number_at(s, begin);
        return end + close.size();
      }
  }
  return at;
}

/// Ray's "(WorkerDict pid=123, ip=10.0.0.1)", vLLM's "(VllmWorker rank=0 pid=123)"
std::size_t after_actor(std::string_view s, std::size_t at, std::int64_t& rank) {
  if (s[at] != '(') return at;
  const std::size_t end = s.find(')', at);
  if (end == npos || end - at > 160) return at;
  const std::string_view actor = s.substr(at, end - at);
  if (actor.find("pid=") == npos) return at;
  if (const std::size_t r = actor.find("rank="); r != npos) rank = number_at(actor, r + 5);
  return end + 1;
}

/// srun's "12: ", docker's "trainer-1  | ", and "gpu-q-13: " of pdsh and DeepSpeed's launcher: a
/// name with a digit, or before a rank, that stands first.
std::size_t after_host(std::string_view s, std::size_t at, std::int64_t& rank) {
  if (at != 0) return at;
  std::size_t end = at;
  bool digit = false;
  for (; end < s.size() && end - at < 64; ++end) {
    if (!is_letter(s[end]) && !is_digit(s[end]) && std::string_view("-._").find(s[end]) == npos)
      break;
    digit = digit || is_digit(s[end]);
  }
  if (end == at) return at;
  if ((digit && s.substr(end).starts_with(": ")) || s.substr(end).starts_with(": [rank")) {
    if (skip_digits(s, at) == end) rank = number_at(s, at);
    return end + 1;
  }
  const std::size_t bar = skip_spaces(s, end);
  return bar > end && s.substr(bar).starts_with("| ") ? bar + 1 : at;
}

/// "2025-11-19T20:16:36.096Z", "05-10 16:00:15", "[2024-10-28 17:59:21,789]", "Aug 04 00:35:11.716"
std::size_t after_time(std::string_view s, std::size_t at) {
  constexpr std::string_view months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
  const bool bracket = s[at] == '[';
  std::size_t end = at + (bracket ? 1 : 0);
  if (const std::string_view month = s.substr(end, 3);
      month.size() == 3 && is_letter(month[0]) && months.find(month) != npos) {
    const std::size_t day = skip_spaces(s, end + 3);
    const std::size_t time = skip_spaces(s, skip_digits(s, day));
    if (day > end + 3 && time > day) end = time;
  }
  std::size_t colons = 0, dashes = 0, digits = 0, first = end;
  for (bool more = true; more;) {
    for (; end < s.size(); ++end) {
      const char c = s[end];
      colons += c == ':' ? 1 : 0;
      dashes += c == '-' || c == '/' ? 1 : 0;
      digits += is_digit(c) ? 1 : 0;
      if (!is_digit(c) && (digits == 0 || std::string_view(":-/.,+TZ").find(c) == npos)) break;
    }
    // A date, and its time after a space.
    more = colons == 0 && dashes > 0 && end + 1 < s.size() && s[end] == ' ' && is_digit(s[end + 1]);
    if (more) ++end;
  }
  if (colons < 2 || digits < 6 || end == first) return at;
  if (!bracket) return end;
  return end < s.size() && s[end] == ']' ? end + 1 : at;
}

/// "ERROR", "[INFO]", "WARNING:", glog's "E1126" before a time
std::size_t after_level(std::string_view s, std::size_t at) {
  const bool bracket = s[at] == '[';
  std::size_t end = at + (bracket ? 1 : 0);
  for (const std::string_view level :
       {"TRACE", "DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"})
    if (s.substr(end).starts_with(level)) {
      end += level.size();
      if (bracket) return end < s.size() && s[end] == ']' ? end + 1 : at;
      if (end < s.size() && s[end] == ':') ++end;
      return end == s.size() || s[end] == ' ' ? end : at;
    }
  const std::string_view word = word_at(s, at);
  const bool glog = word.size() == 5 && std::string_view("IWEF").find(word[0]) != npos &&
                    skip_digits(word, 1) == 5;
  return glog && after_time(s, skip_spaces(s, at + 5)) > skip_spaces(s, at + 5) ? at + 5 : at;
}

/// "[core.py:708]", "[resource.labels.containerName: vllm]", glog's "139 torch/launch.py:123]"; and
/// what separates such: "|", "-". Only after a time or a level.
std::size_t after_place(std::string_view s, std::size_t at) {
  if (s[at] == '[') {
    const std::size_t end = s.find(']', at);
    return end != npos && end - at < 100 ? end + 1 : at;
  }
  const std::string_view word = word_at(s, at);
  if (word == "|" || word == "-") return at + 1;
  if (word.ends_with(']') && word.find(".py:") != npos) return at + word.size();
  const std::size_t next = skip_spaces(s, skip_digits(s, at));
  return next > at && word_at(s, next).ends_with(']') && next < s.size() ? next : at;
}

/// pytest's "E   ", a quotation's "> ", and the frame that rich draws.
std::size_t after_marks(std::string_view s, std::size_t at, Line& line) {
  if (s.substr(at).starts_with("> ")) {
    line.quoted = true;
    return at + 2;
  }
  if (s.substr(at).starts_with("E   ")) return at + 4;
  for (const std::string_view box : {"│", "┃"})
    if (s.substr(at).starts_with(box)) {
      line.boxed = true;
      return at + box.size();
    }
  return at;
}

}  // namespace

std::size_t begin_of_text(std::string_view s, Line& line) {
  bool logged = false;
  for (std::size_t at = 0;;) {
    const std::size_t start = skip_spaces(s, at);
    if (start == s.size()) return at;
    std::size_t next = after_rank(s, start, line.rank);
    if (next == start) next = after_actor(s, start, line.rank);
    if (next == start) next = after_host(s, start, line.rank);
    if (next != start) {
      line.speaker += s.substr(start, next - start);
      at = next;
      continue;
    }
    next = after_time(s, start);
    if (next == start) next = after_level(s, start);
    logged = logged || next != start;
    if (next == start && logged) next = after_place(s, start);
    if (next == start) {
      next = after_marks(s, at, line);
      if (next == at) return at;
    }
    at = next;
  }
}

}  // namespace ac_advisor::oom
