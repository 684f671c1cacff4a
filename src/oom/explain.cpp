#include "ac_advisor/oom/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "in_plan.hpp"
#include "model/grouped.hpp"
#include "tensor.hpp"

namespace ac_advisor::oom {
namespace {

using model::grouped;

constexpr std::int64_t gib = std::int64_t{1} << 30, mib = 1 << 20;

bool is_pairs(const Candidate& c) { return c.role == Role::scores || c.role == Role::mask; }

/// "3 sequences of 8,192", "1 x 4,096 as planned"
std::string made_by(const Candidate& c, const StepConfig* config) {
  if (c.rows == 0) return "";
  if (is_pairs(c)) return fmt::format("a sequence of {} tokens", grouped(c.rows));
  if (config != nullptr) {
    const std::int64_t seq = config->local_seq(), batch = config->rows();
    if (c.planned && c.rows == batch * seq)
      return fmt::format("the planned batch: {} x {}", batch, grouped(seq));
    if (c.planned) return "the planned batch";
    if (c.rows % seq == 0)
      return fmt::format("{} sequence{} of {} in one pass (planned: {})", grouped(c.rows / seq),
                         c.rows == seq ? "" : "s", grouped(seq), batch);
    if (batch > 1 && c.rows % batch == 0)
      return fmt::format("{} sequences of {} (planned: {} of {})", batch, grouped(c.rows / batch),
                         batch, grouped(seq));
    return fmt::format("{} tokens in one pass (planned: {})", grouped(c.rows),
                       grouped(batch * seq));
  }
  for (const std::int64_t length : {8192, 4096, 2048, 1024, 512})
    if (c.rows % length == 0 && c.rows / length <= 64)
      return c.rows == length
                 ? fmt::format("one sequence of {}, or as many tokens of several", grouped(length))
                 : fmt::format("{} sequences of {}, or as many tokens in one pass", c.rows / length,
                               grouped(length));
  return fmt::format("{} tokens in one pass", grouped(c.rows));
}

Tensor tensor_of(const Candidate& c, const Marks& marks, PlannedStep* step) {
  Tensor t;
  t.what = c.what;
  t.rows = c.rows;
  t.width = c.width;
  t.element = c.element;
  t.bytes = c.bytes();
  t.made_by = made_by(c, step != nullptr ? &step->config() : nullptr);
  // Whose vocabulary it is, is a guess where neither a model nor a frame says it.
  const bool known = step != nullptr || c.rows == 0 || c.width == marks.width;
  t.certain = known && (c.role == marks.role || (c.planned && c.rows > 0));
  const char* exactly = c.least_rows == c.most_rows || c.planned ? "" : "about ";
  const std::string each = fmt::format("{} byte{} each", c.element, c.element == 1 ? "" : "s");
  if (c.rows == 0)
    t.shape = fmt::format("{} elements, {}", grouped(c.width), each);
  else if (is_pairs(c))
    t.shape = fmt::format("{} x {} x {}{} x {}, {}", c.sequences, c.width, exactly, grouped(c.rows),
                          grouped(c.rows), each);
  else
    t.shape = fmt::format("{}{} tokens x {}, {}", exactly, grouped(c.rows), grouped(c.width), each);
  if (step == nullptr || !c.planned) return t;
  if (const auto in_plan = step->find(t.bytes, c.role, marks.phase)) {
    t.op = in_plan->op;
    t.module = in_plan->module;
    t.plan_phase = in_plan->phase;
  }
  return t;
}

/// Whether memory lacked, or lay in pieces.
void weigh(Finding& f) {
  const Error& e = f.error;
  if (!e.requested || !e.free) return;
  std::int64_t room = e.free->bytes;
  if (e.allowed && e.allocated)
    room = std::min(
        room, e.allowed->bytes - e.allocated->bytes - (e.unallocated ? e.unallocated->bytes : 0));
  const std::int64_t cached = e.unallocated ? e.unallocated->bytes : 0, asked = e.requested->bytes;
  f.fragmented = cached > 0 && room + cached >= asked;
  f.missing = std::max<std::int64_t>(0, asked - room - cached);
  const std::string have =
      fmt::format("{} are free and {} are reserved by PyTorch in pieces that no tensor has",
                  size_text(std::max<std::int64_t>(0, room)), size_text(cached));
  if (f.fragmented)
    f.need = fmt::format(
        "fragmentation: {}, together enough for {}; expandable_segments:True would have given them "
        "in one piece",
        have, size_text(asked));
  else
    f.need = fmt::format("need: {} are asked for, {}: {} are missing, however they lie",
                         size_text(asked), have, size_text(f.missing));
}

void note_memory(Finding& f) {
  const Error& e = f.error;
  std::int64_t others = 0;
  for (const Process& p : e.others) others += p.in_use.bytes;
  if (others > 64 * mib)
    f.notes.push_back(fmt::format(
        "{} other process{} on this GPU hold{} {}: {}", e.others.size(),
        e.others.size() > 1 ? "es" : "", e.others.size() > 1 ? "" : "s", size_text(others),
        f.missing > 0 && others >= f.missing ? "without them the request fits"
                                             : "end them, or leave them a GPU of their own"));
  if (e.this_process && e.allocated) {
    const std::int64_t beside =
        e.this_process->bytes - e.allocated->bytes - (e.unallocated ? e.unallocated->bytes : 0);
    if (beside > 2 * gib && beside < 1024 * gib)
      f.notes.push_back(fmt::format(
          "{} of this process are not PyTorch's: the CUDA context, NCCL, and what libraries or an "
          "inference engine take from the driver",
          size_text(beside)));
  }
  if (e.allowed)
    f.notes.push_back(
        fmt::format("the process may use {} of the device (a memory fraction was set)",
                    size_text(e.allowed->bytes)));
  if (e.private_pools && e.private_pools->bytes > 0)
    f.notes.push_back(fmt::format("{} are in private pools: CUDA graphs keep them",
                                  size_text(e.private_pools->bytes)));
  if (e.requested && e.requested->least() <= 20 * mib && !f.tensor)
    f.notes.push_back(
        "so small a request says little of its tensor: the device was full before it; look at what "
        "is allocated, not at what was asked for");
  if (e.kind == Kind::device)
    f.notes.push_back(
        "it was not PyTorch's allocator that was refused: a library asked the driver while PyTorch "
        "had the rest reserved; leave it room (a smaller micro-batch, or "
        "torch.cuda.set_per_process_memory_fraction)");
  if (e.kind == Kind::engine && e.needed_kv && e.available_kv)
    f.notes.push_back(fmt::format(
        "one sequence of the longest length needs {} of KV cache, and {} are left for it: shorten "
        "it (max_model_len) to about {:.0f} %, or give the engine more (gpu_memory_utilization)",
        size_text(e.needed_kv->bytes), size_text(e.available_kv->bytes),
        100.0 * static_cast<double>(e.available_kv->bytes) /
            static_cast<double>(std::max<std::int64_t>(1, e.needed_kv->bytes))));
  else if (e.kind == Kind::engine)
    f.notes.push_back(
        "the engine's weights, activations and what else the GPU has leave nothing for its KV "
        "cache: raise gpu_memory_utilization, or shorten max_model_len, or free the GPU first");
}

Finding finding_of(Error error, PlannedStep* step) {
  Finding f;
  const Marks marks = marks_of(error.frames);
  f.role = marks.words;
  f.phase = marks.phase;
  f.where = marks.where;
  f.error = std::move(error);
  if (f.error.requested && f.error.kind == Kind::allocator) {
    constexpr std::size_t most_told = 3;
    std::vector<Candidate> list =
        candidates(f.error, marks, step != nullptr ? &step->model() : nullptr,
                   step != nullptr ? &step->config() : nullptr);
    if (list.size() > most_told) list.resize(most_told);
    for (const Candidate& c : list) {
      Tensor t = tensor_of(c, marks, step);
      if (!f.tensor)
        f.tensor = std::move(t);
      else
        f.alternatives.push_back(std::move(t));
    }
  }
  weigh(f);
  note_memory(f);
  return f;
}

/// What helps against a tensor of the role, where no model says how much.
std::vector<std::string> suggest(const std::vector<Finding>& findings) {
  std::vector<std::string> list;
  const auto add = [&](const char* text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.emplace_back(text);
  };
  for (const Finding& f : findings) {
    if (f.error.kind != Kind::allocator) continue;
    if (f.fragmented) add("PYTORCH_ALLOC_CONF=expandable_segments:True (costs nothing)");
    const std::string& what = f.role.empty() && f.tensor ? f.tensor->what : f.role;
    const auto says = [&](const char* word) { return what.find(word) != std::string::npos; };
    if (says("logits")) add("a loss that computes logits in chunks (Liger's, cut-cross-entropy)");
    if (says("foreach")) add("a fused optimizer (fused=True), which has no such temporaries");
    if (says("optimizer") || says("fp32 partition")) {
      add("an optimizer in 8 bits, or its states on the host");
      add("shards over more ranks (FSDP2, ZeRO)");
    }
    if (says("scores")) add("SDPA or flash attention, which has no scores");
    if (says("KV")) add("a shorter generation, or fewer sequences at once");
    if (says("ZeRO 3") || says("FSDP unit"))
      add("smaller units: each block its own (transformer auto-wrap)");
    if (says("loaded") || says("moved") || says("made by the engine")) {
      add("weights in 8 or 4 bits, where they are frozen or only read");
      add("shards over more ranks, made on the meta device (FSDP2, ZeRO 3, tensor parallelism)");
      continue;
    }
    if (f.phase != "optimizer" && f.phase != "set-up") {
      add("activation checkpointing, if it is off");
      add("a smaller micro-batch with more gradient accumulation");
    }
  }
  if (list.size() > 3) list.resize(3);
  return list;
}

Explanation explained(std::vector<Error> errors, std::int64_t flushes, PlannedStep* step) {
  Explanation e;
  for (Error& error : errors) e.findings.push_back(finding_of(std::move(error), step));
  e.flushes = flushes;
  return e;
}

}  // namespace

Explanation explain(std::vector<Error> errors, std::int64_t flushes) {
  Explanation e = explained(std::move(errors), flushes, nullptr);
  e.suggestions = suggest(e.findings);
  return e;
}

Explanation explain(std::vector<Error> errors, std::int64_t flushes, const model::ModelSpec& model,
                    const advise::Resolved& resolved) {
  PlannedStep step(model, resolved.config);
  Explanation e = explained(std::move(errors), flushes, &step);
  Planned& planned = e.planned.emplace(Planned{advise::plan(model, resolved), {}, {}});
  for (const Finding& f : e.findings) {
    constexpr double more = 1.1;
    const std::int64_t peak = planned.profile.memory.peak_allocated;
    if (!f.error.allocated ||
        static_cast<double>(f.error.allocated->bytes) < more * static_cast<double>(peak))
      continue;
    planned.notes.push_back(
        fmt::format("the text tells of {} allocated, the plan of {} at its peak: the run held "
                    "something more (a "
                    "second model, longer sequences, tensors that are kept), or had other options "
                    "than are given "
                    "here",
                    size_text(f.error.allocated->bytes), size_text(peak)));
    break;
  }
  std::int64_t less = 0;
  for (const Finding& f : e.findings)
    if (planned.profile.fit.fits && f.error.requested && !f.fragmented)
      less = std::max(less, std::max(f.missing, f.error.requested->bytes / 8));
  planned.changes = advise::changes_that_fit(model, planned.profile, resolved.options, less);
  return e;
}

std::string device_of(const std::vector<Error>& errors) {
  for (const Error& e : errors) {
    if (!e.capacity) continue;
    std::string best;
    double nearest = 0.02, flops = 0;  // of devices of one size: a driver's share
    for (const std::string& name : simulate::device_names()) {
      const simulate::Device& device = simulate::find_device(name);
      if (!device.cuda) continue;
      const double off = std::abs(static_cast<double>(device.usable_bytes - e.capacity->bytes)) /
                         static_cast<double>(device.usable_bytes);
      // The L40's memory is the L40S's: of equals the fastest.
      if (off < nearest || (off == nearest && device.bf16_flops > flops)) {
        nearest = off;
        flops = device.bf16_flops;
        best = name;
      }
    }
    return best;
  }
  return "";
}

}  // namespace ac_advisor::oom
