#include "trainer/run.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "advise/plan_rank.hpp"
#include "trainer/between_ranks.hpp"
#include "trainer/checkpoint.hpp"
#include "trainer/instrumented.hpp"
#include "trainer/measured.hpp"
#include "trainer/nvtx/nvtx.hpp"
#include "trainer/parity.hpp"
#include "trainer/stop.hpp"

namespace ac_advisor::trainer {
namespace {

std::atomic<void (*)(std::int64_t)> step_watch{nullptr};

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

/// A constant rate after a linear warm-up.
double learning_rate(const profile::RunSpec& spec, std::int64_t step) {
  if (step >= spec.warmup_steps) return spec.learning_rate;
  return spec.learning_rate * static_cast<double>(step + 1) /
         static_cast<double>(spec.warmup_steps + 1);
}

/// A line a step on a log, a bar that is drawn over on a terminal.
class Progress {
 public:
  Progress(const profile::RunSpec& spec, bool speaks)
      : spec_(spec), speaks_(speaks), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }
  void step(std::int64_t number, double loss, std::int64_t peak, double seconds) {
    if (!speaks_) return;
    const std::string line =
        fmt::format("step {:>5}  loss {:.4f}  mem {:.3f} GiB  {:.1f} ms", number + 1, loss,
                    static_cast<double>(peak) / gib, seconds * 1e3);
    if (spec_.log_steps) {
      std::fprintf(stderr, "%s\n", line.c_str());
      return;
    }
    if (!terminal_) return;
    const std::int64_t width = 20,
                       full = width * (++done_) / std::max<std::int64_t>(1, spec_.steps);
    std::string bar(static_cast<std::size_t>(std::min(full, width)), '#');
    bar.resize(static_cast<std::size_t>(width), '.');
    std::fprintf(stderr, "\r\033[K[%s] %s", bar.c_str(), line.c_str());
    std::fflush(stderr);
    drawn_ = true;
  }

 private:
  const profile::RunSpec& spec_;
  bool speaks_, terminal_, drawn_ = false;
  std::int64_t done_ = 0;
};

std::string out_of_memory(Rank& rank, const OutOfMemory& error) {
  const Live live = live_now(rank);
  const ir::OpId op = rank.executor().current();
  const ir::Program& p = rank.built().step.program;
  std::string text =
      fmt::format("out of memory: rank {}, step {}: {} bytes asked for, {} live{}", rank.rank(),
                  rank.steps_done() + 1, error.requested, live.bytes,
                  error.limit > 0 ? fmt::format(", limit {}", error.limit) : std::string());
  if (op != ir::no_id) text += fmt::format(", in {}", to_string(p.op(op).module));
  const auto list = [&](const char* title, const std::map<std::string, std::int64_t>& parts) {
    text += fmt::format("\n  live by {}:", title);
    std::vector<std::pair<std::int64_t, std::string>> order;
    for (const auto& [name, bytes] : parts) order.emplace_back(bytes, name);
    std::sort(order.rbegin(), order.rend());
    for (std::size_t i = 0; i < std::min<std::size_t>(6, order.size()); ++i)
      text += fmt::format("\n    {:<24} {:>14}", order[i].second, order[i].first);
  };
  list("category", live.by_category);
  list("module", live.by_module);
  return text;
}

/// The device that the configuration names, for the rank of this thread.
std::unique_ptr<Backend> make_backend(const Built& built, std::int64_t local_rank) {
  return built.cuda ? make_cuda_backend(local_rank, built.config.runtime.expandable_segments)
                    : make_cpu_backend();
}

std::unique_ptr<Rank> make_rank(const profile::RunSpec& spec, const Built& built,
                                Collectives& collectives, const Data& data,
                                std::unique_ptr<Backend> backend) {
  std::string why;
  try {
    return std::make_unique<Rank>(built, collectives, data, spec.seed, spec.memory_limit,
                                  std::move(backend));
  } catch (const c10::OutOfMemoryError& error) {
    why = first_line(error.what());
  } catch (const OutOfMemory& error) {
    why = fmt::format("{} bytes asked for, {} live", error.requested, error.live);
  }
  why = fmt::format("out of memory: rank {}: parameters and optimizer states do not fit: {}",
                    collectives.rank(), why);
  collectives.abort(why);
  throw Failure{4, why};
}

Failure stopped_after(const Rank& rank) {
  return {stopped_exit_code(), fmt::format("stopped after step {}", rank.steps_done())};
}

std::string name_of(const RankFailure& failure) {
  return failure.rank < 0 ? std::string("?") : std::to_string(failure.rank);
}

/// What a run is asked for, and the rank whose step its profile is of: of a pipeline the first of
/// the stage that is chosen, or that is planned to have the highest peak.
struct Asked {
  StepConfig config;
  std::int64_t shown = 0;

