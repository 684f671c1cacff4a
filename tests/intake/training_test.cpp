// Training files of other tools: what each key becomes. The tools' own resolved values:
// tests/oracle/training_files.json.
#include "ac_advisor/intake/training.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/advise/training_model.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/reports/training.hpp"
#include "intake/mapped.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

namespace fs = std::filesystem;

std::string written(const std::string& name, const std::string& text) {
  const fs::path folder =
      fs::temp_directory_path() / ("ac_advisor_intake." + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / name) << text;
  return (folder / name).string();
}

intake::Training read(const std::string& text, const OptionList& given = {},
                      const std::vector<std::string>& ignore = {}) {
  return intake::read_training({written("train.yaml", text), "", given, ignore});
}

std::string why(const std::string& text, const OptionList& given = {},
                const std::vector<std::string>& ignore = {}) {
  return why_not([&] { return read(text, given, ignore); });
}

const std::string trl = "model_name_or_path: tiny-llama\n";
const std::string factory = "model_name_or_path: tiny-llama\ntemplate: llama3\n";

}  // namespace

TEST_CASE("a file of TRL's becomes options, and what it leaves out TRL's own defaults") {
  if (!test::has_yaml) return;
  const intake::Training t =
      read(trl + "use_peft: true\nload_in_4bit: true\nlora_target_modules: [q_proj, v_proj]\n");
  CHECK(t.tool == "trl");
  CHECK(t.model == "tiny-llama");
  CHECK(option(t, "--framework") == "trl");
  // base_config.py, sft_config.py, model_config.py, training_args.py of TRL 1.16.0 and
  // transformers 5.23.0
  CHECK(option(t, "--batch") == "8");
  CHECK(option(t, "--seq") == "1024");
  CHECK(option(t, "--ac") == "full");
  CHECK(option(t, "--param-dtype") == "fp32");
  CHECK(option(t, "--optimizer") == "adamw");
  CHECK(option(t, "--clip-grad") == "1.0");
  CHECK(option(t, "--lora") == "16");
  CHECK(option(t, "--lora-dropout") == "0.05");
  CHECK(option(t, "--lora-targets") == "q_proj,v_proj");
  CHECK(option(t, "--quantize") == "nf4");
  CHECK(option(t, "--grad-accum").empty());
  CHECK(option(t, "--router-aux-loss").empty());
  CHECK(option(read(trl + "router_aux_loss_coef: 0.0\n"), "--router-aux-loss") == "off");
  CHECK(option(read(trl + "router_aux_loss_coef: 1e-3\n"), "--router-aux-loss") == "on");
  for (const intake::Mapping& m : t.mapping)
    if (m.key == "max_length") {
      CHECK(m.line == 0);
      CHECK(m.source == "trl/trainer/sft_config.py");
    } else if (m.key == "load_in_4bit") {
      CHECK(m.line == 3);
    }
}

TEST_CASE("a file of LLaMA-Factory's: LoRA and checkpoints unless it says otherwise") {
  if (!test::has_yaml) return;
  const intake::Training lora =
      read(factory + "bf16: true\nquantization_bit: 4\nlora_target: all\n");
  CHECK(lora.tool == "llamafactory");
  CHECK(option(lora, "--framework") == "llamafactory");
  CHECK(option(lora, "--lora") == "8");
  CHECK(option(lora, "--lora-targets") == "all-linear");
  CHECK(option(lora, "--quantize") == "nf4-double");
  CHECK(option(lora, "--param-dtype") == "bf16");
  CHECK(option(lora, "--lora-dtype") == "fp32");
  CHECK(option(lora, "--seq") == "2048");
  CHECK(option(lora, "--ac") == "full");
  const intake::Training full = read(factory +
                                     "finetuning_type: full\nbf16: true\nflash_attn: fa2\n"
                                     "disable_gradient_checkpointing: true\n");
  CHECK(option(full, "--lora").empty());
  CHECK(option(full, "--param-dtype") == "fp32");
  CHECK(option(full, "--attn") == "flash");
  CHECK(option(full, "--ac") == "none");
}

TEST_CASE("LLaMA-Factory's preference stages are its own step, with the reference that it makes") {
  if (!test::has_yaml) return;
  const std::string full = factory + "finetuning_type: full\nbf16: true\n";
  const intake::Training dpo = read(full + "stage: dpo\n");
  CHECK(option(dpo, "--framework") == "llamafactory");
  CHECK(option(dpo, "--task") == "dpo");
  CHECK(option(dpo, "--ref") == "model");
  CHECK(option(dpo, "--ac-reentrant") == "(flag)");
  const std::string lora = factory + "bf16: true\nlora_target: all\n";
  CHECK(option(read(lora + "stage: dpo\n"), "--ref") == "adapter");
  CHECK(option(read(lora + "stage: dpo\nref_model: tiny-llama\n"), "--ref") == "model");
  CHECK(option(read(lora + "stage: kto\n"), "--task") == "kto");
  const intake::Training orpo =
      read(full + "stage: dpo\npref_loss: orpo\nuse_reentrant_gc: false\n");
  CHECK(option(orpo, "--task") == "orpo");
  CHECK(option(orpo, "--ref").empty());
  CHECK(option(orpo, "--no-ac-reentrant") == "(flag)");
  CHECK(option(read(full + "stage: dpo\npref_loss: ipo\n"), "--task") == "dpo");
  CHECK(contains(why(full + "stage: dpo\nref_model: other/model\n"),
                 "a reference of another size is not planned"));
  CHECK(contains(why(full + "stage: dpo\nref_model_quantization_bit: 4\n"),
                 "a quantized reference model is not planned"));
  CHECK(option(read(full + "stage: rm\n"), "--task") == "reward");
  CHECK(contains(why(full + "stage: ppo\n"), "stage: ppo: sft, pt, dpo, kto and rm are planned"));
}

