#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ac_advisor {

namespace model {
struct ModelSpec;
}

/// f8: e4m3 or e5m2, which differ in values alone.
enum class DType : std::uint8_t { bf16, f32, i64, i32, u8, f16, f8 };
/// Of 16 bits: what matrix products are fast in.
[[nodiscard]] constexpr bool is_half(DType t) { return t == DType::bf16 || t == DType::f16; }
[[nodiscard]] constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::f32:
      return 4;
    case DType::i64:
      return 8;
    case DType::i32:
      return 4;
    case DType::u8:
    case DType::f8:
      return 1;
  }
  return 0;
}

/// `memory_budget`: PyTorch's own, by the compiler's partitioner.
enum class AcMode : std::uint8_t {
  none,
  full,
  selective,
  attention,
  grouped,
  every,
  sqrt,
  budget,
  memory_budget,
  first,
  modules
};
/// Parts of Megatron-core's layers that --recompute-modules names: bits of `ac_arg` beside
/// AcMode::modules.
enum class LayerPart : std::uint8_t {
  core_attn,
  layernorm,
  mla_up_proj,
  mlp,
  moe,
  moe_act,
  shared_experts
};
enum class AcScope : std::uint8_t { block, submodule };
/// `tiled`: TRL's LM head, per-token log-probabilities from tiles of tokens x words.
/// `chunked_logits`: torchtune's, logits in N parts of the sequence, each widened by itself.
/// `ce_compiled`: cross-entropy of logits as torch.compile makes it, TorchTitan's loss beside
/// compiled blocks.
enum class LossKind : std::uint8_t {
  ce,
  lc_ce,
  chunked,
  ce_no_upcast,
  tiled,
  chunked_logits,
  ce_compiled
};
/// `compiled`: torch.compile of what CompileUnit says.
enum class Kernels : std::uint8_t { eager, fused, compiled };
/// What torch.compile makes one graph of: each block, or the model with its loss.
enum class CompileUnit : std::uint8_t { block, model };
enum class Optimizer : std::uint8_t {
  adamw,
  adamw_foreach,
  sgd,
  sgd_momentum,
  adamw_8bit,
  paged_adamw,
  paged_adamw_8bit,
  adamw_8bit_torchao,
  adafactor,
  lion,
  muon,  ///< of the blocks' matrices; adamw of all else
};
enum class Sharding : std::uint8_t { none, ddp, zero1, zero2, fsdp2, hsdp, fsdp1, zero3 };
/// When FSDP1 gathers a unit for backward (torch.distributed.fsdp.BackwardPrefetch): before the
/// gradients of the one before are computed, after, or as it is needed.
enum class BackwardPrefetch : std::uint8_t { pre, post, none };
/// What is kept on the host between its uses: nothing, what autograd saves, FSDP2's shards with all
/// that is theirs, or the optimizer's states, with its step there; `gradients`: as `optimizer`, and
/// gradients leave the device as they are made.
enum class Offload : std::uint8_t { none, activations, parameters, optimizer, gradients };
/// What one fully_shard call wraps, beside the root: each block, each of `--ac grouped:K`'s
/// segments, or each block, the embedding, and the final norm with the head (TorchTitan since July
/// 2025; accelerate since 1.15, where a tied embedding is with norm and head). verl's are each
/// block and, where not tied, embedding and head; its root is resharded after forward, too.
enum class FsdpUnit : std::uint8_t { block, segment, torchtitan, accelerate, verl };
/// `flash1`: the kernel of PyTorch 2.0 and 2.1, FlashAttention's first version.
enum class Attention : std::uint8_t { automatic, flash, cudnn, efficient, math, eager, flash1 };
enum class Runtime : std::uint8_t { pytorch, ac_trainer };
/// Releases of PyTorch whose steps are planned; what differs between them is in ir/torch_facts.hpp.
enum class TorchVersion : std::uint8_t { v2_11, v2_15 };
/// The order of a pipeline's micro-batches: torch.distributed.pipelining's Schedule1F1B,
/// ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble and
/// ScheduleDualPipeV.
enum class PipelineSchedule : std::uint8_t {
  one_f_one_b,
  gpipe,
  interleaved,
  zero_bubble,
  zbv,
  dual_pipe_v
};
/// Whether backwards are run in two parts: for the stage's input, and for its weights.
[[nodiscard]] constexpr bool splits_backwards(PipelineSchedule schedule) {
  return schedule >= PipelineSchedule::zero_bubble;
}
/// Whether stages go over the ranks and come back: a rank's second is as far from the last stage as
/// its first is from the first.
[[nodiscard]] constexpr bool is_v_shaped(PipelineSchedule schedule) {
  return schedule >= PipelineSchedule::zbv;
}
/// Of _PipelineScheduleRuntime, with any number of stages a rank; else of PipelineScheduleSingle.
[[nodiscard]] constexpr bool has_stages_of_a_rank(PipelineSchedule schedule) {
  return schedule >= PipelineSchedule::interleaved;
}
/// How keys and values reach the other ranks of a sequence in PyTorch's context parallelism: all at
/// once, or from one rank to the next (set_rotate_method's "allgather" and "alltoall").
enum class CpMethod : std::uint8_t {
  all_gather,
  all_to_all,
  ulysses  ///< no ring: heads in place of tokens, by an all-to-all before and after attention
};
/// How bitsandbytes stores the base's linear layers: not at all, NF4 with fp32 or with quantized
/// scales of its blocks, or LLM.int8().
enum class Quantization : std::uint8_t { none, nf4, nf4_double, int8 };
/// Whether the embedding's output requires a gradient though its weight does not: as PEFT does it
/// (where activations are checkpointed), always or never.
enum class InputGrads : std::uint8_t { automatic, on, off };
/// What is captured into CUDA graphs and replayed: nothing, the whole step in one, or one graph for
/// each block and phase.
enum class CudaGraph : std::uint8_t { off, step, segments };

