#include "frame_marks.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace ac_advisor::oom {
namespace {

struct Row {
  std::string_view file, function, source;  ///< parts of a frame's; empty: any
  Role role;
  std::string_view words;
};

/// Looked through for each frame, innermost frame first; the first that meets it decides. Sources
/// before functions before files: what the line says is nearer to the tensor.
constexpr Row rows[] = {
    // The vocabulary's rows.
    {"", "entropy_from_logits", "", Role::logits, "softmax of the logits, for their entropy"},
    {"", "", "entropy_from_logits", Role::logits, "softmax of the logits, for their entropy"},
    {"", "compute_distributed_log_softmax", "", Role::logits, "exponentials of the logits"},
    {"", "vocab_parallel_cross_entropy", "", Role::logits, "logits of the vocabulary's part"},
    {"", "", "vocab_parallel", Role::logits, "logits of the vocabulary's part"},
    {"", "log_softmax", "", Role::logits, "log-softmax of the logits"},
    {"", "", "log_softmax", Role::logits, "log-softmax of the logits"},
    {"", "", "logsumexp(", Role::logits, "exponentials of the logits"},
    {"", "", "logits.float()", Role::logits, "logits cast to fp32"},
    {"", "", "logits.to(torch.float32", Role::logits, "logits cast to fp32"},
    {"", "", "logits.to(dtype=torch.float32", Role::logits, "logits cast to fp32"},
    {"", "", "upcast", Role::logits, "logits cast to fp32"},
    {"", "", "logits.clone()", Role::logits, "a copy of the logits"},
    {"", "", "logits[", Role::logits, "a copy of the logits"},
    {"", "", "logits.div", Role::logits, "a copy of the logits"},
    {"", "", "logits / ", Role::logits, "logits divided by the temperature"},
    {"", "", "shift_logits", Role::logits, "a copy of the logits"},
    {"", "cross_entropy", "", Role::logits, "log-softmax of the logits, by the cross-entropy"},
    {"", "", "cross_entropy", Role::logits, "log-softmax of the logits, by the cross-entropy"},
    {"", "CausalLMLoss", "", Role::logits, "logits, for the loss"},
    {"", "", "logits.sort", Role::logits, "the logits, sorted"},
    {"", "", "logits.softmax", Role::logits, "softmax of the logits"},
    {"", "", "softmax(logits", Role::logits, "softmax of the logits"},
    {"", "", "logits.exp(", Role::logits, "exponentials of the logits"},
    {"", "", "lm_head(", Role::logits, "logits"},
    {"", "", "output_layer(", Role::logits, "logits"},
    {"", "logprobs", "", Role::logits, "logits, for their log-probabilities"},
    {"", "log_probs", "", Role::logits, "logits, for their log-probabilities"},
    {"", "logps", "", Role::logits, "logits, for their log-probabilities"},
    // The optimizer.
    {"clip_grad.py", "", "", Role::temporary, "the gradients' norm"},
    {"", "_init_group", "", Role::state, "the optimizer's states"},
    {"", "init_state", "", Role::state, "the optimizer's states"},
    {"", "initialize_optimizer_states", "", Role::state, "the optimizer's states"},
    {"", "", "exp_avg_sq_sqrt", Role::temporary, "the foreach optimizer's temporaries"},
    {"", "", "_foreach_", Role::temporary, "the foreach optimizer's temporaries"},
    {"", "", "exp_avg", Role::state, "the optimizer's moments"},
    {"", "", "main_param = ", Role::state, "fp32 copies of the parameters"},
    {"bitsandbytes/optim", "", "", Role::state, "the optimizer's states"},
    {"/optim/", "_multi_tensor", "", Role::temporary, "the foreach optimizer's temporaries"},
    {"stage_1_and_2.py", "flatten", "", Role::parameter, "a flat buffer of parameters"},
    {"stage_1_and_2.py", "__init__", "", Role::state, "a flat fp32 partition"},
    {"stage3.py", "_create_fp32_partitions", "", Role::state, "an fp32 partition"},
    {"", "caching_allocator_warmup", "", Role::state, "room for all that is loaded next"},
    // Ranks.
    {"fsdp/", "flat", "", Role::gathered, "an FSDP unit, made flat"},
    {"fsdp/", "unshard", "", Role::gathered, "an FSDP unit, gathered"},
    {"fsdp", "all_gather", "", Role::gathered, "an FSDP unit, gathered"},
    {"fsdp", "foreach_reduce", "", Role::gradient, "an FSDP unit's gradients, reduced"},
    {"fsdp/", "_post_backward_hook", "", Role::gradient, "an FSDP unit's gradients, reduced"},
    {"", "full_tensor", "", Role::gathered, "a parameter, gathered whole"},
    {"", "_summon_full_params", "", Role::gathered, "an FSDP unit, gathered"},
    {"deepspeed", "all_gather", "", Role::gathered, "parameters of ZeRO 3, gathered"},
    {"distributed_c10d.py", "all_gather", "", Role::gathered, "what is gathered from the ranks"},
    {"partition_parameters.py", "", "", Role::gathered, "parameters of ZeRO 3, gathered"},
    {"partitioned_param_coordinator.py", "", "", Role::gathered, "parameters of ZeRO 3, gathered"},
    {"nn/parallel/distributed.py", "_ddp_init_helper", "", Role::gradient,
     "DistributedDataParallel's bucket"},
    {"nn/parallel/distributed.py", "", "_rebuild_buckets", Role::gradient,
     "DistributedDataParallel's bucket"},
    {"deepspeed", "", "ipg_bu", Role::gradient, "ZeRO's bucket of gradients"},
    {"deepspeed", "", "grad_partitions_flat_buffer", Role::gradient, "ZeRO 3's flat gradients"},
    {"param_and_grad_buffer.py", "", "", Role::gradient, "Megatron-core's buffer of gradients"},
    {"", "flatten_dense_tensors", "", Role::gradient, "a flat buffer"},
    {"", "", "_flatten_dense_tensors", Role::gradient, "a flat buffer"},
    // Attention and generation.
    {"cache_utils.py", "", "", Role::kv_cache, "the KV cache"},
    {"", "", "past_key_values.update", Role::kv_cache, "the KV cache"},
    {"", "", "past_key_value.update", Role::kv_cache, "the KV cache"},
    {"", "allocate_kv_cache", "", Role::kv_cache, "the engine's KV blocks"},
    {"bert_padding.py", "", "", Role::activation, "rows without padding, as flash-attn has them"},
    {"", "", "softmax(attn_weights", Role::scores, "attention scores"},
    {"", "", "softmax(scores", Role::scores, "attention scores"},
    {"", "eager_attention_forward", "", Role::scores, "attention scores"},
    {"", "", "matmul(query", Role::scores, "attention scores"},
    {"", "", "attn_weights", Role::scores, "attention scores"},
    {"", "", "repeat_kv(", Role::activation, "keys or values, repeated for each query head"},
    {"", "causal_mask", "", Role::mask, "the attention mask"},
    {"", "", "causal_mask", Role::mask, "the attention mask"},
    {"", "_canonical_mask", "", Role::mask, "the attention mask"},
    {"masking_utils.py", "", "", Role::mask, "the attention mask"},
    // Parameters.
    {"", "", "Params4bit", Role::parameter, "a weight in 4 bits, loaded"},
    {"bitsandbytes/nn", "to", "", Role::parameter, "a weight in 8 bits or in 4 bits, moved"},
    {"", "dequantize", "", Role::parameter, "a weight, dequantized"},
    {"", "", "dequantize", Role::parameter, "a weight, dequantized"},
    {"", "", "fp32_from_fp16", Role::parameter, "parameters cast to fp32"},
    {"", "", "param.to(", Role::parameter, "a parameter, moved or cast"},
    {"", "", "param.data.to(", Role::parameter, "a parameter, moved or cast"},
    {"nn/modules/module.py", "convert", "", Role::parameter, "a parameter, moved or cast"},
    {"nn/modules/module.py", "_apply", "", Role::parameter, "a parameter, moved or cast"},
    {"", "load_state_dict", "", Role::parameter, "a parameter, loaded"},
    {"", "set_module_tensor_to_device", "", Role::parameter, "a parameter, loaded"},
    {"", "from_pretrained", "", Role::parameter, "a parameter, loaded"},
    {"", "create_weights", "", Role::parameter, "a parameter, made by the engine"},
    // Layers.
    {"", "", "act_fn(", Role::activation, "the MLP's activation"},
    {"", "", "gate_proj(", Role::activation, "the MLP's projection"},
    {"", "", "up_proj(", Role::activation, "the MLP's projection"},
    {"", "", "down_proj(", Role::activation, "the MLP's output"},
    {"", "", "q_proj(", Role::activation, "the queries"},
    {"", "", "o_proj(", Role::activation, "attention's output"},
    {"", "", "lora_B(", Role::activation, "an adapter's output"},
    {"moe", "permute", "", Role::activation, "tokens as experts have them"},
    {"", "", "scaled_dot_product_attention(", Role::unknown, "attention"},
    {"", "apply_rotary", "", Role::activation, "queries and keys, rotated"},
    {"", "RMSNorm", "", Role::activation, "a norm's input in fp32"},
    {"", "", "hidden_states.to(torch.float32)", Role::activation, "a norm's input in fp32"},
    {"", "", ".to(torch.float32)", Role::unknown, "a cast to fp32"},
};

struct PhaseRow {
  std::string_view file, function, source;
  std::string_view phase;
};
/// The first that any frame meets, outermost first but in this order: a generation runs a forward,
/// a backward recomputes one.
constexpr PhaseRow phases[] = {
    {"generation/", "generate", "", "generation"},
    {"", "generate_sequences", "", "generation"},
    {"", "_generate", "", "generation"},
    {"", "", ".generate(", "generation"},
    {"", "_sample", "", "generation"},
    {"", "determine_num_available_blocks", "", "the engine's start"},
    {"", "profile_run", "", "the engine's start"},
    {"", "recompute", "", "backward, recomputing"},
    {"", "unpack_hook", "", "backward, recomputing"},
    {"/optim/", "step", "", "optimizer"},
    {"optimizer.py", "step", "", "optimizer"},
    {"stage_1_and_2.py", "step", "", "optimizer"},
    {"stage3.py", "step", "", "optimizer"},
    {"", "_engine_run_backward", "", "backward"},
    {"", "backward", "", "backward"},
    {"", "", ".backward(", "backward"},
    {"", "compute_log_prob", "", "the forward pass for log-probabilities"},
    {"", "get_logprobs", "", "the forward pass for log-probabilities"},
    {"", "get_reference", "", "the reference model's forward pass"},
    {"", "compute_ref_log_prob", "", "the reference model's forward pass"},
    {"", "evaluation_loop", "", "evaluation"},
    {"", "cross_entropy", "", "loss"},
    {"", "CausalLMLoss", "", "loss"},
    {"", "loss_fn", "", "loss"},
    {"", "loss_func", "", "loss"},
    {"", "training_step", "", "forward"},
    {"", "forward", "", "forward"},
    {"", "from_pretrained", "", "set-up"},
    {"", "load_state_dict", "", "set-up"},
    {"", "_apply", "", "set-up"},
    {"nn/modules/module.py", "convert", "", "set-up"},
    {"", "__init__", "", "set-up"},
};

constexpr bool has(std::string_view text, std::string_view part) {
  return part.empty() || text.find(part) != std::string_view::npos;
}

/// Each row is reached: none before it is met by all that meets it.
template <typename AnyRow, std::size_t n>
constexpr bool all_reached(const AnyRow (&table)[n]) {
  for (std::size_t later = 0; later < n; ++later)
    for (std::size_t first = 0; first < later; ++first)
      if (has(table[later].file, table[first].file) &&
          has(table[later].function, table[first].function) &&
          has(table[later].source, table[first].source))
        return false;
  return true;
}
static_assert(all_reached(rows) && all_reached(phases));

template <typename AnyRow>
bool meets(const Frame& frame, const AnyRow& row) {
  return has(frame.file, row.file) && has(frame.function, row.function) &&
         has(frame.source, row.source);
}

std::int64_t element_of(std::string_view source) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 8> sizes{{{"torch.float32", 4},
                                                                            {"torch.float16", 2},
                                                                            {"torch.bfloat16", 2},
                                                                            {"torch.int64", 8},
                                                                            {"torch.int32", 4},
                                                                            {"torch.uint8", 1},
                                                                            {"torch.int8", 1},
                                                                            {"torch.bool", 1}}};
  for (const auto& [name, size] : sizes)
    if (has(source, name)) return size;
  return 0;
}

