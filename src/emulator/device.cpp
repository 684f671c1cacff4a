#include "emulator/device.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

namespace emulator {
namespace {

constexpr Capability capabilities[] = {
    {8, 0, 2048, 32, 167936, 166912, false, false}, {8, 6, 1536, 16, 102400, 101376, false, false},
    {8, 9, 1536, 24, 102400, 101376, false, false}, {9, 0, 2048, 32, 233472, 232448, true, true},
    {10, 0, 2048, 32, 233472, 232448, true, true},  {12, 0, 1536, 24, 102400, 101376, true, true},
};

Device read(const char* path) {
  Device d;
  if (path == nullptr) return d;
  std::ifstream file(path);
  const std::map<std::string, std::function<void(const std::string&)>> fields{
      {"name", [&](const std::string& v) { d.name = v; }},
      {"title", [&](const std::string& v) { d.title = v; }},
      {"total_bytes", [&](const std::string& v) { d.total_bytes = std::stoull(v); }},
      {"context_bytes", [&](const std::string& v) { d.context_bytes = std::stoull(v); }},
      {"l2_bytes", [&](const std::string& v) { d.l2_bytes = std::stoull(v); }},
      {"multiprocessors", [&](const std::string& v) { d.multiprocessors = std::stoi(v); }},
      {"major", [&](const std::string& v) { d.major = std::stoi(v); }},
      {"minor", [&](const std::string& v) { d.minor = std::stoi(v); }},
      {"clock_khz", [&](const std::string& v) { d.clock_khz = std::stoi(v); }},
      {"memory_clock_khz", [&](const std::string& v) { d.memory_clock_khz = std::stoi(v); }},
      {"memory_bus_bits", [&](const std::string& v) { d.memory_bus_bits = std::stoi(v); }},
  };
  for (std::string line; std::getline(file, line);) {
    const auto space = line.find(' ');
    const auto field = fields.find(line.substr(0, space));
    if (space == std::string::npos || field == fields.end()) continue;
    try {
      field->second(line.substr(space + 1));
    } catch (const std::exception&) {
      std::fprintf(stderr, "ac-advisor: %s: \"%s\" is no number\n", path, line.c_str());
      std::_Exit(70);
    }
  }
  return d;
}

Capability find(const Device& d) {
  for (const Capability& c : capabilities)
    if (c.major == d.major && c.minor == d.minor) return c;
  std::fprintf(stderr, "ac-advisor: no device of compute capability %d.%d can be emulated\n",
               d.major, d.minor);
  std::_Exit(70);
}

}  // namespace

const Device& device() {
  static const auto* d = new Device(read(std::getenv("AC_ADVISOR_EMULATOR_DEVICE")));
  return *d;
}

const Capability& capability() {
  static const auto* c = new Capability(find(device()));
  return *c;
}

int device_count() {
  static const int count = [] {
    const char* text = std::getenv("AC_ADVISOR_EMULATOR_DEVICES");
    const int n = text == nullptr ? 1 : std::atoi(text);
    return n < 1 ? 1 : n;
  }();
  return count;
}

int& current_device() {
  thread_local int index = 0;
  return index;
}

}  // namespace emulator