/// Whose code the model's layers are: transformers', Megatron-core's own, Megatron-core's made
/// of Transformer Engine's modules, litgpt's, TorchTitan's or torchtune's.
enum class TransformerImpl : std::uint8_t {
  hf,
  local,
  transformer_engine,
  litgpt,
  torchtitan,
  torchtune
};

/// What a step trains for. `sft`: the next token. `dpo`, `orpo`, `simpo`: pairs of a chosen and a
/// rejected answer. `reward`: a score of each, by a head of one number. `grpo`, `rloo`: completions
/// that the model wrote itself, in groups whose rewards are compared. `kto`: answers, each good or
/// bad, beside those of other prompts. `distillation`: completions that the model wrote itself,
/// whose tokens' distributions are compared with a teacher's.
enum class Task : std::uint8_t {
  sft,
  dpo,
  orpo,
  simpo,
  reward,
  grpo,
  kto,
  rloo,
  distillation,
  ppo  ///< whose advantages are over the values of a critic that is trained, too
};
/// What a task's reference log-probabilities come from: nothing, a second model, the model itself
/// with its adapters off, or a pass before training.
enum class Reference : std::uint8_t { none, model, adapter, precomputed };
/// Who writes the completions that are trained on: the model itself by transformers' generate, a
/// vLLM engine in the trainer's own process, or one elsewhere.
enum class Rollout : std::uint8_t { generate, vllm, served };
/// What waits in the host's memory while the trainer neither trains nor scores (verl's
/// optimizer_offload and param_offload).
enum class Parked : std::uint8_t { none, optimizer, all };

/// Who scores completions before they are trained on.
enum class Scorer : std::uint8_t { none, policy, reference };

/// Whether the loss has the term that balances experts: as trainer and configuration say, always or
/// never.
enum class RouterLoss : std::uint8_t { automatic, on, off };

/// A model beside the one that is trained, by the name or file that was given; empty: none.
struct OtherModel {
  std::string name;
  std::shared_ptr<const model::ModelSpec> model;  ///< null without a name, or where it is not found
  bool operator==(const OtherModel& other) const { return name == other.name; }
};

/// Bytes of a worker in the trainer's own process that waits while another one runs.
struct WaitingWorker {
  std::int64_t parameters = 0, optimizer_states = 0;
  std::int64_t gathered = 0;  ///< that FSDP1's root has left whole
  [[nodiscard]] std::int64_t bytes() const { return parameters + optimizer_states + gathered; }
  bool operator==(const WaitingWorker&) const = default;
};

