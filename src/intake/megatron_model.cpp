// The model that Megatron-LM's arguments describe, as the configuration that they are without their
// dashes (docs/megatron.md): core_v0.19.0, megatron/training/arguments.py, validate_args.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/spec.hpp"
#include "megatron_keys.hpp"
#include "model/found_config.hpp"

namespace ac_advisor::intake::megatron_keys {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* sizes[] = {"hidden-size", "num-attention-heads", "max-position-embeddings"};
/// Read where they are given.
constexpr const char* figures[] = {"ffn-hidden-size", "kv-channels",      "rotary-base",
                                   "rotary-percent",  "normalization",    "norm-epsilon",
                                   "hidden-dropout",  "attention-dropout"};
constexpr const char* switches[] = {"no-rope-fusion",
                                    "apply-layernorm-1p",
                                    "disable-bias-linear",
                                    "add-qkv-bias",
                                    "swiglu",
                                    "squared-relu",
                                    "qk-layernorm",
                                    "untie-embeddings-and-output-weights"};
constexpr const char* figures_of_experts[] = {
    "moe-router-topk",       "moe-ffn-hidden-size",       "moe-router-score-function",
    "moe-router-num-groups", "moe-router-group-topk",     "moe-router-topk-scaling-factor",
    "moe-router-dtype",      "moe-token-dispatcher-type", "moe-shared-expert-intermediate-size"};
constexpr const char* switches_of_experts[] = {"moe-router-enable-expert-bias",
                                               "moe-router-pre-softmax", "moe-grouped-gemm",
                                               "moe-permute-fusion"};
constexpr const char* others_of_experts[] = {
    "num-experts", "moe-layer-freq", "moe-router-load-balancing-type", "moe-aux-loss-coeff"};
/// Of latent attention; those with a default have it.
constexpr const char* figures_of_latent[] = {
    "q-lora-rank", "kv-lora-rank",          "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim",
    "rope-type",   "rotary-scaling-factor", "mscale",      "mscale-all-dim"};
constexpr const char* further[] = {"num-layers",
                                   "encoder-num-layers",
                                   "group-query-attention",
                                   "num-query-groups",
                                   "position-embedding-type",
                                   "use-rotary-position-embeddings",
                                   "no-position-embedding",
                                   "multi-latent-attention",
                                   "vocab-size",
                                   "padded-vocab-size",
                                   "no-pad-vocab-size",
                                   "disable-pad-vocab-size",
                                   "make-vocab-size-divisible-by",
                                   "tokenizer-type",
                                   "tokenizer-model",
                                   "use-checkpoint-args"};

/// As Python's int and float read it, else a word.
Json value_of(const std::string& text) {
  std::string digits = text;
  std::erase(digits, '_');
  const char *begin = digits.data(), *end = begin + digits.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(begin, end, whole);
      read.ec == std::errc{} && read.ptr == end && !digits.empty())
    return whole;
  double number = 0;
  if (const auto read = std::from_chars(begin, end, number);
      read.ec == std::errc{} && read.ptr == end && std::isfinite(number))
    return number;
  return text;
}

class Model {
 public:
  explicit Model(Keys& keys) : keys_(keys) {
    const std::string name = std::filesystem::path(keys.out().path).stem().string();
    json_ = {{"model_type", "megatron"}, {"name_or_path", name}};
    keys.out().model = name;
    keys.out().model_key = "num-layers";
  }

  void set(std::string_view key, Json value) {
    put(key, std::move(value));
    keys_.of_model(key);
  }

  /// The same of what another argument says.
  void put(std::string_view key, Json value) {
    std::string field(key);
    std::replace(field.begin(), field.end(), '-', '_');
    json_[field] = std::move(value);
  }

  /// In the file, or the parser's default.
  void figure(std::string_view key) {
    if (const std::optional<std::string> text = keys_.text(key)) set(key, value_of(*text));
  }

  void given(std::string_view key) {
    if (keys_.in_file(key)) figure(key);
  }

  bool flag(std::string_view key) {
    const bool on = keys_.is_on(key);
    if (on) set(key, true);
    return on;
  }

  void required(std::string_view key) {
    if (!keys_.in_file(key)) keys_.refuse(key, "is missing, and Megatron-LM asks for it");
    figure(key);
  }

  /// The configuration, read. Its errors name the argument's line.
  model::ModelSpec read() {
    const std::string text = json_.dump(-1, ' ', false, Json::error_handler_t::replace);
    try {
      model::ModelSpec spec = model::parse_config(text, keys_.out().path, keys_.out().model);
      keys_.out().config = text;
      return spec;
    } catch (const UserError& error) {
      throw UserError(placed(error.what()));
    }
  }

