// Whatever the bytes, a snapshot is read or refused by UserError; what is read can be analyzed, and
// its categories sum to its peak.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/snapshot.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ac_advisor;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const snapshot::Snapshot file = snapshot::read_bytes(bytes, "fuzz");
    const snapshot::Analysis analysis = snapshot::analyze(file);
    snapshot::Bytes sum = 0;
    for (const snapshot::Bytes part : analysis.at_peak) sum += part;
    if (sum != analysis.peak_allocated) __builtin_trap();
    static_cast<void>(reports::table(analysis, {}));
    static_cast<void>(reports::json(analysis));
  } catch (const UserError&) {
    // the answer to bad input
  }
  return 0;
}
