// How Megatron-LM's arguments lay a model out over ranks: core_v0.19.0, megatron/training/
// arguments.py, validate_args, and megatron/core/transformer/transformer_block.py,
// get_num_layers_to_build.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ac_advisor/model/option_table.hpp"
#include "megatron_keys.hpp"

namespace ac_advisor::intake::megatron_keys {

std::int64_t given(const Keys& keys, std::string_view option, std::int64_t otherwise) {
  const std::string text = keys.value_of(option);
  if (text.empty()) return otherwise;
  StepConfig config;
  const OptionRow& row = *find_option(option);
  row.parse(row, row.name, text, config);
  return std::stoll(row.text(config));
}

namespace {

/// Ranks that share something, 1 where the file says nothing.
std::int64_t degree(Keys& keys, const char* key, const char* option) {
  if (!keys.left_open(key, option)) {
    const std::int64_t ranks = keys.count(key, 1);
    if (ranks > 1 || keys.in_file(key)) keys.option(key, option, std::to_string(ranks));
  }
  return given(keys, option, 1);
}

void read_context(Keys& keys, std::int64_t cp) {
  constexpr const char* key = "cp-comm-type";
  if (cp == 1) return;
  const std::vector<std::string> kinds = keys.words(key);
  if (std::ranges::any_of(kinds, [](const std::string& kind) { return kind != "p2p"; }))
    static_cast<void>(keys.unplanned(key, "the ring, p2p, is planned"));
}

void read_experts(Keys& keys, std::int64_t tp) {
  constexpr const char *ranks = "expert-model-parallel-size",
                       *of_each = "expert-tensor-parallel-size";
  const bool experts = keys.in_file("num-experts") || !keys.model_by_hand().empty();
  if (keys.in_file(ranks)) degree(keys, ranks, "--ep");
  if (keys.in_file(of_each) && experts) degree(keys, of_each, "--etp");
  if (keys.in_file(of_each)) return;
  static_cast<void>(keys.text(of_each));
  keys.resolved(of_each, std::to_string(tp));
}

void read_sharding(Keys& keys, const Layout& layout) {
  constexpr const char* key = "use-distributed-optimizer";
  const bool divided = keys.flag(key), alone = layout.replicas() * layout.cp == 1;
  keys.option(key, "--shard", alone ? "none" : divided ? "zero1" : "ddp");
  constexpr const char* instances = "num-distributed-optimizer-instances";
  if (keys.in_file(instances) && keys.count(instances, 1) > 1)
    keys.option(instances, "--optimizer-instances", std::to_string(keys.count(instances, 1)));
  for (const char* overlap : {"overlap-grad-reduce", "overlap-param-gather"})
    if (keys.is_on(overlap)) keys.assume(std::string(overlap) + ": the time is planned without it");
}

constexpr const char *first = "decoder-first-pipeline-num-layers",
                     *last = "decoder-last-pipeline-num-layers",
                     *embedding = "account-for-embedding-in-pipeline-split",
                     *loss = "account-for-loss-in-pipeline-split";

/// Layers of each stage, where they are not alike; of virtual ones in their order.
std::vector<std::int64_t> uneven(Keys& keys, std::int64_t pp, std::int64_t chunks,
                                 std::int64_t layers) {
  const bool begins = keys.in_file(first), ends = keys.in_file(last),
             embeds = keys.is_on(embedding), loses = keys.is_on(loss);
  if (embeds || loses) {
    if (begins || ends)
      keys.refuse(embeds ? embedding : loss,
                  fmt::format("goes not with {}", begins ? first : last));
    const std::int64_t all = layers + (embeds ? 1 : 0) + (loses ? 1 : 0);
    if (all % (pp * chunks) != 0)
      keys.refuse(embeds ? embedding : loss,
                  fmt::format("leaves {} layers for {} stages", all, pp * chunks));
    std::vector<std::int64_t> stages(static_cast<std::size_t>(pp * chunks), all / (pp * chunks));
    if (embeds) --stages.front();
    if (loses) --stages.back();
    return stages;
  }
  if (!begins && !ends) return {};
  const std::int64_t others = pp - (begins ? 1 : 0) - (ends ? 1 : 0),
                     rest = layers - (begins ? keys.count(first, 1) : 0) -
                            (ends ? keys.count(last, 1) : 0);
  const char* const by = begins ? first : last;
  if (others < 0 || rest < 0 || (others == 0 && rest != 0) ||
      (others > 0 && (rest < others || rest % others != 0)))
    keys.refuse(by, fmt::format("leaves {} of {} layers for {} stages", rest, layers,
                                std::max<std::int64_t>(others, 0)));
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(pp), others > 0 ? rest / others : 0);
  if (begins) ranks.front() = keys.count(first, 1);
  if (ends) ranks.back() = keys.count(last, 1);
  std::vector<std::int64_t> stages;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    for (const std::int64_t rank : ranks) {
      if (rank % chunks != 0)
        keys.refuse(by,
                    fmt::format("{} layers do not divide into {} virtual stages", rank, chunks));
      stages.push_back(rank / chunks);
    }
  return stages;
}

}  // namespace

