// The pass that puts what torch.compile makes of each block in its place: the launches of its
// forward graph, and an autograd node whose backward is the other graph.
#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ac_advisor/ir/work.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "graph_breaks.hpp"
#include "passes/checkpointing/around_compiled.hpp"
#include "passes/shared_results.hpp"
#include "unit.hpp"
#include "unit_key.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

/// Compiled blocks that are kept for other configurations.
constexpr std::size_t most_units = 256;

/// One block of the forward program, or a piece of one, ops [first, end), and what it returns.
/// `region`: of the checkpoint around what it is compiled to; no_id: none, or it is inside.
struct Block {
  OpId first = no_id, end = no_id;
  std::vector<ValueId> outputs;
  std::int32_t region = no_id;
  ir::Module leaf = ir::Module::block;
};

/// Emits a forward graph's launches, and the autograd node whose backward is the program's compiled
/// graph `backward`. The first results are the program's values `outputs`; what else the graph
/// returns is saved, and joins the node's `inputs`. `by_policy`: --ac selective around it sees what
/// the graph calls by the dispatcher, and not products, which write to memory that they are given.
void write_unit(ir::Program& p, const ir::CompiledGraph& graph, std::int32_t backward,
                std::vector<ValueId> inputs, std::span<const ValueId> outputs,
                std::span<const ValueId> differentiated, ir::ModulePath unit, std::int32_t region,
                bool by_policy) {
  const auto first = static_cast<OpId>(p.ops.size());
  std::vector<ValueId> values = inputs;
  const auto output_of = [&](std::int32_t number) {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (graph.whole(graph.results[i]) == number) return outputs[i];
    return no_id;
  };
  for (std::size_t i = 0; i < graph.made.size(); ++i) {
    const ir::CompiledGraph::Made& made = graph.made[i];
    // An output's memory is that of the value that the program knows.
    const ValueId output = output_of(static_cast<std::int32_t>(i) + graph.given);
    if (made.of >= 0)
      values.push_back(no_id);  // when it is first read
    else if (made.over >= 0)
      values.push_back(p.on_storage_of(values[static_cast<std::size_t>(made.over)], made.shape,
                                       made.dtype, true));
    else if (output != no_id)
      values.push_back(p.on_storage_of(output, made.shape, made.dtype, false));
    else
      values.push_back(p.make(made.shape, made.dtype, ir::Role::activation, unit));
    if (made.of < 0) {
      p.value(values.back()).permuted = made.permuted;
      p.value(values.back()).requires_grad = false;  // the unit's node has the gradients
    }
    if (output != no_id && made.over >= 0) p.value(output).storage = p.value(values.back()).storage;
  }
  for (const ir::CompiledGraph::Launch& launch : graph.launches)
    p.emit(launch.kind, ir::Phase::forward, ir::CompiledGraph::module(launch, unit),
           p.values_of(graph, values, launch.inputs), p.values_of(graph, values, launch.outputs),
           launch.attributes);
  for (ValueId v : p.values_of(graph, values, std::span(graph.results).subspan(outputs.size())))
    inputs.push_back(v);
  p.emit(OpKind::compiled_unit, ir::Phase::forward, unit, inputs, differentiated,
         ir::CompiledUnit{backward});
  for (auto id = first; id < static_cast<OpId>(p.ops.size()); ++id) {
    Op& op = p.op(id);
    op.region = region;
    op.kept = by_policy && (op.kind == OpKind::sdpa || op.kind == OpKind::tp_reduce_scatter);
  }
}

/// Of the block of that number, or of a model as one graph: -1.
double memory_budget(const StepConfig& config, std::int16_t block) {
  AcMode mode = config.memory.ac;
  const std::vector<AcMode>& chosen = config.memory.block_modes;
  if (mode == AcMode::budget && block >= 0 && static_cast<std::size_t>(block) < chosen.size())
    mode = chosen[static_cast<std::size_t>(block)];
  return mode == AcMode::memory_budget ? config.memory.memory_budget : 1.0;
}
bool runs_cudnn(const StepConfig& config) { return config.run.attention != Attention::flash; }

/// The number of a unit's backward in the program, which has its kernels' bodies, too.
std::int32_t add_backward(ir::Program& p, compile::Unit& unit) {
  for (ir::CompiledGraph* graph : {&unit.forward, &unit.backward}) p.own_bodies(*graph);
  p.compiled.push_back(unit.backward);
  return static_cast<std::int32_t>(p.compiled.size()) - 1;
}

class BlockCompiler {
 public:
  BlockCompiler(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config)
      : s_(step), p_(step.program), spec_(spec), config_(config) {}

