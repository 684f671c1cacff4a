// Arguments as argparse takes them (--name value, --name=value, lists, flags), of the programs that
// are started by name: ms-swift's command, OpenRLHF's modules and Megatron-LM's scripts, through
// torchrun, accelerate or deepspeed where those stand before them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ac_advisor/model/error.hpp"
#include "script.hpp"
#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

constexpr std::string_view swift_commands[] = {"sft", "pt", "rlhf"};
constexpr std::string_view openrlhf_modules[] = {"train_sft", "train_dpo", "train_rm",
                                                 "train_ppo_ray"};
constexpr std::string_view megatron_scripts[] = {
    "pretrain_gpt",   "pretrain_mamba", "pretrain_hybrid",
    "pretrain_vlm",   "pretrain_t5",    "pretrain_bert",
    "pretrain_retro", "pretrain_ict",   "pretrain_vision_classify"};

template <std::size_t N>
std::string_view one_of(const std::string_view (&words)[N], std::string_view word) {
  const auto* const found = std::find(std::begin(words), std::end(words), word);
  return found == std::end(words) ? std::string_view() : *found;
}

std::string_view without(std::string_view text, std::string_view end) {
  if (text.ends_with(end)) text.remove_suffix(end.size());
  return text;
}

/// The last part of a module's or a file's name: "swift.cli.sft", ".../swift/cli/sft.py".
std::string_view behind(std::string_view word, std::string_view package) {
  word = without(word, ".py");
  const std::size_t at = word.rfind(package);
  if (at == std::string_view::npos || (at > 0 && word[at - 1] != '/')) return {};
  word.remove_prefix(at + package.size());
  return word;
}

/// Of torchrun, accelerate and deepspeed.
constexpr std::string_view launcher_options[] = {"--nproc_per_node", "--nnodes", "--num_processes",
                                                 "--num_gpus", "--num_nodes"};

class Arguments {
 public:
  /// `known`: how many values each takes, where the program's parser says it.
  Arguments(const std::string& path, bool dashes, const ToolKeys* known = nullptr)
      : path_(path), dashes_(dashes), known_(known) {}

  void read(const std::vector<ShellWord>& words, std::size_t first) {
    for (std::size_t i = first; i < words.size();) i = argument(words, i);
  }

  void set(std::string key, Node value) { said_.set(std::move(key), std::move(value)); }

  [[nodiscard]] Node map() && { return std::move(said_).map(); }

 private:
  static bool is_name(const ShellWord& word) {
    return word.text.size() > 2 && word.text.starts_with("--");
  }

  static Node scalar(const ShellWord& word, std::size_t from = 0) {
    return {.kind = Node::Kind::scalar,
            .text = word.text.substr(std::min(from, word.text.size())),
            .line = word.line,
            .unset = word.unset};
  }

  /// The one at `i` and its values; where the next begins.
  std::size_t argument(const std::vector<ShellWord>& words, std::size_t i) {
    const ShellWord& word = words[i];
    if (!is_name(word))
      throw UserError(fmt::format("{}:{}: {}: is no --name, and no value of one", path_, word.line,
                                  plain(word.text)));
    const std::size_t equals = word.text.find('=');
    std::string key = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (dashes_) std::replace(key.begin(), key.end(), '-', '_');
    std::size_t end = i + 1;
    if (equals != std::string::npos) {
      check(word, key, 1);
      set(std::move(key), scalar(word, equals + 1));
      return end;
    }
    while (end < words.size() && !is_name(words[end])) ++end;
    check(word, key, end - i - 1);
    if (end == i + 1) {
      set(std::move(key), {.kind = Node::Kind::scalar, .text = "True", .line = word.line});
    } else if (end == i + 2) {
      Node value = scalar(words[i + 1]);
      value.line = word.line;
      set(std::move(key), std::move(value));
    } else {
      Node list{.kind = Node::Kind::list, .line = word.line};
      for (std::size_t j = i + 1; j < end; ++j) {
        list.items.push_back(scalar(words[j]));
        if (list.unset.empty()) list.unset = words[j].unset;
      }
      set(std::move(key), std::move(list));
    }
    return end;
  }

  void check(const ShellWord& word, const std::string& key, std::size_t values) const {
    if (known_ == nullptr || !known_->knows(key) || known_->lists.contains(key)) return;
    const std::size_t wanted = known_->flags.contains(key) ? 0 : 1;
    if (values != wanted)
      throw UserError(fmt::format("{}:{}: {}: takes {}, and has {}", path_, word.line, key,
                                  wanted == 0 ? "no value" : "one value", values));
  }

