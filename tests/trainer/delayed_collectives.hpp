#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/collectives/collectives.hpp"

namespace ac_advisor::test {

/// What delayed collectives have seen, of all ranks.
struct DelayedLog {
  std::mutex mutex;
  std::vector<std::string> faults;  ///< tensors that were touched while their collective ran
  std::int64_t begun = 0;           ///< collectives
  std::int64_t under_way = 0, most_under_way = 0;

  void fault(const std::string& what);
};

/// `inner`'s collectives, ended late and by another thread, as a device's are: until wait() the
/// results are NaN, whoever reads them too early computes NaN; wait() finds out whether tensors
/// were freed or written meanwhile. `log` outlives it.
[[nodiscard]] std::unique_ptr<trainer::Collectives> make_delayed(
    std::unique_ptr<trainer::Collectives> inner, DelayedLog& log);

}  // namespace ac_advisor::test
