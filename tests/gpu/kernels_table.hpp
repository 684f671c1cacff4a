#pragma once

#include "trainer/kernels/cuda/device/device.hpp"

namespace ac_advisor::test {

/// One implementation of device.hpp, where a program has both.
struct KernelTable {
  decltype(&trainer::cuda::device::rms_norm) rms_norm;
  decltype(&trainer::cuda::device::rms_norm_backward) rms_norm_backward;
  decltype(&trainer::cuda::device::rope) rope;
  decltype(&trainer::cuda::device::swiglu) swiglu;
  decltype(&trainer::cuda::device::swiglu_backward) swiglu_backward;
  decltype(&trainer::cuda::device::adamw) adamw;
  decltype(&trainer::cuda::device::copy_shards) copy_shards;
  decltype(&trainer::cuda::device::loss_forward) loss_forward;
  decltype(&trainer::cuda::device::loss_mean) loss_mean;
  decltype(&trainer::cuda::device::loss_scale) loss_scale;
  decltype(&trainer::cuda::device::loss_backward) loss_backward;
  decltype(&trainer::cuda::device::dropout) dropout;
};

/// This program's, or this library's: a name of its own in each file.
constexpr KernelTable linked_kernels{&trainer::cuda::device::rms_norm,
                                     &trainer::cuda::device::rms_norm_backward,
                                     &trainer::cuda::device::rope,
                                     &trainer::cuda::device::swiglu,
                                     &trainer::cuda::device::swiglu_backward,
                                     &trainer::cuda::device::adamw,
                                     &trainer::cuda::device::copy_shards,
                                     &trainer::cuda::device::loss_forward,
                                     &trainer::cuda::device::loss_mean,
                                     &trainer::cuda::device::loss_scale,
                                     &trainer::cuda::device::loss_backward,
                                     &trainer::cuda::device::dropout};

/// The host's, from a library of their own.
[[nodiscard]] const KernelTable& host_kernels();

}  // namespace ac_advisor::test
