#include "trainer/run_step.hpp"

#include <ATen/Parallel.h>

#include <exception>
#include <filesystem>
#include <thread>

#include "test_paths.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/kernels/counter_rng.hpp"

namespace ac_advisor::test {

/// A binary that was carried to another machine is run from a checkout's root there.
std::string source_folder() {
  return std::filesystem::exists(source_dir) ? std::string(source_dir) : std::string(".");
}

OptionList trainer_options(const OptionList& options) {
  OptionList all{{"--gpu", "cpu"},           {"--param-dtype", "fp32"}, {"--compute-dtype", "fp32"},
                 {"--reduce-dtype", "fp32"}, {"--batch", "2"},          {"--seq", "32"}};
  for (const auto& option : options) {
    std::erase_if(all, [&](const auto& given) { return given.first == option.first; });
    all.push_back(option);
  }
  return all;
}

StepConfig trainer_config(const OptionList& options) {
  OptionList all = trainer_options(options);
  // The trainer's checkpoints are not reentrant, as PEFT's are over a base in few bits.
  if (given(options, "--kbit-prepare")) all.emplace_back("--no-ac-reentrant", "");
  StepConfig config = resolve_options(all);
  config.runtime.kind = Runtime::ac_trainer;
  return config;
}

OptionList with(OptionList list, const OptionList& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

std::string oracle_model_name(const std::string& name) {
  return name == "tiny-llama" ? name : source_folder() + "/tests/oracle/models/" + name;
}

model::ModelSpec oracle_model(const std::string& name) {
  return model::load_model(oracle_model_name(name));
}

trainer::Data random_tokens(std::int64_t vocab) {
  return [vocab](std::int64_t first, at::Tensor ids) {
    auto rows = ids.accessor<std::int64_t, 2>();
    for (std::int64_t r = 0; r < ids.size(0); ++r)
      for (std::int64_t t = 0; t < ids.size(1); ++t)
        rows[r][t] = static_cast<std::int64_t>(
            trainer::mix(static_cast<std::uint64_t>((first + r) * 4096 + t)) %
            static_cast<std::uint64_t>(vocab));
  };
}

Outcome run_steps(const model::ModelSpec& model, const StepConfig& config, int steps,
                  const trainer::Data& data, bool emulated, const trainer::Weights* weights,
                  const Wrap& wrap, const MakeBackend& backend) {
  trainer::MemoryTracker::install();
  const auto built = trainer::build(model, config);
  Outcome outcome;
  const auto run = [&](trainer::Collectives& collectives) {
    at::set_num_threads(static_cast<int>(config.device.threads));
    trainer::Rank rank(*built, collectives, data, /*seed=*/1, /*memory_limit=*/0,
                       backend ? backend() : nullptr);
    rank.load_weights(weights);
    std::vector<at::Tensor> gradients;
    rank.capture_gradients(&gradients);
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) losses.push_back(rank.step().loss);
    std::vector<at::Tensor> parameters;
    for (std::size_t i = 0; i < built->step.parameters.size(); ++i)
      parameters.push_back(rank.parameter(i));
    if (collectives.rank() != 0) return;
    outcome = {losses.front(),
               gradients,
               losses,
               rank.tracker().peak().bytes,
               rank.tracker().declared_peak().bytes,
               rank.tracker().peak_by_phase(),
               rank.tracker().declared_peak_by_phase(),
               parameters,
               rank.executor().host().peak()};
  };
  if (config.layout.world == 1) {
    run(*trainer::make_single());
  } else if (emulated) {
    run(*trainer::make_emulated(config.layout.world));
  } else {
    auto ranks = trainer::make_local(config.layout.world, /*timeout_seconds=*/60);
    for (auto& rank : ranks)
      if (wrap) rank = wrap(std::move(rank));
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(ranks.size());
    for (std::size_t r = 0; r < ranks.size(); ++r)
      threads.emplace_back([&, r] {
        try {
          run(*ranks[r]);
        } catch (...) {
          errors[r] = std::current_exception();
          ranks[r]->abort("failed");
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }
  return outcome;
}

void check_planned(const Outcome& run, const profile::Memory& predicted, bool workspaces) {
  const auto joined = [](std::array<std::int64_t, 5> phases) {
    phases[2] = std::max(phases[2], phases[3]);  // recomputation is inside backward
    return phases;
  };
  const std::array<std::int64_t, 5> phases = joined(run.by_phase),
                                    declared = joined(run.declared_by_phase);
  CHECK(run.declared_peak == predicted.peak_excluding_workspace);
  if (workspaces) CHECK(run.peak == predicted.peak_allocated);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    CAPTURE(i);
    CHECK(declared[i] == predicted.peak_by_phase_excluding_workspace[i]);
    if (workspaces) CHECK(phases[i] == predicted.peak_by_phase[i]);
  }
}

at::Tensor read_all(const trainer::SafetensorsFile& file, const std::string& name) {
  const auto& entry = file.entries().at(name);
  at::Tensor to = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype));
  file.read(name, 0, to.numel(), to);
  return to;
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = a.size() == b.size() ? 0.0 : 1e30;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const at::Tensor x = a[i].to(at::kDouble), y = b[i].to(at::kDouble);
    const double norm = y.norm().item<double>();
    const double difference = (x - y).norm().item<double>();
    const double relative = norm > 0 ? difference / norm : difference;
    worst = relative >= 0 ? std::max(worst, relative) : 1e30;  // NaN counts as different
  }
  return worst;
}

bool bit_identical(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i], b[i])) return false;
  return true;
}

}  // namespace ac_advisor::test
