#pragma once

#include <functional>
#include <map>
#include <vector>

#include "ac_advisor/simulate/measurements.hpp"
#include "trainer/executor.hpp"

namespace ac_advisor::trainer {

/// How long a program is repeated.
struct Effort {
  double seconds = 1;
  int least = 3, most = 40;  ///< steps after the first, which warms the allocator up
};

/// One op's time on the device, and the host's to issue it (0 on a CPU: it is a part of the first).
struct OpTime {
  double seconds = 0, issue = 0;
};

/// Runs steps and reads the clock around every op: the host's on a CPU, which runs what it issues;
/// where the host runs ahead, events behind every op, in a queue that is held until it has filled.
class OpTimer {
 public:
  /// `events`: the second. The executor's backend has both.
  OpTimer(Executor& executor, bool events);
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
  /// An op's end follows its begin in the queue.
  struct Interval {
    ir::OpId op;
    std::size_t begin, end;  ///< marks of the backend
  };
  void observe(ir::OpId op);
  void hold();
  /// Of two marks with nothing in between.
  [[nodiscard]] double between_marks();
  [[nodiscard]] std::vector<double> repeat(const std::function<void()>& run_step,
                                           const Effort& effort);

  Executor& executor_;
  Backend& backend_;
  bool events_, by_events_;  ///< the device has them; they are what is read now
  double overhead_ = 0;      ///< of one reading
  double last_ = 0;
  std::size_t last_mark_ = 0;
  int since_hold_ = 0;
  std::vector<Interval> intervals_;
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
