// Megatron-LM's arguments: what each becomes. Defaults: data/tools/megatron.json, of core_v0.19.0;
// its own parser's values: tests/oracle/megatron_arguments.json.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/advise/training_model.hpp"
#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/spec.hpp"
#include "intake/mapped.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

intake::Training read(const std::string& text, const OptionList& given = {},
                      const std::vector<std::string>& ignore = {}, const std::string& model = "") {
  return intake::read_training({"train.sh", "", given, ignore, model}, text);
}

std::string why(const std::string& text, const OptionList& given = {}) {
  return why_not([&] { return read(text, given); });
}

model::ModelSpec model_of(const intake::Training& t) {
  return model::load_model(advise::training_model(t));
}

const std::string start = "torchrun --nproc_per_node 8 pretrain_gpt.py ";
const std::string sizes =
    "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --max-position-embeddings 1024 "
    "--vocab-size 50257 --tokenizer-type NullTokenizer ";
const std::string step = "--seq-length 1024 --micro-batch-size 2 --bf16 ";
const std::string whole = start + sizes + step;

std::string canonical(const std::string& text) {
  if (text == "None" || text == "null") return "";
  if (text == "True" || text == "False") return text == "True" ? "true" : "false";
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? text : fmt::format("{}", number);
}

/// A word as bash takes it literally.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

/// Read with what is not planned left out, key by key; `ignored` says which.
intake::Training read_without(const std::string& text, std::vector<std::string>& ignored,
                              const OptionList& given = {}) {
  constexpr std::string_view way_out = "; --ignore ";
  for (;;) {
    const std::string error = why_not([&] { return read(text, given, ignored); });
    const std::size_t at = error.rfind(way_out);
    if (error.empty() || at == std::string::npos) return read(text, given, ignored);
    const std::string rest = error.substr(at + way_out.size());
    ignored.push_back(rest.substr(0, rest.find(' ')));
  }
}

}  // namespace

TEST_CASE("Megatron-LM: a command's arguments are a model and its options") {
  const intake::Training t = read(
      "TP=2\nGPT_MODEL_ARGS=(\n  --num-layers 4  # as GPT\n  --hidden-size 512\n"
      "  --num-attention-heads 8\n  --max-position-embeddings 1024\n)\n"
      "torchrun --nproc_per_node 4 --nnodes 2 pretrain_gpt.py ${GPT_MODEL_ARGS[@]} \\\n"
      "  --seq-length 1024 --micro-batch-size=2 --global-batch-size 32 --bf16 --vocab-size 50257 "
      "\\\n"
      "  --tokenizer-type NullTokenizer --tensor-model-parallel-size $TP --sequence-parallel \\\n"
      "  --use-distributed-optimizer --lr 1e-4 --num-layer 3\n");
  CHECK(t.tool == "megatron");
  CHECK(t.version == "megatron_core 0.19.0");
  CHECK(option(t, "--framework") == "megatron");
  CHECK(option(t, "--world") == "8");
  CHECK(option(t, "--tp") == "2");
  CHECK(option(t, "--sp") == "(flag)");
  CHECK(option(t, "--batch") == "2");
  CHECK(option(t, "--grad-accum") == "4");  // 32 / 2 / (8 / 2)
  CHECK(option(t, "--seq") == "1024");
  CHECK(option(t, "--shard") == "zero1");
  CHECK(option(t, "--param-dtype") == "bf16");
  CHECK(option(t, "--optimizer") == "adamw");
  CHECK(option(t, "--attn") == "auto");
  CHECK(option(t, "--ac") == "none");
  CHECK(t.no_effect == std::vector<std::string>{"lr"});
  CHECK(t.unknown == std::vector<std::string>{"num-layer (line 11); did you mean num-layers?"});
  for (const intake::Mapping& m : t.mapping)
    if (m.key == "hidden-size") {
      CHECK(m.line == 4);
      CHECK(m.options == "MODEL");
    }
  const model::ModelSpec model = model_of(t);
  CHECK(model.name == "train");
  CHECK(model.layers == 4);
  CHECK(model.hidden == 512);
  CHECK(model.intermediate == 2048);
  CHECK(model.position_table == 1024);
  CHECK(model.attention_dropout == 0.1);
  CHECK(model.tied_embeddings);
  CHECK(model.vocab == 50257);
}

