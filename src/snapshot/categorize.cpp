#include "categorize.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "stack_marks.hpp"

namespace ac_advisor::snapshot {
namespace {

using profile::Category;

/// What `torch.profiler`'s memory profiler wrote into a snapshot made of its profile.
constexpr std::pair<std::string_view, Category> profiler_words[] = {
    {"parameter", Category::parameters},
    {"optimizer_state", Category::optimizer_states},
    {"gradient", Category::gradients},
    {"activation", Category::activations},
    {"input", Category::inputs},
    {"temporary", Category::temporaries},
    {"autograd_detail", Category::activations},
};

/// Those words, or this program's own (`plan --format snapshot`).
std::optional<Category> told_category(std::string_view word) {
  for (const auto& [text, category] : profiler_words)
    if (word == text) return category;
  for (std::size_t i = 0; i < profile::category_count; ++i)
    if (word == profile::to_string(static_cast<Category>(i))) return static_cast<Category>(i);
  return std::nullopt;
}

/// cuBLAS's workspace of a handle and stream (aten/src/ATen/cuda/CublasHandlePool.cpp,
/// parseChosenWorkspaceSize): ":4096:2:16:8", and 32 MiB on Hopper and later.
constexpr std::int64_t cublas_workspaces[] = {8'519'680, 33'554'432};

/// A parameter has at most two moments; of twice its size (fp32 beside bf16) also a master.
constexpr std::int64_t moments = 2;

class Judge {
 public:
  Judge(const Snapshot& snapshot, const History& history, const Steps& steps,
        const std::vector<std::uint16_t>& marks)
      : s_(snapshot), h_(history), t_(steps), marks_(marks) {
    for (const Step& step : t_.steps) begins_.push_back(step.begin);
    first_backward_ = h_.events;
    for (std::size_t i = 0; i < t_.phases.size(); ++i)
      if (t_.phases[i] == Phase::backward) {
        first_backward_ = static_cast<std::int64_t>(i);
        break;
      }
    find_workspaces();
    for (const Allocation& a : h_.allocations) {
      frees_have_stacks_ = frees_have_stacks_ || (marks_[a.free_stack] & in_python) != 0;
      if (persists(a)) ++kept_[a.requested];
    }
  }

  std::vector<Category> run() {
    std::vector<Category> result(h_.allocations.size(), Category::unknown);
    // Gradients first: their sizes are those of the parameters.
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = by_evidence(h_.allocations[i]);
    if (!t_.from_stacks) gradients_without_stacks(result);
    by_size(result);
    frozen_base(result);
    return result;
  }

 private:
  /// -1: before the first step.
  [[nodiscard]] std::int64_t step_of(std::int64_t event) const {
    if (event < 0) return -1;
    return std::upper_bound(begins_.begin(), begins_.end(), event) - begins_.begin() - 1;
  }
  [[nodiscard]] std::int64_t steps_lived(const Allocation& a) const {
    const auto steps = static_cast<std::int64_t>(begins_.size());
    return (a.freed >= h_.events ? steps : step_of(a.freed)) - step_of(a.born);
  }
  [[nodiscard]] bool persists(const Allocation& a) const { return steps_lived(a) >= 2; }
  [[nodiscard]] bool stays(const Allocation& a) const { return a.freed >= h_.events; }

  /// cuBLAS has one a stream for the thread of forward and one for that of backward, from the first
  /// product on: the first that stays of such a size. Weights may have that size too.
  void find_workspaces() {
    std::set<std::pair<std::int64_t, bool>> found;
    for (const Allocation& a : h_.allocations) {
      if (a.born < 0 || a.born >= h_.events || !is_cublas(a) || !(persists(a) || stays(a)))
        continue;
      const Phase phase = t_.phases[static_cast<std::size_t>(a.born)];
      if (phase == Phase::optimizer || (phase == Phase::setup && t_.from_stacks)) continue;
      const bool backward = phase == Phase::backward || phase == Phase::recompute;
      if (found.emplace(a.stream, backward).second) workspaces_.insert(&a);
    }
  }

