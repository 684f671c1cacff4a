// verl's overrides: what each becomes. Defaults: data/tools/verl.json, of verl 0.9.1's own YAML.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "ac_advisor/intake/training.hpp"
#include "intake/mapped.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

intake::Training read(const std::string& overrides, const OptionList& given = {},
                      const std::vector<std::string>& ignore = {}) {
  return intake::read_training({"run.sh", "", given, ignore},
                               "python3 -m verl.trainer.main_ppo " + overrides + "\n");
}

std::string why(const std::string& overrides, const OptionList& given = {},
                const std::vector<std::string>& ignore = {}) {
  return why_not([&] { return read(overrides, given, ignore); });
}

/// Eight ranks, 256 x 2 rows a step: 64 a rank, 16 micro-batches of 4.
const std::string grpo =
    "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B "
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=2 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 ";

}  // namespace

TEST_CASE("verl: overrides become options, and what they leave out verl's own defaults") {
  const intake::Training t = read(grpo);
  CHECK(t.tool == "verl");
  CHECK(t.version == "verl 0.9.1");
  CHECK(t.model == "Qwen/Qwen2.5-7B");
  CHECK(option(t, "--framework") == "verl");
  CHECK(option(t, "--task") == "grpo");
  CHECK(option(t, "--world") == "8");
  CHECK(option(t, "--prompt") == "512");
  CHECK(option(t, "--completion") == "512");
  CHECK(option(t, "--batch") == "4");
  CHECK(option(t, "--grad-accum") == "16");
  CHECK(option(t, "--group") == "2");
  CHECK(option(t, "--shard") == "fsdp1");
  CHECK(option(t, "--phase-offload").empty());
  CHECK(option(t, "--param-dtype") == "fp32");
  CHECK(option(t, "--ac") == "full");
  CHECK(option(t, "--ref") == "none");
  CHECK(option(t, "--optimizer") == "adamw-foreach");
  CHECK(option(t, "--clip-grad") == "1.0");
  CHECK(option(t, "--rollout") == "vllm:tp2,util=0.5,sleep=2");
  CHECK(option(t, "--score-batch").empty());
  CHECK(t.unknown.empty());
  for (const intake::Mapping& m : t.mapping)
    if (m.key == "actor_rollout_ref.actor.optim.clip_grad") {
      CHECK(m.line == 0);
      CHECK(m.source == "verl/trainer/config/optim/fsdp.yaml");
    }
}

TEST_CASE("verl: a report's settings as YAML, by paths or nested, are the same options") {
  if (!test::has_yaml) return;
  // verl-project/verl#2820; a flag that its reporter typed as 16 is refused.
  const std::string text =
      "algorithm.adv_estimator: grpo\ndata.train_batch_size: 512\ndata.max_prompt_length: 512\n"
      "data.max_response_length: 1024\nactor_rollout_ref.model.path: Qwen/Qwen2.5-7B\n"
      "actor_rollout_ref.actor.ppo_mini_batch_size: 512\n"
      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: 8\n"
      "actor_rollout_ref.actor.use_kl_loss: true\nactor_rollout_ref.actor.entropy_coeff: 0\n"
      "actor_rollout_ref:\n  rollout:\n    log_prob_micro_batch_size_per_gpu: 8\n"
      "    tensor_model_parallel_size: 2\n";
  const intake::Training t = intake::read_training({"grpo.yaml", "", {}, {}}, text);
  CHECK(option(t, "--completion") == "1024");
  CHECK(option(t, "--batch") == "8");
  CHECK(option(t, "--grad-accum") == "8");  // 512 x 1 / 8 ranks / 8
  CHECK(option(t, "--group") == "1");
  CHECK(option(t, "--ref") == "model");
  CHECK(option(t, "--score-batch") == "8");
  CHECK(option(t, "--rollout") == "vllm:tp2,util=0.5,sleep=2");
  CHECK(assumes(t, "rollout.name: none"));
  CHECK_THROWS_WITH_AS(
      static_cast<void>(intake::read_training(
          {"grpo.yaml", "", {}, {}}, text + "actor_rollout_ref.model.use_remove_padding: 16\n")),
      doctest::Contains("grpo.yaml:14: actor_rollout_ref.model.use_remove_padding: 16: is neither "
                        "true nor false"),
      UserError);
}

