#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/counters/cupti/api.hpp"

namespace ac_advisor::trainer::counters {

/// In this order in `Metrics::names`; those after the two byte counters may be missing.
inline constexpr const char* metric_names[] = {"dram__bytes_read.sum", "dram__bytes_write.sum",
                                               "dram__throughput.avg.pct_of_peak_sustained_elapsed",
                                               "gpu__time_duration.sum"};
inline constexpr std::size_t byte_counters = 2, percent_index = 2, duration_index = 3;

/// CUPTI's host side for one chip: what is counted, the image that configures the device for it,
/// and the values of what was counted.
class Metrics {
 public:
  /// All metrics where they fit one pass, else the byte counters alone. nullptr: `why_not` says.
  /// `availability`: of the context, as CUPTI told it; empty: not known.
  [[nodiscard]] static std::unique_ptr<Metrics> make(const Api& api, const std::string& chip,
                                                     const std::vector<std::uint8_t>& availability,
                                                     std::string& why_not);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  [[nodiscard]] std::vector<const char*>& names() { return names_; }
  [[nodiscard]] const std::vector<std::uint8_t>& config() const { return config_; }
  /// Values of one range, in the order of `names`. Empty: all is well.
  [[nodiscard]] std::string evaluate(const std::vector<std::uint8_t>& image, std::size_t range,
                                     std::vector<double>& values);

 private:
  explicit Metrics(const Api& api) : api_(api) {}
  std::string configure(const std::string& chip, const std::vector<std::uint8_t>& availability,
                        std::size_t metrics);

  const Api& api_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  std::vector<const char*> names_;
  std::vector<std::uint8_t> config_;
};

}  // namespace ac_advisor::trainer::counters
