#include "trainer/instrumented.hpp"

#include "trainer/counters/add_counters.hpp"
#include "trainer/measured.hpp"

namespace ac_advisor::trainer {
namespace {

/// One step with counters around each phase. Whatever is in the way is the reason for their
/// absence.
void count_step(Rank& rank, std::int64_t phases_entered, profile::Profile& profile) {
  Counted counted;
  std::string why_not;
  const std::unique_ptr<Counters> counters = Counters::open(why_not);
  // The step has collectives: every rank runs it, or none does.
  const bool all = rank.executor().collectives().average(counters == nullptr ? 0 : 1) == 1;
  if (!all) {
    counted.why_not = counters == nullptr ? why_not : "another rank has no counters";
    add_counters(profile, counted);
    return;
  }
  rank.backend().finish();
  counters->begin(phases_entered);
  rank.executor().set_counters(counters.get());
  profile.time.step = rank.step().timing.seconds;
  rank.executor().set_counters(nullptr);
  add_counters(profile, counters->end());
}

}  // namespace

profile::Profile run_instrumented(
    Rank& rank, const std::string& instrument, std::int64_t steps,
    const std::function<bool(std::int64_t, const Rank::Result&)>& after_step,
    const std::function<void(std::int64_t)>& before_step) {
  const bool counts = instrument == "counters";
  if (counts) rank.executor().set_capture(CudaGraph::off);  // a replay enters no phases
  Observed observed;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t number = rank.steps_done();
    before_step(number);
    const Rank::Result result = rank.step();
    observed.losses.push_back(result.loss);
    observed.timings.push_back(result.timing);
    if (!after_step(number, result)) break;
  }
  profile::Profile profile = measured_profile(rank.built(), observed, rank.backend());
  if (counts) count_step(rank, observed.timings.back().phases_entered, profile);
  return profile;
}

}  // namespace ac_advisor::trainer