TEST_CASE("DeepSpeed's file says the stage of ZeRO and what it keeps on the host") {
  if (!test::has_yaml) return;
  written("ds.json",
          R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}})");
  const intake::Training t = read(factory + "finetuning_type: full\ndeepspeed: ds.json\n");
  CHECK(option(t, "--shard") == "zero3");
  CHECK(option(t, "--offload") == "optimizer");
  // The engine casts the module to bf16; its masters are in fp32.
  const intake::Training cast =
      read(factory + "finetuning_type: full\nbf16: true\ndeepspeed: ds.json\n");
  CHECK(option(cast, "--param-dtype") == "bf16");
  CHECK(option(cast, "--autocast").empty());
  written("two.json", R"({"zero_optimization": {"stage": 2, "overlap_comm": true}})");
  CHECK(option(read(trl + "deepspeed: two.json\n"), "--overlap-comm") == "(flag)");
  // It casts adapters, too, whatever PEFT makes of them.
  CHECK(
      option(read(factory + "bf16: true\nlora_target: all\ndeepspeed: two.json\n"), "--lora-dtype")
          .empty());
  CHECK(
      option(read("base_model: tiny-llama\nadapter: lora\nlora_r: 8\nsequence_len: 64\nbf16: true\n"
                  "lora_target_linear: true\nmicro_batch_size: 1\ndeepspeed: two.json\n"),
             "--lora-dtype")
          .empty());
  const intake::Training within = read(trl + "deepspeed: {zero_optimization: {stage: 2}}\n");
  CHECK(option(within, "--shard") == "zero2");
  CHECK(contains(why(trl + "deepspeed: none.json\n"),
                 "train.yaml:2: deepspeed: none.json: no such file"));
  CHECK(why(trl + "deepspeed: none.json\n", {{"--shard", "zero3"}}).empty());
  CHECK(
      contains(why(trl + "deepspeed: {zero_optimization: {stage: 4}}\n"), "stage is 0, 1, 2 or 3"));
}

TEST_CASE("FSDP's settings become options, its version the newest unless the file says so") {
  if (!test::has_yaml) return;
  const intake::Training t = read(trl + "fsdp: full_shard auto_wrap\n");
  CHECK(option(t, "--shard") == "fsdp2");
  written("fsdp.json", R"({"version": 1, "backward_prefetch": "BACKWARD_POST"})");
  const intake::Training first = read(trl + "fsdp: true\nfsdp_config: fsdp.json\n");
  CHECK(option(first, "--shard") == "fsdp1");
  CHECK(option(first, "--backward-prefetch") == "post");
  const intake::Training kept =
      read(trl + "fsdp: true\nfsdp_config: {reshard_after_forward: false, cpu_offload: true}\n");
  CHECK(option(kept, "--reshard-after-forward") == "false");
  CHECK(option(kept, "--offload") == "parameters");
  const std::string flat = "fsdp_config: {version: 1, cpu_offload: true}\n";
  CHECK(option(read(trl + "fsdp: true\n" + flat), "--shard") == "fsdp1");
  CHECK(option(read(trl + "fsdp: true\n" + flat), "--offload") == "parameters");
  CHECK(option(read(trl + "fsdp: full_shard offload\n"), "--offload") == "parameters");
  CHECK(contains(why(trl + "fsdp: true\nfsdp_config: none.json\n"), "no such file"));
  CHECK(contains(why(trl + "fsdp: true\nfsdp_config: {activation_checkpointing: true}\n"),
                 "give --ac full by hand"));
}

TEST_CASE("reentrant checkpoints are planned as such where nothing is gathered") {
  if (!test::has_yaml) return;
  const intake::Training plain = read(factory + "bf16: true\n");  // its default
  CHECK(option(plain, "--ac-reentrant") == "(flag)");
  const intake::Training off = read(factory + "bf16: true\nuse_reentrant_gc: false\n");
  CHECK(option(off, "--ac-reentrant").empty());
  const intake::Training none = read(factory + "disable_gradient_checkpointing: true\n");
  CHECK(option(none, "--ac-reentrant").empty());
  const intake::Training of_trl =
      read(trl + "gradient_checkpointing_kwargs: {use_reentrant: True}\n");
  CHECK(option(of_trl, "--ac-reentrant") == "(flag)");
}

TEST_CASE("options by hand win over the file, and the mapping says so") {
  if (!test::has_yaml) return;
  const intake::Training t = read(trl + "max_length: 512\n", {{"--seq", "4096"}});
  CHECK(option(t, "--seq").empty());
  const std::string table = reports::table(t, {.width = 100});
  CHECK(contains(table, "--seq 512 (by hand instead)"));
  CHECK(contains(table, "per_device_train_batch_size"));
}

