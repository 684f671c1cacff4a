// What a sweep varies: options of the table and their texts.
#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/pipeline.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "check_device.hpp"
#include "parallel.hpp"
#include "variants.hpp"

namespace ac_advisor::advise {
namespace {

/// Tokens of a sequence that a rank has at least where `--cp` is swept: with fewer, a ring waits
/// more than it computes. An estimate.
constexpr std::int64_t least_tokens = 2048;
/// K of every:K from which on nearly nothing is recomputed.
constexpr std::int64_t most_every = 16;
constexpr std::int64_t default_chunk_tokens = 1024;  // Liger's order of magnitude: an estimate

std::string text_of(const std::string& option, const StepConfig& config) {
  const OptionRow* row = find_option(option);
  if (row == nullptr) throw std::logic_error(option + " is no option");
  return row->text(config);
}

/// The divisors of the world up to a node: each layer's collectives wait for the link, and across
/// nodes it is several times slower (Narayanan et al. 2021, section 3.2, takeaway 1).
std::vector<std::int64_t> tensor_parallel_degrees(const StepConfig& base) {
  const simulate::Device& device = simulate::find_device(base.device.gpu);
  const std::int64_t node = device.ranks_of_node(base.layout.node_size);
  std::vector<std::int64_t> degrees;
  for (std::int64_t tp = 1; tp <= std::min(node, base.layout.world); ++tp)
    if (base.layout.world % tp == 0) degrees.push_back(tp);
  return degrees;
}

/// The divisors of the world that leave each rank two chunks of every sequence, and tokens enough.
std::vector<std::int64_t> context_parallel_degrees(const StepConfig& base) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t cp = 1; cp <= base.layout.world && base.run.seq / cp >= least_tokens; ++cp)
    if (base.layout.world % cp == 0 && base.run.seq % (2 * cp) == 0) degrees.push_back(cp);
  return degrees;
}

/// The divisors of the world and of the experts.
std::vector<std::int64_t> expert_parallel_degrees(const model::ModelSpec& model,
                                                  const StepConfig& base) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t ep = 1; ep <= std::min(base.layout.world, model.moe->experts); ++ep)
    if (base.layout.world % ep == 0 && model.moe->experts % ep == 0) degrees.push_back(ep);
  return degrees;
}

/// The divisors of the world that leave each stage a block.
std::vector<std::int64_t> pipeline_degrees(const model::ModelSpec& model, const StepConfig& base) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t pp = 1; pp <= std::min(base.layout.world, model.layers); ++pp)
    if (base.layout.world % pp == 0) degrees.push_back(pp);
  return degrees;
}

/// Whether the base's framework has `split`; what else of the base it lacks aside.
bool has(const model::ModelSpec& model, const StepConfig& base, const StepConfig& split) {
  const std::string lacking = unavailable(model, split);
  return lacking.empty() || lacking == unavailable(model, base);
}
bool has_tensor_parallelism(const model::ModelSpec& model, const StepConfig& base) {
  StepConfig split = base;
  split.layout.tp = 2;
  return has(model, base, split);
}
bool has_context_parallelism(const model::ModelSpec& model, const StepConfig& base) {
  StepConfig split = base;
  split.layout.cp = 2;
  split.layout.shard = Sharding::fsdp2;
  return has(model, base, split);
}
bool has_expert_parallelism(const model::ModelSpec& model, const StepConfig& base) {
  const bool of_titan = model::layer_forms(model, base).padded_experts;
  return model.moe && (base.runtime.framework == "hf" || of_titan || base.megatron());
}
bool has_pipelines(const model::ModelSpec& model, const StepConfig& base) {
  StepConfig split = base;
  split.layout.pp = 2;
  if (base.megatron()) split.layout.pp_layers = uneven_stages(model, split.layout);
  split.run.grad_accum = std::max<std::int64_t>(split.run.grad_accum, 2);
  return has(model, base, split);
}

