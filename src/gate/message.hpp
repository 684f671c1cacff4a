#pragma once

#include <string>

#include "ac_advisor/gate/baseline.hpp"
#include "ac_advisor/gate/verdict.hpp"
#include "ac_advisor/intake/training.hpp"

/// The sentences of verdicts.
namespace ac_advisor::gate::message {

/// "ac-advisor check --update --only llama-1b"
[[nodiscard]] std::string update_command(const GateFile& file, const std::string& case_name);
/// "num_hidden_layers 16 → 18, --ac full → none and 3 more"
[[nodiscard]] std::string changes(const std::vector<profile::FieldChange>& fields);
/// "peak_allocated 30.178 GiB → 33.201 GiB (+3.023 GiB, +10.0 %)"
[[nodiscard]] std::string moved(Figure figure, std::int64_t base, std::int64_t now);

[[nodiscard]] std::string exceeded(const Verdict& verdict, const Limit& limit);
[[nodiscard]] std::string improved(const Verdict& verdict);
[[nodiscard]] std::string no_baseline(const GateFile& file, const Case& c);
[[nodiscard]] std::string other_fingerprint(const GateFile& file, const Case& c,
                                            const Verdict& verdict);

/// " configs/sft.yaml:7 has sequence_len: 4096."
[[nodiscard]] std::string training_key(const intake::Training& training,
                                       const intake::Mapping& key);

}  // namespace ac_advisor::gate::message
