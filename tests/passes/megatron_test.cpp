// Megatron-core's step: what Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
// Transformer Models" (arXiv 2205.05198), count of a layer, and the bytes that the optimizers of
// Megatron-core hold a parameter (docs/user-guide/features/dist_optimizer.md).
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/memory.hpp"

namespace ac_advisor::test {
namespace {

constexpr std::int64_t h = 64, heads = 4, s = 32, b = 2, vocab = 512;

model::ModelSpec gpt(std::int64_t layers, const std::string& more = "") {
  return model::parse_config(
      R"({"model_type": "megatron", "num_layers": )" + std::to_string(layers) +
          R"(, "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 32,)"
          R"( "vocab_size": 512)" +
          more + "}",
      "gpt.json", "gpt");
}

StepConfig config(TransformerImpl impl = TransformerImpl::transformer_engine) {
  StepConfig c;
  c.run.batch = b;
  c.run.seq = s;
  c.run.transformer_impl = impl;
  c.run.attention = Attention::eager;
  c.memory.kernels = Kernels::fused;
  c.precision.reduce_dtype = DType::f32;
  c.memory.hold_output = false;
  return c;
}

struct Bytes {
  std::int64_t resident, at_loss;
};

Bytes bytes_of(const model::ModelSpec& spec, const StepConfig& c) {
  const passes::StepProgram step = passes::build_step(spec, c);
  simulate::MemoryModel exact;
  exact.round_to_512 = exact.workspaces = false;
  const simulate::MemoryTrace trace =
      simulate::walk_memory(step, passes::make_schedule(step), exact);
  return {trace.resident, trace.peak_by_phase[static_cast<std::size_t>(ir::Phase::loss)]};
}

std::int64_t sums_of_gradients(const model::ModelSpec& spec, const StepConfig& c) {
  const passes::StepProgram step = passes::build_step(spec, c);
  return std::count_if(step.program.ops.begin(), step.program.ops.end(),
                       [](const ir::Op& op) { return op.kind == ir::OpKind::accumulate_inplace; });
}

/// What one more layer saves of a micro-batch, without parameters, gradients and states.
std::int64_t saved_by_layer(const StepConfig& c, const std::string& more = "") {
  const Bytes two = bytes_of(gpt(2, more), c), three = bytes_of(gpt(3, more), c);
  return three.at_loss - two.at_loss - (three.resident - two.resident);
}

StepConfig recomputing(std::initializer_list<LayerPart> parts,
                       TransformerImpl impl = TransformerImpl::transformer_engine) {
  StepConfig c = config(impl);
  c.memory.ac = AcMode::modules;
  for (LayerPart part : parts) c.memory.ac_arg |= std::int64_t{1} << static_cast<int>(part);
  return c;
}

/// Mean and scale of two norms, which the paper leaves out.
constexpr std::int64_t norm_statistics(std::int64_t tokens) { return 2 * 2 * 4 * tokens; }

std::int64_t elements_of_layer() {
  return (h * 3 * h + 3 * h) + (h * h + h) + (h * 4 * h + 4 * h) + (4 * h * h + h) + 2 * 2 * h;
}
std::int64_t elements_of_ends() { return vocab * h + s * h + 2 * h; }

}  // namespace

TEST_CASE(
    "a checkpoint of a part saves what the part is given, an output that is let go of nothing") {
  const std::int64_t sbh = s * b * h, scores = 5 * heads * s * s * b,
                     norms = norm_statistics(s * b);
  constexpr TransformerImpl local = TransformerImpl::local;
  // Queries, keys and values stay, and what attention's core makes of them.
  CHECK(saved_by_layer(recomputing({LayerPart::core_attn})) == 34 * sbh + norms);
  // Both norms' outputs, and their means and scales.
  CHECK(saved_by_layer(recomputing({LayerPart::layernorm}, local)) == 30 * sbh + scores);
  CHECK(saved_by_layer(recomputing({LayerPart::layernorm, LayerPart::core_attn}, local)) ==
        30 * sbh);
  // Transformer Engine's are one function with the layers after them.
  CHECK(saved_by_layer(recomputing({LayerPart::layernorm})) == 34 * sbh + scores + norms);
  // 2 of the norm's output, 8 of the first product's, 8 of the activation's.
  const char* no_bias = R"(, "disable_bias_linear": true)";
  CHECK(saved_by_layer(config(), no_bias) -
            saved_by_layer(recomputing({LayerPart::mlp}), no_bias) ==
        18 * sbh + norms / 2);
}

