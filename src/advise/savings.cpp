#include "savings.hpp"

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::advise {

std::vector<Saving> savings_table(const model::ModelSpec& model, const StepConfig& base) {
  std::vector<Saving> table;
  StepConfig c = base;
  c.memory.ac = AcMode::none;
  c.memory.loss = LossKind::ce;
  c.layout.shard = Sharding::none;
  c.layout.keep_last_block = false;
  c.layout.world = 1;
  c.precision.reduce_dtype = c.precision.param_dtype;
  if (!c.precision.autocast) c.precision.compute_dtype = c.precision.param_dtype;
  if (base.memory.loss == LossKind::chunked) c.memory.hold_output = true;
  const auto add = [&](const std::string& technique) {
    const profile::Profile p = plan(model, c, false);
    Saving row;
    row.technique = technique;
    row.config = c;
    row.peak_bytes = p.memory.peak_allocated;
    row.step_seconds = p.time.step;
    if (!table.empty()) {
      row.saved_bytes = table.back().peak_bytes - row.peak_bytes;
      row.saved_share =
          1.0 - static_cast<double>(row.peak_bytes) / static_cast<double>(table.front().peak_bytes);
    }
    table.push_back(row);
  };
  add("Baseline");
  if (base.layout.world > 1) {
    c.layout.world = base.layout.world;
    c.layout.shard = base.layout.shard;
    c.layout.hsdp_shards = base.layout.hsdp_shards;
    c.layout.keep_last_block = base.layout.keep_last_block;
    c.precision.compute_dtype = base.precision.compute_dtype;
    c.precision.reduce_dtype = base.precision.reduce_dtype;
    const char* names[] = {"none", "DDP", "ZeRO-1", "ZeRO-2", "FSDP", "HSDP"};
    add(std::string("+ ") + names[static_cast<std::size_t>(c.layout.shard)] + " (dp " +
        std::to_string(c.layout.world) + ")");
  }
  c.memory.ac = base.memory.ac == AcMode::none ? AcMode::full : base.memory.ac;
  c.memory.ac_arg = base.memory.ac_arg;
  c.memory.scope = c.memory.ac == AcMode::full || c.memory.ac == AcMode::every ? base.memory.scope
                                                                               : AcScope::block;
  add("+ checkpointing (" + ac_option(c) + ")");
  c.memory.loss = base.memory.loss == LossKind::ce ? LossKind::lc_ce : base.memory.loss;
  c.memory.chunk_tokens = base.memory.chunk_tokens;
  if (base.memory.loss == LossKind::chunked) c.memory.hold_output = base.memory.hold_output;
  add(c.memory.loss == LossKind::lc_ce ? "+ LC-CE" : "+ " + loss_option(c));
  return table;
}

}  // namespace ac_advisor::advise