TEST_CASE("verl: dynamic batches are as many of the longest rows as their tokens are") {
  const std::string dynamic = grpo + "actor_rollout_ref.actor.use_dynamic_bsz=True ";
  const intake::Training t = read(dynamic +
                                  "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=5000 "
                                  "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=9000");
  CHECK(option(t, "--batch") == "4");        // 5000 / 1024
  CHECK(option(t, "--score-batch") == "8");  // 9000 / 1024
  CHECK(option(t, "--grad-accum") == "16");
  CHECK(assumes(t, "the longest rows, 1024 tokens each"));
  const intake::Training small =
      read(dynamic + "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=100");
  CHECK(option(small, "--batch") == "1");
  // 64 rows in micro-batches of 5 are 13; 13 x 5 x 8 rows are no groups of 3.
  const intake::Training odd =
      read(dynamic +
           "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=5120 "
           "actor_rollout_ref.rollout.n=3 actor_rollout_ref.actor.ppo_mini_batch_size=64");
  CHECK(option(odd, "--grad-accum") == "5");  // 24 rows
  CHECK(option(odd, "--group").empty());
  CHECK(contains(why(dynamic + "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=False"),
                 "asks for the value of actor.use_dynamic_bsz"));
}

TEST_CASE("verl: batches that its workers would refuse are refused with the numbers") {
  CHECK(contains(why(grpo + "actor_rollout_ref.actor.ppo_mini_batch_size=9 "
                            "actor_rollout_ref.rollout.n=5"),
                 "run.sh:1: actor_rollout_ref.actor.ppo_mini_batch_size: 9: times rollout.n, 5, is "
                 "45 rows a step, which 8 ranks do not share evenly"));
  CHECK(contains(why(grpo + "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=7"),
                 "a rank trains on 64 rows a step"));
  CHECK(contains(why(grpo + "data.train_batch_size=128"),
                 "is below actor_rollout_ref.actor.ppo_mini_batch_size, 256"));
  CHECK(contains(why("algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=2"),
                 "ppo_micro_batch_size_per_gpu: none"));
  CHECK(contains(why(grpo + "actor_rollout_ref.rollout.tensor_model_parallel_size=3"),
                 "does not divide 8 ranks"));
  CHECK(contains(why(grpo + "actor_rollout_ref.rollout.gpu_memory_utilization=1.5"),
                 "is above 0 and below 1"));
  const intake::Training t = read(grpo, {{"--world", "4"}, {"--batch", "8"}});
  CHECK(option(t, "--grad-accum") == "16");  // 256 x 2 / 4 / 8
}

TEST_CASE("verl: FSDP's settings, and what waits on the host") {
  const std::string two = grpo + "actor_rollout_ref.actor.strategy=fsdp2 ";
  const std::string config = "actor_rollout_ref.actor.fsdp_config.";
  const intake::Training t =
      read(two + config + "param_offload=True " + config + "optimizer_offload=True " + config +
           "model_dtype=bfloat16 " + config + "reshard_after_forward=False " + "+" + config +
           "mixed_precision.reduce_dtype=bf16");
  CHECK(option(t, "--shard") == "fsdp2");
  CHECK(option(t, "--phase-offload") == "all");
  CHECK(option(t, "--param-dtype") == "bf16");
  CHECK(option(t, "--reshard-after-forward") == "false");
  CHECK(option(t, "--reduce-dtype") == "bf16");
  CHECK(option(read(grpo + config + "optimizer_offload=True"), "--phase-offload") == "optimizer");
  CHECK(contains(why(grpo + config + "param_offload=True"), "optimizer_offload: True moves both"));
  CHECK(option(read(two + config + "fsdp_size=4"), "--shard") == "hsdp:4");
  CHECK(option(read(two + config + "fsdp_size=8"), "--shard") == "fsdp2");
  CHECK(contains(why(two + config + "fsdp_size=3"), "does not divide 8 ranks"));
  CHECK(contains(why(grpo + config + "fsdp_size=4"), "FSDP1's hybrid shards"));
  const intake::Training other = read(grpo + config + "strategy=fsdp2");
  CHECK(option(other, "--shard") == "fsdp1");
  CHECK(assumes(other, "actor.strategy, fsdp, takes its place"));
}

