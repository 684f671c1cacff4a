// Recipes that the frameworks' own documentation puts together, drawn at random: how many of them
// are answered, and whether what is refused leads to a plan.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::test {
namespace {

/// One question of a recipe, and what a user may answer; several options in one answer are apart by
/// spaces, an empty answer leaves the default.
using Choice = std::vector<std::string>;

struct Framework {
  const char* name;
  std::vector<Choice> choices;  ///< every one of them is answered
};

// transformers 5 (trainer, peft, bitsandbytes, accelerate and deepspeed pages), TRL 1 (SFT,
// reducing memory, PEFT), torchtune 0.6 (recipes and memory optimizations), NeMo AutoModel
// (guides), TorchTitan 0.2 (README, docs/), Megatron-core 0.16 (parallelism guide), DeepSpeed 0.19
// (ZeRO).
const std::vector<std::string> tunes{"",
                                     "",
                                     "--lora 8",
                                     "--lora 16 --lora-targets all-linear",
                                     "--lora 64 --lora-dropout 0.05",
                                     "--lora 16 --quantize nf4-double --lora-targets all-linear",
                                     "--lora 16 --dora"};
const std::vector<Framework> frameworks{
    {"hf-trainer",
     {{"", "--world 8 --shard ddp", "--world 8 --shard fsdp2", "--world 4 --shard zero2",
       "--world 8 --shard zero3"},
      tunes,
      {"--ac none", "--ac full"},
      {"", "", "--param-dtype bf16 --autocast none", "--attn flash"},
      {"", "--kernels fused", "--kernels compiled"},
      {"", "", "--optimizer adamw-8bit", "--optimizer adafactor"},
      {"", "--grad-accum 4"}}},
    {"trl",
     {{"", "--world 8 --shard ddp", "--world 8 --shard fsdp2", "--world 4 --shard zero2",
       "--world 8 --shard zero3"},
      tunes,
      {"", "--ac none"},
      {"", "--packing 8 --attn flash"},
      {"", "", "--loss ce", "--kernels fused"},
      {"", "", "--optimizer paged-adamw-8bit", "--optimizer adamw-8bit"},
      {"", "", "--offload activations"},
      {"", "--grad-accum 8"}}},
    {"torchtune",
     {{"", "--world 2", "--world 8"},
      {"", "--lora 8", "--lora 16 --dora", "--lora 8 --quantize nf4"},
      {"--ac none", "--ac full"},
      {"", "--kernels compiled"},
      {"", "--packing 4"},
      {"", "", "--offload activations"},
      {"", "--optimizer paged-adamw-8bit", "--optimizer-in-backward"},
      {"", "--grad-accum 8"}}},
    {"automodel",
     {{"", "--world 8", "--world 8 --tp 2", "--world 8 --cp 2", "--world 8 --pp 2 --grad-accum 8"},
      {"", "", "--lora 8", "--lora 16 --lora-targets all-linear"},
      {"--ac none", "--ac full", "--ac selective"},
      {"", "--loss ce"},
      {"", "--packing 4"},
      {"", "", "--kernels compiled", "--fp8 tensorwise"},
      {"", "--clip-grad 1.0"}}},
    {"torchtitan",
     {{"", "--world 8", "--world 16 --shard hsdp:4", "--world 8 --tp 2", "--world 8 --cp 2",
       "--world 8 --pp 2 --grad-accum 8", "--world 16 --pp 2 --tp 2 --grad-accum 8"},
      {"", "", "--lora 16"},
      {"--ac none", "--ac full", "--ac selective"},
      {"", "--kernels compiled"},
      {"", "--fp8 tensorwise", "--fp8 rowwise"},
      {"", "--clip-grad 1.0"}}},
    {"megatron",
     {{"--world 8 --shard zero1", "--world 8 --tp 2 --shard zero1",
       "--world 8 --pp 2 --grad-accum 8 --shard zero1", "--world 8 --tp 2 --pp 2 --grad-accum 8",
       "--world 8 --cp 2 --attn flash --shard zero1"},
      {"--transformer-impl transformer_engine"},
      {"--ac none", "--ac full", "--ac attention"},
      {"", "", "--fp8 delayed", "--fp8 tensorwise"},
      {"", "--clip-grad 1.0"}}},
    {"deepspeed",
     {{"--world 8 --shard zero1", "--world 8 --shard zero2", "--world 8 --shard zero3"},
      {"", "", "--lora 16", "--lora 16 --quantize nf4"},
      {"--ac none", "--ac full"},
      {"", "", "--offload optimizer"},
      {"", "--grad-accum 4"},
      {"", "", "--kernels compiled", "--packing 4 --attn flash"},
      {"", "--clip-grad 1.0"}}}};

/// What no framework can do: its documentation says so, or the library raises.
bool contradicts(const model::ModelSpec& model, const std::string& recipe) {
  const auto has = [&](const char* words) { return recipe.find(words) != recipe.npos; };
  const bool shards = has("fsdp2") || has("zero") || (has("torchtune") && has("--world"));
  // PEFT asks for targets where it knows no default, and adapts experts through parametrizations.
  const bool no_targets = model.family == "phi3" || model.family == "qwen3_moe";
  const bool peft = has("hf-trainer") || has("trl") || has("deepspeed");
  return (has("--quantize") && !has("--lora")) ||
         (peft && has("--lora") && !has("--lora-targets") && no_targets) ||
         // TorchTitan 0.2.2 trains no adapters (models/ and experiments/ have none).
         (has("torchtitan") && has("--lora")) ||
         // It has no such models; its experiment with transformers' (transformers_modeling_backend,
         // infra/parallelize.py) leaves Gemma's outer norms and Phi-3's fused layers out of its
         // plan.
         (has("torchtitan") && has("--tp") && (model.sandwich_norms || model.family == "phi3")) ||
         // There, and by AutoModel with parts of sequences, routers are given DTensors beside plain
         // weights.
         (has("torchtitan") && has("--tp") && model.family == "mixtral") ||
         // torchao's tensors have no chunk, by which Phi-3's MLP cuts what ranks have in parts.
         (has("automodel") && has("--tp") && has("--fp8") && model.family == "phi3") ||
         // torchao's Float8Linear takes the place of AutoModel's adapted layers: nothing is
         // trained.
         (has("automodel") && has("--lora") && has("--fp8")) ||
         // They add in place to what a selective checkpoint keeps.
         (has("automodel") && has("--lora") && has("--ac selective")) ||
         // transformers 5.23 refuses SDPA, which a ring is of, for scores with a softcap.
         (has("--cp") && model.attention_softcap) ||
         // AutoModel asserts that T divides the heads of keys and values (parallelizer.py,
         // validate_tp_mesh).
         (has("automodel") && has("--tp 2") && model.kv_heads % 2 != 0) ||
         // TorchTitan cannot tie a weight of two stages.
         (has("torchtitan") && has("--pp") && model.tied_embeddings) ||
         // torchtune 0.6 has no such models.
         (has("torchtune") && (model.moe || model.family == "gemma3_text")) ||
         // Transformer Engine's ring has no windows (context_parallel.py), PyTorch's takes no mask.
         ((has("megatron") || has("torchtitan")) && has("--cp") && model.window_within(2048)) ||
         // Megatron-LM has no such layers.
         (has("megatron") && (model.attention_softcap || model.sandwich_norms)) ||
         (has("--optimizer-in-backward") && (has("--grad-accum") || has("--world"))) ||
         // bitsandbytes has no kernels for DTensors; Adafactor's means cross shards
         ((has("8bit") || has("adafactor")) && shards) ||
         (has("--dora") && has("--lora-dropout")) ||
         // Megatron-core splits no adapters here, and Ulysses and rings exclude packed rows
         (has("--cp") && has("--packing"));
}

class Random {  // splitmix64
 public:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  template <typename All>
  const auto& of(const All& all) {
    return all[static_cast<std::size_t>(next() % all.size())];
  }

