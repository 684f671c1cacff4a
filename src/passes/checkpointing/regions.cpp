// The pass that decides what is recomputed: each forward op's checkpoint region, and under
// selective checkpointing the outputs that a region keeps.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/module_kind.hpp"
#include "ac_advisor/passes/pass.hpp"

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

/// Each module of one kind is a region, wherever it stands.
std::int32_t module_region(const ir::Op& op, ModuleKind kind) {
  constexpr std::int32_t modules = 64;  // more than ir::Module has
  const ir::Module module = module_of(kind, op.module.leaf);
  if (module == ir::Module::root) return -1;
  return (op.module.block + 1) * modules + static_cast<std::int32_t>(module);
}

/// Blocks are counted within their stage: each is a model of its own.
/// `counts_from_one`: every:K takes the last of each K blocks, not the first.
std::int32_t region_of(const ir::Op& op, const StepConfig& config, const StageBlocks& stage,
                       bool counts_from_one) {
  const std::int32_t block = op.module.block < 0
                                 ? op.module.block
                                 : op.module.block - static_cast<std::int32_t>(stage.first);
  const auto blocks = static_cast<std::int32_t>(stage.blocks());
  if (config.memory.ac == AcMode::attention)
    return module_region(op, static_cast<ModuleKind>(config.memory.ac_arg));
  // In the first block, what the embedding's reduce-scatter still reads.
  if (block < 0 || op.module.leaf == ir::Module::embed) return -1;
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
    case AcMode::first:
      return block < config.memory.ac_arg ? scoped(block) : -1;
    case AcMode::every:
      return (block + (counts_from_one ? 1 : 0)) % config.memory.ac_arg == 0 ? scoped(block) : -1;
    case AcMode::selective:
      return block;
    case AcMode::attention:  // that budget: chose
      return op.module.leaf == ir::Module::attention_core ? block : -1;
    case AcMode::grouped:
      return block / static_cast<std::int32_t>(config.memory.ac_arg);
    case AcMode::sqrt:
      return segment_of(
          block, blocks,
          static_cast<std::int32_t>(std::ceil(std::sqrt(static_cast<double>(blocks)))));
    case AcMode::modules:  // by parts
    case AcMode::budget:
    case AcMode::memory_budget:  // the compiler's own
      break;
  }
  return -1;
}

/// PyTorch's name of an imported graph's op; empty of another.
std::string_view captured_name(const ir::Program& p, const ir::Op& op) {
  if (op.kind != ir::OpKind::captured) return {};
  return p.captured_names[static_cast<std::size_t>(ir::attributes<ir::Captured>(op).name)];
}

constexpr std::string_view attention_ops[] = {"aten::_scaled_dot_product_cudnn_attention",
                                              "aten::_scaled_dot_product_efficient_attention",
                                              "aten::_scaled_dot_product_flash_attention"};

/// The functional one, of rows: that of their numbers is another op (torchtitan v0.2.2,
/// models/llama4/infra/parallelize.py, keeps _c10d_functional.all_to_all_single; what it
/// parallelizes its own qwen3 with, models/qwen3/infra/parallelize.py, does not).
bool exchanges_rows(const ir::Program& p, const ir::Op& op) {
  return op.kind == ir::OpKind::all_to_all && p.value(p.output(op, 0)).dtype != DType::i64;
}

/// TorchTitan's policy keeps fused attention, reduce-scatters' and all-to-alls' results, aten.max
/// of a whole tensor, and matrix products 1, 3, 5, … of each region; `addmm` is not `mm`, and its
/// own routers' are not counted (per_op_sac_force_recompute_mm_shapes_by_fqns, moe.router.gate).
bool policy_keeps(const ir::Program& p, const ir::Op& op, bool of_titan, std::int32_t& products) {
  const std::string_view name = captured_name(p, op);
  if (of_titan && op.module.leaf == ir::Module::router) return false;
  if (op.kind == ir::OpKind::mm || name == "aten::mm") return ++products % 2 == 1;
  // torch.mm of two Float8TrainingTensors, or MXTensors: what the policy sees is aten.mm
  const bool whole = op.kind == ir::OpKind::float8_linear && ir::attributes<ir::Float8>(op).whole;
  if (op.kind == ir::OpKind::scaled_mm || op.kind == ir::OpKind::fp8_product || whole)
    return ++products % 2 == 1;
  if (op.kind == ir::OpKind::fp8_amax) return !ir::attributes<ir::Float8>(op).rowwise;
  // flash_attn._flash_attn_forward is an op of that package's own, which the policy does not know
  const bool kept_attention = op.kind == ir::OpKind::sdpa &&
                              ir::attributes<ir::Sdpa>(op).kernel != ir::SdpaKernel::flash_attn;
  return kept_attention || op.kind == ir::OpKind::ring_attention ||
         op.kind == ir::OpKind::tp_reduce_scatter || (!of_titan && exchanges_rows(p, op)) ||
         std::find(std::begin(attention_ops), std::end(attention_ops), name) !=
             std::end(attention_ops);
}

/// A policy sees DTensors' ops: ring attention as one, and nothing that it is made of.
void see_whole(ir::Program& p, std::size_t ring) {
  const std::size_t made_of = ir::attributes<ir::RingAttention>(p.ops[ring]).ops;
  for (std::size_t i = ring - made_of; i < ring; ++i) p.ops[i].kept = false;
}

bool applies(const StepConfig& config) { return config.memory.ac != AcMode::none; }

/// Each part that lowering wrote down is a region.
void take_parts(StepProgram& step) {
  for (RecomputedPart& part : step.parts) {
    part.region = step.regions++;
    for (ir::OpId id = part.begin; id < part.end; ++id) step.program.op(id).region = part.region;
  }
}

