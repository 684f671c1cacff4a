#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "history.hpp"

namespace ac_advisor::snapshot {

/// What the program does while an event happens; indices of profile::phase_names but for setup.
enum class Phase : std::uint8_t { forward, loss, backward, recompute, optimizer, setup };

struct Step {
  std::int64_t begin = 0, end = 0;  ///< events [begin, end)
  bool complete = false;            ///< has a backward, and its begin and end were both seen
};

/// The steps of a history, and the phase of each of its events.
struct Steps {
  std::vector<Step> steps;
  std::vector<Phase> phases;               ///< by event
  std::vector<std::int64_t> backward_end;  ///< by event of a backward: where that backward ends
  std::vector<std::int64_t> last_alloc;    ///< by event of a backward: its last allocation
  std::vector<bool> in_zero_grad;          ///< by event: what it frees is a gradient
  bool from_stacks = false;                ///< phases are told by stacks, not by the curve alone
  std::string how;                         ///< a sentence: what told where a step ends
};

/// `live`: allocated bytes after each event.
[[nodiscard]] Steps find_steps(const Snapshot& snapshot, const History& history,
                               const std::vector<std::uint16_t>& marks,
                               const std::vector<std::int64_t>& live);

}  // namespace ac_advisor::snapshot
