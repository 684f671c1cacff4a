#include "options_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/options.hpp"
#include "options_size.hpp"

namespace ac_advisor {
namespace options {
namespace {

constexpr Whole group_size{"K", 1, 4096}, first_blocks{"N", 1, 4096};
constexpr Whole logits_chunks{"N", 1, 32, "chunked-logits:"};
constexpr Whole chunk_size{"TOKENS", 1, std::int64_t{1} << 31, "chunked:"};
constexpr Whole shard_count{"N", 2, 1 << 19, "hsdp:"};
constexpr Whole engine_ranks{"N", 1, 1024, "vllm:tp"}, engine_level{"LEVEL", 0, 2, "vllm:sleep="};

constexpr Whole factors_rank{"RANK", 1, 4096, "powersgd:"};

constexpr Whole adapter_size{"a number of --adapter", 1, 65536};
constexpr Whole chunks_a_rank{"V", 2, 64, "interleaved:"};
constexpr Whole split_chunks_a_rank{"V", 2, 64, "zb1:"};
constexpr Whole stage_blocks{"a number of blocks", 0, 4096};
constexpr Whole image_side{"a side", 1, 1 << 16};

struct FrozenPart {
  std::string_view word;
  bool FrozenParts::*member;
};
constexpr FrozenPart frozen_parts[] = {{"tower", &FrozenParts::tower},
                                       {"projector", &FrozenParts::projector},
                                       {"decoder", &FrozenParts::decoder}};
constexpr Whole ranks_of_node{"N", 2, 1 << 20};
constexpr Whole pipeline_ranks{"R", 0, (1 << 20) - 1};
constexpr Whole ranks_of_sequence{"R", 0, (1 << 20) - 1};

constexpr Choice<PipelineSchedule> pp_schedules[] = {{"1f1b", PipelineSchedule::one_f_one_b},
                                                     {"gpipe", PipelineSchedule::gpipe},
                                                     {"interleaved", PipelineSchedule::interleaved},
                                                     {"zb1", PipelineSchedule::zero_bubble},
                                                     {"zbv", PipelineSchedule::zbv},
                                                     {"dualpipev", PipelineSchedule::dual_pipe_v}};

constexpr Choice<Sharding> shards[] = {{"none", Sharding::none},   {"ddp", Sharding::ddp},
                                       {"zero1", Sharding::zero1}, {"zero2", Sharding::zero2},
                                       {"fsdp1", Sharding::fsdp1}, {"fsdp2", Sharding::fsdp2},
                                       {"zero3", Sharding::zero3}};

constexpr Choice<Compression> plain_compressions[] = {
    {"none", Compression::none}, {"bf16", Compression::bf16}, {"fp16", Compression::fp16}};

constexpr Choice<LossKind> whole_losses[] = {{"ce", LossKind::ce},
                                             {"ce-no-upcast", LossKind::ce_no_upcast},
                                             {"ce-compiled", LossKind::ce_compiled},
                                             {"lc-ce", LossKind::lc_ce},
                                             {"tiled", LossKind::tiled}};

std::string_view word(std::string_view value) { return value.substr(0, value.find(':')); }

/// What follows the colon; null when there is none.
std::optional<std::string_view> argument(std::string_view value) {
  const std::size_t colon = value.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return value.substr(colon + 1);
}

void refuse_argument(const Given& given) {
  const std::string name(word(given.value));
  refuse(given, name + " takes no argument; use " + name);
}

template <typename Value, std::size_t Count>
const char* text_of(const Choice<Value> (&choices)[Count], Value value) {
  for (const Choice<Value>& choice : choices)
    if (choice.value == value && choice.shown) return choice.text.data();
  return "unknown";
}

/// The option's name ends in `option`, its value has `part`.
struct Unsupported {
  std::string_view option, part;
  const char* because;
};
constexpr const char* next_tasks =
    "it is not planned yet; planned are sft, dpo, kto, orpo, simpo, reward, grpo, rloo, ppo "
    "and distillation";
constexpr Unsupported unsupported[] = {
    {"--task", "cpo", "CPO beside its loss simpo is not planned yet; use simpo"},
    {"--task", "gkd",
     "TRL's experimental GKDTrainer is not planned yet; use distillation, the DistillationTrainer"},
    {"--task", "embed", next_tasks},
    {"--task", "classify", next_tasks},
    {"-dtype", "fp8", "FP8 is of matrix products alone: use --fp8 tensorwise or rowwise with bf16"},
    {"-dtype", "float8",
     "FP8 is of matrix products alone: use --fp8 tensorwise or rowwise with bf16"},
};

}  // namespace

void refuse_unsupported(const Given& given) {
  for (const Unsupported& u : unsupported)
    if (given.option.ends_with(u.option) && given.value.find(u.part) != std::string_view::npos)
      refuse(given, u.because);
}

void apply_autocast(const Given& given, StepConfig& config) {
  if (std::find(std::begin(autocast_words), std::end(autocast_words), given.value) ==
      std::end(autocast_words))
    refuse_choice(given, autocast_words);
  config.precision.autocast = given.value != "none";
  if (given.value == "fp16") config.precision.compute_dtype = DType::f16;
}

void apply_block_modes(const Given& given, StepConfig& config) {
  std::vector<AcMode> modes;
  for (std::string_view rest = given.value; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const auto* const known = std::find_if(std::begin(ac_words), std::end(ac_words),
                                           [&](const AcWord& w) { return w.text == word(one); });
    if (known == std::end(ac_words)) refuse_choice({given.option, one}, ac_mode_words);
    if (const auto share = argument(one); share && known->mode == AcMode::memory_budget)
      config.memory.memory_budget = parse_decimal({given.option, *share}, "0.5");
    modes.push_back(known->mode);
  }
  config.memory.block_modes = std::move(modes);
}

void apply_cublas_workspace(const Given& given, StepConfig& config) {
  if (!given.value.empty() && !cublas_workspace_bytes(std::string(given.value)))
    refuse(given, "CONF is :KIB:COUNT once or several times, such as :4096:8 or :16:8");
  config.runtime.cublas_workspace = given.value;
}

std::string cublas_workspace_text(const StepConfig& config) {
  return config.runtime.cublas_workspace;
}

void apply_adapter(const Given& given, StepConfig& config) {
  const auto text = argument(given.value);
  const std::string_view name = word(given.value);
  Adapters& a = config.adapters;
  a.method = {}, a.size = 0, a.factor = 0;
  if (given.value == "none") return;
  const auto rows = model::adapter_methods();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const auto& method) { return method.name == name; });
  if (found == rows.end()) refuse_choice(given, adapter_words);
  if (text && found->size.empty()) refuse_argument(given);
  a.method = found->method;
  if (text) {
    const std::size_t end = text->find(':');
    const bool factors = end != std::string_view::npos && (found->method == AdapterMethod::lokr ||
                                                           found->method == AdapterMethod::miss);
    a.size = parse_whole(given, factors ? text->substr(0, end) : *text, adapter_size);
    if (factors) a.factor = parse_whole(given, text->substr(end + 1), adapter_size);
  } else if (!found->size.empty()) {
    if (found->usual == 0)
      refuse(given, fmt::format("{0} needs the number of its {1}, such as {0}:32", found->name,
                                found->size));
    a.size = found->usual;
  }
}