/// The divisors of the rank's sequences next to the base's micro-batch: two below it, one above.
std::vector<std::string> micro_batches(const StepConfig& base) {
  const std::int64_t sequences = base.run.batch * base.run.grad_accum;
  std::vector<std::string> texts{std::to_string(base.run.batch)};
  for (std::int64_t n = base.run.batch - 1; n > 0 && texts.size() < 3; --n)
    if (sequences % n == 0) texts.insert(texts.begin(), std::to_string(n));
  for (std::int64_t n = base.run.batch + 1; n <= sequences; ++n)
    if (sequences % n == 0) {
      texts.push_back(std::to_string(n));
      break;
    }
  return texts;
}

/// Many ranks of a framework that has both: layouts of all kinds are swept.
bool sweeps_many_layouts(const model::ModelSpec& model, const StepConfig& base) {
  const simulate::Device& device = simulate::find_device(base.device.gpu);
  return base.runtime.framework == "torchtitan" && base.runtime.kind == Runtime::pytorch &&
         base.layout.tp == 1 && base.layout.pp == 1 && base.layout.cp == 1 &&
         base.layout.world > device.ranks_of_node(base.layout.node_size) &&
         has_tensor_parallelism(model, base) && has_pipelines(model, base);
}

/// Megatron-core's layers on many ranks: layouts are swept, with the options of the base's loss and
/// sharding and fewer ways to recompute.
bool sweeps_megatron_layouts(const StepConfig& base) {
  const simulate::Device& device = simulate::find_device(base.device.gpu);
  return base.megatron() && base.layout.tp == 1 && base.layout.pp == 1 &&
         base.layout.world > device.ranks_of_node(base.layout.node_size);
}

/// Every micro-batch that leaves a pipeline one for each stage.
std::vector<std::string> all_micro_batches(const StepConfig& base,
                                           const std::vector<std::int64_t>& degrees) {
  std::set<std::int64_t> sizes;
  for (const std::int64_t tp : degrees) {
    const std::int64_t sequences = base.run.batch * base.run.grad_accum * tp;
    for (std::int64_t n = 1; n <= sequences; ++n)
      if (sequences % n == 0) sizes.insert(n);
  }
  std::vector<std::string> texts;
  for (const std::int64_t n : sizes) texts.push_back(std::to_string(n));
  return texts;
}

std::vector<std::string> texts_of(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const std::int64_t n : numbers) texts.push_back(std::to_string(n));
  return texts;
}

/// Fewer ranks see data of their own where tp is larger, and each has more of the same sequences:
/// the micro-batches of the base, and its multiples.
std::vector<std::string> micro_batches(const StepConfig& base,
                                       const std::vector<std::int64_t>& degrees) {
  std::vector<std::string> texts = micro_batches(base);
  for (const std::int64_t tp : degrees) {
    const std::string more = std::to_string(base.run.batch * tp);
    if (std::find(texts.begin(), texts.end(), more) == texts.end()) texts.push_back(more);
  }
  return texts;
}

/// The base with one value of each axis, in its order; null where that says nothing new or
/// contradicts itself.
std::optional<StepConfig> at(const Variants& variants, const StepConfig& base, const Space& space,
                             const std::vector<std::size_t>& index) {
  OptionList values;
  const std::string *micro = nullptr, *shard = nullptr;
  std::int64_t split = 1;  // ranks that see the same data, for each of the base's
  std::int64_t ring = 1;   // ranks that see parts of it, likewise
  std::int64_t pp = base.layout.pp;
  bool accum = space.vary_global_batch;
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const Axis& axis = space.axes[i];
    values.emplace_back(axis.option, axis.values[index[i]]);
    if (axis.option == "--batch") micro = &axis.values[index[i]];
    if (axis.option == "--tp") split *= std::stoll(axis.values[index[i]]) / base.layout.tp;
    if (axis.option == "--cp") ring = std::stoll(axis.values[index[i]]) / base.layout.cp;
    if (axis.option == "--shard") shard = &axis.values[index[i]];
    if (axis.option == "--pp") {
      pp = std::stoll(axis.values[index[i]]);
      split *= pp / base.layout.pp;
    }
    accum = accum || axis.option == "--grad-accum";
  }
  // Before options are read, as most of a large space is: HSDP's shards divide the ranks that have
  // the same parameters.
  constexpr std::string_view hsdp = "hsdp:";
  const std::int64_t replicas = base.layout.replica_ranks() / split;
  if (shard != nullptr && shard->starts_with(hsdp) && space.available_alone &&
      (replicas == 0 || replicas % std::stoll(shard->substr(hsdp.size())) != 0))
    return std::nullopt;
  if (micro != nullptr && !accum) {
    // What is kept are the sequences of a step, over the ranks that see data of their own.
    const std::int64_t sequences = base.run.batch * base.run.grad_accum * split * ring,
                       n = std::stoll(*micro);
    if (sequences % n != 0) return std::nullopt;
    if (pp > 1 && sequences / n < pp) return std::nullopt;  // --pp N --grad-accum M, M below N
    values.emplace_back("--grad-accum", std::to_string(sequences / n));
  }
  std::optional<StepConfig> c = variants.with(std::move(values));
  // Without checkpointing a scope says nothing, without a pipeline a schedule: the first one stands
  // for all.
  for (std::size_t i = 0; c && i < space.axes.size(); ++i) {
    if (index[i] == 0) continue;
    const std::string& option = space.axes[i].option;
    if (option == "--ac-scope" && c->memory.ac == AcMode::none) return std::nullopt;
    if (option == "--pp-schedule" && c->layout.pp == 1) return std::nullopt;
  }
  return c;
}

