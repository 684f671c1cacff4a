#include "trainer/rank.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "advise/budget.hpp"
#include "passes/optimizer/ops.hpp"
#include "trainer/kernels/adamw_8bit.hpp"
#include "trainer/kernels/counter_rng.hpp"
#include "trainer/kernels/dynamic_map.hpp"
#include "trainer/kernels/int8.hpp"
#include "trainer/kernels/nf4.hpp"
#include "trainer/nvtx/nvtx.hpp"
#include "trainer/weights/initial.hpp"

namespace ac_advisor::trainer {
namespace {

/// transformers v5.23, modeling_rope_utils.py: default, linear and llama3 frequencies.
at::Tensor rotary_frequencies(const model::ModelSpec& spec, double theta, bool scaled) {
  const std::int64_t half = spec.rotary_dim / 2;
  at::Tensor out = at::empty({half}, at::kFloat);
  auto values = out.accessor<float, 1>();
  for (std::int64_t i = 0; i < half; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(spec.rotary_dim);
    double f = 1.0 / std::pow(theta, exponent);
    if (scaled && spec.rope_scaling) {
      const model::RopeScaling& s = *spec.rope_scaling;
      if (s.type == "linear") {
        f /= s.factor;
      } else {
        const double wave = 2.0 * std::numbers::pi / f;
        const double low = s.original_positions / s.low_freq_factor,
                     high = s.original_positions / s.high_freq_factor;
        if (wave > low) {
          f /= s.factor;
        } else if (wave >= high) {
          const double smooth = (s.original_positions / wave - s.low_freq_factor) /
                                (s.high_freq_factor - s.low_freq_factor);
          f = (1.0 - smooth) * f / s.factor + smooth * f;
        }
      }
    }
    values[i] = static_cast<float>(f);
  }
  return out;
}

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.is_cpu() ? tensor.clone() : tensor.to(at::kCPU);
}

}  // namespace

std::unique_ptr<Built> build(const model::ModelSpec& spec, const StepConfig& config) {
  auto built = std::make_unique<Built>();
  built->spec = spec;
  built->config = config;
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  built->cuda = device.cuda;
  built->step = advise::solve(spec, config, device).step;
  built->schedule = passes::make_schedule(built->step);
  built->parameters = named_parameters(spec, built->step, config.layout);
  for (std::size_t i = 0; i < built->step.parameters.size(); ++i)
    if (built->step.parameters[i].trained) built->trained.push_back(i);
  return built;
}

Rank::Rank(const Built& built, Collectives& collectives, const Data& data, std::uint64_t seed,
           std::int64_t memory_limit, std::unique_ptr<Backend> backend)
    : built_(built),
      collectives_(collectives),
      data_(data),
      seed_(seed),
      backend_(backend ? std::move(backend) : make_cpu_backend()),
      executor_(built.step, built.schedule, built.config, *backend_, tracker_, collectives) {
  if (backend_->memory()) {
    backend_->release_memory();
    tracker_.count_by({[this] { return backend_->memory()->allocated; },
                       [this] {
                         const std::int64_t peak = backend_->memory()->peak_allocated;
                         backend_->reset_peak_memory();
                         return peak;
                       }});
    if (memory_limit > 0 && !backend_->limit_memory(memory_limit))
      throw UserError("--memory-limit " + std::to_string(memory_limit) + ": more than " +
                      backend_->name() + " has");
  } else {
    tracker_.set_limit(memory_limit);
  }
  executor_.set_capture(built.config.runtime.cuda_graph);
  executor_.set_seed(seed);
  executor_.allocate_residents();
  fill_buffers();
  fill_factors();
  fill_maps();
  executor_.set_before_optimizer([this] { copy_gradients(); });
}

