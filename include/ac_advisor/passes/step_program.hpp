#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/passes/pipeline.hpp"

namespace ac_advisor::passes {

/// A gradient that an input's backward of a later micro-batch adds to the sum in the reduce dtype.
struct WaitingGradient {
  std::int64_t micro = 0;
  ir::ValueId gradient = ir::no_id;
};

/// A tensor of the model. Its value is what ops read; under fsdp2 that is the gathered copy.
struct Parameter {
  ir::ValueId value = ir::no_id;
  ir::ModulePath module;             ///< block -1: the root group (embedding, final norm, LM head)
  std::int32_t uses = 0;             ///< times the forward reads it (2 for a tied embedding)
  ir::ValueId gradient = ir::no_id;  ///< after differentiate
  bool partial = false;              ///< tensor parallelism: its gradient is of this rank's tokens
  bool summed = false;  ///< tensor parallelism: its gradient is of all columns, a sum to be
  bool trained = true;  ///< has a gradient and is optimized
  bool stepped = true;  ///< else its optimizer has it not, and its gradient stays
  bool expert = false;  ///< of an expert that not every data-parallel rank has
  ir::ValueId tied = ir::no_id;  ///< fsdp2: the parameter whose shard it has, of another unit
  /// Megatron-core: what autograd is given where the product itself adds to the main gradient.
  ir::ValueId stand_in = ir::no_id;
  std::size_t optimized = 0;       ///< of a trained one under fsdp2 and ddp: its OptimizedTensor
  ir::ValueId stored = ir::no_id;  ///< what exists between steps: the value, or this rank's shard
  // fsdp2, over micro-batches:
  ir::ValueId gathering = ir::no_id;     ///< what its unit is gathered into, until it is copied out
  ir::ValueId gathered = ir::no_id;      ///< the whole copy that a pipeline's stage keeps
  ir::ValueId widened = ir::no_id;       ///< the unreduced gradients' sum in the reduce dtype
  std::vector<WaitingGradient> waiting;  ///< of a pipeline whose backwards are in two parts
};

/// A linear layer's parameters; what it has not: no_id.
struct LinearValues {
  ir::ValueId weight = ir::no_id;  ///< [out, in]; of a quantized one its codes
  ir::ValueId bias = ir::no_id;
  ir::ValueId code_book = ir::no_id;  ///< of a weight in 4 bits
  ir::ValueId scales = ir::no_id;     ///< of a quantized weight: one a block, or one a row
  ir::ValueId nested = ir::no_id;     ///< scales in 8 bits: their own, one a block
  ir::ValueId offset = ir::no_id;     ///< and what is added to them
  ir::ValueId lora_a = ir::no_id;     ///< [rank, in]
  ir::ValueId lora_b = ir::no_id;     ///< [out, rank]
  ir::ValueId magnitude = ir::no_id;  ///< DoRA: [out]
  std::vector<ir::ValueId> adapter;   ///< of PEFT's other methods, in the order they are declared
  ir::ValueId fp8 = ir::no_id, fp8_turned = ir::no_id;  ///< Transformer Engine's copies in 8 bits
  std::int64_t in = 0, out = 0;
  bool input_first = false;  ///< the weight is [in, out]
};

/// PEFT's adapter of a stack of matrices: A [rank * matrices, in] and B [out, rank * matrices].
struct LowRankValues {
  ir::ValueId a = ir::no_id, b = ir::no_id;
};

/// What one block reads, by the names of transformers' modules; no_id where it has none.
struct BlockValues {
  ir::ValueId norm1 = ir::no_id, norm2 = ir::no_id;
  ir::ValueId norm1_bias = ir::no_id, norm2_bias = ir::no_id;
  ir::ValueId post_attention_norm = ir::no_id, post_mlp_norm = ir::no_id;
  LinearValues q, k, v, o, qkv, gate, up, gate_up, down;
  /// Those, whether the block has them or not.
  [[nodiscard]] std::array<const LinearValues*, 9> linear_layers() const {
    return {&q, &k, &v, &o, &qkv, &gate, &up, &gate_up, &down};
  }
  LinearValues q_a, q_b, kv_a, kv_b;  ///< of latent attention, with
  ir::ValueId q_a_norm = ir::no_id, kv_a_norm = ir::no_id;
  ir::ValueId sinks = ir::no_id;  ///< [heads]
  ir::ValueId q_norm = ir::no_id, k_norm = ir::no_id;
  ir::ValueId q_norm_bias = ir::no_id, k_norm_bias = ir::no_id;
  ir::ValueId router = ir::no_id, experts_gate_up = ir::no_id, experts_down = ir::no_id;
  ir::ValueId router_bias = ir::no_id;  ///< and of the experts: [experts, width]
  ir::ValueId experts_gate_up_bias = ir::no_id, experts_down_bias = ir::no_id;
  /// Of TorchTitan's experts, which have gate and up apart: [experts, width, hidden].
  ir::ValueId experts_gate = ir::no_id, experts_up = ir::no_id;
  ir::ValueId score_correction = ir::no_id, tokens_per_expert = ir::no_id;  ///< [experts]
  LowRankValues router_adapter, gate_up_adapter, down_adapter;
  LinearValues shared_gate;        ///< [1, hidden]; gate, up and down are the shared expert's
  ir::ValueId angles = ir::no_id;  ///< [positions, rotated]: sines and cosines (gptj)
  /// Of a gated delta net, whose qkv and o are as attention's; one a head of values, but for the
  /// convolution's [channels, 1, taps] and the norm's [value_dim].
  ir::ValueId dt_bias = ir::no_id, a_log = ir::no_id;
  ir::ValueId conv = ir::no_id, gated_norm = ir::no_id;
  LinearValues ba;
  LinearValues z, b, a;  ///< of one whose gates and both rates are projections of their own
  std::vector<LinearValues> first_of_expert, second_of_expert;  ///< Megatron-core: on this rank
};

/// A gradient as a matrix, and its factors: views of a bucket and of what its hook keeps.
struct FactoredGradient {
  std::int64_t rows = 0, columns = 0, rank = 0;
  std::int64_t in_bucket = 0, in_p = 0, in_q = 0;  ///< elements before it
};

/// What a communication hook of DistributedDataParallel keeps of a bucket between steps.
struct CompressedBucket {
  ir::ValueId bucket = ir::no_id;
  ir::ValueId error = ir::no_id;                             ///< what was not sent yet
  ir::ValueId p = ir::no_id, q = ir::no_id;                  ///< PowerSGD's factors; no_id: none
  std::vector<FactoredGradient> factored;                    ///< in the order of the bucket
  std::vector<std::pair<std::int64_t, std::int64_t>> whole;  ///< others: begin, elements
};

/// What one layer of an encoder of images reads.
struct TowerLayerValues {
  LinearValues k, v, q, o, up, down;
  LinearValues qkv, gate;  ///< of encoders of images of any size
  ir::ValueId norm1 = ir::no_id, norm1_bias = ir::no_id;
  ir::ValueId norm2 = ir::no_id, norm2_bias = ir::no_id;
};

/// What makes tokens of an encoder's merged patches.
struct MergerValues {
  ir::ValueId norm = ir::no_id, norm_bias = ir::no_id;
  LinearValues first, second;
};

/// What an encoder of images that runs reads.
struct TowerValues {
  ir::ValueId pixels = ir::no_id;  ///< (images, channels, rows, columns), or (patches, inner), fp32
  ir::ValueId class_token = ir::no_id, patch = ir::no_id;
  ir::ValueId positions = ir::no_id, places = ir::no_id;  ///< a table, and the rows taken
  ir::ValueId norm = ir::no_id, norm_bias = ir::no_id;
  ir::ValueId last_norm = ir::no_id, last_norm_bias = ir::no_id;
  std::vector<TowerLayerValues> layers;
  LinearValues first, second;  ///< the projector's
  // Of images of any size:
  ir::ValueId patch_bias = ir::no_id, inv_freq = ir::no_id;
  ir::ValueId grids = ir::no_id;        ///< (images, 3): frames, rows and columns of patches
  ir::ValueId token_types = ir::no_id;  ///< (B, S): which tokens are images'
  MergerValues merger;
  std::vector<MergerValues> taps;
};

/// A buffer that is made before the step while the one that it replaces is there, and what it is
/// made of: bytes, in the order in which they are asked for, all given back when it is there.
struct MadeAnew {
  ir::ValueId buffer = ir::no_id;
  std::vector<std::int64_t> beside;
};

/// What exists before the step, by name. Made by the pass `declare`.
struct ModelValues {
  ir::ValueId ids = ir::no_id, labels = ir::no_id;
  /// Of a packed row: its tokens' positions, and where its documents begin, of queries and of keys.
  ir::ValueId position_ids = ir::no_id, cu_seqlens_q = ir::no_id, cu_seqlens_k = ir::no_id;
  ir::ValueId embed = ir::no_id, final_norm = ir::no_id, lm_head = ir::no_id;
  LinearValues value_head;  ///< [1, hidden] and a bias, beside the LM head
  ir::ValueId positions = ir::no_id, final_norm_bias = ir::no_id, lm_head_bias = ir::no_id;
  ir::ValueId embed_norm = ir::no_id, embed_norm_bias = ir::no_id;
  ir::ValueId embed_scale = ir::no_id;  ///< of a scaled embedding
  /// Of PEFT's methods: learned tokens, (tokens, width), and the layers that they go through first;
  /// VeRA's two random matrices that all layers share.
  ir::ValueId prompt = ir::no_id;
  std::vector<LinearValues> prompt_encoder;
  ir::ValueId shared_a = ir::no_id, shared_b = ir::no_id;
  std::vector<ir::ValueId> inv_freq;  ///< one a rotary table
  std::vector<BlockValues> blocks;
  LinearValues head;                      ///< litgpt's, which may have an adapter
  ir::ValueId memory_buffer = ir::no_id;  ///< Megatron-core's GlobalMemoryBuffer
  TowerValues tower;                      ///< of a step with images
};

/// What the optimizer updates, whole parameters, shards or a flat partition, and what it reads.
struct OptimizedTensor {
  ir::ValueId parameter = ir::no_id;
  ir::ValueId gradient = ir::no_id;
};

/// Of fsdp1: a unit's parameters one after the other, of which each rank has an equal part.
struct FlatParameter {
  std::vector<std::size_t> parameters;     ///< indices into StepProgram::parameters
  std::vector<std::int64_t> begin;         ///< elements before each of them
  std::vector<std::int64_t> padding;       ///< the pieces between them and at the end, in elements
  std::int64_t numel = 0;                  ///< with these
  ir::ValueId shard = ir::no_id;           ///< this rank's part
  ir::ValueId whole_gradient = ir::no_id;  ///< what is added up while nothing is reduced
  ir::ValueId gradient = ir::no_id;        ///< this rank's part of what was reduced
};

/// What a rank keeps under DeepSpeed's ZeRO 3, beside its masters.
struct Zero3Values {
  ir::ValueId partitions = ir::no_id;  ///< of all parameters, in the compute dtype
  ir::ValueId gradients = ir::no_id;   ///< of all their partitions
  ir::ValueId bucket = ir::no_id;
  std::vector<bool> is_persistent;      ///< by parameter: whole between steps
  std::vector<ir::ValueId> persistent;  ///< those; no_id: it is not
  std::vector<ir::ValueId> reduced;     ///< made on the stream of reductions
};

/// Primitive ops that one fused kernel can replace: `ops` in program order, what they read and what
/// they leave behind. Made by lowering, used by `fuse`.
struct Chain {
  ir::OpKind fused{};
  std::vector<ir::OpId> ops;
  std::vector<ir::ValueId> inputs;
  ir::ValueId output = ir::no_id;
  ir::ValueId second_output = ir::no_id;  ///< k of a rotated (q, k) pair
  ir::Attributes attributes;              ///< of the fused op
};

/// Ops of a layer, from `begin` before `end`, that are recomputed by themselves. `hook`: what they
/// made is let go of in forward, and is there again before the backward of that op's node.
struct RecomputedPart {
  ir::OpId begin = ir::no_id, end = ir::no_id, hook = ir::no_id;
  std::vector<ir::ValueId> outputs;  ///< where there is a hook
  std::int32_t region = ir::no_id;   ///< given by the pass `regions`
};

/// What a stage has of one micro-batch at its ends: what it receives, makes and sends.
struct StageEnds {
  ir::ValueId input = ir::no_id;            ///< hidden states; no_id: token ids
  ir::ValueId input_gradient = ir::no_id;   ///< after differentiate
  ir::ValueId output = ir::no_id;           ///< hidden states, of the last stage logits
  ir::ValueId output_gradient = ir::no_id;  ///< of the last stage no_id: it begins at the loss
};

/// Ops from `begin` on run so often in a step; the optimizer's once.
struct Stretch {
  ir::OpId begin = 0;
  std::int64_t runs = 1;
};

/// Whether the stage has the module.
[[nodiscard]] inline bool has(const StageBlocks& stage, ir::ModulePath module) {
  if (module.block >= 0) return module.block >= stage.first && module.block < stage.end;
  return module.leaf == ir::Module::embed ? stage.embedding : stage.head;
}

/// A value that outlives the step, and the one that stands for it in the next.
struct Carried {
  ir::ValueId made = ir::no_id, before = ir::no_id;
};

/// The program of a step on its way through the passes, with what they need to know of the model.
struct StepProgram {
  ir::Program program;
  ModelValues model;
  /// Of a task with a reference that runs: its own parameters, or the model's without adapters.
  ModelValues reference;
  /// Log-probabilities of chosen and rejected answers, or of completions, that the batch carries.
  std::array<ir::ValueId, 2> precomputed{ir::no_id, ir::no_id};
  /// Of completions that the model writes between steps, beside what is resident: an estimate.
  std::int64_t generation_bytes = 0;
  std::vector<Parameter> parameters;  ///< in the order of `model.parameters()`
  bool ties_embedding = false;        ///< its configuration says so, whether it has a head or not
  std::vector<Chain> chains;
  std::vector<ir::ValueId> inputs;     ///< token ids and labels
  std::vector<ir::ValueId> buffers;    ///< rotary frequencies
  std::vector<MadeAnew> made_anew;     ///< of `buffers`
  std::vector<ir::ValueId> resident;   ///< alive before, through and after the step
  std::vector<ir::ValueId> surviving;  ///< made in the step, alive at its end: the gradients
  std::vector<ir::OpId> micro_begin;   ///< first op of each micro-batch (of each stage) written
  std::vector<StageBlocks> stages;     ///< that this rank has: one, but for interleaved pipelines
  std::size_t chunk = 0;               ///< of `stages`: whose ops are written
  std::vector<StageEnds> ends;         ///< beside micro_begin; empty without a pipeline
  WrittenSchedule schedule;            ///< of a pipeline's rank
  /// Beside micro_begin, of schedules that split backwards: the first op of the weights' part;
  /// no_id: the backward is whole.
  std::vector<ir::OpId> weight_begin;
  /// Of each stage, what it receives of each micro-batch that is written: activation, gradient.
  std::vector<std::vector<StageEnds>> received;
  /// Of each send_recv, by its attribute: its inputs' messages, in their order.
  std::vector<std::vector<Message>> exchanges;
  std::vector<Stretch> stretches;          ///< of a pipeline: of each action of its schedule
  std::vector<ir::ValueId> leaves;         ///< activations that are made to require a gradient
  std::vector<ir::ValueId> graph_held;     ///< of this micro-batch: what lives as long as its graph
  std::vector<ir::ValueId> outputs;        ///< what the training loop may hold: design, section 9
  std::vector<OptimizedTensor> optimized;  ///< as trained parameters, unless partitioned
  /// Tensor parallelism: of this rank, whose optimizer is given gradients that are not like their
  /// parameters, and makes them so for each op; -1: they are.
  std::int64_t redistributes_for = -1;
  std::vector<FlatParameter> flat;  ///< of fsdp1: of each block, then the root's
  /// Of --offload optimizer: of them, those that the host steps, in the order in which this
  /// micro-batch completed their gradients.
  std::vector<OptimizedTensor> on_host;
  std::vector<CompressedBucket> compressed;   ///< of --grad-compression, in the order of buckets
  std::vector<ir::ValueId> optimizer_states;  ///< step, exp_avg, exp_avg_sq of each of them
  std::vector<ir::ValueId> losses;            ///< of each micro-batch in the program
  ir::ValueId loss = ir::no_id;               ///< of the last one
  ir::ValueId hidden = ir::no_id;             ///< final hidden state
  std::int32_t blocks = 0;
  std::int32_t regions = 0;           ///< checkpoint regions so far, over all micro-batches
  std::vector<RecomputedPart> parts;  ///< of this micro-batch of this stage, in order
  Zero3Values zero3;
  ir::ValueId zero_buffer = ir::no_id;    ///< zero1, zero2: for gradients that come from the host
  ir::ValueId averaged = ir::no_id;       ///< zero2: gradients kept so far; zero1: the bucket
  ir::ValueId second_bucket = ir::no_id;  ///< zero1, zero2 with --overlap-comm
  std::vector<ir::ValueId> set_up;        ///< parameters as made, until a framework has copied them
  double loss_scale = 1.0;                ///< what backward starts from: 1 / grad_accum
  ir::ValueId scale = ir::no_id;          ///< fp16: what the gradient scaler multiplies the loss by
  ir::ValueId found_inf = ir::no_id;      ///< and whether a gradient was not finite
  /// Of an imported graph: its storages' values while they are there, by its own numbers.
  std::vector<ir::ValueId> captured;
  std::vector<ir::ValueId> in_line;  ///< fsdp2: buffers of gathers that have no stream of their own
  bool loss_outside = false;         ///< the loss is no part of the module that is sharded
  /// Of a loop that binds its names anew only when the next forward is done: what this step leaves,
  /// and as what it is there while the next one begins.
  std::vector<Carried> carried;
  std::vector<Carried> routes;          ///< by block, of TorchTitan's --ep: where rows went last
  ir::ValueId loss_before = ir::no_id;  ///< of the step before; no_id: it is gone by then
  std::vector<ir::ValueId> outputs_before;  ///< of the micro-batch before, or of the step before
  std::vector<ir::ValueId> graph_before;    ///< and what its graph holds
};

/// Micro-batches that are written out: the first, one that stands for those that follow it, and
/// where it alone reduces gradients (--no-sync, zero1) or has them leave for the host's step (a
/// zero with --offload) the last.
[[nodiscard]] inline std::int64_t micro_batches_written(const StepConfig& config) {
  if (config.layout.pp > 1) return written_schedule(pipeline_rank(config)).micro_batches;
  const bool last_apart = config.layout.no_sync ||
                          (config.layout.shard == Sharding::zero1 && !config.megatron()) ||
                          (config.layout.zero() && config.memory.offload != Offload::none);
  return std::min<std::int64_t>(config.run.grad_accum, last_apart ? 3 : 2);
}
/// How often the written micro-batch `index` of `written` runs in a step.
[[nodiscard]] inline std::int64_t micro_batch_runs(std::size_t index, std::size_t written,
                                                   std::int64_t grad_accum) {
  if (index != 1) return 1;
  return grad_accum - static_cast<std::int64_t>(written) + 1;
}
/// The written one that the step's micro-batch `micro` runs.
[[nodiscard]] inline std::size_t written_micro_batch(std::int64_t micro, std::size_t written,
                                                     std::int64_t grad_accum) {
  if (micro == 0) return 0;
  return written == 3 && micro == grad_accum - 1 ? 2 : 1;
}

/// How often each written op runs.
[[nodiscard]] inline std::vector<Stretch> stretches_of(const StepProgram& step,
                                                       std::int64_t grad_accum) {
  if (!step.stretches.empty()) return step.stretches;
  std::vector<Stretch> all;
  for (std::size_t i = 0; i < step.micro_begin.size(); ++i)
    all.push_back({step.micro_begin[i], micro_batch_runs(i, step.micro_begin.size(), grad_accum)});
  return all;
}

}  // namespace ac_advisor::passes