TEST_CASE("first:N recomputes the first layers of each stage") {
  StepConfig c = config();
  c.memory.ac = AcMode::first;
  c.memory.ac_arg = 2;
  const passes::StepProgram step = passes::build_step(gpt(3), c);
  std::map<std::int16_t, int> recomputed;
  for (const ir::Op& op : step.program.ops)
    if (op.phase == ir::Phase::recompute) ++recomputed[op.module.block];
  CHECK(recomputed.size() == 2);
  CHECK(recomputed[0] == recomputed[1]);
}

TEST_CASE("an output that was let go of is copied to where it was saved, once a layer") {
  const passes::StepProgram step =
      passes::build_step(gpt(2), recomputing({LayerPart::layernorm}, TransformerImpl::local));
  const auto in_recompute = [&](ir::OpKind kind) {
    return std::count_if(step.program.ops.begin(), step.program.ops.end(), [&](const ir::Op& op) {
      return op.phase == ir::Phase::recompute && op.kind == kind;
    });
  };
  CHECK(in_recompute(ir::OpKind::layer_norm) == 4);
  CHECK(in_recompute(ir::OpKind::clone) == 4);
}

TEST_CASE("a layer saves sbh (34 + 5 a s / h) bytes, in parts what the paper's table 2 says") {
  const std::int64_t sbh = s * b * h, scores = 5 * heads * s * s * b;
  StepConfig c = config();
  CHECK(saved_by_layer(c) == 34 * sbh + scores + norm_statistics(s * b));
  c.run.transformer_impl = TransformerImpl::local;
  CHECK(saved_by_layer(c) == 34 * sbh + scores + norm_statistics(s * b));
  for (const std::int64_t t : {2, 4}) {
    CAPTURE(t);
    c.run.transformer_impl = TransformerImpl::transformer_engine;
    c.layout.tp = c.layout.world = t;
    c.layout.sequence_parallel = false;
    CHECK(saved_by_layer(c) == 10 * sbh + 24 * sbh / t + scores / t + norm_statistics(s * b));
    c.layout.sequence_parallel = true;
    CHECK(saved_by_layer(c) == (34 * sbh + scores) / t + norm_statistics(s * b / t));
  }
}

TEST_CASE("in FP8 a product's input is saved in 8 bits, and weights stay in 8 bits twice") {
  const std::int64_t sbh = s * b * h, scores = 5 * heads * s * s * b;
  constexpr std::int64_t number = 4;  // a scale
  StepConfig c = config();
  const std::int64_t plain = bytes_of(gpt(3), c).resident - bytes_of(gpt(2), c).resident;
  // Of the paper's 34 sbh the two norms' outputs are 2 each, the inputs of the layers after
  // attention and after the activation 2 and 8: each is halved.
  c.precision.fp8 = Fp8Recipe::delayed;
  CHECK(saved_by_layer(c) == (34 - 7) * sbh + scores + norm_statistics(s * b) + 4 * number);
  // Weights of 12 h^2; of each layer a scale, and of three operands forward, two backward a scale
  // and a maximum.
  const auto resident = [&] {
    return bytes_of(gpt(3), c).resident - bytes_of(gpt(2), c).resident - plain;
  };
  CHECK(resident() == 2 * 12 * h * h + 4 * (1 + 2 * 5) * number);
  // Current scaling leaves attention's output as it is.
  c.precision.fp8 = Fp8Recipe::tensorwise;
  CHECK(saved_by_layer(c) == (34 - 6) * sbh + scores + norm_statistics(s * b) + 3 * number);
  CHECK(resident() == 2 * 12 * h * h + 4 * (1 + 2 * 5) * number);
}

