#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tool.hpp"

/// verl's keys, which verl.cpp, verl_batches.cpp and verl_critic.cpp read.
namespace ac_advisor::intake::verl_keys {

[[nodiscard]] std::string actor(std::string_view key);  ///< "actor_rollout_ref.actor.KEY"
[[nodiscard]] std::string model(std::string_view key);
[[nodiscard]] std::string rollout(std::string_view key);
[[nodiscard]] std::string fsdp(std::string_view key);  ///< the actor's fsdp_config

/// --world; what it comes to, by hand or by the file.
std::int64_t read_world(Keys& keys);
/// --prompt and --completion; the tokens of the longest row.
std::int64_t read_lengths(Keys& keys);
/// --batch, --grad-accum and --group.
void read_batches(Keys& keys, std::int64_t world, std::int64_t length);
/// --score-batch. `reference`: a worker of its own scores, too.
void read_score_batch(Keys& keys, bool reference, std::int64_t length);

/// --critic, --critic-batch and --critic-offload; what is planned of the actor alone is compared.
void read_critic(Keys& keys, std::int64_t length);

}  // namespace ac_advisor::intake::verl_keys
