// DeepSpeed's offload_optimizer with ZeRO 1 and 2, deepspeed/runtime/zero/stage_1_and_2.py
// (v0.19.8), cpu_offload: a reduced gradient leaves at once, in fp32, into the pinned gradient of
// the host's partition. Micro-batches before the last leave it whole, in its own dtype, and each
// adds what is there by way of a buffer of the device.
#include "zero_on_host.hpp"

#include "ac_advisor/ir/attributes.hpp"

namespace ac_advisor::passes {

using ir::OpKind;
using ir::Role;
using ir::ValueId;

bool zero_on_host(const StepConfig& c) {
  return c.layout.zero() && (c.memory.offload == Offload::optimizer || zero_parameters_on_host(c));
}

bool zero_parameters_on_host(const StepConfig& c) {
  return c.layout.zero3() && c.memory.offload == Offload::parameters;
}

ValueId zero_gradient_to_host(ir::Program& p, const EmitOp& emit, const ZeroHostGradient& given) {
  constexpr ir::ModulePath module{-1, ir::Module::optimizer};
  const auto kernel = [&](ValueId from, std::vector<ValueId> to) {
    p.op(emit(OpKind::foreach, module, {from}, to)).attributes = ir::Foreach{0, 1, 1, false};
  };
  const auto temporary = [&](const ir::Shape& shape) {
    return p.make(shape, DType::f32, Role::temporary, module);
  };
  const std::int64_t whole = p.value(given.gradient).shape.numel();
  const ValueId gradient = p.value(given.gradient).shape.rank() == 1
                               ? given.gradient
                               : p.reshape(given.gradient, {whole});
  if (given.adds) {  // async_accumulate_grad_in_cpu_via_gpu
    const ValueId there = p.narrow(given.buffer, 0, 0, whole);
    emit(OpKind::copy_from_host, module, {there}, {});
    emit(OpKind::hold, module, {there}, {});
    emit(OpKind::accumulate_inplace, module, {gradient, there}, {});
  }
  if (given.adds || given.waits) emit(OpKind::copy_to_host, module, {gradient}, {});
  if (!given.last) return ir::no_id;
  const ValueId part = p.narrow(gradient, 0, 0, given.elements);
  // set_norm_for_param_grad_in_gpu. A double for each element: two fp32, as no tensor of a step is
  // in fp64.
  const ValueId wide = temporary({given.elements, 2}), norm = temporary({2});
  kernel(part, {wide});
  kernel(wide, {norm});
  kernel(gradient, {temporary({})});  // has_inf_or_nan: amax and amin
  kernel(gradient, {temporary({})});
  // async_inplace_copy_grad_to_fp32_buffer_from_gpu
  const ValueId cast = temporary({given.elements});
  emit(OpKind::cast, module, {part}, {cast});
  emit(OpKind::copy_to_host, module, {cast}, {});
  return norm;
}

}  // namespace ac_advisor::passes
