// OpenRLHF's arguments: what each becomes. Defaults: data/tools/openrlhf.json, of OpenRLHF 0.11.2.
#include <doctest/doctest.h>

#include <string>

#include "ac_advisor/intake/training.hpp"
#include "intake/mapped.hpp"

namespace ac_advisor::test {
namespace {

intake::Training read(const std::string& text, const OptionList& given = {},
                      const std::vector<std::string>& ignore = {}) {
  return intake::read_training({"run.sh", "", given, ignore}, text);
}

std::string why(const std::string& text) {
  return why_not([&] { return read(text); });
}

const std::string start = "deepspeed --num_gpus 8 --module openrlhf.cli.";
const std::string model = " --model.model_name_or_path a/b ";

}  // namespace

TEST_CASE("OpenRLHF: a command's arguments become options, and what it leaves out its defaults") {
  const intake::Training t = read(start + "train_sft" + model + "--adam.lr 5e-6");
  CHECK(t.tool == "openrlhf");
  CHECK(t.version == "openrlhf 0.11.2");
  CHECK(t.model == "a/b");
  CHECK(option(t, "--framework") == "deepspeed");
  CHECK(option(t, "--world") == "8");
  CHECK(option(t, "--batch") == "8");
  CHECK(option(t, "--grad-accum") == "2");  // 128 / 8 / 8
  CHECK(option(t, "--seq") == "2048");
  CHECK(option(t, "--shard") == "zero2");
  CHECK(option(t, "--param-dtype") == "bf16");
  CHECK(option(t, "--attn") == "flash");
  CHECK(option(t, "--ac") == "none");
  CHECK(option(t, "--lora").empty());
  CHECK(option(t, "--packing").empty());
  CHECK(t.no_effect == std::vector<std::string>{"adam.lr"});
}

TEST_CASE("OpenRLHF: the arguments in a document that read puts into a variable") {
  const intake::Training t = read(
      "set -x\nread -r -d '' commands <<EOF\nopenrlhf.cli.train_sft \\\n   --data.max_len 512 \\\n"
      "   --model.model_name_or_path a/b \\\n   --ds.lora.rank 64 \\\n   --ds.load_in_4bit \\\n"
      "   --ds.packing_samples \\\n   --ds.zero_stage 7\nEOF\n"
      "if [[ ${1} != \"slurm\" ]]; then\n    deepspeed --include localhost:0,1 --module "
      "$commands\nfi\n",
      {{"--shard", "zero3"}});
  CHECK(option(t, "--world") == "2");
  CHECK(option(t, "--seq") == "512");
  CHECK(option(t, "--lora") == "64");
  CHECK(option(t, "--lora-targets") == "all-linear");
  CHECK(option(t, "--quantize") == "nf4-double");
  CHECK(option(t, "--packing") == "8");
  for (const intake::Mapping& m : t.mapping)
    if (m.key == "ds.lora.rank") CHECK(m.line == 6);
  CHECK(contains(why("read -r -d '' c <<EOF\nopenrlhf.cli.train_sft \\\n --ds.zero_stage 7\nEOF\n"
                     "deepspeed --num_gpus 2 --module $c\n"),
                 "run.sh:3: ds.zero_stage: 7: zero_optimization.stage is 0, 1, 2 or 3"));
}

TEST_CASE("OpenRLHF: reward models, DPO and PPO") {
  const intake::Training rm = read(start + "train_rm" + model);
  CHECK(option(rm, "--framework") == "trl");
  CHECK(option(rm, "--task") == "reward");
  CHECK(option(rm, "--seq") == "512");
  CHECK(contains(why(start + "train_dpo" + model), "--ignore openrlhf plans without it"));
  const intake::Training dpo = read(start + "train_dpo" + model, {}, {"openrlhf"});
  CHECK(option(dpo, "--task") == "dpo");
  CHECK(option(dpo, "--ref") == "model");
  CHECK(contains(why("python3 -m openrlhf.cli.train_ppo_ray --actor.num_nodes 1"),
                 "run.sh:1: openrlhf: train_ppo_ray: a critic and a reward model"));
}

TEST_CASE("OpenRLHF: batches that its strategy would refuse, and names of before") {
  CHECK(contains(why(start + "train_sft" + model + "--train.batch_size 60"),
                 "run.sh:1: train.batch_size: 60: 8 ranks with 8 rows each are more"));
  CHECK(contains(why(start + "train_sft" + model + "--train.batch_size 100"),
                 "is not a multiple of 8 ranks with 8 rows each"));
  CHECK(contains(why("deepspeed --module openrlhf.cli.train_sft" + model), "give --world N"));
  const intake::Training old =
      read(start +
           "train_sft --pretrain a/b --micro_train_batch_size 4 --zero_stage 3 "
           "--learning_rate 5e-6 --gradient_checkpointing --adam_offload");
  CHECK(old.model == "a/b");
  CHECK(option(old, "--batch") == "4");
  CHECK(option(old, "--shard") == "zero3");
  CHECK(option(old, "--offload") == "optimizer");
  CHECK(option(old, "--ac") == "full");
  CHECK(old.unknown.empty());
}

}  // namespace ac_advisor::test