void Rank::fill_buffers() {
  const model::ModelSpec& spec = built_.spec;
  const bool local_only = !spec.window.empty() && spec.rotary_tables == 1 &&
                          spec.local_rope_theta != spec.rope_theta && spec.window.front() > 0 &&
                          spec.unit_offset_norm && spec.qk_norm;
  std::int64_t table = 0;  // two buffers each, of each stage
  for (std::size_t i = 0; i < built_.step.buffers.size(); ++i) {
    const ir::ValueId value = built_.step.buffers[i];
    const ir::Program& program = built_.step.program;
    if (program.storage(program.storage_of(value)).role == ir::Role::parameter)
      continue;  // scales and code books, which are loaded with their weights
    const at::Tensor buffer = executor_.tensor(value);
    if (buffer.dim() == 0) {  // the embedding's scale, rounded to the weights' dtype as there
      buffer.fill_(std::sqrt(static_cast<double>(spec.hidden)));
      continue;
    }
    const bool local =
        (spec.rotary_tables > 1 && table / 2 % spec.rotary_tables == 1) || local_only;
    buffer.copy_(rotary_frequencies(spec, local ? spec.local_rope_theta : spec.rope_theta, !local));
    ++table;
  }
}

/// PowerSGD's right factors begin the same on all ranks, normally distributed.
void Rank::fill_factors() {
  std::uint64_t bucket = 0;
  for (const passes::CompressedBucket& kept : built_.step.compressed) {
    const std::uint64_t key = combine(mix(seed_), ++bucket);
    if (kept.q == ir::no_id) continue;
    const at::Tensor q = executor_.tensor(kept.q);
    const at::Tensor host = at::empty(q.sizes(), at::kFloat);
    auto* to = host.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < host.numel(); ++i) to[i] = normal(key, i);
    q.copy_(host);
  }
}

/// What the bytes of an optimizer's moments stand for.
void Rank::fill_maps() {
  const adamw_8bit::Operands* operands = adamw_8bit::operands_of(built_.config.optimizer.kind);
  if (operands == nullptr) return;
  const ir::Program& p = built_.step.program;
  const auto fill = [&](ir::ValueId v, const dynamic_map::Map& map) {
    std::copy(map.begin(), map.end(), executor_.tensor(v).mutable_data_ptr<float>());
  };
  for (const ir::Op& op : p.ops) {
    if (op.phase != ir::Phase::optimizer || op.kind != ir::OpKind::foreach ||
        op.inputs != adamw_8bit::operands_of_bytes ||
        ir::attributes<ir::Foreach>(op).stage >= passes::clip_stages)
      continue;
    fill(p.input(op, operands->average.map), dynamic_map::signed_map());
    fill(p.input(op, operands->squares.map), dynamic_map::unsigned_map());
  }
}

/// Elements [begin, end) of parameter `index`, from the file or the seed, in the dtype of `to`.
void Rank::read_parameter(const Weights* file, std::size_t index, std::int64_t begin,
                          std::int64_t end, const at::Tensor& to) {
  const NamedParameter& parameter = built_.parameters[index];
  const at::Tensor flat = to.view({-1}).narrow(0, 0, end - begin);
  if (parameter.holds == Holds::magnitude && (file == nullptr || without_file(*file, parameter))) {
    initial_magnitude(file, index, begin, end, flat);
  } else if (file != nullptr && !without_file(*file, parameter)) {
    file->read(parameter.name, begin, end, flat);
  } else if (flat.is_cpu()) {
    initial_parameter(built_.spec, parameter, seed_, begin, end, flat);
  } else {
    const at::Tensor host = at::empty(flat.sizes(), flat.options().device(at::kCPU));
    initial_parameter(built_.spec, parameter, seed_, begin, end, host);
    flat.copy_(host);
  }
}

/// The ranks that have the other parts of a split parameter, and this one's place.
std::pair<Group, std::int64_t> Rank::sharing(std::size_t index) const {
  const Group group =
      built_.step.parameters[index].expert ? mesh().expert_parallel() : mesh().tensor_parallel();
  return {group, group.place_of(collectives_.rank())};
}
/// The same of those that it is sharded over.
std::pair<Group, std::int64_t> Rank::sharded(std::size_t index) const {
  const Group group =
      built_.step.parameters[index].expert ? mesh().expert_sharded() : mesh().sharded();
  return {group, group.place_of(collectives_.rank())};
}