TEST_CASE("Megatron-LM: groups of queries, rotation and experts are the model's") {
  const intake::Training t = read(
      whole +
      "--group-query-attention --num-query-groups 2 --use-rotary-position-embeddings --swiglu "
      "--disable-bias-linear --normalization RMSNorm --num-experts 8 --moe-ffn-hidden-size 256 "
      "--moe-layer-freq '([0]*1+[1]*3)' --moe-aux-loss-coeff 1e-2 --expert-model-parallel-size 4 "
      "--untie-embeddings-and-output-weights");
  const model::ModelSpec model = model_of(t);
  CHECK(model.kv_heads == 2);
  CHECK(model.rotary_dim == 64);
  CHECK(model.intermediate == 1344);  // int(4 · 512 · 2 / 3 / 64) · 64
  CHECK_FALSE(model.tied_embeddings);
  REQUIRE(model.moe);
  CHECK(model.moe->experts == 8);
  CHECK(model.moe->intermediate == 256);
  CHECK(model.moe->megatron->aux_loss);
  CHECK(model.sparse_block == std::vector<bool>{false, true, true, true});
  CHECK(option(t, "--ep") == "4");
  CHECK(value(t, "moe-layer-freq") == "[0, 1, 1, 1]");
  // without the flag each head has keys and values of its own, whatever the number says
  const intake::Training alone = read(whole + "--num-query-groups 2");
  CHECK(model_of(alone).kv_heads == 8);
  CHECK(assumes(alone, "num-query-groups: has no effect"));
}

TEST_CASE("Megatron-LM: what is recomputed, virtual stages, FP8 and attention") {
  const auto of = [](const std::string& more, const char* name) {
    return option(read(whole + more), name);
  };
  CHECK(of("--recompute-activations", "--ac") == "attention");
  CHECK(of("--recompute-granularity selective --recompute-modules moe_act core_attn", "--ac") ==
        "modules:core_attn+moe_act");
  const std::string full = "--recompute-granularity full --recompute-method ";
  CHECK(of(full + "uniform --recompute-num-layers 1", "--ac") == "full");
  CHECK(of(full + "uniform --recompute-num-layers 2", "--ac") == "grouped:2");
  CHECK(of(full + "block --recompute-num-layers 2", "--ac") == "first:2");
  const std::string stages = "--pipeline-model-parallel-size 2 ";
  CHECK(of(stages + "--num-layers-per-virtual-pipeline-stage 1", "--pp-schedule") ==
        "interleaved:2");
  CHECK(of(stages + "--decoder-first-pipeline-num-layers 1", "--pp-layers") == "1,3");
  CHECK(of("--fp8-format hybrid", "--fp8") == "delayed");
  CHECK(of("--fp8-format e4m3 --fp8-recipe tensorwise", "--fp8") == "tensorwise");
  CHECK(of("--attention-backend fused", "--attn") == "cudnn");
  CHECK(of("--transformer-impl local --attention-backend unfused", "--attn") == "eager");
  CHECK(of("--tensor-model-parallel-size 2", "--no-sp") == "(flag)");
  CHECK(of("--cross-entropy-loss-fusion", "--loss") == "ce-compiled");
  CHECK(option(read("export NVTE_FUSED_ATTN=0\n" + whole), "--attn") == "flash");
}

