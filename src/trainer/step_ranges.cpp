#include "trainer/step_ranges.hpp"

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::trainer {

static_assert(profile::phase_names.size() == ir::phase_count);

void StepRanges::at(const ir::Op& op) {
  if (phase_ != op.phase) {
    end();
    phase_ = op.phase;
    ++phases_entered_;
    const char* const name = profile::phase_names[static_cast<std::size_t>(op.phase)];
    if (nvtx::enabled()) phase_range_.replace(name);
    if (counters_ != nullptr) counters_->push(name);
  }
  if (nvtx::enabled() && module_ != op.module) {
    module_ = op.module;
    module_range_.replace(ir::to_string(op.module).c_str());
  }
}

void StepRanges::end() {
  if (counters_ != nullptr && phase_) wait_();
  leave();
}

void StepRanges::leave() {
  if (!phase_) return;
  if (counters_ != nullptr) counters_->pop();
  module_range_.close();
  phase_range_.close();
  phase_.reset();
  module_.reset();
}

}  // namespace ac_advisor::trainer
