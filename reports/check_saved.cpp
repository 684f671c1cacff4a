// Files may have been written by anybody: figures out of all range are refused before anything
// computes with them.
#include "reports/check_saved.hpp"

#include <cmath>

#include "model/sizes.hpp"

namespace ac_advisor::reports {
namespace {

constexpr std::int64_t most_count = std::int64_t{1} << 56;
constexpr double most_figure = 1e30;

struct Size {
  const char* name;
  std::int64_t most;
};
// Those of model::parse_config.
constexpr Size sizes[] = {
    {"hidden", model::sizes::hidden},     {"intermediate", model::sizes::intermediate},
    {"layers", model::sizes::layers},     {"heads", model::sizes::heads},
    {"kv_heads", model::sizes::heads},    {"head_dim", model::sizes::head_dim},
    {"vocab", model::sizes::vocab},       {"max_positions", most_count},
    {"rotary_dim", model::sizes::hidden}, {"rotary_tables", model::sizes::layers}};
constexpr Size expert_sizes[] = {{"experts", model::sizes::experts},
                                 {"top_k", model::sizes::experts},
                                 {"intermediate", model::sizes::intermediate}};
constexpr Size delta_sizes[] = {{"key_heads", model::sizes::heads},
                                {"value_heads", model::sizes::heads},
                                {"key_dim", model::sizes::head_dim},
                                {"value_dim", model::sizes::head_dim},
                                {"taps", model::sizes::head_dim}};

template <std::size_t N>
void check_sizes(const Node& node, const Size (&list)[N]) {
  for (const Size& size : list) {
    const auto n = node.get<std::int64_t>(size.name);
    if (n < 0 || n > size.most)
      throw UserError(
          fmt::format("{}: \"{}\" is {}; expected 0 to {}", node.place, size.name, n, size.most));
  }
}

void check_blocks(const Node& node, const char* name, bool may_be_empty) {
  const Json& list = node.list(name);
  const auto layers = static_cast<std::size_t>(node.get<std::int64_t>("layers"));
  if (list.size() != layers && !(may_be_empty && list.empty()))
    throw UserError(fmt::format("{}: \"{}\" has {} entries; expected one for each of {} layers",
                                node.place, name, list.size(), layers));
  for (const Json& item : list)
    if (!item.is_number_integer() && !item.is_boolean())
      throw UserError(fmt::format("{}: \"{}\" has the wrong type", node.place, name));
}

template <typename List>
void check_counts(const List& list, const std::string& place) {
  for (std::int64_t n : list) check_count(n, place);
}

template <typename List>
void check_figures(const List& list, const std::string& place) {
  for (double x : list) check_figure(x, place);
}

}  // namespace

std::int64_t check_count(std::int64_t n, const std::string& place) {
  if (n < 0 || n > most_count)
    throw UserError(fmt::format("{} is {}; expected 0 to 2^56", place, n));
  return n;
}

double check_figure(double x, const std::string& place) {
  if (!std::isfinite(x) || std::abs(x) > most_figure)
    throw UserError(fmt::format("{} is {}; expected at most 1e30", place, x));
  return x;
}

void check_model(const Node& model) {
  check_sizes(model, sizes);
  static_cast<void>(model.get<std::int64_t>("pad_token_id"));
  check_blocks(model, "window", false);
  check_blocks(model, "sparse_block", true);
  if (model.json.contains("moe")) check_sizes(model.child("moe"), expert_sizes);
  if (!model.json.contains("delta")) return;
  const Node delta = model.child("delta");
  check_sizes(delta, delta_sizes);
  if (delta.get<std::int64_t>("key_heads") == 0)
    throw UserError(fmt::format("{}: \"key_heads\" is 0; expected 1 or more", delta.place));
  check_blocks(model, "delta_block", false);
}

/// Each option is in its range, which reading it saw to; a step of all of them may not be.
void check_config(const StepConfig& c, const std::string& place) {
  double tokens = 1;
  for (const std::int64_t n : {c.run.batch, c.run.seq, c.run.grad_accum, c.layout.world})
    tokens *= static_cast<double>(n);
  if (tokens > static_cast<double>(most_count))
    throw UserError(place + ": its step has more than 2^56 tokens");
}

void check_profile(const profile::Profile& p, const std::string& place) {
  const profile::Memory& m = p.memory;
  const auto at = [&](const char* field) { return fmt::format("{}: \"{}\"", place, field); };
  check_count(p.parameters, at("parameters"));
  for (const std::int64_t n : {m.peak_allocated, m.peak_reserved, m.peak_excluding_workspace,
                               m.first_step_peak, m.resident})
    check_count(n, at("memory"));
  check_counts(m.at_peak, at("memory.at_peak"));
  check_counts(m.peak_by_phase, at("memory.peak_by_phase"));
  check_counts(m.peak_by_phase_excluding_workspace, at("memory.peak_by_phase_excluding_workspace"));
  for (const auto& [name, bytes] : m.at_peak_by_module)
    check_count(bytes, at("memory.at_peak_by_module"));
  for (const profile::LiveTensor& t : m.largest) check_count(t.bytes, at("memory.largest"));
  for (const profile::TimelinePoint& t : m.timeline)
    check_count(t.allocated_bytes, at("memory.timeline"));
  check_counts(p.kernels.launches, at("kernels.launches"));
  check_counts(p.kernels.dispatches, at("kernels.dispatches"));
  check_figures(p.kernels.flops, at("kernels.flops"));
  check_figures(p.kernels.bytes, at("kernels.bytes"));
  check_figures(p.time.by_phase, at("time.by_phase_seconds"));
  for (const double x : {p.time.step, p.time.launch_bound, p.time.communication_exposed,
                         p.time.recompute, p.time.tokens_per_second, p.time.mfu})
    check_figure(x, at("time"));
  for (const std::int64_t n : {p.fit.required, p.fit.usable, p.fit.context, p.fit.communication,
                               p.fit.margin, p.fit.engine, p.fit.generation})
    check_count(n, at("fit"));
  for (const profile::TaskPhase& phase : p.task_phases)
    for (const std::int64_t n : {phase.allocated, phase.reserved, phase.parameters,
                                 phase.optimizer_states, phase.critic, phase.engine, phase.device})
      check_count(n, at("task_phases"));
  if (p.fit.pressure) {
    const profile::Pressure& pressure = *p.fit.pressure;
    for (const std::int64_t n :
         {pressure.unlimited_reserved, pressure.retries, pressure.released_segments,
          pressure.expandable_reserved.value_or(0), pressure.excess, pressure.refused})
      check_count(n, at("fit.pressure"));
    check_figure(pressure.seconds, at("fit.pressure"));
  }
  check_config(p.config, at("config"));
  if (!p.budget) return;
  check_count(p.budget->budget, at("budget.budget_bytes"));
  check_count(p.budget->least_feasible, at("budget.least_feasible_bytes"));
  for (const double x : {p.budget->recompute_seconds, p.budget->lower_bound_seconds, p.budget->gap})
    check_figure(x, at("budget"));
}

}  // namespace ac_advisor::reports
