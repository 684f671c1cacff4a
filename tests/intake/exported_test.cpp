// What is exported reads back as the same step: export_setting and read_training are inverse, over
// seeded draws of the options that a target's file can say.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

namespace fs = std::filesystem;

struct Draw {
  std::string_view option;
  std::vector<std::string_view> values;  ///< "-": a flag
  bool always = false;                   ///< not one in three
};

struct Target {
  std::string_view name, ending;
  std::vector<std::string_view> models;
  std::vector<Draw> draws;
  /// What the file leaves open, and its reader is told by hand.
  std::vector<std::string_view> by_hand;
};

const Target targets[] = {
    {"torchtitan",
     ".toml",
     {"llama-3.1-8b", "tiny-llama", "qwen3-0.6b"},
     {{"--batch", {"1", "2", "3"}},
      {"--seq", {"128", "1024", "8192"}},
      {"--grad-accum", {"2", "4"}},
      {"--world", {"2", "4", "8", "16"}},
      {"--tp", {"2", "4"}},
      {"--no-loss-parallel", {"-"}},
      {"--cp", {"2"}},
      {"--pp", {"2"}},
      {"--pp-schedule", {"1f1b", "gpipe", "interleaved:2", "zb1:2", "zbv", "dualpipev"}},
      {"--shard", {"none", "ddp", "fsdp2", "hsdp:2", "hsdp:4"}},
      {"--reshard-after-forward", {"true", "false"}},
      {"--ac", {"none", "full", "selective", "every:1", "every:2", "every:3"}},
      {"--loss", {"ce", "ce-compiled"}},
      {"--kernels", {"eager", "compiled"}},
      {"--offload", {"parameters"}},
      {"--optimizer", {"adamw", "adamw-foreach"}},
      {"--clip-grad", {"1.0", "0.5"}},
      {"--param-dtype", {"fp32", "bf16"}},
      {"--compute-dtype", {"fp32", "bf16"}},
      {"--fp8", {"tensorwise", "rowwise"}},
      {"--fp8-all-gather", {"-"}}},
     {}},
    {"torchtune",
     ".yaml",
     {"llama-3.1-8b", "llama-3.2-1b", "tiny-llama", "mistral-7b", "qwen2.5-1.5b"},
     {{"--batch", {"1", "2", "3"}},
      {"--seq", {"128", "1024", "4096"}},
      {"--grad-accum", {"2", "4"}},
      {"--world", {"2", "4", "8"}},
      {"--reshard-after-forward", {"true", "false"}},
      {"--ac", {"none", "full", "every:2"}},
      {"--loss", {"ce", "chunked-logits:8", "chunked-logits:4"}},
      {"--output-dtype", {"fp32"}},
      {"--offload", {"activations", "parameters"}},
      {"--optimizer",
       {"adamw", "adamw-foreach", "sgd", "sgd-momentum", "adamw-8bit", "paged-adamw",
        "paged-adamw-8bit", "adamw-8bit-torchao", "lion"}},
      {"--clip-grad", {"1.0", "0.5"}},
      {"--lora", {"8", "64"}},
      {"--lora-targets", {"q_proj,v_proj", "q_proj,k_proj,o_proj", "all-linear"}},
      {"--lora-dropout", {"0.05"}},
      {"--dora", {"-"}},
      {"--dropout", {"0.1"}},
      {"--optimizer-in-backward", {"-"}}},
     {"--seq", "--world"}},
    {"automodel",
     ".yaml",
     {"llama-3.1-8b", "tiny-llama", "qwen3-0.6b", "mistral-7b"},
     {{"--batch", {"1", "2", "3"}},
      {"--seq", {"128", "1024", "4096"}},
      {"--grad-accum", {"2", "4"}},
      {"--world", {"2", "4", "8"}},
      {"--shard", {"none", "ddp", "fsdp2", "hsdp:2"}},
      {"--reshard-after-forward", {"true", "false"}},
      {"--keep-last-block", {"-"}},
      {"--no-sync", {"-"}},
      {"--ac", {"none", "full", "selective"}},
      {"--ac-scope", {"block", "submodule"}},
      {"--loss", {"ce", "lc-ce"}},
      {"--kernels", {"eager", "fused"}},
      {"--attn", {"auto", "flash", "cudnn", "efficient", "math", "eager"}},
      {"--optimizer",
       {"adamw", "adamw-foreach", "sgd", "sgd-momentum", "adamw-8bit", "paged-adamw",
        "paged-adamw-8bit", "adamw-8bit-torchao", "lion", "adafactor"}},
      {"--clip-grad", {"1.0", "0.5"}, true},  // without its section AutoModel clips at 1.0
      {"--param-dtype", {"fp32", "bf16"}},
      {"--reduce-dtype", {"fp32", "bf16"}},
      {"--lora", {"8", "64"}},
      {"--lora-targets", {"q_proj,v_proj", "all-linear"}},
      {"--lora-dtype", {"bf16", "fp32"}},
      {"--lora-dropout", {"0.05"}},
      {"--dropout", {"0.1"}}},
     {"--seq", "--world"}},
    {"litgpt",
     ".yaml",
     {"llama-3.1-8b", "llama-3.2-1b", "mistral-7b"},
     {{"--batch", {"1", "2", "3"}},
      {"--seq", {"128", "1024", "4096"}},
      {"--grad-accum", {"2", "4"}},
      {"--lora", {"8", "64"}},
      {"--lora-targets", {"query,value", "query,key,mlp,head", "all-linear"}},
      {"--lora-dropout", {"0.05", "0.1"}},
      {"--quantize", {"nf4", "nf4-double"}},
      {"--optimizer", {"adamw", "adamw-foreach", "sgd-momentum", "paged-adamw"}}},
     {}},
    {"llamafactory",
     ".yaml",
     {"llama-3.1-8b", "tiny-llama", "qwen3-0.6b", "mistral-7b"},
     {{"--task", {"dpo", "kto", "orpo", "simpo", "reward"}},
      {"--batch", {"1", "2", "3"}},
      {"--seq", {"128", "1024", "4096"}},
      {"--grad-accum", {"2", "4"}},
      {"--world", {"2", "4", "8"}},
      {"--shard", {"none", "ddp", "zero1", "zero2", "zero3"}},
      {"--overlap-comm", {"-"}},
      {"--offload", {"optimizer", "parameters"}},
      {"--ac", {"none", "full"}},
      {"--no-ac-reentrant", {"-"}},
      {"--attn", {"auto", "flash", "eager"}},
      {"--param-dtype", {"fp32", "bf16"}},
      {"--autocast", {"none"}},
      {"--optimizer",
       {"adamw", "adamw-foreach", "sgd", "adamw-8bit", "paged-adamw", "paged-adamw-8bit", "lion",
        "adafactor"}},
      {"--clip-grad", {"1.0", "0.5"}},
      {"--lora", {"8", "64"}},
      {"--lora-targets", {"q_proj,v_proj", "all-linear"}},
      {"--lora-dropout", {"0.05"}},
      {"--dora", {"-"}},
      {"--quantize", {"nf4", "nf4-double", "int8"}},
      {"--ref", {"model", "adapter"}}},
     {"--world"}},
    {"megatron",
     ".sh",
     {"llama-3.1-8b", "llama-3.2-1b", "qwen3-0.6b", "qwen2.5-1.5b", "gpt2"},
     {{"--transformer-impl", {"transformer_engine", "local"}},
      {"--batch", {"1", "2", "4"}},
      {"--seq", {"512", "1024"}},
      {"--grad-accum", {"4", "8"}},
      {"--world", {"8", "16", "64"}, true},
      {"--tp", {"2", "4"}},
      {"--no-sp", {"-"}},
      {"--cp", {"2"}},
      {"--pp", {"2", "4"}},
      {"--pp-schedule", {"interleaved:2", "interleaved:4"}},
      {"--pp-layers", {"6,10", "4,4,4,4", "5,7", "13,15", "3,9,9,7"}},
      {"--shard", {"ddp", "zero1"}},
      {"--optimizer-instances", {"2"}},
      {"--ac",
       {"none", "full", "grouped:2", "first:1", "attention", "modules:core_attn+layernorm"}},
      {"--loss", {"ce", "ce-compiled"}},
      {"--no-gradient-accumulation-fusion", {"-"}},
      {"--attn", {"auto", "flash", "cudnn", "eager"}},
      {"--clip-grad", {"1.0", "0.5", "0"}},
      {"--param-dtype", {"bf16", "fp16"}},
      {"--fp8", {"delayed", "tensorwise"}}},
     {}},
};

