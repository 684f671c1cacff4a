// The fused kinds: the tensors of a call as the raw kernels take them (device/device.hpp).
#include <vector>

#include "ac_advisor/ir/tiles.hpp"
#include "trainer/executor.hpp"
#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cuda/cuda.hpp"
#include "trainer/kernels/cuda/torch/torch.hpp"

namespace ac_advisor::trainer::cuda {
namespace {

device::Rows rows(const at::Tensor& x) {
  TORCH_INTERNAL_ASSERT(x.dim() <= 4 && x.stride(-1) == 1, "rows are contiguous");
  device::Rows r;
  r.data = x.mutable_data_ptr();
  for (std::int64_t d = 0; d + 1 < x.dim(); ++d) {
    const auto place = static_cast<std::size_t>(d + 4 - x.dim());
    r.sizes[place] = x.size(d);
    r.strides[place] = x.stride(d);
  }
  return r;
}

std::int64_t row_count(const at::Tensor& x) { return x.numel() / x.size(-1); }

void norm(const Call& c, const at::Tensor& added, const at::Tensor& sum, const at::Tensor& weight) {
  const at::Tensor x = c.in(0);
  device::NormForward f;
  f.type = element(x);
  f.x = rows(x);
  if (added.defined()) {
    f.added = rows(added);
    f.sum = rows(sum);
  }
  f.y = rows(c.out(0));
  f.weight = weight.const_data_ptr();
  f.inverse_rms = c.out(1).mutable_data_ptr<float>();
  f.rows = row_count(x);
  f.columns = x.size(-1);
  f.epsilon = static_cast<float>(c.attributes<ir::RmsNorm>().epsilon);
  f.unit_offset = c.attributes<ir::RmsNorm>().unit_offset;
  device::rms_norm(f, stream());
}

void norm_backward(const Call& c, const at::Tensor& other) {
  const at::Tensor g = c.in(0), x = c.in(1), weight = c.in(2), dweight = c.out(1);
  device::NormBackward b;
  b.type = element(x);
  b.g = rows(g);
  b.dx = rows(c.out(0));
  b.x = rows(x);
  if (other.defined()) b.other = rows(other);
  b.weight = weight.const_data_ptr();
  b.inverse_rms = c.in(3).const_data_ptr<float>();
  b.dweight = dweight.mutable_data_ptr();
  b.rows = row_count(x);
  b.columns = x.size(-1);
  b.unit_offset = c.attributes<ir::RmsNorm>().unit_offset;
  b.partial_rows = ir::norm_partial_rows(b.rows, b.columns);
  const at::Tensor partials = at::empty({b.partial_rows, b.columns}, x.options().dtype(at::kFloat));
  b.partials = partials.mutable_data_ptr<float>();
  device::rms_norm_backward(b, stream());
}

device::Rope turn(const at::Tensor& x, const at::Tensor& y, const at::Tensor& cos,
                  const at::Tensor& sin, bool back) {
  device::Rope r;
  r.type = element(x);
  r.x = rows(x);
  r.y = rows(y);
  r.cos = cos.const_data_ptr();
  r.sin = sin.const_data_ptr();
  r.rows = row_count(x);
  r.columns = x.size(-1);
  r.tokens = x.size(2);
  r.width = cos.size(-1);
  r.back = back;
  return r;
}

void turn_both(const Call& c, bool back) {
  const at::Tensor cos = c.in(2), sin = c.in(3);
  device::rope(turn(c.in(0), c.out(0), cos, sin, back), turn(c.in(1), c.out(1), cos, sin, back),
               stream());
}

/// Read where it lies, if it lies as the output does; a copy is made of any other.
void drop(const Call& c, std::uint8_t* mask) {
  const at::Tensor x = c.in(0), y = c.out(0);
  TORCH_INTERNAL_ASSERT(y.is_contiguous(), "dropout works on contiguous scores");
  const bool alike = x.is_contiguous() && x.scalar_type() == y.scalar_type();
  if (!alike) y.copy_(x);
  Executor& executor = c.executor();
  device::Dropout d;
  d.type = element(y);
  d.from = alike ? x.const_data_ptr() : y.const_data_ptr();
  d.data = y.mutable_data_ptr();
  d.mask = mask;
  d.elements = y.numel();
  d.p = c.attributes<ir::Dropout>().probability;
  d.scale = static_cast<float>(1.0 / (1.0 - c.attributes<ir::Dropout>().probability));
  d.step_key = executor.backend().step_scalars().dropout_key;
  d.micro = static_cast<std::uint64_t>(executor.micro());
  d.rank = static_cast<std::uint64_t>(executor.collectives().rank());
  d.op = executor.dropout_op(c.op());
  device::dropout(d, stream());
}

}  // namespace

void rms_norm(const Call& c) { norm(c, {}, {}, c.in(1)); }
void add_rms_norm(const Call& c) { norm(c, c.in(1), c.out(2), c.in(2)); }
void rms_norm_backward(const Call& c) { norm_backward(c, {}); }
void add_rms_norm_backward(const Call& c) { norm_backward(c, c.in(4)); }

void rope(const Call& c) { turn_both(c, /*back=*/false); }
void rope_backward(const Call& c) { turn_both(c, /*back=*/true); }

void swiglu(const Call& c) {
  const at::Tensor gate = c.in(0);
  device::Swiglu s;
  s.type = element(gate);
  s.gate = rows(gate);
  s.up = rows(c.in(1));
  s.y = rows(c.out());
  s.rows = row_count(gate);
  s.columns = gate.size(-1);
  s.gelu = c.attributes<ir::SwiGlu>().gate == ir::Gate::gelu_tanh;
  device::swiglu(s, stream());
}

void swiglu_backward(const Call& c) {
  const at::Tensor gate = c.in(1);
  device::SwigluBackward s;
  s.type = element(gate);
  s.g = rows(c.in(0));
  s.gate = rows(gate);
  s.up = rows(c.in(2));
  s.dgate = rows(c.out(0));
  s.dup = rows(c.out(1));
  s.rows = row_count(gate);
  s.columns = gate.size(-1);
  s.gelu = c.attributes<ir::SwiGlu>().gate == ir::Gate::gelu_tanh;
  device::swiglu_backward(s, stream());
}

void dropout(const Call& c) {
  drop(c, c.outputs() > 1 ? c.out(1).mutable_data_ptr<std::uint8_t>() : nullptr);
}

void dropout_backward(const Call& c) { drop(c, nullptr); }

void adamw_fused(const Call& c) {
  const aten::OptimizerTensors t = aten::optimizer_tensors(c);
  const OptimizerSettings& o = c.executor().optimizer();
  std::vector<device::AdamWTensor> list(t.parameters.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    list[i] = {element(t.parameters[i]),        t.parameters[i].mutable_data_ptr(),
               t.gradients[i].const_data_ptr(), t.averages[i].mutable_data_ptr(),
               t.squares[i].mutable_data_ptr(), t.steps[i].mutable_data_ptr<float>(),
               t.parameters[i].numel()};
  const device::AdamW settings{c.executor().backend().step_scalars().learning_rate, o.beta1,
                               o.beta2, o.epsilon, o.weight_decay};
  device::adamw(list.data(), static_cast<std::int64_t>(list.size()), settings, stream());
}

}  // namespace ac_advisor::trainer::cuda