/// verl v0.9.1, workers/config/critic.py, ppo_infer_max_token_len_per_gpu: tokens of a critic's
/// micro-batch at most, where nothing else is said.
inline constexpr std::int64_t critic_tokens = 32768;

struct TaskChoice {
  Task kind = Task::sft;
  Reference reference = Reference::none;
  /// No option: of a second model, where it is not that of the trained one's parameters.
  std::optional<DType> reference_dtype;
  OtherModel teacher;
  OtherModel critic;            ///< PPO's; empty: the model that is trained
  std::int64_t prompt = 0;      ///< tokens of each row that are the prompt's, which no loss scores
  std::int64_t completion = 0;  ///< tokens of each row that were written: its others; 0: not said
  std::int64_t group = 0;       ///< completions of a prompt; 0: not said
  /// Rows of a micro-batch that is scored without gradients; 0: as many as are trained on.
  std::int64_t score_batch = 0;
  Rollout rollout = Rollout::generate;
  double engine_share = 0;        ///< of the device's memory, which a vLLM beside the trainer takes
  std::int64_t engine_ranks = 1;  ///< that share its layers: its tensor parallelism
  std::int64_t engine_sleep = 0;  ///< vLLM's level while it writes nothing; 0: it stays awake
  Parked parked = Parked::none;
  Parked critic_parked = Parked::none;
  std::int64_t critic_batch = 0;  ///< rows of the critic's micro-batch at most; 0: not said
  /// No option: the program is the critic's, as `actors_critic` (advise/critic.hpp) has made it.
  bool of_critic = false;
  WaitingWorker waiting;      ///< No option: beside the program's own
  bool entropy_loss = false;  ///< the policy's entropy is part of the loss
  RouterLoss router_loss = RouterLoss::automatic;
  /// No option: the program is the forward without gradients by which it scores completions.
  Scorer scorer = Scorer::none;

  [[nodiscard]] bool supervised() const { return kind == Task::sft; }
  /// Its loss is of the fused LM head's log-probabilities, over a reference's if there is one.
  [[nodiscard]] bool compares() const { return against_reference() || (online() && !distills()); }
  /// Its loss is not defined without a reference.
  [[nodiscard]] bool against_reference() const { return kind == Task::dpo || kind == Task::kto; }
  /// A reference's forwards run within the step.
  [[nodiscard]] bool runs_reference() const {
    return against_reference() && reference != Reference::precomputed;
  }
  [[nodiscard]] bool scores() const { return scorer != Scorer::none; }
  /// Of completions that the model writes between its steps.
  [[nodiscard]] bool online() const {
    return kind == Task::grpo || kind == Task::rloo || has_critic() || distills();
  }
  /// It is trained in verl's workers alone.
  [[nodiscard]] bool has_critic() const { return kind == Task::ppo; }
  [[nodiscard]] bool distills() const { return kind == Task::distillation; }
  /// Parameters that are never trained are there beside the model's: a reference's or a teacher's.
  [[nodiscard]] bool second_model() const { return reference == Reference::model || distills(); }
  /// Of answers that are given: TRL's preference trainers and the reward model's.
  [[nodiscard]] bool preference() const { return !supervised() && !online(); }
  [[nodiscard]] bool pairs() const { return preference() && kind != Task::kto; }
  bool operator==(const TaskChoice&) const = default;
};

/// Parts of a model with an encoder of images that are not trained: the encoder; what leads from it
/// into the decoder, by the names of its users projector, merger or aligner; the decoder with its
/// embedding and head.
struct FrozenParts {
  bool tower = false, projector = false, decoder = false;
  [[nodiscard]] bool any() const { return tower || projector || decoder; }
  bool operator==(const FrozenParts&) const = default;
};