 private:
  std::uint64_t state_ = 41;
};

OptionList options_of(const std::string& words) {
  OptionList options;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    const std::string word = words.substr(at, end - at);
    if (word.starts_with("--"))
      options.emplace_back(word, "");
    else if (!word.empty())
      options.back().second = word;
    at = end + 1;
  }
  return options;
}

/// The condition of what refuses the recipe, or an error's text; empty: it is planned.
std::string refused(const model::ModelSpec& spec, const std::string& recipe) {
  try {
    const advise::Resolved resolved = advise::resolve(spec, options_of(recipe));
    const passes::Exclusion* row = passes::find_exclusion(spec, resolved.config);
    return row == nullptr ? "" : row->options;
  } catch (const UserError& error) {
    return error.what();
  }
}

/// What people run and is not planned: all that may refuse a recipe here. A condition of
/// docs/exclusions.md, or the end of an error's first line; the text that no recipe meets is
/// deleted.
const std::vector<std::string> not_planned{
    "--lora RANK of experts or their router, --ep or --kernels compiled",
    "--tp --lora",
    "--tp --no-sp, --kernels compiled, --cp or --pp",
    "--kernels compiled --attn flash of soft-capped scores",
    "--kernels compiled --shard ddp, --ac other than full",
    "--lora-targets NAMES, one that no linear layer of a block ends in",
    "--kernels compiled --quantize nf4 or nf4-double",
};

}  // namespace

TEST_CASE("a recipe that frameworks document is answered, or refused by what is known as missing") {
  const std::vector<std::string> names{
      "llama-3.1-8b", "llama-3.2-1b", "qwen3-8b",      "qwen2.5-1.5b", "mistral-7b",
      "gemma-2-2b",   "phi-3-mini",   "qwen3-30b-a3b", "mixtral-8x7b", "gemma-3-1b"};
  std::map<std::string, model::ModelSpec> models;
  for (const std::string& name : names) models.emplace(name, model::load_model(name));
  Random random;
  std::map<std::string, int> missing;
  for (const std::string& text : not_planned) missing[text] = 0;
  int asked = 0, answered = 0;
  while (asked < 600) {
    const Framework& framework = random.of(frameworks);
    const std::string& name = random.of(names);
    std::string recipe = std::string("--framework ") + framework.name + " --batch 2 --seq 2048";
    for (const Choice& choice : framework.choices)
      if (const std::string& answer = random.of(choice); !answer.empty()) recipe += " " + answer;
    if (contradicts(models.at(name), recipe)) continue;
    ++asked;
    const std::string reason = refused(models.at(name), recipe);
    answered += reason.empty();
    if (reason.empty()) continue;
    const auto known = std::find_if(missing.begin(), missing.end(), [&](const auto& entry) {
      return reason.find(entry.first) != reason.npos;
    });
    INFO(name, " ", recipe, ": ", reason);
    CHECK(known != missing.end());
    if (known != missing.end()) ++known->second;
  }
  MESSAGE(answered, " of ", asked, " recipes are answered");
  for (const auto& [bound_text, times] : missing) {
    const auto& text = bound_text;
    INFO(text, ": answered now, so it is no longer missing");
    CHECK(times > 0);
  }
}

}  // namespace ac_advisor::test
