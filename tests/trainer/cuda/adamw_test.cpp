// AdamW of many tensors on the host's threads, against LibTorch's fused AdamW.
#include <ATen/ops/_fused_adamw.h>

#include "trainer/cuda/tensors.hpp"
#include "trainer/doctest_after_torch.hpp"

namespace ac_advisor::test {
namespace {

struct Tensors {
  std::vector<at::Tensor> parameters, gradients, averages, squares, steps;

  void add(const at::Tensor& parameter) {
    parameters.push_back(parameter);
    gradients.push_back(at::randn_like(parameter));
    averages.push_back(at::randn_like(parameter) * 0.1);
    squares.push_back(at::rand_like(parameter) * 0.01);
    steps.push_back(at::full({}, static_cast<double>(parameters.size() % 5)));
  }
  [[nodiscard]] Tensors copy() const {
    Tensors t;
    const std::vector<at::Tensor> Tensors::*const lists[] = {
        &Tensors::parameters, &Tensors::gradients, &Tensors::averages, &Tensors::squares,
        &Tensors::steps};
    std::vector<at::Tensor> Tensors::*const to[] = {&Tensors::parameters, &Tensors::gradients,
                                                    &Tensors::averages, &Tensors::squares,
                                                    &Tensors::steps};
    for (std::size_t i = 0; i < 5; ++i)
      for (const at::Tensor& x : this->*lists[i]) (t.*to[i]).push_back(x.clone());
    return t;
  }
};

// Not 0.9: (9 m + g) / 10 of bf16 numbers often lies in the middle between two, where fp32's last
// bit decides.
constexpr double rate = 3e-3, beta1 = 0.8971, beta2 = 0.9513, eps = 1e-8;

void run_ours(Tensors& t, double weight_decay) {
  const float learning_rate = static_cast<float>(rate);
  std::vector<device::AdamWTensor> list;
  for (std::size_t i = 0; i < t.parameters.size(); ++i)
    list.push_back({.type = element(t.parameters[i]),
                    .parameter = t.parameters[i].data_ptr(),
                    .gradient = t.gradients[i].data_ptr(),
                    .average = t.averages[i].data_ptr(),
                    .square = t.squares[i].data_ptr(),
                    .step = t.steps[i].data_ptr<float>(),
                    .elements = t.parameters[i].numel()});
  device::adamw(list.data(), static_cast<std::int64_t>(list.size()),
                {.learning_rate = &learning_rate,
                 .beta1 = beta1,
                 .beta2 = beta2,
                 .epsilon = eps,
                 .weight_decay = weight_decay},
                nullptr);
}

/// LibTorch's on fp32 copies, rounded to the tensors' dtype afterwards: what its CUDA kernel does
/// in registers (the CPU's reads the moments again as they were rounded). Steps are counted before
/// it.
void run_torch(Tensors& t, double weight_decay) {
  Tensors wide;
  std::vector<at::Tensor> Tensors::*const updated[] = {&Tensors::parameters, &Tensors::averages,
                                                       &Tensors::squares};
  for (std::size_t i = 0; i < t.parameters.size(); ++i) {
    t.steps[i] += 1;
    for (const auto list : updated)
      (wide.*list).push_back((t.*list)[i].to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
    wide.gradients.push_back(t.gradients[i].to(at::kFloat));
  }
  at::_fused_adamw_(wide.parameters, wide.gradients, wide.averages, wide.squares, {}, t.steps, rate,
                    beta1, beta2, weight_decay, eps, /*amsgrad=*/false, /*maximize=*/false);
  for (std::size_t i = 0; i < t.parameters.size(); ++i)
    for (const auto list : updated) (t.*list)[i].copy_((wide.*list)[i]);
}

/// All elements of one dtype: a single one may lie on the other side of a rounding boundary.
at::Tensor joined(const std::vector<at::Tensor>& list, at::ScalarType type) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& x : list)
    if (x.scalar_type() == type) parts.push_back(x.flatten());
  return at::cat(parts);
}

void check_equal(const Tensors& ours, const Tensors& theirs) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const auto list : {&Tensors::parameters, &Tensors::averages, &Tensors::squares}) {
      const at::Tensor a = joined(ours.*list, type), b = joined(theirs.*list, type);
      CHECK(relative(a, b) < (type == at::kFloat ? 1e-6 : 1e-4));
      if (type == at::kBFloat16) CHECK(differing(a, b) < 0.01);
    }
  for (std::size_t i = 0; i < ours.steps.size(); ++i) {
    REQUIRE(at::equal(ours.steps[i], theirs.steps[i]));
    REQUIRE(at::equal(ours.gradients[i], theirs.gradients[i]));
  }
}

}  // namespace

TEST_CASE("device kernels: AdamW of 1100 tensors is LibTorch's fused AdamW") {
  at::manual_seed(11);
  Tensors ours;
  for (std::int64_t i = 0; i < 1100; ++i)
    ours.add(random({1 + i * 7 % 50}, i % 3 == 0 ? at::kFloat : at::kBFloat16));
  Tensors theirs = ours.copy();
  for (int step = 0; step < 3; ++step) {
    run_ours(ours, 0.1);
    run_torch(theirs, 0.1);
  }
  check_equal(ours, theirs);
}

TEST_CASE("device kernels: AdamW around the size of a chunk, unaligned, without weight decay") {
  at::manual_seed(12);
  constexpr std::int64_t chunk = 65536;
  Tensors ours;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t size : {chunk - 1, chunk, chunk + 1, 2 * chunk + 5}) {
      ours.add(random({size}, type));
      ours.add(at::empty({0}, type));
      ours.add(unaligned(random({size}, type)));
    }
  Tensors theirs = ours.copy();
  for (const double weight_decay : {0.0, 0.1}) {
    run_ours(ours, weight_decay);
    run_torch(theirs, weight_decay);
  }
  check_equal(ours, theirs);
}

TEST_CASE("device kernels: AdamW of gradients at odd places is that of aligned ones, bit for bit") {
  at::manual_seed(14);
  Tensors aligned;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t size : {8, 1000, 70001}) aligned.add(random({size}, type));
  Tensors odd = aligned.copy();
  for (at::Tensor& gradient : odd.gradients) gradient = unaligned(gradient);
  run_ours(aligned, 0.1);
  run_ours(odd, 0.1);
  for (const auto list : {&Tensors::parameters, &Tensors::averages, &Tensors::squares})
    for (std::size_t i = 0; i < (aligned.*list).size(); ++i)
      CHECK(at::equal((aligned.*list)[i], (odd.*list)[i]));
}

TEST_CASE("device kernels: AdamW counts steps in one launch, and updates 512 tensors in another") {
  CHECK(device::adamw_launches(1) == 2);
  CHECK(device::adamw_launches(512) == 2);
  CHECK(device::adamw_launches(513) == 3);
  CHECK(device::adamw_launches(1100) == 4);   // 1 + 3
  CHECK(device::adamw_launches(4001) == 10);  // 2 + 8
}

}  // namespace ac_advisor::test