void apply_lora_targets(const Given& given, StepConfig& config) {
  const std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,";
  const bool listed = given.value.find_first_not_of(allowed) == std::string_view::npos &&
                      !given.value.starts_with(',') && !given.value.ends_with(',') &&
                      given.value.find(",,") == std::string_view::npos;
  if (!listed && given.value != "all-linear")
    refuse(given,
           "NAMES are endings of modules' names with commas between, such as "
           "q_proj,v_proj, or all-linear");
  config.adapters.targets = given.value;
}

std::string block_modes_text(const StepConfig& config) {
  std::string text;
  for (const AcMode mode : config.memory.block_modes)
    for (const AcWord& word : ac_words)
      if (word.mode == mode) {
        text += (text.empty() ? "" : " ") + std::string(word.text);
        if (mode == AcMode::memory_budget) text += ":" + decimal_text(config.memory.memory_budget);
      }
  return text;
}

namespace {

/// Bits of `names`, which have a + between them.
std::int64_t parse_parts(const Given& given, std::string_view names) {
  std::int64_t parts = 0;
  for (std::string_view rest = names;; rest.remove_prefix(1)) {
    const std::string_view one = rest.substr(0, rest.find('+'));
    const auto* const part = std::find_if(std::begin(layer_parts), std::end(layer_parts),
                                          [&](const auto& p) { return p.text == one; });
    if (part == std::end(layer_parts)) {
      std::string known;
      for (const auto& p : layer_parts) known += (known.empty() ? "" : ", ") + std::string(p.text);
      refuse(given, "modules needs parts with + between them, of " + known);
    }
    parts |= std::int64_t{1} << static_cast<int>(part->value);
    rest.remove_prefix(one.size());
    if (rest.empty()) return parts;
  }
}

}  // namespace

