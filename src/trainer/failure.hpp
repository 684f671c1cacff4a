#pragma once

#include <string>

namespace ac_advisor::trainer {

/// How a run ended that could not be measured.
struct Failure {
  int exit_code = 3;
  std::string message;
};

/// What LibTorch's exceptions say before their stack traces.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace ac_advisor::trainer
