#include <cmath>

#include "ac_advisor/ir/op_table.hpp"
#include "checkpoint.hpp"

namespace ac_advisor::passes {
namespace {

/// Balanced contiguous segments: the first `blocks % segments` have one block more.
std::int32_t segment_of(std::int32_t block, std::int32_t blocks, std::int32_t segments) {
  const std::int32_t size = blocks / segments, longer = blocks % segments;
  const std::int32_t boundary = longer * (size + 1);
  return block < boundary ? block / (size + 1) : longer + (block - boundary) / size;
}

/// Regions of one scope unit: 0 for the block, 1–4 for its sub-modules, -1 for what is in none.
std::int32_t submodule_index(ir::Module leaf) {
  switch (ir::submodule_of(leaf)) {
    case ir::Module::norm1:
      return 0;
    case ir::Module::attention:
      return 1;
    case ir::Module::post_attention_norm:
      return 2;
    case ir::Module::norm2:
      return 3;
    case ir::Module::mlp:
      return 4;
    case ir::Module::post_mlp_norm:
      return 5;
    default:
      return -1;
  }
}
constexpr std::int32_t submodules = 6;

/// The mode that a block runs in: the configuration's, or what budget: chose for it.
AcMode mode_of(const StepConfig& config, std::int32_t block) {
  if (config.memory.ac != AcMode::budget) return config.memory.ac;
  const auto i = static_cast<std::size_t>(block);
  return i < config.memory.block_modes.size() ? config.memory.block_modes[i] : AcMode::none;
}

std::int32_t region_of(const ir::Op& op, const StepConfig& config, std::int32_t blocks) {
  const std::int32_t block = op.module.block;
  if (block < 0) return -1;
  const auto scoped = [&](std::int32_t b) {
    if (config.memory.scope == AcScope::block) return b;
    const std::int32_t part = submodule_index(op.module.leaf);
    return part < 0 ? -1 : b * submodules + part;
  };
  switch (mode_of(config, block)) {
    case AcMode::none:
      return -1;
    case AcMode::full:
      return scoped(block);
    case AcMode::every:
      return block % config.memory.ac_arg == 0 ? scoped(block) : -1;
    case AcMode::selective:
      return block;
    case AcMode::attention:
      return op.module.leaf == ir::Module::attention_core ? block : -1;
    case AcMode::grouped:
      return block / static_cast<std::int32_t>(config.memory.ac_arg);
    case AcMode::sqrt:
      return segment_of(
          block, blocks,
          static_cast<std::int32_t>(std::ceil(std::sqrt(static_cast<double>(blocks)))));
    case AcMode::budget:
      break;
  }
  return -1;
}

}  // namespace

std::int32_t assign_regions(StepProgram& step, const StepConfig& config, ir::OpId first,
                            std::int32_t base) {
  std::int32_t next = base;
  for (auto id = static_cast<std::size_t>(first); id < step.program.ops.size(); ++id) {
    ir::Op& op = step.program.ops[id];
    const std::int32_t region = region_of(op, config, step.blocks);
    if (region < 0) continue;
    op.region = base + region;
    next = std::max(next, op.region + 1);
  }
  return next;
}

std::vector<bool> selective_keep(const StepProgram& step, const StepConfig& config,
                                 ir::OpId first) {
  const auto& ops = step.program.ops;
  std::vector<bool> keep(ops.size(), false);
  std::int32_t region = ir::no_id, products = 0;
  for (auto id = static_cast<std::size_t>(first); id < ops.size(); ++id) {
    const ir::Op& op = ops[id];
    if (op.region == ir::no_id || mode_of(config, op.module.block) != AcMode::selective) continue;
    if (op.region != region) products = 0;
    region = op.region;
    if (op.kind == ir::OpKind::mm) keep[id] = ++products % 2 == 1;
    if (op.kind == ir::OpKind::sdpa) keep[id] = true;
    if (ir::row(op.kind).cost == ir::CostClass::collective) keep[id] = true;
  }
  return keep;
}

}  // namespace ac_advisor::passes