/// A pipeline that the framework lacks is no row: what it lacks, other layouts' rows tell. Of many
/// layouts nothing that it lacks is one.
bool is_row(const model::ModelSpec& model, const StepConfig& base, const Space& space,
            const StepConfig& c) {
  if (passes::find_exclusion(model, c) != nullptr) return false;
  if (space.available_alone && c.memory.ac == AcMode::every) {
    // Stages of no more than K blocks recompute their first one each, whatever K.
    std::int64_t longest = 0;
    for (const passes::StageBlocks& stage : passes::pipeline_stages(model, c))
      longest = std::max(longest, stage.blocks());
    if (c.memory.ac_arg > longest) return false;
  }
  const bool told = c.layout.pp == base.layout.pp && !space.available_alone;
  return told || unavailable(model, c).empty();
}

/// How many axes, from the first, say how ranks share the work.
std::size_t layout_axes(const Space& space) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < space.axes.size(); ++i)
    for (const char* const option :
         {"--batch", "--tp", "--cp", "--pp", "--pp-schedule", "--ep", "--shard"})
      if (space.axes[i].option == option) count = i + 1;
  return count;
}

/// A schedule without a pipeline; a ring beside layers in parts, stages or replicas, which a sweep
/// leaves to `--cp N` given by hand. Seen before options are read.
bool says_nothing(const Space& space, const std::vector<std::size_t>& index, std::size_t axis) {
  const std::string& option = space.axes[axis].option;
  const auto chosen = [&](std::size_t i) { return space.axes[i].values[index[i]]; };
  const auto splits = [&](const char* name) {
    for (std::size_t i = 0; i < axis; ++i)
      if (space.axes[i].option == name) return chosen(i) != "1";
    return false;
  };
  if (option == "--pp-schedule") return index[axis] > 0 && !splits("--pp");
  if (option == "--cp") return chosen(axis) != "1" && splits("--tp");
  if (!splits("--cp")) return false;
  return (option == "--pp" && chosen(axis) != "1") ||
         (option == "--shard" && chosen(axis) != "fsdp2");
}

/// Of Megatron-core's layers: all parts whose output has no memory meanwhile, and a mixture whole.
void add_parts(const model::ModelSpec& model, const StepConfig& base,
               std::vector<std::string>& modes) {
  const bool own = base.run.transformer_impl == TransformerImpl::local,
             grouped = model.moe && model.moe->megatron && model.moe->megatron->grouped;
  std::string parts;
  const auto add = [&](bool has, const char* part) {
    if (has) parts += (parts.empty() ? "modules:" : "+") + std::string(part);
  };
  add(grouped, "moe_act");
  add(own || model.latent || model.moe, "layernorm");
  add(model.latent.has_value(), "mla_up_proj");
  if (!parts.empty()) modes.push_back(parts);
  modes.emplace_back(model.moe ? "modules:moe" : "modules:mlp");
}

}  // namespace

