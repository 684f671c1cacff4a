#pragma once

#include <string>
#include <vector>

namespace emulator::cudnn {

/// The kernels that an execution plan launches, in order, from the plan's own JSON
/// (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION). A plan of an engine that is not compiled at
/// runtime names none: then there is one, of the engine's number and choices.
std::vector<std::string> kernels_of_plan(const std::string& json);

}  // namespace emulator::cudnn
