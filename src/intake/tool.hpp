#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ac_advisor/intake/training.hpp"
#include "document.hpp"

namespace ac_advisor::intake {

/// What data/tools/<name>.json says of a tool's keys: `scripts/tool_keys` writes it from the tool's
/// own package.
struct ToolKeys {
  struct Default {
    std::string value, source;
  };
  std::string name, version;
  std::map<std::string, Default, std::less<>> defaults;  ///< of keys that are mapped
  std::map<std::string, std::string, std::less<>>
      unplanned;  ///< key → why, where it is not at its default
  std::map<std::string, std::string, std::less<>> unplanned_defaults;
  std::set<std::string, std::less<>> no_effect;
  /// Sections whose keys go to a component as they are: none of them is unknown.
  std::vector<std::string> open;
  /// Arguments of a command without a value, and with several: all others that it knows have one.
  std::set<std::string, std::less<>> flags, lists;
  [[nodiscard]] bool knows(std::string_view key) const {
    return defaults.contains(key) || unplanned.contains(key) || no_effect.contains(key);
  }
};
[[nodiscard]] const ToolKeys& tool_keys(std::string_view name);

inline constexpr std::int64_t most_count = 1 << 20;  ///< as --world and --batch have it

/// A training file while a tool reads it: each key that is asked for is told in the mapping.
class Keys {
 public:
  Keys(const Node& file, const ToolKeys& tool, const Request& request, Training& out)
      : file_(file), tool_(tool), request_(request), out_(out) {}

  /// The value in the file, else the tool's default; nothing where that is none.
  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  [[nodiscard]] bool flag(std::string_view key);
  /// Whether the file sets it, to true; an absent one is not told.
  [[nodiscard]] bool is_on(std::string_view key) { return in_file(key) && flag(key); }
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view key);
  /// Ranks, rows, steps: refused below 1 and above 2^20.
  [[nodiscard]] std::int64_t count(std::string_view key, std::int64_t otherwise);
  /// --world, by hand or by the file so far; 0: neither gave it. Throws UserError.
  [[nodiscard]] std::int64_t world() const;
  /// A list's items, or a scalar's comma-separated words.
  [[nodiscard]] std::vector<std::string> words(std::string_view key);
  [[nodiscard]] const Node* node(std::string_view key);
  [[nodiscard]] bool in_file(std::string_view key) const { return set_in_file(key) != nullptr; }
  /// The file's keys that begin with "section.".
  [[nodiscard]] std::vector<std::string> within(std::string_view section) const;
  /// Whether a script leaves the value open, and `option`, which the key would say, is by hand; to
  /// read such a value is an error otherwise.
  [[nodiscard]] bool left_open(std::string_view key, std::string_view option);

  /// Adds an option for `key`, unless one of its name was given by hand; the mapping has both. A
  /// value that the option cannot have, or another one than another key has given it, is refused.
  void option(std::string_view key, const std::string& name, const std::string& value = "");
  /// What the tool makes of `key` once it has read all: shown in the mapping in place of what
  /// stands there.
  void resolved(std::string_view key, const std::string& value) { row(key).value = value; }
  /// What follows from several keys, or from what the file leaves open.
  void assume(const std::string& text) { out_.assumptions.push_back(text); }
  [[nodiscard]] bool by_hand(std::string_view option) const;
  /// The value of an option so far: by hand, else by the file; empty where neither gave it.
  [[nodiscard]] std::string value_of(std::string_view option) const;
  /// Whether DeepSpeed's ZeRO shards, by the file or by hand: its engine then casts the module to
  /// the dtype of bf16 or fp16 (deepspeed/runtime/engine.py, _configure_distributed_model, 0.19.8),
  /// whatever it was loaded in.
  [[nodiscard]] bool under_zero() const;
  /// Whether FSDP shards, by the file or by hand: its policy takes the place of autocast, and in
  /// mixed precision accelerate casts what is trained to fp32, whatever it was loaded in
  /// (accelerate 1.15.0, utils/fsdp_utils.py, fsdp2_prepare_model).
  [[nodiscard]] bool under_fsdp() const;
  /// Refuses: "train.yaml:12: key: value: why".
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const;
  /// The same, unless `--ignore key` asks for a plan without it. True: it is left out.
  bool unplanned(std::string_view key, const std::string& why);
  /// What the file has beside what was asked for: without effect, not planned, or unknown. Call it
  /// last.
  void finish();

  /// The model's encoder of images; nothing where it has none, or where no model is found, which
  /// is told once it is planned.
  [[nodiscard]] const std::optional<model::Tower>& tower();

  [[nodiscard]] Training& out() { return out_; }
  /// MODEL by hand in place of the file's; empty: there is none.
  [[nodiscard]] const std::string& model_by_hand() const { return request_.model; }
  /// Told as part of the model's configuration.
  void of_model(std::string_view key) { row(key).options = "MODEL"; }

 private:
  const Node& file_;
  const ToolKeys& tool_;
  const Request& request_;
  Training& out_;
  std::set<std::string, std::less<>> asked_;
  std::map<std::string, std::pair<std::string, std::string>> said_;  ///< option → key, value
  std::optional<std::optional<model::Tower>> tower_;

