#include "ac_advisor/ir/work.hpp"

#include <atomic>

namespace ac_advisor::ir {
namespace {

std::array<std::atomic<std::int64_t>, work_kinds> done;

}  // namespace

const char* name_of(Work work) {
  constexpr std::array<const char*, work_kinds> names{
      "plans", "programs", "micro_batches", "repeated", "blocks", "ops", "walked_ops"};
  return names[static_cast<std::size_t>(work)];
}

void count(Work work, std::size_t amount) {
  done[static_cast<std::size_t>(work)].fetch_add(static_cast<std::int64_t>(amount),
                                                 std::memory_order_relaxed);
}

WorkDone work_done() {
  WorkDone now{};
  for (std::size_t i = 0; i < work_kinds; ++i) now[i] = done[i].load(std::memory_order_relaxed);
  return now;
}

}  // namespace ac_advisor::ir
