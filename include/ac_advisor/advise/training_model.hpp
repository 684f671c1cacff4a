#pragma once

#include <string>

#include "ac_advisor/intake/training.hpp"

namespace ac_advisor::advise {

/// MODEL of a training file: the configuration that its keys make, what stands beside it, the
/// sample of a framework's flavor, or what its key says (a built-in name, a repository in Hugging
/// Face's cache). Throws UserError naming file and key where none of these is here.
[[nodiscard]] std::string training_model(const intake::Training& training);

}  // namespace ac_advisor::advise
