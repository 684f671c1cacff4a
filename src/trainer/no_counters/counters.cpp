// The headers of CUDA 13's CUPTI were not there when this was built.
#include "trainer/counters/counters.hpp"

namespace ac_advisor::trainer {

struct Counters::Session {};

std::unique_ptr<Counters> Counters::open(std::string& why_not) {
  why_not =
      "this build has no hardware counters: when it was built, cupti_range_profiler.h of CUDA 13 "
      "was not found. Install the toolkit's CUPTI (NVIDIA's package cuda-cupti-dev-13-0) and build "
      "again";
  return nullptr;
}
Counters::Counters(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Counters::~Counters() = default;
void Counters::begin(std::int64_t) {}
void Counters::push(const char*) {}
void Counters::pop() {}
Counted Counters::end() { return {}; }

}  // namespace ac_advisor::trainer
