#pragma once

#include <string>
#include <vector>

namespace ac_advisor::trace {

/// Variables of the environment that the injected library reads.
inline constexpr const char* trace_folder_variable = "AC_ADVISOR_TRACE_DIR";
inline constexpr const char* cupti_variable = "AC_ADVISOR_CUPTI";

/// The library that the CUDA driver loads into a traced program: what this build has of it.
struct Injection {
  std::string library;                       ///< its path; empty: there is none
  std::string reason;                        ///< why there is none, and what to do
  std::string built_with;                    ///< "CUPTI 13.0.1"; empty: without
  std::vector<std::string> cupti_libraries;  ///< where libcupti is looked for, in this order
};
[[nodiscard]] Injection injection();

}  // namespace ac_advisor::trace