  const std::string& path_;
  bool dashes_;
  const ToolKeys* known_;
  Said said_{path_, "arguments"};
};

/// What a launcher is told of its processes, and the devices that it is given.
void add_launcher(Arguments& out, const std::vector<ShellWord>& words, std::size_t end) {
  for (std::size_t i = 0; i < end; ++i) {
    const std::string& text = words[i].text;
    const std::size_t equals = text.find('=');
    std::string name = text.substr(0, equals);
    std::replace(name.begin() + std::min<std::ptrdiff_t>(2, std::ssize(name)), name.end(), '-',
                 '_');
    if (one_of(launcher_options, name).empty() && name != "--include") continue;
    const bool within = equals != std::string::npos;
    if (!within && i + 1 == end) continue;
    const ShellWord& value = within ? words[i] : words[i + 1];
    out.set(name, {.kind = Node::Kind::scalar,
                   .text = value.text.substr(within ? equals + 1 : 0),
                   .line = value.line,
                   .unset = value.unset});
  }
}

/// A script of Megatron-LM's, of a command that starts it: with arguments, and not looked for only.
std::string_view megatron_script(const std::vector<ShellWord>& words, std::size_t i) {
  const std::string& word = words[i].text;
  if (!word.ends_with(".py")) return {};
  const std::string_view name =
      one_of(megatron_scripts, without(std::string_view(word).substr(word.rfind('/') + 1), ".py"));
  constexpr std::string_view lookers[] = {"[", "[[", "test", "echo", "printf", "ls", "cat", "!"};
  const bool starts = i + 1 < words.size() && one_of(lookers, words.front().text).empty();
  return starts ? name : std::string_view();
}

/// What the environment says beside the arguments.
std::vector<const char*> variables_of(const Launch& launch) {
  if (launch.key == "megatron")
    return {"NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN", "CUBLAS_WORKSPACE_CONFIG",
            "PYTORCH_CUDA_ALLOC_CONF"};
  return {"NPROC_PER_NODE", "NNODES", "CUDA_VISIBLE_DEVICES", "MAX_PIXELS", "IMAGE_MAX_TOKEN_NUM"};
}

}  // namespace

Launch launch_of(const ShellCommand& command) {
  const std::vector<ShellWord>& words = command.words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (i + 1 < words.size() && (word == "swift" || word.ends_with("/swift")))
      if (const std::string_view program = one_of(swift_commands, words[i + 1].text);
          !program.empty())
        return {"swift", std::string(program), i, i + 2};
    for (const std::string_view package : {"swift/cli/", "swift.cli."})
      if (const std::string_view program = one_of(swift_commands, behind(word, package));
          !program.empty())
        return {"swift", std::string(program), i, i + 1};
    for (const std::string_view package : {"openrlhf/cli/", "openrlhf.cli."})
      if (const std::string_view program = one_of(openrlhf_modules, behind(word, package));
          !program.empty())
        return {"openrlhf", std::string(program), i, i + 1};
    if (const std::string_view program = megatron_script(words, i); !program.empty())
      return {"megatron", std::string(program), i, i + 1};
  }
  return {};
}

Node read_arguments(const ShellScript& script, const ShellCommand& command, const Launch& launch,
                    const std::string& path) {
  const ShellWord& name = command.words[launch.at];
  Arguments out(path, launch.key == "swift",
                launch.key == "megatron" ? &tool_keys("megatron") : nullptr);
  out.set(launch.key, {.kind = Node::Kind::scalar, .text = launch.program, .line = name.line});
  add_launcher(out, command.words, launch.at);
  for (const char* variable : variables_of(launch))
    if (const ShellWord* value = script.environment(command, variable))
      out.set(variable, {.kind = Node::Kind::scalar,
                         .text = value->text,
                         .line = value->line,
                         .unset = value->unset});
  if (launch.first < command.words.size()) {
    const ShellWord& config = command.words[launch.first];
    for (const char* end : {".yaml", ".yml", ".json"})
      if (config.text.ends_with(end) && launch.key == "swift")
        throw UserError(fmt::format(
            "{}:{}: its arguments are in {}: give that file in place of the script, as YAML, and "
            "--world N where the script says how many processes there are",
            path, config.line, plain(config.text)));
  }
  if (launch.key == "megatron" && launch.program != "pretrain_gpt")
    return std::move(out).map();  // which is not planned, whatever its arguments
  out.read(command.words, launch.first);
  return std::move(out).map();
}

}  // namespace ac_advisor::intake
