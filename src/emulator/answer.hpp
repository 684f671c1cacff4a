#pragma once

/// Before each function that stands in for one of NVIDIA's: exported under its own name, without a
/// version, which satisfies versioned references too (glibc's do_lookup_x).
#define ANSWER extern "C" __attribute__((visibility("default")))

namespace emulator {

/// Ends the process: a function was called that nothing here answers for. Its name goes to stderr
/// and into the record; nothing is made up.
[[noreturn]] void unanswered(const char* function, const char* way_out = nullptr) noexcept;

/// What the program should know once, however often it happens: into the record.
void note_once(const char* text);

}  // namespace emulator
