#pragma once

#include <functional>
#include <map>
#include <vector>

#include "ac_advisor/simulate/measurements.hpp"
#include "trainer/executor.hpp"

namespace ac_advisor::trainer {

/// Waits until the device has done all that was issued; empty on a CPU, which runs what it issues.
using Finish = std::function<void()>;

/// How long a program is repeated.
struct Effort {
  double seconds = 1;
  int least = 3, most = 40;  ///< steps after the first, which warms the allocator up
};

/// One op's time on the device, and the host's to issue it (0 on a CPU: it is a part of the first).
struct OpTime {
  double seconds = 0, issue = 0;
};

/// Runs steps and reads the clock around every op.
class OpTimer {
 public:
  OpTimer(Executor& executor, Finish finish);
  ~OpTimer();
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

  /// The first op's time begins here.
  void begin();
  /// Each op's time, in the order of the program: the lower quartile of its times, since whatever
  /// else the machine does only ever adds to one (a measured profile shows the fastest step for the
  /// same reason). `run_step` runs one and calls begin() once its inputs are there.
  [[nodiscard]] std::vector<OpTime> measure(const std::function<void()>& run_step,
                                            const Effort& effort);

 private:
  [[nodiscard]] std::vector<double> repeat(const std::function<void()>& run_step,
                                           const Effort& effort);

  Executor& executor_;
  Finish finish_;
  bool waits_ = true;
  double overhead_ = 0;  ///< of one reading, with the wait for an idle device
  double last_ = 0;
  std::vector<double> seconds_;
};

/// All times measured of ops that look the same.
class Samples {
 public:
  /// One program's: ops of one signature become one sample, their mean.
  void add(const ir::Program& program, const std::vector<OpTime>& times);
  void add(const simulate::Signature& signature, OpTime time);
  /// Series in the order of their kinds; a point is the median of its samples, and sizes closer
  /// than a twentieth are one point.
  [[nodiscard]] std::vector<simulate::Series> series() const;

 private:
  using Name = std::array<int, 4>;
  std::map<Name, std::map<simulate::Size, std::vector<OpTime>>> samples_;
};

}  // namespace ac_advisor::trainer
