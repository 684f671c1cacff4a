#pragma once

#include "ac_advisor/passes/passes.hpp"

namespace ac_advisor::test {

/// A llama of four blocks, small enough to write its arithmetic out.
inline model::ModelSpec small_model() {
  model::ModelSpec m;
  m.name = "small";
  m.family = "llama";
  m.hidden = 64;
  m.intermediate = 160;
  m.layers = 4;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 16;
  m.rotary_dim = 16;
  m.vocab = 512;
  m.tied_embeddings = true;
  m.window.assign(4, 0);
  return m;
}

/// So many blocks of it, the LM head with a weight of its own, as a pipeline's ends have.
inline model::ModelSpec untied_model(std::int64_t layers) {
  model::ModelSpec m = small_model();
  m.tied_embeddings = false;
  m.layers = layers;
  m.window.assign(static_cast<std::size_t>(layers), 0);
  return m;
}

/// Experts in place of each block's MLP, two a token.
inline void with_mixture(model::ModelSpec& m, std::int64_t experts, std::int64_t width = 64) {
  m.moe = model::MoeSpec{.experts = experts, .top_k = 2, .intermediate = width};
  m.sparse_block.assign(static_cast<std::size_t>(m.layers), true);
}

inline StepConfig small_config() {
  StepConfig c;
  c.run.batch = 2;
  c.run.seq = 32;
  return c;
}

inline passes::StepProgram build(AcMode ac, std::int64_t k = 0) {
  StepConfig c = small_config();
  c.memory.ac = ac;
  c.memory.ac_arg = k;
  return passes::build_step(small_model(), c);
}

}  // namespace ac_advisor::test