/// What is fed to the model, and how its forward is run.
struct ModelRun {
  std::int64_t batch = 1;  ///< sequences per rank and micro-batch
  std::int64_t seq = 2048;
  std::int64_t grad_accum = 1;
  Attention attention = Attention::automatic;
  double dropout = 0.0;
  double capacity_factor = 1.0;
  bool balanced_routing = false;  ///< routers choose experts in turn, whatever the scores
  TransformerImpl transformer_impl = TransformerImpl::hf;
  std::int64_t images = 0;  ///< of each sequence; their tokens are among its `seq`
  std::int64_t image_height = 0, image_width = 0;  ///< pixels of each; 0: the encoder's own size
  FrozenParts frozen;
  /// Documents of one row of batch x seq tokens, each attending to itself alone; 0: not packed.
  std::int64_t packing = 0;
  /// The batch carries positions, (batch, seq): tables of angles are as wide as the batch.
  bool position_ids = false;
  /// No option: each token's label is the next token already, as where sequences are split, or
  /// as TorchTitan's data loader gives them.
  bool labels_shifted = false;
  bool operator==(const ModelRun&) const = default;
};

/// What is kept, recomputed, fused or never made.
struct MemoryTechniques {
  AcMode ac = AcMode::none;
  /// K of grouped:K and every:K, N of first:N, bytes of budget:SIZE, parts of modules:PARTS
  std::int64_t ac_arg = 0;
  double memory_budget = 1.0;  ///< F of memory-budget:F, activation_memory_budget: 0 to 1
  /// What budget: chose, a mode a block: none, attention, selective or full. Empty otherwise.
  std::vector<AcMode> block_modes;
  AcScope scope = AcScope::block;
  bool tower_ac = false;   ///< each layer of an encoder of images is checkpointed
  bool reentrant = false;  ///< torch.utils.checkpoint(use_reentrant=True)
  LossKind loss = LossKind::ce;
  std::int64_t chunk_tokens = 0;  ///< T of chunked:T, N of chunked-logits:N
  bool hold_output = true;
  /// What the loop has of a step is gone when the next forward is done, and its names are bound
  /// anew; else when that forward begins.
  bool held_until_next = false;
  bool wide_output = false;  ///< the model's output is cast to fp32 when its forward ends
  Kernels kernels = Kernels::eager;
  CompileUnit compile_unit = CompileUnit::block;
  Offload offload = Offload::none;
  bool fused_gradients = false;  ///< Megatron-core's products add to the main gradients themselves
  /// Whether modules:PARTS names it.
  [[nodiscard]] bool recomputes(LayerPart part) const {
    return ac == AcMode::modules && (ac_arg >> static_cast<int>(part) & 1) != 0;
  }
  bool operator==(const MemoryTechniques&) const = default;
};

/// How the step is laid out over ranks.
struct Layout {
  std::int64_t world = 1;         ///< all ranks
  std::int64_t tp = 1;            ///< ranks that share each layer: tensor parallelism
  std::int64_t tp_rank = 0;       ///< whose part of each layer it is; all parts have one size
  bool sequence_parallel = true;  ///< with tp: norms and residuals are of parts of each sequence
  bool loss_parallel = true;      ///< with tp: the loss is computed on parts of the vocabulary
  std::int64_t cp = 1;            ///< ranks that share each sequence: context parallelism
  CpMethod cp_method = CpMethod::all_gather;
  std::int64_t cp_rank = usual_rank;  ///< whose part of each sequence it is
  std::int64_t ep = 1;                ///< ranks that share a layer's experts: expert parallelism
  std::int64_t etp = 0;               ///< ranks that share each expert; 0: as many as tp
  std::int64_t pp = 1;                ///< ranks that share the model's blocks: pipeline parallelism
  PipelineSchedule pp_schedule = PipelineSchedule::one_f_one_b;
  std::int64_t pp_chunks = 1;           ///< stages a rank has: V of interleaved:V and zb1:V
  std::vector<std::int64_t> pp_layers;  ///< blocks of each stage; empty: as TorchTitan splits
  std::int64_t pp_rank = highest_rank;  ///< whose step it is

  /// Of pp_rank: the one with the highest allocated peak.
  static constexpr std::int64_t highest_rank = -1;
  /// Of cp_rank: the last but one, see `context_rank`.
  static constexpr std::int64_t usual_rank = -1;
  Sharding shard = Sharding::none;
  std::int64_t hsdp_shards = 0;          ///< N of hsdp:N
  std::int64_t optimizer_instances = 1;  ///< copies of Megatron-core's distributed optimizer
  FsdpUnit fsdp_unit = FsdpUnit::block;
  bool keep_last_block = false;
  bool reshard_after_forward = true;  ///< fsdp2: of each unit but the root
  std::int64_t reshard_to = 0;        ///< N of reshard_after_forward=N; 0: to all ranks' shards
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;  ///< fsdp1
  bool bucket_views = false;  ///< ddp: gradients are views of their buckets
  bool overlap_comm = false;  ///< zero1, zero2: buckets are reduced while backward goes on
  bool no_sync = false;
  std::int64_t node_size = 0;  ///< ranks of a node; 0: the device file's
  double network_gbps = 0;     ///< Gbit/s of one rank to other nodes; 0: the device file's