TEST_CASE("products that add to the main gradients leave a bf16 tensor a shape, and no sums") {
  StepConfig fused = config();
  fused.memory.fused_gradients = true;
  // The projections of q, k and v, after attention, and the MLP's; the tied embedding.
  const std::int64_t shapes = 2 * (3 * h * h + h * h + 4 * h * h + 4 * h * h + vocab * h);
  for (const std::int64_t layers : {2, 3}) {
    CAPTURE(layers);
    CHECK(bytes_of(gpt(layers), fused).resident - bytes_of(gpt(layers), config()).resident ==
          shapes);
    const std::string untied = R"(, "untie_embeddings_and_output_weights": true)";
    CHECK(sums_of_gradients(gpt(layers, untied), config()) -
              sums_of_gradients(gpt(layers, untied), fused) ==
          4 * layers + 1);
  }
}

TEST_CASE("with FlashAttention a layer saves its output once more, and sums a row, not scores") {
  StepConfig c = config();
  c.run.attention = Attention::flash;
  constexpr std::int64_t state = 2 * 8;  // of the random numbers
  const std::int64_t sbh = s * b * h;
  CHECK(saved_by_layer(c) == 36 * sbh + 4 * heads * s * b + state + norm_statistics(s * b));
  for (const std::int64_t n : {2, 4}) {
    CAPTURE(n);
    c.layout.cp = c.layout.world = n;
    c.layout.shard = Sharding::ddp;
    // One state a step of the ring; keys and values are those that arrived last.
    CHECK(saved_by_layer(c) ==
          (36 * sbh + 4 * heads * s * b) / n + n * state + norm_statistics(s * b / n));
  }
}

TEST_CASE("rotated by parts, queries and keys save a bf16 table of cosines and one of sines each") {
  const StepConfig c = config();
  for (const std::int64_t of_a_hundred : {50, 100}) {
    CAPTURE(of_a_hundred);
    const std::string rope = R"(, "position_embedding_type": "rope", "rotary_percent": )" +
                             std::to_string(static_cast<double>(of_a_hundred) / 100);
    const std::int64_t rotated = h / heads * of_a_hundred / 100;
    CHECK(saved_by_layer(c, rope + R"(, "no_rope_fusion": true)") - saved_by_layer(c, rope) ==
          2 * 2 * 2 * s * rotated);
    CHECK(saved_by_layer(c, rope + R"(, "apply_rope_fusion": false)") ==
          saved_by_layer(c, rope + R"(, "no_rope_fusion": true)"));
  }
}

TEST_CASE("heads of 128 are prepared in one tensor, which queries keep beside the ring's keys") {
  StepConfig c = config();
  c.run.attention = Attention::flash;
  c.run.batch = 1;
  c.run.seq = 1024;
  c.layout.cp = c.layout.world = 2;
  c.layout.shard = Sharding::ddp;
  const std::string wide = R"(, "kv_channels": 128, "hidden_size": 128, "num_attention_heads": 1)"
                           R"(, "max_position_embeddings": 1024)";
  const std::int64_t here = c.run.seq / 2, sbh = here * 128;
  // One sequence is the same in both orders: attention's output is the projection's input.
  CHECK(saved_by_layer(c, wide) ==
        34 * sbh + 2 * 2 * sbh + 4 * here + 2 * 16 + norm_statistics(here));
}

namespace {

/// Four experts of width 4h without biases, and what a layer of dense MLP has in their place.
const std::string experts = R"(, "num_experts": 4, "disable_bias_linear": true)"
                            R"(, "hidden_dropout": 0.0, "attention_dropout": 0.0)";
const std::string dense = R"(, "disable_bias_linear": true, "hidden_dropout": 0.0)"
                          R"(, "attention_dropout": 0.0)";

}  // namespace

