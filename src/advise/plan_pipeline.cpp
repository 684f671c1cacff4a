// A plan of all ranks of a pipeline: the figures of one, and what the others hold.
#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/simulate/pipeline_time.hpp"
#include "plan_rank.hpp"

namespace ac_advisor::advise {
namespace {

StepConfig at_rank(StepConfig config, std::int64_t rank) {
  config.layout.pp_rank = rank;
  return config;
}

profile::RankMemory memory_of(const StepConfig& config, const profile::Memory& memory) {
  const passes::PipelineRank rank = passes::pipeline_rank(config);
  profile::RankMemory figures;
  figures.pp_rank = rank.rank;
  for (std::int64_t chunk = 0; chunk < rank.chunks; ++chunk)
    figures.stages.push_back(rank.stage(chunk));
  figures.count = config.layout.world / config.layout.pp;
  figures.peak_allocated = memory.peak_allocated;
  figures.peak_reserved = memory.peak_reserved;
  return figures;
}

/// Plans of ranks, and which of them each rank of the pipeline has.
struct Ranks {
  std::vector<RankPlan> plans;
  std::vector<std::int64_t> rank;  ///< of each plan
  std::vector<std::size_t> of;     ///< by rank: its plan

  [[nodiscard]] const RankPlan& operator[](std::size_t r) const { return plans[of[r]]; }
  [[nodiscard]] std::size_t highest() const {
    const auto peak = [](const RankPlan& r) { return r.profile.memory.peak_allocated; };
    return static_cast<std::size_t>(
        std::max_element(plans.begin(), plans.end(),
                         [&](const RankPlan& a, const RankPlan& b) { return peak(a) < peak(b); }) -
        plans.begin());
  }
};

/// Whether two ranks' stages are alike, block for block.
bool alike(const std::vector<passes::StageBlocks>& a, const std::vector<passes::StageBlocks>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.blocks() == y.blocks() && x.embedding == y.embedding && x.head == y.head;
  });
}

/// `each`: a plan of every rank. Otherwise of the first of those whose stages are alike: it has as
/// many micro-batches in flight as those after it or more, and takes as long for each. Where
/// backwards are in two parts, ranks differ in how long weights wait.
Ranks plan_ranks(const model::ModelSpec& model, const StepConfig& config, bool each,
                 SharedRanks* shared = nullptr) {
  each = each || !passes::blocks_are_alike(model) || splits_backwards(config.layout.pp_schedule);
  Ranks ranks;
  std::vector<std::vector<passes::StageBlocks>> stages;
  for (std::int64_t r = 0; r < config.layout.pp; ++r) {
    const StepConfig own = at_rank(config, r);
    const std::vector<passes::StageBlocks> blocks = passes::stages_of_rank(model, own);
    const bool asked_for = r == config.layout.pp_rank;
    std::size_t at = each || asked_for ? stages.size() : 0;
    while (at < stages.size() && !alike(stages[at], blocks)) ++at;
    if (at == stages.size()) {
      ranks.rank.push_back(r);
      stages.push_back(blocks);
    }
    ranks.of.push_back(at);
  }
  // What another thread simulates now is waited for last.
  std::vector<std::shared_ptr<SharedRanks::Slot>> slots;
  for (const std::int64_t r : ranks.rank) {
    const StepConfig own = at_rank(config, r);
    slots.push_back(shared == nullptr ? nullptr : shared->slot(model, own));
    if (slots.back() && slots.back()->claim())
      slots.back()->make([&] { return simulate_rank(model, own, false); });
  }
  for (std::size_t i = 0; i < slots.size(); ++i)
    ranks.plans.push_back(plan_rank(model, at_rank(config, ranks.rank[i]), false, slots[i].get()));
  return ranks;
}

/// Forwards and backwards of a schedule that a picture can show.
constexpr std::int64_t most_slots = 2048;