  /// Ranks that see different sequences.
  [[nodiscard]] std::int64_t data_ranks() const { return world / (tp * pp * cp); }
  /// Ranks that have the same parameters, whose gradients are averaged.
  [[nodiscard]] std::int64_t replica_ranks() const { return world / (tp * pp); }
  /// Of those, the ranks of one of its instances, which have a part each of Megatron-core's
  /// distributed optimizer.
  [[nodiscard]] std::int64_t instance_ranks() const {
    return replica_ranks() / optimizer_instances;
  }
  /// The last but one attends with all of its queries to a half of the keys that arrive and with a
  /// half of them to all, as ranks before and after it do, and what it holds at either is the most.
  [[nodiscard]] std::int64_t context_rank() const {
    if (cp_rank != usual_rank) return cp_rank;
    return cp > 2 ? cp - 2 : 0;
  }
  /// Ranks that share a sequence by DeepSpeed's Ulysses, instead of in a ring.
  [[nodiscard]] bool ulysses() const { return cp > 1 && cp_method == CpMethod::ulysses; }
  /// Ranks that share layers have all tokens between them, each of them: no sequence parallelism.
  [[nodiscard]] bool has_whole_tokens() const { return tp > 1 && !sequence_parallel; }
  [[nodiscard]] std::int64_t expert_tp() const { return etp > 0 ? etp : tp; }
  /// Ranks that exchange a layer's tokens, to have all of its experts between them.
  [[nodiscard]] std::int64_t expert_ranks() const { return ep * expert_tp(); }
  /// Ranks that have the same experts, whose gradients are averaged.
  [[nodiscard]] std::int64_t expert_replicas() const { return world / (pp * expert_ranks()); }
  /// Parameters and states are whole on every rank.
  [[nodiscard]] bool whole() const { return shard == Sharding::none || shard == Sharding::ddp; }
  /// DeepSpeed's ZeRO 1 or 2, whose parameters are whole, or 3, whose are not.
  [[nodiscard]] bool zero() const {
    return shard == Sharding::zero1 || shard == Sharding::zero2 || zero3();
  }
  [[nodiscard]] bool zero3() const { return shard == Sharding::zero3; }
  /// FSDP2, whose units are gathered before use.
  [[nodiscard]] bool gathers() const { return shard == Sharding::fsdp2 || shard == Sharding::hsdp; }
  /// FSDP of either version: shards are stored, and units computed with in a dtype of their own.
  [[nodiscard]] bool fsdp() const { return gathers() || shard == Sharding::fsdp1; }
  bool operator==(const Layout&) const = default;
};

/// How DistributedDataParallel's communication hook makes a bucket smaller before it is sent.
enum class Compression : std::uint8_t {
  none,
  bf16,     ///< cast
  fp16,     ///< cast
  topk,     ///< the largest elements; the rest is added to the next step's gradients
  powersgd  ///< two factors of low rank (Vogels et al. 2019), with error feedback and warm start
};

struct GradCompression {
  Compression kind = Compression::none;
  double ratio = 0;       ///< of topk: of a bucket's elements
  std::int64_t rank = 0;  ///< of powersgd
  [[nodiscard]] bool used() const { return kind != Compression::none; }
  bool operator==(const GradCompression&) const = default;
};

/// How torchao's Float8Linear scales what its products read: each tensor by one number, or rows and
/// columns by one each; or what is refused by name so far.
enum class Fp8Recipe : std::uint8_t { none, tensorwise, rowwise, delayed, mx };

