#pragma once

namespace ac_advisor::injection {

/// Begins to record the device's work, once a process. What fails is noted in the trace.
void start_cupti();
/// Takes the records that are not delivered yet.
void flush_cupti();

}  // namespace ac_advisor::injection
