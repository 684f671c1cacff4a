// A kernel that torch.compile generates, interpreted over blocks of tokens: each node of its body
// by LibTorch on a block that stays in the cache, in fp32 whatever the node's dtype, as Triton
// holds it in registers (torch/_inductor/codegen/triton.py, v2.11: triton_compute_type). What a
// block makes on its way is nobody's memory, as registers are not.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <stdexcept>

#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

using Body = ir::GeneratedBody;
using enum ir::Target;

/// fp32 numbers of a block's widest node: half a MiB, which a core's cache holds.
constexpr std::int64_t block_elements = 1 << 17;

/// Some tokens of one sequence.
struct Block {
  std::int64_t sequence = 0, first = 0, tokens = 0;
};

/// The tokens that a body's nodes have: sequences, and tokens of each.
struct Space {
  std::int64_t sequences = 1, tokens = 1;
  bool any = false;
};

std::size_t at_index(std::int32_t i) { return static_cast<std::size_t>(i); }

Space space_of(const Body& body) {
  Space space;
  std::int64_t flat = 0;
  for (const Body::Node& node : body.nodes) {
    if (node.tokens < 0) continue;
    space.any = true;
    if (node.tokens == 0) {
      flat = node.shape[0];
      continue;
    }
    space.tokens = node.shape[static_cast<std::size_t>(node.tokens)];
    space.sequences = std::max(space.sequences, node.shape[0]);
  }
  if (space.any && space.tokens == 1 && flat > 0) space.tokens = flat / space.sequences;
  return space;
}

class Interpreter {
 public:
  Interpreter(const Call& call, const Body& body) : body_(body), space_(space_of(body)) {
    for (std::size_t i = 0; i < call.inputs(); ++i) in_.push_back(call.in(i));
    for (std::size_t i = 0; i < call.outputs(); ++i) out_.push_back(call.out(i));
    const MemoryTracker::Scope registers(nullptr);  // what is summed in fp32 and stored narrower
    for (std::int32_t n : body.writes) {
      const bool parts =
          body.nodes[at_index(n)].target == sum && space_.any && body.nodes[at_index(n)].tokens < 0;
      in_parts_.push_back(parts);
      if (!parts) continue;
      at::Tensor& sums = out_[in_parts_.size() - 1];
      if (sums.dim() == 1) sums = sums.unsqueeze(0);  // in one part
      if (sums.scalar_type() == at::kFloat) continue;
      narrow_.emplace_back(sums, at::empty_like(sums, at::kFloat));
      sums = narrow_.back().second;
    }
  }

  void run() {
    const MemoryTracker::Scope registers(nullptr);
    if (!space_.any) {
      compute({});
      return;
    }
    const std::vector<Block> blocks = cut();
    // A thread adds up whole partial sums, in the order of tokens.
    std::int64_t groups = static_cast<std::int64_t>(blocks.size());
    for (std::size_t i = 0; i < out_.size(); ++i)
      if (in_parts_[i]) {
        groups = std::min(groups, out_[i].size(0));
        out_[i].zero_();
      }
    const auto count = static_cast<std::int64_t>(blocks.size());
    at::parallel_for(0, groups, 1, [&](std::int64_t begin, std::int64_t end) {
      const MemoryTracker::Scope thread(nullptr);
      for (std::int64_t group = begin; group < end; ++group)
        for (std::int64_t k = group * count / groups; k < (group + 1) * count / groups; ++k)
          compute({blocks[static_cast<std::size_t>(k)], group});
    });
    for (const auto& [stored, sums] : narrow_) stored.copy_(sums);
  }

 private:
  struct Place {
    Block block;
    std::int64_t part = 0;
  };

  [[nodiscard]] std::vector<Block> cut() const {
    std::int64_t widest = 1;
    const std::int64_t all = space_.sequences * space_.tokens;
    for (const Body::Node& node : body_.nodes) widest = std::max(widest, node.shape.numel() / all);
    const std::int64_t tokens = std::clamp<std::int64_t>(block_elements / widest, 1, space_.tokens);
    std::vector<Block> blocks;
    for (std::int64_t b = 0; b < space_.sequences; ++b)
      for (std::int64_t t = 0; t < space_.tokens; t += tokens)
        blocks.push_back({b, t, std::min(tokens, space_.tokens - t)});
    return blocks;
  }

