#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"

/// A program run on an emulated device (src/emulator/), and what it did there as a Profile.
namespace ac_advisor::dryrun {

struct Request {
  std::vector<std::string> command;
  std::string gpu = "h100-80gb";
  /// Ranks that one process stands for one of; 1: what the program starts itself.
  std::int64_t world = 1, rank = 0;
  bool captures = false;  ///< the program is to find `ac_advisor.capture` without an installation
  std::string log;        ///< a file for what the program writes; empty: this process's streams
};

/// What one process left: counts of the preloaded library, and of PyTorch where it had it.
struct Record {
  struct Activity {
    std::string segment, activity;
    std::int64_t times = 0, bytes = 0;
  };
  struct Device {
    std::int64_t index = 0, peak = 0, total = 0, context = 0, failures = 0, failed = 0;
  };
  /// The caching allocator of one device, as it was last told.
  struct Allocator {
    std::int64_t device = 0, peak_allocated = 0, peak_reserved = 0, peak_step = 0;
    std::string peak_phase;
  };
  struct Kernel {
    std::int64_t step = 0, times = 0;
    std::string segment, name;
  };
  std::int64_t pid = 0, rank = 0;
  std::string command;
  std::vector<Device> devices;
  std::vector<Activity> activities;
  std::vector<Allocator> allocators;
  std::vector<profile::EmulatedStep> steps;
  std::vector<Kernel> step_kernels;
  std::optional<profile::OutOfMemory> out_of_memory;
  std::vector<std::string> notes, unanswered;
  std::string torch_version;  ///< empty: without PyTorch
  /// False: it was killed, crashed or became another program, and its figures are until it last
  /// told them: PyTorch's at a change of phase.
  bool ended = false;
  [[nodiscard]] std::int64_t peak() const;
};
/// Of the JSON lines that the library writes; a last one that is cut off is left out. Throws
/// UserError naming `origin` and the line.
[[nodiscard]] Record parse_record(const std::string& text, const std::string& origin);

struct Run {
  int exit_code = 0;  ///< the program's; 128 + the signal that ended it
  std::string ended;  ///< "exit code 1", "signal 11 (Segmentation fault)"
  std::vector<Record> records;

  /// The first function that was called and that nothing answers for; empty: none.
  [[nodiscard]] std::string unanswered() const;
};
/// Of the library that is preloaded, and of what Python loads with it (and `ac_advisor.capture`).
/// Throws UserError where this build has none.
[[nodiscard]] std::string emulator_folder();

/// Starts the program with the emulated device preloaded and waits. Its output is its own. Throws
/// UserError where it cannot be started or the library is not there.
[[nodiscard]] Run run(const Request& request);

/// The process that is rank `request.rank`, or that used most memory. Requires a record.
[[nodiscard]] const Record& record_of(const Run& run, const Request& request);
/// Of that process.
[[nodiscard]] profile::Profile profile_of(const Run& run, const Request& request);

}  // namespace ac_advisor::dryrun
