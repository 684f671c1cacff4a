#include "graph_pool.hpp"

namespace ac_advisor::simulate {

bool is_recorded(const ir::Program& p, const ir::Op& op) {
  if (op.phase < ir::Phase::backward) return true;
  return op.phase == ir::Phase::backward && op.forward != ir::no_id &&
         p.op(op.forward).kind == ir::OpKind::compiled_unit && op.kind != ir::OpKind::fill;
}

GraphPool graph_pool(const ir::Program& p) {
  GraphPool pool;
  pool.storages.resize(p.storages.size(), false);
  pool.ops.reserve(p.ops.size());
  for (const ir::Op& op : p.ops) {
    pool.ops.push_back(is_recorded(p, op));
    if (!pool.ops.back()) continue;
    for (ir::ValueId v : p.outputs(op))
      pool.storages[static_cast<std::size_t>(p.storage_of(v))] = true;
  }
  return pool;
}

}  // namespace ac_advisor::simulate
