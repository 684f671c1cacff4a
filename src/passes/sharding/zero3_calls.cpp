#include "zero3_calls.hpp"

#include <algorithm>

namespace ac_advisor::passes {
namespace {

using ir::Module;
using ir::ModulePath;
using ir::Op;
using ir::OpKind;
using ir::Phase;

using Chain = std::vector<ModulePath>;

/// What runs in its parent's own code, and is no module.
bool is_function(Module leaf) {
  return leaf == Module::rope || leaf == Module::attention_core || leaf == Module::delta_rule;
}

/// The modules that an op runs in, from the outermost on.
Chain chain_of(const Op& op, bool loss_in_model) {
  const ModulePath path = op.module;
  const auto of_owner = [&](ModulePath module) {
    module.owner = path.owner;
    return module;
  };
  if (loss_in_model && (path.leaf == Module::loss || path.leaf == Module::lm_head))
    return {of_owner(outer_model)};
  if (path.leaf == Module::loss)  // computed by the outer model, after what it calls
    return op.phase >= Phase::backward ? Chain{outer_model} : Chain{};
  if (path.leaf == Module::lm_head) return {of_owner(outer_model), path};
  Chain chain{of_owner(outer_model), of_owner(inner_model)};
  if (path.block >= 0) {
    chain.push_back(of_owner({path.block, Module::block}));
    const Module part = ir::submodule_of(path.leaf);
    if (path.leaf != Module::block) chain.push_back(of_owner({path.block, part}));
    if (part != path.leaf && !is_function(path.leaf)) chain.push_back(path);
  } else if (path.leaf != Module::root) {
    chain.push_back(path);
  }
  return chain;
}

bool is_leaf(const Chain& chain) {
  if (chain.empty()) return false;
  const Module leaf = chain.back().leaf;
  return leaf != Module::root && leaf != Module::block && leaf != Module::attention &&
         leaf != Module::mlp;
}

class Hooks {
 public:
  Hooks(std::span<const Op> ops, bool reentrant, bool loss_in_model)
      : ops_(ops), reentrant_(reentrant), loss_in_model_(loss_in_model) {}

  std::vector<ModuleHook> run() {
    find_last_runs();
    std::size_t i = 0;
    for (; i < ops_.size() && ops_[i].phase < Phase::backward; ++i)
      if (counts(ops_[i])) go_to(chain_of(ops_[i]), i);
    go_to({}, i);
    for (; i < ops_.size(); ++i) {
      if (ops_[i].phase == Phase::recompute) {
        begin_recomputation(i);
        i = recompute(i) - 1;
      } else if (counts(ops_[i])) {
        enter_backward(i, i);
      }
      leave_backward(i);
      if (reentrant_) leave_block(i);
    }
    return hooks_;
  }

 private:
  [[nodiscard]] Chain chain_of(const Op& op) const { return passes::chain_of(op, loss_in_model_); }
  static bool counts(const Op& op) { return op.kind != OpKind::hold; }

  void add(std::size_t before, ModulePath module, bool begins, bool forward) {
    hooks_.push_back({before, module, begins, forward});
  }

  /// Forward: leaves what is open and not of `next`, enters what is not open. A module whose result
  /// is used later on (an activation's, by the product with the other half) is not called again.
  void go_to(Chain next, std::size_t at) {
    if (is_outside(next)) next.clear();
    if (is_leaf(next) && !contains(open_, next.back()) && contains(called_, next.back()))
      next.pop_back();
    std::size_t common = 0;
    while (common < open_.size() && common < next.size() && open_[common] == next[common]) ++common;
    while (open_.size() > common) {
      add(at, open_.back(), false, true);
      open_.pop_back();
    }
    for (; common < next.size(); ++common) {
      if (is_outer(next[common])) forget(next[common].owner);
      open_.push_back(next[common]);
      called_.push_back(next[common]);
      add(at, next[common], true, true);
    }
  }

  static bool is_outer(ModulePath module) {
    return module.block < 0 && module.leaf == outer_model.leaf;
  }
  /// What the trainer computes of a model's output, once that has returned.
  [[nodiscard]] bool is_outside(const Chain& next) const {
    return next.size() == 1 && is_outer(next.front()) && !contains(open_, next.front()) &&
           contains(called_, next.front());
  }
  /// The model is called again, and all modules in it.
  void forget(ir::Owner owner) {
    std::erase_if(called_, [&](ModulePath module) { return module.owner == owner; });
  }

  static bool contains(const Chain& list, ModulePath module) {
    return std::find(list.begin(), list.end(), module) != list.end();
  }