/// The same of elements [begin, end) of this rank's part of the parameter.
void Rank::read_own(const Weights* file, std::size_t index, std::int64_t begin, std::int64_t end,
                    const at::Tensor& to) {
  const NamedParameter& parameter = built_.parameters[index];
  if (parameter.split < 0) return read_parameter(file, index, begin, end, to);
  const auto [group, own] = sharing(index);
  std::int64_t run = 1;  // elements that lie together, before the split dimension goes on
  for (std::size_t d = static_cast<std::size_t>(parameter.split); d < parameter.shape.size(); ++d)
    run *= parameter.shape[d];
  run /= group.size;
  const at::Tensor flat = to.view({-1});
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t row = at / run, until = std::min(end, (row + 1) * run);
    const std::int64_t whole = (row * group.size + own) * run + (at - row * run);
    read_parameter(file, index, whole, whole + until - at, flat.narrow(0, at - begin, until - at));
    at = until;
  }
}

/// What a base was loaded in and quantized from: before prepare_model_for_kbit_training cast the
/// rest.
at::ScalarType loaded_in(const StepConfig& c) {
  return c.adapters.kbit_prepare ? at::kBFloat16 : scalar_type(c.precision.param_dtype);
}

/// The weight whose codes parameter `index` holds, into them, the code book and the scales.
void Rank::load_quantized(const Weights* file, std::size_t index) {
  const NamedParameter& parameter = built_.parameters[index];
  const at::Tensor whole = at::empty(parameter.shape, loaded_in(built_.config));
  read_parameter(file, index, 0, whole.numel(), whole);
  const at::Tensor stored = executor_.tensor(built_.step.parameters[index].stored);
  const QuantizationState& state = parameter.state;
  const at::Tensor scales = executor_.tensor(state.scales);
  if (built_.config.adapters.quantize == Quantization::int8) {
    int8::quantize(whole.to(at::kHalf), stored, scales);
    return;
  }
  // A shard is of four weights an element; the scales are of the whole weight.
  const bool sharded = built_.config.layout.gathers();
  const ir::Shape& shape = built_.step.program.value(built_.step.parameters[index].value).shape;
  const at::Tensor codes =
      sharded ? at::zeros({shape.numel()}, stored.options()).view(at::kByte) : stored;
  if (built_.config.adapters.quantize == Quantization::nf4_double) {
    const at::Tensor wide = at::empty(scales.sizes(), at::kFloat);
    nf4::quantize(whole, codes, wide);
    nf4::quantize_scales(wide, scales, executor_.tensor(state.nested),
                         executor_.tensor(state.offset));
  } else {
    nf4::quantize(whole, codes, scales);
  }
  const at::Tensor book = executor_.tensor(state.code_book);
  std::copy(nf4::code_book.begin(), nf4::code_book.end(), book.mutable_data_ptr<float>());
  if (!sharded) return;
  const at::Tensor elements = codes.view(stored.scalar_type());
  const std::int64_t first =
      std::min(this->sharded(index).second * stored.numel(), elements.numel());
  const std::int64_t own = std::min(stored.numel(), elements.numel() - first);
  stored.zero_();
  stored.view({-1}).narrow(0, 0, own).copy_(elements.narrow(0, first, own));
}

/// The parameters of one layer that an adapter's magnitude stands after.
struct Rank::Adapted {
  std::size_t base = 0, a = 0, b = 0;
};

Rank::Adapted Rank::adapted_by(std::size_t magnitude) const {
  Adapted found;
  const ir::ModulePath module = built_.step.parameters[magnitude].module;
  for (std::size_t i = 0; i < magnitude; ++i) {
    if (built_.step.parameters[i].module != module) continue;
    const NamedParameter& p = built_.parameters[i];
    if (p.holds == Holds::adapter_a) found.a = i;
    if (p.holds == Holds::adapter_b) found.b = i;
    if (p.holds == Holds::codes || (p.holds == Holds::weight && p.shape.size() == 2))
      found.base = i;
  }
  return found;
}

