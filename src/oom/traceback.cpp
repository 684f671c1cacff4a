#include "traceback.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ac_advisor::oom {
namespace {

constexpr std::size_t most_frames = 400, most_processes = 4096;

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::optional<std::int64_t> whole(std::string_view s) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (error != std::errc() || end != s.data() + s.size() || s.empty()) return std::nullopt;
  return n;
}

/// `File "modeling_llama.py", line 837, in forward`
std::optional<Frame> python_frame(std::string_view s) {
  constexpr std::string_view opening = "File \"", line_word = "\", line ", in_word = ", in ";
  if (!s.starts_with(opening)) return std::nullopt;
  const std::size_t quote = s.find(line_word), in = s.find(in_word, quote);
  if (quote == std::string_view::npos || in == std::string_view::npos) return std::nullopt;
  const auto line = whole(s.substr(quote + line_word.size(), in - quote - line_word.size()));
  if (!line) return std::nullopt;
  return Frame{std::string(s.substr(opening.size(), quote - opening.size())),
               std::string(trimmed(s.substr(in + in_word.size()))), "", *line};
}

/// pytest's `trainer.py:1412: in train` and rich's `/a/adamw.py:566 in _multi_tensor_adamw`
std::optional<Frame> short_frame(std::string_view s) {
  const std::size_t in = s.find(" in ");
  if (in == std::string_view::npos || s.size() > 400) return std::nullopt;
  std::string_view place = trimmed(s.substr(0, in));
  if (place.ends_with(':')) place.remove_suffix(1);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || !place.substr(0, colon).ends_with(".py"))
    return std::nullopt;
  const auto line = whole(place.substr(colon + 1));
  if (!line) return std::nullopt;
  return Frame{std::string(place.substr(0, colon)), std::string(trimmed(s.substr(in + 4))), "",
               *line};
}

/// `^^^^`, `~~~~`
bool only_marks(std::string_view s) {
  return !s.empty() && s.find_first_not_of("^~ ") == std::string_view::npos;
}

}  // namespace

void Tracebacks::read(const Line& line) {
  if (open_.size() >= most_processes && !open_.contains(line.speaker)) return;
  Open& open = open_[line.speaker];
  const std::string_view text = trimmed(line.text);
  if (text.find("Traceback (most recent call last)") != std::string_view::npos) {
    open = {};
    return;
  }
  std::optional<Frame> frame = python_frame(text);
  if (!frame) frame = short_frame(text);
  if (frame) {
    if (open.frames.size() == most_frames) open.frames.erase(open.frames.begin());
    open.frames.push_back(std::move(*frame));
    open.wants_source = true;
  } else if (open.wants_source && !text.empty() && !only_marks(text)) {
    open.frames.back().source = text;
    open.wants_source = false;
  }
}

std::vector<Frame> Tracebacks::take(const Line& line) {
  const auto found = open_.find(line.speaker);
  if (found == open_.end()) return {};
  std::vector<Frame> frames = std::move(found->second.frames);
  open_.erase(found);
  return frames;
}

}  // namespace ac_advisor::oom