TEST_CASE("an expert saves its input, its activation's input and output, and their product") {
  const StepConfig c = config();
  constexpr std::int64_t t = s * b, e = 4, k = 2, rows = k * t;
  const std::int64_t mlp = saved_by_layer(c, dense);
  // A dense MLP saves its input (the norm's output), what the activation reads, and its result.
  const std::int64_t without_mlp = mlp - 2 * t * h - 2 * 2 * t * 4 * h;
  for (const bool grouped : {false, true}) {
    CAPTURE(grouped);
    const std::string more = experts + (grouped ? R"(, "moe_grouped_gemm": true)" : "");
    const std::int64_t of_experts = 2 * rows * h + 3 * 2 * rows * 4 * h;
    // The router: the norm's output; softmax and indices of what was chosen. Then where rows were,
    // by expert and token which were chosen, and the weights of rows.
    const std::int64_t of_router = 2 * t * h + 4 * t * k + 8 * t * k,
                       of_rows = 8 * rows + 1 * e * t + 2 * rows;
    CHECK(saved_by_layer(c, more) == without_mlp + of_experts + of_router + of_rows);
  }
}

TEST_CASE("in FP8 experts' rows are saved in 8 bits, sixteen by sixteen, and weights stay twice") {
  constexpr std::int64_t e = 4, k = 2, number = 4, wide = 4 * h;
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::tensorwise})
    for (const bool grouped : {false, true})
      for (const std::int64_t seq : {32, 24}) {
        CAPTURE(static_cast<int>(recipe));
        CAPTURE(grouped);
        CAPTURE(seq);
        StepConfig c = config();
        c.run.seq = seq;
        const std::string more = experts + (grouped ? R"(, "moe_grouped_gemm": true)" : "");
        const std::int64_t plain =
            bytes_of(gpt(3, more), c).resident - bytes_of(gpt(2, more), c).resident;
        c.precision.fp8 = recipe;
        const std::int64_t t = seq * b, rows = k * t, filled = e * ((rows / e + 15) / 16 * 16);
        CHECK(filled == (seq == 24 ? 128 : rows));
        // A dense MLP: the norm's output in 8 bits, what the activation reads, its result in 8
        // bits.
        const std::int64_t without_mlp =
            saved_by_layer(c, dense) - t * h - 2 * t * wide - t * wide - 2 * number;
        const std::int64_t of_experts =
            filled * h + 2 * 2 * filled * wide + filled * wide + 2 * e * number;
        // As in bf16, which the router is in: the norm's output is saved so, too.
        const std::int64_t of_router = 2 * t * h + 4 * t * k + 8 * t * k,
                           of_rows = 8 * rows + 1 * e * t + 2 * filled;
        CHECK(saved_by_layer(c, more) == without_mlp + of_experts + of_router + of_rows);
        // 2 bytes a weight of experts and attention, and what scales each product's five operands.
        const std::int64_t products = 2 * e + 2, weights = e * 2 * h * wide + 4 * h * h;
        CHECK(bytes_of(gpt(3, more), c).resident - bytes_of(gpt(2, more), c).resident - plain ==
              2 * weights + products * (1 + 2 * 5) * number);
      }
}

TEST_CASE("in deterministic mode the experts' output is saved as well") {
  StepConfig c = config();
  const std::int64_t without = saved_by_layer(c, experts);
  c.runtime.deterministic = true;
  CHECK(saved_by_layer(c, experts) == without + 2 * (2 * s * b) * h);
}

TEST_CASE("each rank has its experts, and as many rows as if it had all") {
  StepConfig c = config();
  const std::int64_t alone = saved_by_layer(c, experts),
                     whole = bytes_of(gpt(1, experts), c).resident;
  constexpr std::int64_t expert = 2 * h * 4 * h, e = 4;
  c.layout.world = c.layout.ep = 4;
  c.layout.shard = Sharding::ddp;
  // A matrix of which expert has which token is of all ranks' tokens and one expert.
  CHECK(saved_by_layer(c, experts) == alone);
  // Parameter, main gradient, master, two moments: 18 bytes of each of the three that are
  // elsewhere. The buffer that tokens are gathered into stays.
  const std::int64_t buffer = 2 * 4 * s * b * h;
  CHECK(bytes_of(gpt(1, experts), c).resident == whole - (e - 1) * expert * 18 + buffer);
  SUBCASE("the distributed optimizer has a part for each rank that has the same experts") {
    c.layout.world = 8;
    c.layout.shard = Sharding::zero1;
    const std::int64_t before = bytes_of(gpt(1, experts), c).resident,
                       after = bytes_of(gpt(2, experts), c).resident;
    // Attention, norms and router over 8 ranks, the rank's expert over 2: 6 + 12 / ranks bytes.
    const std::int64_t others = h * 3 * h + h * h + 2 * 2 * h + e * h;
    CHECK(after - before == 6 * (others + expert) + 12 * others / 8 + 12 * expert / 2);
  }
}