/// The lengths of rows [begin, end) of the weight with its adapters, as PEFT's DoraLinearLayer
/// begins (update_layer).
void Rank::initial_magnitude(const Weights* file, std::size_t index, std::int64_t begin,
                             std::int64_t end, const at::Tensor& to) {
  const Adapted layer = adapted_by(index);
  const NamedParameter& base = built_.parameters[layer.base];
  const std::int64_t in = base.shape[1], rank = built_.config.adapters.rank;
  const auto read = [&](std::size_t i, std::int64_t row, std::int64_t first, std::int64_t last,
                        DType dtype) {
    const at::Tensor rows = at::empty({last - first, row}, scalar_type(dtype));
    read_parameter(file, i, first * row, last * row, rows);
    return rows;
  };
  at::Tensor weight;
  if (base.holds == Holds::codes) {
    const at::Tensor codes = executor_.tensor(built_.step.parameters[layer.base].stored),
                     scales = executor_.tensor(base.state.scales);
    const at::Tensor whole = at::empty(base.shape, loaded_in(built_.config));
    nf4::dequantize(codes, {scales}, whole);
    weight = whole.narrow(0, begin, end - begin);
  } else {
    weight = read(layer.base, in, begin, end, built_.config.precision.param_dtype);
  }
  const at::Tensor a = read(layer.a, in, 0, rank, built_.config.adapters.dtype),
                   b = read(layer.b, rank, begin, end, built_.config.adapters.dtype);
  // alpha is twice the rank
  to.copy_(at::linalg_vector_norm(weight + 2 * at::mm(b, a), 2, at::IntArrayRef{1}));
}

void Rank::load_weights(const Weights* file) {
  const StepConfig& c = built_.config;
  if (file != nullptr) check_weights(*file, built_.parameters);
  for (std::size_t i = 0; i < built_.step.parameters.size(); ++i) {
    const passes::Parameter& parameter = built_.step.parameters[i];
    const Holds holds = built_.parameters[i].holds;
    if (holds == Holds::codes) load_quantized(file, i);
    if (is_quantized(holds)) continue;
    const ir::Shape& shape = built_.step.program.value(parameter.value).shape;
    const at::Tensor stored = executor_.tensor(parameter.stored);
    if (!c.layout.gathers()) {
      read_own(file, i, 0, shape.numel(), stored);
      continue;
    }
    const std::int64_t row = shape.numel() / shape[0], first = sharded(i).second * stored.numel();
    const std::int64_t end = std::min(first + stored.numel(), shape[0] * row);
    stored.zero_();
    if (first < end) read_own(file, i, first, end, stored);
  }
  if (!c.layout.zero()) return;
  const at::Tensor master = executor_.tensor(built_.step.optimized.front().parameter);
  const std::int64_t begin = collectives_.rank() * master.numel();
  std::int64_t start = 0;
  for (const std::size_t i : built_.trained) {
    const at::Tensor flat = executor_.tensor(built_.step.parameters[i].stored).view({-1});
    const std::int64_t from = std::max(start, begin),
                       until = std::min(start + flat.numel(), begin + master.numel());
    if (from < until)
      master.narrow(0, from - begin, until - from)
          .copy_(flat.narrow(0, from - start, until - from));
    start += flat.numel();
  }
}

