#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "ac_advisor/trace/trace.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {

inline std::string fixture_path(const std::string& name) {
  return std::string(source_dir) + "/tests/trace/data/" + name;
}

inline std::string fixture(const std::string& name) {
  std::ifstream stream(fixture_path(name), std::ios::binary);
  REQUIRE(stream);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// All zero where there is none.
inline trace::Work work_of(const trace::Trace& trace, trace::Window window, trace::Phase phase) {
  for (const trace::Slice& slice : trace.slices)
    if (slice.window == window && slice.phase == phase) return slice.work;
  return {};
}

inline const trace::RangeTotal* range_of(const trace::Trace& trace, const std::string& path,
                                         trace::Window window, trace::Phase phase) {
  for (const trace::RangeTotal& range : trace.ranges)
    if (range.path == path && range.window == window && range.phase == phase) return &range;
  return nullptr;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ac_advisor::test
