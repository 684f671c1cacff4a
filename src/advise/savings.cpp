#include "savings.hpp"

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::advise {

std::vector<Saving> savings_table(const model::ModelSpec& model, const StepConfig& base) {
  std::vector<Saving> table;
  StepConfig c = base;
  c.ac = AcMode::none;
  c.loss = LossKind::ce;
  c.shard = Sharding::none;
  c.keep_last_block = false;
  c.world = 1;
  c.compute_dtype = c.reduce_dtype = c.param_dtype;
  if (base.loss == LossKind::chunked) c.hold_output = true;
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
  if (base.world > 1) {
    c.world = base.world;
    c.shard = base.shard;
    c.hsdp_shards = base.hsdp_shards;
    c.keep_last_block = base.keep_last_block;
    c.compute_dtype = base.compute_dtype;
    c.reduce_dtype = base.reduce_dtype;
    const char* names[] = {"none", "DDP", "ZeRO-1", "ZeRO-2", "FSDP", "HSDP"};
    add(std::string("+ ") + names[static_cast<std::size_t>(c.shard)] + " (dp " +
        std::to_string(c.world) + ")");
  }
  c.ac = base.ac == AcMode::none ? AcMode::full : base.ac;
  c.ac_arg = base.ac_arg;
  c.scope = c.ac == AcMode::full || c.ac == AcMode::every ? base.scope : AcScope::block;
  add("+ checkpointing (" + ac_option(c) + ")");
  c.loss = base.loss == LossKind::ce ? LossKind::lc_ce : base.loss;
  c.chunk_tokens = base.chunk_tokens;
  if (base.loss == LossKind::chunked) c.hold_output = base.hold_output;
  add(c.loss == LossKind::lc_ce ? "+ LC-CE" : "+ " + loss_option(c));
  return table;
}

}  // namespace ac_advisor::advise
