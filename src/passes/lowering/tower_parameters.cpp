// transformers v5.23: what encoders of images of any size hold, in the order of
// `model.parameters()` (models/qwen2_5_vl/, models/qwen3_vl/).
#include "ac_advisor/model/image_size.hpp"
#include "lowering.hpp"
#include "passes/adapters/quantized_weight.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::Role;
using ir::Shape;

/// Of an encoder or its projector.
ir::ValueId Lowering::tower_tensor(const Shape& size, bool trained) {
  return trained ? parameter(size, Module::vision_tower)
                 : frozen(size, frozen_dtype(), Module::vision_tower);
}

/// As linear_parameters, of a layer whose path ends in `name`.
Lowering::Linear Lowering::tower_linear(const char* name, std::int64_t in, std::int64_t out,
                                        bool trained) {
  constexpr Module leaf = Module::vision_tower;
  Linear l;
  l.in = in;
  l.out = out;
  if (config_.adapters.quantize != Quantization::none)
    quantized(l, leaf);
  else
    l.weight = tower_tensor({out, in}, trained);
  l.bias = config_.adapters.four_bit() ? frozen({out}, four_bit_compute, leaf)
                                       : tower_tensor({out}, trained);
  if (config_.adapters.used() && trained && adapts(spec_, config_, {name, in, out, true}))
    declare_lora(l, leaf);
  return l;
}

/// `normed`: columns that its norm is over.
MergerValues Lowering::declare_merger(std::int64_t normed) {
  const model::TowerRun& run = *spec_.tower->run;
  const std::int64_t wide = run.hidden * run.merge * run.merge;
  const bool trained = !config_.run.frozen.projector;
  MergerValues merger;
  merger.norm = tower_tensor({normed}, trained);
  if (run.form == model::TowerForm::qwen3) merger.norm_bias = tower_tensor({normed}, trained);
  const bool third = run.form == model::TowerForm::qwen3;
  merger.first = tower_linear(third ? "linear_fc1" : "merger.mlp.0", wide, wide, trained);
  merger.second = tower_linear(third ? "linear_fc2" : "merger.mlp.2", wide, run.out, trained);
  return merger;
}

void Lowering::declare_patches() {
  const model::TowerRun& run = *spec_.tower->run;
  TowerValues& t = m_.tower;
  const std::int64_t h = run.hidden, inner = run.channels * run.frames * run.patch * run.patch;
  const bool third = run.form == model::TowerForm::qwen3, trained = !config_.run.frozen.tower;
  t.patch = tower_tensor({h, run.channels, run.frames, run.patch, run.patch}, trained);
  if (third) {
    t.patch_bias = tower_tensor({h}, trained);
    t.positions = tower_tensor({run.positions, h}, trained);
  }
  t.layers.clear();
  for (std::int64_t i = 0; i < run.layers; ++i) {
    TowerLayerValues l;
    const auto norm = [&](V& weight, V& bias) {
      weight = tower_tensor({h}, trained);
      if (third) bias = tower_tensor({h}, trained);
    };
    norm(l.norm1, l.norm1_bias);
    norm(l.norm2, l.norm2_bias);
    const std::int64_t wide = run.intermediate;
    l.qkv = tower_linear("attn.qkv", h, 3 * h, trained);
    l.o = tower_linear("attn.proj", h, h, trained);
    if (!third) l.gate = tower_linear("mlp.gate_proj", h, wide, trained);
    l.up = tower_linear(third ? "mlp.linear_fc1" : "mlp.up_proj", h, wide, trained);
    l.down = tower_linear(third ? "mlp.linear_fc2" : "mlp.down_proj", wide, h, trained);
    t.layers.push_back(l);
  }
  t.merger = declare_merger(h);
  t.taps.clear();
  for (std::size_t tap = 0; tap < run.taps.size(); ++tap)
    t.taps.push_back(declare_merger(h * run.merge * run.merge));
  for (int copy = 0; copy < 2; ++copy) {  // inv_freq, original_inv_freq
    t.inv_freq = p_.make({h / run.heads / 4}, DType::f32, Role::buffer, at(Module::vision_tower));
    s_.buffers.push_back(t.inv_freq);
  }
  // As a processor makes them.
  const std::int64_t images = config_.run.batch * config_.run.images;
  const auto given = [&](const Shape& size, DType type) {
    const V y = p_.make(size, type, Role::input, at(Module::vision_tower));
    s_.inputs.push_back(y);
    return y;
  };
  // LLaMA-Factory's collator casts them (data/collator.py, SFTDataCollatorWith4DAttentionMask)
  const bool narrow = config_.llamafactory();
  t.pixels = given({images * model::image_grid(run, config_.run).patches(), inner},
                   narrow ? config_.precision.compute_dtype : DType::f32);
  t.grids = given({images, 3}, DType::i64);
  t.token_types = given(shape(m_.ids), DType::i64);
}

}  // namespace ac_advisor::passes
