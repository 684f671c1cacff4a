// The backward of a unit that torch.compile made: its own launches, in its own order.
#include "ac_advisor/ir/derivation.hpp"
#include "derivatives.hpp"

namespace ac_advisor::ir {

void Derivation::run_compiled(const CompiledGraph& graph) {
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < inputs(); ++i) values.push_back(in(i));
  for (std::size_t i = 0; i < op().outputs; ++i)
    if (p_.value(out(i)).requires_grad) values.push_back(grad(i));
  for (const CompiledGraph::Made& made : graph.made) {
    if (made.of >= 0)
      values.push_back(no_id);  // when it is first read
    else if (made.over >= 0)
      values.push_back(p_.on_storage_of(values[static_cast<std::size_t>(made.over)], made.shape,
                                        made.dtype, true));
    else
      values.push_back(make(made.shape, made.dtype));
    if (made.of < 0) p_.value(values.back()).permuted = made.permuted;
  }
  const ModulePath unit = op().module;
  for (const CompiledGraph::Launch& launch : graph.launches) {
    const OpId id = p_.emit(launch.kind, Phase::backward, CompiledGraph::module(launch, unit),
                            p_.values_of(graph, values, launch.inputs),
                            p_.values_of(graph, values, launch.outputs), launch.attributes);
    p_.op(id).group = group_;
    p_.op(id).forward = forward_;
  }
  for (std::size_t i = 0; i < graph.results.size(); ++i)
    if (graph.results[i] >= 0 && needs(i))
      give(i, p_.values_of(graph, values, std::span(&graph.results[i], 1)).front());
}

namespace derive {

void compiled_unit(Derivation& d) {
  const auto backward = static_cast<std::size_t>(d.attributes<CompiledUnit>().backward);
  d.run_compiled(d.program().compiled.at(backward));
}

}  // namespace derive
}  // namespace ac_advisor::ir