TEST_CASE(
    "a key that matters and is not planned refuses the file with its line, and --ignore leaves it "
    "out") {
  if (!test::has_yaml) return;
  const std::string text = trl + "neftune_noise_alpha: 5\n";
  CHECK(contains(why(text),
                 "train.yaml:2: neftune_noise_alpha: 5: changes the step and is not planned"));
  CHECK(contains(why(text), "--ignore neftune_noise_alpha"));
  const intake::Training t = read(text, {}, {"neftune_noise_alpha"});
  CHECK(std::any_of(t.assumptions.begin(), t.assumptions.end(), [](const std::string& a) {
    return contains(a, "neftune_noise_alpha is left out");
  }));
  CHECK(contains(why(trl, {}, {"neftune_noise_alpha"}), "has no such key"));
  CHECK(
      contains(why(factory + "stage: ppo\n"), "stage: ppo: sft, pt, dpo, kto and rm are planned"));
  CHECK(contains(why(factory + "use_galore: true\n"), "GaLore"));
  // At its default it changes nothing.
  CHECK(why(factory + "use_galore: false\n").empty());
}

TEST_CASE("keys without effect are listed, unknown ones with the nearest that there is") {
  if (!test::has_yaml) return;
  const intake::Training t = read(trl + "learning_rate: 1e-4\nmax_lenght: 512\n");
  CHECK(t.no_effect == std::vector<std::string>{"learning_rate"});
  REQUIRE(t.unknown.size() == 1);
  CHECK(t.unknown[0] == "max_lenght (line 3); did you mean max_length?");
}

TEST_CASE("bad values name file, line, key and what would be right") {
  if (!test::has_yaml) return;
  CHECK(contains(why(trl + "max_length: long\n"),
                 "train.yaml:2: max_length: long: is no whole number"));
  CHECK(contains(why(trl + "load_in_4bit: maybe\n"), "is neither true nor false"));
  CHECK(contains(why(trl + "router_aux_loss_coef: some\n"),
                 "router_aux_loss_coef: some: is no number"));
  CHECK(contains(why(trl + "load_in_4bit: true\n"), "use_peft: true"));
  CHECK(contains(why(trl + "num_generations: 4\n"), "give --prompt N by hand"));
  CHECK(contains(why(trl + "optim: adamw_anyprecision\n"), "no optimizer of ours"));
  CHECK(contains(why("colour: red\n"), "--tool NAME says which it is"));
  CHECK(contains(why("- a\n- b\n"), "is a map of keys to values"));
  CHECK(contains(why(trl + "max_length: null\n"), "give --seq N by hand"));
}

TEST_CASE(
    "files of trl grpo and trl distillation are told by their keys, and want the prompt's length") {
  const OptionList prompt{{"--prompt", "256"}};
  const intake::Training grpo = read(trl + "num_generations: 4\nbeta: 0.01\n", prompt);
  CHECK(grpo.tool == "trl-grpo");
  CHECK(option(grpo, "--task") == "grpo");
  CHECK(option(grpo, "--group") == "4");
  CHECK(option(grpo, "--completion") == "512");  // its own default
  CHECK(option(grpo, "--rollout") == "generate");
  CHECK(option(grpo, "--ref") == "model");
  CHECK(option(read(trl + "num_generations: 4\n", prompt), "--ref") == "none");  // beta is 0
  CHECK(option(read(trl + "num_generations: 4\nbeta: 0.1\nuse_peft: true\n", prompt), "--ref") ==
        "adapter");
  const std::string engine = trl + "use_vllm: true\nvllm_gpu_memory_utilization: 0.4\n";
  CHECK(option(read(engine, prompt), "--rollout") == "vllm:0.4");
  CHECK(option(read(engine + "vllm_enable_sleep_mode: true\n", prompt), "--rollout") ==
        "vllm:tp1,util=0.4,sleep=2");
  CHECK(option(read(engine + "vllm_mode: server\n", prompt), "--rollout") == "served");
  CHECK(contains(why(engine + "vllm_mode: remote\n", prompt), "is colocate or server"));
  CHECK(contains(why(engine + "num_iterations: 2\n", prompt), "several iterations"));
  CHECK(contains(why(engine + "beta: some\n", prompt), "beta: some: is no number"));

  const std::string taught = trl + "teacher_model_name_or_path: llama-60m\ndtype: bfloat16\n";
  const intake::Training t = read(taught, prompt);
  CHECK(t.tool == "trl-distillation");
  CHECK(option(t, "--teacher") == "llama-60m");
  CHECK(option(t, "--param-dtype") == "bf16");
  CHECK(option(t, "--autocast").empty());
  CHECK(read(taught + "teacher_model_init_kwargs: {dtype: bfloat16}\n", prompt).tool == t.tool);
  CHECK(contains(why(taught + "teacher_model_init_kwargs: {dtype: float32}\n", prompt),
                 "another dtype than the student's"));
  CHECK(contains(why(taught + "fp16: true\n", prompt), "fp16"));
}

