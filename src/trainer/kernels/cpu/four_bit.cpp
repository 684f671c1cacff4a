// bitsandbytes' frozen weights, in the compute dtype for the length of one product.
#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/kernels/int8.hpp"
#include "trainer/kernels/nf4.hpp"

namespace ac_advisor::trainer::cpu {

/// Codes and scales: of NF4 (a byte of scale with its own scale and the offset after it), of scales
/// in 8 bits, or of rows in 8 bits.
void dequantize(const Call& c) {
  const auto how = c.attributes<ir::Dequantize>();
  if (how.block == 1)
    int8::dequantize(c.in(0), c.in(1), c.out());
  else if (c.out_value(0).dtype == DType::f32 && c.in_value(0).shape == c.out_value(0).shape)
    nf4::dequantize_scales(c.in(0), c.in(1), c.out());
  else if (how.nested)
    nf4::dequantize(c.in(0).view(at::kByte), {c.in(1), c.in(2), c.in(3)}, c.out());
  else
    nf4::dequantize(c.in(0).view(at::kByte), {c.in(1)}, c.out());
}

}  // namespace ac_advisor::trainer::cpu
