// ms-swift's arguments: what each becomes. Defaults: data/tools/ms-swift.json, of ms-swift 4.6.0.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "ac_advisor/intake/training.hpp"
#include "intake/mapped.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

intake::Training script(const std::string& text, const OptionList& given = {},
                        const std::vector<std::string>& ignore = {}) {
  return intake::read_training({"run.sh", "", given, ignore}, text);
}

intake::Training sft(const std::string& arguments, const OptionList& given = {},
                     const std::vector<std::string>& ignore = {}) {
  return script("swift sft --model Qwen/Qwen2.5-7B --max_length 2048 " + arguments + "\n", given,
                ignore);
}

std::string why(const std::string& arguments, const OptionList& given = {}) {
  return why_not([&] { return sft(arguments, given); });
}

}  // namespace

TEST_CASE("ms-swift: a command's arguments become options, and what it leaves out its defaults") {
  const intake::Training t = sft("--dataset 'a#500' b --learning_rate 1e-4");
  CHECK(t.tool == "ms-swift");
  CHECK(t.version == "ms_swift 4.6.0, transformers 5.23.0");
  CHECK(t.model == "Qwen/Qwen2.5-7B");
  CHECK(option(t, "--framework") == "hf-trainer");
  CHECK(option(t, "--batch") == "1");
  CHECK(option(t, "--grad-accum") == "16");  // trainers/arguments.py: 16 rows a step
  CHECK(option(t, "--seq") == "2048");
  CHECK(option(t, "--lora") == "8");
  CHECK(option(t, "--lora-targets") == "all-linear");
  CHECK(option(t, "--lora-dropout") == "0.05");
  CHECK(option(t, "--lora-dtype") == "fp32");
  CHECK(option(t, "--param-dtype") == "bf16");
  CHECK(option(t, "--optimizer") == "adamw");
  CHECK(option(t, "--clip-grad") == "1.0");
  CHECK(option(t, "--ac") == "full");
  CHECK(option(t, "--ac-reentrant") == "(flag)");  // one process
  CHECK(option(t, "--world").empty());
  CHECK(t.no_effect == std::vector<std::string>{"dataset", "learning_rate"});
  CHECK(t.unknown.empty());
  CHECK(assumes(t, "torch_dtype: none"));
  CHECK(assumes(t, "NPROC_PER_NODE: not set"));
}

TEST_CASE("ms-swift: the environment before the command says how many processes there are") {
  const std::string arguments = "swift sft --model a/b --max_length 512 ";
  const intake::Training t =
      script("n=4\nNPROC_PER_NODE=$n CUDA_VISIBLE_DEVICES=0,1,2,3 \\\n" + arguments +
             "--gradient_accumulation_steps $(expr 16 / $n) 2>&1 | tee log\n");
  CHECK(option(t, "--world") == "4");
  CHECK(option(t, "--shard") == "ddp");
  CHECK(option(t, "--grad-accum") == "4");
  CHECK(option(t, "--ac-reentrant").empty());  // DDP's are not
  CHECK(t.no_effect.empty());
  CHECK(option(script("export NPROC_PER_NODE=2 NNODES=2\n" + arguments), "--world") == "4");
  CHECK(option(script("torchrun --nproc-per-node=8 swift/cli/sft.py --model a/b --max_length 9"),
               "--world") == "8");
  // what stands before another command is that command's
  CHECK(
      option(script("NPROC_PER_NODE=8 swift infer --model x/y\n" + arguments), "--world").empty());
  CHECK(option(script("NPROC_PER_NODE=8\n" + arguments), "--world").empty());  // not exported
  CHECK(option(script("NPROC_PER_NODE=8 " + arguments, {{"--world", "2"}}), "--grad-accum") == "8");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(script("CUDA_VISIBLE_DEVICES=0,1 " + arguments)),
      doctest::Contains("run.sh:1: CUDA_VISIBLE_DEVICES: 0,1: changes the step and "
                        "is not planned: with one process for 2 devices"),
      UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(script("NPROC_PER_NODE=0 " + arguments)),
                       doctest::Contains("run.sh:1: NPROC_PER_NODE: 0: is from 1 to"), UserError);
}