struct Precision {
  DType param_dtype = DType::bf16;
  DType compute_dtype = DType::bf16;
  DType reduce_dtype = DType::bf16;
  bool autocast = false;  ///< torch.autocast: parameters as stored, matrix products in the
                          ///< compute dtype
  Fp8Recipe fp8 = Fp8Recipe::none;
  bool fp8_all_gather = false;  ///< fsdp2 gathers the weights of such layers in 8 bits
  [[nodiscard]] bool float8() const { return fp8 != Fp8Recipe::none; }
  bool operator==(const Precision&) const = default;
};

/// What PEFT trains beside a frozen base (adapter_method.hpp); 0 is LoRA.
enum class AdapterMethod : std::uint8_t;

/// Adapters over a frozen base (PEFT).
struct Adapters {
  std::int64_t rank = 0;  ///< LoRA's; 0: none, all parameters are trained
  AdapterMethod method{};
  std::int64_t size = 0;    ///< of another method: a rank, a block, learned tokens
  std::int64_t factor = 0;  ///< LoKr's decompose_factor; 0: PEFT's own choice
  /// Comma-separated endings of modules' names, or "all-linear"; empty: PEFT's default.
  std::string targets;
  DType dtype = DType::f32;  ///< of the adapters
  double dropout = 0.0;
  bool dora = false;
  Quantization quantize = Quantization::none;
  InputGrads input_grads = InputGrads::automatic;
  bool kbit_prepare = false;  ///< what is not quantized was cast to fp32
  /// bitsandbytes before 0.43.2: a layer in 4 bits keeps its input, which its backward does not
  /// read, and makes its weight in fp16 before it casts it.
  bool saves_inputs = false;
  /// litgpt's embedding beside quantized layers: bitsandbytes' StableEmbedding, with a norm, made
  /// after all else was frozen.
  bool stable_embedding = false;

  [[nodiscard]] bool used() const { return rank > 0 || of_another_method(); }
  [[nodiscard]] bool of_another_method() const { return method != AdapterMethod{}; }
  /// Learned tokens before those of each sequence.
  [[nodiscard]] std::int64_t prompt_tokens() const;
  /// Learned keys and values of each block before those of each sequence.
  [[nodiscard]] std::int64_t prefix_tokens() const;
  /// Adapters over a base that bitsandbytes stores.
  [[nodiscard]] bool quantized() const { return used() && quantize != Quantization::none; }
  [[nodiscard]] bool four_bit() const {
    return quantize == Quantization::nf4 || quantize == Quantization::nf4_double;
  }
  bool operator==(const Adapters&) const = default;
};

struct OptimizerChoice {
  Optimizer kind = Optimizer::adamw;
  double clip_grad = 0.0;       ///< largest norm of all gradients; 0: not clipped
  bool in_backward = false;     ///< each parameter is updated as soon as its gradient is there
  bool master_weights = false;  ///< fp32 copies of 16-bit parameters, which it updates first
  bool ema = false;             ///< an exponential moving average of the parameters is kept
  bool grad_scaler = false;     ///< the loss is scaled, gradients are checked and unscaled (fp16)
  /// 8-bit optimizers keep the input embedding's states in fp32 (transformers.Trainer's).
  bool wide_embedding_states = false;
  bool operator==(const OptimizerChoice&) const = default;
};

/// Whose step it is, and what runs it.
struct RuntimeChoice {
  Runtime kind = Runtime::pytorch;
  std::string framework = "hf";
  TorchVersion torch = TorchVersion::v2_11;
  CudaGraph cuda_graph = CudaGraph::off;
  bool expandable_segments = false;
  std::string cublas_workspace;  ///< CUBLAS_WORKSPACE_CONFIG, ":4096:8"; empty: PyTorch's default
  bool force = false;
  bool deterministic = false;  ///< Megatron-LM's --deterministic-mode
  /// Under a TorchDispatchMode PyTorch's engine adds gradients out of place, and a few formulas
  /// write out of place. Only the comparison with references taken that way sets this.
  bool under_dispatch_mode = false;
  bool operator==(const RuntimeChoice&) const = default;
};

struct DeviceChoice {
  std::string gpu = "h100-80gb";
  std::int64_t threads = 1;  ///< CPU threads a rank, where the device is a CPU
  bool operator==(const DeviceChoice&) const = default;
};

