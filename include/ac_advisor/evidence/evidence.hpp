#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

/// How much of a configuration was compared with PyTorch's own steps (docs/evidence.md).
namespace ac_advisor::evidence {

/// What a configuration has that another may lack, each as a user would type or name it:
/// "--shard fsdp2", "--lora", "mixture of experts". Sizes are none: how many ranks, tokens or
/// micro-batches there are changes figures, not mechanisms.
[[nodiscard]] std::vector<std::string> features(const model::ModelSpec& spec,
                                                const StepConfig& config);

enum class Grade : std::uint8_t {
  verified,     ///< every three of its features were in one compared step
  composed,     ///< every two were
  extrapolated  ///< two were in none, or its family, or one of its features
};
inline constexpr std::array<const char*, 3> grade_names{"verified", "composed", "extrapolated"};
[[nodiscard]] const char* to_string(Grade grade);

struct Evidence {
  Grade grade = Grade::extrapolated;
  std::int64_t steps = 0;  ///< the fewest compared steps that any of its combinations was in
  /// What was never compared: "--lora × --kernels compiled × --shard fsdp2"; at most eight.
  std::vector<std::string> unseen;
  std::vector<std::int64_t> pair_steps;  ///< of the first of `unseen`, of three: of each two
  /// Of peak allocated memory: 95 % of this grade's steps are nearer, those of tests/oracle where
  /// it is verified, else those drawn at random (docs/evidence.md).
  double expected_error_percent = 0;
  bool operator==(const Evidence&) const = default;
};

/// By data/evidence.json.
[[nodiscard]] Evidence evidence_of(const model::ModelSpec& spec, const StepConfig& config);

/// Something of the plan that no option names was never compared: it is extrapolated.
void never_compared(Evidence& evidence, const std::string& what);

/// "composed; --lora × --kernels compiled × … was not compared, each pair was (27, 96, 101 steps):
/// ± 2 %".
[[nodiscard]] std::string sentence(const Evidence& evidence);

}  // namespace ac_advisor::evidence
