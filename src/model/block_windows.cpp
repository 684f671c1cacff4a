#include "block_windows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ac_advisor::model {
namespace {

constexpr std::int64_t longest_window = no_limit;

// Absent: the family's default; null: none.
std::int64_t window_size(const Family& family, const Fields& fields) {
  if (!fields.has("sliding_window")) {
    static_cast<void>(fields.find("sliding_window"));
    return family.sliding_window;
  }
  return fields.maybe_size("sliding_window", longest_window).value_or(0);
}

bool is_zero(const JsonValue& value) {
  const auto* number = std::get_if<std::int64_t>(&value.data);
  return number != nullptr && *number == 0;
}

// "sliding_window_pattern". Where "layer_types" says it all, it may be a text, "LLLG", or 0 of a
// model without windows (Exaone4Config).
std::int64_t window_pattern(const Family& family, const Fields& fields, bool listed) {
  if (!family.window_pattern_field) return family.window_pattern;
  const JsonValue* given = fields.find("sliding_window_pattern");
  const bool idle =
      given != nullptr && (std::holds_alternative<std::string>(given->data) || is_zero(*given));
  if (listed && idle) return family.window_pattern;
  return fields.maybe_size("sliding_window_pattern", no_limit).value_or(family.window_pattern);
}

// "layer_types" where it is given: which blocks have the window. Empty where it is not.
std::vector<bool> layer_types(std::int64_t layers, const Fields& fields,
                              std::string_view with_window = "sliding_attention") {
  const JsonValue::List* list = fields.maybe_list_of_blocks("layer_types", layers);
  if (list == nullptr) return {};
  std::vector<bool> windowed;
  for (const JsonValue& entry : *list) {
    const auto* type = std::get_if<std::string>(&entry.data);
    const bool sliding = type != nullptr && *type == with_window;
    // "attention" is the older name of full attention: configuration_utils.py
    if (!sliding && (type == nullptr || (*type != "full_attention" && *type != "attention")))
      fields.fail("layer_types", fmt::format("has the entry {}; known: \"full_attention\", \"{}\"",
                                             shown(entry), with_window));
    windowed.push_back(sliding);
  }
  return windowed;
}

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

std::vector<bool> repeating(std::int64_t layers, std::int64_t pattern) {
  std::vector<bool> windowed;
  for (std::int64_t i = 0; i < layers; ++i) windowed.push_back((i + 1) % pattern != 0);
  return windowed;
}

std::vector<std::int64_t> spread(const std::vector<bool>& windowed, std::int64_t window,
                                 const Fields& fields) {
  if (window == 0 && any(windowed))
    fields.fail("sliding_window",
                "is no window, but some blocks have \"sliding_attention\"; "
                "give its tokens");
  std::vector<std::int64_t> windows;
  for (bool has_window : windowed) windows.push_back(has_window ? window : 0);
  return windows;
}

}  // namespace

bool has_window(const Family& family, const Fields& fields) {
  return window_size(family, fields) > 0;
}

std::vector<bool> read_unrotated(const Family& family, std::int64_t layers, const Fields& fields) {
  if (family.no_rope_interval == 0) return {};
  std::int64_t interval = family.no_rope_interval;
  interval = fields.maybe_size("no_rope_layer_interval", no_limit).value_or(interval);
  std::vector<bool> unrotated;
  for (std::int64_t i = 0; i < layers; ++i) unrotated.push_back((i + 1) % interval == 0);
  const JsonValue::List* list = fields.maybe_list("no_rope_layers");
  // Llama4TextConfig takes an empty list for none.
  if (list == nullptr || (list->empty() && family.windows == WindowRule::chunks)) return unrotated;
  list = fields.maybe_list_of_blocks("no_rope_layers", layers);
  for (std::size_t i = 0; i < list->size(); ++i) {
    // Despite its name the field says which blocks have them.
    const auto* rotated = std::get_if<std::int64_t>(&(*list)[i].data);
    if (rotated == nullptr || *rotated < 0 || *rotated > 1)
      fields.fail("no_rope_layers",
                  fmt::format("has the entry {}; expected 1 (rotated) or 0", shown((*list)[i])));
    unrotated[i] = *rotated == 0;
  }
  return unrotated;
}

std::int64_t attention_chunk(const Family& family, const Fields& fields) {
  if (family.windows != WindowRule::chunks) return 0;
  if (!fields.has("attention_chunk_size")) return family.sliding_window;
  const auto chunk = fields.maybe_size("attention_chunk_size", longest_window);
  if (!chunk)
    fields.fail("attention_chunk_size",
                "is null, of which transformers makes no masks; give the tokens of a chunk");
  return *chunk;
}

std::vector<std::int64_t> read_windows(const Family& family, std::int64_t layers,
                                       const Fields& fields) {
  const auto count = static_cast<std::size_t>(layers);
  switch (family.windows) {
    case WindowRule::none:
      break;
    case WindowRule::every_block:
      return std::vector<std::int64_t>(count, window_size(family, fields));
    case WindowRule::every_block_if_used: {
      const bool used = fields.flag("use_sliding_window", false);
      const std::int64_t window = window_size(family, fields);
      return std::vector<std::int64_t>(count, used ? window : 0);
    }
    case WindowRule::late_blocks:
    case WindowRule::late_blocks_if_used: {
      const bool used =
          family.windows == WindowRule::late_blocks || fields.flag("use_sliding_window", false);
      const std::int64_t given = window_size(family, fields);
      const std::int64_t window = used ? given : 0;
      const auto full =
          fields.maybe_integer("max_window_layers").value_or(family.max_window_layers);
      std::vector<bool> windowed = layer_types(layers, fields);
      if (!used && any(windowed))
        fields.fail("layer_types",
                    "has \"sliding_attention\", but \"use_sliding_window\" is not "
                    "true; change one of them");
      for (std::int64_t i = 0; windowed.size() < count; ++i)
        windowed.push_back(window > 0 && i >= full);
      return spread(windowed, window, fields);
    }
    case WindowRule::unrotated_if_used: {
      const bool used = fields.flag("use_sliding_window", false);
      const std::int64_t window = window_size(family, fields);
      std::vector<bool> windowed = layer_types(layers, fields);
      if (windowed.empty()) windowed = read_unrotated(family, layers, fields);
      windowed.resize(count, false);
      return used && window > 0 ? spread(windowed, window, fields)
                                : std::vector<std::int64_t>(count, 0);
    }
    case WindowRule::chunks: {
      const std::int64_t chunk = attention_chunk(family, fields);
      std::vector<bool> chunked = layer_types(layers, fields, "chunked_attention");
      if (chunked.empty()) {
        chunked = read_unrotated(family, layers, fields);
        chunked.flip();
      }
      return spread(chunked, chunk, fields);
    }
    case WindowRule::pattern: {
      const std::int64_t window = window_size(family, fields);
      const std::vector<bool> given = layer_types(layers, fields);
      const std::int64_t pattern = window_pattern(family, fields, !given.empty());
      return spread(given.empty() ? repeating(layers, pattern) : given, window, fields);
    }
  }
  return std::vector<std::int64_t>(count, 0);
}

}  // namespace ac_advisor::model