/// One configuration of a training step: every option that changes what it holds, launches or
/// costs, by concern. Plain data, already resolved (a framework preset has been applied) and
/// validated. A pass takes the concerns that it reads.
struct StepConfig {
  TaskChoice task;
  ModelRun run;
  MemoryTechniques memory;
  Layout layout;
  GradCompression compression;
  Precision precision;
  Adapters adapters;
  OptimizerChoice optimizer;
  RuntimeChoice runtime;
  DeviceChoice device;

  /// Sequences of a micro-batch on one rank: `batch`, or both of each pair.
  [[nodiscard]] std::int64_t rows() const { return run.batch * (task.pairs() ? 2 : 1); }
  /// Of what attends to itself: a sequence, or the longest of a row's packed documents, whose
  /// lengths differ by at most one token.
  [[nodiscard]] std::int64_t attended_tokens() const {
    if (run.packing <= 0) return run.seq;
    return (run.batch * run.seq + run.packing - 1) / run.packing;
  }
  /// Tokens of each sequence that one rank of a context-parallel group has.
  [[nodiscard]] std::int64_t local_seq() const { return run.seq / layout.cp; }
  /// Megatron-core's step: its layers, buffers of gradients, optimizers and schedules.
  [[nodiscard]] bool megatron() const {
    return run.transformer_impl == TransformerImpl::local ||
           run.transformer_impl == TransformerImpl::transformer_engine;
  }
  /// litgpt's step: its layers, adapters and loss, in Lightning Fabric's precision.
  [[nodiscard]] bool litgpt() const { return run.transformer_impl == TransformerImpl::litgpt; }
  /// verl's worker: documents of a row found in their positions, whole logits, its own loss.
  /// Of a second model's parameters, as they are stored.
  [[nodiscard]] DType reference_dtype() const {
    return task.reference_dtype.value_or(precision.param_dtype);
  }
  [[nodiscard]] bool verl() const { return runtime.framework == "verl"; }
  [[nodiscard]] bool llamafactory() const { return runtime.framework == "llamafactory"; }
  /// A reward model keeps the LM head, and scores tokens by a head beside it.
  [[nodiscard]] bool value_head() const { return llamafactory() && task.kind == Task::reward; }
  /// The loss is computed by the training loop, or by a pipeline's schedule, of what the model
  /// returns: it is no part of the module that is sharded (TorchTitan 0.2.2, train.py,
  /// forward_backward_step; torchtune 0.6.1, recipes/full_finetune_distributed.py).
  [[nodiscard]] bool loss_outside() const {
    return layout.pp > 1 || runtime.framework == "torchtitan" || runtime.framework == "torchtune" ||
           verl();
  }
  /// torch.distributed.pipelining divides gradients by the number of micro-batches, instead of each
  /// micro-batch's loss; TorchTitan 0.2.2 builds its schedules with scale_grads=False.
  [[nodiscard]] bool scales_gradients() const {
    return layout.pp > 1 && !megatron() && runtime.framework != "torchtitan";
  }
  bool operator==(const StepConfig&) const = default;
};

/// What is fed to the model: a packed batch is one sequence of all of its tokens, a learned prompt
/// goes before each. Of sequences that
/// ranks share each has its part, and where its tokens are, and what follows them.
[[nodiscard]] inline StepConfig as_fed(StepConfig config) {
  config.run.batch = config.rows();
  // TRL's trainers of preferences: disable_dropout, of nn.Dropout modules; not LLaMA-Factory's rm
  if (config.task.preference() && !config.value_head()) config.adapters.dropout = 0;
  if (config.run.packing > 0) {
    config.run.seq *= config.run.batch;
    config.run.batch = 1;
  }
  config.run.seq += config.adapters.prompt_tokens();
  if (config.run.transformer_impl == TransformerImpl::torchtitan) config.run.labels_shifted = true;
  if (config.layout.cp > 1 && !config.megatron()) {
    config.run.seq = config.local_seq();
    config.run.position_ids = config.run.labels_shifted = true;
  }
  return config;
}

/// Whether the embedding's output is made to require a gradient though its weight is frozen.
[[nodiscard]] inline bool input_requires_grad(const StepConfig& config) {
  const Adapters& a = config.adapters;
  if (!a.used() || a.input_grads == InputGrads::off) return false;
  return a.input_grads == InputGrads::on || config.memory.ac != AcMode::none;
}

}  // namespace ac_advisor