TEST_CASE("ms-swift: DeepSpeed's configurations by their names") {
  if (!test::has_yaml) return;  // which reads JSON, too
  const std::string ranks = "--per_device_train_batch_size 2 --deepspeed ";
  const OptionList world = {{"--world", "4"}};
  const intake::Training two = sft(ranks + "zero2", world);
  CHECK(option(two, "--shard") == "zero2");
  CHECK(option(two, "--grad-accum") == "2");
  CHECK(option(two, "--param-dtype") == "bf16");
  CHECK(option(two, "--lora-dtype").empty());  // the engine casts adapters, too
  CHECK(option(two, "--overlap-comm").empty());
  CHECK(option(two, "--ac-reentrant") == "(flag)");
  CHECK(option(sft(ranks + "zero3", world), "--shard") == "zero3");
  CHECK(option(sft(ranks + "zero0", world), "--shard") == "ddp");
  CHECK(option(sft(ranks + "zero2_offload", world), "--offload") == "optimizer");
  CHECK(option(sft(ranks + "zero3_offload", world), "--offload") == "parameters");
  CHECK(option(sft(ranks + R"('{"zero_optimization": {"stage": 1}}')", world), "--shard") ==
        "zero1");
  CHECK(contains(why(ranks + "zero4", world), "run.sh:1: deepspeed: zero4: no such file"));
  const intake::Training fsdp = sft("--tuner_type full --fsdp fsdp2", world);
  CHECK(option(fsdp, "--shard") == "fsdp2");
  CHECK(option(fsdp, "--ac") == "full");
  CHECK(option(fsdp, "--param-dtype") == "fp32");
  CHECK(contains(why("--fsdp fsdp2 --deepspeed zero2", world), "is not for use with deepspeed"));
}

TEST_CASE("ms-swift: full, quantized and packed") {
  if (!test::has_yaml) return;  // which reads JSON, too
  const intake::Training full =
      sft("--tuner_type full --torch_dtype bfloat16 --attn_impl flash_attn --packing "
          "--per_device_train_batch_size 2 --gradient_checkpointing_kwargs '{\"use_reentrant\": "
          "false}'");
  CHECK(option(full, "--lora").empty());
  CHECK(option(full, "--param-dtype") == "bf16");
  CHECK(option(full, "--attn") == "flash");
  CHECK(option(full, "--packing") == "2");
  CHECK(value(full, "padding_free") == "True");
  CHECK(value(full, "packing_length") == "2048");
  CHECK(option(full, "--ac-reentrant").empty());
  CHECK(option(sft("--quant_method bnb --quant_bits 4"), "--quantize") == "nf4-double");
  CHECK(option(sft("--quant_method bnb --quant_bits 8"), "--quantize") == "int8");
  CHECK(option(sft("--quant_method bnb --quant_bits 4 --bnb_4bit_use_double_quant false"),
               "--quantize") == "nf4");
  const intake::Training wide = sft("--tuner_type full --torch_dtype float32");
  CHECK(option(wide, "--param-dtype") == "fp32");
  CHECK(option(wide, "--autocast") == "fp16");
  CHECK(contains(why("--packing true"), "packing: true: wants flash attention"));
  CHECK(contains(why("--tuner_type full --quant_bits 4"), "is trained by adapters alone"));
  CHECK(contains(why("--quant_method bnb --quant_bits 3"), "by bitsandbytes is 4 or 8"));
  CHECK(contains(why("--tuner_type full --torch_dtype float16"), "no gradients to unscale"));
  CHECK(contains(why("--tuner_type boft"), "full and lora are planned"));
  CHECK(contains(why("--target_modules all-linear embed_tokens"),
                 "run.sh:1: target_modules: [all-linear, embed_tokens]: changes the step"));
  CHECK(contains(why("--loss_scale hermes"), "a loss that weighs tokens is not planned"));
  CHECK(why("--loss_scale last_round+ignore_empty_think").empty());
}

TEST_CASE("ms-swift: names of before, unknown ones, and what is no argument") {
  const intake::Training t = sft("--train-type full --lora_ranks 4 --gradient_checkpointing=false");
  CHECK(option(t, "--lora").empty());
  CHECK(option(t, "--ac") == "none");
  CHECK(assumes(t, "line 1: train_type is tuner_type since ms-swift 4"));
  REQUIRE(t.unknown.size() == 1);
  CHECK(t.unknown[0] == "lora_ranks (line 1); did you mean lora_rank?");
  CHECK(contains(script("swift sft --model a/b --max_length 9 --tuner_type full").model, "a/b"));
  CHECK_THROWS_WITH_AS(static_cast<void>(script("swift sft model --max_length 9")),
                       doctest::Contains("run.sh:1: model: is no --name"), UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(script("swift sft sft.yaml")),
                       doctest::Contains("its arguments are in sft.yaml"), UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(script("swift sft --model a\nswift sft --model b\n")),
                       doctest::Contains("run.sh:2: a second command with a training's arguments"),
                       UserError);
  CHECK(contains(why("--deepspeed"), "no such file"));
  CHECK_THROWS_WITH_AS(static_cast<void>(script("swift sft --model a/b")),
                       doctest::Contains("run.sh: max_length: none"), UserError);
}