  Asked(const model::ModelSpec& model, const StepConfig& given) : config(given) {
    if (config.layout.cp > 1) shown = config.layout.context_rank() * config.layout.tp;
    if (config.layout.pp == 1) return;
    const std::int64_t stage = config.layout.pp_rank == Layout::highest_rank
                                   ? advise::highest_rank(model, config)
                                   : config.layout.pp_rank;
    shown = Mesh(config.layout, 0).in_stage(stage);
  }
  /// The configuration of one rank's program.
  [[nodiscard]] StepConfig of_rank(std::int64_t rank) const {
    const Mesh mesh(config.layout, rank);
    StepConfig own = config;
    if (own.layout.pp > 1) own.layout.pp_rank = mesh.pp_rank();
    own.layout.tp_rank = mesh.tp_rank();
    if (own.layout.cp > 1 && !own.layout.ulysses()) own.layout.cp_rank = mesh.cp_rank();
    return own;
  }
};

/// One rank's steps; `gradients` receives the first step's.
std::optional<profile::Profile> run_steps(const profile::RunSpec& spec, const Asked& asked,
                                          const Built& built, Collectives& collectives,
                                          const Data& data, const Weights* weights,
                                          std::int64_t local_rank,
                                          std::vector<NamedGradient>& gradients) {
  // On a GPU the host's threads only fill weights.
  at::set_num_threads(built.cuda ? static_cast<int>(std::thread::hardware_concurrency())
                                 : static_cast<int>(built.config.device.threads));
  const auto whole_rank =
      make_rank(spec, built, collectives, data, make_backend(built, local_rank));
  Rank& rank = *whole_rank;
  const bool first = collectives.rank() == 0 || !collectives.real();
  Progress progress(spec, first);
  const nvtx::Range range("ac-trainer");
  try {
    if (!spec.emulated) rank.load_weights(weights);
    if (spec.resume) load_checkpoint(rank, spec.checkpoint);
    const bool instrumented = !spec.instrument.empty();
    std::vector<at::Tensor> captured;
    const bool compared = spec.parity && !instrumented && collectives.real();
    if (compared) rank.capture_gradients(&captured);
    const auto before = [&](std::int64_t step) {
      rank.executor().optimizer().learning_rate = learning_rate(spec, step);
      if (auto* watch = step_watch.load()) watch(step);
    };
    bool stopped = false;  // all ranks after the same step: one that was told tells the others
    const auto after = [&](std::int64_t step, const Rank::Result& result) {
      progress.step(step, result.loss, rank.tracker().peak().bytes, result.timing.seconds);
      stopped = collectives.average(stopping() ? 1.0 : 0.0) != 0.0;
      return !stopped;
    };
    if (instrumented) {
      auto profile = run_instrumented(rank, spec.instrument, spec.steps, after, before);
      collectives.leave();
      if (stopped || stopping()) throw stopped_after(rank);
      return first ? std::optional(std::move(profile)) : std::nullopt;
    }
    // The steps that only look (timeline, peak) come after the training: they are not kept.
    const auto trained = [&] {
      if (!spec.checkpoint.empty()) save_checkpoint(rank, spec.checkpoint);
    };
    Observed observed = observe(rank, spec.steps, after, before, trained);
    if (!stopped && compared)
      gradients = gradients_of_stages(built, std::move(captured), collectives);
    if (!stopped && collectives.real() && built.config.layout.world > 1 && !rank.backend().memory())
      observed.memory.ranks = peaks_of_ranks(built, observed.memory, collectives);
    std::optional<profile::Profile> profile;
    if (!stopped && collectives.rank() == asked.shown) {
      profile = measured_profile(built, observed, rank.backend());
      profile->config = asked.config;
      if (spec.emulated) {
        describe_emulated(*profile);
      } else if (!collectives.real()) {
        profile->absent["numerics"] =
            "emulated ranks have no peers: losses and gradients mean nothing";
        profile->numerics.reset();
      }
    }
    if (!stopped && asked.shown != 0 && collectives.real() && (first || profile)) {
      const std::string text =
          text_to_first(profile ? profile::to_json(*profile, -1) : "", asked.shown, collectives);
      profile.reset();
      if (first)
        profile = profile::from_json(text, fmt::format("the profile of rank {}", asked.shown));
    }
    collectives.leave();
    if (stopped && !spec.checkpoint.empty()) save_checkpoint(rank, spec.checkpoint);
    if (stopped || stopping()) throw stopped_after(rank);
    return profile;
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text =
        out_of_memory(rank, {0, 0, spec.memory_limit}) + "\n  " + first_line(error.what());
    collectives.abort(text);
    throw Failure{4, text};
  } catch (const OutOfMemory& error) {
    const MemoryTracker::Scope outside(nullptr);
    const std::string text = out_of_memory(rank, error);
    collectives.abort(text);
    throw Failure{4, text};
  } catch (const RankFailure& failure) {
    throw Failure{3,
                  fmt::format("rank {} stopped in step {}: rank {} failed: {}", collectives.rank(),
                              rank.steps_done() + 1, name_of(failure), failure.what)};
  }
}

/// One rank of one configuration. Its memory is free again when the reference step runs.
std::optional<profile::Profile> run_rank(const profile::RunSpec& spec, const Asked& asked,
                                         const Built& built, Collectives& collectives,
                                         const Data& data, const Weights* weights,
                                         std::int64_t local_rank) {
  std::vector<NamedGradient> gradients;
  auto profile = run_steps(spec, asked, built, collectives, data, weights, local_rank, gradients);
  if (!profile || !profile->numerics || gradients.empty()) return profile;
  const char* too_large = "not compared: the reference step does not fit the device";
  try {
    compare_gradients(*profile->numerics, built, gradients, spec, weights,
                      make_backend(built, local_rank));
  } catch (const c10::OutOfMemoryError&) {
    profile->numerics->parity = too_large;
  } catch (const OutOfMemory&) {
    profile->numerics->parity = too_large;
  }
  return profile;
}

profile::Profile run_config(const profile::RunSpec& spec, const model::ModelSpec& model,
                            StepConfig config, const Rendezvous& where, const Weights* weights,
                            Collectives* processes) {
  config.runtime.kind = Runtime::ac_trainer;
  const Asked asked(model, config);
  const bool cuda = simulate::find_device(config.device.gpu).cuda;
  if (config.runtime.cuda_graph != CudaGraph::off && spec.steps < 3)
    throw UserError("--steps " + std::to_string(spec.steps) + " with --cuda-graph " +
                    to_option(config.runtime.cuda_graph) + ": two steps warm up; give 3 or more");
  const TextData text(spec.data, tokens_of_row(config), model.vocab, spec.seed);
  const Data data = text;
  if (processes != nullptr && where.world != config.layout.world)
    throw UserError(fmt::format("--world {}: {} has started {} processes", config.layout.world,
                                where.launcher, where.world));
  if (processes != nullptr) {
    if (cuda && config.layout.pp > 1)
      throw UserError("--pp with --gpu " + config.device.gpu +
                      " and real peers: stages send each other nothing through NCCL yet; give "
                      "--collectives emulate, or measure without --gpu");
    const auto built = build(model, asked.of_rank(where.rank));
    auto result = run_rank(spec, asked, *built, *processes, data, weights, where.local_rank);
    return result ? *result : profile::Profile();
  }
  if (config.layout.world == 1) {
    const auto alone = make_single();
    const auto built = build(model, config);
    return *run_rank(spec, asked, *built, *alone, data, weights, 0);
  }
  if (cuda && spec.collectives == "local")
    throw UserError(
        "--collectives local with --gpu " + config.device.gpu +
        ": ranks that are threads would share one GPU's memory; give --collectives emulate, or "
        "start one process per GPU with torchrun, srun or mpirun");
  if (spec.collectives == "emulate" || cuda) {
    const auto emulated = make_emulated(config.layout.world, asked.shown);
    const auto built = build(model, asked.of_rank(asked.shown));
    return *run_rank(spec, asked, *built, *emulated, data, weights, 0);
  }
  // Ranks of the same stage and part of a layer and of a sequence have one program.
  std::map<std::array<std::int64_t, 3>, std::unique_ptr<Built>> programs;
  const auto built_of = [&](std::int64_t rank) -> const Built& {
    const StepConfig own = asked.of_rank(rank);
    auto& built = programs[{own.layout.pp_rank, own.layout.tp_rank, own.layout.cp_rank}];
    if (!built) built = build(model, own);
    return *built;
  };
  auto ranks = make_local(config.layout.world, spec.timeout_seconds);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(ranks.size());
  std::optional<profile::Profile> result;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r, &built = built_of(static_cast<std::int64_t>(r))] {
      try {
        auto profile = run_rank(spec, asked, built, *ranks[r], data, weights, 0);
        if (r == 0) result = std::move(profile);
      } catch (...) {
        errors[r] = std::current_exception();
        ranks[r]->abort("ended with an error");
      }
    });
  for (std::thread& thread : threads) thread.join();
  // The rank that failed by itself says more than those that waited for it.
  std::exception_ptr waiting;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const Failure& failure) {
      if (failure.exit_code != 3) throw;
      waiting = error;
    }
  }
  if (waiting) std::rethrow_exception(waiting);
  return *result;
}

}  // namespace