/// Inductor's `buf9 = empty_strided_cuda((s10, 1, 76032), (76032, 76032*s10, 1), torch.float32)`:
/// the last number of the shape, and the dtype.
void read_compiled(const Frame& frame, Marks& marks) {
  const std::size_t at = frame.source.find("empty_strided_cuda((");
  if (at == std::string::npos) return;
  const std::size_t begin = at + std::string_view("empty_strided_cuda((").size(),
                    end = frame.source.find(')', begin);
  if (end == std::string::npos) return;
  std::string shape = frame.source.substr(begin, end - begin);
  while (!shape.empty() && (shape.back() == ' ' || shape.back() == ',')) shape.pop_back();
  const std::size_t comma = shape.rfind(' ');
  const std::string last = comma == std::string::npos ? shape : shape.substr(comma + 1);
  const auto [stop, error] = std::from_chars(last.data(), last.data() + last.size(), marks.width);
  if (error != std::errc() || stop != last.data() + last.size()) marks.width = 0;
  marks.element = element_of(frame.source);
}

std::string short_place(const Frame& frame) {
  std::string_view file = frame.file;
  constexpr std::string_view packages = "-packages/";  // site-packages/, Debian's dist-packages/
  constexpr std::size_t longest = 60;
  if (const std::size_t at = file.rfind(packages); at != std::string_view::npos)
    file.remove_prefix(at + packages.size());
  else if (file.size() > longest)
    file.remove_prefix(std::min(file.find('/', file.size() - longest), file.size() - longest) + 1);
  return file.empty() ? std::string() : std::string(file) + ":" + std::to_string(frame.line);
}