  /// The block's part of a tensor whose tokens lie as the node's do.
  [[nodiscard]] at::Tensor part(const at::Tensor& whole, const Body::Node& node,
                                const Block& block) const {
    if (node.tokens < 0) return whole;
    if (node.tokens == 0)
      return whole.narrow(0, block.sequence * space_.tokens + block.first, block.tokens);
    return whole.narrow(0, whole.size(0) == 1 ? 0 : block.sequence, 1)
        .narrow(node.tokens, block.first, block.tokens);
  }

  [[nodiscard]] std::vector<std::int64_t> sizes_of(const Body::Node& node,
                                                   const Block& block) const {
    std::vector<std::int64_t> sizes(node.shape.sizes().begin(), node.shape.sizes().end());
    if (node.tokens < 0) return sizes;
    sizes[0] = 1;
    sizes[static_cast<std::size_t>(node.tokens)] = block.tokens;
    return sizes;
  }

  void compute(const Place& place) const {
    std::vector<at::Tensor> made;
    made.reserve(body_.nodes.size());
    for (std::size_t n = 0; n < body_.nodes.size(); ++n) {
      const Body::Node& node = body_.nodes[n];
      made.push_back(node.target == placeholder ? part(in_[n], node, place.block).to(at::kFloat)
                                                : value(node, made, place.block));
    }
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const Body::Node& node = body_.nodes[at_index(body_.writes[i])];
      const at::Tensor& result = made[at_index(body_.writes[i])];
      if (in_parts_[i])
        out_[i][place.part].add_(result.reshape(-1));
      else
        part(out_[i], node, place.block).copy_(result.reshape(sizes_of(node, place.block)));
    }
  }

  [[nodiscard]] at::Tensor value(const Body::Node& node, const std::vector<at::Tensor>& made,
                                 const Block& block) const {
    const auto in = [&](std::size_t i) -> const at::Tensor& {
      return made[at_index(node.inputs[i])];
    };
    const auto second = [&] {
      return node.inputs.size() > 1 ? in(1) : at::scalar_tensor(node.number);
    };
    const std::int64_t width = node.shape.rank() > 0 ? node.shape.back() : 1;
    switch (node.target) {
      case convert:
      case clone:
        return in(0);
      case ir::Target::pow:
        return at::pow(in(0), node.number);
      case mean:
        return in(0).mean(-1, /*keepdim=*/true);
      case add:
        return in(0) + second();
      case sub:  // of one operand: the number less it
        return node.inputs.size() > 1 ? in(0) - in(1) : node.number - in(0);
      case mul:
        return in(0) * second();
      case div:
        return in(0) / second();
      case neg:
        return -in(0);
      case ir::Target::exp:
        return in(0).exp();
      case ir::Target::tanh:
        return in(0).tanh();
      case relu:
        return in(0).relu();
      case rsqrt:
        return in(0).rsqrt();
      case reciprocal:
        return in(0).reciprocal();
      case compare:
        return in(0) <= node.number;
      case where:
        return at::where(in(0), in(1), in(2));
      case sum:
        if (width == 1) return in(0).sum(-1, /*keepdim=*/true);
        return in(0).reshape({-1, width}).sum(0);
      case cat: {
        std::vector<at::Tensor> parts;
        for (std::size_t i = 0; i < node.inputs.size(); ++i) parts.push_back(in(i));
        return at::cat(parts, -1);
      }
      case full:
        return at::scalar_tensor(node.number);
      case slice_scatter: {
        const at::Tensor wide = at::zeros(sizes_of(node, block));
        wide.narrow(-1, node.index, in(1).size(-1)).copy_(in(1));
        return wide;
      }
      case view:
      case unsqueeze:
        return in(0).reshape(sizes_of(node, block));
      case permute:
        return node.shape.rank() == 2 ? in(0).t() : in(0).transpose(1, 2);
      case slice:
        return in(0).narrow(-1, node.index, width);
      case expand:
        return in(0).expand(sizes_of(node, block));
      case split:
        return in(0);
      case getitem:
        return in(0).narrow(-1, node.index * width, width);
      default:
        throw std::logic_error("a generated kernel with an op that the trainer does not have");
    }
  }

  const Body& body_;
  Space space_;
  std::vector<at::Tensor> in_, out_;
  std::vector<bool> in_parts_;                             ///< by output: sums over tokens
  std::vector<std::pair<at::Tensor, at::Tensor>> narrow_;  ///< stored so, and summed in fp32
};

}  // namespace

void generated(const Call& c) {
  const std::int32_t body = c.attributes<ir::Generated>().body;
  if (body < 0) throw std::logic_error("a generated kernel that is planned only");
  Interpreter(c, c.program().bodies[at_index(body)]).run();
}

}  // namespace ac_advisor::trainer::cpu