class Random {  // splitmix64: the same draws with every standard library
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t n) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<std::size_t>((z ^ (z >> 31)) % n);
  }

 private:
  std::uint64_t state_;
};

OptionList drawn(const Target& target, Random& random) {
  OptionList options = {{"--framework", std::string(target.name)}};
  for (const Draw& draw : target.draws) {
    if (!draw.always && random.below(3) != 0) continue;
    const std::string_view value = draw.values[random.below(draw.values.size())];
    options.emplace_back(std::string(draw.option), value == "-" ? "" : std::string(value));
  }
  return options;
}

/// What a plan has and the framework does not do, so that no file says it.
bool beyond_the_file(const Target& target, const OptionList& options, const StepConfig& c) {
  const auto drew = [&](std::string_view name) { return given(options, std::string(name)); };
  if (target.name == "torchtitan")  // maybe_enable_amp: no mixed precision beside TP and PP alone
    return !c.layout.gathers() && c.layout.tp * c.layout.pp > 1 &&
           c.precision.param_dtype != c.precision.compute_dtype;
  if (target.name == "automodel") {
    const bool scope = drew("--ac-scope") && c.memory.ac != AcMode::full;
    return scope || (!c.layout.gathers() &&
                     (drew("--no-sync") || drew("--reduce-dtype") || drew("--keep-last-block")));
  }
  if (target.name == "litgpt")  // instantiate_bnb_optimizer: quantized layers have paged states
    return c.adapters.quantized() != (c.optimizer.kind == Optimizer::paged_adamw);
  return false;
}