/// ".../models/qwen2/modeling_qwen2.py": "qwen2", of the innermost frame that has such a file.
std::string model_type_of(std::span<const Frame> frames) {
  constexpr std::string_view before = "/modeling_", after = ".py";
  for (std::size_t i = frames.size(); i-- > 0;) {
    const std::string_view file = frames[i].file;
    const std::size_t at = file.rfind(before);
    if (at == std::string_view::npos || !file.ends_with(after)) continue;
    std::string_view type = file.substr(at + before.size());
    type.remove_suffix(after.size());
    const std::size_t folder = file.rfind('/', at - 1) + 1;  // npos + 1 is 0
    if (at > 0 && file.substr(folder, at - folder) == type) return std::string(type);
  }
  return "";
}

}  // namespace

Marks marks_of(std::span<const Frame> frames) {
  Marks marks;
  if (frames.empty()) return marks;
  for (std::size_t i = frames.size(); i-- > 0 && marks.words.empty();)
    for (const Row& row : rows)
      if (meets(frames[i], row)) {
        marks.role = row.role;
        marks.words = row.words;
        marks.where = short_place(frames[i]);
        break;
      }
  for (const PhaseRow& row : phases) {
    if (std::none_of(frames.begin(), frames.end(), [&](const Frame& f) { return meets(f, row); }))
      continue;
    marks.phase = row.phase;
    break;
  }
  read_compiled(frames.back(), marks);
  marks.model_type = model_type_of(frames);
  return marks;
}

}  // namespace ac_advisor::oom
