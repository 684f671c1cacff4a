#pragma once

#include <string>

namespace ac_advisor::trainer {

/// How a run ended that could not be measured.
struct Failure {
  int exit_code = 3;
  std::string message;
};

}  // namespace ac_advisor::trainer
