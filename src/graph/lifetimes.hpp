#pragma once

#include <string>
#include <vector>

#include "ac_advisor/graph/graph.hpp"

namespace ac_advisor::graph {

inline constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
inline constexpr std::size_t most_blocks = 4096, most_dimensions = 64;
inline constexpr std::size_t most_operands = std::size_t{1} << 14;
inline constexpr std::int64_t most_launches = std::int64_t{1} << 20;

/// What cannot be so; `field` is null where nothing is wrong.
struct Fault {
  const char* field = nullptr;  ///< of the op, or of the micro-batch
  std::string what;
  std::size_t entry = 0;  ///< of the field "gradients"
  explicit operator bool() const { return field != nullptr; }
};

/// Which storages are there along the ops of a graph whose indices are all in range.
class Lifetimes {
 public:
  /// What exists before the step.
  explicit Lifetimes(const Graph& graph);
  /// Whether the op can run here: what it reads is alive, what it makes is not.
  Fault run(const Op& op);
  /// What the micro-batch leaves is there; all else that it made is gone afterwards.
  Fault end(const MicroBatch& micro);

 private:
  enum class State : std::uint8_t { none, resident, alive };
  [[nodiscard]] State& state(Index storage) { return state_[static_cast<std::size_t>(storage)]; }
  [[nodiscard]] Index storage_of(Index tensor) const {
    return g_.tensors[static_cast<std::size_t>(tensor)].storage;
  }

  const Graph& g_;
  std::vector<State> state_;
  Indices made_;
};

}  // namespace ac_advisor::graph
