#pragma once

#include "trainer/kernels/kernels.hpp"

/// What the CPU has kernels of its own for. Each allocates nothing but the op's outputs and the
/// workspace that its row declares.
namespace ac_advisor::trainer::cpu {

void dropout(const Call& c);
void dropout_backward(const Call& c);
void grouped_mm(const Call& c);
void sdpa(const Call& c);
void sdpa_backward(const Call& c);
void index_put(const Call& c);
void scatter(const Call& c);
void linear_cross_entropy(const Call& c);
void linear_cross_entropy_backward(const Call& c);
void histc(const Call& c);
void rms_norm(const Call& c);
void rms_norm_backward(const Call& c);
void add_rms_norm(const Call& c);
void add_rms_norm_backward(const Call& c);
void rope(const Call& c);
void rope_backward(const Call& c);
void swiglu(const Call& c);
void swiglu_backward(const Call& c);
void adamw_fused(const Call& c);

/// One kernel a kind.
[[nodiscard]] const KernelTable& kernels();

}  // namespace ac_advisor::trainer::cpu