 private:
  /// `train.sh: "hidden_size": 0 …` as `train.sh:12: "hidden_size": 0 …`.
  [[nodiscard]] std::string placed(const std::string& message) {
    const std::string& path = keys_.out().path;
    const std::string head = path + ": \"";
    if (!message.starts_with(head)) return message;
    std::string key = message.substr(head.size(), message.find('"', head.size()) - head.size());
    std::replace(key.begin(), key.end(), '_', '-');
    for (const Mapping& row : keys_.out().mapping)
      if (row.key == key && row.line > 0)
        return fmt::format("{}:{}{}", path, row.line, message.substr(path.size()));
    return message;
  }

  Keys& keys_;
  Json json_;
};

/// Of a file without --vocab-size: the tokenizer's, which is not here.
std::int64_t words_of_tokenizer(Keys& keys, const std::string& tokenizer) {
  constexpr const char *type = "tokenizer-type", *whose = "tokenizer-model";
  constexpr std::pair<std::string_view, std::int64_t> known[] = {{"GPT2BPETokenizer", 50257},
                                                                 {"Llama2Tokenizer", 32000}};
  // pretrain_gpt.py's own default is GPT-2's, whose files are arguments
  const bool named = keys.in_file(type) || keys.in_file("vocab-file");
  for (const auto& [name, words] : known)
    if (named && tokenizer == name) {
      keys.assume(fmt::format("vocab-size: the {} words of {} are taken for granted", words, name));
      if (keys.in_file(whose)) static_cast<void>(keys.node(whose));
      return words;
    }
  const Node* given = keys.node(whose);
  if (given == nullptr || !given->unset.empty())
    keys.refuse(keys.in_file(type) ? type : "vocab-size",
                "how many words there are is not here: add --vocab-size N to the arguments");
  const std::string name = keys.text(whose).value_or("");
  try {
    const model::FoundConfig found = model::find_config(name);
    const std::int64_t words = model::parse_config(found.text, found.origin, found.name).vocab;
    keys.assume(fmt::format(
        "vocab-size: the {} words of {}'s configuration are taken for granted; its tokenizer may "
        "have fewer",
        words, plain(name)));
    return words;
  } catch (const UserError&) {
    keys.refuse(whose, "how many words it has is not here: add --vocab-size N to the arguments");
  }
}

/// The vocabulary, filled up as the plan does it: to a multiple of 128 for each rank of a layer.
void read_vocabulary(Keys& keys, Model& model, std::int64_t tp) {
  constexpr const char *key = "vocab-size", *padded = "padded-vocab-size",
                       *divisor = "make-vocab-size-divisible-by", *type = "tokenizer-type";
  constexpr std::int64_t planned = 128;
  const auto check = [&](const char* name, std::int64_t vocabulary) {
    if (vocabulary % (planned * tp) != 0)
      static_cast<void>(keys.unplanned(
          name, fmt::format("a vocabulary of {}, as it is planned in multiples of {}", vocabulary,
                            planned * tp)));
  };
  if (keys.in_file(padded)) {
    const std::int64_t vocabulary = keys.count(padded, 1);
    check(padded, vocabulary);
    model.put("vocab-size", vocabulary);
    return keys.of_model(padded);
  }
  const std::string tokenizer = keys.text(type).value_or("GPT2BPETokenizer");
  std::int64_t vocabulary = 0;
  if (keys.in_file(key)) {
    vocabulary = keys.count(key, 1);
    keys.of_model(key);
    if (tokenizer != "NullTokenizer" && tokenizer != "TikTokenizer" && keys.in_file(type))
      keys.assume(fmt::format("{}: {}'s own size is taken to be this", key, plain(tokenizer)));
  } else {
    vocabulary = words_of_tokenizer(keys, tokenizer);
    keys.of_model(type);
  }
  const bool whole = keys.in_file("no-pad-vocab-size") || keys.in_file("disable-pad-vocab-size");
  for (const char* name : {"no-pad-vocab-size", "disable-pad-vocab-size"})
    if (keys.in_file(name)) static_cast<void>(keys.flag(name));
  const std::int64_t multiple = whole ? 1 : keys.count(divisor, planned) * tp,
                     filled = (vocabulary + multiple - 1) / multiple * multiple;
  if (whole || keys.in_file(divisor)) {
    check(whole
              ? (keys.in_file("no-pad-vocab-size") ? "no-pad-vocab-size" : "disable-pad-vocab-size")
              : divisor,
          filled);
    vocabulary = filled;
    if (!whole) keys.of_model(divisor);
  }
  model.put(key, vocabulary);
}

