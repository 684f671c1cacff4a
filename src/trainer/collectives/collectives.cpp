#include "trainer/collectives/collectives.hpp"

#include <chrono>
#include <thread>

#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {

double Collectives::average(double value) {
  const MemoryTracker::Scope outside(nullptr);
  const at::Tensor number = at::full({1}, value, at::kDouble);
  complete(all_reduce(number, all()));
  return number.item<double>();
}

void Collectives::wait_for_device(const std::function<bool()>& done) {
  while (!done()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace ac_advisor::trainer
