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

std::vector<RankPlan> all_ranks(const model::ModelSpec& model, const StepConfig& config) {
  std::vector<RankPlan> ranks;
  for (std::int64_t r = 0; r < config.layout.pp; ++r)
    ranks.push_back(plan_rank(model, at_rank(config, r), false));
  return ranks;
}

std::size_t highest(const std::vector<RankPlan>& ranks) {
  const auto peak = [](const RankPlan& r) { return r.profile.memory.peak_allocated; };
  return static_cast<std::size_t>(
      std::max_element(ranks.begin(), ranks.end(),
                       [&](const RankPlan& a, const RankPlan& b) { return peak(a) < peak(b); }) -
      ranks.begin());
}

/// The pipeline's step in place of the rank's own.
void set_time(profile::Profile& result, const std::vector<RankPlan>& ranks,
              const simulate::Device& device) {
  const StepConfig& c = result.config;
  std::vector<simulate::RankSeconds> seconds;
  double model_flops = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    seconds.push_back(simulate::rank_seconds(
        passes::pipeline_rank(at_rank(c, static_cast<std::int64_t>(r))), ranks[r].time));
    model_flops += ranks[r].time.model_flops;
  }
  const std::int64_t message = c.run.batch * (c.run.seq / c.layout.tp) * result.model.hidden *
                               size_of(c.precision.compute_dtype);
  const simulate::PipelineTime time = simulate::pipeline_time(
      passes::pipeline_rank(c), seconds, simulate::message_seconds(message, c, device));
  const double shorter = result.time.step / time.step;
  result.time.step = time.step;
  result.time.bubble_share = time.bubble;
  result.time.tokens_per_second *= shorter;
  const double peak = device.peak_flops(c.precision.compute_dtype);
  result.time.mfu = model_flops / (static_cast<double>(ranks.size()) * time.step * peak);
}

/// Every rank has to fit.
void set_fit(profile::Profile& result) {
  std::int64_t reserved = result.memory.peak_reserved;
  for (const profile::RankMemory& rank : result.memory.ranks)
    reserved = std::max(reserved, rank.peak_reserved);
  result.fit.required += reserved - result.memory.peak_reserved;
  result.fit.fits = result.fit.required <= result.fit.usable;
}

void explain(profile::Profile& result, std::size_t shown) {
  const StepConfig& c = result.config;
  result.assumptions.push_back(fmt::format(
      "memory, launches and times by phase are those of pipeline rank {} of {}{}; the step's time "
      "is the pipeline's, {:.1f} % of which ranks wait, on average",
      shown, c.layout.pp,
      c.layout.pp_rank == Layout::highest_rank ? ", whose allocated peak is the highest" : "",
      100.0 * *result.time.bubble_share));
}

}  // namespace

std::int64_t highest_rank(const model::ModelSpec& model, const StepConfig& config) {
  return static_cast<std::int64_t>(highest(all_ranks(model, config)));
}

profile::Profile plan_pipeline(const model::ModelSpec& model, const StepConfig& config,
                               bool detail) {
  const std::vector<RankPlan> ranks = all_ranks(model, config);
  const std::size_t shown = config.layout.pp_rank == Layout::highest_rank
                                ? highest(ranks)
                                : static_cast<std::size_t>(config.layout.pp_rank);
  const StepConfig own = at_rank(config, static_cast<std::int64_t>(shown));
  profile::Profile result = detail ? plan_rank(model, own, true).profile : ranks[shown].profile;
  result.config.layout.pp_rank = config.layout.pp_rank;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    result.memory.ranks.push_back(
        memory_of(at_rank(config, static_cast<std::int64_t>(r)), ranks[r].profile.memory));
  set_time(result, ranks, simulate::find_device(config.device.gpu));
  set_fit(result);
  explain(result, shown);
  return result;
}

}  // namespace ac_advisor::advise
