#pragma once

#include <string>

namespace ac_advisor::capture {

/// An interpreter that has PyTorch and transformers.
struct Python {
  std::string path;
  std::string torch, transformers;  ///< versions, as their packages say
};

/// The first of `given` (--python), AC_ADVISOR_PYTHON, VIRTUAL_ENV's, python3 of PATH and the one
/// that `how_to_make_one` makes that has both; of the first two no other is tried. What one has is
/// kept in the cache until its packages' folders change. Throws UserError that ends with that
/// command.
[[nodiscard]] Python find_python(const std::string& given);

/// The command.
[[nodiscard]] std::string how_to_make_one();

}  // namespace ac_advisor::capture