  /// The node whose saved tensor is unpacked has run its module's hook.
  void begin_recomputation(std::size_t i) {
    const std::size_t first = i;
    while (i < ops_.size() && (ops_[i].phase != Phase::backward || !counts(ops_[i]))) ++i;
    if (i == ops_.size()) return;
    constexpr std::size_t to_block = 3;
    reentrant_ ? enter_backward(i, first, to_block) : enter_backward(i, first_recomputed_before(i));
  }

  /// Returns where it ends. The modules in its block are called anew (transformers' checkpoint is
  /// around the block's forward, not around its hooks); the exception at its end leaves them
  /// without a hook.
  std::size_t recompute(std::size_t i) {
    open_.clear();
    called_.clear();
    for (; i < ops_.size() && ops_[i].phase == Phase::recompute; ++i) {
      if (!counts(ops_[i])) continue;
      Chain chain = chain_of(ops_[i]);
      // A checkpoint is around a block's modules, or around one module, or none, outside of blocks.
      const std::size_t within = ops_[i].module.block >= 0 ? chain.size() - 3 : is_leaf(chain);
      chain.erase(chain.begin(), chain.end() - static_cast<std::ptrdiff_t>(within));
      go_to(std::move(chain), i);
    }
    if (reentrant_) go_to({}, i);
    open_.clear();
    return i;
  }

  /// After the last op in backward of what was recomputed.
  void leave_block(std::size_t i) {
    const auto block_of = [](const Op& op) { return op.module.block; };
    if (ops_[i].phase != Phase::backward || !counts(ops_[i]) || block_of(ops_[i]) < 0) return;
    std::size_t next = i + 1;
    while (next < ops_.size() && !counts(ops_[next])) ++next;
    if (next < ops_.size() && ops_[next].phase == Phase::backward &&
        block_of(ops_[next]) == block_of(ops_[i]))
      return;
    add(i + 1, {block_of(ops_[i]), Module::block}, false, false);
  }

  struct Run {
    bool known = false;
    std::size_t begin = 0, end = 0;
  };

  /// Of each module in backward, where its last ops without others between them stand: there its
  /// own nodes are.
  void find_last_runs() {
    constexpr ModulePath none{-2, Module::root};
    ModulePath current = none;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].phase != Phase::backward || !counts(ops_[i])) continue;
      const Chain chain = chain_of(ops_[i]);
      if (!is_leaf(chain)) {
        current = none;
        continue;
      }
      Run& run = slot(runs_, chain.back());
      if (!run.known || current != chain.back()) run.begin = i;
      run.known = true;
      run.end = i;
      current = chain.back();
    }
  }

  /// What `of` has of a module.
  template <typename Value>
  static Value& slot(std::vector<Value>& of, ModulePath module) {
    constexpr std::size_t leaves = 64;
    const std::size_t i =
        static_cast<std::size_t>(module.block + 1) * leaves + static_cast<std::size_t>(module.leaf);
    if (of.size() <= i) of.resize(i + leaves);
    return of[i];
  }

  /// The modules of the op `at`, down to `levels` of them, by hooks before the op `before`.
  void enter_backward(std::size_t at, std::size_t before, std::size_t levels = 9) {
    Chain chain = chain_of(ops_[at]);
    chain.resize(std::min(chain.size(), levels));
    for (const ModulePath module : chain) {
      char& entered = slot(entered_, module);
      if (entered != 0 || at < slot(runs_, module).begin) continue;
      entered = 1;
      add(before, module, true, false);
    }
  }
  [[nodiscard]] std::size_t first_recomputed_before(std::size_t at) const {
    while (at > 0 && (ops_[at - 1].phase == Phase::recompute || !counts(ops_[at - 1]))) --at;
    while (ops_[at].phase != Phase::recompute) ++at;
    return at;
  }

  /// Token ids have no gradient: nothing runs after the embedding's backward.
  void leave_backward(std::size_t i) {
    if (ops_[i].phase != Phase::backward || !counts(ops_[i])) return;
    const Chain chain = chain_of(ops_[i]);
    if (!is_leaf(chain) || chain.back().leaf == Module::embed) return;
    if (slot(runs_, chain.back()).end == i) add(i + 1, chain.back(), false, false);
  }

  std::span<const Op> ops_;
  bool reentrant_, loss_in_model_;
  std::vector<ModuleHook> hooks_;
  Chain open_, called_;
  std::vector<char> entered_;  ///< in backward, by module
  std::vector<Run> runs_;      ///< by module
};

}  // namespace

std::vector<ModuleHook> module_hooks(std::span<const Op> ops, bool reentrant, bool loss_in_model) {
  return Hooks(ops, reentrant, loss_in_model).run();
}

}  // namespace ac_advisor::passes
