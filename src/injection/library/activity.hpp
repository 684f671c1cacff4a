#pragma once

#include <cupti.h>

#include "trace/recorder.hpp"

namespace ac_advisor::injection {

/// Hands one activity record of CUPTI to the recorder. Kernels, copies, memsets, allocations and
/// devices; what else there is, is left out. Reads layouts that CUDA 12.0 to 13 share.
void take(const CUpti_Activity& record, trace::Recorder& recorder);

/// "_Z3foov" as "foo()"; a name that is not mangled as it is.
[[nodiscard]] std::string demangled(const char* name);

}  // namespace ac_advisor::injection
