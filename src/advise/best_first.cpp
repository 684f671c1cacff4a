#include "best_first.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "ac_advisor/simulate/device.hpp"
#include "held_at_least.hpp"
#include "largest_fit.hpp"
#include "least_costs.hpp"
#include "lighter.hpp"
#include "parallel.hpp"
#include "plan_rank.hpp"

namespace ac_advisor::advise {
namespace {

/// Simulated at once: the same on any number of threads, so that the rows are.
constexpr std::size_t at_once = 16;

class BestFirst {
 public:
  BestFirst(const model::ModelSpec& model, const std::vector<StepConfig>& list,
            const std::vector<Row>& rows, unsigned threads)
      : list_(list),
        rows_(rows),
        group_(comparable_groups(list)),
        groups_(group_.empty() ? 0 : 1 + *std::max_element(group_.begin(), group_.end())),
        state_(list.size(), State::waits),
        most_tokens_(list.size(), std::numeric_limits<double>::infinity()) {
    const ReferenceSteps references(model, list);
    parallel(list.size(), threads, [&](std::size_t i) {
      const StepConfig& c = list[i];
      if (held_at_least(model, c, &references) > simulate::find_device(c.device.gpu).usable_bytes)
        state_[i] = State::left_out;
      else if (const double least = seconds_at_least(model, c, references); least > 0)
        most_tokens_[i] = tokens_of_step(c) / least;
    });
    for (std::size_t i = 0; i < list.size(); ++i) {
      const StepConfig& c = list[i];
      if (state_[i] == State::left_out) {
        ++found_.too_large;
        continue;
      }
      std::optional<std::size_t>& lightest = group_of(i).lightest;
      if (!lightest || lighter_in_group(c, list[*lightest])) lightest = i;
      order_.push_back(i);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return most_tokens_[a] > most_tokens_[b];
    });
    for (const std::size_t i : order_) group_of(i).members.push_back(i);
  }

  Searched run(const std::function<void(const std::vector<std::size_t>&)>& simulate) {
    for (std::vector<std::size_t> next = choose(); !next.empty(); next = choose()) {
      simulate(next);
      for (const std::size_t i : next) learn(i);
    }
    return std::move(found_);
  }

 private:
  enum class State : std::uint8_t { waits, chosen, simulated, left_out };
  /// Configurations that lighter_in_group compares.
  struct Group {
    std::optional<std::size_t> lightest;
    std::vector<std::size_t> members;               ///< the fastest first, by their bounds
    std::vector<std::size_t> allocates, too_heavy;  ///< simulated ones: the device has it, or not
    bool waits_for_one = false;                     ///< that is simulated now, and tells of others
  };
  [[nodiscard]] Group& group_of(std::size_t i) { return groups_[group_[i]]; }
  using Split = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  [[nodiscard]] Split split_of(std::size_t i) const {
    return {list_[i].layout.tp, list_[i].layout.cp, list_[i].layout.pp};
  }

  std::vector<std::size_t> choose() {
    std::vector<std::size_t> next;
    std::erase_if(order_, [&](std::size_t i) { return state_[i] != State::waits; });
    for (const std::size_t i : order_) {
      if (next.size() == at_once) break;
      if (state_[i] != State::waits) continue;
      if (leave_out(i)) continue;
      if (const std::optional<std::size_t> chosen = in_place_of(i)) {
        state_[*chosen] = State::chosen;
        group_of(i).waits_for_one = true;
        next.push_back(*chosen);
      }
    }
    return next;
  }

  /// What is simulated where `i` is wanted: it, or one that tells whether it is worth that.
  std::optional<std::size_t> in_place_of(std::size_t i) {
    const Group& group = group_of(i);
    if (group.waits_for_one) return std::nullopt;
    // What the lightest allocates may be too much, and then nobody of the group is simulated.
    const std::size_t first = *group.lightest;
    if (state_[first] == State::waits && lighter_in_group(list_[first], list_[i])) return first;
    // Where others of the group allocate too much, `i` is likely to: of those that are lighter, and
    // of which nothing is known, the one in the middle rules out half of them.
    if (group.too_heavy.empty()) return i;
    std::vector<std::size_t> lighter;
    for (const std::size_t j : group.members) {
      if (state_[j] != State::waits || !lighter_in_group(list_[j], list_[i])) continue;
      const bool known =
          std::any_of(group.allocates.begin(), group.allocates.end(),
                      [&](std::size_t k) { return lighter_in_group(list_[j], list_[k]); });
      if (!known) lighter.push_back(j);
    }
    return lighter.empty() ? i : lighter[lighter.size() / 2];
  }

  bool leave_out(std::size_t i) {
    const std::vector<std::size_t>& heavy = group_of(i).too_heavy;
    const bool heavier = std::any_of(heavy.begin(), heavy.end(), [&](std::size_t j) {
      return lighter_in_group(list_[j], list_[i]);
    });
    const auto of_layout = best_.find(split_of(i));
    const bool slower = fastest_.size() == exact_rows && most_tokens_[i] < fastest_.back() &&
                        of_layout != best_.end() && most_tokens_[i] < of_layout->second;
    if (!heavier && !slower) return false;
    ++(heavier ? found_.too_heavy : found_.too_slow);
    state_[i] = State::left_out;
    return true;
  }

  void learn(std::size_t i) {
    const Row& row = rows_[i];
    state_[i] = State::simulated;
    found_.simulated.push_back(i);
    Group& group = group_of(i);
    group.waits_for_one = false;
    (tried(row.profile).allocates ? group.allocates : group.too_heavy).push_back(i);
    if (!row.fits || !row.unavailable.empty()) return;
    const double rate = row.profile.time.tokens_per_second;
    double& best = best_[split_of(i)];
    best = std::max(best, rate);
    fastest_.insert(std::upper_bound(fastest_.begin(), fastest_.end(), rate, std::greater<>()),
                    rate);
    if (fastest_.size() > exact_rows) fastest_.pop_back();
  }

  const std::vector<StepConfig>& list_;
  const std::vector<Row>& rows_;
  std::vector<std::size_t> group_;  ///< by configuration
  std::vector<Group> groups_;
  std::vector<State> state_;
  std::vector<double> most_tokens_;  ///< a second, at least_seconds
  std::vector<std::size_t> order_;   ///< by that, of those that wait
  std::map<Split, double> best_;     ///< tokens a second, that fit
  std::vector<double> fastest_;      ///< the same of all, descending
  Searched found_;
};

}  // namespace

Searched search_best_first(const model::ModelSpec& model, const std::vector<StepConfig>& list,
                           const std::vector<Row>& rows, unsigned threads,
                           const std::function<void(const std::vector<std::size_t>&)>& simulate) {
  return BestFirst(model, list, rows, threads).run(simulate);
}

}  // namespace ac_advisor::advise
