#include "trainer/calibrate/calibrate.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "ac_advisor/simulate/device.hpp"
#include "trainer/calibrate/programs.hpp"
#include "trainer/kernels/counter_rng.hpp"
#include "trainer/rank.hpp"

namespace ac_advisor::trainer {
namespace {

/// Beyond any cache that stands before the device's memory.
constexpr std::int64_t cold_bytes = std::int64_t{96} << 20;
constexpr std::int64_t most_copies = 64;

Data random_tokens(std::int64_t vocab, const std::function<void()>& loaded) {
  return [vocab, loaded](std::int64_t first, at::Tensor ids) {
    const at::Tensor host = at::empty(ids.sizes(), at::kLong);  // ids may be on a device
    auto rows = host.accessor<std::int64_t, 2>();
    for (std::int64_t r = 0; r < ids.size(0); ++r)
      for (std::int64_t t = 0; t < ids.size(1); ++t)
        rows[r][t] =
            static_cast<std::int64_t>(mix(static_cast<std::uint64_t>((first + r) * (1 << 20) + t)) %
                                      static_cast<std::uint64_t>(vocab));
    ids.copy_(host);
    loaded();
  };
}

/// Whether the host runs ahead of it.
bool runs_behind(Backend& backend) { return backend.memory().has_value(); }

/// Random numbers: where bits do not change multiprocessors take less power, and products run 13 %
/// faster. Second moments are among them: all are positive.
void fill(const at::Tensor& tensor) {
  if (tensor.is_floating_point())
    tensor.uniform_(0.001, 0.05);
  else
    tensor.zero_();
}

/// Whole training steps of a small model, on one rank; of two, if it is sharded, with the first
/// one's memory and kernels and no link.
void measure_model(const Calibration& c, const CalibrationSet::Model& m, const Effort& effort,
                   Samples& samples) {
  OptionList options = m.options;
  options.emplace_back("--gpu", c.config.device.gpu);
  StepConfig config = resolve_options(options);
  config.runtime.kind = Runtime::ac_trainer;
  config.device.threads = c.config.device.threads;
  const auto built = build(m.spec, config);
  const auto collectives =
      config.layout.world > 1 ? make_emulated(config.layout.world) : make_single();
  OpTimer* timer = nullptr;
  const Data data = random_tokens(m.spec.vocab, [&] {
    if (timer != nullptr) timer->begin();
  });
  Rank rank(*built, *collectives, data, /*seed=*/0, /*memory_limit=*/0, c.backend());
  {
    const MemoryTracker::Scope scope(&rank.tracker());
    for (const passes::Parameter& p : built->step.parameters)
      rank.executor().tensor(p.stored).uniform_(-0.05, 0.05);
  }
  OpTimer op_timer(rank.executor(), runs_behind(rank.backend()));
  timer = &op_timer;
  samples.add(built->step.program,
              op_timer.measure([&] { static_cast<void>(rank.step()); }, effort));
}

/// A program of this folder's own, its residents filled with small random numbers.
std::vector<OpTime> measure_program(const Calibration& c, const passes::StepProgram& step,
                                    const Effort& effort) {
  const passes::Schedule schedule = passes::make_schedule(step);
  MemoryTracker tracker;
  const auto collectives = make_single();
  const auto backend = c.backend();
  backend->release_memory();  // each has a stream, and what another's has cached is of no use to it
  Executor executor(step, schedule, c.config, *backend, tracker, *collectives);
  executor.allocate_residents();
  {
    const MemoryTracker::Scope scope(&tracker);
    for (ir::ValueId v : step.resident) fill(executor.tensor(v));
  }
  OpTimer timer(executor, runs_behind(*backend));
  const Executor::Load load = [&](std::int64_t, const std::vector<at::Tensor>&) { timer.begin(); };
  return timer.measure([&] { executor.run(load, [](std::int64_t, double) {}); }, effort);
}

void measure_product(const Calibration& c, const CalibrationSet::Product& product, DType dtype,
                     const Effort& effort, std::int64_t most_work, Samples& samples) {
  const std::int64_t bytes = product.n * product.k * size_of(dtype);
  const std::int64_t work = 2 * product.m * product.n * product.k;
  const std::int64_t copies =
      std::clamp<std::int64_t>(std::min(cold_bytes / bytes, most_work / work), 2, most_copies);
  const passes::StepProgram step = product_program(product, dtype, copies);
  samples.add(step.program, measure_program(c, step, effort));
}

void measure_lists(const Calibration& c, std::int64_t elements, DType dtype, const Effort& effort,
                   Samples& samples) {
  for (const Optimizer optimizer : {Optimizer::adamw, Optimizer::adamw_foreach, Optimizer::sgd}) {
    const std::int64_t bytes = 4 * elements * size_of(dtype);
    const std::int64_t tensors = std::clamp<std::int64_t>(cold_bytes / bytes, 1, most_copies);
    const passes::StepProgram step = list_program(optimizer, dtype, tensors, elements);
    const std::vector<OpTime> times = measure_program(c, step, effort);
    for (std::size_t i = 0; i < times.size(); ++i) {
      simulate::Signature s = simulate::signature(step.program, step.program.ops[i]);
      if (s.pieces.empty()) continue;
      const auto pieces = static_cast<double>(s.pieces.size());
      s.size[0] = s.pieces.front();
      samples.add(s, {times[i].seconds / pieces, times[i].issue / pieces});
    }
  }
}

}  // namespace

simulate::Measurements calibrate(const Calibration& c) {
  const simulate::Device& device = simulate::find_device(c.config.device.gpu);
  const CalibrationSet set = calibration_set(c.extent, device.cuda);
  if (!device.cuda) at::set_num_threads(static_cast<int>(c.config.device.threads));
  const DType usual = device.cuda ? DType::bf16 : DType::f32;
  Samples samples;
  const auto seconds = [&](std::size_t n, double each) { return static_cast<double>(n) * each; };
  const double all = seconds(set.models.size(), set.model_seconds) +
                     seconds(set.products.size(), set.product_seconds) +
                     seconds(set.list_elements.size() * 3, set.list_seconds);
  double done = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto run = [&](const std::string& what, double each, const auto& measure) {
    if (c.progress) c.progress(what, done / all);
    done += each;
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(set.most_seconds))
      return;
    try {
      measure();
    } catch (const OutOfMemory&) {  // not on this device
    } catch (const c10::OutOfMemoryError&) {
    }
  };
  for (const CalibrationSet::Model& m : set.models)
    run(fmt::format("steps of {} wide", m.spec.hidden), set.model_seconds, [&] {
      measure_model(c, m, {set.model_seconds, 3, 60}, samples);
    });
  for (std::int64_t elements : set.list_elements)
    run("optimizers", 3 * set.list_seconds, [&] {
      measure_lists(c, elements, DType::f32, {set.list_seconds, 3, 40}, samples);
      if (device.cuda) measure_lists(c, elements, DType::bf16, {set.list_seconds, 3, 40}, samples);
    });
  const std::size_t stride = 7;  // so that a grid that is cut short is thin, not cut off
  for (std::size_t first = 0; first < stride; ++first)
    for (std::size_t i = first; i < set.products.size(); i += stride) {
      const CalibrationSet::Product& p = set.products[i];
      run("matrix products", set.product_seconds, [&] {
        measure_product(c, p, usual, {set.product_seconds, 2, 20}, set.most_flops, samples);
      });
    }
  simulate::Measurements result;
  result.threads = c.config.device.threads;
  result.series = samples.series();
  return result;
}

}  // namespace ac_advisor::trainer