void set_step_watch(void (*watch)(std::int64_t)) { step_watch = watch; }

std::vector<profile::Profile> run(const profile::RunSpec& spec, const Rendezvous& where) {
  if (spec.resume && spec.checkpoint.empty())
    throw UserError("--resume needs --checkpoint: the folder to go on from");
  MemoryTracker::install();
  const model::ModelSpec model = model::load_model(spec.model, spec.as);
  std::optional<Weights> weights;
  if (!spec.weights.empty()) weights.emplace(spec.weights);
  std::unique_ptr<Collectives> processes;
  try {
    const bool nccl = spec.collectives == "nccl" || profile::for_gpu(spec);
    if (spec.collectives == "nccl") require_nccl();
    if (where.world > 1) processes = (nccl ? make_nccl : make_gloo)(where, spec.timeout_seconds);
  } catch (const RankFailure& failure) {
    throw Failure{3, fmt::format("rank {}: the ranks did not meet at {}:{}: rank {} {}", where.rank,
                                 where.address, where.port, name_of(failure), failure.what)};
  }
  std::vector<profile::Profile> profiles;
  for (const OptionList& options : spec.configs)
    profiles.push_back(run_config(spec, model, resolve_options(options), where,
                                  weights ? &*weights : nullptr, processes.get()));
  return profiles;
}

}  // namespace ac_advisor::trainer