TEST_CASE("files of trl dpo, kto, reward and rloo are told by what no other command has") {
  const intake::Training dpo = read(trl + "beta: 0.1\nmax_length: 2048\n");
  CHECK(dpo.tool == "trl-dpo");
  CHECK(option(dpo, "--task") == "dpo");
  CHECK(option(dpo, "--seq") == "2048");
  CHECK(option(dpo, "--ref") == "model");
  CHECK(option(read(trl + "beta: 0.1\nuse_peft: true\n"), "--ref") == "adapter");
  CHECK(option(read(trl + "precompute_ref_log_probs: true\n"), "--ref") == "precomputed");
  const intake::Training hinge = read(trl + "beta: 0.1\nloss_type: [hinge]\n");
  CHECK(std::any_of(hinge.assumptions.begin(), hinge.assumptions.end(), [](const std::string& a) {
    return contains(a, "hinge is planned as sigmoid");
  }));
  CHECK(contains(why(trl + "beta: 0.1\nloss_type: [sigmoid, sft]\n"), "sigmoid is planned"));
  CHECK(contains(why(trl + "beta: 0.1\npadding_free: true\n"), "padding_free"));
  CHECK(contains(why(trl + "beta: 0.1\nsync_ref_model: true\n"), "follows the policy"));
  const intake::Training kto = read(trl + "desirable_weight: 1.3\nbeta: 0.2\n");
  CHECK(kto.tool == "trl-kto");
  CHECK(option(kto, "--task") == "kto");
  CHECK(read(trl + "loss_type: apo_zero_unpaired\n").tool == "trl-kto");
  const intake::Training reward = read(trl + "center_rewards_coefficient: 0.01\n");
  CHECK(reward.tool == "trl-reward");
  CHECK(option(reward, "--task") == "reward");
  CHECK(option(reward, "--seq") == "1024");  // its own default
  const OptionList prompt{{"--prompt", "64"}};
  const intake::Training rloo =
      read(trl + "num_generations: 2\nnormalize_advantages: true\n", prompt);
  CHECK(rloo.tool == "trl-rloo");
  CHECK(option(rloo, "--ref") == "model");  // beta is 0.05
}

TEST_CASE("TOML that its library stumbles over is refused with its line") {
  if (!test::has_toml) return;
  const auto refused = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(intake::read_training({"titan.toml", "", {}, {}}, text));
    } catch (const UserError& error) {
      return error.what();
    }
    return "read";
  };
  CHECK(contains(refused("[,model]\nname = 1\n"), "titan.toml:1: not TOML"));
  CHECK(contains(refused("[a]\nx\xC2\xB8 = 1\n"),
                 "titan.toml:2: not TOML: a character beyond ASCII outside of strings"));
  // In strings and comments it may be.
  for (const char* text : {"a = \"\xC3\xBC\\\"\xC3\xBC\"\n", "a = '\xC3\xBC' # \xC3\xBC\n",
                           "a = \"\"\"\n\xC3\xBC\"\xC3\xBC\"\"\"\n",
                           "\xEF\xBB\xBF"
                           "a = 1\n"})
    CHECK_FALSE(contains(refused(text), "not TOML"));
}

TEST_CASE("hostile YAML is refused quickly") {
  if (!test::has_yaml) return;
  CHECK(contains(why(trl + "max_length: 1\nmax_length: 2\n"),
                 "train.yaml:3: max_length stands twice, in line 2 too"));
  CHECK(contains(why(trl + "a: [b\n"), "not YAML"));
  CHECK(contains(why(",\n"), "train.yaml:1: a second document, or what YAML does not expect here"));
  CHECK(contains(why("a: 1\n---\nb: 1\n"), "train.yaml:2: a second document"));
  std::string bomb = trl + "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int j = 0; j < 9; ++j) bomb += ", " + last;
    bomb += "]\n";
  }
  CHECK(contains(why(bomb), "aliases counted each time"));
  CHECK(contains(why(trl + "deep: " + std::string(100, '[') + std::string(100, ']') + "\n"),
                 "nested more than"));
  CHECK(contains(why(trl + "pad: " + std::string(5 << 20, 'x') + "\n"), "larger than 4 MiB"));
}

TEST_CASE("what a hostile file says is shown without what a terminal would obey") {
  if (!test::has_yaml) return;
  const std::string escape = "\"\\e[2J\"";
  CHECK_FALSE(contains(why(trl + "max_length: " + escape + "\n"), "\033"));
  const intake::Training t = read(trl + "optimiser: " + escape + "\n" + escape + ": 1\n");
  CHECK_FALSE(contains(reports::table(t, {}), "\033"));
}

TEST_CASE("merge keys and anchors are read as YAML has them") {
  if (!test::has_yaml) return;
  const intake::Training t =
      read("base: &base {max_length: 256, per_device_train_batch_size: 3}\n<<: *base\n" + trl +
           "max_length: 128\n");
  CHECK(option(t, "--seq") == "128");
  CHECK(option(t, "--batch") == "3");
}

