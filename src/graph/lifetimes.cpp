#include "lifetimes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ac_advisor::graph {

namespace {

std::string name(Index storage) { return fmt::format("storage {}", storage); }

}  // namespace

Lifetimes::Lifetimes(const Graph& graph) : g_(graph), state_(graph.storages.size(), State::none) {
  for (const Parameter& p : g_.parameters) state(storage_of(p.tensor)) = State::resident;
  for (const Index tensor : g_.buffers) state(storage_of(tensor)) = State::resident;
  for (const Index tensor : g_.inputs) state(storage_of(tensor)) = State::resident;
  for (const Index storage : g_.others) state(storage) = State::resident;
}

Fault Lifetimes::run(const Op& op) {
  for (const Index tensor : op.in)
    if (state(storage_of(tensor)) == State::none)
      return {"in", "reads " + name(storage_of(tensor)) + ", which is not alive here"};
  for (const Index storage : op.out) {
    if (state(storage) != State::none)
      return {"out", "makes " + name(storage) + ", which is alive already"};
    state(storage) = State::alive;
    made_.push_back(storage);
  }
  for (const Index storage : op.frees) {
    if (state(storage) == State::none)
      return {"frees", "frees " + name(storage) + ", which is not alive here"};
    if (state(storage) == State::alive) state(storage) = State::none;
  }
  for (const Index storage : op.drops)
    if (state(storage) == State::none)
      return {"drops", "drops " + name(storage) + ", which is not alive here"};
  return {};
}

Fault Lifetimes::end(const MicroBatch& micro) {
  if (state(micro.loss) == State::none) return {"loss", "is no storage that is alive"};
  std::sort(made_.begin(), made_.end());
  for (const Index s : micro.outputs)
    if (!std::binary_search(made_.begin(), made_.end(), s))
      return {"outputs", "names a storage that no op makes"};
  for (std::size_t i = 0; i < micro.gradients.size(); ++i) {
    const Gradient& made = micro.gradients[i];
    if (state(made.storage) == State::none)
      return {"gradients", "names a storage that is not alive at the end", i};
    if (micro.ops[static_cast<std::size_t>(made.whole)].phase != Phase::backward)
      return {"gradients", "names an op that is none of the backward", i};
  }
  // What the micro-batch made is gone when the next begins, but for gradients.
  for (const Index s : made_)
    if (state(s) == State::alive) state(s) = State::none;
  for (const Gradient& gradient : micro.gradients) state(gradient.storage) = State::resident;
  made_.clear();
  return {};
}

}  // namespace ac_advisor::graph
