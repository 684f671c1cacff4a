#include "reports/grids.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/options.hpp"
#include "reports/emulated.hpp"

namespace ac_advisor::reports {

profile::TimeBasis time_basis(const advise::Sweep& sweep) {
  return sweep.rows.empty() ? profile::TimeBasis::estimate : sweep.rows.front().profile.time.basis;
}

std::string time_unit(profile::TimeBasis basis, const std::string& unit) {
  switch (basis) {
    case profile::TimeBasis::estimate:
      return "est. " + unit;
    case profile::TimeBasis::calibrated:
      return "calibrated " + unit;
    case profile::TimeBasis::measured:
      break;
  }
  return unit;
}

std::string technique_name(const advise::Saving& saving) {
  return saving.technique + (saving.unavailable.empty() ? "" : " (n/a)");
}

namespace {

/// "1", "n/a": the framework lacks it, "-": does not fit
std::string rank_text(const advise::Row& row) {
  if (!row.unavailable.empty()) return "n/a";
  return row.fits ? std::to_string(row.rank) : "-";
}

}  // namespace

Grid savings_grid(const advise::Sweep& sweep) {
  Grid grid({"technique", "peak GiB", "saved GiB", "of baseline",
             time_unit(time_basis(sweep), "ms/step")});
  for (const advise::Saving& row : sweep.savings) {
    const bool first = &row == &sweep.savings.front();
    grid.row({technique_name(row), gib(row.peak_bytes), first ? "" : gib(row.saved_bytes),
              first ? "" : "-" + percent(row.saved_share), milliseconds(row.step_seconds)});
  }
  for (const advise::NotPlanned& row : sweep.not_planned)
    grid.row({row.technique + " (n/a)", "", "", "", ""});
  return grid;
}

std::string not_planned_note(const advise::Sweep& sweep) {
  std::string note;
  for (const advise::NotPlanned& row : sweep.not_planned)
    note +=
        (note.empty() ? "" : "\n") + printable(fmt::format("n/a: {}: {}", row.technique, row.why));
  return note;
}

std::string batch_note(const advise::Sweep& sweep) {
  const StepConfig& c = sweep.base;
  if (sweep.varies_global_batch)
    return fmt::format("The global batch varies with --batch, {} micro-batch{} a step",
                       grouped(c.run.grad_accum), c.run.grad_accum == 1 ? "" : "es");
  const std::int64_t rank = c.run.batch * c.run.grad_accum;
  return fmt::format("Global batch kept at {} {}, {} per GPU; micro-batch and accumulation vary",
                     grouped(rank * c.layout.data_ranks()), c.task.pairs() ? "pairs" : "sequences",
                     grouped(rank));
}

std::string unavailable_note(const advise::Sweep& sweep) {
  const std::string& framework = sweep.base.runtime.framework;
  std::size_t count = 0;
  const advise::Row* fastest = nullptr;
  for (const advise::Row& row : sweep.rows) {
    if (row.unavailable.empty()) continue;
    ++count;
    if (row.fits && fastest == nullptr) fastest = &row;
  }
  if (count == 0) return "";
  std::string text = fmt::format("n/a: {} of the {} are not supported by {}, so not ranked", count,
                                 sweep.rows.size(), framework);
  if (fastest != nullptr)
    text += fmt::format("; the fastest of them that fits, {}, peak {} GiB, {} tokens/s: {}",
                        fastest->label, gib(fastest->profile.memory.peak_allocated),
                        grouped(static_cast<std::int64_t>(fastest->profile.time.tokens_per_second)),
                        fastest->unavailable);
  return text;
}

Grid layout_grid(const advise::Sweep& sweep) {
  const std::vector<advise::LayoutChoice> choices = advise::layouts(sweep);
  const auto any = [&](bool (*is)(const advise::LayoutChoice&)) {
    return std::any_of(choices.begin(), choices.end(), is);
  };
  const bool stages = any([](const advise::LayoutChoice& c) { return c.pp > 1; });
  const bool rings = any([](const advise::LayoutChoice& c) { return c.cp > 1; });
  const bool experts = any([](const advise::LayoutChoice& c) { return c.ep > 1; });
  Grid grid({fmt::format("tp{}{} x dp{}", rings ? " x cp" : "", stages ? " x pp" : "",
                         experts ? ", ep" : ""),
             "its best configuration", "rank", "peak", "ms/step", "tokens/s"});
  for (const advise::LayoutChoice& choice : choices) {
    const advise::Row& row = sweep.rows[choice.row];
    const profile::Profile& p = row.profile;
    const std::string cp = rings ? fmt::format(" x {}", choice.cp) : "";
    const std::string pp = stages ? fmt::format(" x {}", choice.pp) : "";
    const std::string ep = experts ? fmt::format(", {}", choice.ep) : "";
    grid.row({fmt::format("{}{}{} x {}{}", choice.tp, cp, pp, p.config.layout.data_ranks(), ep),
              row.label, rank_text(row), gib(p.memory.peak_allocated), milliseconds(p.time.step),
              grouped(static_cast<std::int64_t>(p.time.tokens_per_second))});
  }
  return grid;
}

std::string layout_note(const advise::Sweep& sweep) {
  const auto any = [&](bool (*is)(const StepConfig&)) {
    return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                       [&](const advise::Row& row) { return is(row.profile.config); });
  };
  std::vector<std::string> parts;
  if (any([](const StepConfig& c) { return c.layout.pp_chunks > 1; }))
    parts.emplace_back("ppNvV: N ranks of V interleaved stages each");
  for (const advise::LayoutChoice& choice : advise::layouts(sweep))
    if (choice.row > 0)
      parts.push_back(advise::split_words(sweep.rows[choice.row].profile.config.layout) + ": " +
                      choice.why);
  if (any([](const StepConfig& c) { return c.memory.kernels == Kernels::compiled; }) &&
      any([](const StepConfig& c) { return c.layout.tp * c.layout.cp * c.layout.pp > 1; }))
    parts.emplace_back("with tp, cp or pp blocks are planned eager alone, not compiled");
  if (sweep.too_large > 0)
    parts.push_back(
        fmt::format("not simulated: {} layouts of which a rank's parameters, "
                    "gradients, moments and what blocks save alone need more than the "
                    "device has",
                    grouped(static_cast<std::int64_t>(sweep.too_large))));
  if (sweep.too_heavy > 0)
    parts.push_back(
        fmt::format("not simulated: {} layouts that with a smaller micro-batch, full "
                    "checkpointing or more ranks a shard already allocate more than the device has",
                    grouped(static_cast<std::int64_t>(sweep.too_heavy))));
  if (sweep.too_slow > 0)
    parts.push_back(fmt::format(
        "not simulated: {} layouts whose kernels, collectives of layers and wait for stages "
        "alone take longer than the step of rank {} and of the best of their layout",
        grouped(static_cast<std::int64_t>(sweep.too_slow)), advise::exact_rows));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string chunk_note(const advise::Sweep& sweep) {
  const auto row = std::find_if(sweep.rows.begin(), sweep.rows.end(),
                                [](const advise::Row& r) { return !r.largest_batch_loss.empty(); });
  if (row == sweep.rows.end()) return {};
  return fmt::format("; c: with Liger's chunk at that batch, {} at {}", row->largest_batch_loss,
                     row->largest_batch);
}

Grid ranking_grid(const advise::Sweep& sweep, std::size_t rows) {
  Grid grid({"configuration", "rank", "peak", "ms/step", "tokens/s", "max b"});
  std::size_t shown = 0;
  for (const advise::Row& row : sweep.rows) {
    if (shown++ == rows) break;
    const profile::Profile& p = row.profile;
    const bool extrapolated = p.evidence && p.evidence->grade == evidence::Grade::extrapolated;
    grid.row({(row.pareto ? "* " : "  ") + row.label + (extrapolated ? " ?" : ""), rank_text(row),
              gib(p.memory.peak_allocated), milliseconds(p.time.step),
              grouped(static_cast<std::int64_t>(p.time.tokens_per_second)),
              row.largest_batch > 0
                  ? std::to_string(row.largest_batch) + (row.largest_batch_exact ? "" : "+") +
                        (row.largest_batch_loss.empty() ? "" : "c")
              : row.fits ? ""  // not looked for
                         : "none"});
  }
  return grid;
}

Grid phase_grid(const profile::Profile& p) {
  Grid grid({"phase", "peak GiB", "w/o workspace", "launches", "dispatches",
             time_unit(p.time.basis, "ms")});
  for (std::size_t i = 0; i < profile::phase_names.size(); ++i)
    grid.row({profile::phase_names[i], gib(p.memory.peak_by_phase[i]),
              gib(p.memory.peak_by_phase_excluding_workspace[i]), grouped(p.kernels.launches[i]),
              p.absent.contains("kernels.dispatches") ? "-" : grouped(p.kernels.dispatches[i]),
              milliseconds(p.time.by_phase[i])});
  return grid;
}

Grid task_phase_grid(const profile::Profile& p) {
  const bool critic = p.config.task.has_critic();
  Grid grid({"phase of the step", "allocated", "reserved", critic ? "actor" : "parameters",
             critic ? "critic" : "states", "engine", "device GiB"});
  for (const profile::TaskPhase& phase : p.task_phases) {
    const std::int64_t actor = phase.parameters + phase.optimizer_states;
    grid.row({phase.name + (phase.planned ? "" : " ~"), gib(phase.allocated), gib(phase.reserved),
              gib(critic ? actor : phase.parameters),
              gib(critic ? phase.critic : phase.optimizer_states),
              phase.engine > 0 ? gib(phase.engine) : "-", gib(phase.device)});
  }
  return grid;
}

std::string task_phase_note(const profile::Profile& p) {
  const auto most = std::max_element(
      p.task_phases.begin(), p.task_phases.end(),
      [](const profile::TaskPhase& a, const profile::TaskPhase& b) { return a.device < b.device; });
  std::string text = fmt::format("most of the device in {}: {} GiB", most->name, gib(most->device));
  if (!most->largest.empty()) text += "; largest beside the model: " + printable(most->largest);
  return text + "; ~: an estimate, others are planned op by op\n";
}

Grid category_grid(const profile::Profile& p) {
  Grid grid({"at the peak", "GiB", "share"});
  for (std::size_t i = 0; i < profile::category_count; ++i) {
    const std::int64_t bytes = p.memory.at_peak[i];
    if (bytes == 0) continue;
    grid.row({to_string(static_cast<profile::Category>(i)), gib(bytes),
              percent(static_cast<double>(bytes) / static_cast<double>(p.memory.peak_allocated))});
  }
  grid.row({"TOTAL", gib(p.memory.peak_allocated), ""});
  return grid;
}

Grid rank_grid(const profile::Profile& p) {
  const bool ring = p.config.layout.cp > 1 && p.config.layout.pp == 1;
  Grid grid({ring ? "rank of a sequence" : "pipeline rank", "stages", "ranks", "peak GiB",
             "reserved GiB"});
  for (const profile::RankMemory& rank : p.memory.ranks) {
    std::string stages;
    for (const std::int64_t stage : rank.stages)
      stages += (stages.empty() ? "" : ", ") + std::to_string(stage);
    grid.row({std::to_string(ring ? rank.cp_rank : rank.pp_rank), stages, grouped(rank.count),
              gib(rank.peak_allocated), rank.peak_reserved ? gib(*rank.peak_reserved) : "-"});
  }
  return grid;
}

Grid largest_grid(const profile::Profile& p) {
  Grid grid({"largest at the peak", "category", "shape", "GiB"});
  for (const profile::LiveTensor& t : p.memory.largest)
    grid.row({t.op.empty() ? t.module : t.module + " " + t.op, to_string(t.category),
              t.dtype + " " + t.shape, gib(t.bytes)});
  return grid;
}

Grid module_grid(const advise::ModuleCosts& costs, profile::TimeBasis basis) {
  Grid grid(
      {"checkpoint", "keeps GiB", "saves GiB", time_unit(basis, "ms"), "MiB saved/ms", "peak GiB"});
  for (const advise::ModuleCost& c : costs.kinds) {
    const double rate = c.saved_bytes_per_millisecond();
    grid.row({c.kind, gib(c.kept_bytes), gib(c.saved_bytes), milliseconds(c.recompute_seconds),
              c.saved_bytes <= 0         ? "-"
              : c.recompute_seconds <= 0 ? "free"
                                         : fmt::format("{:.1f}", rate / (1 << 20)),
              gib(c.peak_bytes)});
  }
  return grid;
}

std::string module_note(const advise::ModuleCosts& costs) {
  return fmt::format(
      "Checkpoint first: {}. Each row plans a checkpoint around every module of that kind alone; "
      "{} GiB remain whichever you choose (residual sums, rotated queries and keys).",
      advise::checkpoint_order(costs), gib(costs.kept_elsewhere_bytes));
}

Grid change_grid(const std::string& head, const std::vector<profile::Change>& changes, bool bytes) {
  Grid grid({head, "A", "B", bytes ? "B - A GiB" : "B - A"});
  for (const profile::Change& c : changes) {
    if (bytes)
      grid.row({c.name, gib(c.a), gib(c.b), signed_gib(c.delta())});
    else
      grid.row({c.name, grouped(c.a), grouped(c.b), grouped(c.delta())});
  }
  return grid;
}

Grid field_grid(const std::vector<profile::FieldChange>& fields) {
  Grid grid({"option or model figure", "A", "B"});
  for (const profile::FieldChange& f : fields) grid.row({f.field, f.a, f.b});
  return grid;
}

Grid row_change_grid(const SweepDiff& diff, std::size_t rows) {
  Grid grid({"configuration", "A GiB", "B GiB", "B - A", "A ms", "B ms", "rank"});
  const auto peak = [](const std::optional<RowChange::Side>& s) {
    return s ? gib(s->peak_bytes) : "absent";
  };
  const auto time = [](const std::optional<RowChange::Side>& s) {
    return s ? milliseconds(s->step_seconds) : "";
  };
  const auto rank = [](const std::optional<RowChange::Side>& s) {
    return s && s->rank > 0 ? std::to_string(s->rank) : std::string("-");
  };
  for (std::size_t i = 0; i < std::min(rows, diff.rows.size()); ++i) {
    const RowChange& r = diff.rows[i];
    grid.row({r.label, peak(r.a), peak(r.b), r.a && r.b ? signed_gib(r.delta()) : "", time(r.a),
              time(r.b), rank(r.a) + " > " + rank(r.b)});
  }
  return grid;
}

std::vector<std::string> trace_reasons(const Trace& trace) {
  std::vector<std::string> reasons;
  for (const advise::Decision& d : trace)
    if (std::find(reasons.begin(), reasons.end(), d.reason) == reasons.end())
      reasons.push_back(d.reason);
  return reasons;
}

Grid trace_grid(const Trace& trace) {
  const std::vector<std::string> reasons = trace_reasons(trace);
  Grid grid({"op", "decision", "MiB", "est. us", "blocks", "why"});
  for (const advise::Decision& d : trace) {
    const auto reason = std::find(reasons.begin(), reasons.end(), d.reason) - reasons.begin();
    grid.row({d.op + " " + d.module, d.decision,
              fmt::format("{:.2f}", static_cast<double>(d.bytes) / (1 << 20)),
              fmt::format("{:.1f}", d.microseconds), std::to_string(d.count),
              std::to_string(reason + 1)});
  }
  return grid;
}

namespace {

/// In the words of PEFT's print_trainable_parameters, and what the base is stored as.
std::string trained_line(const profile::Profile& p) {
  const Adapters& a = p.config.adapters;
  const std::string stored = a.quantize == Quantization::none
                                 ? std::string()
                                 : std::string(" in ") + to_option(a.quantize);
  const std::string what = a.of_another_method()
                               ? adapter_option(p.config)
                               : fmt::format("{} {}", a.dora ? "DoRA" : "LoRA", a.rank);
  return fmt::format(
      "{} in {} over a frozen base{}: {} trainable parameters, {} frozen ({:.4f} %)\n", what,
      to_option(a.method == AdapterMethod::ln_tuning ? p.config.precision.param_dtype : a.dtype),
      stored, grouped(*p.trainable_parameters), grouped(p.parameters - *p.trainable_parameters),
      100.0 * static_cast<double>(*p.trainable_parameters) / static_cast<double>(p.parameters));
}

}  // namespace

namespace {

/// "task dpo (ref model), batch 2 pairs x 1024, 512 of them the prompt's"
std::string task_line(const StepConfig& c) {
  std::string text = fmt::format("task {}", to_option(c.task.kind));
  if (c.task.reference != Reference::none)
    text += fmt::format(" (ref {})", to_option(c.task.reference));
  if (c.task.online()) text += ", completions by " + rollout_option(c);
  text += fmt::format(", batch {}{} x {}", c.run.batch,
                      !c.task.pairs()    ? ""
                      : c.run.batch == 1 ? " pair"
                                         : " pairs",
                      c.run.seq);
  if (c.task.prompt > 0) text += fmt::format(" ({} of them the prompt's)", c.task.prompt);
  return text;
}

}  // namespace

std::string title(const profile::Profile& p) {
  if (p.emulation) return emulated_title(p);
  const StepConfig& c = p.config;
  std::string text = fmt::format("{}, {} parameters, on {}\n", printable(p.model.name),
                                 grouped(p.parameters), printable(p.device_name));
  if (p.trainable_parameters) text += trained_line(p);
  text +=
      !c.task.supervised() ? task_line(c) : fmt::format("batch {} x {}", c.run.batch, c.run.seq);
  if (c.run.position_ids) text += ", with position_ids";
  if (c.run.packing > 0) text += fmt::format(" as one row of {} documents", c.run.packing);
  if (c.run.grad_accum > 1) text += fmt::format(", {} micro-batches", c.run.grad_accum);
  text += fmt::format(", ac {}{}, loss {}{}, kernels {}, {}", ac_option(c),
                      c.memory.scope == AcScope::submodule ? " (submodule)" : "", loss_option(c),
                      c.memory.hold_output ? "" : " (output released)", to_option(c.memory.kernels),
                      to_option(c.optimizer.kind));
  if (c.optimizer.master_weights) text += " with fp32 masters";
  if (c.memory.offload != Offload::none)
    text += fmt::format(", offload {}", to_option(c.memory.offload));
  if (c.layout.tp > 1)
    text += fmt::format("\ntp {} x dp {}: {}{}", c.layout.tp, c.layout.data_ranks(),
                        c.layout.sequence_parallel ? "sequence parallel, " : "",
                        c.layout.loss_parallel ? "loss parallel" : "whole logits");
  if (c.megatron())
    text += fmt::format("\nMegatron-core's step, layers: {}", to_option(c.run.transformer_impl));
  if (c.layout.pp > 1)
    text += fmt::format("\npp {} x dp {}: {}", c.layout.pp, c.layout.data_ranks(),
                        pp_schedule_option(c));
  if (c.layout.cp > 1)
    text += fmt::format(
        "\ncp {} x dp {}: {}", c.layout.cp, c.layout.data_ranks(),
        c.layout.ulysses() ? "Ulysses, heads in place of tokens" : "keys and values in a ring");
  if (c.layout.ep > 1)
    text += fmt::format("\nep {}{}: each layer's experts over {} ranks", c.layout.ep,
                        c.megatron() ? fmt::format(" x etp {}", c.layout.expert_tp()) : "",
                        c.layout.expert_ranks());
  const std::string instances =
      c.layout.optimizer_instances > 1
          ? fmt::format(" in each of {} instances", c.layout.optimizer_instances)
          : "";
  text += fmt::format("\nshard {} over {}{}, framework {}\nparameters {}, computation {}{}",
                      shard_option(c), c.layout.instance_ranks(), instances, c.runtime.framework,
                      to_option(c.precision.param_dtype), to_option(c.precision.compute_dtype),
                      c.precision.autocast ? " by autocast" : "");
  if (c.precision.float8())
    text += fmt::format(", blocks' linear layers in fp8 {}{}", to_option(c.precision.fp8),
                        c.precision.fp8_all_gather ? " (gathered in fp8)" : "");
  if (c.optimizer.grad_scaler) text += ", loss scaled";
  if (c.layout.world > 1)
    text += fmt::format(", reduction {}", to_option(c.precision.reduce_dtype));
  if (c.compression.used()) text += ", compressed: " + compression_option(c);
  text += "\n";
  return text;
}

}  // namespace ac_advisor::reports