TEST_CASE("axolotl: what its validators make of the keys") {
  if (!test::has_yaml) return;
  const std::string text =
      "base_model: tiny-llama\nadapter: qlora\nload_in_4bit: true\nlora_r: 32\n"
      "lora_target_linear: true\nsequence_len: 4096\nmicro_batch_size: 2\n"
      "gradient_accumulation_steps: 4\nflash_attention: true\nsample_packing: true\n"
      "gradient_checkpointing: true\n";
  const intake::Training t = read(text);
  CHECK(t.tool == "axolotl");
  CHECK(option(t, "--framework") == "hf-trainer");
  CHECK(option(t, "--batch") == "2");
  CHECK(option(t, "--grad-accum") == "4");
  CHECK(option(t, "--seq") == "4096");
  CHECK(option(t, "--packing") == "2");  // joined where flash attention reads the documents' ends
  CHECK(option(t, "--attn") == "flash");
  CHECK(option(t, "--quantize") == "nf4-double");
  CHECK(option(t, "--lora-targets") == "all-linear");
  CHECK(option(t, "--lora-dtype") == "fp32");
  CHECK(option(t, "--param-dtype") == "bf16");  // bf16: auto
  CHECK(option(t, "--ac") == "full");
  CHECK(option(t, "--ac-reentrant").empty());
  CHECK(option(t, "--clip-grad") == "1.0");  // the Trainer's
  CHECK(option(read("base_model: tiny-llama\n"), "--seq") == "512");
  CHECK(contains(why("base_model: tiny-llama\nload_in_4bit: true\n"), "adapter: qlora or lora"));
  CHECK(contains(why("base_model: tiny-llama\nadapter: qlora\n"), "needs load_in_4bit: true"));
  CHECK(contains(why("base_model: tiny-llama\nrl: grpo\n"), "train.yaml:2: rl: grpo"));
  CHECK(contains(why("base_model: tiny-llama\ngradient_checkpointing: unsloth\n"),
                 "is true, false, offload or offload_disk"));
  CHECK(contains(why("base_model: tiny-llama\nfsdp: [full_shard]\n"), "use fsdp_config"));
  CHECK(contains(why("base_model: tiny-llama\nunfrozen_parameters: [lm_head]\n"),
                 "--ignore unfrozen_parameters plans without it"));
  CHECK(contains(why("base_model: tiny-llama\nattn_implementation: sdpa\nflash_attention: true\n"),
                 "exclude each other"));
}

TEST_CASE("axolotl: rl is a trainer of TRL 1.14, whose logits are whole") {
  if (!test::has_yaml) return;
  const std::string model = "base_model: tiny-llama\nsequence_len: 1024\n";
  const std::string lora = "adapter: lora\nlora_r: 8\nlora_target_linear: true\n";
  const intake::Training dpo = read(model + "rl: dpo\ndpo_loss_type: [sigmoid]\n" + lora);
  CHECK(option(dpo, "--framework") == "trl");
  CHECK(option(dpo, "--task") == "dpo");
  CHECK(option(dpo, "--loss") == "ce");
  CHECK(option(dpo, "--ref") == "adapter");
  CHECK(option(dpo, "--lora") == "8");
  CHECK(option(dpo, "--lora-dtype").empty());  // TRL's own
  CHECK(option(dpo, "--packing").empty());
  for (const std::string& assumed : dpo.assumptions)  // fused adapters are not switched on
    CHECK(!contains(assumed, "lora_*_kernel"));
  CHECK(option(read(model + "rl: ipo\n"), "--task") == "dpo");
  CHECK(option(read(model + "rl: dpo\n"), "--ref") == "model");
  CHECK(option(read(model + "rl: dpo\nprecompute_ref_log_probs: true\n"), "--ref") ==
        "precomputed");
  const intake::Training kto = read(model + "rl: kto\nremove_unused_columns: false\n");
  CHECK(option(kto, "--task") == "kto");
  CHECK(option(kto, "--loss") == "ce");
  const intake::Training orpo = read(model + "rl: orpo\norpo_alpha: 0.1\n");
  CHECK(option(orpo, "--task") == "orpo");
  CHECK(option(orpo, "--ref").empty());
  CHECK(option(read(model + "rl: orpo\n" + lora), "--lora-dtype") == "fp32");  // axolotl's own
  CHECK(contains(why(model + "rl: simpo\ncpo_alpha: some\n"), "is no number"));
  CHECK(option(read(model + "rl: simpo\ncpo_alpha: 0.0\n"), "--task") == "simpo");
  CHECK(contains(why(model + "rl: simpo\n"), "--ignore cpo_alpha"));  // TRL's default is 1
  CHECK(contains(why(model + "rl: dpo\nsample_packing: true\n"), "does not go with rl"));
  CHECK(contains(why(model + "rl: dpo\ndpo_padding_free: true\n"), "--ignore dpo_padding_free"));
  CHECK(contains(why(model + "rl: dpo\ndpo_ld_alpha: 0.5\n"), "LD-DPO"));
  CHECK(contains(why(model + "rl: dpo\ndpo_loss_type: [sigmoid, sft]\n"), "sigmoid is planned"));
  CHECK(contains(why(model + "rl: dpo\nplugins: [axolotl.integrations.liger.LigerPlugin]\n"),
                 "beside rl"));
  CHECK(contains(why(model + "rl: ppo\n"), "orpo and simpo are planned"));
}

