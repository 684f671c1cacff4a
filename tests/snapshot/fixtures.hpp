#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ac_advisor/snapshot/analysis.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {

/// A file that make_snapshots.py wrote.
inline std::string snapshot_path(const std::string& name) {
  return std::string(source_dir) + "/tests/snapshot/data/" + name;
}

/// What a counter saw while the file was made.
inline nlohmann::json expected_of(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(snapshot_path("expected.json"))).at(name);
}

inline snapshot::Analysis analyzed(const std::string& name) {
  return snapshot::analyze(snapshot::read(snapshot_path(name)));
}

/// Bytes by category, only those that are not 0.
inline nlohmann::json at_peak(const snapshot::Analysis& a) {
  nlohmann::json found = nlohmann::json::object();
  for (std::size_t c = 0; c < a.at_peak.size(); ++c)
    if (a.at_peak[c] != 0)
      found[profile::to_string(static_cast<profile::Category>(c))] = a.at_peak[c];
  return found;
}

}  // namespace ac_advisor::test
