#pragma once

#include <string>

#include "trainer/rank.hpp"

namespace ac_advisor::trainer {

/// Writes this rank's state, `<folder>/rank<r>.safetensors`: parameters or shards, optimizer state,
/// the number of steps done and what it was made with. Whole or not at all.
void save_checkpoint(Rank& rank, const std::string& folder);
/// Goes on where `save_checkpoint` stood; the next steps are bit for bit those of a run that was
/// not interrupted. Throws UserError where the file is of another configuration.
void load_checkpoint(Rank& rank, const std::string& folder);

}  // namespace ac_advisor::trainer