TEST_CASE(
    "axolotl: Liger's kernels with its loss are the preset liger, cut cross-entropy is lc-ce") {
  if (!test::has_yaml) return;
  const std::string liger =
      "base_model: tiny-llama\nplugins: [axolotl.integrations.liger.LigerPlugin]\n"
      "liger_rope: true\nliger_rms_norm: true\nliger_glu_activation: true\n";
  const intake::Training kernels = read(liger);
  CHECK(option(kernels, "--framework") == "hf-trainer");
  CHECK(option(kernels, "--kernels") == "fused");
  const intake::Training loss = read(liger + "liger_fused_linear_cross_entropy: true\n");
  CHECK(option(loss, "--framework") == "liger");
  CHECK(option(loss, "--kernels").empty());
  CHECK(option(loss, "--autocast") == "bf16");
  const intake::Training cut = read(
      "base_model: tiny-llama\n"
      "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n");
  CHECK(option(cut, "--loss") == "lc-ce");
  CHECK(contains(why("base_model: tiny-llama\n"
                     "plugins: [axolotl.integrations.spectrum.SpectrumPlugin]\n"),
                 "SpectrumPlugin is not"));
  const intake::Training fsdp =
      read("base_model: tiny-llama\nfsdp_config: {fsdp_reshard_after_forward: false}\n");
  CHECK(option(fsdp, "--shard") == "fsdp2");
  CHECK(option(fsdp, "--reshard-after-forward") == "false");
  // accelerate's fsdp2_prepare_model: fp32 for what is trained, a policy in place of autocast.
  const intake::Training both = read(
      liger + "liger_fused_linear_cross_entropy: true\nfsdp_config: {version: 2}\nbf16: true\n");
  CHECK(option(both, "--autocast").empty());
  CHECK(option(both, "--param-dtype") == "fp32");
  CHECK(option(both, "--compute-dtype") == "bf16");
}

TEST_CASE("what a key makes of an option is checked where the key stands") {
  if (!test::has_yaml) return;
  CHECK(contains(why(trl + "per_device_train_batch_size: 0\nmax_length: 64\n"),
                 "train.yaml:2: per_device_train_batch_size: 0: --batch 0: "));
  CHECK(contains(why(trl + "lora_dropout: 2\nuse_peft: true\nmax_length: 64\n"),
                 "train.yaml:2: lora_dropout: 2: "));
  // Two keys that say two things of one option.
  const std::string fsdp = "base_model: tiny-llama\nfsdp_config: {offload_params: true}\n";
  CHECK(contains(why(fsdp + "activation_offloading: true\ngradient_checkpointing: true\n"),
                 "is --offload activations, and fsdp_config is --offload parameters"));
  // FSDP's own checkpoints are on, whatever the Trainer's are.
  const intake::Training ac = read(
      "base_model: tiny-llama\nfsdp_config: {activation_checkpointing: true}\n"
      "gradient_checkpointing: false\n");
  CHECK(option(ac, "--ac") == "full");
}

TEST_CASE("a default written in other words has no effect, and off is off") {
  if (!test::has_yaml) return;
  const intake::Training t = read(
      trl + "label_smoothing_factor: 0\nauto_find_batch_size: no\nfsdp: no\ndeepspeed: false\n");
  CHECK(option(t, "--shard").empty());
  CHECK(contains(why(trl + "deepspeed: {zero_optimization: 3}\n"), "zero_optimization is a map"));
}

TEST_CASE("a global batch by hand takes the place of the file's accumulation, and of no more") {
  if (!test::has_yaml) return;
  const std::string file = trl + "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n";
  const intake::Training t = read(file, {{"--global-batch", "64"}});
  CHECK(option(t, "--batch") == "2");
  CHECK(option(t, "--grad-accum").empty());
  const intake::Training both = read(file, {{"--global-batch", "64"}, {"--grad-accum", "8"}});
  CHECK(option(both, "--batch").empty());
}

TEST_CASE("each example is planned as it stands, on the ranks of its page") {
  const auto files = fs::directory_iterator(std::string(source_dir) + "/examples/training");
  for (const fs::directory_entry& entry : files) {
    if (entry.path().extension() == ".json") continue;  // a DeepSpeed file beside
    if (!(entry.path().extension() == ".toml" ? test::has_toml : test::has_yaml)) continue;
    CAPTURE(entry.path().filename().string());
    const std::string name = entry.path().stem().string();
    const bool online = name == "trl-grpo" || name == "trl-rloo" || name == "trl-distillation";
    OptionList given{online ? std::pair{"--prompt", "512"} : std::pair{"--seq", "2048"}};
    if (!entry.path().filename().string().starts_with("litgpt"))  // planned on one GPU
      given.emplace_back("--world", "8");
    const intake::Training t = intake::read_training({entry.path().string(), "", given, {}});
    const model::ModelSpec model = model::load_model(advise::training_model(t));
    OptionList options = t.options;
    options.insert(options.end(), given.begin(), given.end());
    const advise::Resolved resolved = advise::resolve(model, options);
    const passes::Exclusion* row = passes::find_exclusion(model, resolved.config);
    CHECK((row == nullptr ? "" : passes::message(*row, model, resolved.config)) == "");
  }
}

