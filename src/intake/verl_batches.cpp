// How verl (0.9.1) counts: prompts of a mini-batch, rows of a micro-batch, tokens of a dynamic one.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "ac_advisor/model/option_table.hpp"
#include "verl_keys.hpp"

namespace ac_advisor::intake::verl_keys {
namespace {

/// What options come to so far, by hand or by the file.
StepConfig said(const Keys& keys, std::initializer_list<const char*> options) {
  StepConfig config;
  for (const char* name : options) {
    const OptionRow& row = *find_option(name);
    if (const std::string value = keys.value_of(name); !value.empty())
      row.parse(row, name, value, config);
  }
  return config;
}

}  // namespace

std::string actor(std::string_view key) { return fmt::format("actor_rollout_ref.actor.{}", key); }
std::string model(std::string_view key) { return fmt::format("actor_rollout_ref.model.{}", key); }
std::string rollout(std::string_view key) {
  return fmt::format("actor_rollout_ref.rollout.{}", key);
}
std::string fsdp(std::string_view key) { return actor(fmt::format("fsdp_config.{}", key)); }

std::int64_t read_world(Keys& keys) {
  constexpr const char* gpus = "trainer.n_gpus_per_node";
  constexpr const char* nodes = "trainer.nnodes";
  const bool of_node = keys.left_open(gpus, "--world"), of_all = keys.left_open(nodes, "--world");
  if (!of_node && !of_all)
    keys.option(gpus, "--world", std::to_string(keys.count(gpus, 8) * keys.count(nodes, 1)));
  return std::max<std::int64_t>(1, keys.world());
}

/// Tokens of the longest row. rollout's lengths are data's unless they stand there.
std::int64_t read_lengths(Keys& keys) {
  const auto key_of = [&](const char* ours, const char* datas) {
    return keys.in_file(rollout(ours)) ? rollout(ours) : std::string(datas);
  };
  const std::string prompt = key_of("prompt_length", "data.max_prompt_length");
  const std::string response = key_of("response_length", "data.max_response_length");
  if (!keys.left_open(prompt, "--prompt"))
    keys.option(prompt, "--prompt", std::to_string(keys.count(prompt, 512)));
  if (keys.by_hand("--seq") && !keys.by_hand("--completion")) {
    static_cast<void>(keys.node(response));
    keys.assume(response + ": --seq by hand less --prompt is planned instead");
    return std::max<std::int64_t>(1, said(keys, {"--seq"}).run.seq);
  }
  if (!keys.left_open(response, "--completion"))
    keys.option(response, "--completion", std::to_string(keys.count(response, 512)));
  const TaskChoice task = said(keys, {"--prompt", "--completion"}).task;
  return std::max<std::int64_t>(1, task.prompt + task.completion);
}

namespace {

std::int64_t rows_of(Keys& keys, const std::string& key, std::int64_t length) {
  const std::int64_t tokens = keys.number(key).value_or(16384);
  if (tokens < 1) keys.refuse(key, "is 1 token at least");
  return std::max<std::int64_t>(1, tokens / length);
}

/// Rows of a micro-batch. With use_dynamic_bsz it has as many as its tokens are.
void read_micro_batch(Keys& keys, bool dynamic, std::int64_t length) {
  const std::string key =
      actor(dynamic ? "ppo_max_token_len_per_gpu" : "ppo_micro_batch_size_per_gpu");
  if (keys.left_open(key, "--batch")) return;
  if (dynamic) {
    keys.option(key, "--batch", std::to_string(rows_of(keys, key, length)));
    keys.assume(fmt::format(
        "{}: a micro-batch is planned as the longest rows, {} tokens each, that it has room for, "
        "one at least",
        key, length));
  } else if (keys.text(key)) {
    keys.option(key, "--batch", std::to_string(keys.count(key, 1)));
  } else if (!keys.by_hand("--batch")) {
    keys.refuse(key, "none: verl asks for it unless use_dynamic_bsz is true; or give --batch N");
  }
}

/// engine_workers.py, train_mini_batch: ppo_mini_batch_size x rollout.n rows over all ranks, in
/// micro-batches; workers/engine/utils.py, prepare_micro_batches: of the same size.
void read_mini_batch(Keys& keys, bool dynamic, std::int64_t world) {
  const std::string mini = actor("ppo_mini_batch_size"),
                    micro = actor("ppo_micro_batch_size_per_gpu"), n = rollout("n");
  constexpr const char* train = "data.train_batch_size";
  const bool open = keys.left_open(n, "--group");
  const std::int64_t group =
      std::max<std::int64_t>(1, open ? said(keys, {"--group"}).task.group : keys.count(n, 1));
  const std::int64_t batch = said(keys, {"--batch"}).run.batch;
  if (!keys.left_open(mini, "--grad-accum")) {
    const std::int64_t prompts = keys.count(mini, 256), rows = prompts * group;
    const bool by_hand = keys.by_hand("--grad-accum");
    if (const Node* given = keys.node(train);
        given != nullptr && given->unset.empty() && !dynamic && keys.count(train, 1) < prompts)
      keys.refuse(train, fmt::format("is below {}, {}", mini, prompts));
    if (!by_hand && rows % world != 0)
      keys.refuse(mini, fmt::format("times rollout.n, {}, is {} rows a step, which {} ranks do "
                                    "not share evenly",
                                    group, rows, world));
    const std::int64_t of_rank = rows / world;
    if (!by_hand && !dynamic && of_rank % batch != 0)
      keys.refuse(keys.in_file(micro) ? micro : mini,
                  fmt::format("a rank trains on {} rows a step (ppo_mini_batch_size x rollout.n / "
                              "{} ranks), no multiple of a micro-batch's {}",
                              of_rank, world, batch));
    keys.option(mini, "--grad-accum",
                std::to_string(std::max<std::int64_t>(1, (of_rank + batch - 1) / batch)));
  }
  if (open) return;
  const std::int64_t accumulated = said(keys, {"--grad-accum"}).run.grad_accum;
  if ((batch % group) * (accumulated % group) % group * (world % group) % group == 0)
    keys.option(n, "--group", std::to_string(group));
  else
    keys.assume(n +
                ": left out, for the rows that are planned are no whole groups; it changes no "
                "memory");
}

}  // namespace

void read_batches(Keys& keys, std::int64_t world, std::int64_t length) {
  const bool dynamic = keys.flag(actor("use_dynamic_bsz"));
  read_micro_batch(keys, dynamic, length);
  read_mini_batch(keys, dynamic, world);
}

/// Rows that are scored at once: the actor's own, or the reference's where those are more.
void read_score_batch(Keys& keys, bool reference, std::int64_t length) {
  const bool dynamic = keys.flag(actor("use_dynamic_bsz"));
  const std::string asked = rollout("log_prob_use_dynamic_bsz");
  if (keys.in_file(asked) && keys.flag(asked) != dynamic)
    keys.refuse(asked, "verl asks for the value of actor.use_dynamic_bsz here");
  const auto rows_in = [&](const std::string& section, bool by_tokens) -> std::int64_t {
    const std::string key = section + (by_tokens ? "log_prob_max_token_len_per_gpu"
                                                 : "log_prob_micro_batch_size_per_gpu");
    if (keys.left_open(key, "--score-batch")) return 0;
    if (!keys.in_file(key)) {
      static_cast<void>(keys.node(key));
      if (by_tokens && keys.in_file(actor("ppo_max_token_len_per_gpu")))
        keys.resolved(key, keys.node(actor("ppo_max_token_len_per_gpu"))->shown());
      return 0;
    }
    return by_tokens ? rows_of(keys, key, length) : keys.count(key, 1);
  };
  const std::string section = "actor_rollout_ref.ref.";
  const std::string key =
      rollout(dynamic ? "log_prob_max_token_len_per_gpu" : "log_prob_micro_batch_size_per_gpu");
  const std::int64_t given = rows_in(rollout(""), dynamic);
  const std::int64_t own = given > 0 ? given : said(keys, {"--batch"}).run.batch;
  std::int64_t theirs = 0;
  if (reference) {
    const std::string by_tokens = section + "log_prob_use_dynamic_bsz";
    theirs = rows_in(section, keys.in_file(by_tokens) ? keys.flag(by_tokens) : dynamic);
  }
  const std::int64_t rows = std::max(own, theirs);
  if (theirs > 0 && theirs != own)
    keys.assume(
        fmt::format("{}: the reference's micro-batch is another; both are planned with the "
                    "larger one's {} rows",
                    key, rows));
  if (given > 0 || rows != own) keys.option(key, "--score-batch", std::to_string(rows));
}

}  // namespace ac_advisor::intake::verl_keys