void run(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config) {
  if (!step.parts.empty()) return take_parts(step);
  const bool counts_from_one = model::layer_forms(spec, config).counts_from_one;
  const bool of_titan = config.run.transformer_impl == TransformerImpl::torchtitan;
  const std::int32_t base = step.regions;
  const StageBlocks stage =
      step.stages.empty() ? StageBlocks{0, step.blocks} : step.stages[step.chunk];
  std::int32_t last = ir::no_id, products = 0;
  for (auto id = static_cast<std::size_t>(step.micro_begin.back()); id < step.program.ops.size();
       ++id) {
    ir::Op& op = step.program.ops[id];
    if (op.module.owner != ir::Owner::policy) continue;  // without gradients nothing is recomputed
    if (op.phase >= ir::Phase::backward) break;  // an imported graph's: it is its forward op's
    const std::int32_t region = region_of(op, config, stage, counts_from_one);
    if (region < 0) continue;
    op.region = base + region;
    step.regions = std::max(step.regions, op.region + 1);
    if (mode_of(config, op.module.block) != AcMode::selective) continue;
    if (op.region != last) products = 0;
    last = op.region;
    op.kept = policy_keeps(step.program, op, of_titan, products);
    if (op.kind == ir::OpKind::ring_attention) see_whole(step.program, id);
    // DTensor's product scatters its operand by itself: two ops before, one product in between.
    if (op.kind == ir::OpKind::row_adapter) step.program.ops[id - 2].kept = false;
  }
}

using model::ModelSpec;

std::string mode_with_k(const ModelSpec&, const StepConfig& c) {
  return std::string("--ac ") + (c.memory.ac == AcMode::grouped ? "grouped:" : "every:") +
         std::to_string(c.memory.ac_arg);
}
bool takes_k(const StepConfig& c) {
  return c.memory.ac == AcMode::grouped || c.memory.ac == AcMode::every;
}

constexpr Exclusion exclusions_of_regions[] = {
    {"--ac budget:SIZE", "the size must be positive", "give one, such as budget:40GiB",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.ac == AcMode::budget && c.memory.ac_arg < 1;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--ac budget:" + std::to_string(c.memory.ac_arg);
     }},
    {"--ac first:N or modules:PARTS, --transformer-impl hf",
     "they are Megatron-core's: --recompute-method block, and --recompute-modules, of the layers "
     "that --framework megatron has with --transformer-impl transformer_engine or local",
     "use --ac every:K or attention",
     [](const ModelSpec&, const StepConfig& c) {
       return (c.memory.ac == AcMode::first || c.memory.ac == AcMode::modules) && !c.megatron();
     },
     [](const ModelSpec&, const StepConfig& c) { return "--ac " + ac_option(c); }},
    {"--ac grouped:K, --ac every:K", "K must be at least 1", "give one, such as 2",
     [](const ModelSpec&, const StepConfig& c) { return takes_k(c) && c.memory.ac_arg < 1; },
     mode_with_k},
    {"--ac grouped:K or every:K, K above the model's blocks", "the model has fewer blocks than K",
     "give a K of at most its blocks",
     [](const ModelSpec& m, const StepConfig& c) {
       return takes_k(c) && c.memory.ac_arg > m.layers;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return mode_with_k(m, c) + " of " + std::to_string(m.layers) + " blocks";
     }},
    {"--ac-scope submodule, --ac neither full nor every:K",
     "the other modes name their own regions", "use --ac full or every:K, or --ac-scope block",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.scope == AcScope::submodule && c.memory.ac != AcMode::full &&
              c.memory.ac != AcMode::every && c.memory.ac != AcMode::none;
     }},
    {"--framework automodel --ac selective --shard ddp", "NeMo AutoModel has selective for fsdp2",
     "use --shard fsdp2, or --force to plan it all the same",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.ac == AcMode::selective && c.layout.shard == Sharding::ddp &&
              c.runtime.framework == "automodel" && !c.runtime.force;
     }},
    {"--ac-reentrant, --ac other than full, every:K and grouped:K",
     "use_reentrant=True takes no context_fn, and what selects ops is one",
     "use --ac full, or --no-ac-reentrant",
     [](const ModelSpec&, const StepConfig& c) {
       const AcMode ac = c.memory.ac;
       return c.memory.reentrant && ac != AcMode::none && ac != AcMode::full &&
              ac != AcMode::every && ac != AcMode::grouped;
     },
     [](const ModelSpec&, const StepConfig& c) { return "--ac-reentrant --ac " + ac_option(c); }},
    {"--ac-reentrant with --shard fsdp1, fsdp2 or hsdp:N, --pp, --tp, --cp, compiled kernels, "
     "--offload, an imported graph or ac-trainer",
     "an engine within the engine runs their hooks in another order: not planned",
     "use --no-ac-reentrant",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.memory.reentrant &&
              (c.layout.fsdp() || c.layout.pp > 1 || c.layout.tp > 1 || c.layout.cp > 1 ||
               c.memory.kernels == Kernels::compiled || c.memory.offload != Offload::none ||
               m.graph || c.runtime.kind == Runtime::ac_trainer);
     }},
    {"--ac selective, a model that shares keys and values between blocks",
     "a block cannot be recomputed alone", "use --ac full --ac-scope submodule",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.memory.ac == AcMode::selective && m.kv_sharing;
     }},
};

}  // namespace

extern const Pass regions_pass;
const Pass regions_pass{"regions",
                        Stage::micro_batch,
                        "which ops --ac recomputes together, and what selective keeps",
                        applies,
                        run,
                        exclusions_of_regions};

}  // namespace ac_advisor::passes
