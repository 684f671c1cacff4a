// Grades by data/evidence.json: which features were together in a step that real PyTorch ran.
#include "ac_advisor/evidence/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "embedded/embedded.hpp"

namespace ac_advisor::evidence {
namespace {

constexpr std::size_t most_unseen = 8;

/// "12 0 5 9": text, as a list of numbers for each of thousands takes longer to read than to plan.
std::vector<std::size_t> numbers_of(const std::string& text) {
  std::vector<std::size_t> all;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end; ++at)
    at = std::from_chars(at, end, all.emplace_back(0)).ptr;
  return all;
}

/// Sets of features that steps had: one bit a set.
using Steps = std::vector<std::uint64_t>;

class Compared {
 public:
  Compared() {
    for (const embedded::File& file : embedded::files())
      if (file.path == "evidence.json") read(nlohmann::json::parse(file.text));
  }

  [[nodiscard]] bool knows(const std::string& family) const { return families_.contains(family); }
  [[nodiscard]] double expected(Grade grade) const {
    return expected_[static_cast<std::size_t>(grade)];
  }
  /// The sets that have the feature; null: none has.
  [[nodiscard]] const Steps* having(const std::string& feature) const {
    const auto found = having_.find(feature);
    return found == having_.end() ? nullptr : &found->second;
  }
  /// Steps whose set is in all of `which`.
  [[nodiscard]] std::int64_t steps_in(std::initializer_list<const Steps*> which) const {
    std::int64_t steps = 0;
    for (std::size_t word = 0; word < words_; ++word) {
      std::uint64_t bits = ~std::uint64_t{0};
      for (const Steps* one : which) bits &= (*one)[word];
      for (; bits != 0; bits &= bits - 1)
        steps += count_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
    }
    return steps;
  }

 private:
  void read(const nlohmann::json& file) {
    for (const Grade grade : {Grade::verified, Grade::composed, Grade::extrapolated})
      expected_[static_cast<std::size_t>(grade)] =
          file.at("expected_error_percent").at(to_string(grade));
    for (const auto& family : file.at("families")) families_.insert(family);
    const auto names = file.at("features").get<std::vector<std::string>>();
    const auto& sets = file.at("steps");
    words_ = (sets.size() + 63) / 64;
    count_.resize(words_ * 64);
    std::vector<Steps*> of_feature;
    for (const std::string& name : names)
      of_feature.push_back(&having_.emplace(name, Steps(words_)).first->second);
    for (std::size_t set = 0; set < sets.size(); ++set) {
      std::vector<std::size_t> numbers = numbers_of(sets[set].get_ref<const std::string&>());
      count_[set] = static_cast<std::int64_t>(numbers.at(0));
      for (std::size_t i = 1; i < numbers.size(); ++i)
        (*of_feature.at(numbers[i]))[set / 64] |= std::uint64_t{1} << (set % 64);
    }
  }

  std::size_t words_ = 0;
  std::vector<std::int64_t> count_;
  std::map<std::string, Steps, std::less<>> having_;
  std::set<std::string, std::less<>> families_;
  std::array<double, 3> expected_{};
};

const Compared& compared() {
  static const Compared all;
  return all;
}

std::string joined(std::initializer_list<std::string> features) {
  std::string text;
  for (const std::string& feature : features) text += (text.empty() ? "" : " × ") + feature;
  return text;
}

class Grading {
 public:
  Grading(const model::ModelSpec& spec, std::vector<std::string> features)
      : features_(std::move(features)) {
    result_.grade = Grade::verified;
    result_.steps = std::numeric_limits<std::int64_t>::max();
    if (!spec.graph && !compared().knows(spec.family))
      never("model type " + spec.family, Grade::extrapolated);
    for (std::string& feature : features_) {
      const Steps* steps = compared().having(feature);
      if (steps == nullptr)
        never(feature, Grade::extrapolated);
      else
        known_.push_back({&feature, steps});
    }
    grade_pairs();
    if (result_.grade == Grade::verified) grade_triples();
    if (!known_.empty() && known_.size() < 3 && result_.grade == Grade::verified) count_all();
    if (result_.steps == std::numeric_limits<std::int64_t>::max()) result_.steps = 0;
    result_.expected_error_percent = compared().expected(result_.grade);
  }
  [[nodiscard]] Evidence result() && { return std::move(result_); }

 private:
  struct Known {
    const std::string* name;
    const Steps* steps;
  };

  void never(std::string what, Grade grade) {
    result_.grade = std::max(result_.grade, grade);
    if (result_.unseen.size() < most_unseen) result_.unseen.push_back(std::move(what));
  }
  void fewest(std::int64_t steps) { result_.steps = std::min(result_.steps, steps); }

  void grade_pairs() {
    for (std::size_t i = 0; i < known_.size(); ++i)
      for (std::size_t j = i + 1; j < known_.size(); ++j) {
        const std::int64_t steps = compared().steps_in({known_[i].steps, known_[j].steps});
        if (steps == 0) never(joined({*known_[i].name, *known_[j].name}), Grade::extrapolated);
        fewest(steps);
      }
  }
  void grade_triples() {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < known_.size(); ++i)
      for (std::size_t j = i + 1; j < known_.size(); ++j)
        for (std::size_t k = j + 1; k < known_.size(); ++k) {
          const Steps *a = known_[i].steps, *b = known_[j].steps, *c = known_[k].steps;
          const std::int64_t steps = compared().steps_in({a, b, c});
          least = std::min(least, steps);
          if (steps > 0) continue;
          if (result_.unseen.empty())
            result_.pair_steps = {compared().steps_in({a, b}), compared().steps_in({a, c}),
                                  compared().steps_in({b, c})};
          never(joined({*known_[i].name, *known_[j].name, *known_[k].name}), Grade::composed);
        }
    if (result_.grade == Grade::verified) fewest(least);
  }
  void count_all() {
    for (const Known& one : known_) fewest(compared().steps_in({one.steps}));
  }

  std::vector<std::string> features_;
  std::vector<Known> known_;
  Evidence result_;
};

}  // namespace

const char* to_string(Grade grade) { return grade_names[static_cast<std::size_t>(grade)]; }

Evidence evidence_of(const model::ModelSpec& spec, const StepConfig& config) {
  return Grading(spec, features(spec, config)).result();
}

void never_compared(Evidence& evidence, const std::string& what) {
  evidence.grade = Grade::extrapolated;
  evidence.steps = 0;
  evidence.unseen.insert(evidence.unseen.begin(), what);
  if (evidence.unseen.size() > most_unseen) evidence.unseen.pop_back();
  evidence.pair_steps.clear();
  evidence.expected_error_percent = compared().expected(Grade::extrapolated);
}

std::string sentence(const Evidence& e) {
  const std::string error = fmt::format("± {:.2g} %", e.expected_error_percent);
  const std::string more =
      e.unseen.size() < 2
          ? ""
          : fmt::format(" (and {}{} more)", e.unseen.size() == most_unseen ? "at least " : "",
                        e.unseen.size() - 1);
  if (e.grade == Grade::verified)
    return fmt::format(
        "verified; every three of its features are in {} or more of PyTorch's own "
        "steps: {}",
        e.steps, error);
  if (e.grade == Grade::extrapolated)
    return fmt::format("extrapolated; {}{} was never compared: {}", e.unseen.front(), more, error);
  return fmt::format("composed; {}{} was not compared, each pair was ({} steps): {}",
                     e.unseen.front(), more, fmt::join(e.pair_steps, ", "), error);
}

}  // namespace ac_advisor::evidence
