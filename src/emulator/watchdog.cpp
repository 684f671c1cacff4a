#include "emulator/watchdog.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstring>

#include "emulator/answer.hpp"

namespace emulator {
namespace {

std::atomic<bool> held{false};

/// By the name that PyTorch gives it (torch 2.11, ProcessGroupNCCL.cpp, Watchdog::run).
bool is_watchdog() noexcept {
  std::array<char, 16> name{};
  return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
         std::strcmp(name.data(), "pt_nccl_watchdg") == 0;
}

}  // namespace

bool sees_ends() noexcept { return !held || !is_watchdog(); }

}  // namespace emulator

/// While it is held, nothing that NCCL's watchdog looks at has ended.
ANSWER void ac_advisor_emulator_hold_watchdog(int on) { emulator::held = on != 0; }