  void check(std::string_view key, const std::string& name, const std::string& value);
  [[nodiscard]] const Node* set_in_file(std::string_view key) const;
  void refuse_unset(std::string_view key) const;
  Mapping& row(std::string_view key);
};

/// True, yes, on, 1 and their opposites, in any case, as YAML 1.1 has them; nothing for other
/// words.
[[nodiscard]] std::optional<bool> truth_of(const std::string& word);

/// A key that has another name since `version`.
struct Renamed {
  std::string_view before, now, version;
};

struct Tool {
  std::string_view name;
  /// Whether the file's keys are this tool's; a nested file as it stands.
  bool (*detects)(const Node& file);
  void (*read)(Keys& keys);
  /// Its keys are paths: "training.seq_len".
  bool nested = false;
  /// Its loader makes None of the word none, where YAML and TOML have a word.
  bool none_is_null = false;
  /// What it called its keys before, where it does not know those names any more.
  std::span<const Renamed> renamed = {};
};

/// Each in its own file.
extern const Tool automodel, axolotl, litgpt, llamafactory, megatron, ms_swift, openrlhf,
    torchtitan, torchtune, trl, trl_distillation, trl_dpo, trl_grpo, trl_kto, trl_reward, trl_rloo,
    verl;

/// transformers' TrainingArguments, which TRL and LLaMA-Factory extend: micro-batch, accumulation,
/// optimizer, clipping, compile, and the DeepSpeed file or FSDP that shards.
void read_trainer_arguments(Keys& keys);
/// Of them what ms-swift has, too: optimizer, clipping (`clip` where the file says none), and the
/// switches that are not planned.
void read_optimization(Keys& keys, const char* clip);
/// An optimizer by transformers' name for it.
void read_optimizer(Keys& keys, std::string_view key);
/// An optimizer by its class, `key`'s, in a library beside torch.
void read_optimizer_class(Keys& keys, std::string_view key, std::string_view name);
/// What `key` has in place, or in the file that it names, beside the training file or here;
/// `way_out` ends the error where there is none.
[[nodiscard]] Node config_of(Keys& keys, std::string_view key, const std::string& way_out);
/// Checkpoints by `use_reentrant=True`, which `key` says; after what shards is known.
void read_reentrant(Keys& keys, std::string_view key);
/// A weight of a term: whether there is one. What is no number is refused.
[[nodiscard]] bool is_weighted(Keys& keys, const char* key);
/// A loss of TRL's that holds what `planned` does.
void assume_loss(Keys& keys, std::string_view key, const std::string& loss,
                 const std::string& planned);
/// The same of a list of losses, of which supervised tuning's is not planned.
void read_losses(Keys& keys, std::string_view key, const std::string& planned);
/// axolotl's preference tuning: whether the file asks for it, and whether TRL's trainer makes the
/// adapters; its task, loss and reference.
[[nodiscard]] bool is_axolotl_rl(Keys& keys);
[[nodiscard]] bool trl_makes_adapters(Keys& keys);
void read_axolotl_rl(Keys& keys, bool adapters);
/// A DeepSpeed configuration: ZeRO's stage and what it keeps on the host. `key` names it in the
/// training file.
void read_deepspeed(Keys& keys, std::string_view key);
/// The same of a configuration that `key` stands for.
void read_zero(Keys& keys, std::string_view key, const Node& config);
/// The model that `key` names; of a path whose folders a script leaves open, its last part.
void read_model_path(Keys& keys, std::string_view key);
/// How many processes a script starts: its launcher's numbers, or torchrun's in the environment;
/// 0 where it says none.
[[nodiscard]] std::int64_t read_launcher(Keys& keys);
/// The ranks of a script, by hand, by the file or by what starts it; where none says it `key` is
/// refused with `why`.
[[nodiscard]] std::int64_t read_ranks(Keys& keys, const char* key, const std::string& why);
/// As many ranks, by the launcher's key that says so, or by `otherwise`.
void set_world(Keys& keys, std::int64_t ranks, std::string_view otherwise);
/// Which keys freeze the parts of a model with an encoder of images.
struct FreezeKeys {
  const char *tower, *projector, *decoder;
};
/// Whether each part is frozen, or, beside adapters, has none.
[[nodiscard]] FrozenParts read_frozen(Keys& keys, const FreezeKeys& names);
/// Of adapters on the layers that `targets` name, in the parts that are not frozen already.
[[nodiscard]] FrozenParts without_adapters(Keys& keys, FrozenParts frozen,
                                           const std::vector<std::string>& targets);
/// Images of a row: one as large as `most_pixels` and the row allow, which `key` bounds, unless
/// they are by hand. Whether there are some; otherwise why not is told.
[[nodiscard]] bool read_images(Keys& keys, std::string_view key, std::int64_t most_pixels);
/// As an option, of `key`.
void set_frozen(Keys& keys, std::string_view key, const FrozenParts& frozen);
/// A dropout that is not 0.
void read_dropout(Keys& keys, std::string_view key, const std::string& option,
                  const char* by_default);
/// What is taken for granted of packed rows, and of rows whose lengths the data has.
void assume_one_document(Keys& keys);
void assume_longest(Keys& keys, std::string_view key);
/// Parts of a configuration that a name in the file stands for.
[[nodiscard]] Node scalar_of(std::string text);
[[nodiscard]] Node map_of(std::vector<Member> members);

}  // namespace ac_advisor::intake