void Space::set(const std::string& option, std::vector<std::string> values) {
  for (Axis& axis : axes)
    if (axis.option == option) {
      axis.values = std::move(values);
      return;
    }
  axes.push_back({option, std::move(values)});
}

void Space::keep(const std::string& option, const StepConfig& base) {
  set(option, {text_of(option, base)});
}

Space default_space(const model::ModelSpec& model, const StepConfig& base) {
  Space space;
  space.available_alone = sweeps_many_layouts(model, base) && unavailable(model, base).empty();
  // Tensor parallelism and pipelines go with fsdp2, eager kernels, ce.
  const bool whole = base.layout.tp == 1 && base.layout.pp == 1;
  const bool ranks = base.layout.world > 1 && base.runtime.kind == Runtime::pytorch;
  std::vector<std::int64_t> degrees, rings, stages;
  if (base.layout.tp == 1 && ranks && has_tensor_parallelism(model, base))
    degrees = tensor_parallel_degrees(base);
  if (whole && base.layout.cp == 1 && ranks && has_context_parallelism(model, base))
    rings = context_parallel_degrees(base);
  if (base.layout.pp == 1 && ranks && has_pipelines(model, base))
    stages = pipeline_degrees(model, base);
  const bool many = space.available_alone;
  space.set("--batch", many ? all_micro_batches(base, degrees) : micro_batches(base, degrees));
  if (degrees.size() > 1) space.set("--tp", texts_of(degrees));
  if (rings.size() > 1) space.set("--cp", texts_of(rings));
  if (stages.size() > 1) {
    space.set("--pp", texts_of(stages));
    if (many)
      space.set("--pp-schedule", {"1f1b", "gpipe", "interleaved:2", "interleaved:3"});
    else
      space.set("--pp-schedule", {"1f1b", "interleaved:2"});
  }
  if (whole && base.layout.cp * base.layout.ep == 1 && ranks &&
      has_expert_parallelism(model, base)) {
    space.set("--ep", texts_of(expert_parallel_degrees(model, base)));
    // A rank of --ep has experts whole, as Megatron's own recipes do it.
    if (base.megatron() && base.layout.etp == 0) space.set("--etp", {"1"});
  }
  if (base.layout.data_ranks() > 1) {
    std::vector<std::string> shards{"ddp", "fsdp2"};
    if (degrees.size() > 1 || stages.size() > 1)
      shards.insert(shards.begin(), "none");  // one rank sees all data
    for (std::int64_t n = 2; many && n < base.layout.world; ++n)
      if (base.layout.world % n == 0) shards.push_back("hsdp:" + std::to_string(n));
    if (!whole || (base.layout.ep > 1 && !base.megatron())) shards = {"fsdp2"};
    if (base.runtime.framework == "deepspeed") shards = {"ddp", "zero1", "zero2", "zero3"};
    const std::string own = text_of("--shard", base);
    if (std::find(shards.begin(), shards.end(), own) == shards.end()) shards.push_back(own);
    space.set("--shard", std::move(shards));
  }
  std::vector<std::string> kernels{"eager", "fused"};
  if (plans_compiled(model, base, simulate::find_device(base.device.gpu)))
    kernels.emplace_back("compiled");
  // Another task's trainer has a loss of its own, and eager kernels are planned.
  const bool varies = whole && base.task.supervised();
  if (varies) space.set("--kernels", std::move(kernels));
  const std::int64_t chunk =
      base.memory.loss == LossKind::chunked ? base.memory.chunk_tokens : default_chunk_tokens;
  std::vector<std::string> losses{"ce", "lc-ce", "chunked:" + std::to_string(chunk)};
  if (base.memory.loss == LossKind::tiled || base.memory.loss == LossKind::chunked_logits)
    losses.insert(losses.begin(), text_of("--loss", base));  // TRL's own, torchtune's
  if (base.runtime.framework == "torchtitan" || base.megatron() ||
      base.memory.loss == LossKind::ce_compiled)
    losses.emplace_back("ce-compiled");
  if (varies) space.set("--loss", std::move(losses));
  if (base.task.against_reference()) {
    std::vector<std::string> references{text_of("--ref", base)};
    if (base.task.reference != Reference::precomputed) references.emplace_back("precomputed");
    space.set("--ref", std::move(references));
  }
  const bool of_torchtune = base.runtime.framework == "torchtune", alone = base.layout.world == 1;
  if (alone && (of_torchtune || base.runtime.framework == "trl"))
    space.set("--offload", {"none", "activations"});
  if (!alone && of_torchtune) space.set("--offload", {"none", "parameters"});
  space.set("--ac-scope", {"block", "submodule"});
  std::vector<std::string> modes{"none", "full", "selective", "attention"};
  for (const std::int64_t k : {2, 4, 8})
    if (k < model.layers) modes.push_back("grouped:" + std::to_string(k));
  modes.emplace_back("sqrt");
  for (std::int64_t k = 2; many && k <= std::min(most_every, model.layers); ++k)
    modes.push_back("every:" + std::to_string(k));
  if (sweeps_megatron_layouts(base)) {
    for (const char* option : {"--batch", "--shard", "--loss"}) space.keep(option, base);
    modes = {"none", "full"};
  }
  if (base.megatron()) add_parts(model, base, modes);
  space.set("--ac", std::move(modes));
  return space;
}

