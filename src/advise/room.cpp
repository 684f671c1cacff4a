#include "room.hpp"

#include <algorithm>

#include "ac_advisor/ir/op_table.hpp"
#include "planned.hpp"
#include "rollout_engine.hpp"

namespace ac_advisor::advise {
namespace {

/// Reserved memory that a run should leave free: fragmentation between steps and libraries that
/// allocate outside of PyTorch. An estimate.
constexpr double margin_share = 0.02;

/// A segment that is released and made again: cudaFree waits for the device and takes its pages
/// away, cudaMalloc maps others. An estimate.
constexpr double segment_seconds = 1e-3;

profile::Fit overheads(const simulate::Device& device, const StepConfig& config) {
  profile::Fit f;
  f.usable = device.usable_bytes;
  f.context = device.context_bytes;
  // NCCL's own channels and staging buffers, outside of PyTorch's allocator (an estimate: NCCL's
  // default 4 MiB buffer for up to 32 channels and two protocols; docs.nvidia.com, NCCL_BUFFSIZE).
  f.communication = config.layout.world > 1 && device.cuda ? std::int64_t{256} << 20 : 0;
  f.margin = static_cast<std::int64_t>(static_cast<double>(f.usable) * margin_share);
  f.engine = rollout_engine(config, device).asleep;
  return f;
}

/// The most that is allocated in any of the steps.
std::int64_t most_allocated(const simulate::AllocatorWalk& walk) {
  std::int64_t most = walk.first_step_peak;
  for (const simulate::AllocatorStep& step : walk.steps) most = std::max(most, step.peak_allocated);
  return most;
}

void note_refused(profile::Pressure& pressure, const simulate::Refused& refused,
                  const ir::Program& p) {
  pressure.refused = refused.requested;
  pressure.phase = "set-up";
  if (refused.op == ir::no_id) return;
  const ir::Op& op = p.op(refused.op);
  pressure.phase = profile::phase_names[static_cast<std::size_t>(op.phase)];
  pressure.op = ir::name_of(p, op);
  pressure.module = to_string(op.module);
}

}  // namespace

Room room_of(const passes::StepProgram& step, const passes::Schedule& schedule,
             const simulate::MemoryModel& model, const simulate::Device& device,
             const StepConfig& config, bool detail) {
  const auto walk = [&](simulate::AllocatorOptions options) {
    return simulate::walk_allocator(step, schedule, model, cublas_handles(config), options);
  };
  const bool expandable = config.runtime.expandable_segments;
  Room room{walk({expandable, 0}), overheads(device, config)};
  profile::Fit& fit = room.fit;
  const std::int64_t limit = fit.limit(), reserved = room.walk.peak_reserved;
  fit.required = reserved + fit.beside();
  fit.fits = reserved <= limit;
  if (fit.fits) return room;
  profile::Pressure& pressure = fit.pressure.emplace();
  pressure.unlimited_reserved = reserved;
  const std::int64_t allocated = device.cuda ? most_allocated(room.walk) : reserved;
  pressure.excess = std::max<std::int64_t>(0, allocated - limit);
  if (pressure.excess > 0) fit.required = allocated + fit.beside();
  if (!device.cuda || limit <= 0) return room;
  if (pressure.excess == 0 || detail) {
    simulate::AllocatorWalk limited = walk({expandable, limit});
    fit.fits = !limited.refused;
    if (limited.refused) {
      note_refused(pressure, *limited.refused, step.program);
    } else {
      pressure.retries = limited.steps.back().retries;
      pressure.released_segments = limited.steps.back().released_segments;
      pressure.seconds = segment_seconds * static_cast<double>(pressure.released_segments);
      fit.required = limited.peak_reserved + fit.beside();
      room.walk = std::move(limited);
    }
  }
  if (detail && !expandable) pressure.expandable_reserved = walk({true, 0}).peak_reserved;
  return room;
}

void with_generation(profile::Fit& fit, std::int64_t peak) {
  fit.generation = peak;
  fit.required = std::max(fit.required, peak + fit.beside());
  fit.fits = fit.fits && peak <= fit.limit();
}

}  // namespace ac_advisor::advise