TEST_CASE("Megatron-LM: the vocabulary is filled up as --make-vocab-size-divisible-by says") {
  const auto vocabulary = [](const std::string& more) {
    return model_of(read(whole + more)).vocab;
  };
  CHECK(vocabulary("") == 50257);  // the plan fills it up to 50304
  CHECK(vocabulary("--make-vocab-size-divisible-by 1024") == 51200);
  CHECK(vocabulary("--padded-vocab-size 50688") == 50688);
  CHECK(contains(why(whole + "--make-vocab-size-divisible-by 1"), "multiples of 128"));
  const std::string bare = start +
                           "--num-layers 4 --hidden-size 512 --num-attention-heads 8 "
                           "--max-position-embeddings 1024 " +
                           step;
  const intake::Training gpt2 = read(bare + "--vocab-file vocab.json --merge-file merges.txt");
  CHECK(model_of(gpt2).vocab == 50257);
  CHECK(assumes(gpt2, "50257 words of GPT2BPETokenizer"));
  const std::string hub = "--tokenizer-type HuggingFaceTokenizer --tokenizer-model ";
  CHECK(model_of(read(bare + hub + "Qwen/Qwen2.5-7B-Instruct")).vocab == 152064);
  CHECK(contains(why(bare), "add --vocab-size N"));
  CHECK(contains(why(bare + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model $1"),
                 "add --vocab-size N"));
}

TEST_CASE("Megatron-LM: --model by hand has the sizes") {
  const intake::Training t =
      read(start + step + "--num-layers 4 --use-checkpoint-args", {}, {}, "llama-3.1-8b");
  CHECK(t.config.empty());
  CHECK(assumes(t, "--model by hand"));
  CHECK(contains(why(start + step + "--use-checkpoint-args"), "its checkpoint's"));
}

TEST_CASE(
    "Megatron-LM: what is not planned, or not taken by its parser, is refused with its line") {
  const auto says = [](const std::string& more, const char* what) {
    const std::string error = why(whole + more);
    CAPTURE(error);
    CHECK(contains(error, what));
  };
  says("--grad-reduce-in-bf16", "train.sh:1: grad-reduce-in-bf16: True: changes the step");
  says("--use-megatron-fsdp", "--ignore use-megatron-fsdp plans without it");
  says("--sequence-parallel True", "sequence-parallel: takes no value, and has 1");
  says("--clip-grad", "clip-grad: takes one value, and has 0");
  says("--seq-length 2048", "seq-length: 2048: is more than max-position-embeddings 1024");
  says("--global-batch-size 24", "no multiple of 8 data-parallel ranks with micro-batches of 2");
  says("--tensor-model-parallel-size 3", "8 ranks are no multiple of tp 3");
  says("--hidden-size 0", "train.sh:1: \"hidden_size\": 0");
  says("--fp16", "goes not with bf16");
  says("--fp8-format hybrid --fp8-recipe mxfp8", "delayed and tensorwise are planned");
  says("--recompute-granularity full", "recompute-method");
  says("--attention-backend local", "auto, flash, fused and unfused are planned");
  says("--moe-layer-freq '[1' --num-experts 8 --disable-bias-linear", "is a number, or a list");
  says("--rotary-base 1e6", "rotary-base: 1e6: is no whole number");
  CHECK(contains(why("torchrun pretrain_mamba.py --num-layers 4"), "pretrain_gpt.py is planned"));
  CHECK(contains(why("python pretrain_gpt.py " + sizes + step), "give --world N by hand"));
  CHECK(contains(why(start + step), "num-layers: is missing"));
  CHECK(contains(why(start + sizes + "--seq-length 64 --micro-batch-size 1"), "fp32"));
  CHECK(read(whole + "--log-num-zeros-in-grad", {}, {"log-num-zeros-in-grad"}).tool == "megatron");
}

TEST_CASE("Megatron-LM's own parser makes of 400 commands' arguments what ours does") {
  std::ifstream file(std::string(source_dir) + "/tests/oracle/megatron_arguments.json");
  const auto oracle = nlohmann::json::parse(file);
  const auto known = nlohmann::json::parse(
      std::ifstream(std::string(source_dir) + "/data/tools/megatron.json"))["defaults"];
  std::size_t read = 0, drawn = 0, keys = 0, refused = 0, refused_by_both = 0;
  for (const auto& c : oracle.at("cases")) {
    const std::string name = c.at("name");
    std::string text =
        fmt::format("torchrun --nproc_per_node {} pretrain_gpt.py", c.at("world").get<int>());
    for (const std::string word : c.at("arguments")) text += " " + quoted(word);
    CAPTURE(name);
    std::vector<std::string> ignored;
    intake::Training training;
    const std::string error = why_not([&] { return training = read_without(text, ignored); });
    const bool taken = c.contains("values");
    if (!error.empty()) {
      ++(taken ? refused : refused_by_both);
      continue;
    }
    if (!taken) continue;
    ++read;
    drawn += name.starts_with("drawn") ? 1 : 0;
    CHECK(training.unknown.empty());
    const auto& values = c.at("values");
    const bool other_optimizer = std::ranges::find(ignored, "optimizer") != ignored.end();
    for (const intake::Mapping& m : training.mapping) {
      if (!known.contains(m.key) || m.key.starts_with("--") || m.key == "megatron") continue;
      if (values.contains(m.key) && values[m.key].is_null()) continue;
      if (other_optimizer && m.key == "use-distributed-optimizer") continue;  // by layers then
      const std::string theirs = values.contains(m.key) ? values[m.key].get<std::string>()
                                                        : known[m.key]["value"].get<std::string>();
      CAPTURE(m.key);
      CHECK(canonical(m.value) == canonical(theirs));
      ++keys;
    }
  }
  CHECK(read >= 333);
  CHECK(drawn >= 137);
  CHECK(keys >= 13'000);
  // experts with biases, a tokenizer that is not here, latent attention without rotation, fp32,
  // another balancing loss, stages that do not divide
  CHECK(refused <= 37);
  CHECK(refused_by_both >= 30);
}

TEST_CASE(
    "Megatron-LM's functional tests are read as the options that their published peaks have") {
  const std::string folder(source_dir);
  const auto oracle =
      nlohmann::json::parse(std::ifstream(folder + "/tests/oracle/megatron_arguments.json"));
  const auto published =
      nlohmann::json::parse(std::ifstream(folder + "/docs/published/memory_peaks.json"));
  std::map<std::string, nlohmann::json> cases;
  for (const auto& c : oracle.at("cases")) cases[c.at("name").get<std::string>()] = c;
  std::size_t compared = 0;
  for (const auto& row : published) {
    constexpr std::string_view of = "NVIDIA/Megatron-LM, ";
    const std::string source = row.at("source");
    if (!source.starts_with(of)) continue;
    const std::string name = source.substr(of.size(), source.find("/golden") - of.size());
    if (!cases.contains(name)) continue;
    CAPTURE(row.at("id").get<std::string>());
    std::istringstream words(row.at("options").get<std::string>());
    std::string model, word;
    words >> model;
    OptionList theirs;
    while (words >> word)
      if (word.starts_with("--"))
        theirs.emplace_back(word, "");
      else
        theirs.back().second = word;
    // what a run's place says: the device, the rank, what Transformer Engine chose there
    OptionList by_hand;
    for (const auto& [option, text] : theirs)
      for (const char* open :
           {"--gpu", "--attn", "--pp-rank", "--world", "--cublas-workspace", "--deterministic"})
        if (option == open) by_hand.emplace_back(option, text);
    std::string text = "torchrun pretrain_gpt.py";
    for (const std::string argument : cases[name].at("arguments")) text += " " + quoted(argument);
    std::vector<std::string> ignored;
    const intake::Training training = read_without(text, ignored, by_hand);
    OptionList ours = training.options;
    // which changes no plan of dense models by unfused attention, and so is in few of the rows
    std::erase_if(ours, [](const auto& given) {
      return given.first == "--deterministic" || given.first == "--cublas-workspace";
    });
    ours.insert(ours.end(), by_hand.begin(), by_hand.end());
    const model::ModelSpec made = model_of(training),
                           planned = model::load_model(folder + "/" + model);
    CHECK(model::parameter_count(made) == model::parameter_count(planned));
    CHECK(made.attention_dropout == planned.attention_dropout);
    const StepConfig ours_settled = advise::resolve(made, ours).config,
                     theirs_settled = advise::resolve(planned, theirs).config;
    for (const OptionRow& option : option_table())
      if (option.on_command_line()) {
        CAPTURE(option.name);
        CHECK(option.text(ours_settled) == option.text(theirs_settled));
      }
    ++compared;
  }
  CHECK(compared >= 268);
}

}  // namespace ac_advisor::test
