#include "trainer/counters/add_counters.hpp"

namespace ac_advisor::trainer {
void add_counters(profile::Profile& profile, const Counted& counted) {
  if (!profile.instruments) profile.instruments.emplace();
  profile.absent.erase("instruments");
  if (!counted.why_not.empty()) {
    for (const char* field : profile::counted_fields) profile.absent[field] = counted.why_not;
    return;
  }
  for (const char* field : profile::counted_fields) profile.absent.erase(field);
  profile.absent.erase("kernels.bytes");
  profile::Instruments& instruments = *profile.instruments;
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i)
    for (const RangeTraffic& range : counted.ranges) {
      if (range.name != profile::phase_names[i]) continue;
      instruments.dram_read_bytes[i] = range.dram_read_bytes;
      instruments.dram_write_bytes[i] = range.dram_write_bytes;
      profile.kernels.bytes[i] = range.dram_read_bytes + range.dram_write_bytes;
      if (range.dram_percent_of_peak)
        instruments.dram_percent_of_peak[i] = *range.dram_percent_of_peak;
      else
        profile.absent["instruments.dram_percent_of_peak"] =
            "the byte counters alone fit one pass on this device, and a step is run once";
    }
}

}  // namespace ac_advisor::trainer
