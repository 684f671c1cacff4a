#pragma once

#include <stdexcept>
#include <string>

namespace ac_advisor {

/// What the user can mend: a wrong file, field, option or combination. The message says what was
/// wrong, where (file, field, value) and what would be right. Caught once, in `main`: exit code 2.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ac_advisor