/// The pipeline's step in place of the rank's own.
void set_time(profile::Profile& result, const Ranks& ranks, const simulate::Device& device,
              bool detail) {
  const StepConfig& c = result.config;
  std::vector<simulate::RankSeconds> seconds;
  double at_peak = 0;
  for (const std::size_t plan : ranks.of) {
    const StepConfig own = at_rank(c, ranks.rank[plan]);
    seconds.push_back(simulate::rank_seconds(passes::pipeline_rank(own), ranks.plans[plan].time));
    at_peak += ranks.plans[plan].time.at_peak;
  }
  const std::int64_t message = c.run.batch * (c.local_seq() / c.layout.tp) * result.model.hidden *
                               size_of(c.precision.compute_dtype);
  const passes::PipelineRank shape = passes::pipeline_rank(c);
  const std::vector<double> messages = simulate::message_seconds(message, c, device);
  const simulate::PipelineTime time = simulate::pipeline_time(shape, seconds, messages);
  const std::int64_t parts = splits_backwards(shape.schedule) ? 3 : 2;  // of a micro-batch
  if (detail && parts * shape.stages() * shape.micro_batches <= most_slots)
    result.time.pipeline = simulate::pipeline_slots(shape, seconds, messages);
  const double shorter = result.time.step / time.step;
  result.time.step = time.step;
  result.time.bubble_share = time.bubble;
  result.time.tokens_per_second *= shorter;
  result.time.mfu = at_peak / (static_cast<double>(ranks.of.size()) * time.step);
}

/// Every rank has to fit.
void set_fit(profile::Profile& result, const Ranks& ranks) {
  const auto nearer = [](const profile::Fit& a, const profile::Fit& b) {
    return a.fits != b.fits ? a.fits : a.required < b.required;
  };
  for (const RankPlan& rank : ranks.plans)
    if (nearer(result.fit, rank.profile.fit)) result.fit = rank.profile.fit;
}

void explain(profile::Profile& result, std::size_t shown) {
  const StepConfig& c = result.config;
  result.assumptions.push_back(fmt::format(
      "memory, launches and times by phase are those of pipeline rank {} of {}{}; the step's time "
      "is the pipeline's, {:.1f} % of which ranks wait, on average",
      shown, c.layout.pp,
      c.layout.pp_rank == Layout::highest_rank ? ", whose allocated peak is the highest" : "",
      100.0 * *result.time.bubble_share));
  if (c.layout.cp > 1 && !c.megatron())
    result.assumptions.push_back(
        fmt::format("of the {} ranks of a stage that share a sequence the figures are rank {}'s",
                    c.layout.cp, c.layout.context_rank()));
  if (result.model.tied_embeddings && !c.megatron())
    result.assumptions.push_back(
        "the first and the last stage have a copy each of the tied embedding, whose gradients are "
        "added after the schedule, in place: PyTorch's schedules leave that to the training loop");
}

}  // namespace

std::int64_t highest_rank(const model::ModelSpec& model, const StepConfig& config) {
  const Ranks ranks = plan_ranks(model, config, false);
  return ranks.rank[ranks.highest()];
}

profile::Profile plan_pipeline(const model::ModelSpec& model, const StepConfig& config, bool detail,
                               SharedRanks* shared) {
  const Ranks ranks = plan_ranks(model, config, detail, shared);
  const std::size_t plan = config.layout.pp_rank == Layout::highest_rank
                               ? ranks.highest()
                               : ranks.of[static_cast<std::size_t>(config.layout.pp_rank)];
  const std::int64_t shown = ranks.rank[plan];
  profile::Profile result =
      detail ? plan_rank(model, at_rank(config, shown), true).profile : ranks.plans[plan].profile;
  result.config.layout.pp_rank = config.layout.pp_rank;
  if (detail)
    for (std::size_t r = 0; r < ranks.of.size(); ++r)
      result.memory.ranks.push_back(
          memory_of(at_rank(config, static_cast<std::int64_t>(r)), ranks[r].profile.memory));
  set_time(result, ranks, simulate::find_device(config.device.gpu), detail);
  set_fit(result, ranks);
  explain(result, static_cast<std::size_t>(shown));
  return result;
}

}  // namespace ac_advisor::advise
