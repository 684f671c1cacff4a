#include "ac_advisor/advise/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "budget.hpp"
#include "planned.hpp"

namespace ac_advisor::advise {
namespace {

using ir::no_id;
using ir::OpId;
using ir::Phase;

struct Tally {
  Decision decision;
  int saved = 0, recomputed = 0, unused = 0;
};

std::string leaf_path(ir::ModulePath path) {
  const std::string full = to_string(path);
  const std::size_t dot = full.find('.');
  const std::size_t second = dot == std::string::npos ? dot : full.find('.', dot + 1);
  return second == std::string::npos ? "block" : full.substr(second + 1);
}

/// The op by PyTorch's name; of attention the kernel that it takes on this device.
std::string op_name(const ir::Program& p, const ir::Op& op, const ir::WorkspaceTarget& target) {
  if (op.kind != ir::OpKind::sdpa || !target.cuda || target.trainer) return ir::name_of(p, op);
  const auto& sdpa = ir::attributes<ir::Sdpa>(op);
  if (ir::runs_cudnn_attention(op, target)) return "_scaled_dot_product_cudnn_attention";
  const bool masked = sdpa.documents == 0 && op.inputs > 3;  // which flash attention does not take
  if (masked || sdpa.kernel == ir::SdpaKernel::efficient)
    return "_scaled_dot_product_efficient_attention";
  return ir::name_of(p, op);
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

}  // namespace

std::vector<Decision> selective_trace(const model::ModelSpec& model, const StepConfig& config) {
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  const Solved solved = solve(model, config, device);
  const ir::Program& p = solved.step.program;
  // Which forward ops run again, and which of their outputs backward reads as they were.
  std::vector<bool> recomputed(p.ops.size(), false), saved(p.ops.size(), false);
  for (const ir::Op& op : p.ops) {
    if (op.phase == Phase::recompute && op.kind != ir::OpKind::hold && op.forward != no_id)
      recomputed[static_cast<std::size_t>(op.forward)] = true;
    if (op.phase != Phase::backward && op.phase != Phase::recompute) continue;
    for (ir::ValueId v : p.inputs(op)) {
      const OpId producer = p.value(p.root(v)).producer;
      if (producer != no_id && p.op(producer).phase <= Phase::loss)
        saved[static_cast<std::size_t>(producer)] = true;
    }
  }
  const ir::WorkspaceTarget target = memory_model(device, config).target;
  std::vector<std::tuple<std::string, std::string, int>> order;
  std::map<std::tuple<std::string, std::string, int>, Tally> tallies;
  std::map<std::tuple<int, std::string, std::string>, int> nth;
  const OpId end = solved.step.micro_begin.size() > 1 ? solved.step.micro_begin[1]
                                                      : static_cast<OpId>(p.ops.size());
  for (OpId id = 0; id < end; ++id) {
    const ir::Op& op = p.op(id);
    if (op.phase > Phase::loss || op.module.block < 0 || ir::row(op.kind).dispatches == 0 ||
        ir::row(op.kind).kind == ir::OpKind::record_function || op.module.leaf == ir::Module::fsdp)
      continue;
    const std::string name = op_name(p, op, target), module = leaf_path(op.module);
    const auto key = std::make_tuple(name, module, nth[{op.module.block, name, module}]++);
    Tally& t = tallies[key];
    if (t.decision.count == 0) {
      order.push_back(key);
      t.decision.op = name;
      t.decision.module = module;
      for (ir::ValueId v : p.outputs(op)) t.decision.bytes += p.bytes(v);
      t.decision.microseconds = 1e6 * simulate::op_seconds(p, op, device, simulate::run_of(config));
    }
    ++t.decision.count;
    const auto i = static_cast<std::size_t>(id);
    if (recomputed[i])
      ++t.recomputed;
    else if (saved[i])
      ++t.saved;
    else
      ++t.unused;
  }
  std::vector<Decision> trace;
  for (const auto& key : order) {
    Tally& t = tallies[key];
    Decision& d = t.decision;
    const int kinds = (t.saved > 0) + (t.recomputed > 0) + (t.unused > 0);
    if (kinds > 1) {
      d.decision = "ALTERNATE";
      d.reason = fmt::format("{} blocks save, {} recompute, {} need neither", t.saved, t.recomputed,
                             t.unused);
    } else if (t.recomputed > 0) {
      d.decision = "RECOMPUTE";
      d.reason = "its region runs again in backward";
    } else if (t.saved > 0) {
      d.decision = "SAVE";
      d.reason = config.memory.ac == AcMode::selective ? "kept by the policy" : "backward reads it";
    } else {
      d.decision = "RECOMPUTE";
      d.reason = "nothing in backward reads it: dropped, and never run again";
    }
    trace.push_back(d);
  }
  return trace;
}

std::string schedule_text(const model::ModelSpec& model, const StepConfig& config) {
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  const Solved solved = solve(model, config, device);
  const ir::Program& p = solved.step.program;
  const passes::Schedule schedule = passes::make_schedule(solved.step);
  std::vector<std::int64_t> live;
  static_cast<void>(simulate::walk_memory(
      solved.step, schedule, memory_model(solved.step, schedule, device, config), &live));
  std::string text;
  const auto operand = [&](ir::ValueId v) {
    return fmt::format(" %{}{}", p.storage_of(v), ir::to_string(p.value(v).shape));
  };
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    text += fmt::format("{:6} {:9} {:32} {}", i,
                        profile::phase_names[static_cast<std::size_t>(op.phase)],
                        to_string(op.module), ir::name_of(p, op));
    for (ir::ValueId v : p.inputs(op)) text += operand(v);
    if (op.outputs > 0) text += " ->";
    for (ir::ValueId v : p.outputs(op)) text += operand(v) + ":" + to_option(p.value(v).dtype);
    text += fmt::format("  live {}\n", live[i]);
    for (std::int32_t f = schedule.free_begin[i]; f < schedule.free_begin[i + 1]; ++f) {
      const ir::StorageId s = schedule.freed[static_cast<std::size_t>(f)];
      text += fmt::format("         free %{} {} bytes\n", s, p.storage(s).bytes);
    }
  }
  return text;
}

namespace {

/// "peak 12.300 GiB against 14.100, step 310 ms against 305": two plans' own figures.
std::string against(const profile::Profile& a, const profile::Profile& b) {
  return fmt::format("peak {:.3f} GiB against {:.3f}, step {:.1f} ms against {:.1f} ({})",
                     gib(a.memory.peak_allocated), gib(b.memory.peak_allocated), 1e3 * a.time.step,
                     1e3 * b.time.step, to_string(a.time.basis));
}

/// The same step with another mode or loss; null where it is refused.
std::optional<profile::Profile> other(const model::ModelSpec& model, const StepConfig& config) {
  if (passes::find_exclusion(model, config) != nullptr) return std::nullopt;
  return plan(model, config, false);
}

StepConfig with_mode(StepConfig config, AcMode mode, AcScope scope = AcScope::block) {
  config.memory.ac = mode;
  config.memory.ac_arg = 0;
  config.memory.scope = scope;
  return config;
}

/// What is particular to a mode, each from the plan that it speaks of.
void explain_choice(const model::ModelSpec& model, const profile::Profile& with,
                    const std::optional<profile::Profile>& none, std::vector<std::string>& lines) {
  const StepConfig& config = with.config;
  const bool flash = (!model.eager_attention_only || model::caps_in_flash(model, config)) &&
                     config.run.attention != Attention::eager &&
                     config.run.attention != Attention::math;
  const auto add = [&](const char* what, const std::optional<profile::Profile>& than) {
    if (than) lines.push_back(what + against(with, *than));
  };
  switch (config.memory.ac) {
    case AcMode::attention:
      if (!none) break;
      lines.push_back(fmt::format(
          "{}: --ac attention saves {:.3f} GiB of the peak here",
          flash ? "flash attention already drops its scores and recomputes them in backward, so "
                  "only the core's output is left to drop"
                : "the scores are dropped with the core's region",
          gib(none->memory.peak_allocated - with.memory.peak_allocated)));
      break;
    case AcMode::grouped:
    case AcMode::sqrt:
      add("a region is recomputed whole: larger groups keep fewer inputs, and hold all of a "
          "group's activations at once; against --ac full: ",
          other(model, with_mode(config, AcMode::full)));
      break;
    case AcMode::full:
      if (config.memory.scope == AcScope::submodule && !model.kv_sharing)
        add("sub-module scope keeps each sub-module's input, block scope the block's alone; "
            "against --ac-scope block: ",
            other(model, with_mode(config, AcMode::full)));
      break;
    default:
      break;
  }
}

std::int64_t of_phase(const profile::Profile& p, Phase phase) {
  return p.kernels.launches[static_cast<std::size_t>(phase)];
}

/// The same step with eager blocks; a memory budget is the compiler's own, so against none.
void explain_compilation(const model::ModelSpec& model, const profile::Profile& with,
                         std::vector<std::string>& lines) {
  StepConfig config = with.config;
  config.memory.kernels = Kernels::eager;
  if (config.memory.ac == AcMode::memory_budget) config.memory.ac = AcMode::none;
  const auto eager = other(model, config);
  if (!eager) return;
  const auto backward = [](const profile::Profile& p) {
    return of_phase(p, Phase::backward) + of_phase(p, Phase::recompute);
  };
  lines.push_back(fmt::format("compilation, against --kernels eager --ac {}: {}", ac_option(config),
                              against(with, *eager)));
  lines.push_back(fmt::format("its launches: {} in forward, {} in backward, against {} and {}",
                              of_phase(with, Phase::forward), backward(with),
                              of_phase(*eager, Phase::forward), backward(*eager)));
}

/// Against the same step that keeps all, where that is planned.
void explain_recomputation(const model::ModelSpec& model, const profile::Profile& with,
                           const std::optional<profile::Profile>& none, const StepConfig& keep_all,
                           std::vector<std::string>& lines) {
  const auto held = static_cast<std::size_t>(profile::Category::activations);
  if (!none) {
    lines.push_back("against --ac none: not planned (" +
                    passes::message(*passes::find_exclusion(model, keep_all), model, keep_all) +
                    ")");
    lines.push_back(
        fmt::format("activations held at the peak: {:.3f} GiB", gib(with.memory.at_peak[held])));
  } else {
    lines.push_back(fmt::format("against --ac none: peak {:+.3f} GiB, {} step {:+.1f} %",
                                gib(with.memory.peak_allocated - none->memory.peak_allocated),
                                time_word(with.time.basis),
                                100.0 * (with.time.step / none->time.step - 1.0)));
    lines.push_back(
        fmt::format("activations held at the peak: {:.3f} GiB, {:.3f} GiB without checkpointing",
                    gib(with.memory.at_peak[held]), gib(none->memory.at_peak[held])));
  }
  if (with.config.memory.kernels != Kernels::compiled)
    lines.push_back(fmt::format("recomputation: {} launches, {:.2f} ms of the step ({})",
                                of_phase(with, Phase::recompute), 1e3 * with.time.recompute,
                                to_string(with.time.basis)));
  else if (none)
    lines.push_back(fmt::format(
        "recomputation is part of the compiled backward: {} launches there, {} without ({:+.2f} "
        "ms, {})",
        of_phase(with, Phase::backward), of_phase(*none, Phase::backward),
        1e3 * (with.time.step - none->time.step), to_string(with.time.basis)));
}

void explain_loss(const model::ModelSpec& model, const profile::Profile& with,
                  std::vector<std::string>& lines) {
  const auto loss = static_cast<std::size_t>(profile::Category::loss);
  const std::int64_t bytes = with.memory.at_peak[loss];
  if (with.config.memory.loss != LossKind::ce || 4 * bytes <= with.memory.peak_allocated) return;
  const auto offer = [&](const StepConfig& c, const char* what, const std::string& remark) {
    const auto than = other(model, c);
    if (!than) return false;
    lines.push_back(
        fmt::format("the loss holds {:.3f} GiB of the peak; with --loss {}, which {}{}: {}",
                    gib(bytes), loss_option(c), what, remark, against(*than, with)));
    return true;
  };
  StepConfig lc_ce = with.config, chunked = with.config;
  lc_ce.memory.loss = LossKind::lc_ce;
  chunked.memory.loss = LossKind::chunked;
  chunked.memory.chunk_tokens = liger_chunk(model, chunked);
  chunked.memory.hold_output = false;  // it makes no output to hold
  const std::string lacks = unavailable(model, lc_ce);
  if (!lacks.empty() && unavailable(model, chunked).empty() &&
      offer(chunked, "makes the logits a chunk at a time", ""))
    return;
  offer(lc_ce, "never makes whole logits",
        lacks.empty() ? "" : " and which " + with.config.runtime.framework + " does not have");
}

}  // namespace

std::vector<std::string> explain_mode(const model::ModelSpec& model, const StepConfig& config) {
  std::vector<std::string> lines;
  const profile::Profile with = plan(model, config, false);
  StepConfig keep_all = config;
  keep_all.memory.ac = AcMode::none;
  keep_all.memory.scope = AcScope::block;
  const std::optional<profile::Profile> none = other(model, keep_all);
  if (config.memory.ac != AcMode::none) explain_recomputation(model, with, none, keep_all, lines);
  if (config.memory.kernels == Kernels::compiled) explain_compilation(model, with, lines);
  if (config.memory.ac != AcMode::none) explain_choice(model, with, none, lines);
  explain_loss(model, with, lines);
  return lines;
}

}  // namespace ac_advisor::advise