TEST_CASE("tokens that are sent save what came back in deterministic mode, not what they were") {
  StepConfig c = config();
  const std::string sent = experts + R"(, "moe_token_dispatcher_type": "alltoall")";
  const std::int64_t alone = saved_by_layer(c, sent);
  CHECK(alone == saved_by_layer(c, experts));
  c.layout.world = c.layout.ep = 2;
  c.layout.shard = Sharding::ddp;
  CHECK(saved_by_layer(c, sent) == alone);
}

TEST_CASE("a fused permutation saves where rows go, of each token and of each sorted row") {
  StepConfig c = config();
  const std::string sent = experts + R"(, "moe_token_dispatcher_type": "alltoall")";
  const std::int64_t apart = saved_by_layer(c, sent),
                     fused = saved_by_layer(c, sent + R"(, "moe_permute_fusion": true)");
  constexpr std::int64_t tokens = s * b, rows = tokens * 2, e = 4;
  // [tokens, 2 e + 1] and twice [rows] of 4 bytes; apart: [rows] of 8 bytes, a mask [e, tokens].
  CHECK(fused - apart == 4 * tokens * (2 * e + 1) + 2 * 4 * rows - (8 * rows + e * tokens));
}

TEST_CASE("a mixture on the Hub is planned by the arguments that Megatron-Bridge makes of it") {
  StepConfig c = config();
  const auto planned = [&](const std::string& text) {
    const Bytes bytes = bytes_of(model::parse_config(text, "config.json", "a mixture"), c);
    return std::pair{bytes.resident, bytes.at_loss};
  };
  const std::string bridged =
      R"({"model_type": "megatron", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4,)"
      R"( "num_query_groups": 2, "max_position_embeddings": 32, "vocab_size": 512, "swiglu": true,)"
      R"( "disable_bias_linear": true, "untie_embeddings_and_output_weights": true,)"
      R"( "normalization": "RMSNorm", "position_embedding_type": "rope", "hidden_dropout": 0,)"
      R"( "attention_dropout": 0, "num_experts": 4, "moe_router_topk": 2, "moe_grouped_gemm": true,)"
      R"( "moe_token_dispatcher_type": "alltoall", "moe_permute_fusion": true, )";
  const std::string hub =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512,)"
      R"( "num_key_value_heads": 2, "max_position_embeddings": 32, "num_experts_per_tok": 2,)"
      R"( "tie_word_embeddings": false, )";
  SUBCASE("mixtral: softmax before the choice, no balancing loss") {
    CHECK(planned("{" + hub +
                  R"("model_type": "mixtral", "intermediate_size": 96, "num_local_experts": 4})") ==
          planned(bridged + R"("ffn_hidden_size": 96, "moe_router_pre_softmax": true,)"
                            R"( "moe_router_load_balancing_type": "none"})"));
  }
  SUBCASE("qwen3_moe: the auxiliary loss, norms of queries and keys") {
    const std::string qwen =
        "{" + hub +
        R"("model_type": "qwen3_moe", "intermediate_size": 128, "head_dim": 32,)"
        R"( "moe_intermediate_size": 48, "num_experts": 4)";
    CHECK(planned(qwen + "}") ==
          planned(bridged + R"("kv_channels": 32, "moe_ffn_hidden_size": 48, "qk_layernorm": true,)"
                            R"( "moe_aux_loss_coeff": 0.001})"));
    CHECK_THROWS_WITH_AS(planned(qwen + R"(, "mlp_only_layers": [0]})"),
                         doctest::Contains("--transformer-impl hf"), UserError);
  }
  SUBCASE("deepseek_v3: latent attention, sigmoids by groups, the first block dense") {
    const std::string sizes =
        R"("hidden_size": 64, "num_attention_heads": 4, "vocab_size": 512, "q_lora_rank": 24,)"
        R"( "kv_lora_rank": 16, "v_head_dim": 8, "max_position_embeddings": 32, )";
    CHECK(planned("{" + sizes +
                  R"("model_type": "deepseek_v3", "num_hidden_layers": 2, "intermediate_size": 96,)"
                  R"( "num_key_value_heads": 4, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,)"
                  R"( "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,)"
                  R"( "topk_group": 1, "moe_intermediate_size": 48, "n_shared_experts": 1,)"
                  R"( "first_k_dense_replace": 1, "tie_word_embeddings": false,)"
                  R"( "rope_scaling": {"rope_type": "yarn", "factor": 40.0,)"
                  R"( "original_max_position_embeddings": 32}})") ==
          planned(
              "{" + sizes +
              R"("model_type": "megatron", "num_layers": 2, "ffn_hidden_size": 96,)"
              R"( "multi_latent_attention": true, "qk_head_dim": 8, "qk_pos_emb_head_dim": 4,)"
              R"( "num_experts": 4, "moe_router_topk": 2, "moe_router_num_groups": 2,)"
              R"( "moe_router_group_topk": 1, "moe_ffn_hidden_size": 48,)"
              R"( "moe_shared_expert_intermediate_size": 48, "moe_layer_freq": [0, 1],)"
              R"( "moe_router_score_function": "sigmoid", "moe_router_dtype": "fp32",)"
              R"( "moe_router_enable_expert_bias": true, "moe_router_topk_scaling_factor": 2.5,)"
              R"( "moe_router_load_balancing_type": "seq_aux_loss", "moe_aux_loss_coeff": 0.0001,)"
              R"( "moe_grouped_gemm": true, "moe_token_dispatcher_type": "alltoall",)"
              R"( "moe_permute_fusion": true, "qk_layernorm": true, "no_rope_fusion": true,)"
              R"( "position_embedding_type": "rope", "original_max_position_embeddings": 32,)"
              R"( "swiglu": true, "disable_bias_linear": true, "normalization": "RMSNorm",)"
              R"( "untie_embeddings_and_output_weights": true, "hidden_dropout": 0,)"
              R"( "attention_dropout": 0})"));
  }
}