void read_positions(Keys& keys, Model& model) {
  constexpr const char *key = "position-embedding-type", *before = "use-rotary-position-embeddings";
  const bool legacy = keys.is_on(before);
  const std::string type = legacy ? "rope" : keys.text(key).value_or("learned_absolute");
  if (keys.is_on("no-position-embedding") && type != "rope")
    keys.refuse("no-position-embedding", "is deprecated: give position-embedding-type");
  if (legacy) static_cast<void>(keys.text(key)), keys.resolved(key, "rope");
  model.set(key, type);
}

void read_experts(Keys& keys, Model& model) {
  if (!keys.in_file("num-experts") || keys.number("num-experts") == 0) return;
  model.figure("num-experts");
  for (const char* key : figures_of_experts) model.given(key);
  for (const char* key : switches_of_experts) model.flag(key);
  for (const char* key : {"moe-router-load-balancing-type", "moe-aux-loss-coeff"}) {
    const std::vector<std::string> all = keys.words(key);
    if (all.size() > 1)
      static_cast<void>(keys.unplanned(key, "several balancing losses are not planned"));
    if (!all.empty()) {
      keys.resolved(key, all.front());
      model.set(key, value_of(all.front()));
    }
  }
  constexpr const char* which = "moe-layer-freq";
  if (const std::string text = keys.text(which).value_or("1");
      !text.starts_with('[') && !text.starts_with('(')) {
    model.given(which);
  } else if (const auto layers = listed(text)) {
    model.set(which, *layers);
    keys.resolved(which, fmt::format("[{}]", fmt::join(*layers, ", ")));
  } else {
    keys.refuse(which, "is a number, or a list such as \"[0]*1+[1]*23\"");
  }
}

void read_attention(Keys& keys, Model& model) {
  const bool groups = keys.is_on("group-query-attention");
  const bool latent = model.flag("multi-latent-attention");
  if (groups && latent)
    keys.refuse("group-query-attention", "goes not with multi-latent-attention");
  model.set("group-query-attention", groups);
  if (groups) model.figure("num-query-groups");
  if (!groups && keys.in_file("num-query-groups") && keys.number("num-query-groups") != 1)
    keys.assume("num-query-groups: has no effect without group-query-attention");
  if (latent)
    for (const char* key : figures_of_latent) model.figure(key);
  else if (keys.text("rope-type").value_or("rope") != "rope")
    keys.refuse("rope-type", "is rope without multi-latent-attention");
}

/// All that says something of the model is --model's.
std::int64_t read_by_hand(Keys& keys) {
  keys.assume("--model by hand has the model's sizes, not the arguments");
  const auto leave = [&](const auto& names) {
    for (const char* key : names)
      if (keys.in_file(key)) static_cast<void>(keys.node(key));
  };
  leave(sizes), leave(figures), leave(switches), leave(further), leave(figures_of_experts);
  leave(switches_of_experts), leave(others_of_experts), leave(figures_of_latent);
  return model::load_model(keys.model_by_hand()).layers;
}

}  // namespace

std::int64_t read_model(Keys& keys, const Layout& layout) {
  if (!keys.model_by_hand().empty()) return read_by_hand(keys);
  const char* const layers = keys.in_file("num-layers") || !keys.in_file("encoder-num-layers")
                                 ? "num-layers"
                                 : "encoder-num-layers";
  if (keys.is_on("use-checkpoint-args") && !keys.in_file(layers))
    keys.refuse("use-checkpoint-args",
                "the model's sizes are its checkpoint's: give them as arguments too, or --model "
                "with a config.json");
  Model model(keys);
  if (!keys.in_file(layers)) keys.refuse(layers, "is missing, and Megatron-LM asks for it");
  model.set("num-layers", value_of(keys.text(layers).value_or("")));
  keys.of_model(layers);
  for (const char* key : sizes) model.required(key);
  for (const char* key : figures) model.given(key);
  if (keys.in_file("rotary-base")) static_cast<void>(keys.number("rotary-base"));
  for (const char* key : switches) model.flag(key);
  if (keys.in_file("swiglu") && keys.in_file("squared-relu"))
    keys.refuse("squared-relu", "goes not with swiglu");
  read_positions(keys, model);
  read_attention(keys, model);
  read_vocabulary(keys, model, layout.tp);
  read_experts(keys, model);
  const model::ModelSpec spec = model.read();
  const auto made = [&](const char* key, std::int64_t size) {
    if (keys.in_file(key)) return;
    static_cast<void>(keys.text(key));
    keys.resolved(key, std::to_string(size));
  };
  made("ffn-hidden-size", spec.intermediate);
  made("kv-channels", spec.hidden / spec.heads);
  if (spec.moe) made("moe-ffn-hidden-size", spec.intermediate);
  return spec.layers;
}

}  // namespace ac_advisor::intake::megatron_keys
