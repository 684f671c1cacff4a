#include "ac_advisor/snapshot/analysis.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ac_advisor/model/error.hpp"
#include "categorize.hpp"
#include "fragmentation.hpp"
#include "stack_marks.hpp"
#include "walk.hpp"

namespace ac_advisor::snapshot {
namespace {

using profile::Category;

constexpr std::size_t most_frames = 128;  ///< deeper ones are recursions

/// Names of sites, each made once.
class Sites {
 public:
  explicit Sites(const Snapshot& snapshot) : snapshot_(snapshot) {}
  const std::string& name(StackId stack) {
    auto [found, fresh] = names_.try_emplace(site_frame(snapshot_, stack));
    if (fresh) found->second = site(snapshot_, stack);
    return found->second;
  }

 private:
  const Snapshot& snapshot_;
  std::unordered_map<std::int64_t, std::string> names_;
};

/// The device to show, with its history, and what there is of the others.
struct Chosen {
  std::vector<DeviceSummary> all;
  History history;
  Walk walk;
};

Chosen choose(const Snapshot& snapshot, const std::optional<int>& wanted) {
  Chosen c;
  std::string known;
  bool found = false;
  for (const int device : devices(snapshot)) {
    History history = history_of(snapshot, device);
    Walk walk = walk_events(snapshot, history);
    c.all.push_back({device, history.events, walk.peak, history.ended_reserved});
    known += (known.empty() ? "" : ", ") + std::to_string(device);
    if (wanted ? *wanted != device : found && walk.peak <= c.walk.peak) continue;
    found = true;
    c.history = std::move(history);
    c.walk = std::move(walk);
  }
  if (c.all.empty())
    throw UserError(snapshot.origin +
                    ": has neither segments nor events: nothing was allocated "
                    "on a GPU, or recording was not on");
  if (!found)
    throw UserError("--device " + std::to_string(*wanted) + ": " + snapshot.origin + " has " +
                    (c.all.size() == 1 ? "device " : "devices ") + known);
  return c;
}

std::vector<Site> sites_at_peak(Sites& sites, const std::vector<const Allocation*>& live,
                                const std::vector<Category>& kinds, const History& history) {
  std::map<std::pair<std::string, Category>, Site> found;
  for (const Allocation* a : live) {
    const auto category = kinds[static_cast<std::size_t>(a - history.allocations.data())];
    const std::string& where = sites.name(a->stack);
    Site& s = found[{where, category}];
    s.where = where;
    s.category = category;
    s.bytes += a->size;
    ++s.blocks;
  }
  std::vector<Site> list;
  for (auto& [key, s] : found) list.push_back(std::move(s));
  std::stable_sort(list.begin(), list.end(),
                   [](const Site& a, const Site& b) { return a.bytes > b.bytes; });
  return list;
}

std::string word(Phase phase) {
  if (phase == Phase::setup) return "setup";
  return profile::phase_names[static_cast<std::size_t>(phase)];
}

StepSummary summary(const Step& step, const Walk& walk, const Steps& steps,
                    const std::deque<Event>& trace, Bytes began) {
  StepSummary s{step.begin, step.end, step.complete};
  for (std::int64_t i = step.begin; i < step.end; ++i) {
    const auto at = static_cast<std::size_t>(i);
    s.peak_allocated = std::max(s.peak_allocated, walk.live[at]);
    s.peak_reserved = std::max(s.peak_reserved, walk.reserved[at]);
    auto phase = static_cast<std::size_t>(steps.phases[at]);
    if (phase >= s.peak_by_phase.size()) continue;
    s.peak_by_phase[phase] = std::max(s.peak_by_phase[phase], walk.live[at]);
    s.phase_ends[phase] = i + 1;
  }
  s.begins_with = step.begin > 0 ? walk.live[static_cast<std::size_t>(step.begin - 1)] : began;
  // Recomputation runs inside backward, whose peak includes it.
  s.peak_by_phase[2] = std::max(s.peak_by_phase[2], s.peak_by_phase[3]);
  const Event &first = trace[static_cast<std::size_t>(step.begin)],
              &last = trace[static_cast<std::size_t>(step.end - 1)];
  if (first.time_us != 0) s.seconds = static_cast<double>(last.time_us - first.time_us) * 1e-6;
  return s;
}

void describe_history(Analysis& a, const History& h, const Snapshot& snapshot) {
  const auto note = [&](std::string text) { a.notes.push_back(std::move(text)); };
  if (h.events == 0)
    note(
        "no history was recorded on this device: the peak is that of the moment of the snapshot; "
        "call torch.cuda.memory._record_memory_history() before what is to be looked at");
  else if (h.began_allocated > 0)
    note("the history begins with " + std::to_string(h.began_allocated) +
         " bytes already allocated (recording began later, or its buffer wrapped): an earlier peak "
         "is not in it");
  if (h.lost_frees > 0) note(std::to_string(h.lost_frees) + " frees are not in the history");
  if (h.ended_unseen > 0)
    note(std::to_string(h.ended_unseen) +
         " blocks were freed after the last recorded event: recording had stopped before the "
         "snapshot was taken");
  if (h.after_history > 0)
    note(std::to_string(h.after_history) + " blocks were allocated after the last recorded event");
  for (const Segment& s : snapshot.segments)
    if (s.device == h.device && (s.pool[0] != 0 || s.pool[1] != 0)) {
      note(
          "some segments are of a private pool (a CUDA graph's or a torch.cuda.MemPool's), which "
          "other requests cannot use");
      break;
    }
}

}  // namespace

Analysis analyze(const Snapshot& snapshot, const AnalyzeOptions& options) {
  Analysis a;
  a.origin = snapshot.origin;
  a.notes = snapshot.notes;
  a.allocator_settings = snapshot.settings.text;
  Chosen chosen = choose(snapshot, options.device);
  a.devices = std::move(chosen.all);
  const History& history = chosen.history;
  const Walk& walk = chosen.walk;
  a.device = history.device;
  static const std::deque<Event> none;
  const auto d = static_cast<std::size_t>(a.device);
  const std::deque<Event>& trace = d < snapshot.traces.size() ? snapshot.traces[d] : none;
  const std::vector<std::uint16_t> marks = stack_marks(snapshot);
  const Steps steps = find_steps(snapshot, history, marks, walk.live);
  const std::vector<Category> kinds = categories(snapshot, history, steps, marks);
  Sites sites(snapshot);

  a.events = history.events;
  if (!trace.empty() && trace.front().time_us != 0)
    a.seconds = static_cast<double>(trace.back().time_us - trace.front().time_us) * 1e-6;
  a.began_allocated = history.began_allocated;
  a.began_reserved = history.began_reserved;
  a.ended_allocated = history.ended_allocated;
  a.ended_reserved = history.ended_reserved;
  a.peak_allocated = walk.peak;
  a.peak_event = walk.peak_event;
  a.peak_reserved = walk.peak_reserved;

  const std::vector<const Allocation*> live = live_at(history, walk.peak_event);
  for (const Allocation* l : live) {
    const auto category = kinds[static_cast<std::size_t>(l - history.allocations.data())];
    a.at_peak[static_cast<std::size_t>(category)] += l->size;
    a.peak_requested += l->requested;
    a.live.push_back({l->size, l->requested, l->address, l->stream, l->born, l->freed, category,
                      sites.name(l->stack), std::string(snapshot.text(l->metadata)),
                      stack_lines(snapshot, l->stack, 8)});
  }
  std::stable_sort(a.live.begin(), a.live.end(),
                   [](const LiveBlock& x, const LiveBlock& y) { return x.size > y.size; });
  a.sites = sites_at_peak(sites, live, kinds, history);
  if (a.peak_event >= 0 && a.peak_event < history.events) {
    const auto at = static_cast<std::size_t>(a.peak_event);
    a.peak_phase = word(steps.phases[at]);
    a.peak_where = sites.name(trace[at].stack);
  }
  for (const Step& step : steps.steps) {
    a.steps.push_back(summary(step, walk, steps, trace, history.began_allocated));
    for (std::size_t p = 0; p < a.peak_by_phase.size(); ++p)
      a.peak_by_phase[p] = std::max(a.peak_by_phase[p], a.steps.back().peak_by_phase[p]);
  }
  a.how_steps = steps.how;
  a.fragmentation = fragmentation(snapshot, history, walk);
  for (PinnedSegment& p : a.fragmentation.pinned)
    if (p.smallest_where.empty()) p.smallest_where = "(no frames)";
  a.out_of_memory = out_of_memory(snapshot, history, walk);
  a.timeline = moments(snapshot, history, walk, kinds, options.moments);

  std::vector<const Allocation*> large;
  for (const Allocation& l : history.allocations) large.push_back(&l);
  const std::size_t count = std::min(options.bars, large.size());
  std::partial_sort(large.begin(), large.begin() + static_cast<std::ptrdiff_t>(count), large.end(),
                    [](const Allocation* x, const Allocation* y) {
                      return x->size != y->size ? x->size > y->size : x < y;
                    });
  large.resize(count);
  for (const Allocation* l : large)
    a.bars.push_back({l->born, l->freed, l->size,
                      kinds[static_cast<std::size_t>(l - history.allocations.data())],
                      sites.name(l->stack), stack_lines(snapshot, l->stack, most_frames)});
  describe_history(a, history, snapshot);
  return a;
}

}  // namespace ac_advisor::snapshot