TEST_CASE("arguments of experts that are not planned are refused by name") {
  const auto error = [](const std::string& more) -> std::string {
    try {
      gpt(2, more);
      return "accepted";
    } catch (const UserError& e) {
      return e.what();
    }
  };
  CHECK(error(experts) == "accepted");
  CHECK(error(experts + R"(, "moe_layer_freq": [0, 1])") == "accepted");
  for (const auto& [bound_field, value] :
       {std::pair{"moe_z_loss_coeff", "0.001"},
        {"moe_expert_capacity_factor", "1.0"},
        {"moe_router_enable_expert_bias", "true"},
        {"moe_router_padding_for_fp8", "true"},
        {"moe_permute_fusion", "true"},
        {"moe_token_dispatcher_type", "\"flex\""},
        {"moe_router_load_balancing_type", "\"global_aux_loss\""},
        {"moe_router_score_function", "\"tanh\""},
        {"moe_router_num_groups", "2"},
        {"moe_router_topk_scaling_factor", "2.5"},
        {"moe_router_dtype", "\"fp64\""},
        {"moe_router_topk", "1"},
        {"moe_router_topk", "5"},
        {"moe_layer_freq", "[1]"}}) {
    const auto& field = bound_field;
    CAPTURE(field);
    const std::string said = error(experts + ", \"" + field + "\": " + value);
    CHECK(said.find(field) != std::string::npos);
  }
  CHECK(error(R"(, "num_experts": 4)").find("disable_bias_linear") != std::string::npos);
  const std::string sigmoids = experts + R"(, "moe_router_score_function": "sigmoid")";
  CHECK(error(sigmoids + R"(, "moe_router_num_groups": 2, "moe_router_group_topk": 1)"
                         R"(, "moe_router_load_balancing_type": "seq_aux_loss")") == "accepted");
  for (const auto& [field, bound_values] :
       {std::pair{"moe_router_group_topk", R"("moe_router_group_topk": 1)"},
        {"moe_router_num_groups", R"("moe_router_num_groups": 3, "moe_router_group_topk": 1)"},
        {"moe_router_group_topk", R"("moe_router_num_groups": 2, "moe_router_group_topk": 4)"}}) {
    const auto& values = bound_values;
    CAPTURE(values);
    CHECK(error(sigmoids + ", " + values).find(field) != std::string::npos);
  }
}