void Rank::load_batch(std::int64_t micro, const std::vector<at::Tensor>& inputs) {
  const StepConfig& c = built_.config;
  const std::int64_t texts = rows_of_batch(c);
  const std::int64_t global =
      (steps_done_ * c.run.grad_accum + micro) * c.layout.data_ranks() * texts;
  const std::int64_t first = global + mesh().sequences_rank() * texts;
  if (c.run.packing > 0) return load_documents(first, inputs);
  const std::int64_t row = tokens_of_row(c), seq = c.run.seq;
  if (row == seq) {
    data_(first, inputs[0]);
    inputs[1].copy_(inputs[0]);  // labels
    return;
  }
  const at::Tensor rows = at::empty({c.run.batch, row}, at::kLong);
  data_(first, rows);
  const std::int64_t parts = (c.layout.ulysses() ? 1 : 2) * c.layout.cp, chunk = seq / parts,
                     rank = mesh().cp_rank();
  // This rank's chunk of the sequences, or in a ring its chunks: one from either end.
  const auto own = [&](const at::Tensor& all, std::int64_t dim) {
    if (c.layout.cp == 1) return all;
    if (c.layout.ulysses()) return all.narrow(dim, rank * chunk, chunk);
    const std::int64_t last = 2 * c.layout.cp - 1 - rank;
    return at::cat({all.narrow(dim, rank * chunk, chunk), all.narrow(dim, last * chunk, chunk)},
                   dim);
  };
  inputs[0].copy_(own(rows.narrow(1, 0, seq), 1));
  inputs[1].copy_(own(rows.narrow(1, 1, seq), 1));
  if (inputs.size() > 2) inputs[2].copy_(own(at::arange(seq, inputs[2].options()), 0));
}

/// A packed row, as TRL's DataCollatorForLanguageModeling (1.16, padding_free) makes it: tokens,
/// labels without each document's first, positions that begin anew, where documents begin.
void Rank::load_documents(std::int64_t first, const std::vector<at::Tensor>& inputs) {
  const std::vector<std::int32_t> offsets = document_offsets(built_.config);
  const std::int64_t documents = built_.config.run.packing;
  const at::Tensor texts = at::empty({documents, tokens_of_row(built_.config)}, at::kLong);
  data_(first, texts);
  const at::Tensor ids = inputs[0][0], labels = inputs[1][0], positions = inputs[2];
  for (std::int64_t d = 0; d < documents; ++d) {
    const std::int64_t begin = offsets[static_cast<std::size_t>(d)],
                       length = offsets[static_cast<std::size_t>(d) + 1] - begin;
    ids.narrow(0, begin, length).copy_(texts[d].narrow(0, 0, length));
    positions.narrow(0, begin, length).copy_(at::arange(length));
  }
  labels.copy_(ids).masked_fill_(positions.eq(0), ignored_label);
  for (const std::size_t i : {3, 4})  // of queries and of keys
    std::copy(offsets.begin(), offsets.end(), inputs[i].mutable_data_ptr<std::int32_t>());
}

void Rank::load_first_batch() {
  std::vector<at::Tensor> staged;
  const auto inputs = executor_.tokens();
  for (const ir::ValueId v : inputs)
    staged.push_back(
        at::empty(sizes(executor_.input_shape(v)), executor_.tensor(v).options().device(at::kCPU)));
  load_batch(0, staged);
  for (std::size_t i = 0; i < staged.size(); ++i)
    executor_.tensor(inputs[i]).narrow(0, 0, staged[i].size(0)).copy_(staged[i]);
}

/// A stored tensor of parameter `index` (itself, its gradient, a moment) in the parameter's shape,
/// on the host.
at::Tensor Rank::whole(std::size_t index, const at::Tensor& stored) {
  const StepConfig& c = built_.config;
  const ir::Shape& own = built_.step.program.value(built_.step.parameters[index].value).shape;
  // Each rank of the group has a part of a tensor; rank after rank.
  const auto gathered = [&](const at::Tensor& part, const std::pair<Group, std::int64_t>& among) {
    const auto& [group, place] = among;
    const at::Tensor all = at::empty({group.size, part.numel()}, part.options());
    all[place].copy_(part.reshape({-1}));
    complete(collectives_.all_gather(all, group));
    return all;
  };
  at::Tensor mine = stored;
  if (c.layout.gathers())
    mine = gathered(stored, sharded(index)).view({-1}).narrow(0, 0, own.numel());
  mine = mine.reshape(sizes(own));
  const std::int64_t split = built_.parameters[index].split;
  if (split < 0) return on_host(mine);
  const at::Tensor parts = gathered(mine, sharing(index));
  std::vector<at::Tensor> list;
  for (const at::Tensor& part : parts.unbind(0)) list.push_back(part.view(sizes(own)));
  return on_host(at::cat(list, split));
}

