#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/read.hpp"
#include "ac_advisor/trace/summary.hpp"

namespace ac_advisor::trace {
namespace {

/// (most - least) / mean.
template <typename Of>
double skew(const std::vector<RankSummary>& ranks, const Of& of) {
  double least = of(ranks.front()), most = least, sum = 0;
  for (const RankSummary& rank : ranks) {
    least = std::min(least, of(rank));
    most = std::max(most, of(rank));
    sum += of(rank);
  }
  return sum > 0 ? (most - least) * static_cast<double>(ranks.size()) / sum : 0;
}

double compute(const RankSummary& rank) { return rank.step.compute_seconds(); }

}  // namespace

std::optional<std::int64_t> rank_in_name(const std::string& file) {
  std::string name = std::filesystem::path(file).filename().string();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view word : {"rank", "worker", "local"})
    for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
      std::size_t digit = at + word.size();
      while (digit < name.size() &&
             (name[digit] == '_' || name[digit] == '-' || name[digit] == '=' ||
              name[digit] == '.' || name[digit] == '['))
        ++digit;
      std::int64_t rank = 0;
      const auto [end, error] =
          std::from_chars(name.data() + digit, name.data() + name.size(), rank);
      if (error == std::errc() && end != name.data() + digit && rank >= 0) return rank;
    }
  return std::nullopt;
}

std::vector<Summary> summaries_of(const std::vector<std::string>& files,
                                  std::vector<std::string>& left_out) {
  std::vector<Summary> summaries;
  for (const std::string& file : files) {
    try {
      summaries.push_back(summary_of(read_trace(file)));
    } catch (const UserError& error) {
      left_out.push_back(std::string("left out: ") + error.what());
    }
  }
  if (summaries.empty()) throw UserError(left_out.front().substr(std::string("left out: ").size()));
  return summaries;
}

Ranks ranks_of(const std::vector<Summary>& summaries) {
  Ranks ranks;
  for (const Summary& s : summaries) {
    const auto rank = s.rank ? s.rank : rank_in_name(s.origin);
    ranks.ranks.push_back({s.origin, rank, s.step ? s.step_count : 0, s.shown()});
  }
  std::stable_sort(ranks.ranks.begin(), ranks.ranks.end(),
                   [](const RankSummary& a, const RankSummary& b) {
                     constexpr std::int64_t last = std::int64_t{1} << 62;
                     return a.rank.value_or(last) < b.rank.value_or(last);
                   });
  ranks.step_skew = skew(ranks.ranks, [](const RankSummary& r) { return r.step.seconds(); });
  ranks.compute_skew = skew(ranks.ranks, compute);
  const auto slowest = std::max_element(
      ranks.ranks.begin(), ranks.ranks.end(),
      [](const RankSummary& a, const RankSummary& b) { return compute(a) < compute(b); });
  ranks.slowest = static_cast<std::size_t>(slowest - ranks.ranks.begin());
  for (std::size_t i = 1; i < ranks.ranks.size(); ++i)
    if (ranks.ranks[i].rank && ranks.ranks[i].rank == ranks.ranks[i - 1].rank)
      ranks.notes.push_back("rank " + std::to_string(*ranks.ranks[i].rank) + " is there twice: " +
                            ranks.ranks[i - 1].origin + " and " + ranks.ranks[i].origin);
  const auto& counts = ranks.ranks;
  if (std::any_of(counts.begin(), counts.end(),
                  [&](const RankSummary& r) { return (r.steps > 0) != (counts[0].steps > 0); }))
    ranks.notes.push_back(
        "some ranks tell their steps and some do not: their figures are not of the same thing");
  const auto world = std::find_if(summaries.begin(), summaries.end(),
                                  [](const Summary& s) { return s.world.has_value(); });
  if (world != summaries.end() && *world->world > static_cast<std::int64_t>(summaries.size()))
    ranks.notes.push_back("the run had " + std::to_string(*world->world) + " ranks; " +
                          std::to_string(summaries.size()) + " are here");
  return ranks;
}

}  // namespace ac_advisor::trace
