// A process that becomes another program ends no library: what it did to the device is told before.
#include <dlfcn.h>
#include <unistd.h>

#include "emulator/answer.hpp"
#include "emulator/record.hpp"

namespace {

/// The C library's own, found before there are threads: exec may be called between vfork and exec.
template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}
using WithoutEnvironment = int (*)(const char*, char* const*);
using WithEnvironment = int (*)(const char*, char* const*, char* const*);
const auto next_execv = next<WithoutEnvironment>("execv");
const auto next_execvp = next<WithoutEnvironment>("execvp");
const auto next_execve = next<WithEnvironment>("execve");
const auto next_execvpe = next<WithEnvironment>("execvpe");

}  // namespace

ANSWER int execv(const char* file, char* const words[]) noexcept {
  emulator::record::tell_counters();
  return next_execv(file, words);
}
ANSWER int execvp(const char* file, char* const words[]) noexcept {
  emulator::record::tell_counters();
  return next_execvp(file, words);
}
ANSWER int execve(const char* file, char* const words[], char* const environment[]) noexcept {
  emulator::record::tell_counters();
  return next_execve(file, words, environment);
}
ANSWER int execvpe(const char* file, char* const words[], char* const environment[]) noexcept {
  emulator::record::tell_counters();
  return next_execvpe(file, words, environment);
}
