// The parameters of an encoder that does not run.
#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/step_program.hpp"
#include "small_model.hpp"

using namespace ac_advisor;

namespace {

model::ModelSpec with_tower() {
  model::ModelSpec m = test::small_model();
  // Three blocks of 100 x 7 and 100 elements, and one table of 5 x 300.
  m.tower = model::Tower{"siglip_vision_model", {{3, {{100, 7}, {100}}}, {1, {{5, 300}}}}};
  return m;
}

std::int64_t rounded(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

}  // namespace

TEST_CASE("a tower adds its parameters to the peak, and neither gradients nor moments") {
  const StepConfig c = test::small_config();
  const std::int64_t tower = 3 * (rounded(2 * 700) + rounded(2 * 100)) + rounded(2 * 1500);
  CHECK(advise::plan(with_tower(), c).memory.peak_allocated ==
        advise::plan(test::small_model(), c).memory.peak_allocated + tower);
  CHECK(advise::plan(with_tower(), c).parameters ==
        advise::plan(test::small_model(), c).parameters + 3 * 800 + 1500);
}

TEST_CASE("fsdp2 shards a tower's tensors by rows, padded, and does not gather what does not run") {
  StepConfig c = test::small_config();
  c.layout.world = 8;
  c.layout.shard = Sharding::fsdp2;
  // ceil(100 / 8) = 13 rows of 7 and of 1, ceil(5 / 8) = 1 row of 300
  const std::int64_t tower = 3 * (rounded(2 * 13 * 7) + rounded(2 * 13)) + rounded(2 * 300);
  CHECK(advise::plan(with_tower(), c).memory.peak_allocated ==
        advise::plan(test::small_model(), c).memory.peak_allocated + tower);
}

TEST_CASE("with images the encoder is trained, but for the layers whose output nobody reads") {
  model::ModelSpec m = test::small_model();
  const std::int64_t h = 32, wide = 64, text = m.hidden;
  m.tower = model::Tower{"clip_vision_model", {}};
  m.tower->run = model::TowerRun{.hidden = h,
                                 .intermediate = wide,
                                 .layers = 3,
                                 .heads = 2,
                                 .image = 8,
                                 .patch = 4,
                                 .layers_read = 2};
  StepConfig c = test::small_config();
  c.run.images = 1;
  const passes::StepProgram step = passes::build_step(m, c);
  std::int64_t trained = 0, held = 0;
  for (const passes::Parameter& p : step.parameters)
    if (p.module.leaf == ir::Module::vision_tower)
      (p.trained ? trained : held) += step.program.value(p.value).shape.numel();
  const std::int64_t layer = 4 * (h * h + h) + h * wide + wide + wide * h + h + 4 * h;
  const std::int64_t embeddings = h + h * 3 * 4 * 4 + 5 * h, norm = 2 * h;
  const std::int64_t projector = h * text + text + text * text + text;
  CHECK(trained == embeddings + norm + 2 * layer + projector);
  CHECK(held == layer + norm);
  for (const passes::Parameter& p : step.parameters) CHECK(p.trained == (p.gradient != ir::no_id));
  // Four tokens of each image, in fp32 as they come: the batch's pixels.
  CHECK(step.program.bytes(step.model.tower.pixels) == c.run.batch * 3 * 8 * 8 * 4);
  const profile::Profile p = advise::plan(m, c);
  bool told = false;
  for (const std::string& note : p.assumptions)
    told = told || note.find(
                       "1 images per sequence, each of 8 x 8 pixels, 4 patches and 4 tokens, "
                       "take 4 of its") != std::string::npos;
  CHECK(told);
}

TEST_CASE("the result says what of a tower is planned") {
  const profile::Profile p = advise::plan(with_tower(), test::small_config());
  bool told = false;
  for (const std::string& note : p.assumptions)
    told = told || note.find(
                       "vision tower's (siglip_vision_model, projector included): they are "
                       "held, and as no images are planned they do not run") != std::string::npos;
  CHECK(told);
}

namespace {

/// Two images of 2 x 3 merged patches a sequence, by an encoder of two layers.
model::ModelSpec of_any_size(model::TowerForm form) {
  model::ModelSpec m = test::small_model();
  const bool third = form == model::TowerForm::qwen3;
  m.tower = model::Tower{third ? "qwen3_vl_vision" : "qwen2_5_vl_vision", {}};
  m.tower->run = model::TowerRun{.hidden = 32,
                                 .intermediate = 64,
                                 .layers = 2,
                                 .heads = 2,
                                 .image = 4,
                                 .patch = 4,
                                 .layers_read = 2,
                                 .form = form,
                                 .frames = 2,
                                 .merge = 2,
                                 .out = m.hidden,
                                 .positions = third ? 16 : 0,
                                 .window = third ? 0 : 16,
                                 .whole_layers = {1}};
  if (third) m.tower->run->taps = {0};
  m.position_grids = third ? model::PositionGrids::woven : model::PositionGrids::joined;
  return m;
}

StepConfig two_images() {
  StepConfig c = test::small_config();
  c.run.images = 2;
  c.run.image_height = 16;
  c.run.image_width = 24;
  return c;
}

std::int64_t attentions(const passes::StepProgram& step, ir::Phase phase) {
  return std::count_if(step.program.ops.begin(), step.program.ops.end(), [&](const ir::Op& op) {
    return op.kind ==
               (phase == ir::Phase::backward ? ir::OpKind::sdpa_backward : ir::OpKind::sdpa) &&
           op.phase == phase && op.module.leaf == ir::Module::vision_tower;
  });
}

}  // namespace

TEST_CASE("an encoder of images of any size attends window by window, or image by image") {
  const StepConfig c = two_images();
  const std::int64_t images = 2 * c.run.batch;
  // 2 x 3 merged patches in windows of 2 x 2: one whole, one of half its columns.
  const auto second = passes::build_step(of_any_size(model::TowerForm::qwen2_5), c);
  CHECK(attentions(second, ir::Phase::forward) == 2 * images + images);
  CHECK(attentions(second, ir::Phase::backward) == 2 * images + images);
  const auto third = passes::build_step(of_any_size(model::TowerForm::qwen3), c);
  CHECK(attentions(third, ir::Phase::forward) == 2 * images);
}

TEST_CASE("a frozen encoder has no backward, a checkpointed one runs again") {
  StepConfig c = two_images();
  const model::ModelSpec m = of_any_size(model::TowerForm::qwen3);
  const std::int64_t images = 2 * c.run.batch;
  c.memory.tower_ac = true;
  CHECK(attentions(passes::build_step(m, c), ir::Phase::recompute) == 2 * images);
  c.run.frozen.tower = true;
  const passes::StepProgram step = passes::build_step(m, c);
  CHECK(attentions(step, ir::Phase::backward) == 0);
  CHECK(attentions(step, ir::Phase::recompute) == 0);
  // The merger and DeepStack's are trained: two products with biases and a norm, each of 128
  // columns.
  const std::int64_t wide = 4 * 32, merger = wide * wide + wide + wide * m.hidden + m.hidden;
  std::int64_t trained = 0;
  for (const passes::Parameter& p : step.parameters)
    if (p.module.leaf == ir::Module::vision_tower && p.trained)
      trained += step.program.value(p.value).shape.numel();
  CHECK(trained == 2 * merger + 2 * 32 + 2 * wide);
}

TEST_CASE("a frozen decoder passes gradients on to its encoder, and has none of its own") {
  StepConfig c = two_images();
  c.run.frozen.decoder = true;
  const auto step = passes::build_step(of_any_size(model::TowerForm::qwen2_5), c);
  for (const passes::Parameter& p : step.parameters)
    CHECK(p.trained == (p.module.leaf == ir::Module::vision_tower));
  CHECK(attentions(step, ir::Phase::backward) > 0);
}