TEST_CASE("TorchTitan: degrees of its TOML are the layout, and -1 is what --world leaves") {
  if (!test::has_toml) return;
  const auto toml = [](const std::string& text, const OptionList& given = {}) {
    return intake::read_training(
        {written("train.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + text),
         "",
         given,
         {}});
  };
  const intake::Training t = toml("[training]\nlocal_batch_size = 2\nseq_len = 4096\n");
  CHECK(t.tool == "torchtitan");
  CHECK(t.model == "llama3/8B");
  CHECK(option(t, "--shard") == "none");
  CHECK(option(t, "--ac") == "every:2");  // the dataclass's own default
  CHECK(option(t, "--param-dtype") == "fp32");
  CHECK(option(t, "--compute-dtype") == "bf16");
  const std::string layout =
      "[parallelism]\ndata_parallel_replicate_degree = 2\ntensor_parallel_degree = 2\n"
      "[training]\nlocal_batch_size = 2\nglobal_batch_size = 32\n";
  const intake::Training wide = toml(layout, {{"--world", "16"}});
  CHECK(option(wide, "--shard") == "hsdp:4");  // 16 / (2 * 2)
  const auto refused = [&](const std::string& text, const OptionList& given = {}) {
    try {
      static_cast<void>(toml(text, given));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string huge = "4294967296\n";  // its square is 0 in 64 bits
  CHECK(
      contains(refused("[parallelism]\ntensor_parallel_degree = " + huge), "is from 1 to 1048576"));
  CHECK(contains(refused("[training]\nlocal_batch_size = " + huge), "is from 1 to 1048576"));
  CHECK(contains(refused("[parallelism]\ntensor_parallel_degree = 1048576\n"
                         "pipeline_parallel_degree = 1048576\n"),
                 "come to more than 1048576 ranks"));
  CHECK(contains(refused("[parallelism]\ndata_parallel_shard_degree = 2\n", {{"--world", "4"}}),
                 "the degrees come to 2 ranks, --world is 4"));
  CHECK(option(wide, "--tp") == "2");
  CHECK(option(wide, "--grad-accum") == "2");  // 32 / (2 * 8)
  CHECK_THROWS_WITH_AS(static_cast<void>(toml(layout, {{"--world", "6"}})),
                       doctest::Contains("no multiple of the other degrees' 4"), UserError);
  const intake::Training pipeline = toml(
      "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "
      "\"Interleaved1F1B\"\n[training]\nlocal_batch_size = 8\n");
  CHECK(option(pipeline, "--pp-schedule") == "interleaved:2");
  CHECK(option(pipeline, "--batch") == "1");
  CHECK(option(pipeline, "--grad-accum") == "8");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(toml("[training]\nseq_len = \"long\"\n")),
      doctest::Contains("train.toml:5: training.seq_len: long: is no whole number"), UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(toml("[training\n")), doctest::Contains("not TOML"),
                       UserError);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(toml("a = " + std::string(100, '[') + std::string(100, ']') + "\n")),
      doctest::Contains("nested more than"), UserError);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(toml("[parallelism]\nenable_async_tensor_parallel = true\n")),
      doctest::Contains(
          "train.toml:5: parallelism.enable_async_tensor_parallel: true: changes the step"),
      UserError);
  const intake::Training shared =
      toml("[parallelism]\ndata_parallel_shard_degree = 8\nexpert_parallel_degree = 4\n");
  CHECK(option(shared, "--ep") == "4");
  CHECK(option(shared, "--world") == "8");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(
          toml("[parallelism]\nexpert_parallel_degree = 2\nexpert_tensor_parallel_degree = 2\n")),
      doctest::Contains("train.toml:6: parallelism.expert_tensor_parallel_degree: 2: is 1 or the "
                        "tensor_parallel_degree"),
      UserError);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(toml("[parallelism]\nexpert_parallel_degree = "
                             "2\nexpert_parallel_comm_backend = \"deepep\"\n")),
      doctest::Contains("train.toml:6: parallelism.expert_parallel_comm_backend: deepep: changes "
                        "the step"),
      UserError);
  const intake::Training misspelt = toml("[training]\nseq_lem = 128\n");
  REQUIRE(misspelt.unknown.size() == 1);
  CHECK(misspelt.unknown[0] == "training.seq_lem (line 5); did you mean training.seq_len?");
}

TEST_CASE(
    "torchtune: components are models, optimizers and losses, and --world makes it distributed") {
  if (!test::has_yaml) return;
  const std::string tune =
      "model: {_component_: torchtune.models.llama3_2.lora_llama3_2_1b, lora_rank: 16,\n"
      "  lora_attn_modules: [q_proj, output_proj], apply_lora_to_mlp: True}\n"
      "tokenizer: {max_seq_len: 1024}\nbatch_size: 2\ngradient_accumulation_steps: 1\n"
      "optimizer: {_component_: torch.optim.AdamW, fused: True}\n"
      "loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}\ndtype: bf16\n"
      "enable_activation_checkpointing: True\n";
  const intake::Training t = read(tune);
  CHECK(t.tool == "torchtune");
  CHECK(t.model == "llama3_2/llama3_2_1b");
  CHECK(option(t, "--lora-targets") == "q_proj,o_proj,gate_proj,up_proj,down_proj");
  CHECK(option(t, "--lora-dtype") == "bf16");
  CHECK(option(t, "--loss") == "chunked-logits:8");
  CHECK(option(t, "--optimizer") == "adamw");
  CHECK(option(t, "--shard").empty());
  const intake::Training four = read(tune, {{"--world", "4"}});
  CHECK(option(four, "--shard") == "fsdp2");
  CHECK(option(four, "--reduce-dtype") == "bf16");
  CHECK(contains(why(tune + "tensor_parallel_dim: 2\n"), "tensor parallelism is not planned"));
  CHECK(contains(why("model: {_component_: torchtune.models.llama3.llama3_8b}\nbatch_size: 2\n"
                     "tokenizer: {max_seq_len: null}\n"),
                 "tokenizer.max_seq_len: none: rows are as long as the data has them"));
  CHECK(contains(why(tune + "batch_size: {a: 1}\n"), "stands twice"));
  CHECK(
      contains(why("model: {_component_: torchtune.models.llama3.llama3_8b}\nbatch_size: {a: 1}\n"),
               "train.yaml:2: batch_size: is a map; one word is expected"));
}

