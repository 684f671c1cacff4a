#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/graph/scale.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/ir/torch_facts.hpp"
#include "ac_advisor/model/image_size.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/sized.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "ac_advisor/version.hpp"
#include "critic.hpp"
#include "model/hub_models.hpp"
#include "passes/adapters/targets.hpp"
#include "passes/lowering/batch_positions.hpp"
#include "passes/sharding/fsdp2_buffers.hpp"
#include "plan_rank.hpp"
#include "rollout_engine.hpp"
#include "simulate/memory_device.hpp"
#include "task_phases.hpp"
#include "torch_dtype.hpp"
#include "without_effect.hpp"

namespace ac_advisor::advise {
namespace {

void explain_time(profile::Profile& result, const simulate::Device& device,
                  const simulate::StepTime& time) {
  const StepConfig& c = result.config;
  if (device.cuda && time.launch_bound > 0.25 * time.step)
    result.assumptions.push_back(fmt::format(
        "launch-bound: the device waits for the host {:.0f} % of the step; larger micro-batches or "
        "fused kernels leave it less to wait for",
        100.0 * time.launch_bound / time.step));
  const std::int64_t node = device.ranks_of_node(c.layout.node_size);
  const double network =
      c.layout.network_gbps > 0 ? c.layout.network_gbps : device.network_bandwidth * 8.0 / 1e9;
  if (c.layout.world > node && network > 0)
    result.assumptions.push_back(fmt::format(
        "{} nodes of {} GPUs, {:.4g} Gbit/s per GPU between them (--node-size, --network)",
        (c.layout.world + node - 1) / node, node, network));
  if (c.run.attention == Attention::flash1 && !device.has_flash1)
    result.warnings.push_back(
        fmt::format("--attn flash1: {} has no figures of it; it is timed as flash", device.name));
  if (c.layout.world > node && network <= 0)
    result.warnings.push_back(fmt::format(
        "--world {}: more ranks than the {} of a node, and {} names no network: collectives are "
        "timed as inside a node; give --network",
        c.layout.world, node, device.name));
  if (!device.measured) {
    result.assumptions.push_back(
        "times are estimates: a roofline with the device file's efficiencies");
    return;
  }
  const simulate::Measurements& m = *device.measured;
  std::string note = fmt::format(
      "times are calibrated: predicted from ops measured on {} by ac-trainer {} on {}; PyTorch's "
      "own overhead on the host is not in them",
      m.device, m.version, m.date);
  if (time.unmeasured > 0)
    note += fmt::format("; {:.1f} % of the step are of ops that were not measured: estimates",
                        100.0 * time.unmeasured / time.step);
  result.assumptions.push_back(std::move(note));
  if (!device.cuda && m.threads != c.device.threads)
    result.warnings.push_back(
        fmt::format("--threads {}: {} was calibrated with {}; times are those of {} threads",
                    c.device.threads, c.device.gpu, m.threads, m.threads));
}

/// What --attn auto stands for, and what windows do to it.
void explain_attention(profile::Profile& result) {
  const StepConfig& c = result.config;
  const simulate::Device& device = simulate::find_device(c.device.gpu);
  if (!device.cuda || c.runtime.kind != Runtime::pytorch || result.model.eager_attention_only ||
      c.run.attention == Attention::eager)
    return;
  const bool cudnn = ir::runs_cudnn_attention(
      {.kind = ir::OpKind::sdpa, .attributes = ir::Sdpa{}},
      {.cuda = true, .sm_count = device.sm_count, .compute_capability = device.compute_capability});
  if (c.precision.compute_dtype == DType::f32 && !c.megatron() &&
      c.run.attention != Attention::math)
    result.assumptions.push_back(
        result.model.kv_heads == result.model.heads ||
                ir::facts_of(c.runtime.torch).fused_attention_shares_keys
            ? "in fp32 neither flash nor cuDNN's attention runs: PyTorch takes its "
              "memory-efficient "
              "kernel"
            : "in fp32 neither flash nor cuDNN's attention runs, and its memory-efficient kernel "
              "takes no keys that queries share: PyTorch computes attention by plain products, "
              "whose scores of every head are saved");
  if (c.run.attention == Attention::automatic && cudnn && c.precision.compute_dtype != DType::f32)
    result.assumptions.push_back(
        std::string("--attn auto is cuDNN's attention: PyTorch ") +
        ir::facts_of(c.runtime.torch).release +
        (ir::facts_of(c.runtime.torch).prefers_cudnn_with_dropout
             ? " prefers it on this device; "
             : " prefers it on this device, but with dropout and of heads of 192; ") +
        "TORCH_CUDNN_SDPA_DEPRIORITIZED=1 is --attn flash");
  if (c.runtime.torch != TorchVersion::v2_11)
    result.assumptions.push_back(
        std::string("PyTorch ") + ir::facts_of(c.runtime.torch).release +
        " of its wheel for CUDA 13: each matrix product has a cuBLAS workspace of its own while it "
        "runs, unless TORCH_CUBLAS_WORKSPACE_CACHE=1 keeps them as --torch 2.11 does; what else "
        "differs is in docs/pytorch_versions.md");
  const bool drops_windows = model::rings_by_automodel(c);
  if (drops_windows && result.model.window_within(c.attended_tokens()))
    result.assumptions.push_back(
        "NeMo AutoModel's ring drops sliding windows: each token attends to all before it");
  if (c.runtime.framework == "automodel" && result.model.moe &&
      (c.layout.tp > 1 || c.layout.cp > 1 || c.adapters.rank > 0))
    result.assumptions.push_back(
        "the mixture's layers are transformers' (force_hf: true); those that NeMo AutoModel has of "
        "its own take no tp_size, rings of Transformer Engine, and adapters of experts");
  if (passes::infers_documents(c) && c.verl())
    result.assumptions.push_back(
        "verl's rows are one after another, without padding: each block finds where they begin in "
        "their positions, 16 launches and a wait for the device");
  else if (passes::infers_documents(c))
    result.assumptions.push_back(
        "--framework automodel --packing is packed_sequence_size tokens a row, one row a batch, "
        "with the default packing_strategy and collate_fn: each block finds its documents in the "
        "positions, 16 launches and a wait for the device");
  else if (c.run.packing > 0 && c.run.attention == Attention::flash)
    result.assumptions.push_back(
        "--packing --attn flash is flash_attn_varlen_func, given cu_seq_lens with the batch (TRL's "
        "collator, DataCollatorWithFlattening(return_flash_attn_kwargs=True)); without them each "
        "block infers them from positions: the same memory, 16 launches and a wait for the device "
        "more");
  if (c.run.packing > 1 && c.run.attention != Attention::flash && !cudnn)
    result.assumptions.push_back(
        "--packing without --attn flash has a mask of documents, which flash attention does not "
        "take: PyTorch runs its memory-efficient kernel");
  if (result.model.window_within(c.run.seq) && !drops_windows &&
      (c.run.attention == Attention::flash || !cudnn))
    result.assumptions.push_back(
        "a sliding window within --seq has a mask, which flash attention does not take: the "
        "memory-efficient kernel runs");
}

/// Parts of modules:PARTS that Megatron-core finds in no layer, and passes over.
std::string idle_parts(const model::ModelSpec& m, const StepConfig& c) {
  const auto dense = std::count(m.sparse_block.begin(), m.sparse_block.end(), false);
  const bool engine = c.run.transformer_impl == TransformerImpl::transformer_engine;
  const std::pair<LayerPart, bool> idle[] = {
      {LayerPart::layernorm, engine && !m.latent && !m.moe},
      {LayerPart::mlp, m.moe && dense == 0},
      {LayerPart::moe, !m.moe},
      {LayerPart::shared_experts, !m.moe || m.moe->shared_intermediate == 0}};
  StepConfig of = c;
  of.memory.ac_arg = 0;
  for (const auto& [part, nothing] : idle)
    if (nothing && c.memory.recomputes(part))
      of.memory.ac_arg |= std::int64_t{1} << static_cast<int>(part);
  return layer_parts_text(of, ", ");
}

/// What of Megatron-core's step is followed, and what was not compared with a run of it.
void explain_megatron(profile::Profile& result) {
  const StepConfig& c = result.config;
  auto& notes = result.assumptions;
  notes.push_back(fmt::format(
      "the step is Megatron-core 0.16's: a vocabulary padded to {}, fp32 main gradients that stay, "
      "to which {}, a mask made with each batch; its launches and times were not compared with a "
      "run of it",
      passes::megatron_vocabulary(result.model.vocab, c.layout.tp),
      c.memory.fused_gradients
          ? "weights' products add theirs (--no-gradient-accumulation-fusion: in bf16 first)"
          : "each weight's are added (--no-gradient-accumulation-fusion)"));
  if (result.model.latent && result.model.family != "megatron")
    notes.emplace_back(
        "of what Megatron-Bridge makes of the model its layer of multi-token prediction "
        "(mtp_num_layers) is not planned, the shared experts run on the step's own stream "
        "(moe_shared_expert_overlap), and the vocabulary is padded as Megatron-LM does it, not to "
        "1280 a rank");
  constexpr std::int64_t heads_at_once = 4;
  const bool makes_scores =
      c.run.attention == Attention::eager || c.run.transformer_impl == TransformerImpl::local;
  if (makes_scores && c.run.batch * (result.model.heads / c.layout.tp) % heads_at_once != 0)
    notes.emplace_back(
        "--batch times a rank's heads is no multiple of 4: the fused softmax does not take such "
        "scores (FusedScaleMaskSoftmax.is_kernel_available), and PyTorch's in fp32, which holds "
        "more, is not planned");
  if (const std::string idle = idle_parts(result.model, c); !idle.empty())
    notes.push_back(
        "--ac modules: Megatron-core finds nothing to recompute as " + idle +
        " in these layers (a norm that is one function with the layer after it is none)");
  if (c.layout.cp > 1)
    notes.emplace_back(
        "with --cp the step is that of the ring's last rank, which attends with all of its queries "
        "each time keys and values arrive; the others do so with half of them at times");
  if (c.run.transformer_impl == TransformerImpl::transformer_engine &&
      c.run.attention == Attention::automatic && !result.model.latent)
    notes.push_back(
        "--attn auto is cuDNN's attention, which Transformer Engine prefers from Hopper on; where "
        "FlashAttention is installed it prefers that on GPUs before: --attn flash");
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// What an engine's share leaves for keys and values, of how many completions.
std::string engine_note(const profile::Profile& result) {
  const StepConfig& c = result.config;
  const model::ModelSpec& m = result.model;
  const RolloutEngine engine = rollout_engine(c, simulate::find_device(c.device.gpu));
  const std::int64_t weights = engine_weights(m, c), left = engine.awake - weights;
  std::string text = fmt::format("vLLM takes {} of the device, {:.3f} GiB", c.task.engine_share,
                                 gib(engine.awake));
  if (c.task.engine_sleep == 0)
    text += ", for as long as the trainer runs";
  else
    text += fmt::format(
        "; asleep (level {}) it keeps {:.3f} GiB, measured by others of one model and version "
        "(data/engines/vllm.json)",
        c.task.engine_sleep, gib(engine.asleep));
  if (left <= 0)
    return text + fmt::format(
                      "; its weights alone are {:.3f} GiB on each rank: give a larger "
                      "share, or more ranks (vllm:tpN,util=SHARE)",
                      gib(weights));
  if (m.graph || m.latent || m.kv_heads == 0) return text;
  const std::int64_t heads = std::max<std::int64_t>(1, m.kv_heads / c.task.engine_ranks),
                     row = 2 * m.layers * heads * m.head_dim * size_of(DType::bf16) * c.run.seq;
  return text + fmt::format(
                    "; its weights are {:.3f} GiB on each rank, and beside them are keys and "
                    "values of at most {} rows of {} tokens at once",
                    gib(weights), left / row, c.run.seq);
}

/// What a teacher holds, and in which dtype TRL runs both models.
void explain_teacher(const profile::Profile& result, std::vector<std::string>& notes) {
  const StepConfig& c = result.config;
  const profile::Memory& m = result.memory;
  notes.push_back(fmt::format(
      "the teacher, {}, has {:.3f} GiB of parameters; its forward runs without gradients in the "
      "phase loss, while what the student saved is alive, and allocates {:.3f} GiB at most",
      c.task.teacher.name,
      gib(m.at_peak[static_cast<std::size_t>(profile::Category::reference_parameters)]),
      gib(m.reference_forward_peak)));
  notes.emplace_back(
      "beta is 1, DistillationTrainer's default (reverse KL): below 1 kernels are launched more "
      "often and nothing more is held but two numbers a token");
  if (c.layout.whole())
    notes.push_back(fmt::format(
        "bf16=True has no effect on what DistillationTrainer computes here: its loss runs beside "
        "the forward that torch.autocast is around (TRL 1.16, _ForwardRedirection), so both models "
        "compute in the dtype that they were loaded in, {}{}",
        to_option(c.precision.param_dtype),
        c.precision.param_dtype == DType::f32 ? "; --param-dtype bf16 loads them in bf16" : ""));
}

/// Whose critic, and of how many rows its micro-batches are, whatever its configuration says.
void explain_critic(const profile::Profile& result, std::vector<std::string>& notes) {
  const StepConfig& c = result.config;
  const StepConfig critic = actors_critic(c);
  notes.push_back(fmt::format(
      "the critic, {}, is trained in the same process, {} in the phases of the actor; its "
      "micro-batches are of {} rows: verl 0.9.1 reads no critic.ppo_micro_batch_size_per_gpu and "
      "no critic.use_dynamic_bsz, but makes them of {}",
      c.task.critic.name.empty() ? "of the actor's model" : c.task.critic.name,
      c.task.critic_parked == Parked::all         ? "and waits on the host"
      : c.task.critic_parked == Parked::optimizer ? "its optimizer's states on the host"
                                                  : "its parameters and states on the device",
      critic.run.batch,
      c.task.critic_batch > 0 ? fmt::format("ppo_infer_max_token_len_per_gpu, {} rows' tokens here",
                                            c.task.critic_batch)
                              : "ppo_infer_max_token_len_per_gpu, 32768 tokens"));
  if (const std::int64_t words = model::critics_model(result.model, c).vocab;
      words < result.model.vocab)
    notes.push_back(fmt::format(
        "the critic's embedding has {} rows and the actor's {}: it is given the actor's tokens as "
        "they are, so they have to be of one tokenizer",
        words, result.model.vocab));
}

/// What is planned of the cycle of completions, and what of it is not.
void explain_online(const profile::Profile& result, std::vector<std::string>& notes) {
  const StepConfig& c = result.config;
  notes.push_back(fmt::format(
      "task {}, as {} runs its step: {} rows a micro-batch, planned full, a prompt of {} tokens "
      "and a completion of {} each; the longest of a step's completions decides",
      to_option(c.task.kind), c.verl() ? "verl 0.9.1's FSDP worker" : "TRL 1.16's trainer",
      c.rows(), c.task.prompt, c.run.seq - c.task.prompt));
  if (c.verl())
    notes.emplace_back(
        "expandable segments are on while it trains, as verl sets them; a reward model is not "
        "planned");
  if (c.task.has_critic()) explain_critic(result, notes);
  if (c.task.distills()) explain_teacher(result, notes);
  if (c.task.reference == Reference::model)
    notes.push_back(
        c.verl()
            ? "use_kl_loss: the reference is a worker of forwards alone, whose parameters are the "
              "host's"
            : fmt::format("beta above 0: a second model scores completions before the step, "
                          "{:.3f} GiB of parameters",
                          gib(result.memory.at_peak[static_cast<std::size_t>(
                              profile::Category::reference_parameters)])));
  notes.emplace_back(
      "time is that of the update alone: what completions take to write and to score is not in it");
  switch (c.task.rollout) {
    case Rollout::generate:
      notes.push_back(fmt::format(
          "transformers' generate holds {:.3f} GiB at most, an estimate: what is alive between "
          "steps, and of all {} rows of a step the prompt's widest block, or keys and values",
          gib(result.fit.generation), c.run.batch * c.run.grad_accum));
      break;
    case Rollout::vllm:
      notes.push_back(engine_note(result));
      break;
    case Rollout::served:
      notes.emplace_back("completions come from elsewhere: nothing of their engine is planned");
      break;
  }
}

/// What a task's batch is, and what its reference costs.
void explain_task(const profile::Profile& result, std::vector<std::string>& notes) {
  const StepConfig& c = result.config;
  if (c.task.supervised()) return;
  if (c.task.online()) return explain_online(result, notes);
  const bool kto = c.task.kind == Task::kto;
  const bool swift = c.runtime.framework == "ms-swift";
  const bool whole = c.task.against_reference() && c.memory.loss == LossKind::ce && !swift;
  notes.push_back(
      fmt::format("task {}, as {} runs it: {} rows, {}, planned full, {} tokens each; shorter "
                  "answers hold less",
                  to_option(c.task.kind),
                  c.llamafactory() ? "LLaMA-Factory 0.9.5's stage"
                  : swift          ? "ms-swift 4.6's trainer"
                  : whole          ? "TRL 1.14's trainer"
                                   : "TRL 1.16's trainer",
                  c.rows(), kto ? "good and bad answers" : "chosen answers first", c.run.seq));
  if (swift)
    notes.emplace_back(
        "logits of what is scored are whole, in fp32; the reference's, while the policy's are "
        "alive");
  if (!c.llamafactory() && !swift && c.task.against_reference())
    notes.emplace_back(whole ? "logits are whole, the model's and its reference's, as TRL had them "
                               "until 1.14; from 1.15 on they are tiles: leave --loss out"
                             : "logits are made in tiles, as TRL has them from 1.15 on; until 1.14 "
                               "they were whole: --loss ce");
  if (c.llamafactory())
    notes.emplace_back(
        "logits are whole, in fp32, and so are a copy of them and its log-softmax; the "
        "reference's, while the policy's are alive");
  if (kto)
    notes.push_back(fmt::format(
        "the model scores as many rows of prompts with others' answers {} its own forward, without "
        "gradients, and so does its reference",
        c.llamafactory() ? "after" : "before"));
  const profile::Memory& m = result.memory;
  const auto own = m.at_peak[static_cast<std::size_t>(profile::Category::reference_parameters)];
  const std::string forward = fmt::format(
      "; its forward runs without gradients in the phase loss, while what the model saved is "
      "alive, and allocates {:.3f} GiB at most, {}",
      gib(m.reference_forward_peak),
      m.reference_forward_peak < m.peak_allocated
          ? fmt::format("{:.3f} GiB below the step's peak",
                        gib(m.peak_allocated - m.reference_forward_peak))
          : std::string("the step's peak"));
  switch (c.task.reference) {
    case Reference::none:
      break;
    case Reference::model:
      notes.push_back(
          fmt::format("the reference is a second model, {:.3f} GiB of parameters", gib(own)) +
          forward);
      break;
    case Reference::adapter:
      notes.push_back("the reference is the model with its adapters off" + forward);
      if (c.layout.zero3())
        notes.emplace_back(
            "its forward breaks the trace that ZeRO 3 gathers ahead by, and the hooks that free "
            "what backward has used: nothing is gathered ahead, and more stays whole until "
            "backward ends; --ref precomputed has neither");
      break;
    case Reference::precomputed:
      notes.emplace_back(
          "the reference's log-probabilities come with the batch; the pass over the data set that "
          "computes them before training, and its time, are not in the plan");
      if (c.layout.zero3())
        notes.emplace_back(
            "the engine that computed them leaves its hooks on the modules, which free parameters "
            "sooner than is planned: steps of PyTorch were 3 to 9 % below their plans");
      break;
  }
}

/// How large images are and what of them is trained.
std::string note_of_images(const model::ModelSpec& m, const StepConfig& c) {
  const model::TowerRun& run = *m.tower->run;
  const model::ImageGrid grid = model::image_grid(run, c.run);
  std::string note = fmt::format(
      "{} images per sequence, each of {} x {} pixels, {} patches and {} tokens, take {} of its {} "
      "tokens; their pixels are held in fp32",
      c.run.images, grid.rows * run.patch, grid.columns * run.patch, grid.patches(),
      model::image_tokens(run, c.run), model::image_tokens_of_sequence(run, c.run), c.run.seq);
  const std::string trained = c.adapters.used() && c.run.frozen.any()
                                  ? ", without adapters: " + freeze_text(c)
                              : c.adapters.used()  ? ", frozen but for its adapters"
                              : c.run.frozen.any() ? ", frozen: " + freeze_text(c)
                                                   : ", trained with its projector";
  note += fmt::format("; the encoder is {}{}", m.tower->encoder, trained);
  if (!run.any_size() && !c.run.frozen.tower)
    note += ", but for the layers whose output is not read";
  note += c.memory.tower_ac
              ? "; its layers are checkpointed"
              : "; --ac is of the decoder's blocks alone (transformers' own switch takes the "
                "encoder's, too: --tower-ac)";
  return note + (run.any_size() ? "; parts that cuDNN sums in the patches' gradient are not planned"
                                : "; the scratch of the convolution of patches is not planned");
}

void explain_assumptions(profile::Profile& result, bool detail) {
  const StepConfig& c = result.config;
  auto& notes = result.assumptions;
  explain_task(result, notes);
  if (c.layout.gathers() && c.layout.fsdp_unit == FsdpUnit::accelerate && !c.adapters.used() &&
      c.precision.param_dtype == DType::f32)
    notes.emplace_back(
        "accelerate keeps what it trains in fp32 under FSDP2, whatever dtype the model was loaded "
        "in, unless bf16 is False (--param-dtype bf16 --autocast none)");
  if (c.memory.reentrant)
    notes.emplace_back(
        "checkpoints are reentrant: torch.utils.checkpoint(use_reentrant=True), PyTorch's default, "
        "which PEFT's prepare_model_for_kbit_training leaves, and transformers' before 5.0; "
        "--no-ac-reentrant plans the other kind");
  if (model::has_own_layers(c.run.transformer_impl))
    notes.push_back(
        fmt::format("layers are {}'s own: its RMSNorm, rotation, attention and {}; "
                    "--transformer-impl hf plans "
                    "transformers' in its loop",
                    c.run.transformer_impl == TransformerImpl::torchtitan ? "TorchTitan 0.2.2"
                                                                          : "torchtune 0.6.1",
                    result.model.moe ? "experts" : "MLP"));
  // One model: not once more in each row of a sweep.
  if (detail) {
    if (const std::string note = model::reading_note(result.model); !note.empty())
      notes.push_back("the configuration is " + note);
    if (const std::string note = model::built_in_note(result.model); !note.empty())
      notes.push_back(note);
  }
  if (const std::string rates = simulate::rates_of(c.device.gpu); !rates.empty())
    notes.push_back(fmt::format(
        "{0} is no card: memory of that size with the rates, the context and the generation (of "
        "which attention depends) of {1}; --gpu {2}@NAME takes another's",
        c.device.gpu, rates, c.device.gpu.substr(0, c.device.gpu.find('@'))));
  if (result.model.tower && c.run.images > 0)
    notes.push_back(note_of_images(result.model, c));
  else if (result.model.tower)
    notes.push_back(fmt::format(
        "of {:.3f} B parameters {:.3f} M are the vision tower's ({}, projector included): they are "
        "held, and as no images are planned they do not run and have neither gradients nor "
        "optimizer states",
        static_cast<double>(result.parameters) * 1e-9,
        static_cast<double>(model::tower_parameter_count(result.model)) * 1e-6,
        result.model.tower->encoder));
  if (result.model.moe && result.model.moe->every_expert) {
    notes.emplace_back(
        "each expert computes each token, as transformers has it: what a block holds and computes "
        "grows with the number of experts, not with the experts per token");
  } else if (result.model.moe) {
    const std::string factor = c.run.capacity_factor == 1.0
                                   ? "balanced over the experts"
                                   : "at capacity factor " + std::to_string(c.run.capacity_factor);
    notes.push_back("tokens are routed " + factor +
                    (c.layout.ep > 1
                         ? "; what comes to a rank's experts, and so its memory, depends on it"
                         : "; without expert parallelism memory does not depend on it, time does"));
  }
  if (c.memory.held_until_next && c.memory.hold_output && c.runtime.kind == Runtime::pytorch)
    notes.emplace_back(
        "the loop's name holds a step's output until the next forward is done and it is assigned "
        "again; --held-until backward is a loop that deletes it before");
  if (c.precision.compute_dtype == DType::f32 && c.device.gpu != "cpu")
    notes.emplace_back(
        "products in fp32 are timed, and counted in mfu, at the device's fp32 peak without TF32: "
        "PyTorch's default (torch.backends.cuda.matmul.allow_tf32)");
  if (c.precision.float8() && c.megatron())
    notes.push_back(std::string("--fp8 ") + to_option(c.precision.fp8) +
                    " is Transformer Engine 2.14's recipe in --fp8-format hybrid, on Hopper; its "
                    "products are timed at the device's FP8 peak by the efficiency of its bf16 "
                    "products, as none in FP8 was measured");
  else if (c.precision.float8())
    notes.push_back(
        std::string("--fp8 is torchao 0.18's ") +
        (c.memory.kernels == Kernels::compiled
             ? "in compiled blocks: its casts are parts of their kernels"
         : c.precision.fp8 == Fp8Recipe::mx ? "MXFP8Linear in eager PyTorch: each cast is a kernel"
                                            : "in eager PyTorch: its casts run kernel by kernel") +
        "; products in FP8 are timed at the device's FP8 peak by the efficiency of its bf16 "
        "products, as none in FP8 was measured");
  if (c.optimizer.kind == Optimizer::paged_adamw || c.optimizer.kind == Optimizer::paged_adamw_8bit)
    notes.push_back(
        "paged states (of parameters of 100,000 elements and more) are in managed memory, which "
        "moves "
        "between host and device: they are in no figure of allocated or reserved memory");
  if (c.compression.kind == Compression::powersgd)
    notes.emplace_back(
        "PowerSGD's hook runs on 32 side streams in turn, each of which keeps a cuBLAS workspace "
        "and, reserved, a block as large as the largest bucket: planned as they are after some "
        "steps");
  if (c.memory.ac == AcMode::memory_budget && c.run.attention == Attention::flash &&
      result.model.heads != result.model.kv_heads)
    notes.emplace_back(
        "PyTorch 2.11 counts flash attention's FLOPs by as many heads of keys as of queries: where "
        "its knapsack is reached, compiling such a model ends with an AssertionError "
        "(torch/utils/flop_counter.py, sdpa_flop_count); --attn cudnn runs");
  if (c.optimizer.grad_scaler)
    notes.push_back(
        "the loss is scaled, and the step one whose gradients are finite: one that overflows is "
        "skipped");
  if (c.megatron()) {
    explain_megatron(result);
    return;
  }
  if (c.layout.zero3())
    notes.push_back(
        "zero3 follows DeepSpeed 0.19.8 with its defaults, from the third micro-batch on, of a "
        "model "
        "that was made under deepspeed.zero.Init (transformers does): it was compared with it in "
        "bf16 on an emulated device");
  else if (c.layout.zero())
    notes.push_back(
        "zero1 and zero2 were compared with DeepSpeed 0.19.8 in bf16 on an emulated device: with "
        "another precision they follow its stage_1_and_2.py as read");
  if (c.layout.shard == Sharding::ddp && c.layout.bucket_views)
    notes.push_back("ddp keeps gradients as views of its buckets (gradient_as_bucket_view)");
  explain_attention(result);
}

/// selective keeps mm and attention; the grouped matrix products of experts are neither. What full
/// would do instead is planned, not assumed.
void compare_with_full(profile::Profile& result) {
  StepConfig full = result.config;
  full.memory.ac = AcMode::full;
  full.memory.ac_arg = 0;
  if (passes::find_exclusion(result.model, full) != nullptr) return;
  const profile::Profile other = plan(result.model, full, false);
  const std::int64_t saved = result.memory.peak_allocated - other.memory.peak_allocated;
  const double slower = other.time.step / result.time.step - 1.0;
  constexpr double unit = 1 << 30;
  result.warnings.push_back(fmt::format(
      "a mixture of experts under selective keeps attention and recomputes the grouped matrix "
      "products, which are neither mm nor attention: its peak is {:.3f} GiB, that of full {:.3f} "
      "GiB ({}) with a step {:+.1f} %",
      static_cast<double>(result.memory.peak_allocated) / unit,
      static_cast<double>(other.memory.peak_allocated) / unit,
      saved > 0 ? fmt::format("{:.3f} GiB less", static_cast<double>(saved) / unit)
                : std::string("full saves nothing more"),
      100.0 * slower));
}

/// fully_shard cuts a parameter along its first dimension, which of a layer's stacked experts is
/// their number (FSDPParam._init_sharded_param pads it to a multiple of the ranks).
std::string padded_experts(const model::ModelSpec& model, const StepConfig& config) {
  if (!model.moe || model.graph || !config.layout.gathers() || config.megatron()) return {};
  const std::int64_t shards = passes::fsdp_shards(config), shared_by = config.layout.ep;
  if (shards % shared_by != 0 || model.moe->experts % shared_by != 0) return {};  // refused
  const std::int64_t experts = model.moe->experts / shared_by, ranks = shards / shared_by;
  if (passes::shards_second_dim(config, experts)) return {};
  const std::int64_t padded = (experts + ranks - 1) / ranks * ranks;
  if (padded == experts) return {};
  const std::int64_t whole = std::gcd(config.layout.replica_ranks(), experts);
  return fmt::format(
      "{} experts of a layer are sharded over {} ranks by their first dimension, and padded to {}: "
      "each rank gathers and stores {:.1f} times their size; {}share experts with --ep",
      experts, ranks, padded, static_cast<double>(padded) / static_cast<double>(experts),
      shared_by == 1 && whole > 1
          ? fmt::format("shard over at most {0} ranks (--shard hsdp:{0}), or ", whole)
          : "");
}

}  // namespace

std::vector<std::string> model_warnings(const model::ModelSpec& model, const StepConfig& config) {
  std::vector<std::string> all = model::reading_warnings(model);
  if (model.max_positions > 0 && config.attended_tokens() > model.max_positions)
    all.push_back(fmt::format(
        "{} is beyond the model's max_position_embeddings, {}: it was not made "
        "for such positions; the step is planned all the same",
        config.run.packing > 0 ? fmt::format("a document of {} tokens", config.attended_tokens())
                               : fmt::format("--seq {}", config.run.seq),
        model.max_positions));
  if (model.graph)
    if (std::string beyond =
            graph::beyond_capture(*model.graph, {config.run.batch, config.run.seq});
        !beyond.empty())
      all.push_back(std::move(beyond));
  if (const std::string padded = padded_experts(model, config); !padded.empty())
    all.push_back(padded);
  const char* planned = torch_dtype(config.precision.param_dtype);
  const std::string& own = model.reading.dtype;
  const bool known = own == "bfloat16" || own == "float32" || own == "float16";
  if (known && own != planned)
    all.push_back(
        fmt::format("the configuration's dtype is {}, parameters are planned in {}; override with "
                    "--param-dtype",
                    own, planned));
  return all;
}

namespace {

/// What each rank that shares the sequences holds; of a long ring the one that is shown says
/// enough.
void add_ranks_of_sequence(profile::Profile& result, const StepConfig& config) {
  constexpr std::int64_t most = 8;
  const std::int64_t ranks = config.layout.cp, shown = config.layout.context_rank();
  result.assumptions.push_back(fmt::format(
      "memory, launches and times are those of rank {} of the {} that share a sequence; the last "
      "one copies no attention output, the others differ by what they attend with half of their "
      "queries",
      shown, ranks));
  if (ranks > most) return;
  for (std::int64_t r = 0; r < ranks; ++r) {
    StepConfig own = config;
    own.layout.cp_rank = r;
    const profile::Memory memory =
        r == shown ? result.memory : plan_rank(result.model, own, false).profile.memory;
    result.memory.ranks.push_back({.cp_rank = r,
                                   .stages = {0},
                                   .count = config.layout.world / ranks,
                                   .peak_allocated = memory.peak_allocated,
                                   .peak_reserved = memory.peak_reserved});
  }
}

}  // namespace

profile::Profile plan(const model::ModelSpec& model, const StepConfig& requested, bool detail) {
  if (requested.layout.pp == 1) {
    profile::Profile result =
        plan_rank(model, misses_critic(requested) ? beside_critic(model, requested) : requested,
                  detail)
            .profile;
    add_task_phases(result, detail);
    result.config.task.waiting = {};
    if (detail && requested.layout.ulysses())
      result.assumptions.push_back("ranks that share a sequence hold, launch and cost alike");
    else if (detail && requested.layout.cp > 1 && !requested.megatron())
      add_ranks_of_sequence(result, requested);
    return result;
  }
  passes::validate(model, requested);
  return plan_pipeline(model, requested, detail);
}

profile::Profile plan_of_many(const model::ModelSpec& model, const StepConfig& config,
                              SharedRanks& shared) {
  if (config.layout.pp == 1) return plan(model, config, false);
  passes::validate(model, config);
  return plan_pipeline(model, config, false, &shared);
}

profile::Profile plan(const model::ModelSpec& model, const Resolved& resolved, bool detail) {
  profile::Profile result = plan(model, resolved.config, detail);
  if (resolved.others_layers && result.evidence)
    evidence::never_compared(
        *result.evidence, resolved.config.runtime.framework + "'s own layers of " + model.family);
  result.assumptions.insert(result.assumptions.begin(), resolved.notes.begin(),
                            resolved.notes.end());
  return result;
}

double tokens_of_step(const StepConfig& config) {
  return static_cast<double>(config.rows() * config.run.seq) *
         static_cast<double>(config.run.grad_accum) *
         static_cast<double>(config.layout.data_ranks());
}

RankPlan plan_rank(const model::ModelSpec& asked, const StepConfig& requested, bool detail,
                   SharedRanks::Slot* shared) {
  const std::optional<model::ModelSpec> sized = model::sized(asked, requested);
  const model::ModelSpec& model = sized ? *sized : asked;
  profile::Profile result;
  const StepConfig config = simulated(model, requested);
  if (config.memory.scope != requested.memory.scope)
    result.warnings.push_back(
        "blocks share keys and values, so attention cannot be recomputed "
        "with its block: --ac-scope submodule is used instead");
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  result.tool_version = version;
  result.model = asked;
  result.parameters = model::parameter_count(model);
  if (config.litgpt() && model.tied_embeddings)  // which it never ties
    result.parameters += model.vocab * model.hidden;
  const bool reward = config.task.kind == Task::reward && !config.value_head();
  if (reward || config.task.of_critic)  // a score in the place of the vocabulary's logits
    result.parameters -= model.tied_embeddings ? 0 : model.vocab * model.hidden;
  if (reward) result.parameters += model.hidden;
  if (config.value_head() || config.task.of_critic) result.parameters += model.hidden + 1;
  result.config = config;
  result.device_name = device.name;
  RankSimulation rank = shared == nullptr ? simulate_rank(asked, requested, detail) : shared->get();
  if (config.adapters.used()) {
    std::int64_t& trained = result.trainable_parameters.emplace(rank.trained);
    if (config.layout.pp > 1 || config.layout.tp > 1)  // the step's are those of one rank
      trained = passes::lora_parameters(model, config);
    result.parameters += trained;
  }
  if (config.runtime.kind == Runtime::pytorch) {
    rank.settled.memory.loss = config.memory.loss;  // which it may share with another
    result.evidence = evidence::evidence_of(model, with_effects_alone(model, rank.settled));
  }
  result.budget = std::move(rank.budget);
  result.memory = std::move(rank.memory.memory);
  result.fit = std::move(rank.memory.fit);
  result.assumptions = std::move(rank.assumptions);
  result.kernels = rank.kernels;
  simulate::StepTime& time = rank.time;
  if (device.measured) result.time.basis = profile::TimeBasis::calibrated;
  result.time.step = time.step;
  if (result.fit.fits && result.fit.pressure) result.time.step += result.fit.pressure->seconds;
  result.time.by_phase = time.by_phase;
  result.time.launch_bound = time.launch_bound;
  result.time.communication_exposed = time.communication_exposed;
  result.time.recompute = time.by_phase[static_cast<std::size_t>(ir::Phase::recompute)];
  result.time.tokens_per_second = tokens_of_step(config) / result.time.step;
  result.time.mfu = time.at_peak / result.time.step;
  for (std::string& warning : model_warnings(asked, config))
    result.warnings.push_back(std::move(warning));
  explain_assumptions(result, detail);
  if (model.graph && !model.graph->captured.empty())
    result.assumptions.push_back(model.graph->captured);
  if (detail && model.moe && config.memory.ac == AcMode::selective) compare_with_full(result);
  explain_time(result, device, time);
  return {std::move(result), std::move(time)};
}

}  // namespace ac_advisor::advise
