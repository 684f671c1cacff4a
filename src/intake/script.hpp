#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "document.hpp"
#include "shell.hpp"

namespace ac_advisor::intake {

/// What a command's words say one after another; of two by one name the last one counts.
class Said {
 public:
  /// `what` they are, in an error.
  Said(const std::string& path, const char* what) : path_(path), what_(what) {}
  /// Throws UserError where there are too many.
  void set(std::string key, Node value);
  [[nodiscard]] Node map() && { return std::move(map_); }

 private:
  const std::string& path_;
  const char* what_;
  Node map_{.kind = Node::Kind::map, .line = 1};
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// The overrides of a command that hands them to Hydra, by their paths: "trainer.nnodes". Throws
/// UserError.
[[nodiscard]] Node read_overrides(const ShellCommand& command, const std::string& path);
[[nodiscard]] bool has_overrides(const ShellCommand& command);

/// A program whose arguments are --name value: where they begin, and what it is.
struct Launch {
  std::string key;        ///< "swift", "openrlhf", "megatron"; empty: the command starts none
  std::string program;    ///< "sft", "train_dpo", "pretrain_gpt"
  std::size_t at = 0;     ///< of its word
  std::size_t first = 0;  ///< of its arguments
};
[[nodiscard]] Launch launch_of(const ShellCommand& command);
/// Its arguments by their names, beside `key`, the launcher's numbers of processes and what the
/// environment says of them. Throws UserError.
[[nodiscard]] Node read_arguments(const ShellScript& script, const ShellCommand& command,
                                  const Launch& launch, const std::string& path);

}  // namespace ac_advisor::intake
