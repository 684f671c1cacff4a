#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Hardware counters of what runs between a push and a pop: memory traffic as the device counts it.
/// In a build without CUPTI's headers `open` says so, and nothing else is there.
namespace ac_advisor::trainer {

/// All ranges of one name, added up.
struct RangeTraffic {
  std::string name;
  double dram_read_bytes = 0, dram_write_bytes = 0;
  /// Of the DRAM's peak, over the ranges' time; empty: not counted in the same pass.
  std::optional<double> dram_percent_of_peak;
  std::optional<double> seconds;  ///< of the device, from each range's first work to its last
  std::int64_t ranges = 0;
};

struct Counted {
  std::vector<RangeTraffic> ranges;  ///< in the order that the names came in
  std::string why_not;               ///< not empty: nothing was counted, and what would mend it
};

/// One CUDA context's counters, in one pass: nothing is run twice. Not thread-safe; all calls from
/// the thread whose context is counted. While ranges are counted the device runs slower.
class Counters {
 public:
  /// For the context that is current in this thread. nullptr: `why_not` says what is missing.
  [[nodiscard]] static std::unique_ptr<Counters> open(std::string& why_not);
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  /// The device should be idle. `most_ranges`: how often push will be called until end.
  void begin(std::int64_t most_ranges);
  void push(const char* range);
  /// Of the range that is open; there is one at a time.
  void pop();
  /// Waits for the device. What failed since begin is told here; afterwards begin may be called
  /// again.
  [[nodiscard]] Counted end();

 private:
  struct Session;
  explicit Counters(std::unique_ptr<Session> session);
  std::unique_ptr<Session> session_;
};

}  // namespace ac_advisor::trainer
