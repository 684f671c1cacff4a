// Where Dynamo breaks a block's graph: at calls of modules whose hooks it may not trace.
#include "graph_breaks.hpp"

#include <algorithm>
#include <utility>

namespace ac_advisor::passes::compile {
namespace {

using ir::Module;
using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;

bool is_view(const Op& op) { return op.kind == OpKind::view || op.kind == OpKind::slice; }

/// Of what a projection in attention made, in no checkpoint.
bool views_projection(const Op& op) {
  if (op.region >= 0) return false;
  switch (op.module.leaf) {
    case Module::q_proj:
    case Module::k_proj:
    case Module::v_proj:
    case Module::qkv_proj:
      return is_view(op);
    default:
      return false;
  }
}

bool is_activation(const Op& op) {
  return op.kind == OpKind::silu || op.kind == OpKind::gelu || op.kind == OpKind::gelu_tanh ||
         op.kind == OpKind::relu;
}

/// An activation is a module of its own within the MLP, whose frame then multiplies.
Module frame_between_modules(const Op& op) {
  if (op.kind == OpKind::split) return Module::root;
  switch (op.module.leaf) {
    case Module::norm1:
    case Module::norm2:
    case Module::q_norm:
    case Module::k_norm:
    case Module::post_attention_norm:
    case Module::post_mlp_norm:
    case Module::block:
      return op.module.leaf;
    case Module::rope:
    case Module::attention_core:
      return Module::attention;
    case Module::activation:
      return is_activation(op) ? Module::activation : Module::mlp;
    default:
      return Module::root;
  }
}

/// The first norm's frame and that of attention are left for what Dynamo may not trace.
Module frame_around_attention(const Op& op) {
  switch (op.module.leaf) {
    case Module::norm1:
    case Module::o_proj:
      return op.module.leaf;
    case Module::attention_core:
      return Module::root;
    case Module::q_proj:
    case Module::k_proj:
    case Module::v_proj:
    case Module::qkv_proj:
    case Module::q_norm:
    case Module::k_norm:
    case Module::rope:
      return Module::attention;
    default:
      return Module::block;
  }
}

/// Of TokenReorderer.forward (torchtitan v0.2.2, models/moe/moe.py): of its numbers one a choice.
bool reorders(const ir::Program& p, const Op& op) {
  return op.kind == OpKind::histc || op.kind == OpKind::sort ||
         (op.kind == OpKind::index && p.value(p.output(op, 0)).shape.rank() == 1);
}

/// Of _run_experts_grouped_mm, whose offsets alone are sums in 32 bits.
bool multiplies_rows(const ir::Program& p, const Op& op) {
  return op.kind == OpKind::grouped_mm || op.kind == OpKind::silu || op.kind == OpKind::mul ||
         (op.kind == OpKind::cumsum && p.value(p.output(op, 0)).dtype == DType::i32);
}

Module frame_of_part(const ir::Program& p, const Op& op) {
  switch (op.module.leaf) {
    case Module::norm1:
    case Module::norm2:
    case Module::router:
      return op.module.leaf;
    case Module::q_proj:
    case Module::k_proj:
    case Module::v_proj:
    case Module::q_norm:
    case Module::k_norm:
    case Module::rope:
    case Module::attention_core:
    case Module::o_proj:
      return Module::attention;
    case Module::mlp:
      return reorders(p, op) ? Module::mlp : Module::root;
    case Module::experts:
      return multiplies_rows(p, op) ? Module::experts : Module::root;
    default:
      return Module::root;
  }
}

/// Whether an op is in a checkpoint that Python calls, which Dynamo leaves alone with all that it
/// calls (torch/utils/checkpoint.py, v2.11: _disable_dynamo).
bool in_checkpoint(const Op& op, GraphBreaks breaks, AcScope scope) {
  if (op.region < 0 || breaks == GraphBreaks::at_parts) return false;
  return breaks == GraphBreaks::at_modules || scope == AcScope::block ||
         ir::submodule_of(op.module.leaf) == Module::attention;
}

/// The module in whose frame an op is compiled; `root` for none.
Module frame_of(const ir::Program& p, const Op& op, GraphBreaks breaks, AcScope scope) {
  if (op.module.block < 0 || in_checkpoint(op, breaks, scope)) return Module::root;
  if (breaks == GraphBreaks::at_parts) return frame_of_part(p, op);
  return breaks == GraphBreaks::at_modules ? frame_between_modules(op) : frame_around_attention(op);
}

/// Dynamo's graph takes the views of a break before it along.
void move_views(ir::Program& p, OpId first) {
  const std::vector<Op> old(p.ops.begin() + first, p.ops.end());
  p.ops.resize(static_cast<std::size_t>(first));
  const auto push = [&](Op op) {
    const auto id = static_cast<OpId>(p.ops.size());
    op.group = id;
    for (const ir::ValueId v : p.outputs(op)) p.value(v).producer = id;
    p.ops.push_back(op);
  };
  std::vector<Op> views;
  for (const Op& op : old) {
    if (views_projection(op)) {
      views.push_back(op);
      continue;
    }
    if (op.kind != OpKind::hold &&
        frame_of(p, op, GraphBreaks::at_modules, AcScope::block) != Module::root)
      for (const Op& view : std::exchange(views, {})) push(view);
    push(op);
  }
}

/// Whether what an op reads leaves the piece that made it: a local of MoE.forward is returned to it
/// even if nothing but that local reads it.
bool reads_outputs(const Op& op, GraphBreaks breaks) {
  return op.kind != OpKind::hold ||
         (breaks == GraphBreaks::at_parts && op.module.leaf == Module::mlp);
}

void find_outputs(const ir::Program& p, OpId first, GraphBreaks breaks,
                  std::vector<Piece>& pieces) {
  std::vector<std::int32_t> piece_of(p.ops.size(), -1);
  for (std::size_t k = 0; k < pieces.size(); ++k)
    for (OpId id = pieces[k].first; id < pieces[k].end; ++id)
      piece_of[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(k);
  for (OpId id = first; id < static_cast<OpId>(p.ops.size()); ++id) {
    if (!reads_outputs(p.op(id), breaks)) continue;
    for (const ir::ValueId v : p.inputs(p.op(id))) {
      const ir::ValueId root = p.root(v);
      const OpId producer = p.value(root).producer;
      if (producer == no_id || producer < first) continue;
      const std::int32_t k = piece_of[static_cast<std::size_t>(producer)];
      if (k < 0 || k == piece_of[static_cast<std::size_t>(id)]) continue;
      std::vector<ir::ValueId>& outputs = pieces[static_cast<std::size_t>(k)].outputs;
      if (std::find(outputs.begin(), outputs.end(), root) == outputs.end()) outputs.push_back(root);
    }
  }
}

}  // namespace

std::vector<Piece> pieces_of_blocks(ir::Program& p, OpId first, GraphBreaks breaks, AcScope scope) {
  const bool at_modules = breaks == GraphBreaks::at_modules;
  if (at_modules) move_views(p, first);
  std::vector<Piece> pieces;
  std::pair<std::int16_t, Module> frame{-1, Module::root};
  OpId views = no_id;
  for (OpId id = first; id < static_cast<OpId>(p.ops.size()); ++id) {
    const Op& op = p.op(id);
    if (op.kind == OpKind::hold) continue;
    if (at_modules && views_projection(op)) {
      if (views == no_id) views = id;
      frame = {-1, Module::root};
      continue;
    }
    const std::pair<std::int16_t, Module> own{op.module.block, frame_of(p, op, breaks, scope)};
    if (own.second != Module::root) {
      if (own != frame) pieces.push_back({views == no_id ? id : views, id, {}});
      pieces.back().end = id + 1;
    }
    views = no_id;
    frame = own;
  }
  find_outputs(p, first, breaks, pieces);
  return pieces;
}

}  // namespace ac_advisor::passes::compile