void apply_ac(const Given& given, StepConfig& config) {
  const auto text = argument(given.value);
  for (const AcWord& mode : ac_words) {
    if (mode.text != word(given.value)) continue;
    const std::string name(mode.text);
    std::int64_t number = 0;
    double share = 1.0;
    if (mode.argument == Argument::none) {
      if (text) refuse_argument(given);
    } else if (mode.argument == Argument::count) {
      if (!text) refuse(given, name + " needs a number of blocks, such as " + name + ":2");
      const std::string prefix = name + ":";
      Whole whole = mode.mode == AcMode::first ? first_blocks : group_size;
      whole.prefix = prefix;
      number = parse_whole(given, *text, whole);
    } else if (mode.argument == Argument::parts) {
      number = parse_parts(given, text.value_or(""));
    } else if (mode.argument == Argument::share) {
      if (!text) refuse(given, name + " needs a share from 0 to 1, such as " + name + ":0.5");
      share = parse_decimal({given.option, *text}, "0.5");
      if (!(share >= 0.0 && share <= 1.0)) refuse(given, "F must be from 0 to 1, such as 0.5");
    } else {
      if (!text) refuse(given, name + " needs a size, such as " + name + ":40GiB");
      number = parse_bytes(given, *text);
      if (number < 1) refuse(given, "SIZE must be positive, such as budget:40GiB");
    }
    config.memory.ac = mode.mode;
    config.memory.ac_arg = number;
    config.memory.memory_budget = share;
    config.memory.block_modes.clear();
    return;
  }
  refuse_choice(given, ac_mode_words);
}

void apply_loss(const Given& given, StepConfig& config) {
  const auto text = argument(given.value);
  const std::string_view name = word(given.value);
  if (name == "chunked") {
    if (!text) refuse(given, "chunked needs the tokens of a chunk, such as chunked:1024");
    config.memory.chunk_tokens = parse_whole(given, *text, chunk_size);
    config.memory.loss = LossKind::chunked;
    return;
  }
  if (name == "chunked-logits") {
    if (!text) refuse(given, "chunked-logits needs the number of chunks, such as chunked-logits:8");
    config.memory.chunk_tokens = parse_whole(given, *text, logits_chunks);
    config.memory.loss = LossKind::chunked_logits;
    return;
  }
  const auto* const found = std::find_if(std::begin(whole_losses), std::end(whole_losses),
                                         [&](const auto& loss) { return loss.text == name; });
  if (found == std::end(whole_losses)) refuse_choice(given, loss_words);
  if (text) refuse_argument(given);
  config.memory.loss = found->value;
  config.memory.chunk_tokens = 0;
}

void apply_shard(const Given& given, StepConfig& config) {
  const auto text = argument(given.value);
  const std::string_view name = word(given.value);
  if (name == "hsdp") {
    if (!text) refuse(given, "hsdp needs the ranks of one shard group, such as hsdp:8");
    config.layout.hsdp_shards = parse_whole(given, *text, shard_count);
    config.layout.shard = Sharding::hsdp;
    return;
  }
  for (const Choice<Sharding>& choice : shards) {
    if (choice.text != name) continue;
    if (text) refuse_argument(given);
    config.layout.shard = choice.value;
    config.layout.hsdp_shards = 0;
    return;
  }
  refuse_choice(given, shard_words);
}

namespace {

/// "tp2", "util=0.5" or "sleep=1" of an engine.
void apply_engine_part(const Given& given, std::string_view part, TaskChoice& task) {
  const std::string option = std::string(given.option) + " vllm:";
  const auto after = [&](std::string_view name) -> std::optional<std::string_view> {
    if (!part.starts_with(name)) return std::nullopt;
    return part.substr(name.size());
  };
  if (const auto share = after("util=")) {
    task.engine_share = parse_decimal({option + "util=SHARE", *share}, "0.5");
  } else if (const auto level = after("sleep=")) {
    task.engine_sleep = parse_whole(given, *level, engine_level);
  } else if (const auto ranks = after("tp")) {
    task.engine_ranks = parse_whole(given, *ranks, engine_ranks);
  } else if (part.empty() || part.find_first_not_of("0123456789.eE+-") != part.npos) {
    refuse(given,
           std::string(part) +
               " is no part of an engine: those are tpN, util=SHARE and sleep=LEVEL, such as "
               "vllm:tp2,util=0.5,sleep=1");
  } else {
    task.engine_share = parse_decimal({option + "SHARE", part}, "0.3");
  }
}

}  // namespace

