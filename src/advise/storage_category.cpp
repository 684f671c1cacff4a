#include "storage_category.hpp"

namespace ac_advisor::advise {

using profile::Category;

namespace {

Category category(const ir::Program& p, const passes::Schedule& schedule, ir::StorageId id,
                  bool held) {
  const ir::Storage& storage = p.storage(id);
  const bool loss =
      storage.module.leaf == ir::Module::loss || storage.module.leaf == ir::Module::lm_head;
  switch (storage.role) {
    case ir::Role::parameter:
      return storage.module.owner == ir::Owner::reference ? Category::reference_parameters
                                                          : Category::parameters;
    case ir::Role::gathered:
      return Category::gathered_parameters;
    case ir::Role::buffer:
    case ir::Role::input:
      return Category::inputs;
    case ir::Role::optimizer_state:
      return Category::optimizer_states;
    case ir::Role::waiting:
      return Category::waiting_worker;
    case ir::Role::gradient:
      return Category::gradients;
    case ir::Role::recomputed:
      return Category::recomputed;
    case ir::Role::temporary:
      return Category::temporaries;
    case ir::Role::communication:
      return Category::communication;
    case ir::Role::activation_grad:
      return loss ? Category::loss : Category::activation_gradients;
    case ir::Role::activation:
      break;
  }
  if (held) return Category::held_output;
  if (loss) return Category::loss;
  // What outlives every op is kept by the graph itself: LLM.int8()'s inputs, an attribute each.
  const ir::OpId last = schedule.last_use[static_cast<std::size_t>(id)];
  const bool saved = last == ir::no_id || p.op(last).phase >= ir::Phase::backward;
  return saved ? Category::activations : Category::temporaries;
}

}  // namespace

std::vector<Category> storage_categories(const passes::StepProgram& step,
                                         const passes::Schedule& schedule) {
  const ir::Program& p = step.program;
  std::vector<bool> held(p.storages.size(), false);
  for (ir::ValueId v : step.outputs) {
    const auto s = static_cast<std::size_t>(p.storage_of(v));
    held[s] = schedule.last_use[s] == ir::no_id;
  }
  for (ir::StorageId s : schedule.carried) held[static_cast<std::size_t>(s)] = true;
  std::vector<Category> categories;
  categories.reserve(p.storages.size());
  for (std::size_t s = 0; s < p.storages.size(); ++s)
    categories.push_back(category(p, schedule, static_cast<ir::StorageId>(s), held[s]));
  return categories;
}

}  // namespace ac_advisor::advise