at::Tensor Rank::parameter(std::size_t index) {
  const MemoryTracker::Scope outside(nullptr);
  return whole(index, executor_.tensor(built_.step.parameters[index].stored));
}

void Rank::copy_gradients() {
  if (capture_ == nullptr) return;
  const MemoryTracker::Scope outside(nullptr);
  const StepConfig& c = built_.config;
  const passes::StepProgram& step = built_.step;
  capture_->clear();
  if (!c.layout.zero()) {
    for (std::size_t i = 0; i < built_.trained.size(); ++i)
      capture_->push_back(whole(built_.trained[i], executor_.tensor(step.optimized[i].gradient)));
    capture_ = nullptr;
    return;
  }
  const at::Tensor mine = executor_.tensor(step.optimized.front().gradient);
  const at::Tensor all = at::zeros({c.layout.world * mine.numel()}, mine.options());
  all.narrow(0, collectives_.rank() * mine.numel(), mine.numel()).copy_(mine);
  complete(collectives_.all_gather(all, collectives_.all()));
  std::int64_t start = 0;
  for (const std::size_t i : built_.trained) {
    const ir::Shape& shape = step.program.value(step.parameters[i].value).shape;
    capture_->push_back(on_host(all.narrow(0, start, shape.numel())
                                    .view(at::IntArrayRef(shape.sizes().data(), shape.rank()))));
    start += shape.numel();
  }
  capture_ = nullptr;
}

Rank::Result Rank::step() {
  Result result;
  double sum = 0;
  const nvtx::Range range(
      (executor_.warms_up() ? std::string("warm-up") : "step " + std::to_string(steps_done_))
          .c_str());
  executor_.drop_survivors();
  tracker_.reset_peaks();
  executor_.host().reset_peak();
  result.timing =
      executor_.run([this](std::int64_t micro,
                           const std::vector<at::Tensor>& inputs) { load_batch(micro, inputs); },
                    [&](std::int64_t, double loss) { sum += loss; });
  // Of a pipeline one stage has losses.
  const StepConfig& c = built_.config;
  result.loss = collectives_.average(sum * static_cast<double>(c.layout.pp) /
                                     static_cast<double>(c.run.grad_accum));
  ++steps_done_;
  return result;
}

void Rank::set_steps_done(std::int64_t steps) {
  steps_done_ = steps;
  executor_.set_step(steps);
}

std::vector<std::pair<std::string, at::Tensor>> Rank::state() {
  const passes::StepProgram& step = built_.step;
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    out.emplace_back(built_.parameters[i].name, executor_.tensor(step.parameters[i].stored));
  const bool flat = built_.config.layout.zero();
  if (flat) out.emplace_back("master", executor_.tensor(step.optimized.front().parameter));
  for (std::size_t b = 0; b < step.compressed.size(); ++b) {
    const passes::CompressedBucket& kept = step.compressed[b];
    for (const auto& [name, value] :
         {std::pair("error", kept.error), std::pair("p", kept.p), std::pair("q", kept.q)})
      if (value != ir::no_id)
        out.emplace_back(fmt::format("compression.{}.{}", b, name), executor_.tensor(value));
  }
  if (adamw_8bit::operands_of(built_.config.optimizer.kind) != nullptr) {
    for (std::size_t i = 0; i < step.optimizer_states.size(); ++i)
      out.emplace_back(fmt::format("optimizer.{}", i), executor_.tensor(step.optimizer_states[i]));
    return out;
  }
  static constexpr const char* kinds[] = {"step.", "exp_avg.", "exp_avg_sq."};
  for (std::size_t i = 0; i < step.optimizer_states.size(); ++i)
    out.emplace_back(kinds[i % 3] + (flat ? std::string("master")
                                          : built_.parameters[built_.trained[i / 3]].name),
                     executor_.tensor(step.optimizer_states[i]));
  return out;
}

}  // namespace ac_advisor::trainer