  static bool is_cublas(const Allocation& a) {
    return std::find(std::begin(cublas_workspaces), std::end(cublas_workspaces), a.requested) !=
           std::end(cublas_workspaces);
  }

  /// DistributedDataParallel's, of which gradients are views or copies: a plan counts them so, too.
  [[nodiscard]] bool is_bucket(const Allocation& a) const {
    return (marks_[a.stack] & in_buckets) != 0 && (persists(a) || stays(a) || steps_lived(a) >= 1);
  }

  [[nodiscard]] Category by_evidence(const Allocation& a) const {
    if (a.category != 0)
      if (const auto told = told_category(s_.text(a.category))) return *told;
    const std::uint16_t m = marks_[a.stack];
    if ((m & in_workspace) != 0) return Category::workspace;
    if ((m & in_gather) != 0) return Category::gathered_parameters;
    if (is_bucket(a)) return Category::gradients;
    if ((m & in_optimizer) != 0)
      return stays(a) || steps_lived(a) >= 1 ? Category::optimizer_states : Category::temporaries;
    if (a.freed >= 0 && a.freed < h_.events && t_.in_zero_grad[static_cast<std::size_t>(a.freed)])
      return Category::gradients;
    if (a.born < 0) return from_before(a);
    if (a.born >= h_.events) return Category::unknown;  // after the recorded history
    if (workspaces_.contains(&a)) return Category::workspace;
    switch (t_.phases[static_cast<std::size_t>(a.born)]) {
      case Phase::backward:
      case Phase::recompute:
        return from_backward(a, m);
      case Phase::optimizer:
        return stays(a) || steps_lived(a) >= 1 ? Category::optimizer_states : Category::temporaries;
      case Phase::forward:
      case Phase::loss:
        return persists(a) && t_.from_stacks ? Category::unknown : from_forward(a);
      case Phase::setup:
        return from_setup(a, m);
    }
    return Category::unknown;
  }

  /// No stack says what it is: what stays may be a parameter or a state (by_size), what goes in the
  /// first step is of the step that was under way.
  [[nodiscard]] Category from_before(const Allocation& a) const {
    if (stays(a) && (marks_[a.stack] & in_module_setup) != 0) return Category::parameters;
    return Category::unknown;
  }

  [[nodiscard]] Category from_backward(const Allocation& a, std::uint16_t m) const {
    const auto born = static_cast<std::size_t>(a.born);
    const std::int64_t end = t_.backward_end[born];
    const bool over = end < h_.events;  // the history has what follows
    const bool outlives = a.freed >= end || (stays(a) && over);
    // Frees without stacks (context="alloc") do not tell where backward ends: zero_grad's are among
    // them, after its last allocation, and of the size of something that stays.
    const bool told_by_size = !frees_have_stacks_ && kept_.contains(a.requested) &&
                              a.freed > t_.last_alloc[born] && a.freed - a.born > 2;
    if (outlives || told_by_size) return Category::gradients;
    if ((m & in_recompute) != 0) return Category::recomputed;
    if ((m & in_communication) != 0) return Category::communication;
    // Not freed while backward was still running, as at an OOM: its size decides (by_size).
    return stays(a) ? Category::unknown : Category::temporaries;
  }

  [[nodiscard]] Category from_forward(const Allocation& a) const {
    const auto begin = t_.phases.begin() + a.born,
               end = t_.phases.begin() + std::min(a.freed, h_.events);
    const bool until_backward = stays(a) || std::find(begin, end, Phase::backward) != end ||
                                std::find(begin, end, Phase::recompute) != end;
    return until_backward ? Category::activations : Category::temporaries;
  }

