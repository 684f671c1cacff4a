// What a rank keeps under DeepSpeed's ZeRO 3 with bf16 and its defaults, deepspeed/runtime/zero/
// stage3.py and partition_parameters.py (v0.19.8): of each parameter an equal part, in bf16, fp32
// masters and moments of the parts, the parts' gradients, and a bucket.
#include "zero3_parts.hpp"

#include <utility>

#include "ac_advisor/passes/pass.hpp"
#include "zero_on_host.hpp"

namespace ac_advisor::passes {

using ir::no_id;
using ir::Role;
using ir::ValueId;

std::int64_t zero3_part(std::int64_t elements, std::int64_t ranks) {
  return (elements + ranks - 1) / ranks;
}

DType zero3_reduced_in(const StepConfig& config) {
  return config.layout.ulysses() ? DType::f32 : config.precision.compute_dtype;
}

ValueId make_whole(ir::Program& program, const Parameter& parameter, std::int64_t elements,
                   ir::ModulePath module) {
  const ir::Value like = program.value(parameter.value);
  const ValueId whole = program.make({elements}, like.dtype, Role::gathered, module);
  program.value(whole).shape = like.shape;
  program.value(whole).requires_grad = parameter.trained;
  return whole;
}

ValueId make_persistent(ir::Program& program, const Parameter& parameter, std::int64_t ranks) {
  const std::int64_t elements = program.value(parameter.value).shape.numel();
  return make_whole(program, parameter, zero3_part(elements, ranks) * ranks, parameter.module);
}

namespace {

// zero/config.py, in elements: reduce_bucket_size, stage3_param_persistence_threshold,
// sub_group_size
constexpr std::int64_t bucket_elements = 500'000'000, persistence_threshold = 100'000,
                       sub_group_elements = 1'000'000'000;

constexpr ir::ModulePath sharded{-1, ir::Module::fsdp};

bool applies(const StepConfig& config) { return config.layout.zero3(); }

/// _create_fp16_sub_groups: parameters in order, until they are as long as a group is to be.
std::vector<std::int64_t> sub_groups(const std::vector<std::int64_t>& parts) {
  std::vector<std::int64_t> groups;
  std::int64_t all = 0, group = 0;
  for (std::int64_t part : parts) all += part;
  if (all <= sub_group_elements) return {all};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    group += parts[i];
    if (group < sub_group_elements && i + 1 < parts.size()) continue;
    groups.push_back(std::exchange(group, 0));
  }
  return groups;
}

/// This rank's parts in one buffer, their gradients in another, masters a sub-group, the bucket.
void make_parts(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  ir::Program& p = step.program;
  const DType dtype = config.precision.compute_dtype;
  std::vector<std::int64_t> parts;
  std::int64_t all = 0;
  const auto part_of = [&](const Parameter& parameter) {
    return zero3_part(p.value(parameter.value).shape.numel(), config.layout.world);
  };
  for (const Parameter& parameter : step.parameters) {
    if (!parameter.trained) continue;
    parts.push_back(part_of(parameter));
    all += parts.back();
  }
  Zero3Values& z = step.zero3;
  z.partitions = p.make({all}, dtype, Role::parameter, sharded);
  z.gradients = p.make({all}, dtype, Role::gradient, sharded);
  z.bucket = p.make({bucket_elements}, zero3_reduced_in(config), Role::communication, sharded);
  const bool on_host = zero_on_host(config), parts_on_host = zero_parameters_on_host(config);
  step.resident.push_back(z.bucket);
  if (parts_on_host) step.on_host.push_back({z.partitions, no_id});
  if (!parts_on_host) step.resident.push_back(z.partitions);
  if (on_host) step.on_host.push_back({z.gradients, no_id});
  if (!on_host) step.resident.push_back(z.gradients);
  for (const Parameter& parameter : step.parameters)
    z.is_persistent.push_back(p.value(parameter.value).shape.numel() <= persistence_threshold);
  std::int64_t start = 0;
  for (Parameter& parameter : step.parameters) {
    const std::int64_t part = part_of(parameter);
    if (parameter.trained) {
      parameter.stored = p.narrow(z.partitions, 0, start, part);
      start += part;
    } else {  // a frozen one's stands by itself, as Init made it
      parameter.stored = p.make({part}, dtype, Role::parameter,
                                {sharded.block, sharded.leaf, parameter.module.owner});
      step.resident.push_back(parameter.stored);
    }
  }
  for (std::int64_t elements : sub_groups(parts)) {
    step.optimized.push_back(
        {p.make({elements}, DType::f32, Role::optimizer_state, {-1, ir::Module::optimizer}),
         no_id});
    if (!on_host) {
      step.resident.push_back(step.optimized.back().parameter);
      continue;
    }
    step.optimized.back().gradient =
        p.make({elements}, DType::f32, Role::gradient, {-1, ir::Module::optimizer});
    step.on_host.push_back({step.optimized.back().gradient, no_id});
  }
}

}  // namespace

extern const Pass zero3_parts_pass;
const Pass zero3_parts_pass{"zero3-parts",
                            Stage::before,
                            "zero3: this rank's part of each parameter, their masters, a bucket",
                            applies,
                            make_parts,
                            {},
                            Of::pytorch};

}  // namespace ac_advisor::passes