TEST_CASE("what of latent attention is not planned is refused by name") {
  using Fields = std::map<std::string, std::string>;
  const Fields latent{{"kv_lora_rank", "8"},
                      {"position_embedding_type", "\"rope\""},
                      {"multi_latent_attention", "true"},
                      {"qk_layernorm", "true"},
                      {"no_rope_fusion", "true"}};
  const auto error = [](const Fields& fields) -> std::string {
    std::string more;
    for (const auto& [field, value] : fields) more += ", \"" + field + "\": " + value;
    try {
      gpt(2, more);
      return "accepted";
    } catch (const UserError& e) {
      return e.what();
    }
  };
  CHECK(error(latent) == "accepted");
  for (const auto& [bound_field, value] : {std::pair{"multi_latent_attention", "false"},
                                           {"qk_layernorm", "false"},
                                           {"no_rope_fusion", "false"},
                                           {"position_embedding_type", "\"none\""},
                                           {"rope_type", "\"linear\""},
                                           {"num_query_groups", "2"},
                                           {"qk_pos_emb_head_dim", "3"}}) {
    const auto& field = bound_field;
    CAPTURE(field);
    Fields changed = latent;
    changed[field] = value;
    CHECK(error(changed).find(field) != std::string::npos);
  }
}

TEST_CASE("the fused loss holds one fp32 tensor of the logits more than Megatron-core's own") {
  StepConfig c = config();
  const std::int64_t own = bytes_of(gpt(2), c).at_loss;
  c.memory.loss = LossKind::ce_compiled;
  const std::int64_t logits = 4 * s * b * vocab, row = s * b;
  // Without: two numbers of 8 bytes, four of 4, three of 1 a token while the softmax is looked up.
  CHECK(bytes_of(gpt(2), c).at_loss - own > logits - 40 * row);
  CHECK(bytes_of(gpt(2), c).at_loss - own <= logits);
}

TEST_CASE("an instance of the distributed optimizer has as much as all of a job without them") {
  StepConfig c = config();
  c.layout.shard = Sharding::zero1;
  c.layout.world = 4;
  const std::int64_t four = bytes_of(gpt(2), c).resident;
  c.layout.world = 8;
  const std::int64_t eight = bytes_of(gpt(2), c).resident;
  c.layout.optimizer_instances = 2;
  CHECK(bytes_of(gpt(2), c).resident == four);
  const std::int64_t states = 12 * (elements_of_layer() * 2 + elements_of_ends());
  CHECK(static_cast<double>(four - eight) ==
        doctest::Approx(static_cast<double>(states) / 8).epsilon(0.02));  // its padding
}

TEST_CASE("without dropout, by flash attention and gated: what is left of them") {
  const std::int64_t sbh = s * b * h;
  const std::string dry = R"(, "hidden_dropout": 0.0, "attention_dropout": 0.0)";
  StepConfig c = config();
  // no masks of two dropouts, nor of the scores, of which the softmax alone is left
  CHECK(saved_by_layer(c, dry) == 32 * sbh + 2 * heads * s * s * b + norm_statistics(s * b));
  // FlashAttention's output beside its copy, a log-sum-exp a row, and its generator's state
  c.run.attention = Attention::flash;
  CHECK(saved_by_layer(c, dry) == 34 * sbh + 4 * heads * s * b + 16 + norm_statistics(s * b));
  c.run.attention = Attention::cudnn;
  CHECK(saved_by_layer(c, dry) == 32 * sbh + 4 * heads * s * b + 16 + norm_statistics(s * b));
  // gate and up of 128 together, and their product: 2 x (256 + 128) for 2 x (256 + 256)
  c.run.attention = Attention::eager;
  CHECK(saved_by_layer(c, dry + R"(, "swiglu": true, "ffn_hidden_size": 128)") ==
        32 * sbh - 2 * 128 * s * b + 2 * heads * s * s * b + norm_statistics(s * b));
}

