// bitsandbytes' dequantize_4bit: the weight for the length of one product.
#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/kernels/nf4.hpp"

namespace ac_advisor::trainer::cpu {

void dequantize(const Call& c) { nf4::dequantize(c.in(0), c.in(1), c.out()); }

}  // namespace ac_advisor::trainer::cpu