  /// Outside of a module's call: the model being made, a batch being loaded, a loop's own tensors.
  [[nodiscard]] Category from_setup(const Allocation& a, std::uint16_t m) const {
    if ((m & in_module_setup) != 0 && (stays(a) || persists(a)) && a.born < first_backward_)
      return Category::parameters;
    if (persists(a) || (stays(a) && a.born < first_backward_)) return Category::unknown;
    if (!t_.from_stacks) return Category::unknown;
    // Used by a forward and a backward of one step: a batch, or a loss that is made by hand.
    const auto begin = t_.phases.begin() + a.born;
    const auto end = t_.phases.begin() + std::min(a.freed, h_.events);
    const bool forward = std::find(begin, end, Phase::forward) != end;
    const bool backward = std::find(begin, end, Phase::backward) != end;
    if (forward && (backward || stays(a))) return Category::inputs;
    return backward ? Category::activations : Category::temporaries;
  }

  /// What has the size of something that stays, and lives until the step allocates no more, is the
  /// gradient of it.
  void gradients_without_stacks(std::vector<Category>& result) const {
    std::vector<std::int64_t> last(begins_.size(), 0);  // alloc of each step
    for (const Allocation& a : h_.allocations)
      if (const std::int64_t step = step_of(a.born); step >= 0 && a.born < h_.events)
        last[static_cast<std::size_t>(step)] =
            std::max(last[static_cast<std::size_t>(step)], a.born);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Allocation& a = h_.allocations[i];
      const std::int64_t step = step_of(a.born);
      if (step < 0 || a.born >= h_.events || persists(a) || !kept_.contains(a.requested)) continue;
      // A held output of that size goes in the next step, when there is a new one.
      if (!stays(a) && step_of(a.freed) != step) continue;
      const auto s = static_cast<std::size_t>(step);
      const bool at_once = a.freed - a.born <= 2;  // scratch, not kept for anything
      if (t_.steps[s].complete && a.freed > last[s] && !at_once && result[i] != Category::workspace)
        result[i] = Category::gradients;
    }
  }

  /// What is unknown and stays for whole steps: one block a gradient is the parameter, two more of
  /// that size or twice it (fp32 beside bf16) are the optimizer's. In the order of addresses and
  /// births, which is that of their making.
  void by_size(std::vector<Category>& result) {
    std::map<std::int64_t, std::int64_t> most;  // of one step, by size
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts;
    for (std::size_t i = 0; i < result.size(); ++i)
      if (result[i] == Category::gradients && !is_bucket(h_.allocations[i])) {
        const Allocation& a = h_.allocations[i];
        auto& n = most[a.requested];
        n = std::max(n, ++counts[{step_of(a.born), a.requested}]);
      }
    const bool passing = most.empty();
    if (passing) most = passing_gradients(result);
    limit_by_states(most, result, passing);
    Replaced replaced = replaced_states(result);
    std::map<std::int64_t, std::int64_t> known, states, before;
    for (std::size_t i = 0; i < result.size(); ++i)
      if (result[i] == Category::parameters) ++known[h_.allocations[i].requested];
    std::int64_t frozen_numbers = numbers_of_a_frozen_base(most, result);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Allocation& a = h_.allocations[i];
      if (result[i] != Category::unknown) continue;
      const bool early = a.born < first_backward_;
      const auto size = most.find(a.requested);
      const bool is_size = size != most.end();
      if (a.born >= 0 && a.born < h_.events && !early) {
        if (is_size && t_.phases[static_cast<std::size_t>(a.born)] == Phase::backward)
          result[i] = Category::gradients;
        continue;
      }
      if (a.born < 0 && !stays(a) && steps_lived(a) < 2) {
        // There are not more gradients of a size than parameters of it.
        if (is_replaced(a, replaced))
          result[i] = Category::optimizer_states;
        else if (is_size && before[a.requested] + counts[{0, a.requested}] < size->second &&
                 ++before[a.requested] > 0)
          result[i] = Category::gradients;
        continue;
      }
      if (!(persists(a) || stays(a))) continue;
      if (is_cublas(a) && (!is_size || states[a.requested] >= 2 * size->second)) {
        result[i] = Category::workspace;
      } else if (is_size && known[a.requested] < size->second) {
        ++known[a.requested];
        result[i] = Category::parameters;
      } else if (is_size || most.contains(a.requested / 2) || is_number(a)) {
        if (a.born >= 0 && t_.from_stacks) continue;
        if (is_number(a) && frozen_numbers-- > 0) continue;
        const auto of = is_size ? size : most.find(a.requested / 2);
        const std::int64_t each = is_size ? moments : moments + 1;
        if (of != most.end() && states[a.requested] >= each * of->second) continue;
        ++states[a.requested];
        result[i] = Category::optimizer_states;
      }
    }
    for (const auto& [size, n] : most) trained_ += size * n;
    buckets_of_before(most, result);
  }