TEST_CASE("ms-swift: of ORPO and SimPO TRL's step is planned where --ignore asks for it") {
  const std::string arguments = "swift rlhf --model a/b --max_length 512 --tuner_type full ";
  const intake::Training orpo = script(arguments + "--rlhf_type orpo", {}, {"rlhf_type"});
  CHECK(option(orpo, "--framework") == "trl");
  CHECK(option(orpo, "--task") == "orpo");
  const intake::Training rm = script(arguments + "--rlhf_type rm");
  CHECK(option(rm, "--task") == "reward");
}

TEST_CASE("ms-swift: a file of YAML, with its environment") {
  if (!test::has_yaml) return;
  const intake::Training t = intake::read_training(
      {"sft.yaml", "", {}, {}},
      "model: a/b\ntuner_type: lora\nmax_length: 128\ntarget_modules: [q_proj, v_proj]\n"
      "ENV:\n  NPROC_PER_NODE: 2\ndeepspeed: zero2\n");
  CHECK(t.tool == "ms-swift");
  CHECK(option(t, "--world") == "2");
  CHECK(option(t, "--shard") == "zero2");
  CHECK(option(t, "--lora-targets") == "q_proj,v_proj");
  CHECK(value(t, "gradient_accumulation_steps") == "8");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(intake::read_training({"sft.yaml", "", {}, {}},
                                              "model: a/b\ntuner_type: lora\nmax_length: 128\n"
                                              "ENV: {NPROC_PER_NODE: x}\n")),
      doctest::Contains("sft.yaml:4: ENV: {…}: NPROC_PER_NODE is a number"), UserError);
}

TEST_CASE("ms-swift: its own DPO and KTO, with the losses that hold alike") {
  const auto rlhf = [](const std::string& arguments, const OptionList& given = {}) {
    return script("swift rlhf --model Qwen/Qwen2.5-7B --max_length 1024 " + arguments + "\n",
                  given);
  };
  const intake::Training dpo = rlhf("--rlhf_type dpo --rpo_alpha 0.1 --loss_type hinge --beta 0.5");
  CHECK(option(dpo, "--framework") == "ms-swift");
  CHECK(option(dpo, "--task") == "dpo");
  CHECK(option(dpo, "--ref") == "adapter");
  CHECK(assumes(dpo, "loss_type: hinge is planned as sigmoid"));
  CHECK(assumes(dpo, "rpo_alpha: the mean that it weighs"));
  CHECK(assumes(dpo, "--prompt N says"));
  const intake::Training kto = rlhf("--rlhf_type kto --tuner_type full", {{"--prompt", "256"}});
  CHECK(option(kto, "--task") == "kto");
  CHECK(option(kto, "--ref") == "model");
  CHECK_FALSE(assumes(kto, "--prompt N says"));
  const auto why_rlhf = [&](const std::string& arguments) {
    return why_not([&] { return rlhf(arguments); });
  };
  CHECK(contains(why_rlhf("--rlhf_type dpo --loss_type sft"), "sigmoid and its like are planned"));
  CHECK(contains(why_rlhf("--rlhf_type kto --loss_type apo_zero_unpaired"), "loss_type"));
  CHECK(contains(why_rlhf("--rlhf_type dpo --tuner_type full --ref_model a/b"), "another size"));
  CHECK(contains(why_rlhf("--rlhf_type dpo --ref_model Qwen/Qwen2.5-7B"), "takes none"));
  CHECK(contains(why_rlhf("--rlhf_type orpo"), "row by row"));
  CHECK(contains(why_rlhf("--rlhf_type grpo"), "dpo, kto and rm are planned"));
  CHECK(contains(why("--loss_type infonce"), "another loss than the model's"));
}

}  // namespace ac_advisor::test