TEST_CASE(
    "NeMo AutoModel and litgpt: sections are components' own, unknown keys beside them are told") {
  if (!test::has_yaml) return;
  const std::string recipe =
      "step_scheduler: {global_batch_size: 32, local_batch_size: 2}\n"
      "model: {_target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained,\n"
      "  pretrained_model_name_or_path: tiny-llama}\n"
      "optimizer: {_target_: torch.optim.AdamW, lr: 1e-5, betas: [0.9, 0.95]}\n"
      "dataset: {_target_: anything, of: its own}\n";
  const intake::Training t = read(recipe, {{"--seq", "512"}, {"--world", "8"}});
  CHECK(t.tool == "automodel");
  CHECK(t.unknown.empty());
  CHECK(option(t, "--grad-accum") == "2");  // 32 / (2 * 8)
  CHECK(option(t, "--shard") == "fsdp2");
  CHECK(option(t, "--keep-last-block") == "(flag)");  // reshard_after_forward: null
  CHECK(option(t, "--reduce-dtype") == "fp32");
  CHECK(option(t, "--kernels") == "fused");
  CHECK(contains(why(recipe), "give --seq N by hand"));
  CHECK(contains(why(recipe + "distributed: {tp_size: 2}\n", {{"--seq", "512"}}),
                 "distributed.tp_size: 2: changes the step"));
  const std::string lit =
      "checkpoint_dir: checkpoints/meta-llama/Llama-3.2-1B\nlora_r: 8\nquantize: bnb.nf4-dq\n"
      "train: {micro_batch_size: 2, global_batch_size: 8, max_seq_length: 256}\n";
  const intake::Training l = read(lit);
  CHECK(l.tool == "litgpt");
  CHECK(l.model == "meta-llama/Llama-3.2-1B");
  CHECK(option(l, "--lora-targets") == "query,value");
  CHECK(option(l, "--lora-dropout") == "0.05");
  CHECK(option(l, "--optimizer") == "paged-adamw");
  CHECK(option(l, "--grad-accum") == "4");
  CHECK(contains(why(lit + "devices: 2\n"), "litgpt is planned on one GPU"));
}

TEST_CASE("the word none is nothing to AutoModel's loader, and a word to the others") {
  if (!test::has_yaml) return;
  const std::string recipe =
      "model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
      "  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B\n"
      "step_scheduler: {global_batch_size: 64, local_batch_size: 8}\n"
      "optimizer: {_target_: torch.optim.AdamW}\n"
      "loss_fn: {_target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy}\n"
      "distributed: {strategy: fsdp2, dp_size: none, dp_replicate_size: none, tp_size: none}\n";
  const intake::Training t = read(recipe, {{"--seq", "512"}, {"--world", "8"}});
  CHECK(option(t, "--shard") == "fsdp2");
  CHECK(contains(why(recipe + "clip_grad_norm: {max_norm: nothing}\n", {{"--seq", "512"}}),
                 "clip_grad_norm.max_norm: nothing"));
  if (!test::has_toml) return;
  std::ifstream file(fs::path(source_dir) / "examples/training/torchtitan-llama3.toml");
  std::string titan{std::istreambuf_iterator<char>(file), {}};
  const std::size_t section = titan.find("[activation_checkpoint]");
  REQUIRE(section != std::string::npos);
  const std::size_t mode = titan.find("mode", section), end = titan.find('\n', mode);
  titan.replace(mode, end - mode, "mode = \"none\"");
  const intake::Training off =
      intake::read_training({"titan.toml", "", {{"--world", "8"}}, {}}, titan);
  CHECK(option(off, "--ac") == "none");
}

TEST_CASE("what a tool's own parser resolves is what the mapping has") {
  if (!test::has_yaml) return;
  const fs::path folder = fs::path(source_dir) / "tests/oracle";
  const auto oracle = nlohmann::json::parse(std::ifstream(folder / "training_files.json"));
  for (const auto& [bound_file, resolved] : oracle.at("files").items()) {
    const auto& file = bound_file;
    CAPTURE(file);
    if (file.ends_with(".toml") && !test::has_toml) continue;
    const intake::Training t = intake::read_training({(fs::path(source_dir) / file).string(),
                                                      resolved.at("tool"),
                                                      {{"--seq", "2048"}, {"--prompt", "512"}},
                                                      {}});
    bool compared = false;
    for (const intake::Mapping& m : t.mapping) {
      const auto value = resolved.at("values").find(m.key);
      if (value == resolved.at("values").end()) continue;
      CAPTURE(m.key);
      std::string ours = m.value;
      if (ours == "true") ours = "True";
      if (ours == "false") ours = "False";
      if (ours == "null") ours = "None";
      CHECK(ours == value->get<std::string>());
      compared = true;
    }
    CHECK(compared);
  }
}

}  // namespace ac_advisor::test