void apply_rollout(const Given& given, StepConfig& config) {
  const auto engine = argument(given.value);
  const std::string_view name = word(given.value);
  TaskChoice& task = config.task;
  task.engine_share = 0;
  task.engine_ranks = 1;
  task.engine_sleep = 0;
  if (name != "vllm") {
    const auto* const found = std::find_if(std::begin(plain_rollouts), std::end(plain_rollouts),
                                           [&](const auto& choice) { return choice.text == name; });
    if (found == std::end(plain_rollouts)) refuse_choice(given, rollout_words);
    if (engine) refuse_argument(given);
    task.rollout = found->value;
    return;
  }
  task.rollout = Rollout::vllm;
  std::string_view left = engine.value_or(std::string_view());
  while (!left.empty()) {
    const std::size_t comma = std::min(left.find(','), left.size());
    apply_engine_part(given, left.substr(0, comma), task);
    left.remove_prefix(std::min(comma + 1, left.size()));
  }
  if (task.engine_share == 0)
    refuse(given,
           "vllm needs its share of the device (gpu_memory_utilization), such as vllm:0.3 or "
           "vllm:tp2,util=0.5,sleep=1");
  if (!(task.engine_share > 0.0 && task.engine_share < 1.0))
    refuse(given, "SHARE must be above 0 and below 1; try vllm:0.3");
}

void apply_compression(const Given& given, StepConfig& config) {
  const auto text = argument(given.value);
  const std::string_view name = word(given.value);
  GradCompression made;
  if (name == "topk") {
    if (!text) refuse(given, "topk needs the part of a bucket that is sent, such as topk:0.01");
    made.kind = Compression::topk;
    const std::string option = std::string(given.option) + " topk:RATIO";
    made.ratio = parse_decimal({option, *text}, "0.01");
    if (!(made.ratio > 0.0 && made.ratio <= 1.0))
      refuse(given, "RATIO must be above 0 and at most 1; try topk:" +
                        std::string(made.ratio > 1.0 ? "1" : "0.001"));
  } else if (name == "powersgd") {
    if (!text) refuse(given, "powersgd needs the factors' rank, such as powersgd:1");
    made.kind = Compression::powersgd;
    made.rank = parse_whole(given, *text, factors_rank);
  } else {
    const auto* const found =
        std::find_if(std::begin(plain_compressions), std::end(plain_compressions),
                     [&](const auto& choice) { return choice.text == name; });
    if (found == std::end(plain_compressions)) refuse_choice(given, compression_words);
    if (text) refuse_argument(given);
    made.kind = found->value;
  }
  config.compression = made;
}

void apply_pp_schedule(const Given& given, StepConfig& config) {
  const auto text = argument(given.value);
  for (const Choice<PipelineSchedule>& choice : pp_schedules) {
    if (choice.text != word(given.value)) continue;
    const bool interleaved = choice.value == PipelineSchedule::interleaved;
    const bool split = choice.value == PipelineSchedule::zero_bubble;
    if (interleaved && !text)
      refuse(given, "interleaved needs the stages of a rank, such as interleaved:2");
    if (!interleaved && !split && text) refuse_argument(given);
    config.layout.pp_schedule = choice.value;
    config.layout.pp_chunks = is_v_shaped(choice.value) ? 2 : 1;
    if (text)
      config.layout.pp_chunks =
          parse_whole(given, *text, split ? split_chunks_a_rank : chunks_a_rank);
    return;
  }
  refuse_choice(given, pp_schedule_words);
}

