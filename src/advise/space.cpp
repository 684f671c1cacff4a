// What a sweep varies: options of the table and their texts.
#include <algorithm>
#include <stdexcept>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "variants.hpp"

namespace ac_advisor::advise {
namespace {

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
bool has_pipelines(const model::ModelSpec& model, const StepConfig& base) {
  StepConfig split = base;
  split.layout.pp = 2;
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
  const std::string* micro = nullptr;
  std::int64_t split = 1;  // ranks that see the same data, for each of the base's
  bool accum = space.vary_global_batch;
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const Axis& axis = space.axes[i];
    values.emplace_back(axis.option, axis.values[index[i]]);
    if (axis.option == "--batch") micro = &axis.values[index[i]];
    if (axis.option == "--tp") split *= std::stoll(axis.values[index[i]]) / base.layout.tp;
    if (axis.option == "--pp") split *= std::stoll(axis.values[index[i]]) / base.layout.pp;
    accum = accum || axis.option == "--grad-accum";
  }
  if (micro != nullptr && !accum) {
    // What is kept are the sequences of a step, over the ranks that see data of their own.
    const std::int64_t sequences = base.run.batch * base.run.grad_accum * split,
                       n = std::stoll(*micro);
    if (sequences % n != 0) return std::nullopt;
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

/// A pipeline that the framework lacks is no row: what it lacks, other layouts' rows tell.
bool is_row(const model::ModelSpec& model, const StepConfig& base, const StepConfig& c) {
  if (passes::find_exclusion(model, c) != nullptr) return false;
  return c.layout.pp == base.layout.pp || unavailable(model, c).empty();
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
  // Tensor parallelism and pipelines go with fsdp2, eager kernels, ce.
  const bool whole = base.layout.tp == 1 && base.layout.pp == 1;
  const bool ranks = base.layout.world > 1 && base.runtime.kind == Runtime::pytorch;
  std::vector<std::int64_t> degrees, stages;
  if (base.layout.tp == 1 && ranks && has_tensor_parallelism(model, base))
    degrees = tensor_parallel_degrees(base);
  if (base.layout.pp == 1 && ranks && has_pipelines(model, base))
    stages = pipeline_degrees(model, base);
  space.set("--batch", micro_batches(base, degrees));
  if (degrees.size() > 1) space.set("--tp", texts_of(degrees));
  if (stages.size() > 1) {
    space.set("--pp", texts_of(stages));
    space.set("--pp-schedule", {"1f1b", "interleaved:2"});
  }
  if (base.layout.data_ranks() > 1) {
    std::vector<std::string> shards{"ddp", "fsdp2"};
    if (degrees.size() > 1 || stages.size() > 1)
      shards.insert(shards.begin(), "none");  // one rank sees all data
    if (!whole) shards = {"fsdp2"};
    if (base.runtime.framework == "deepspeed") shards = {"ddp", "zero1", "zero2", "fsdp2"};
    const std::string own = text_of("--shard", base);
    if (std::find(shards.begin(), shards.end(), own) == shards.end()) shards.push_back(own);
    space.set("--shard", std::move(shards));
  }
  if (whole) space.set("--kernels", {"eager", "fused", "compiled"});
  const std::int64_t chunk =
      base.memory.loss == LossKind::chunked ? base.memory.chunk_tokens : default_chunk_tokens;
  std::vector<std::string> losses{"ce", "lc-ce", "chunked:" + std::to_string(chunk)};
  if (base.memory.loss == LossKind::tiled || base.memory.loss == LossKind::chunked_logits)
    losses.insert(losses.begin(), text_of("--loss", base));  // TRL's own, torchtune's
  if (base.runtime.framework == "torchtitan" || base.megatron() ||
      base.memory.loss == LossKind::ce_compiled)
    losses.emplace_back("ce-compiled");
  if (whole) space.set("--loss", std::move(losses));
  if (base.runtime.framework == "trl" && base.layout.world == 1)
    space.set("--offload", {"none", "activations"});
  space.set("--ac-scope", {"block", "submodule"});
  std::vector<std::string> modes{"none", "full", "selective", "attention"};
  for (const std::int64_t k : {2, 4, 8})
    if (k < model.layers) modes.push_back("grouped:" + std::to_string(k));
  modes.emplace_back("sqrt");
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

std::vector<StepConfig> combinations(const model::ModelSpec& model, const StepConfig& base,
                                     const Space& space) {
  const Variants variants(model, base, space.hand);
  std::vector<StepConfig> list;
  std::vector<std::size_t> index(space.axes.size(), 0);
  for (bool more = true; more;) {
    if (std::optional<StepConfig> c = at(variants, base, space, index);
        c && is_row(model, base, *c))
      list.push_back(std::move(*c));
    more = false;
    for (std::size_t i = index.size(); i-- > 0 && !more;) {
      more = ++index[i] < space.axes[i].values.size();
      if (!more) index[i] = 0;
    }
  }
  return list;
}

}  // namespace ac_advisor::advise
