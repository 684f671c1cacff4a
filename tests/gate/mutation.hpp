#pragma once

#include <optional>
#include <random>
#include <string>

#include "gate/gate_folder.hpp"

namespace ac_advisor::test {

using Random = std::mt19937_64;

/// An index below `n`; the standard's distributions differ between libraries.
inline std::size_t below(Random& random, std::size_t n) {
  return static_cast<std::size_t>(random() % n);
}

/// Everything that a gate of one case reads.
struct Subject {
  Json gate;      ///< ac-advisor.json
  Json model;     ///< model/config.json
  Json baseline;  ///< baselines/case.json; null: none
};

/// One random change, and what its author knows of it.
struct Mutation {
  std::string what;                ///< for messages
  std::string cause;               ///< field of config.json, "--option", category; empty: no cause
  bool other_fingerprint = false;  ///< changed in the baseline's own fingerprint
  bool case_missing = false;       ///< the baseline has no case any more
  std::optional<std::string> figure;  ///< changed in the baseline
};

/// A gate of one model, with limits and options of its own; its baseline is not written yet.
[[nodiscard]] Subject random_subject(Random& random);
/// Changes one thing of it; `baseline` is what was written for it.
[[nodiscard]] Mutation mutate(Subject& subject, Random& random);

}  // namespace ac_advisor::test
