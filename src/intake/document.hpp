#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/in_quotes.hpp"

namespace ac_advisor::intake {

struct Member;

/// A node of a YAML, JSON or TOML document, or of a script's overrides. Anchors and merge keys are
/// resolved.
struct Node {
  enum class Kind { null, scalar, list, map } kind = Kind::null;
  std::string text;  ///< of a scalar
  int line = 0;      ///< from 1
  std::vector<Node> items;
  std::vector<Member> members;
  std::string unset;  ///< why a script leaves the value open: "$N is not set in the script"
  std::vector<std::string> notes;  ///< of a script: what was not followed

  /// The member of that name; null where it has none.
  [[nodiscard]] const Node* find(std::string_view key) const;
  /// As it is shown: a scalar's text, "[a, b]", "{…}".
  [[nodiscard]] std::string shown() const;
};

/// One of a map's.
struct Member {
  std::string key;
  Node value;
};

/// A map's maps as one, with paths for keys: "training.seq_len". A map without members stays.
[[nodiscard]] Node flattened(const Node& map);

using model::plain;  // of the file's text in an error

/// Parses `text`. Throws UserError naming `path` and line: what is no YAML, a key that stands
/// twice, a document that is nested or that aliases blow up beyond what a training file has.
[[nodiscard]] Node parse_document(const std::string& text, const std::string& path);
/// The same of TOML.
[[nodiscard]] Node parse_toml(const std::string& text, const std::string& path);
/// What a shell script's one command of training says: the overrides that it hands to Hydra, by
/// their paths ("trainer.nnodes"), or the arguments of ms-swift's command, one of OpenRLHF's
/// modules or one of Megatron-LM's scripts by their names. Throws UserError.
[[nodiscard]] Node parse_script(const std::string& text, const std::string& path);
/// TOML where the name ends in .toml, a script where it ends in .sh, else YAML. Throws UserError.
[[nodiscard]] Node parsed(const std::string& text, const std::string& path);
/// The file, of at most 4 MiB. Throws UserError.
[[nodiscard]] Node read_document(const std::string& path);

}  // namespace ac_advisor::intake
