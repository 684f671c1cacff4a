#include <algorithm>
#include <functional>
#include <numeric>

#include "ac_advisor/passes/pipeline.hpp"

namespace ac_advisor::passes {
namespace {

/// TorchTitan 0.2.2: input_weight and output_weight of generate_llm_fqn_per_model_part.
constexpr std::int64_t embedding_layers = 1, head_layers = 1;

/// Blocks of each stage; empty: they do not go round.
std::vector<std::int64_t> even_split(std::int64_t layers, std::int64_t stages) {
  const std::int64_t all = layers + embedding_layers + head_layers;
  const std::int64_t each = all / stages, longer = all % stages;
  if (each < std::max(embedding_layers, head_layers)) return {};
  std::vector<std::int64_t> blocks;
  for (std::int64_t s = 0; s < stages; ++s) blocks.push_back(each + (s < longer ? 1 : 0));
  blocks.front() -= embedding_layers;
  blocks.back() -= head_layers;
  return blocks;
}

/// Megatron-core (transformer/transformer_block.py, get_num_layers_to_build): the same of each.
std::vector<std::int64_t> equal_split(std::int64_t layers, std::int64_t stages) {
  if (layers % stages != 0) return {};
  return std::vector<std::int64_t>(static_cast<std::size_t>(stages), layers / stages);
}

}  // namespace

std::vector<StageBlocks> pipeline_stages(const model::ModelSpec& spec, const StepConfig& config) {
  const std::int64_t stages = config.layout.pp * config.layout.pp_chunks;
  if (stages == 1) return {{0, spec.layers, true, true}};
  std::vector<std::int64_t> blocks = config.layout.pp_layers;
  if (blocks.empty())
    blocks = config.megatron() ? equal_split(spec.layers, stages) : even_split(spec.layers, stages);
  std::vector<StageBlocks> all;
  std::int64_t first = 0;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    all.push_back({first, first + blocks[s], s == 0, s + 1 == blocks.size()});
    first += blocks[s];
  }
  return all;
}

std::vector<StageBlocks> stages_of_rank(const model::ModelSpec& spec, const StepConfig& config) {
  const std::vector<StageBlocks> all = pipeline_stages(spec, config);
  const PipelineRank rank = pipeline_rank(config);
  std::vector<StageBlocks> own;
  for (std::int64_t chunk = 0; chunk < rank.chunks; ++chunk)
    own.push_back(all[static_cast<std::size_t>(rank.stage(chunk))]);
  return own;
}

bool blocks_are_alike(const model::ModelSpec& spec) {
  const auto same = [](const auto& list) {
    return std::adjacent_find(list.begin(), list.end(), std::not_equal_to<>()) == list.end();
  };
  return same(spec.window) && same(spec.unrotated_block) && same(spec.sparse_block) &&
         same(spec.delta_block);
}

PipelineRank pipeline_rank(const StepConfig& config) {
  return {config.layout.pp_schedule,
          config.layout.pp,
          std::max<std::int64_t>(config.layout.pp_rank, 0),
          config.layout.pp_chunks,
          config.run.grad_accum,
          config.runtime.kind == Runtime::ac_trainer};
}

}  // namespace ac_advisor::passes