Layout read_layout(Keys& keys) {
  Layout layout;
  layout.world =
      read_ranks(keys, "megatron",
                 "the command does not say how many processes there are: give --world N by hand");
  layout.tp = degree(keys, "tensor-model-parallel-size", "--tp");
  layout.pp = degree(keys, "pipeline-model-parallel-size", "--pp");
  layout.cp = degree(keys, "context-parallel-size", "--cp");
  const std::int64_t ranks = layout.tp * layout.pp * layout.cp;
  if (layout.world % ranks != 0)
    keys.refuse("tensor-model-parallel-size",
                fmt::format("{} ranks are no multiple of tp {}, pp {} and cp {}", layout.world,
                            layout.tp, layout.pp, layout.cp));
  constexpr const char* sequence = "sequence-parallel";
  const bool asked = keys.flag(sequence);
  if (layout.tp > 1)
    keys.option(sequence, asked ? "--sp" : "--no-sp");
  else
    keys.resolved(sequence, "False");
  read_context(keys, layout.cp);
  read_experts(keys, layout.tp);
  read_sharding(keys, layout);
  return layout;
}

void read_stages(Keys& keys, const Layout& layout, std::int64_t layers) {
  constexpr const char *each = "num-layers-per-virtual-pipeline-stage",
                       *stages = "num-virtual-stages-per-pipeline-rank",
                       *letters = "pipeline-model-parallel-layout";
  const bool of_each = keys.in_file(each), counted = keys.in_file(stages);
  if (keys.in_file(letters) && !keys.by_hand("--pp-layers"))
    static_cast<void>(keys.unplanned(letters, "layouts by letters: give --pp-layers by hand"));
  if (of_each && counted) keys.refuse(each, fmt::format("goes not with {}", stages));
  std::int64_t chunks = counted ? keys.count(stages, 1) : 1;
  if (of_each) {
    for (const char* end : {first, last})
      if (keys.in_file(end))
        keys.refuse(each, fmt::format("goes not with {}: give {}", end, stages));
    std::int64_t all = layers;
    for (const char* key : {embedding, loss})
      if (keys.is_on(key)) ++all;
    const std::int64_t size = keys.count(each, 1), ranks = layout.pp * size;
    if (all % ranks != 0)
      keys.refuse(each, fmt::format("{} layers of {} stages are no multiple", all, layout.pp));
    chunks = all / ranks;
  }
  if (chunks > 1) {
    const char* const key = counted ? stages : each;
    if (layout.pp == 1) keys.refuse(key, "goes with pipeline-model-parallel-size of 2 or more");
    keys.option(key, "--pp-schedule", fmt::format("interleaved:{}", chunks));
    constexpr const char* apart = "no-overlap-p2p-communication";
    if (keys.is_on(apart))
      static_cast<void>(keys.unplanned(apart, "virtual stages are planned with its overlap"));
  }
  const std::vector<std::int64_t> sizes = uneven(keys, layout.pp, chunks, layers);
  if (sizes.empty() || layout.pp == 1) return;
  for (const char* key : {first, last, embedding, loss})
    if (keys.in_file(key))
      return keys.option(key, "--pp-layers", fmt::format("{}", fmt::join(sizes, ",")));
}

}  // namespace ac_advisor::intake::megatron_keys