  void run(OpId first) {
    const bool breaks = graph_breaks(spec_, config_) != GraphBreaks::none;
    if (breaks && config_.memory.scope == AcScope::submodule) leave_norms(first);
    const std::vector<Block> blocks = breaks ? find_pieces(first) : find_blocks(first);
    std::vector<Written> written;
    written.reserve(blocks.size());
    for (const Block& block : blocks) written.push_back(compiled(block));
    const std::vector<bool> inner = breaks ? inner_values(blocks) : std::vector<bool>();
    std::vector<bool> waiting;
    for (const Block& block : blocks) waiting.push_back(waits(block));
    const std::vector<Op> old(p_.ops.begin() + first, p_.ops.end());
    p_.ops.resize(static_cast<std::size_t>(first));
    std::size_t next = 0;
    for (OpId id = first; id < first + static_cast<OpId>(old.size()); ++id) {
      if (next < blocks.size() && id >= blocks[next].first) {
        if (id == blocks[next].first && waiting[next])
          keep(old[static_cast<std::size_t>(id - first)]);
        if (id + 1 == blocks[next].end) {
          write(blocks[next], written[next],
                old[static_cast<std::size_t>(id - first)].module.block);
          ++next;
        }
        continue;
      }
      const Op& op = old[static_cast<std::size_t>(id - first)];
      if (breaks && op.kind == OpKind::hold)
        keep_held(op, inner);
      else
        keep(op);
    }
    s_.chains.clear();
  }

 private:
  struct Written {
    std::size_t unit = 0;
    std::vector<ValueId> inputs;
  };

  /// AutoModel's checkpoints around what it compiles are of attention and MLPs alone
  /// (parallelizer.py, DefaultParallelizationStrategy.parallelize: enable_compile).
  void leave_norms(OpId first) {
    for (auto id = first; id < static_cast<OpId>(p_.ops.size()); ++id) {
      const ir::Module part = ir::submodule_of(p_.op(id).module.leaf);
      if (part != ir::Module::attention && part != ir::Module::mlp) p_.op(id).region = no_id;
    }
  }
  [[nodiscard]] std::vector<Block> find_pieces(OpId first) const {
    std::vector<Block> blocks;
    for (const compile::Piece& piece :
         compile::pieces_of_blocks(p_, first, graph_breaks(spec_, config_), config_.memory.scope)) {
      const ir::Module leaf = p_.op(piece.end - 1).module.leaf;
      const std::int32_t region =
          graph_breaks(spec_, config_) == GraphBreaks::at_parts ? p_.op(piece.first).region : no_id;
      blocks.push_back({piece.first, piece.end, piece.outputs, region, leaf});
    }
    return blocks;
  }

  /// What pieces make for themselves: no local of Python's holds it.
  [[nodiscard]] std::vector<bool> inner_values(const std::vector<Block>& pieces) const {
    std::vector<bool> inner(p_.values.size(), false);
    for (const Block& piece : pieces) {
      for (OpId id = piece.first; id < piece.end; ++id)
        for (const ValueId v : p_.outputs(p_.op(id))) inner[static_cast<std::size_t>(v)] = true;
      for (const ValueId v : piece.outputs) inner[static_cast<std::size_t>(v)] = false;
    }
    return inner;
  }
  void keep_held(Op hold, const std::vector<bool>& inner) {
    ValueId* const held = p_.operands.data() + hold.first_operand;
    ValueId* const end = std::remove_if(held, held + hold.inputs, [&](ValueId v) {
      return inner[static_cast<std::size_t>(p_.root(v))];
    });
    hold.inputs = static_cast<decltype(hold.inputs)>(end - held);
    if (hold.inputs > 0) keep(hold);
  }

  [[nodiscard]] std::vector<Block> find_blocks(OpId first) const {
    std::vector<Block> blocks;
    std::int16_t current = -1;
    for (auto id = first; id < static_cast<OpId>(p_.ops.size()); ++id) {
      const Op& op = p_.op(id);
      if (op.module.block < 0) continue;
      if (op.module.block != current) blocks.push_back({id, id, {}});
      current = op.module.block;
      blocks.back().end = id + 1;
      if (op.kind != OpKind::hold) blocks.back().outputs.assign(1, p_.output(op, 0));
      if (checkpoints_compiled_blocks(spec_, config_))
        blocks.back().region = std::max(blocks.back().region, op.region);
    }
    return blocks;
  }

  /// Whether a checkpoint is a part of what is compiled.
  [[nodiscard]] bool checkpointed(const Block& block) const {
    return !checkpoints_compiled_blocks(spec_, config_) &&
           std::any_of(p_.ops.begin() + block.first, p_.ops.begin() + block.end,
                       [](const Op& op) { return op.region >= 0; });
  }

  [[nodiscard]] double memory_budget_of(const Block& block) const {
    return memory_budget(config_, p_.op(block.first).module.block);
  }

  /// Whether it begins with the wait for what ranks reduced: the embedding of those that share it.
  [[nodiscard]] bool waits(const Block& block) const {
    const Op& first = p_.op(block.first);
    return first.kind == OpKind::hold && is_before(block, p_.input(first, 0));
  }
  [[nodiscard]] bool is_before(const Block& block, ValueId v) const {
    const OpId producer = p_.value(p_.root(v)).producer;
    return producer == no_id || producer < block.first;
  }

