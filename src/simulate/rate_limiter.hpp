#pragma once

#include <algorithm>
#include <deque>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::simulate {

/// FSDP1's limit_all_gathers (torch/distributed/fsdp/_limiter_utils.py, v2.11): where two flat
/// parameters have been freed that no gather has waited for, the host waits until the device is
/// done with the older.
class RateLimiter {
 public:
  void free(double end) { freed_.push_back(end); }
  /// When the host may issue a gather.
  double gather(double host) {
    constexpr std::size_t most_in_flight = 2;
    if (freed_.size() < most_in_flight) return host;
    const double end = freed_.front();
    freed_.pop_front();
    return std::max(host, end);
  }

 private:
  std::deque<double> freed_;
};

/// Whether the op gathers or frees a flat parameter.
inline bool of_flat_parameter(const ir::Program& p, const ir::Op& op) {
  if (op.module.leaf != ir::Module::fsdp || op.inputs == 0) return false;
  const ir::Storage& storage = p.storage(p.storage_of(p.input(op, 0)));
  return storage.role == ir::Role::gathered && storage.module.leaf == ir::Module::fsdp;
}

}  // namespace ac_advisor::simulate
