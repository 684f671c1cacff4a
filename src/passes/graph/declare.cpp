// The pass that declares what exists before the step of an imported graph, and what cannot be asked
// of one.
#include <algorithm>
#include <string>
#include <vector>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/graph/scale.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "values.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool always(const StepConfig&) { return true; }

/// The values of one role, each storage's first; a second tensor on a storage is a view of it.
class Residents {
 public:
  Residents(StepProgram& step, const graph::Graph& graph) : s_(step), g_(graph) {
    s_.captured.assign(g_.storages.size(), ir::no_id);
  }

  ir::ValueId declare(graph::Index tensor, ir::Role role, ir::ModulePath module) {
    const graph::Tensor& t = g_.tensors[static_cast<std::size_t>(tensor)];
    ir::ValueId& value = s_.captured[static_cast<std::size_t>(t.storage)];
    if (value != ir::no_id) return view_of(s_.program, value, t);
    return value = make_storage(s_.program, g_, t.storage, &t, role, module);
  }

  void declare_storage(graph::Index storage) {
    ir::ValueId& value = s_.captured[static_cast<std::size_t>(storage)];
    if (value != ir::no_id) return;
    value =
        make_storage(s_.program, g_, storage, nullptr, ir::Role::buffer, {-1, ir::Module::root});
    s_.buffers.push_back(value);
  }

 private:
  StepProgram& s_;
  const graph::Graph& g_;
};

/// By parameter.
std::vector<bool> has_gradient(const graph::Graph& g) {
  std::vector<bool> has(g.parameters.size(), false);
  for (const graph::Gradient& gradient : g.micro_batches[0].gradients)
    has[static_cast<std::size_t>(gradient.parameter)] = true;
  return has;
}

void run(StepProgram& step, const ModelSpec& spec, const StepConfig& config) {
  const graph::Graph& g = *spec.graph;
  const std::vector<ir::ModulePath> places = places_of(g);
  step.program.captured_names = g.op_names;
  Residents residents(step, g);
  for (const graph::Parameter& p : g.parameters) {
    const ir::ModulePath module = places[static_cast<std::size_t>(p.module)];
    const ir::ValueId value = residents.declare(p.tensor, ir::Role::parameter, module);
    step.parameters.push_back({value, module, 1, ir::no_id, p.trained});
  }
  // PyTorch's optimizers make no states for a gradient of None.
  const std::vector<bool> has = has_gradient(g);
  for (std::size_t i = 0; i < has.size(); ++i)
    step.parameters[i].trained = step.parameters[i].trained && has[i];
  for (const graph::Index tensor : g.buffers)
    step.buffers.push_back(residents.declare(tensor, ir::Role::buffer, {-1, ir::Module::root}));
  for (const graph::Index tensor : g.inputs)
    step.inputs.push_back(residents.declare(tensor, ir::Role::input, {-1, ir::Module::root}));
  for (const graph::Index storage : g.others) residents.declare_storage(storage);
  step.blocks = static_cast<std::int32_t>(g.blocks.size());
  step.loss_scale = 1.0 / static_cast<double>(config.run.grad_accum);
}

// --- what is refused ----------------------------------------------------------------------------

const graph::Tensor& tensor_of(const graph::Graph& g, const graph::Parameter& parameter) {
  return g.tensors[static_cast<std::size_t>(parameter.tensor)];
}

bool has_several_dtypes(const graph::Graph& g) {
  return std::any_of(g.parameters.begin(), g.parameters.end(), [&](const graph::Parameter& p) {
    return tensor_of(g, p).dtype != tensor_of(g, g.parameters.front()).dtype;
  });
}

bool has_scalar_parameter(const graph::Graph& g) {
  return std::any_of(g.parameters.begin(), g.parameters.end(),
                     [&](const graph::Parameter& p) { return tensor_of(g, p).shape.empty(); });
}

bool has_unused_parameter(const graph::Graph& g) {
  const std::vector<bool> has = has_gradient(g);
  for (std::size_t i = 0; i < has.size(); ++i)
    if (g.parameters[i].trained && !has[i]) return true;
  return false;
}

std::string size_option(const char* name, std::int64_t value) {
  return std::string(name) + " " + std::to_string(value);
}

