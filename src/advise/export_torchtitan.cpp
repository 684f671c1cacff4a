// TorchTitan's TOML. Keys: pytorch/torchtitan v0.2.2, torchtitan/config/job_config.py; the last
// release that reads TOML (main has Python registries). Behaviour:
// distributed/activation_checkpoint.py and models/llama3/infra/parallelize.py of the same version.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ac_advisor/model/layers.hpp"
#include "export_target.hpp"
#include "flavors.hpp"
#include "torch_dtype.hpp"

namespace ac_advisor::advise::exports {
namespace {

std::string_view converters(const Setting& s) {
  return s.c.precision.float8() ? "converters = [\"quantize.linear.float8\"]\n" : "";
}

/// TransformerModelArgs(…), for torchtitan/models/llama3/__init__.py: its MLP's width is rounded up
/// to a multiple of multiple_of, which one of the width itself makes exact.
std::string llama_arguments(const model::ModelSpec& m) {
  const double share =
      static_cast<double>(m.intermediate) / (8.0 * static_cast<double>(m.hidden) / 3.0);
  return fmt::format(
      "TransformerModelArgs(dim={}, n_layers={}, n_heads={}, n_kv_heads={}, vocab_size={}, "
      "multiple_of={}, ffn_dim_multiplier={}, norm_eps={}, rope_theta={}, "
      "rope_scaling_args=RoPEScalingArgs(scaling_factor={}))",
      m.hidden, m.layers, m.heads, m.kv_heads, m.vocab, m.intermediate,
      std::max(0.01, std::floor(100.0 * share) / 100.0), m.rms_norm_eps, m.rope_theta,
      llama3_rope_factor(m));
}

/// Qwen3ModelArgs(…), for torchtitan/models/qwen3/__init__.py.
std::string qwen3_arguments(const model::ModelSpec& m) {
  std::string text = fmt::format(
      "Qwen3ModelArgs(vocab_size={}, head_dim={}, dim={}, n_layers={}, n_heads={}, n_kv_heads={}, "
      "hidden_dim={}, norm_eps={}, rope_theta={}, enable_weight_tying={}",
      m.vocab, m.head_dim, m.hidden, m.layers, m.heads, m.kv_heads, m.intermediate, m.rms_norm_eps,
      m.rope_theta, m.tied_embeddings ? "True" : "False");
  if (m.moe)
    text += fmt::format(
        ", moe_enabled=True, moe_inter_dim={}, moe_args=MoEArgs(num_experts={}, "
        "num_shared_experts=0, top_k={}, score_func=\"softmax\", route_norm={}, "
        "score_before_experts=False)",
        m.moe->intermediate, m.moe->experts, m.moe->top_k,
        m.moe->normalize_top_k ? "True" : "False");
  return text + ")";
}

/// Whether the arguments of its own classes can say the model.
bool can_be_written(const model::ModelSpec& m) {
  if (m.qkv_bias || m.output_bias || m.mlp_bias || llama3_rope_factor(m) == 0) return false;
  if (m.family == "llama")
    return !m.tied_embeddings && m.heads * m.head_dim == m.hidden && !m.qk_norm;
  const bool dense_block =
      std::find(m.sparse_block.begin(), m.sparse_block.end(), false) != m.sparse_block.end();
  return llama3_rope_factor(m) == 1 && !dense_block;
}

std::string model_section(const Setting& s, ExportResult& out) {
  const model::ModelSpec& m = s.model;
  const bool llama = m.family == "llama";
  if (!llama && m.family != "qwen3" && m.family != "qwen3_moe")
    s.refuse("model family " + m.family,
             "it has llama3 and qwen3 of these families; export to automodel or hf");
  s.refuse_windows();
  const char* name = llama ? "llama3" : "qwen3";
  const Flavor* flavor = find_flavor(s.target.name, m);
  if (flavor == nullptr && !can_be_written(m))
    s.refuse("model " + s.quoted_name(),
             fmt::format("{}; its {} cannot have these: export to automodel or hf",
                         nearest_flavor(s.target.name, m), name));
  if (flavor == nullptr)
    out.notes.push_back(fmt::format(
        "{}: register the model's own sizes in torchtitan/models/{}/__init__.py: {}_args[{}] = {}",
        nearest_flavor(s.target.name, m), name, name, s.quoted_name(),
        llama ? llama_arguments(m) : qwen3_arguments(m)));
  return fmt::format("[model]\nname = \"{}\"\nflavor = {}\n{}", name,
                     flavor != nullptr ? "\"" + flavor->name + "\"" : s.quoted_name(),
                     converters(s));
}

std::string checkpointing(const Setting& s, ExportResult& out) {
  if (s.c.memory.scope == AcScope::submodule && s.c.memory.ac != AcMode::none)
    s.refuse("--ac-scope submodule", "it wraps whole blocks; use --ac-scope block");
  std::string text = "[activation_checkpoint]\n";
  switch (s.c.memory.ac) {
    case AcMode::none:
      return text + "mode = \"none\"\n";
    case AcMode::full:
      text += "mode = \"full\"\n";
      break;
    case AcMode::selective:
      text += "mode = \"selective\"\nselective_ac_option = \"op\"\n";
      break;
    case AcMode::every:
      text +=
          fmt::format("mode = \"selective\"\nselective_ac_option = \"{}\"\n", s.c.memory.ac_arg);
      if (s.c.memory.ac_arg > 1 && !model::layer_forms(s.model, s.c).counts_from_one)
        out.notes.push_back(fmt::format(
            "it checkpoints blocks {0}, {1}, …, the plan blocks 0, {2}, …: {3} blocks, not {4}",
            s.c.memory.ac_arg - 1, 2 * s.c.memory.ac_arg - 1, s.c.memory.ac_arg,
            s.model.layers / s.c.memory.ac_arg,
            (s.model.layers + s.c.memory.ac_arg - 1) / s.c.memory.ac_arg));
      break;
    default:
      s.refuse(
          s.ac(),
          "it checkpoints each block by itself, or by op; use --ac full, selective or every:K");
  }
  // Its default recomputes to the region's end, as its own layers are planned; around others the
  // plan stops at the last value needed.
  return text + fmt::format("early_stop = {}\n", model::layer_forms(s.model, s.c).early_stop);
}

/// module_fqns_per_model_part, by the names of its llama's modules.
std::string stage_modules(const Setting& s) {
  std::string text;
  std::int64_t block = 0;
  for (std::size_t stage = 0; stage < s.c.layout.pp_layers.size(); ++stage) {
    std::string names = stage == 0 ? "\"tok_embeddings\"" : "";
    for (const std::int64_t end = block + s.c.layout.pp_layers[stage]; block < end; ++block)
      names += fmt::format("{}\"layers.{}\"", names.empty() ? "" : ", ", block);
    if (stage + 1 == s.c.layout.pp_layers.size()) names += R"(, "norm", "output")";
    text += fmt::format("{}[{}]", text.empty() ? "" : ", ", names);
  }
  return "module_fqns_per_model_part = [" + text + "]\n";
}

/// TorchTitan 0.2.2 cuts local_batch_size into micro-batches of a pipeline.
std::string pipeline(const Setting& s) {
  if (s.c.layout.pp == 1) return "pipeline_parallel_degree = 1\n";
  constexpr const char* names[] = {
      "1F1B", "GPipe", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"};
  std::string text = fmt::format(
      "pipeline_parallel_degree = {}\npipeline_parallel_schedule = \"{}\"\n"
      "pipeline_parallel_microbatch_size = {}\n",
      s.c.layout.pp, names[static_cast<std::size_t>(s.c.layout.pp_schedule)], s.c.run.batch);
  const bool split = s.c.layout.pp_schedule == PipelineSchedule::zero_bubble;
  if (s.c.layout.pp_chunks > 2 || (split && s.c.layout.pp_chunks == 1))
    s.refuse(
        "--pp-schedule " + pp_schedule_option(s.c),
        fmt::format("it has two stages per rank unless pipeline_parallel_layers_per_stage says "
                    "otherwise; use {}:2",
                    split ? "zb1" : "interleaved"));
  if (!s.c.layout.pp_layers.empty()) text += stage_modules(s);
  return text;
}

std::string parallelism(const Setting& s, ExportResult& out) {
  std::int64_t replicate = 1, shards = 1;
  switch (s.c.layout.shard) {
    case Sharding::none:
      break;
    case Sharding::ddp:
      replicate = s.c.layout.data_ranks();
      break;
    case Sharding::fsdp2:
      shards = s.c.layout.data_ranks();
      break;
    case Sharding::hsdp:
      // It multiplies by context_parallel_degree itself (parallel_dims.py, the mesh "fsdp").
      replicate = s.replicas(), shards = s.c.layout.hsdp_shards / s.c.layout.cp;
      break;
    default:
      s.refuse(s.shard(), "it has ddp, fsdp2 and hsdp:N; use one of these");
  }
  if (s.c.layout.reshard_to > 0)
    s.refuse("--reshard-after-forward " + std::to_string(s.c.layout.reshard_to),
             "fsdp_reshard_after_forward is default, always or never; use true or false");
  if (s.c.layout.keep_last_block)
    out.notes.emplace_back(
        "it reshards every block and keeps only the final norm and the output "
        "layer gathered: its peak may be one block lower than the plan's");
  return fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "fsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = {}\n{}"
      "{}context_parallel_degree = {}\n{}",
      replicate, shards, s.c.layout.reshard_after_forward ? "default" : "never", s.c.layout.tp,
      s.c.layout.loss_parallel ? "" : "disable_loss_parallel = true\n", pipeline(s), s.c.layout.cp,
      s.c.layout.ep > 1 ? fmt::format("expert_parallel_degree = {}\n", s.c.layout.ep) : "");
}

std::string training(const Setting& s) {
  if (s.gathers() && s.c.precision.reduce_dtype == DType::bf16)
    s.refuse("--reduce-dtype bf16",
             "mixed_precision_reduce takes float32 only; use --reduce-dtype fp32");
  return fmt::format(
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n"
      "dtype = \"{}\"\nmixed_precision_param = \"{}\"\nmixed_precision_reduce = \"float32\"\n"
      "max_norm = {}\n{}",
      s.c.run.batch * (s.c.layout.pp > 1 ? s.c.run.grad_accum : 1), s.global_batch(), s.c.run.seq,
      torch_dtype(s.c.precision.param_dtype), torch_dtype(s.c.precision.compute_dtype),
      // It always clips: 1.0 by default (job_config.py, Training.max_norm).
      decimal(s.c.optimizer.clip_grad > 0 ? s.c.optimizer.clip_grad : 1.0),
      s.c.memory.offload == Offload::parameters ? "enable_cpu_offload = true\n" : "");
}

std::string compilation(const Setting& s) {
  const bool blocks = s.c.memory.kernels == Kernels::compiled,
             loss = s.c.memory.loss == LossKind::ce_compiled;
  if (!blocks && !loss) return "enable = false";
  return fmt::format("enable = true\ncomponents = [{}{}{}]", blocks ? "\"model\"" : "",
                     blocks && loss ? ", " : "", loss ? "\"loss\"" : "");
}

/// Recipes have no all-gather of their own there: tensorwise is what is taken without one.
std::string quantization(const Setting& s) {
  const Precision& p = s.c.precision;
  if (!p.float8()) return {};
  return fmt::format("\n[quantize.linear.float8]\nfilter_fqns = [\"output\"]\n{}{}",
                     p.fp8 == Fp8Recipe::rowwise ? "recipe_name = \"rowwise\"\n" : "",
                     p.fp8_all_gather ? "enable_fsdp_float8_all_gather = true\n"
                                        "precompute_float8_dynamic_scale_for_fsdp = true\n"
                                      : "");
}

void check(const Setting& s) {
  // torchtitan v0.2.2, components/quantization/mx.py
  if (s.c.precision.fp8 == Fp8Recipe::mx)
    s.refuse("--fp8 mx",
             "its converter asks torchao for MXLinearConfig, which 0.18 has no more; export to hf, "
             "or use --fp8 tensorwise or rowwise");
  if (s.c.memory.loss != LossKind::ce && s.c.memory.loss != LossKind::ce_compiled)
    s.refuse(s.loss(), "its loss reads whole logits; use --loss ce");
  if (s.c.memory.kernels == Kernels::fused)
    s.refuse("--kernels fused",
             "it fuses with torch.compile only; use --kernels compiled or eager");
  if (s.c.optimizer.kind != Optimizer::adamw && s.c.optimizer.kind != Optimizer::adamw_foreach)
    s.refuse(std::string("--optimizer ") + to_option(s.c.optimizer.kind),
             "it has Adam and AdamW; use --optimizer adamw");
  if (s.c.run.dropout > 0) s.refuse("--dropout", "its models have none; drop the option");
  s.refuse_adapters("its trainer has none; export to hf, or drop the adapters");
  if (s.c.layout.pp > 1 && s.model.family != "llama")
    s.refuse("--pp " + std::to_string(s.c.layout.pp) + " for " + s.model.family,
             "its train spec of qwen3 has no pipelining_fn; use --pp 1");
  if (s.c.run.attention != Attention::automatic && s.c.run.attention != Attention::cudnn)
    s.refuse(std::string("--attn ") + to_option(s.c.run.attention),
             "it takes cuDNN's attention, then flash, then math, whichever runs first; use --attn "
             "auto or cudnn");
  if (s.c.layout.cp > 1 && s.c.layout.cp_method == CpMethod::all_to_all)
    s.refuse("--cp-method alltoall",
             "its trainer leaves context_parallel_rotate_method unread; use --cp-method allgather");
  if (s.c.layout.no_sync)
    s.refuse("--no-sync", "it reduces gradients every micro-batch; drop --no-sync");
}

void write(const Setting& s, ExportResult& out) {
  const std::string model = model_section(s, out);  // a model that it lacks is the first reason
  check(s);
  out.text = fmt::format(
      "# {}\n{}\n[optimizer]\nname = \"AdamW\"\nimplementation = \"{}\"\n\n{}\n{}\n{}\n"
      "[compile]\n{}\n{}",
      s.target.version, model, s.c.optimizer.kind == Optimizer::adamw ? "fused" : "foreach",
      training(s), parallelism(s, out), checkpointing(s, out), compilation(s), quantization(s));
  out.notes.push_back(
      fmt::format("run with NGPU={} CONFIG_FILE=FILE ./run_train.sh", s.c.layout.world));
}

constexpr std::string_view says[] = {"batch",
                                     "seq",
                                     "grad_accum",
                                     "world",
                                     "tp",
                                     "loss_parallel",
                                     "cp",
                                     "cp_method",
                                     "ep",
                                     "pp",
                                     "pp_schedule",
                                     "pp_layers",
                                     "shard",
                                     "ac",
                                     "ac_scope",
                                     "loss",
                                     "kernels",
                                     "compile_unit",
                                     "offload",
                                     "optimizer",
                                     "clip_grad",
                                     "param_dtype",
                                     "compute_dtype",
                                     "fp8",
                                     "no_sync",
                                     "keep_last_block",
                                     "reshard_after_forward",
                                     "fp8_all_gather",
                                     "dropout",
                                     "master_weights",
                                     "optimizer_in_backward",
                                     "grad_scaler"};

}  // namespace

const Target torchtitan{"torchtitan", "TorchTitan 0.2.2", write, says};

}  // namespace ac_advisor::advise::exports