TEST_CASE("verl: with adapters the reference is the actor, and the engine sleeps at level 1") {
  const std::string lora = grpo + "actor_rollout_ref.model.lora_rank=32 ";
  const intake::Training t =
      read(lora +
           "actor_rollout_ref.actor.use_kl_loss=True "
           "actor_rollout_ref.model.target_modules='[\"q_proj\",\"v_proj\"]'");
  CHECK(option(t, "--lora") == "32");
  CHECK(option(t, "--lora-targets") == "q_proj,v_proj");
  CHECK(option(t, "--lora-dtype") == "fp32");
  CHECK(option(t, "--ref") == "adapter");
  CHECK(option(t, "--rollout") == "vllm:tp2,util=0.5,sleep=1");
  CHECK(option(read(lora), "--lora-targets") == "all-linear");
  CHECK(option(read(lora + "actor_rollout_ref.model.lora.merge=True"), "--rollout") ==
        "vllm:tp2,util=0.5,sleep=2");
  CHECK(option(read(grpo + "actor_rollout_ref.rollout.free_cache_engine=False"), "--rollout") ==
        "vllm:tp2,util=0.5,sleep=0");
  CHECK(option(read(grpo + "+actor_rollout_ref.rollout.enable_sleep_mode=False"), "--rollout") ==
        "vllm:tp2,util=0.5,sleep=0");
  CHECK(contains(why(lora + "actor_rollout_ref.model.target_modules='.*proj'"),
                 "this pattern is not read"));
}

TEST_CASE("verl: what is not planned is refused by its key, with the reason") {
  for (const auto& [bound_overrides, reason] :
       {std::pair{"actor_rollout_ref.actor.ulysses_sequence_parallel_size=2", "Ulysses"},
        {"actor_rollout_ref.model.use_fused_kernels=True", "the fused head"},
        {"actor_rollout_ref.model.use_liger=True", "Liger's kernels"},
        {"actor_rollout_ref.model.use_remove_padding=False", "rows with padding"},
        {"actor_rollout_ref.rollout.name=sglang", "vLLM's memory is planned"},
        {"actor_rollout_ref.actor.fsdp_config.offload_policy=True", "CPUOffloadPolicy"},
        {"actor_rollout_ref.actor.fsdp_config.forward_prefetch=True", "a prefetched unit"},
        {"actor_rollout_ref.actor.entropy_checkpointing=True", "the entropy's checkpoint"},
        {"+actor_rollout_ref.model.override_config.num_hidden_layers=4", "config.json"},
        {"actor_rollout_ref.actor.optim.optimizer=Muon", "no optimizer of ours"}}) {
    const auto& overrides = bound_overrides;
    CAPTURE(overrides);
    const std::string text = why(grpo + overrides);
    CHECK(contains(text, "changes the step and is not planned"));
    CHECK(contains(text, reason));
  }
  CHECK(option(read(grpo + "actor_rollout_ref.actor.entropy_coeff=0.001"), "--entropy-loss") ==
        "(flag)");
  CHECK(option(read(grpo + "actor_rollout_ref.actor.calculate_entropy=True"), "--entropy-loss") ==
        "(flag)");
  CHECK(option(read(grpo + "actor_rollout_ref.actor.entropy_coeff=0.0"), "--entropy-loss").empty());
  CHECK(contains(why(grpo + "actor_rollout_ref.actor.entropy_coeff=low"), "is no number"));
  CHECK(contains(why(grpo + "actor_rollout_ref.actor.strategy=megatron"), "fsdp or fsdp2"));
  CHECK(contains(why(grpo + "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4"),
                 "run.sh:1: actor_rollout_ref.actor.megatron.tensor_model_parallel_size: 4: FSDP's "
                 "worker is planned"));
  CHECK(contains(why("--config-name=ppo_megatron_trainer " + grpo), "Megatron's worker"));
  CHECK(contains(why("--config-name=mine " + grpo), "--ignore --config-name"));
}