void apply_pp_layers(const Given& given, StepConfig& config) {
  std::vector<std::int64_t> layers;
  const bool listed = !given.value.empty() &&
                      given.value.find_first_not_of("0123456789,") == std::string_view::npos &&
                      !given.value.starts_with(',') && !given.value.ends_with(',') &&
                      given.value.find(",,") == std::string_view::npos;
  if (!listed && !given.value.empty())
    refuse(given, "the blocks of each stage with commas between, such as 6,6,5");
  for (std::string_view rest = given.value; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    layers.push_back(parse_whole(given, one, stage_blocks));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  config.layout.pp_layers = std::move(layers);
}

void apply_image_pixels(const Given& given, StepConfig& config) {
  const std::size_t middle = given.value.find('x');
  if (middle == std::string_view::npos && !given.value.empty())
    refuse(given, "an image's height and width in pixels, such as 448x672");
  const auto side = [&](std::string_view text) {
    return given.value.empty() ? 0 : parse_whole(given, text, image_side);
  };
  config.run.image_height = side(given.value.substr(0, middle));
  config.run.image_width = side(given.value.empty() ? "" : given.value.substr(middle + 1));
}

void apply_freeze(const Given& given, StepConfig& config) {
  FrozenParts frozen;
  for (std::string_view rest = given.value; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    const auto* part = std::find_if(std::begin(frozen_parts), std::end(frozen_parts),
                                    [&](const FrozenPart& p) { return p.word == one; });
    if (part == std::end(frozen_parts) || rest.ends_with(','))
      refuse(given, "parts with commas between, of tower, projector and decoder");
    frozen.*part->member = true;
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  config.run.frozen = frozen;
}

void apply_cp_rank(const Given& given, StepConfig& config) {
  config.layout.cp_rank = given.value == "usual"
                              ? Layout::usual_rank
                              : parse_whole(given, given.value, ranks_of_sequence);
}

std::string cp_rank_text(const StepConfig& config) {
  const std::int64_t rank = config.layout.cp_rank;
  return rank == Layout::usual_rank ? "usual" : std::to_string(rank);
}

void apply_reshard(const Given& given, StepConfig& config) {
  const bool always = given.value == "true", never = given.value == "false";
  config.layout.reshard_after_forward = !never;
  config.layout.reshard_to = always || never ? 0 : parse_whole(given, given.value, ranks_of_node);
}

std::string reshard_text(const StepConfig& config) {
  if (!config.layout.reshard_after_forward) return "false";
  return config.layout.reshard_to == 0 ? "true" : std::to_string(config.layout.reshard_to);
}

void apply_pp_rank(const Given& given, StepConfig& config) {
  config.layout.pp_rank = given.value == "highest"
                              ? Layout::highest_rank
                              : parse_whole(given, given.value, pipeline_ranks);
}

std::string pp_rank_text(const StepConfig& config) {
  const std::int64_t rank = config.layout.pp_rank;
  return rank == Layout::highest_rank ? "highest" : std::to_string(rank);
}

}  // namespace options

std::optional<std::int64_t> cublas_workspace_bytes(const std::string& conf) {
  constexpr std::int64_t most_kib = std::int64_t{1} << 22, most = 1024;
  std::int64_t bytes = 0;
  for (std::size_t at = 0; at < conf.size();) {
    std::array<std::int64_t, 2> numbers{};
    for (std::int64_t& number : numbers) {
      if (at >= conf.size() || conf[at] != ':') return std::nullopt;
      const std::size_t first = ++at;
      while (at < conf.size() && conf[at] >= '0' && conf[at] <= '9' && number <= most_kib)
        number = 10 * number + (conf[at++] - '0');
      if (at == first || number > most_kib) return std::nullopt;
    }
    if (numbers[1] > most) return std::nullopt;
    bytes += 1024 * numbers[0] * numbers[1];
  }
  return bytes;
}

std::string pp_schedule_option(const StepConfig& config) {
  std::string text = options::text_of(options::pp_schedules, config.layout.pp_schedule);
  const PipelineSchedule schedule = config.layout.pp_schedule;
  if (!is_v_shaped(schedule) && config.layout.pp_chunks > 1)
    text += ":" + std::to_string(config.layout.pp_chunks);
  return text;
}

std::string pp_layers_text(const StepConfig& config) {
  std::string text;
  for (const std::int64_t layers : config.layout.pp_layers)
    text += (text.empty() ? "" : ",") + std::to_string(layers);
  return text;
}

std::string image_pixels_text(const StepConfig& config) {
  if (config.run.image_height == 0) return "";
  return std::to_string(config.run.image_height) + "x" + std::to_string(config.run.image_width);
}

std::string freeze_text(const StepConfig& config) {
  std::string text;
  for (const options::FrozenPart& part : options::frozen_parts)
    if (config.run.frozen.*part.member) text += (text.empty() ? "" : ",") + std::string(part.word);
  return text;
}

std::string layer_parts_text(const StepConfig& config, const char* between) {
  std::string text;
  for (const auto& part : options::layer_parts)
    if (config.memory.recomputes(part.value))
      text += (text.empty() ? "" : between) + std::string(part.text);
  return text;
}

std::string ac_option(const StepConfig& config) {
  for (const options::AcWord& mode : options::ac_words) {
    if (mode.mode != config.memory.ac) continue;
    std::string text(mode.text);
    if (mode.argument == options::Argument::count)
      text += ":" + std::to_string(config.memory.ac_arg);
    if (mode.argument == options::Argument::size)
      text += ":" + options::size_text(config.memory.ac_arg);
    if (mode.argument == options::Argument::share)
      text += ":" + options::decimal_text(config.memory.memory_budget);
    if (mode.argument == options::Argument::parts) text += ":" + layer_parts_text(config);
    return text;
  }
  return "unknown";
}

std::string loss_option(const StepConfig& config) {
  if (config.memory.loss == LossKind::chunked)
    return "chunked:" + std::to_string(config.memory.chunk_tokens);
  if (config.memory.loss == LossKind::chunked_logits)
    return "chunked-logits:" + std::to_string(config.memory.chunk_tokens);
  return options::text_of(options::whole_losses, config.memory.loss);
}

std::string shard_option(const StepConfig& config) {
  if (config.layout.shard == Sharding::hsdp)
    return "hsdp:" + std::to_string(config.layout.hsdp_shards);
  return options::text_of(options::shards, config.layout.shard);
}

std::string rollout_option(const StepConfig& config) {
  const TaskChoice& task = config.task;
  if (task.rollout == Rollout::vllm && task.engine_ranks == 1 && task.engine_sleep == 0)
    return "vllm:" + options::decimal_text(task.engine_share);
  if (task.rollout == Rollout::vllm)
    return fmt::format("vllm:tp{},util={},sleep={}", task.engine_ranks,
                       options::decimal_text(task.engine_share), task.engine_sleep);
  return options::text_of(options::plain_rollouts, config.task.rollout);
}

std::string compression_option(const StepConfig& config) {
  const GradCompression& c = config.compression;
  switch (c.kind) {
    case Compression::topk:
      return fmt::format("topk:{}", c.ratio);
    case Compression::powersgd:
      return "powersgd:" + std::to_string(c.rank);
    default:
      return options::text_of(options::plain_compressions, c.kind);
  }
}

const char* autocast_option(const StepConfig& config) {
  if (!config.precision.autocast) return "none";
  return config.precision.compute_dtype == DType::f16 ? "fp16" : "bf16";
}

std::string adapter_option(const StepConfig& config) {
  const Adapters& a = config.adapters;
  if (!a.of_another_method()) return "none";
  std::string text(model::row(a.method).name);
  if (a.size > 0) text += ":" + std::to_string(a.size);
  if (a.factor > 0) text += ":" + std::to_string(a.factor);
  return text;
}

std::string given_adapters(const StepConfig& config) {
  return config.adapters.of_another_method() ? "--adapter " + adapter_option(config)
                                             : "--lora " + std::to_string(config.adapters.rank);
}

std::string lora_targets_text(const StepConfig& config) { return config.adapters.targets; }

const char* to_option(Task value) { return options::text_of(options::tasks, value); }
const char* to_option(Parked value) { return options::text_of(options::parkings, value); }
const char* to_option(Reference value) { return options::text_of(options::references, value); }
const char* to_option(Quantization value) {
  return options::text_of(options::quantizations, value);
}
const char* to_option(AcScope scope) { return options::text_of(options::scopes, scope); }
const char* to_option(Kernels value) { return options::text_of(options::kernels, value); }
const char* to_option(Optimizer value) { return options::text_of(options::optimizers, value); }
const char* to_option(TransformerImpl value) {
  return options::text_of(options::transformer_impls, value);
}
const char* to_option(Attention value) { return options::text_of(options::attentions, value); }
const char* to_option(CudaGraph value) { return options::text_of(options::cuda_graphs, value); }
const char* to_option(Fp8Recipe value) { return options::text_of(options::fp8_recipes, value); }
const char* to_option(Offload value) { return options::text_of(options::offloads, value); }
const char* to_option(FsdpUnit unit) { return options::text_of(options::fsdp_units, unit); }

const char* to_option(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f32:
      return "fp32";
    case DType::i64:
      return "int64";
    case DType::i32:
      return "int32";
    case DType::u8:
      return "uint8";
    case DType::f16:
      return "fp16";
    case DType::f8:
      return "fp8";
  }
  return "unknown";
}

}  // namespace ac_advisor
