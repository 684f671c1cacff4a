#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "ac_advisor/model/error.hpp"
#include "cli/assumed.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "reports/headline.hpp"

namespace ac_advisor::cli {

namespace {

const OptionList::value_type asked_compression{"--grad-compression", "auto"};

/// A few settings are enough to know the largest: where nothing is recomputed, where all is, and in
/// between.
advise::Space solving_space(const OptionList& by_hand, const model::ModelSpec& model,
                            const StepConfig& base) {
  advise::Space space = advise::space_around(model, base, by_hand);
  if (!given(by_hand, "--ac")) space.set("--ac", {"none", "selective", "full"});
  space.keep("--ac-scope", base);
  return space;
}

/// `by_hand`: what was given, where what was not is to be told.
std::string shown(advise::Largest largest, const Arguments& a, const reports::Style& style,
                  std::optional<OptionList> by_hand = std::nullopt) {
  if (a.format == "table" && by_hand) {
    by_hand->emplace_back("--" + a.solve, "");  // it is the answer
    return render(largest, a.format, style) + assumed_lines(*by_hand, largest.base, style);
  }
  if (a.format != "html") return render(largest, a.format, style);
  const std::string model = a.positional.empty() ? std::string() : a.positional.front();
  return reports::html({{{"", std::move(largest)}}, {}, model});
}

/// --solve world or gpu: over numbers of devices, or devices.
std::string solve_least(const model::ModelSpec& model, const Arguments& a,
                        const reports::Style& style) {
  const std::string option = "--" + a.solve;
  if (given(a.options, option))
    throw UserError("--solve " + a.solve + " " + option + ": it is what is sought; drop " + option);
  const advise::Resolved resolved = resolve(model, a.options);
  tell_warnings(model, resolved.config);
  const auto with = [&](const std::string& value) {
    OptionList options = a.options;
    options.emplace_back(option, value);
    const advise::Resolved one = advise::resolve(model, options);
    advise::Space space = solving_space(one.options, model, one.config);
    space.keep("--batch", one.config);
    return advise::Around{one.config, std::move(space)};
  };
  if (a.solve == "gpu")
    return shown(advise::smallest_device(model, resolved.config, with), a, style, resolved.options);
  return shown(advise::fewest_devices(model, resolved.config,
                                      [&](std::int64_t n) { return with(std::to_string(n)); }),
               a, style, resolved.options);
}

std::string run_solve(const Arguments& a) {
  const reports::Style style = terminal_style(a.output, a.rows);
  if (a.measured) throw UserError("--solve --measure: what is solved is planned; drop one of them");
  if (a.solve == "model") {
    const StepConfig base = resolve_options(a.options);
    if (!a.positional.empty())
      throw UserError("--solve model " + a.positional.front() +
                      ": it looks through the sample models; drop MODEL, or use --solve batch");
    const auto around = [&](const model::ModelSpec& model) {
      const advise::Resolved resolved = advise::resolve(model, a.options);
      return advise::Around{resolved.config,
                            solving_space(resolved.options, model, resolved.config)};
    };
    return shown(advise::largest_model(base, around), a, style);
  }
  const model::ModelSpec model = load_model(a);
  if (a.solve == "world" || a.solve == "gpu") return solve_least(model, a, style);
  const advise::Resolved resolved = resolve(model, a.options);
  const StepConfig& base = resolved.config;
  tell_warnings(model, base);
  const bool completion = a.solve == "completion";
  if (completion && !base.task.online())
    throw UserError("--solve completion: --task " + std::string(to_option(base.task.kind)) +
                    " writes none; use --task grpo or rloo, or --solve seq");
  return shown(advise::largest(completion         ? advise::Sought::completion
                               : a.solve == "seq" ? advise::Sought::seq
                                                  : advise::Sought::batch,
                               model, base, solving_space(resolved.options, model, base)),
               a, style, resolved.options);
}

/// `--grad-compression auto`: no setting, but the question which of them pays, on which network.
bool asks_for_compression(const OptionList& options) {
  return std::find(options.begin(), options.end(), asked_compression) != options.end();
}

std::string run_compression(const Arguments& a) {
  if (a.measured || !a.solve.empty())
    throw UserError(
        "--grad-compression auto --measure or --solve: it is planned, over networks; drop one");
  OptionList options = a.options;
  std::erase(options, asked_compression);
  const model::ModelSpec model = load_model(a);
  return render(advise::compression_choice(model, options), a.format,
                terminal_style(a.output, a.rows));
}

/// Where one waits for it.
void tell_time(const advise::Advice& advice, std::chrono::duration<double> took) {
  if (took.count() < 1.0) return;
  const advise::Sweep& sweep = advice.sweep;
  const std::size_t simulated = sweep.configurations + advice.simulated_beside,
                    bounded = sweep.too_large + sweep.too_heavy + sweep.too_slow;
  std::fprintf(stderr, "ac-advisor: %zu configurations in %.1f s: %zu simulated, %zu bounded\n",
               simulated + bounded, took.count(), simulated, bounded);
}

}  // namespace

std::string run_advise(const Arguments& a) {
  if (a.measure.parts > 1)
    throw UserError("--shard-of: it is measurements that jobs share; give --measure, or drop it");
  if (asks_for_compression(a.options)) return run_compression(a);
  if (!a.solve.empty()) return run_solve(a);
  const model::ModelSpec model = load_model(a);
  const advise::Resolved resolved = resolve(model, a.options);
  const auto begin = std::chrono::steady_clock::now();
  advise::Advice advice = advise::advise_any(model, resolved, [&](const advise::Resolved& around) {
    advise::Space space =
        advise::space_around(model, around.config, around.options, a.vary_global_batch);
    space.largest_batches = std::max(space.largest_batches, a.rows);
    return space;
  });
  const auto took = std::chrono::steady_clock::now() - begin;
  if (advice.resolved.config.runtime.framework != resolved.config.runtime.framework)
    tell_notes(advice.resolved);
  tell_warnings(model, advice.resolved.config);
  tell_time(advice, took);
  if (a.format == "html") {
    std::vector<reports::Detail> details = reports::details(advice.sweep);
    return reports::html({{{"", std::move(advice.sweep)}}, std::move(details), a.positional.at(0)});
  }
  const reports::Style style = terminal_style(a.output, a.rows);
  const std::string text = render(advice.sweep, a.format, style);
  if (a.format != "table") return text;
  return in_locale(reports::headline(advice.sweep, style) +
                       assumed_lines(advice.resolved.options, advice.resolved.config, style) + "\n",
                   style) +
         text;
}

}  // namespace ac_advisor::cli
