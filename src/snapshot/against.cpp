#include "ac_advisor/snapshot/against.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "ac_advisor/advise/live_at_peak.hpp"

namespace ac_advisor::snapshot {
namespace {

using profile::Category;

/// The category that a snapshot would tell.
Category seen_as(Category c) {
  switch (c) {
    case Category::inputs:
    case Category::loss:
    case Category::held_output:
      return Category::activations;
    case Category::activation_gradients:
      return Category::temporaries;
    default:
      return c;
  }
}

using Planned = std::vector<advise::PlannedTensor>;

/// A gradient of the logits is the loss' in a plan (and in a plan's own snapshot, which tells so),
/// and something that backward makes in PyTorch's.
Category seen_as(const advise::PlannedTensor& t, bool tells_loss) {
  const bool made_by_backward = t.tensor.category == Category::loss && t.in_backward;
  return made_by_backward && !tells_loss ? Category::temporaries : seen_as(t.tensor.category);
}

bool tells_loss(const Analysis& a) {
  return a.at_peak[static_cast<std::size_t>(Category::loss)] != 0;
}

ByCategory seen(const ByCategory& bytes) {
  ByCategory result{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    result[static_cast<std::size_t>(seen_as(static_cast<Category>(i)))] += bytes[i];
  return result;
}

ByCategory seen(const Planned& planned, bool tells_loss) {
  ByCategory result{};
  for (const advise::PlannedTensor& t : planned)
    result[static_cast<std::size_t>(seen_as(t, tells_loss))] += t.tensor.bytes;
  return result;
}

/// What the allocator makes of a request: a block can be larger where its rest was not split off.
Bytes rounded(Bytes requested) { return std::max<Bytes>(512, (requested + 511) / 512 * 512); }

bool made_before(const LiveBlock* x, const LiveBlock* y) {
  return x->born != y->born ? x->born < y->born : x->address < y->address;
}

/// "blocks.*.mlp": what all blocks have alike is told once.
std::string of_all_blocks(const std::string& module) {
  if (!module.starts_with("blocks.")) return module;
  const std::size_t dot = module.find('.', 7);
  return "blocks.*" + (dot == std::string::npos ? "" : module.substr(dot));
}

/// Categories by the plan, where the file alone does not tell: of the blocks of one size those that
/// the plan has more of in one category take the place of unknown ones, and of ones that it has
/// fewer of, in the order of their making. Returns the bytes that were given another.
Bytes relabel(Analysis& a, const Planned& planned) {
  const bool told = tells_loss(a);
  std::map<Bytes, std::map<Category, std::int64_t>> wanted;  // by size
  for (const advise::PlannedTensor& t : planned) ++wanted[t.tensor.bytes][seen_as(t, told)];
  std::map<Bytes, std::vector<LiveBlock*>> live;
  for (LiveBlock& b : a.live) live[rounded(b.requested)].push_back(&b);
  Bytes changed = 0;
  for (auto& [bytes_each, blocks] : live) {
    const auto found = wanted.find(bytes_each);
    if (found == wanted.end()) continue;
    std::map<Category, std::int64_t>& lacking = found->second;
    std::stable_sort(blocks.begin(), blocks.end(), made_before);
    std::vector<LiveBlock*> beyond;  // what the plan has not so many of
    for (LiveBlock* b : blocks)
      if (std::int64_t& n = lacking[seen_as(b->category)]; n > 0)
        --n;
      else
        beyond.push_back(b);
    // Unknown ones first: the others had evidence of their own.
    std::stable_partition(beyond.begin(), beyond.end(),
                          [](const LiveBlock* b) { return b->category == Category::unknown; });
    for (LiveBlock* b : beyond)
      for (auto& [category, n] : lacking) {
        const bool resident = category == Category::parameters ||
                              category == Category::optimizer_states ||
                              category == Category::gradients;
        if (n == 0 || (b->category != Category::unknown && !resident)) continue;
        --n;
        a.at_peak[static_cast<std::size_t>(b->category)] -= b->size;
        a.at_peak[static_cast<std::size_t>(category)] += b->size;
        b->category = category;
        changed += b->size;
        break;
      }
  }
  return changed;
}

void lay_beside(Against& r, const Planned& tensors) {
  const profile::Memory& m = r.planned.memory;
  const Analysis& a = r.analysis;
  r.totals = {{"peak_allocated", m.peak_allocated, a.peak_allocated},
              {"peak_reserved", m.peak_reserved, a.peak_reserved}};
  const ByCategory planned = seen(tensors, tells_loss(a)), measured = seen(a.at_peak);
  for (std::size_t i = 0; i < planned.size(); ++i)
    if (planned[i] != 0 || measured[i] != 0)
      r.categories.push_back(
          {profile::to_string(static_cast<Category>(i)), planned[i], measured[i]});
  // A snapshot's forward ends where backward begins: the loss is not told apart everywhere.
  std::array<Bytes, 5> ours = m.peak_by_phase, theirs = a.peak_by_phase;
  ours[0] = std::max(ours[0], ours[1]);
  theirs[0] = std::max(theirs[0], theirs[1]);
  for (const std::size_t p : {0U, 2U, 3U, 4U})
    if (ours[p] != 0 || theirs[p] != 0)
      r.phases.push_back({p == 0 ? "forward, with loss" : profile::phase_names[p], ours[p],
                          theirs[p], theirs[p] != 0});
}

/// Blocks of a size on both sides are pairs, first made with first made.
void match(Against& r, const Planned& planned) {
  const bool told = tells_loss(r.analysis);
  struct Side {
    std::vector<const advise::PlannedTensor*> planned;
    std::vector<const LiveBlock*> measured;
  };
  std::map<Bytes, Side> sizes;
  for (const advise::PlannedTensor& t : planned) sizes[t.tensor.bytes].planned.push_back(&t);
  for (const LiveBlock& b : r.analysis.live) sizes[rounded(b.requested)].measured.push_back(&b);
  r.planned_blocks = static_cast<std::int64_t>(planned.size());
  r.measured_blocks = static_cast<std::int64_t>(r.analysis.live.size());
  const auto add = [](std::vector<Unmatched>& list, Bytes size, Category category,
                      const std::string& what) {
    const char* name = profile::to_string(category);
    for (Unmatched& u : list)
      if (u.size == size && u.category == name && u.what == what) {
        ++u.count;
        return;
      }
    list.push_back({size, 1, name, what});
  };
  for (auto& [bytes_each, both] : sizes) {
    // Named: clang 14 captures no structured bindings.
    const auto size = bytes_each;
    auto& side = both;
    std::stable_sort(side.measured.begin(), side.measured.end(), made_before);
    // First those whose categories agree, so that what is left over is what differs.
    std::vector<bool> used(side.measured.size(), false);
    std::vector<const advise::PlannedTensor*> left;
    const auto pair = [&](const advise::PlannedTensor* t, bool same_category) {
      for (std::size_t i = 0; i < used.size(); ++i) {
        const bool same = seen_as(side.measured[i]->category) == seen_as(*t, told);
        if (used[i] || same != same_category) continue;
        used[i] = true;
        ++r.matched;
        r.matched_bytes += size;
        r.matched_category += same ? 1 : 0;
        return true;
      }
      return false;
    };
    for (const advise::PlannedTensor* t : side.planned)
      if (!pair(t, true)) left.push_back(t);
    for (const advise::PlannedTensor* t : left) {
      const auto& [module, op, shape, dtype, category, bytes] = t->tensor;
      if (!pair(t, false))
        add(r.only_planned, size, seen_as(*t, told),
            of_all_blocks(module) + (module.empty() || op.empty() ? "" : " ") + op +
                (shape.empty() ? "" : " " + shape));
    }
    for (std::size_t i = 0; i < used.size(); ++i)
      if (!used[i])
        add(r.only_measured, size, seen_as(side.measured[i]->category), side.measured[i]->where);
  }
  for (std::vector<Unmatched>* list : {&r.only_planned, &r.only_measured})
    std::stable_sort(list->begin(), list->end(),
                     [](const Unmatched& x, const Unmatched& y) { return x.bytes() > y.bytes(); });
}

std::string mib(Bytes bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

void find(Against& r) {
  const Bytes difference = r.analysis.peak_allocated - r.planned.memory.peak_allocated;
  const double share = r.planned.memory.peak_allocated > 0
                           ? 100.0 * static_cast<double>(difference) /
                                 static_cast<double>(r.planned.memory.peak_allocated)
                           : 0.0;
  r.findings.push_back(
      difference == 0
          ? "the measured peak is the planned one to the byte"
          : fmt::format("the measured peak is {} {} than the planned one ({:+.2f} %)",
                        mib(std::abs(difference)), difference > 0 ? "higher" : "lower", share));
  Bytes rest = 0;
  for (const LiveBlock& b : r.analysis.live) rest += b.size - rounded(b.requested);
  if (rest > 0)
    r.findings.push_back(mib(rest) +
                         " of it are the ends of blocks that were too small to split off, which a "
                         "plan does not count");
  std::vector<const Beside*> rows;
  for (const Beside& b : r.categories)
    if (b.planned != b.measured) rows.push_back(&b);
  std::stable_sort(rows.begin(), rows.end(), [](const Beside* x, const Beside* y) {
    return std::abs(x->measured - x->planned) > std::abs(y->measured - y->planned);
  });
  for (std::size_t i = 0; i < rows.size() && i < 4; ++i) {
    const Bytes d = rows[i]->measured - rows[i]->planned;
    std::string text = fmt::format("{}: {} {} than planned", rows[i]->name, mib(std::abs(d)),
                                   d > 0 ? "more" : "less");
    for (const Unmatched& u : d > 0 ? r.only_measured : r.only_planned)
      if (u.category == rows[i]->name) {
        text += fmt::format("; most in {} of {} {}", u.count, mib(u.size),
                            u.what.empty() ? "without frames" : "at " + u.what);
        break;
      }
    r.findings.push_back(std::move(text));
  }
  if (r.planned.memory.peak_phase != r.analysis.peak_phase && !r.analysis.peak_phase.empty())
    r.findings.push_back("the peaks are not of the same phase: planned in " +
                         r.planned.memory.peak_phase + ", measured in " + r.analysis.peak_phase);
  if (r.analysis.steps.empty())
    r.findings.push_back("the snapshot has no history: its moment need not be the peak");
}

}  // namespace

Against against(Analysis analysis, const profile::Profile& planned, const std::string& plan) {
  Against r;
  r.plan = plan;
  r.analysis = std::move(analysis);
  r.planned = planned;
  const Planned tensors = advise::live_at_peak(planned.model, planned.config);
  const Bytes relabelled = relabel(r.analysis, tensors);
  lay_beside(r, tensors);
  match(r, tensors);
  find(r);
  if (relabelled > 0)
    r.findings.push_back(mib(relabelled) +
                         " of the snapshot have their category from the plan, by size and order");
  return r;
}

}  // namespace ac_advisor::snapshot