TEST_CASE("18 bytes a parameter, or 6 + 12 / d with the distributed optimizer") {
  const std::int64_t elements = 2 * elements_of_layer() + elements_of_ends();
  StepConfig c = config();
  CHECK(bytes_of(gpt(2), c).resident == 18 * elements);
  c.layout.world = 4;
  c.layout.shard = Sharding::ddp;
  CHECK(bytes_of(gpt(2), c).resident == 18 * elements);
  c.layout.shard = Sharding::zero1;  // all sizes are multiples of 64 here
  CHECK(elements % 128 == 0);
  CHECK(bytes_of(gpt(2), c).resident == 6 * elements + 12 * elements / 4);
}

TEST_CASE("the vocabulary is padded to a multiple of 128 a rank, and shared by ranks") {
  const model::ModelSpec odd = model::parse_config(
      R"({"model_type": "megatron", "num_layers": 1, "hidden_size": 64, "num_attention_heads": 4,
          "max_position_embeddings": 32, "vocab_size": 500})",
      "odd.json", "odd");
  StepConfig c = config();
  CHECK(bytes_of(odd, c).resident == 18 * (elements_of_layer() + elements_of_ends()));
  c.layout.tp = c.layout.world = 2;
  const std::int64_t before = bytes_of(gpt(1), c).resident;
  CHECK(bytes_of(odd, c).resident == before);
}

TEST_CASE("the last stage has a copy of a tied embedding") {
  StepConfig c = config();
  c.layout.pp = c.layout.world = 2;
  c.run.grad_accum = 2;
  const auto rank = [&](std::int64_t r, const std::string& more = "") {
    c.layout.pp_rank = r;
    return bytes_of(gpt(2, more), c).resident;
  };
  CHECK(rank(0) == 18 * (elements_of_layer() + vocab * h + s * h));
  CHECK(rank(1) == 18 * (elements_of_layer() + vocab * h + 2 * h));
  CHECK(rank(1, R"(, "untie_embeddings_and_output_weights": true)") == rank(1));
}

TEST_CASE("Megatron's arguments: what is wrong is said with its field") {
  const auto refused = [](const std::string& more) -> std::string {
    try {
      static_cast<void>(gpt(2, more));
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(refused(R"(, "num_experts": 8)").find("\"num_experts\"") != std::string::npos);
  CHECK(refused(R"(, "fp8_format": "hybrid")").find("\"fp8_format\"") != std::string::npos);
  CHECK(refused(R"(, "fp8_param_gather": true)").find("\"fp8_param_gather\"") != std::string::npos);
  CHECK(refused(R"(, "first_last_layers_bf16": true)").find("in bf16") != std::string::npos);
  CHECK(refused(R"(, "num_query_groups": 3)").find("must divide") != std::string::npos);
  CHECK(refused(R"(, "normalization": "GroupNorm")").find("RMSNorm") != std::string::npos);
  CHECK(refused(R"(, "position_embedding_type": "yarn")").find("rope") != std::string::npos);
  CHECK(refused(R"(, "num_experts": null, "swiglu": true)") == "accepted");
  const model::ModelSpec spec = gpt(2, R"(, "swiglu": true)");
  CHECK(spec.intermediate == 128);  // 4 x 64 x 2 / 3 = 170.7, in steps of 64
  CHECK(gpt(2, R"(, "lr": 0.1)").reading.unknown.size() +
            gpt(2, R"(, "lr": 0.1)").reading.ignored.size() >
        0);
}

}  // namespace ac_advisor::test