constexpr Exclusion exclusions_of_graph[] = {
    {"--batch B --seq S of an imported graph, sizes that its capture does not scale to",
     "its shapes are those of its capture",
     "capture it again with --batch and --seq, or with --scale batch,seq",
     [](const ModelSpec& m, const StepConfig& c) {
       return !graph::has_size(*m.graph, {c.run.batch, c.run.seq});
     },
     [](const ModelSpec& m, const StepConfig& c) {
       const std::string why = graph::why_not(*m.graph, {c.run.batch, c.run.seq});
       return size_option("--batch", c.run.batch) + " " + size_option("--seq", c.run.seq) +
              " of a graph of " + std::to_string(m.graph->batch) + " x " +
              std::to_string(m.graph->seq) + (why.empty() ? "" : " (" + why + ")");
     }},
    {"--param-dtype or --autocast of an imported graph", "its dtypes are those of its capture",
     "leave them out, and capture it again with --dtype, or with autocast in the model's forward",
     [](const ModelSpec& m, const StepConfig& c) {
       const bool wide = graph::parameter_dtype(*m.graph) == graph::DType::float32;
       const DType computed = m.graph->autocast ? DType::bf16 : c.precision.param_dtype;
       return c.precision.autocast != m.graph->autocast || c.precision.compute_dtype != computed ||
              (c.precision.param_dtype == DType::f32) != wide;
     }},
    {"--loss other than ce of an imported graph", "its loss is the one that was captured",
     "leave it out, and capture the model with that loss",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.loss != LossKind::ce || c.memory.wide_output;
     }},
    {"--kernels fused of an imported graph", "its kernels are those that were captured",
     "leave it out, and capture the model with fused kernels in it",
     [](const ModelSpec&, const StepConfig& c) { return c.memory.kernels != Kernels::eager; }},
    {"--attn, --dropout, --capacity-factor, --packing, --position-ids or --images of an imported "
     "graph",
     "its forward is the one that was captured",
     "leave them out, and capture the model with that attention, dropout, routing or its inputs",
     [](const ModelSpec&, const StepConfig& c) {
       return c.run.attention != Attention::automatic || c.run.dropout > 0 ||
              c.run.capacity_factor != 1.0 || c.run.packing > 0 || c.run.position_ids ||
              c.run.images > 0;
     }},
    {"--lora or --quantize of an imported graph", "its parameters are those that were captured",
     "leave them out, and capture the model with PEFT's adapters in it",
     [](const ModelSpec&, const StepConfig& c) {
       return c.adapters.used() || c.adapters.quantize != Quantization::none;
     }},
    {"--tp, --cp or --pp of an imported graph", "how its modules would be split is not known",
     "leave them out, or run the program itself: ac-advisor dryrun",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.tp > 1 || c.layout.cp > 1 || c.layout.pp > 1;
     }},
    {"--shard zero1, zero2 or zero3 of an imported graph", "they are not planned for graphs yet",
     "use --shard ddp, fsdp2 or hsdp:N",
     [](const ModelSpec&, const StepConfig& c) { return c.layout.zero(); },
     [](const ModelSpec&, const StepConfig& c) {
       return "--shard " + shard_option(c) + " of an imported graph";
     }},
    {"--fsdp-unit segment or torchtitan of an imported graph",
     "its blocks are what fully_shard is called on, each and the model", "use --fsdp-unit block",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.gathers() && c.layout.fsdp_unit != FsdpUnit::block;
     }},
    {"--shard of an imported graph, parameters of several dtypes",
     "fsdp2 reduces gradients of one dtype, and ddp's buckets of several are not planned yet",
     "capture it again with --dtype",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.layout.shard != Sharding::none && has_several_dtypes(*m.graph);
     }},
    {"--shard fsdp2 or hsdp:N of an imported graph, a parameter of no dimension",
     "fully_shard splits parameters along their first", "give it a dimension of one, or use ddp",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.layout.gathers() && has_scalar_parameter(*m.graph);
     }},
    {"--shard ddp of an imported graph, a trained parameter without a gradient",
     "DistributedDataParallel waits for it, and ends with an error",
     "freeze it in make_model, or use --shard fsdp2",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.layout.shard == Sharding::ddp && has_unused_parameter(*m.graph);
     }},
    {"--optimizer-in-backward of an imported graph", "it is not planned for graphs yet",
     "leave it out", [](const ModelSpec&, const StepConfig& c) { return c.optimizer.in_backward; }},
    {"--grad-compression of an imported graph", "it is not planned for graphs yet",
     "use --grad-compression none",
     [](const ModelSpec&, const StepConfig& c) { return c.compression.used(); }},
    {"--ac of an imported graph without blocks", "no module of it was found to repeat",
     "capture it again with --blocks REGEX, which names the modules that --ac recomputes",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.layers == 0 && c.memory.ac != AcMode::none;
     }},
    {"--ac attention, --ac modules or --ac-scope submodule of an imported graph",
     "what its modules are to each other is not known",
     "use --ac full, selective, every:K, grouped:K, sqrt or budget:SIZE",
     [](const ModelSpec&, const StepConfig& c) {
       return c.memory.ac == AcMode::attention || c.memory.scope != AcScope::block;
     }},
    {"an imported graph, --gpu cpu", "it was captured of a CUDA step", "name a GPU",
     [](const ModelSpec&, const StepConfig& c) { return c.device.gpu == "cpu"; }},
    {"an imported graph, run by ac-trainer", "the trainer runs models of a configuration alone",
     "plan it, or run the program itself: ac-advisor dryrun",
     [](const ModelSpec&, const StepConfig& c) { return c.runtime.kind == Runtime::ac_trainer; }},
    {"--fp8 of an imported graph", "the graph has its layers as they were captured",
     "convert the model before it is captured",
     [](const ModelSpec&, const StepConfig& c) { return c.precision.float8(); }},
    {"--master-weights of an imported graph", "its parameters' dtypes are those of its capture",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) { return c.optimizer.master_weights; }},
    {"--offload of an imported graph", "what its nodes save on the host is not planned",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) { return c.memory.offload != Offload::none; }},
    {"--cuda-graph of an imported graph", "its memory pool is not planned for graphs yet",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) { return c.runtime.cuda_graph != CudaGraph::off; }},
};

}  // namespace

extern const Pass graph_declare_pass;
const Pass graph_declare_pass{
    "graph-declare", Stage::before, "an imported graph's parameters, buffers and inputs",
    always,          run,           exclusions_of_graph,
    Of::graph};

}  // namespace ac_advisor::passes
