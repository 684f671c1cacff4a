#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ac_advisor::ir {

/// What planning costs, counted: the same on any machine, where seconds are not.
enum class Work : std::uint8_t {
  plans,          ///< of one rank each
  programs,       ///< that were built
  micro_batches,  ///< of them, written pass by pass
  repeated,       ///< and those that were written after the one before
  blocks,         ///< that torch.compile's passes were gone through for
  ops,            ///< of the programs
  walked_ops,     ///< by the allocator, by the counters of memory and by the clocks
};
inline constexpr std::size_t work_kinds = 7;
[[nodiscard]] const char* name_of(Work work);

/// Adds to what this process has done so far, on any thread.
void count(Work work, std::size_t amount = 1);
using WorkDone = std::array<std::int64_t, work_kinds>;
[[nodiscard]] WorkDone work_done();

}  // namespace ac_advisor::ir
