#include <cstdint>

#include "emulator/answer.hpp"

/// CUPTI: there is nothing to trace. Every function says that it is not permitted, which profilers
/// know from machines where counters are for root alone.
namespace {

constexpr int success = 0, insufficient_privileges = 35;
constexpr std::uint32_t api_version = 26;  // CUPTI of CUDA 13.0

}  // namespace

ANSWER int cuptiGetVersion(std::uint32_t* version) {
  *version = api_version;
  return success;
}
ANSWER int cuptiGetResultString(int, const char** text) {
  *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (the device is emulated)";
  return success;
}
ANSWER int cuptiGetErrorMessage(int status, const char** text) {
  return cuptiGetResultString(status, text);
}

#define REFUSED(name) \
  ANSWER int name() { return insufficient_privileges; }
#include "emulator/cupti/refused.inc"
#undef REFUSED