Space varying_space(const model::ModelSpec& model, const StepConfig& base) {
  Space space = default_space(model, base);
  space.vary_global_batch = true;
  std::vector<std::string> batches;
  for (const std::int64_t batch : {base.run.batch / 2, base.run.batch, base.run.batch * 2})
    if (batch > 0) batches.push_back(std::to_string(batch));
  space.set("--batch", std::move(batches));
  return space;
}

Space space_around(const model::ModelSpec& model, const StepConfig& base, const OptionList& by_hand,
                   bool vary_global_batch) {
  Space space = vary_global_batch ? varying_space(model, base) : default_space(model, base);
  space.hand = by_hand;
  for (const Axis& axis : std::vector(space.axes))
    if (axis.option != "--batch" && given(by_hand, axis.option)) space.keep(axis.option, base);
  return space;
}

namespace {

/// What `combinations` makes with one value of the first axis.
std::vector<StepConfig> combinations_of(const model::ModelSpec& model, const StepConfig& base,
                                        const Space& space, const Variants& variants,
                                        std::size_t first) {
  std::vector<StepConfig> list;
  std::vector<std::size_t> index(space.axes.size(), 0);
  index.front() = first;
  const std::size_t layout = layout_axes(space);
  const auto descend = [&](const auto& next, std::size_t axis) -> void {
    std::optional<StepConfig> c;
    if (axis >= layout) {
      c = at(variants, base, space, index);
      // TorchTitan's split layouts: what is refused with the first values of the axes that follow,
      // which ask for nothing, is refused with all.
      if (!c && space.available_alone && axis == layout) return;
      if (c && space.available_alone &&
          c->layout.tp * c->layout.cp * c->layout.pp >
              base.layout.tp * base.layout.cp * base.layout.pp &&
          passes::find_exclusion(model, *c) != nullptr)
        return;
    }
    if (axis == index.size()) {
      if (c && is_row(model, base, space, *c)) list.push_back(std::move(*c));
      return;
    }
    for (index[axis] = 0; index[axis] < space.axes[axis].values.size(); ++index[axis])
      if (!says_nothing(space, index, axis)) next(next, axis + 1);
    index[axis] = 0;
  };
  if (!says_nothing(space, index, 0)) descend(descend, 1);
  return list;
}

}  // namespace

std::vector<StepConfig> combinations(const model::ModelSpec& model, const StepConfig& base,
                                     const Space& space) {
  const Variants variants(model, base, space.hand);
  if (space.axes.empty()) {
    const std::optional<StepConfig> c = at(variants, base, space, {});
    return c && is_row(model, base, space, *c) ? std::vector{*c} : std::vector<StepConfig>{};
  }
  std::vector<std::vector<StepConfig>> parts(space.axes.front().values.size());
  parallel(parts.size(), threads_of(space.threads), [&](std::size_t first) {
    parts[first] = combinations_of(model, base, space, variants, first);
  });
  std::vector<StepConfig> list;
  for (std::vector<StepConfig>& part : parts)
    std::move(part.begin(), part.end(), std::back_inserter(list));
  return list;
}

}  // namespace ac_advisor::advise