TEST_CASE("verl: a critic beside the actor is PPO, and what the trainer does not read is told") {
  const std::string ppo = grpo + "critic.enable=True critic.ppo_micro_batch_size_per_gpu=4 ";
  const intake::Training t = read(ppo +
                                  "critic.model.path=Qwen/Qwen2.5-1.5B "
                                  "critic.fsdp.optimizer_offload=True");
  CHECK(option(t, "--task") == "ppo");
  CHECK(option(t, "--critic") == "Qwen/Qwen2.5-1.5B");
  CHECK(option(t, "--critic-offload") == "optimizer");
  CHECK(option(t, "--phase-offload").empty());
  CHECK(option(t, "--critic-batch").empty());
  CHECK(assumes(t, "critic.ppo_micro_batch_size_per_gpu: without effect in verl 0.9.1"));
  CHECK(t.unknown.empty());
  // 1024 tokens a row
  const std::string tokens = "+critic.ppo_infer_max_token_len_per_gpu=";
  CHECK(option(read(ppo + tokens + "5000"), "--critic-batch") == "4");
  CHECK(contains(why(ppo + tokens + "1000"), "no longer"));
  CHECK(option(read(ppo + "trainer.use_v1=False critic.ppo_max_token_len_per_gpu=3072"),
               "--critic-batch") == "3");
  // The model of ppo_trainer.yaml is one that nobody means.
  const intake::Training plain = read(ppo);
  CHECK(option(plain, "--critic").empty());
  CHECK(assumes(plain, "the actor's model is planned"));
  CHECK(option(read(ppo + "critic.model.path=Qwen/Qwen2.5-7B"), "--critic").empty());
  // verl's default estimator has one; critic.enable decides
  const std::string gae = grpo + "algorithm.adv_estimator=gae ";
  CHECK(contains(why(gae), "critic.ppo_micro_batch_size_per_gpu: none: verl asks for it"));
  CHECK(option(read(gae + "critic.use_dynamic_bsz=True"), "--task") == "ppo");
  CHECK(option(read(gae + "critic.enable=False"), "--task") == "grpo");
  CHECK(option(read(grpo + "critic.strategy=fsdp2"), "--critic-offload").empty());
  for (const auto& [bound_overrides, reason] :
       {std::pair{"critic.strategy=fsdp2", "the actor's is fsdp"},
        {"critic.model.enable_gradient_checkpointing=False", "the actor's is True"},
        {"critic.fsdp.model_dtype=bf16", "the actor's is fp32"},
        {"critic.ppo_mini_batch_size=128", "other rows than the actor's"},
        {"critic.model.lora_rank=8", "a critic with adapters"},
        {"critic.fsdp.param_offload=True", "optimizer_offload: True moves both"},
        {"critic.model.use_remove_padding=False", "rows with padding"}}) {
    const auto& overrides = bound_overrides;
    CAPTURE(overrides);
    const std::string text = why(ppo + overrides);
    CHECK(contains(text, "changes the step and is not planned"));
    CHECK(contains(text, reason));
  }
}

TEST_CASE("verl: unknown keys come with the nearest, others without effect are listed") {
  const intake::Training t = read(grpo + "trainer.n_gpu_per_node=4 trainer.total_epochs=3");
  REQUIRE(t.unknown.size() == 1);
  CHECK(t.unknown[0] == "trainer.n_gpu_per_node (line 1); did you mean trainer.n_gpus_per_node?");
  CHECK(std::find(t.no_effect.begin(), t.no_effect.end(), "trainer.total_epochs") !=
        t.no_effect.end());
}

TEST_CASE("verl: a value that the script leaves open is an error where it matters alone") {
  CHECK(why(grpo + "trainer.total_epochs=$EPOCHS data.train_files=$HOME/x").empty());
  const std::string open = grpo + "trainer.nnodes=$NODES ";
  CHECK(contains(why(open),
                 "run.sh:1: trainer.nnodes: $NODES is not set in the script; give the option by "
                 "hand"));
  const intake::Training t = read(open, {{"--world", "16"}});
  CHECK(option(t, "--world").empty());
  CHECK(option(t, "--grad-accum") == "8");  // 256 x 2 / 16 / 4
  CHECK(contains(why(grpo + "actor_rollout_ref.model.use_liger=$LIGER"),
                 "$LIGER is not set in the script; where it is on: Liger's kernels"));
  const intake::Training path = read(grpo + "actor_rollout_ref.model.path=$HOME/m/Qwen2.5-7B");
  CHECK(path.model == "Qwen2.5-7B");
  CHECK(assumes(path, "$HOME is not set in the script; Qwen2.5-7B is planned"));
}

}  // namespace ac_advisor::test