  [[nodiscard]] compile::TraceOptions options_of(const Block& block) const {
    compile::TraceOptions options = compile::trace_options(spec_, config_);
    options.cudnn = runs_cudnn(config_);
    options.checkpointed = checkpointed(block);
    options.shared_layers = config_.layout.tp > 1;
    const GraphBreaks breaks = graph_breaks(spec_, config_);
    options.by_region = breaks != GraphBreaks::none && breaks != GraphBreaks::at_parts;
    options.by_policy = options.checkpointed && config_.memory.ac == AcMode::selective;
    return options;
  }

  /// Blocks that are alike are compiled once: here, and of all configurations.
  Written compiled(const Block& block) {
    const compile::TraceOptions options = options_of(block);
    const double budget = memory_budget_of(block);
    Written written;
    compile::KeyText key;
    key.add(options);
    key.add(budget);
    key.add(waits(block));
    key.add(block.leaf);
    key.add(compile::signature(p_, block.first, block.end, written.inputs));
    const auto [found, is_new] = known_.try_emplace(key.text(), units_.size());
    written.unit = found->second;
    if (!is_new) return written;
    const compile::Runner runner = config_.runtime.kind == Runtime::ac_trainer
                                       ? compile::Runner::trainer
                                       : compile::Runner::inductor;
    key.add(runner);
    for (const ValueId v : block.outputs) {
      key.add(p_.value(v).producer - block.first);
      key.add(p_.value(v).shape);
    }
    key.add(compile::whole_key(p_, block.first, block.end));
    static SharedResults<compile::Unit> shared(most_units);
    units_.push_back(*shared.get(key.text(), [&] {
      ir::count(ir::Work::blocks);
      return compile::compile_unit(
          compile::trace_block(p_, block.first, block.end, block.outputs, options), budget,
          /*recorded=*/false, runner);
    }));
    backwards_.push_back(add_backward(p_, units_.back()));
    return written;
  }

  void keep(Op op) {
    const auto id = static_cast<OpId>(p_.ops.size());
    op.group = id;
    for (ValueId v : p_.outputs(op)) p_.value(v).producer = id;
    p_.ops.push_back(op);
  }

  void write(const Block& block, const Written& written, std::int16_t index) {
    write_unit(p_, units_[written.unit].forward, backwards_[written.unit], written.inputs,
               block.outputs, block.outputs, {index, block.leaf}, block.region,
               block.region >= 0 && config_.memory.ac == AcMode::selective);
  }

  StepProgram& s_;
  ir::Program& p_;
  const model::ModelSpec& spec_;
  const StepConfig& config_;
  std::unordered_map<std::string, std::size_t> known_;
  std::vector<compile::Unit> units_;
  std::vector<std::int32_t> backwards_;
};

/// The whole forward with its loss as one unit: `torch.compile(model)`.
void compile_model(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config,
                   OpId first) {
  ir::Program& p = step.program;
  const auto end = static_cast<OpId>(p.ops.size());
  ValueId labels = no_id;
  for (OpId id = first; id < end; ++id)
    if (p.op(id).kind == OpKind::pad) labels = p.input(p.op(id), 0);
  const ValueId logits = step.outputs.front();
  compile::TraceOptions options = compile::trace_options(spec, config);
  options.cudnn = runs_cudnn(config);
  compile::JointGraph joint = compile::trace_model(p, first, end, logits, labels, options);
  p.ops.resize(static_cast<std::size_t>(first));
  std::vector<ValueId> inputs;
  for (compile::NodeId n : joint.all(ir::Target::placeholder))
    inputs.push_back(joint.node(n).value);
  compile::Unit unit =
      compile::compile_unit(std::move(joint), memory_budget(config, -1),
                            config.runtime.cuda_graph != CudaGraph::off, compile::Runner::inductor);
  const ValueId results[] = {step.loss, logits};
  const std::int32_t backward = add_backward(p, unit);
  write_unit(p, unit.forward, backward, std::move(inputs), results, std::span(results).first(1),
             {-1, ir::Module::root}, no_id, false);
  step.chains.clear();
}

bool applies(const StepConfig& config) { return config.memory.kernels == Kernels::compiled; }

void run(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config) {
  if (config.memory.compile_unit == CompileUnit::model)
    return compile_model(step, spec, config, step.micro_begin.back());
  BlockCompiler(step, spec, config).run(step.micro_begin.back());
}

}  // namespace

extern const Pass compile_pass;
const Pass compile_pass{"compile",
                        Stage::micro_batch,
                        "each block as torch.compile makes it: what it saves, its launches",
                        applies,
                        run,
                        {},
                        Of::transformers};

}  // namespace ac_advisor::passes
