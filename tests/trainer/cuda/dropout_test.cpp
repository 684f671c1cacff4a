// Dropout on the host's threads, against the CPU's kernel bit for bit.
#include "trainer/cuda/tensors.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/kernels/counter_rng.hpp"

namespace ac_advisor::test {

TEST_CASE("device kernels: dropout drops what the CPU's does, bit for bit, and says which") {
  at::manual_seed(13);
  const std::uint64_t step_key = trainer::combine(7, 9);
  const std::uint64_t key =
      trainer::combine(trainer::combine(trainer::combine(step_key, 2), 3), 41);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t n : {1, 3, 8, 4095, 4096, 10001})
      for (const double p : {0.0, 0.1, 0.5, 1.0})
        for (const bool odd : {false, true}) {
          CAPTURE(n);
          CAPTURE(p);
          const at::Tensor x = random({n}, type);
          const at::Tensor ours = odd ? unaligned(x) : x.clone();
          const at::Tensor mask = at::full({n + 1}, 7, at::kByte);
          device::Dropout call{.type = element(x),
                               .from = ours.data_ptr(),
                               .data = ours.data_ptr(),
                               .mask = mask.data_ptr<std::uint8_t>() + (odd ? 1 : 0),
                               .elements = n,
                               .p = p,
                               .scale = 1.25F,
                               .step_key = &step_key,
                               .micro = 2,
                               .rank = 3,
                               .op = 41};
          device::dropout(call, nullptr);
          at::Tensor theirs = x.clone();
          trainer::apply_dropout(theirs, p, 1.25, key);
          CHECK(at::equal(ours, theirs));
          at::Tensor kept = at::ones({n}, at::kByte);
          trainer::apply_dropout(kept, p, 1.0, key);
          CHECK(at::equal(mask.narrow(0, odd ? 1 : 0, n), kept));
          CHECK(mask[odd ? 0 : n].item<int>() == 7);  // nothing beyond it is written

          ours.copy_(x);
          call.mask = nullptr;
          device::dropout(call, nullptr);
          CHECK(at::equal(ours, theirs));

          call.from = x.data_ptr();  // out of place
          ours.fill_(5);
          device::dropout(call, nullptr);
          CHECK(at::equal(ours, theirs));
        }
}

}  // namespace ac_advisor::test
