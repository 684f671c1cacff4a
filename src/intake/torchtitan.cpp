// TorchTitan's TOML (0.2.2, the last release that reads it): CONFIG_FILE=FILE ./run_train.sh. What
// the keys do: distributed/parallel_dims.py, distributed/utils.py, train.py,
// distributed/activation_checkpoint.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tool.hpp"

namespace ac_advisor::intake {
namespace {

bool detects(const Node& file) {
  const Node* model = file.find("model");
  if (model != nullptr && model->find("flavor") != nullptr) return true;
  const Node* training = file.find("training");
  return training != nullptr && training->find("seq_len") != nullptr &&
         training->find("local_batch_size") != nullptr;
}

struct Degrees {
  std::int64_t replicate, shard, tp, pp, cp;
  [[nodiscard]] bool fsdp() const { return shard * cp > 1; }
};

Degrees read_degrees(Keys& keys) {
  constexpr const char* shard = "parallelism.data_parallel_shard_degree";
  Degrees d{keys.count("parallelism.data_parallel_replicate_degree", 1),
            keys.number(shard).value_or(-1), keys.count("parallelism.tensor_parallel_degree", 1),
            keys.count("parallelism.pipeline_parallel_degree", 1),
            keys.count("parallelism.context_parallel_degree", 1)};
  if (d.shard != -1) d.shard = keys.count(shard, 1);
  std::int64_t others = 1;
  for (const std::int64_t ranks : {d.replicate, d.tp, d.pp, d.cp}) {
    others *= ranks;
    if (others > most_count)
      keys.refuse(shard, fmt::format("the other degrees come to more than {} ranks", most_count));
  }
  const std::int64_t given = keys.world();
  if (d.shard == -1) {
    std::int64_t world = others;
    if (given > 0) {
      world = given;
      if (world % others != 0)
        keys.refuse(shard, fmt::format("--world {} is no multiple of the other degrees' {}", given,
                                       others));
    } else {
      keys.assume(fmt::format("{}: all ranks that are left; planned on {} GPU{}: --world N", shard,
                              world, world == 1 ? "" : "s"));
    }
    d.shard = world / others;
  } else if (given > 0 && given != others * d.shard) {  // ParallelDims._validate
    keys.refuse(
        shard, fmt::format("the degrees come to {} ranks, --world is {}", others * d.shard, given));
  }
  if (const std::int64_t world = others * d.shard; world > 1)
    keys.option(shard, "--world", std::to_string(world));
  return d;
}

void read_experts(Keys& keys, const Degrees& d) {
  constexpr const char* key = "parallelism.expert_parallel_degree";
  const std::int64_t ranks = keys.count(key, 1);
  if (ranks == 1) return;
  keys.option(key, "--ep", std::to_string(ranks));
  constexpr const char* parts = "parallelism.expert_tensor_parallel_degree";
  if (const std::int64_t etp = keys.count(parts, 1); etp > 1 && etp != d.tp)
    keys.refuse(parts, "is 1 or the tensor_parallel_degree");  // ParallelDims._validate
  constexpr const char* backend = "parallelism.expert_parallel_comm_backend";
  const std::string how = keys.text(backend).value_or("standard");
  if (how != "standard" && how != "deepep") keys.refuse(backend, "is standard or deepep");
  if (how == "deepep")
    static_cast<void>(keys.unplanned(backend, "standard is planned, all-to-alls of PyTorch's"));
}

void read_layout(Keys& keys, const Degrees& d) {
  std::string how = "none";
  if (d.replicate > 1)
    how = d.fsdp() ? fmt::format("hsdp:{}", d.shard * d.cp) : "ddp";
  else if (d.fsdp())
    how = "fsdp2";
  keys.option("parallelism.data_parallel_shard_degree", "--shard", how);
  const std::string reshard =
      keys.text("parallelism.fsdp_reshard_after_forward").value_or("default");
  if (reshard != "default" && reshard != "always" && reshard != "never")
    keys.refuse("parallelism.fsdp_reshard_after_forward", "is default, always or never");
  // parallelize.py, apply_fsdp: by default not in a pipeline, which is planned so; the final norm
  // and the output stay gathered unless it is always.
  constexpr const char* key = "parallelism.fsdp_reshard_after_forward";
  if (d.fsdp() && reshard == "never") keys.option(key, "--reshard-after-forward", "false");
  if (d.fsdp() && reshard == "always" && d.pp > 1)
    static_cast<void>(keys.unplanned(key, "blocks that each micro-batch of a pipeline gathers"));
  else if (d.fsdp() && reshard == "always")
    keys.assume(
        "parallelism.fsdp_reshard_after_forward: the final norm and the output are planned "
        "as they are by default, left gathered");
  if (d.tp > 1) {
    keys.option("parallelism.tensor_parallel_degree", "--tp", std::to_string(d.tp));
    if (keys.flag("parallelism.disable_loss_parallel"))
      keys.option("parallelism.disable_loss_parallel", "--no-loss-parallel");
  }
  if (d.cp > 1) keys.option("parallelism.context_parallel_degree", "--cp", std::to_string(d.cp));
  read_experts(keys, d);
}

struct Schedule {
  std::string_view theirs, ours;
};
/// Two stages a rank where a schedule has several (distributed/pipeline_parallel.py).
constexpr Schedule schedules[] = {{"1F1B", "1f1b"},
                                  {"GPipe", "gpipe"},
                                  {"Interleaved1F1B", "interleaved:2"},
                                  {"InterleavedZeroBubble", "zb1:2"},
                                  {"ZBVZeroBubble", "zbv"},
                                  {"DualPipeV", "dualpipev"}};

void read_stages(Keys& keys) {
  constexpr const char* key = "parallelism.module_fqns_per_model_part";
  const Node* stages = keys.node(key);
  if (stages == nullptr || stages->items.empty()) return;
  std::vector<std::int64_t> blocks;
  for (const Node& stage : stages->items)
    blocks.push_back(std::count_if(stage.items.begin(), stage.items.end(), [](const Node& name) {
      return name.text.starts_with("layers.");
    }));
  keys.option(key, "--pp-layers", fmt::format("{}", fmt::join(blocks, ",")));
}

void read_pipeline(Keys& keys, std::int64_t stages) {
  keys.option("parallelism.pipeline_parallel_degree", "--pp", std::to_string(stages));
  constexpr const char* key = "parallelism.pipeline_parallel_schedule";
  const std::string name = keys.text(key).value_or("1F1B");
  const auto* found = std::find_if(std::begin(schedules), std::end(schedules),
                                   [&](const Schedule& s) { return s.theirs == name; });
  if (found == std::end(schedules))
    static_cast<void>(keys.unplanned(key, "this schedule is not planned"));
  else
    keys.option(key, "--pp-schedule", std::string(found->ours));
  read_stages(keys);
}

/// Of a pipeline local_batch_size is cut into micro-batches; else the global batch is accumulated.
void read_batches(Keys& keys, const Degrees& d) {
  constexpr const char* key = "training.local_batch_size";
  const std::int64_t local = keys.count(key, 8);
  const std::int64_t global = keys.number("training.global_batch_size").value_or(-1);
  const std::int64_t once = local * d.replicate * d.shard;
  if (global > 0 && global % once != 0)
    keys.refuse("training.global_batch_size",
                fmt::format("is no multiple of local_batch_size over all ranks, {}", once));
  const std::int64_t times = global > 0 ? global / once : 1;
  if (d.pp > 1) {
    constexpr const char* size = "parallelism.pipeline_parallel_microbatch_size";
    const std::int64_t micro = keys.count(size, 1);
    if (local % micro != 0)
      keys.refuse(size, fmt::format("does not divide training.local_batch_size, {}", local));
    keys.option(size, "--batch", std::to_string(micro));
    keys.option(key, "--grad-accum", std::to_string(local / micro));
    if (times > 1)
      static_cast<void>(keys.unplanned("training.global_batch_size",
                                       "a pipeline that accumulates gradients besides"));
  } else {
    keys.option(key, "--batch", std::to_string(local));
    if (times > 1) keys.option("training.global_batch_size", "--grad-accum", std::to_string(times));
  }
  keys.option("training.seq_len", "--seq",
              std::to_string(keys.number("training.seq_len").value_or(2048)));
}

std::string dtype_of(Keys& keys, std::string_view key, const char* otherwise) {
  const std::string name = keys.text(key).value_or(otherwise);
  if (name != "bfloat16" && name != "float32") keys.refuse(key, "is bfloat16 or float32");
  return name == "bfloat16" ? "bf16" : "fp32";
}

/// distributed/utils.py, maybe_enable_amp: FSDP's policy, else autocast, else neither.
void read_precision(Keys& keys, const Degrees& d) {
  const std::string stored = dtype_of(keys, "training.dtype", "float32");
  const std::string computed = dtype_of(keys, "training.mixed_precision_param", "bfloat16");
  const bool mixes = d.fsdp() || (d.tp == 1 && d.pp == 1);
  keys.option("training.dtype", "--param-dtype", stored);
  if (!mixes && stored != computed)
    keys.assume(
        "training.mixed_precision_param: without FSDP TorchTitan leaves it unread beside "
        "--tp and --pp");
  keys.option("training.mixed_precision_param", "--compute-dtype", mixes ? computed : stored);
  if (!d.fsdp() && (!mixes || computed == "fp32"))
    keys.option("training.mixed_precision_param", "--autocast", "none");
}

void read_checkpointing(Keys& keys) {
  constexpr const char* key = "activation_checkpoint.mode";
  const std::string mode = keys.text(key).value_or("selective");
  if (mode == "none" || mode == "full") {
    keys.option(key, "--ac", mode);
  } else if (mode == "memory_budget") {
    constexpr const char* budget = "activation_checkpoint.memory_budget";
    keys.option(budget, "--ac", "memory-budget:" + keys.text(budget).value_or("0.5"));
  } else if (mode == "selective") {
    constexpr const char* how = "activation_checkpoint.selective_ac_option";
    const std::string option = keys.text(how).value_or("2");
    if (option == "op") return keys.option(how, "--ac", "selective");
    if (option.empty() || option.find_first_not_of("0123456789") != std::string::npos ||
        option == "0")
      keys.refuse(how, "is op, or K to checkpoint every K-th block");
    keys.option(how, "--ac", "every:" + option);
  } else {
    keys.refuse(key, "is none, full, selective or memory_budget");
  }
  if (mode != "none" && keys.flag("activation_checkpoint.early_stop"))
    keys.assume(
        "activation_checkpoint.early_stop: TorchTitan's own layers are planned recomputed "
        "to their end, which holds as much or more");
}

void read_compile(Keys& keys) {
  const bool on = keys.flag("compile.enable");
  std::vector<std::string> parts = {"model", "loss"};
  if (keys.in_file("compile.components")) parts = keys.words("compile.components");
  const auto has = [&](const char* part) {
    return on && std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  keys.option("compile.enable", "--kernels", has("model") ? "compiled" : "eager");
  keys.option("compile.enable", "--loss", has("loss") ? "ce-compiled" : "ce");
}

void read_converters(Keys& keys) {
  for (const std::string& converter : keys.words("model.converters")) {
    if (converter != "quantize.linear.float8") {
      static_cast<void>(keys.unplanned(
          "model.converters", "quantize.linear.float8 is planned; " + converter + " is not"));
      continue;
    }
    constexpr const char* recipe = "quantize.linear.float8.recipe_name";
    const std::string name = keys.text(recipe).value_or("tensorwise");
    if (name != "tensorwise" && name != "rowwise")
      static_cast<void>(keys.unplanned(recipe, "tensorwise and rowwise are planned"));
    else
      keys.option(recipe, "--fp8", name);
    constexpr const char* gather = "quantize.linear.float8.enable_fsdp_float8_all_gather";
    if (keys.flag(gather)) keys.option(gather, "--fp8-all-gather");
    constexpr const char* filter = "quantize.linear.float8.filter_fqns";
    std::vector<std::string> kept = keys.words(filter);
    if (std::erase(kept, "router.gate"); kept != std::vector<std::string>{"output"})
      keys.assume(fmt::format("{}: all linear layers but the output and routers are planned in FP8",
                              filter));
  }
}

void read_optimizer_of(Keys& keys) {
  const std::string name = keys.text("optimizer.name").value_or("AdamW");
  if (name != "AdamW" && name != "Adam")
    keys.refuse("optimizer.name", "TorchTitan has Adam and AdamW");
  constexpr const char* key = "optimizer.implementation";
  const std::string how = keys.text(key).value_or("fused");
  if (how == "fused" || how == "foreach")
    keys.option(key, "--optimizer", how == "fused" ? "adamw" : "adamw-foreach");
  else
    static_cast<void>(keys.unplanned(key, "fused and foreach are planned"));
}

void read(Keys& keys) {
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", "torchtitan");
  const std::string name = keys.text("model.name").value_or("llama3");
  if (name == "flux") keys.refuse("model.name", "its images are no language model's");
  keys.out().model_key = "model.flavor";
  keys.out().model = name + "/" + keys.text("model.flavor").value_or("debugmodel");
  keys.out().flavor_of = "torchtitan";
  const Degrees degrees = read_degrees(keys);
  read_layout(keys, degrees);
  if (degrees.pp > 1) read_pipeline(keys, degrees.pp);
  read_batches(keys, degrees);
  read_precision(keys, degrees);
  read_optimizer_of(keys);
  keys.option("training.max_norm", "--clip-grad", keys.text("training.max_norm").value_or("1.0"));
  read_checkpointing(keys);
  read_compile(keys);
  read_converters(keys);
  if (keys.flag("training.enable_cpu_offload"))
    keys.option("training.enable_cpu_offload", "--offload", "parameters");
}

}  // namespace

const Tool torchtitan{"torchtitan", detects, read, true};

}  // namespace ac_advisor::intake
