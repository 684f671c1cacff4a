#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::model {
struct FoundConfig;
}

/// A configuration that no family plans, captured by itself: a Python with transformers builds the
/// model on the emulated device, `ac_advisor.capture` records its step, and the graph is kept
/// (docs/graphs.md).
namespace ac_advisor::capture {

enum class When : std::uint8_t {
  never,
  automatic,  ///< a model type without a family
  always      ///< a known one, too
};
inline constexpr std::string_view when_names[] = {"never", "auto", "always"};

struct Settings {
  When when = When::automatic;
  std::string python;  ///< --python; empty: found (find_python)
  /// A line for who waits: what is captured, and how long it took.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

/// MODEL as model::load_model reads it; one without a family as the graph of its step at the size
/// and in the dtype of `options`. Throws UserError, also where no Python can do it or the capture
/// fails; nothing is kept then. For the main thread where it `needs_capture`: it starts a program.
[[nodiscard]] model::ModelSpec load_model(const std::string& model, const std::string& as,
                                          const OptionList& options, const Settings& settings);

/// The same of a configuration that was read.
[[nodiscard]] model::ModelSpec load_model(const model::FoundConfig& config, const std::string& as,
                                          const OptionList& options, const Settings& settings);

/// Whether that starts, or would without its cache, a program. False of what cannot be read.
[[nodiscard]] bool needs_capture(const std::string& model, const std::string& as,
                                 const Settings& settings);

}  // namespace ac_advisor::capture
