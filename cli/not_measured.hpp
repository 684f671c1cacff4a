#pragma once

#include <stdexcept>

namespace ac_advisor::cli {

/// Nothing was measured, and no argument would change that. Caught once, in `main`: exit code 3.
class NotMeasured : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ac_advisor::cli
