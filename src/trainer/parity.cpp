#include "trainer/parity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ac_advisor::trainer {
namespace {

// ‖Δ‖/‖g‖ of one tensor. fp32: sums taken in another order; bf16: roundings that eager takes and a
// fused kernel does not. What is computed wrongly is off by far more.
constexpr double fp32_bound = 1e-4, bf16_bound = 0.1;

bool of_one_length(const StepConfig& c) { return c.run.batch * c.run.seq % c.run.packing == 0; }

/// Documents of one length as rows of their own, with as many labels each; of two lengths in a row
/// whose scores are masked.
void apart(const StepConfig& config, ModelRun& run) {
  if (!of_one_length(config)) {
    run.attention = Attention::eager;
    return;
  }
  run.batch = config.run.packing * config.layout.data_ranks();
  run.seq = config.attended_tokens();
  run.packing = 0;
}

StepConfig reference_config(const StepConfig& config) {
  StepConfig c = config;
  c.run.batch = config.run.batch * config.layout.data_ranks();
  c.run.labels_shifted = config.layout.cp > 1;
  if (config.run.packing > 0) apart(config, c.run);
  c.layout = Layout{};
  c.memory.ac = AcMode::none;
  c.memory.ac_arg = 0;
  c.memory.block_modes.clear();
  c.memory.scope = AcScope::block;
  c.memory.offload = Offload::none;
  c.memory.loss = LossKind::ce;
  c.memory.kernels = Kernels::eager;
  c.precision.autocast = c.memory.wide_output = false;
  c.precision.compute_dtype = c.precision.reduce_dtype = c.precision.param_dtype;
  c.compression = {};
  c.runtime.cuda_graph = CudaGraph::off;
  return c;
}

}  // namespace

std::string gradient_digest(const std::vector<NamedGradient>& gradients) {
  std::uint64_t h = 0xCBF29CE484222325ULL;
  for (const NamedGradient& gradient : gradients) {
    const at::Tensor dense = gradient.tensor.contiguous();
    const auto* bytes = static_cast<const unsigned char*>(dense.const_data_ptr());
    for (std::size_t i = 0; i < dense.nbytes(); ++i) h = (h ^ bytes[i]) * 0x100000001B3ULL;
  }
  return fmt::format("{:016x}", h);
}

void compare_gradients(profile::Numerics& numerics, const Built& built,
                       const std::vector<NamedGradient>& gradients, const profile::RunSpec& spec,
                       const Weights* weights, std::unique_ptr<Backend> backend) {
  numerics.gradient_digest = gradient_digest(gradients);
  const bool draws = built.config.run.dropout > 0.0 || built.spec.attention_dropout > 0.0;
  if (draws && built.config.layout.world > 1) {
    numerics.parity = "not compared: each rank drops out other elements";
    return;
  }
  if (built.config.run.packing > 0 && built.config.layout.world > 1 &&
      !of_one_length(built.config)) {
    numerics.parity = "not compared: documents of all ranks in one row would have other lengths";
    return;
  }
  const auto reference = build(built.spec, reference_config(built.config));
  numerics.reference = "eager, ce, no checkpointing, one rank, the same batch";
  if (built.config.run.packing > 0)
    numerics.reference += reference->config.run.packing > 0
                              ? ", its documents masked by eager attention"
                              : ", its documents a row each";
  const auto alone = make_single();
  const Data data = TextData(spec.data, tokens_of_row(built.config), built.spec.vocab, spec.seed);
  std::vector<at::Tensor> wanted;
  {
    Rank rank(*reference, *alone, data, spec.seed, /*memory_limit=*/0, std::move(backend));
    rank.load_weights(weights);
    rank.capture_gradients(&wanted);
    static_cast<void>(rank.step());
  }
  std::string worst_name;
  bool same = true;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = reference->parameters[reference->trained[i]].name;
    const auto found = std::find_if(gradients.begin(), gradients.end(),
                                    [&](const NamedGradient& g) { return g.name == name; });
    if (found == gradients.end()) throw std::logic_error(name + ": no rank has its gradient");
    const at::Tensor a = found->tensor.to(at::kDouble), b = wanted[i].to(at::kDouble);
    same = same && at::equal(found->tensor.to(wanted[i].scalar_type()), wanted[i]);
    const double norm = b.norm().item<double>(), difference = (a - b).norm().item<double>();
    double error = norm > 0 ? difference / norm : difference;
    if (!std::isfinite(error)) error = HUGE_VAL;
    if (error > numerics.parity_error || worst_name.empty()) {
      numerics.parity_error = std::max(numerics.parity_error, error);
      worst_name = name;
    }
  }
  const double bound = built.config.precision.compute_dtype == DType::f32 ? fp32_bound : bf16_bound;
  if (built.config.compression.used())
    numerics.parity = fmt::format("compressed, {:.1e} from whole gradients", numerics.parity_error);
  else if (same)
    numerics.parity = "bit-identical";
  else if (numerics.parity_error <= bound)
    numerics.parity = fmt::format("agrees, {:.1e}", numerics.parity_error);
  else
    numerics.parity = fmt::format("DIFFERS, {:.1e} in {}", numerics.parity_error, worst_name);
  if (!std::isfinite(numerics.parity_error)) numerics.parity_error = 1e300;
}

}  // namespace ac_advisor::trainer