  /// Where gradients are views of buckets, what backward makes is copied there and goes at once.
  [[nodiscard]] std::map<std::int64_t, std::int64_t> passing_gradients(
      const std::vector<Category>& result) const {
    std::map<std::int64_t, std::int64_t> most;  // of one step, by size
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Allocation& a = h_.allocations[i];
      if (result[i] != Category::temporaries || a.born < 0 || a.born >= h_.events) continue;
      const bool backward = t_.phases[static_cast<std::size_t>(a.born)] == Phase::backward;
      if (!backward || !kept_.contains(a.requested)) continue;
      auto& n = most[a.requested];
      n = std::max(n, ++counts[{step_of(a.born), a.requested}]);
    }
    return most;
  }

  /// Blocks of no parameter's size that were there before and are together as large as all that is
  /// trained, or less by no more than one parameter, whose bucket has its size:
  /// DistributedDataParallel's buckets.
  void buckets_of_before(const std::map<std::int64_t, std::int64_t>& gradients,
                         std::vector<Category>& result) const {
    std::int64_t trained = 0, left = 0;
    for (const auto& [size, n] : gradients) trained += size * n;
    const std::int64_t largest = gradients.empty() ? 0 : gradients.rbegin()->first;
    const auto is_left = [&](std::size_t i) {
      const Allocation& a = h_.allocations[i];
      return result[i] == Category::unknown && a.born < 0 && persists(a) && stays(a) &&
             !gradients.contains(a.requested) && !is_number(a);
    };
    for (std::size_t i = 0; i < result.size(); ++i)
      if (is_left(i)) left += h_.allocations[i].requested;
    const std::int64_t slack = trained / 100;
    if (left == 0 || left > trained + slack || left + largest < trained - slack) return;
    for (std::size_t i = 0; i < result.size(); ++i)
      if (is_left(i)) result[i] = Category::gradients;
  }

  static bool is_number(const Allocation& a) { return a.requested <= 8; }

  /// Of those that stay from before the first backward, how many come before the optimizer's, which
  /// counts its steps in one for each parameter or, on the host, in none.
  [[nodiscard]] std::int64_t numbers_of_a_frozen_base(
      const std::map<std::int64_t, std::int64_t>& gradients,
      const std::vector<Category>& result) const {
    std::int64_t trained = 0, numbers = 0;
    for (const auto& [size, n] : gradients) trained += n;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Allocation& a = h_.allocations[i];
      const bool early = a.born < first_backward_ && (persists(a) || stays(a));
      numbers += result[i] == Category::unknown && is_number(a) && early ? 1 : 0;
    }
    return 4 * numbers <= 3 * trained ? numbers : std::max<std::int64_t>(0, numbers - trained);
  }

  /// States that an optimizer made anew, by its step and their size: as many of before are freed.
  using Replaced = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;
  [[nodiscard]] Replaced replaced_states(const std::vector<Category>& result) const {
    Replaced made;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Allocation& a = h_.allocations[i];
      if (result[i] == Category::optimizer_states && in_optimizer_step(a.born))
        ++made[{step_of(a.born), a.requested}];
    }
    return made;
  }
  [[nodiscard]] bool is_replaced(const Allocation& a, Replaced& made) const {
    if (!in_optimizer_step(a.freed)) return false;
    const auto found = made.find({step_of(a.freed), a.requested});
    return found != made.end() && found->second-- > 0;
  }
  [[nodiscard]] bool in_optimizer_step(std::int64_t event) const {
    return event >= 0 && event < h_.events &&
           t_.phases[static_cast<std::size_t>(event)] == Phase::optimizer;
  }

  /// What is left of those that stay from before the first backward, where less is trained than
  /// that: a frozen base, in whatever format, with its scales.
  void frozen_base(std::vector<Category>& result) const {
    std::map<std::int64_t, std::int64_t> gradients;  // bytes, by step
    for (std::size_t i = 0; i < result.size(); ++i)
      if (result[i] == Category::gradients)
        gradients[step_of(h_.allocations[i].born)] += h_.allocations[i].size;
    std::int64_t trained = trained_, left = 0;
    for (const auto& [step, bytes] : gradients) trained = std::max(trained, bytes);
    const auto is_left = [&](std::size_t i) {
      const Allocation& a = h_.allocations[i];
      return result[i] == Category::unknown && a.born < first_backward_ && persists(a) && stays(a);
    };
    for (std::size_t i = 0; i < result.size(); ++i)
      if (is_left(i)) left += h_.allocations[i].size;
    if (trained == 0 || left <= trained) return;
    for (std::size_t i = 0; i < result.size(); ++i)
      if (is_left(i)) result[i] = Category::parameters;
  }

  /// Other tensors of backward may have a parameter's size and live as long as a gradient: there
  /// are not more parameters of a size than leave each as many states as those of other sizes have.
  /// Of gradients that pass there are more such tensors, and a bucket may have a parameter's size.
  void limit_by_states(std::map<std::int64_t, std::int64_t>& gradients,
                       const std::vector<Category>& result, bool passing) const {
    std::map<std::int64_t, std::int64_t> kept;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Allocation& a = h_.allocations[i];
      const bool early = a.born < first_backward_;
      const bool open = result[i] == Category::unknown || result[i] == Category::parameters ||
                        result[i] == Category::optimizer_states;
      if (open && early && (persists(a) || stays(a))) ++kept[a.requested];
    }
    std::array<std::int64_t, 4> votes{};  // bytes, by the states of a parameter's own size
    for (const auto& [size, n] : gradients)
      for (std::size_t states = 0; states < votes.size(); ++states)
        if (kept[size] == static_cast<std::int64_t>(states + 1) * n) votes[states] += size * n;
    auto most = std::max_element(votes.begin(), votes.end());
    if (*most == 0) return;
    if (passing)  // more of a size than its gradients leave each fewer states than it has
      for (auto vote = votes.begin(); vote <= votes.begin() + moments; ++vote)
        if (*vote > 0) most = vote;
    const std::int64_t share = most - votes.begin() + 1;
    for (auto& [size, n] : gradients)
      if (passing || kept[size] % share == 0) n = std::min(n, kept[size] / share);
  }

  const Snapshot& s_;
  const History& h_;
  const Steps& t_;
  const std::vector<std::uint16_t>& marks_;
  std::vector<std::int64_t> begins_;
  std::int64_t first_backward_ = 0;
  std::set<const Allocation*> workspaces_;
  bool frees_have_stacks_ = false;
  std::int64_t trained_ = 0;                   ///< bytes of gradients, by their sizes
  std::map<std::int64_t, std::int64_t> kept_;  ///< what stays for steps: how many of each size
};

}  // namespace

std::vector<Category> categories(const Snapshot& snapshot, const History& history,
                                 const Steps& steps, const std::vector<std::uint16_t>& marks) {
  return Judge(snapshot, history, steps, marks).run();
}

}  // namespace ac_advisor::snapshot
