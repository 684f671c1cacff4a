// Megatron-LM (core_v0.19.0): the arguments of pretrain_gpt.py. megatron/training/arguments.py, and
// the dataclasses of megatron/core and megatron/training/config that its parser is made of.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "megatron_keys.hpp"

namespace ac_advisor::intake {
namespace {

using megatron_keys::given;
using megatron_keys::Layout;

bool detects(const Node& file) { return file.find("megatron") != nullptr; }

void read_program(Keys& keys) {
  const std::string program = keys.text("megatron").value_or("pretrain_gpt");
  if (program != "pretrain_gpt")
    keys.refuse("megatron",
                "pretrain_gpt.py is planned, of Megatron-LM's scripts; ac-advisor dryrun runs any");
  if (!keys.by_hand("--framework")) keys.out().options.emplace_back("--framework", "megatron");
}

void read_length(Keys& keys) {
  const char* const key = keys.in_file("seq-length") || !keys.in_file("encoder-seq-length")
                              ? "seq-length"
                              : "encoder-seq-length";
  if (keys.left_open(key, "--seq")) return;
  if (!keys.in_file(key) && keys.by_hand("--seq")) return;
  if (!keys.in_file(key)) keys.refuse(key, "is missing, and Megatron-LM asks for it");
  keys.option(key, "--seq", std::to_string(keys.count(key, 1)));
  constexpr const char* positions = "max-position-embeddings";
  if (keys.model_by_hand().empty() && given(keys, "--seq", 1) > keys.count(positions, 1))
    keys.refuse(key, fmt::format("is more than {} {}", positions, keys.count(positions, 1)));
}

void read_batches(Keys& keys, const Layout& layout) {
  constexpr const char *micro = "micro-batch-size", *global = "global-batch-size",
                       *fewer = "decrease-batch-size-if-needed";
  if (!keys.left_open(micro, "--batch") && (keys.in_file(micro) || !keys.by_hand("--batch"))) {
    if (!keys.in_file(micro)) keys.refuse(micro, "is missing, and Megatron-LM asks for it");
    keys.option(micro, "--batch", std::to_string(keys.count(micro, 1)));
  }
  if (keys.in_file("rampup-batch-size")) {
    static_cast<void>(keys.node("rampup-batch-size"));
    keys.assume("rampup-batch-size: the last batch, global-batch-size, is planned");
  }
  if (keys.left_open(global, "--grad-accum") || keys.by_hand("--grad-accum")) return;
  const std::int64_t of_each = given(keys, "--batch", 1) * layout.replicas();
  if (!keys.in_file(global)) {
    static_cast<void>(keys.text(global));
    return keys.resolved(global, std::to_string(of_each));
  }
  const std::int64_t rows = keys.count(global, 1), steps = rows / of_each;
  const bool rounds = keys.is_on(fewer);
  if (steps == 0 || (rows % of_each != 0 && !rounds))
    keys.refuse(global,
                fmt::format("is no multiple of {} data-parallel ranks with micro-batches of {}",
                            layout.replicas(), given(keys, "--batch", 1)));
  if (steps > 1) keys.option(global, "--grad-accum", std::to_string(steps));
}

void read_precision(Keys& keys) {
  constexpr const char* wide = "accumulate-allreduce-grads-in-fp32";
  const bool half = keys.flag("fp16"), brain = keys.flag("bf16");
  if (half && brain) keys.refuse("fp16", "goes not with bf16");
  if (!half && !brain && !keys.by_hand("--param-dtype"))
    keys.refuse("bf16", "without it and fp16 training is in fp32, which is not planned");
  if (half || brain) keys.option(half ? "fp16" : "bf16", "--param-dtype", half ? "fp16" : "bf16");
  if (half && keys.flag(wide)) keys.option(wide, "--reduce-dtype", "fp32");
  if (brain && !keys.in_file("grad-reduce-in-bf16")) {
    static_cast<void>(keys.flag(wide));
    keys.resolved(wide, "True");
  }
}

void read_float8(Keys& keys) {
  constexpr const char *format = "fp8-format", *recipe = "fp8-recipe",
                       *history = "fp8-amax-history-len";
  if (!keys.text(format)) return;
  const std::string scaling = keys.text(recipe).value_or("delayed");
  if (scaling != "delayed" && scaling != "tensorwise") {
    static_cast<void>(keys.unplanned(recipe, "delayed and tensorwise are planned"));
    return;
  }
  keys.option(keys.in_file(recipe) ? recipe : format, "--fp8", scaling);
  if (scaling == "delayed" && keys.count(history, 1) > 1)
    keys.assume(fmt::format(
        "{}: a history of one is planned: each layer's products keep 20 bytes an entry more",
        history));
}

void read_optimizer(Keys& keys) {
  if (keys.text("optimizer").value_or("adam") != "adam")
    static_cast<void>(keys.unplanned("optimizer", "adam is planned"));
  else
    keys.option("optimizer", "--optimizer", "adamw");
  keys.option("clip-grad", "--clip-grad", keys.text("clip-grad").value_or("1.0"));
}

/// core/transformer/transformer_config.py, __post_init__: what is recomputed of each layer.
std::string recomputed_parts(Keys& keys) {
  std::vector<std::string> parts = keys.words("recompute-modules");
  if (parts.empty()) parts = {"core_attn"};
  if (keys.is_on("moe-layer-recompute")) parts.emplace_back("moe");
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts == std::vector<std::string>{"core_attn"}
             ? "attention"
             : fmt::format("modules:{}", fmt::join(parts, "+"));
}

void read_checkpoints(Keys& keys) {
  constexpr const char *key = "recompute-granularity", *method = "recompute-method",
                       *layers = "recompute-num-layers", *selective = "recompute-activations";
  if (keys.left_open(key, "--ac")) return;
  std::string granularity = keys.text(key).value_or("");
  if (keys.is_on(selective)) granularity = "selective";
  if (!keys.in_file(key) && granularity.empty() && keys.is_on("moe-layer-recompute"))
    granularity = "selective";
  if (!granularity.empty()) keys.resolved(key, granularity);
  if (granularity.empty()) return keys.option(key, "--ac", "none");
  if (granularity == "selective") {
    for (const char* other : {method, layers})
      if (keys.in_file(other)) keys.refuse(other, "goes with recompute-granularity full alone");
    return keys.option(key, "--ac", recomputed_parts(keys));
  }
  if (granularity != "full") keys.refuse(key, "is full or selective");
  const std::string how = keys.text(method).value_or("");
  if (how != "uniform" && how != "block") keys.refuse(method, "is uniform or block");
  if (!keys.in_file(layers))
    keys.refuse(layers, "is missing: recompute-granularity full asks for it");
  const std::int64_t count = keys.count(layers, 1);
  keys.option(method, "--ac",
              how == "block" ? fmt::format("first:{}", count)
              : count == 1   ? "full"
                             : fmt::format("grouped:{}", count));
}

/// The one that Transformer Engine is left by the environment; empty: it chooses.
std::string attention_of_environment(Keys& keys) {
  const auto off = [&](const char* name) {
    return keys.in_file(name) && keys.text(name).value_or("") == "0";
  };
  const bool no_flash = off("NVTE_FLASH_ATTN"), no_cudnn = off("NVTE_FUSED_ATTN");
  static_cast<void>(off("NVTE_UNFUSED_ATTN"));
  return no_flash && no_cudnn ? "eager" : no_flash ? "cudnn" : no_cudnn ? "flash" : "";
}

void read_attention(Keys& keys, bool local) {
  constexpr const char* key = "attention-backend";
  const std::string backend = keys.text(key).value_or("auto");
  if (local) return keys.option(key, "--attn", backend == "auto" ? "auto" : "eager");
  if (backend == "auto") {
    const std::string left = attention_of_environment(keys);
    if (!left.empty()) return keys.option(key, "--attn", left);
    keys.option(key, "--attn", "auto");
    if (!keys.by_hand("--attn"))
      keys.assume(
          "attention-backend: Transformer Engine chooses; cuDNN's is planned, and --attn flash "
          "says "
          "otherwise");
  } else if (backend == "flash") {
    keys.option(key, "--attn", "flash");
  } else if (backend == "fused") {
    keys.option(key, "--attn", "cudnn");
  } else if (backend == "unfused") {
    keys.option(key, "--attn", "eager");
  } else {
    keys.refuse(key, "auto, flash, fused and unfused are planned");
  }
}

void read_loss(Keys& keys) {
  constexpr const char *key = "cross-entropy-loss-fusion", *whose = "cross-entropy-fusion-impl";
  const bool fused = keys.flag(key);
  if (fused && keys.text(whose).value_or("native") != "native")
    static_cast<void>(keys.unplanned(whose, "native is planned, and Megatron-LM refuses te"));
  constexpr const char* same = "deterministic-mode";
  if (fused && keys.is_on(same)) keys.refuse(key, fmt::format("goes not with {}", same));
  keys.option(key, "--loss", fused ? "ce-compiled" : "ce");
}

/// Switches of functions that some layers alone have.
void read_fusions(Keys& keys, bool local) {
  const auto on = [&](const char* key) { return keys.is_on(key); };
  const bool gated = on("swiglu"), bare = on("disable-bias-linear"), squared = on("squared-relu");
  const auto refuse = [&](const char* key, bool acts) {
    if (on(key) && acts)
      static_cast<void>(keys.unplanned(key, "layers without fused functions are not planned"));
  };
  refuse("no-bias-swiglu-fusion", gated);
  refuse("no-bias-gelu-fusion", !gated && !bare && !squared);
  refuse("no-masked-softmax-fusion", local);
  refuse("no-persist-layer-norm", local);
  refuse("attention-softmax-in-fp32", local);
}

void read_runtime(Keys& keys) {
  const auto on = [&](const char* key) { return keys.is_on(key); };
  if (on("no-gradient-accumulation-fusion"))
    keys.option("no-gradient-accumulation-fusion", "--no-gradient-accumulation-fusion");
  constexpr const char *workspace = "CUBLAS_WORKSPACE_CONFIG", *same = "deterministic-mode";
  if (keys.in_file(workspace))
    keys.option(workspace, "--cublas-workspace", keys.text(workspace).value_or(""));
  if (on(same)) {
    keys.option(same, "--deterministic");
    if (!keys.in_file(workspace)) keys.option(same, "--cublas-workspace", ":4096:8");
  }
  constexpr const char* allocator = "PYTORCH_CUDA_ALLOC_CONF";
  if (keys.in_file(allocator)) {
    const std::string settings = keys.text(allocator).value_or("");
    if (settings == "expandable_segments:True" || settings == "expandable_segments:False")
      keys.option(allocator, "--alloc-conf", settings);
    else
      keys.assume(std::string(allocator) + ": PyTorch's own settings are planned");
  }
  if (on("calculate-per-token-loss"))
    keys.assume("calculate-per-token-loss: gradients are scaled once more, which is not planned");
  if (on("log-params-norm")) keys.assume("log-params-norm: its kernels are not planned");
  if (on("no-create-attention-mask-in-dataloader"))
    keys.assume(
        "no-create-attention-mask-in-dataloader: the batch's mask, a byte for each pair of a "
        "sequence's tokens, is planned, which is not made then");
  if (keys.in_file("empty-unused-memory-level") &&
      keys.number("empty-unused-memory-level").value_or(0) > 0)
    keys.assume(
        "empty-unused-memory-level: reserved memory is planned without it, which is more between "
        "steps");
}

void read(Keys& keys) {
  read_program(keys);
  const Layout layout = megatron_keys::read_layout(keys);
  const std::int64_t layers = megatron_keys::read_model(keys, layout);
  megatron_keys::read_stages(keys, layout, layers);
  read_length(keys);
  read_batches(keys, layout);
  read_precision(keys);
  constexpr const char* impl = "transformer-impl";
  const std::string whose = keys.text(impl).value_or("transformer_engine");
  if (whose != "transformer_engine" && whose != "local")
    keys.refuse(impl, "transformer_engine and local are planned");
  keys.option(impl, "--transformer-impl", whose);
  const bool local = whose == "local";
  read_float8(keys);
  read_optimizer(keys);
  read_checkpoints(keys);
  read_attention(keys, local);
  read_loss(keys);
  read_fusions(keys, local);
  read_runtime(keys);
}

}  // namespace

const Tool megatron{"megatron", detects, read};

}  // namespace ac_advisor::intake
