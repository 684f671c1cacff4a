// The tiles of linear + cross-entropy on the host's threads, against LibTorch's cross-entropy.
#include <torch/csrc/autograd/autograd.h>

#include "trainer/cuda/tensors.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor::test {
namespace {

struct Case {
  std::int64_t tokens, vocabulary, tile;
  double cap;
};
constexpr Case cases[] = {
    {5, 64, 64, 0}, {7, 1000, 256, 0}, {7, 1000, 333, 0}, {3, 9000, 4096, 30}, {4, 50, 7, 5}};

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double cap) {
  return at::cross_entropy_loss(cap > 0 ? cap * at::tanh(logits / cap) : logits, targets);
}

/// Labels, every third one ignored.
at::Tensor labels(const Case& c) {
  at::Tensor targets = at::randint(0, c.vocabulary, {c.tokens}, at::kLong);
  for (std::int64_t i = 1; i < c.tokens; i += 3) targets[i] = -100;
  return targets;
}

device::LossTile tile_of(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                         double cap) {
  return {.logits = logits.data_ptr<float>(),
          .targets = targets.data_ptr<std::int64_t>(),
          .tokens = logits.size(0),
          .words = logits.size(1),
          .first_word = first,
          .cap = static_cast<float>(cap)};
}

/// f(first word, the tile's own contiguous copy)
template <typename F>
void each_tile(const at::Tensor& logits, std::int64_t width, F f) {
  for (std::int64_t first = 0; first < logits.size(1); first += width)
    f(first, logits.narrow(1, first, std::min(width, logits.size(1) - first)).clone());
}

struct State {
  at::Tensor log_sum_exp, target_logit;
};
State run_forward(const at::Tensor& logits, const at::Tensor& targets, const Case& c) {
  State s{at::full({c.tokens}, -INFINITY), at::zeros({c.tokens})};
  each_tile(logits, c.tile, [&](std::int64_t first, const at::Tensor& tile) {
    device::loss_forward(tile_of(tile, targets, first, c.cap), s.log_sum_exp.data_ptr<float>(),
                         s.target_logit.data_ptr<float>(), nullptr);
  });
  return s;
}

at::Tensor mean(const State& s, const at::Tensor& targets, at::ScalarType type) {
  const at::Tensor loss = at::full({}, NAN, type);
  device::loss_mean(s.log_sum_exp.data_ptr<float>(), s.target_logit.data_ptr<float>(),
                    targets.data_ptr<std::int64_t>(), targets.numel(), loss.data_ptr(),
                    element(loss), nullptr);
  return loss;
}

}  // namespace

TEST_CASE("device kernels: tiles of logits make LibTorch's cross-entropy, whatever their width") {
  at::manual_seed(9);
  for (const Case& c : cases) {
    CAPTURE(c.vocabulary);
    const at::Tensor logits = at::randn({c.tokens, c.vocabulary}) * 8, targets = labels(c);
    const State s = run_forward(logits, targets, c);
    const at::Tensor capped = c.cap > 0 ? c.cap * at::tanh(logits / c.cap) : logits;
    CHECK(relative(s.log_sum_exp, capped.logsumexp(1)) < 1e-6);
    CHECK(relative(mean(s, targets, at::kFloat), cross_entropy(logits, targets, c.cap)) < 1e-5);
    CHECK(relative(mean(s, targets, at::kBFloat16), cross_entropy(logits, targets, c.cap)) <
          bound(at::kBFloat16));
  }
}

TEST_CASE(
    "device kernels: the loss's gradient is autograd's, through the soft cap, 0 where ignored") {
  at::manual_seed(10);
  for (const Case& c : cases)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      CAPTURE(c.vocabulary);
      const at::Tensor logits = (at::randn({c.tokens, c.vocabulary}) * 4).requires_grad_(true);
      const at::Tensor targets = labels(c);
      const at::Tensor upstream = at::full({}, 0.75, type);
      const auto expected = torch::autograd::grad({cross_entropy(logits, targets, c.cap)}, {logits},
                                                  {upstream.to(at::kFloat)});
      const at::Tensor values = logits.detach();
      const State s = run_forward(values, targets, c);
      const at::Tensor scale = at::full({}, NAN);
      device::loss_scale(upstream.data_ptr(), element(upstream), targets.data_ptr<std::int64_t>(),
                         c.tokens, scale.data_ptr<float>(), nullptr);
      each_tile(values, c.tile, [&](std::int64_t first, const at::Tensor& tile) {
        const at::Tensor gradient =
            type == at::kFloat ? tile : at::full(tile.sizes(), NAN, at::kBFloat16);
        device::loss_backward(tile_of(tile, targets, first, c.cap), s.log_sum_exp.data_ptr<float>(),
                              scale.data_ptr<float>(), gradient.data_ptr(), element(gradient),
                              nullptr);
        const at::Tensor part = expected[0].narrow(1, first, tile.size(1));
        CHECK(relative(gradient, part) < bound(type));
        CHECK(at::equal(gradient[1].to(at::kFloat), at::zeros({tile.size(1)})));
      });
    }
}

TEST_CASE("device kernels: a batch whose targets are all ignored has loss 0 and gradient 0") {
  const Case c{4, 32, 32, 0};
  const at::Tensor logits = at::randn({4, 32}), targets = at::full({4}, -100, at::kLong);
  const State s = run_forward(logits, targets, c);
  CHECK(mean(s, targets, at::kFloat).item<float>() == 0.0F);
  const at::Tensor scale = at::full({}, NAN), upstream = at::ones({});
  device::loss_scale(upstream.data_ptr(), device::Element::f32, targets.data_ptr<std::int64_t>(), 4,
                     scale.data_ptr<float>(), nullptr);
  CHECK(scale.item<float>() == 1.0F);  // 1 / max(0 tokens, 1)
  device::loss_backward(tile_of(logits, targets, 0, 0), s.log_sum_exp.data_ptr<float>(),
                        scale.data_ptr<float>(), logits.data_ptr(), device::Element::f32, nullptr);
  CHECK(at::equal(logits, at::zeros({4, 32})));
}

TEST_CASE("device kernels: a masked logit of -inf adds nothing, NaN is not lost") {
  const at::Tensor targets = at::zeros({2}, at::kLong);
  at::Tensor logits = at::full({2, 8}, -INFINITY);
  logits[0][0] = 3.0F;
  logits[1] = NAN;
  const State s = run_forward(logits, targets, {2, 8, 4, 0});
  CHECK(s.log_sum_exp[0].item<float>() == 3.0F);
  CHECK(std::isnan(s.log_sum_exp[1].item<float>()));
}

}  // namespace ac_advisor::test
