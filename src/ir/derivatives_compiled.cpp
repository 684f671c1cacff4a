// The backward of a unit that torch.compile made: its own launches, in its own order.
#include "ac_advisor/ir/derivation.hpp"
#include "derivatives.hpp"

namespace ac_advisor::ir {

void Derivation::run_compiled(const CompiledGraph& graph) {
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < inputs(); ++i) values.push_back(in(i));
  values.push_back(grad());
  for (const CompiledGraph::Made& made : graph.made)
    values.push_back(made.over < 0 ? make(made.shape, made.dtype)
                                   : p_.on_storage_of(values[static_cast<std::size_t>(made.over)],
                                                      made.shape, made.dtype, true));
  const ModulePath unit = op().module;
  const auto of = [&](const std::vector<std::int32_t>& numbers) {
    std::vector<ValueId> all;
    for (std::int32_t n : numbers) all.push_back(values[static_cast<std::size_t>(n)]);
    return all;
  };
  for (const CompiledGraph::Launch& launch : graph.launches) {
    const OpId id = p_.emit(launch.kind, Phase::backward, {unit.block, launch.leaf},
                            of(launch.inputs), of(launch.outputs), launch.attributes);
    p_.op(id).group = group_;
    p_.op(id).forward = forward_;
  }
  for (std::size_t i = 0; i < graph.results.size(); ++i)
    if (graph.results[i] >= 0 && needs(i))
      give(i, values[static_cast<std::size_t>(graph.results[i])]);
}

namespace derive {

void compiled_unit(Derivation& d) {
  d.run_compiled(d.compiled(d.attributes<CompiledUnit>().backward));
}

}  // namespace derive
}  // namespace ac_advisor::ir
