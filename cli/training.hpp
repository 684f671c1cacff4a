#pragma once

#include "cli/arguments.hpp"
#include "cli/commands.hpp"

/// MODEL that is a training file of another tool: what the commands see is its model and its
/// options.
namespace ac_advisor::cli {

/// The arguments with MODEL and options of the file, over which those by hand stay; unchanged where
/// MODEL is none. Throws UserError of intake::read_training, or where the file's model is not here.
[[nodiscard]] Arguments with_training(Arguments arguments);
/// The result with what the file's keys became: a table after plan's, "training" in JSON.
[[nodiscard]] Result tell_training(const Arguments& arguments, Result result);
/// explain FILE --mapping: a table, or the "training" of plan's JSON alone. Throws UserError for
/// other formats.
[[nodiscard]] std::string mapping_of(const Arguments& arguments);

}  // namespace ac_advisor::cli
