// What is run to calibrate: small models whose sizes lie around what is trained on such a device.
#include "trainer/calibrate/programs.hpp"

#include <algorithm>
#include <string_view>

#include "ac_advisor/model/error.hpp"
#include "passes/optimizer/optimizer.hpp"

namespace ac_advisor::trainer {
namespace {

struct Case {
  const char* sample;  ///< the family
  std::int64_t hidden, head_dim, vocab, batch, seq;
  bool quick;
};

// Widths and tokens a factor of 2 to 3 apart; no sample's own.
constexpr Case cpu_cases[] = {
    {"llama-3.2-1b", 64, 16, 512, 2, 64, true},
    {"llama-3.2-1b", 96, 16, 4000, 4, 256, false},
    {"llama-3.2-1b", 192, 32, 8000, 1, 128, true},
    {"llama-3.2-1b", 256, 64, 2000, 1, 1024, false},
    {"llama-3.2-1b", 384, 32, 16000, 2, 128, false},
    {"llama-3.2-1b", 384, 64, 12000, 4, 256, true},
    {"llama-3.2-1b", 768, 64, 40000, 2, 96, true},
    {"llama-3.2-1b", 768, 128, 8000, 4, 128, false},
    {"llama-3.2-1b", 1536, 128, 8000, 1, 96, false},
    {"gemma-2-2b", 128, 32, 2000, 2, 96, false},
    {"gemma-2-2b", 512, 64, 8000, 2, 192, false},
    {"qwen3-30b-a3b", 128, 32, 2000, 2, 96, false},
    {"qwen3-30b-a3b", 512, 64, 8000, 2, 192, false},
};
constexpr Case cuda_cases[] = {
    {"llama-3.2-1b", 256, 64, 4000, 2, 256, true},
    {"llama-3.2-1b", 768, 64, 32000, 4, 512, false},
    {"llama-3.2-1b", 1024, 64, 64000, 8, 1024, true},
    {"llama-3.2-1b", 1536, 128, 50000, 2, 4096, false},
    {"llama-3.2-1b", 2560, 128, 32000, 4, 1024, false},
    {"llama-3.2-1b", 2560, 64, 100000, 8, 2048, true},
    {"llama-3.2-1b", 4096, 128, 128000, 1, 8192, false},
    {"llama-3.2-1b", 6144, 128, 32000, 2, 2048, false},
    {"gemma-2-2b", 768, 128, 32000, 4, 512, false},
    {"gemma-2-2b", 2048, 256, 64000, 2, 2048, false},
    {"qwen3-30b-a3b", 768, 64, 32000, 4, 512, false},
    {"qwen3-30b-a3b", 2048, 128, 64000, 2, 2048, false},
};
constexpr Case tiny_case = {"llama-3.2-1b", 64, 16, 512, 2, 32, true};

model::ModelSpec scaled(const Case& c) {
  constexpr std::int64_t layers = 2;
  model::ModelSpec spec = model::load_model(c.sample);
  spec.hidden = c.hidden;
  spec.intermediate = c.hidden * 11 / 4;
  spec.layers = layers;
  spec.head_dim = spec.rotary_dim = c.head_dim;
  spec.heads = c.hidden / c.head_dim;
  spec.kv_heads = spec.heads % 2 == 0 ? spec.heads / 2 : spec.heads;
  spec.vocab = c.vocab;
  spec.tied_embeddings = false;
  if (!spec.window.empty()) spec.window.assign(layers, 0);
  if (!spec.sparse_block.empty()) spec.sparse_block.assign(layers, true);
  if (spec.moe) {
    spec.moe->experts = 8;
    spec.moe->top_k = 2;
    spec.moe->intermediate = c.hidden;
  }
  return spec;
}

using Words = std::vector<std::pair<std::string, std::string>>;

void add(CalibrationSet& set, const Case& c, const Words& words) {
  OptionList options{{"--batch", std::to_string(c.batch)}, {"--seq", std::to_string(c.seq)}};
  options.insert(options.end(), words.begin(), words.end());
  set.models.push_back({scaled(c), std::move(options)});
}

Words in(const char* dtype, Words words) {
  words.insert(words.end(), {{"--param-dtype", dtype}, {"--compute-dtype", dtype}});
  return words;
}

}  // namespace

CalibrationSet calibration_set(const std::string& extent, bool cuda) {
  if (extent != "full" && extent != "quick" && extent != "tiny")
    throw UserError("\"calibrate\": \"" + extent + "\" must be full, quick or tiny");
  const Words plain{{"--kernels", "eager"}, {"--loss", "ce"}},
      fused{{"--kernels", "fused"}, {"--loss", "lc-ce"}},
      eager_attention{{"--kernels", "eager"},
                      {"--loss", "chunked:64"},
                      {"--attn", "eager"},
                      {"--dropout", "0.1"}};
  // A GPU trains in bf16, a CPU in fp32; the other is measured where there is time.
  const char* const usual = cuda ? "bf16" : "fp32";
  const char* const other = cuda ? "fp32" : "bf16";
  CalibrationSet set;
  if (extent == "tiny") {
    for (const Words& words : {plain, fused}) add(set, tiny_case, in(usual, words));
    set.list_elements = {256, 65536};
    set.products = {{ir::Form::nt, 64, 64, 64}};
    set.model_seconds = set.list_seconds = 0.05;
    set.most_flops = 1'000'000;
    return set;
  }
  const bool full = extent == "full";
  const auto* const first = cuda ? std::begin(cuda_cases) : std::begin(cpu_cases);
  const auto* const last = cuda ? std::end(cuda_cases) : std::end(cpu_cases);
  bool another = false;
  for (const auto* c = first; c != last; ++c) {
    if (!full && !c->quick) continue;
    const bool llama = std::string_view(c->sample).starts_with("llama");
    add(set, *c, in(usual, plain));
    add(set, *c, in(usual, fused));
    // Every other one, beginning with the smallest.
    another = !another;
    if (!another) continue;
    if ((full || c == first) && llama && c->batch > 1) add(set, *c, in(usual, eager_attention));
    if (!full || !llama) continue;
    add(set, *c, in(other, plain));
    add(set, *c, in(other, fused));
  }
  // Copies into and out of the buffers of collectives.
  for (const char* shard : {"fsdp2", "ddp"})
    for (const auto* c = first; c != last; ++c)
      if (full && c->quick) add(set, *c, in(usual, {{"--world", "2"}, {"--shard", shard}}));
  const std::int64_t unit = cuda ? 256 : 32;
  set.most_flops = cuda ? 4'000'000'000'000 : full ? 4'000'000'000 : 1'000'000'000;
  for (const ir::Form form : {ir::Form::nt, ir::Form::nn, ir::Form::tn})
    for (std::int64_t m = unit; m <= unit * 64; m *= 4)
      for (std::int64_t n = unit * 2; n <= unit * 1024; n *= full ? 2 : 4)
        for (std::int64_t k = unit * 2; k <= unit * 1024; k *= full ? 2 : 4)
          if (2 * m * n * k <= set.most_flops) set.products.push_back({form, m, n, k});
  for (std::int64_t n = 64; n <= (cuda ? 1 << 28 : 1 << 24); n *= full ? 4 : 16)
    set.list_elements.push_back(n);
  set.model_seconds = full ? 1.5 : 1.0;
  set.product_seconds = full ? 0.05 : 0.02;
  set.list_seconds = full ? 0.3 : 0.15;
  set.most_seconds = full ? 170 : 37;
  return set;
}

passes::StepProgram product_program(const CalibrationSet::Product& s, DType dtype,
                                    std::int64_t copies) {
  passes::StepProgram step;
  ir::Program& p = step.program;
  step.micro_begin = {0};
  // nt: x [m, k], w [n, k]; nn: g [m, k], w [k, n]; tn: g [k, m], x [k, n]
  const bool turned = s.form == ir::Form::tn;
  const ir::Shape left = turned ? ir::Shape{s.k, s.m} : ir::Shape{s.m, s.k};
  const ir::Shape right = s.form == ir::Form::nt ? ir::Shape{s.n, s.k} : ir::Shape{s.k, s.n};
  const auto x = p.make(left, dtype, ir::Role::input, {});
  step.resident.push_back(x);
  for (std::int64_t i = 0; i < copies; ++i) {
    const auto w = p.make(right, dtype, ir::Role::parameter, {});
    step.resident.push_back(w);
    const auto y = p.make({s.m, s.n}, dtype, ir::Role::activation, {});
    p.emit(ir::OpKind::mm, ir::Phase::forward, {}, {x, w}, {y},
           ir::Product{static_cast<std::int32_t>(s.k), s.form});
  }
  return step;
}

passes::StepProgram list_program(Optimizer optimizer, DType dtype, std::int64_t tensors,
                                 std::int64_t elements) {
  passes::StepProgram step;
  ir::Program& p = step.program;
  step.micro_begin = {0};
  for (std::int64_t i = 0; i < tensors; ++i) {
    passes::OptimizedTensor t;
    t.parameter = p.make({elements}, dtype, ir::Role::parameter, {});
    t.gradient = p.make({elements}, dtype, ir::Role::gradient, {});
    step.resident.insert(step.resident.end(), {t.parameter, t.gradient});
    step.optimized.push_back(t);
  }
  OptimizerChoice choice;
  choice.kind = optimizer;
  passes::append_optimizer(step, choice);
  return step;
}

}  // namespace ac_advisor::trainer