/// All that the options settle, a row each; nothing of the device and of what is shown.
std::string settled(const StepConfig& c) {
  std::string text;
  for (const OptionRow& row : option_table())
    if (row.on_command_line()) text += fmt::format("{} {}\n", row.name, row.text(c));
  return text;
}

}  // namespace

TEST_CASE("what is exported reads back as the same step") {
  const fs::path folder =
      fs::temp_directory_path() / ("ac_advisor_exported." + std::to_string(::getpid()));
  fs::create_directories(folder);
  for (const Target& target : targets) {
    CAPTURE(target.name);
    if (target.ending == ".toml" ? !test::has_toml : target.ending != ".sh" && !test::has_yaml)
      continue;
    Random random(46);
    // 60 draws that are planned, can be exported and are read back; few of TorchTitan's are
    std::size_t read = 0;
    for (int draws = 0; read < 60; ++draws) {
      REQUIRE(draws < 20'000);
      const std::string name(target.models[random.below(target.models.size())]);
      const model::ModelSpec model = model::load_model(name);
      const OptionList options = drawn(target, random);
      std::string text, planned;
      OptionList by_hand;
      try {
        const StepConfig config = advise::resolve(model, options).config;
        if (passes::find_exclusion(model, config) != nullptr) continue;
        if (beyond_the_file(target, options, config)) continue;
        text = advise::export_setting(std::string(target.name), model, config).text;
        planned = settled(config);
        for (const std::string_view open : target.by_hand)
          by_hand.emplace_back(std::string(open), find_option(open)->text(config));
      } catch (const UserError&) {
        continue;  // options that contradict each other, or that the framework has not
      }
      const fs::path file = folder / (std::string(target.name) + std::string(target.ending));
      std::ofstream(file) << text;
      CAPTURE(text);
      CAPTURE(model.name);
      // the sizes are not in what is exported to Megatron-LM
      const std::string by_sizes = target.name == "megatron" ? name : std::string();
      intake::Training training;
      try {
        training = intake::read_training({file.string(), "", by_hand, {}, by_sizes});
      } catch (const UserError& error) {
        FAIL_CHECK(error.what());
        continue;
      }
      CHECK(training.tool == target.name);
      CHECK(training.unknown.empty());
      OptionList again = training.options;
      again.insert(again.end(), by_hand.begin(), by_hand.end());
      CHECK(settled(advise::resolve(model, again).config) == planned);
      ++read;
    }
  }
}

}  // namespace ac_advisor::test
