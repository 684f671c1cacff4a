// The table of exclusions, and who walks it: what cannot be combined, with reason and way out.
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ac_advisor/passes/passes.hpp"

namespace ac_advisor::passes {

extern const ExclusionGroup method_exclusions, adapter_exclusions, compile_exclusions,
    compression_exclusions, context_exclusions, cuda_graph_exclusions, delta_exclusions,
    expert_exclusions, balance_exclusions, float8_exclusions, fsdp1_exclusions, layer_exclusions,
    litgpt_exclusions, packing_exclusions, position_exclusions, task_exclusions, torch_exclusions,
    trainer_exclusions, ulysses_exclusions, zero3_exclusions, zero_on_host_exclusions;

namespace {

/// A pass that is for Megatron-core's steps among others refuses nothing of them: they have a table
/// of their own.
Of asked_of(const Pass& pass) {
  return pass.of == Of::graph || pass.of == Of::megatron ? pass.of : Of::pytorch;
}

}  // namespace

const std::vector<ExclusionGroup>& exclusions() {
  static const std::vector<ExclusionGroup> table = [] {
    std::vector<ExclusionGroup> all;
    all.push_back(task_exclusions);
    all.push_back(litgpt_exclusions);
    all.push_back(layer_exclusions);
    all.push_back(fsdp1_exclusions);
    for (const Pass* pass : passes())
      if (!pass->exclusions.empty()) all.push_back({pass->name, pass->exclusions, asked_of(*pass)});
    all.push_back(delta_exclusions);
    all.push_back(method_exclusions);
    all.push_back(adapter_exclusions);
    all.push_back(packing_exclusions);
    all.push_back(context_exclusions);
    all.push_back(ulysses_exclusions);
    all.push_back(expert_exclusions);
    all.push_back(balance_exclusions);
    all.push_back(position_exclusions);
    all.push_back(float8_exclusions);
    all.push_back(compile_exclusions);
    all.push_back(compression_exclusions);
    all.push_back(zero3_exclusions);
    all.push_back(zero_on_host_exclusions);
    all.push_back(torch_exclusions);
    all.push_back(cuda_graph_exclusions);
    all.push_back(trainer_exclusions);
    return all;
  }();
  return table;
}

Refusal kind_of(const Exclusion& exclusion) {
  const auto says = [](std::string_view text, std::string_view words) {
    return text.find(words) != text.npos;
  };
  // This project's own; others' trainers are named by their classes and frameworks.
  for (const std::string_view trainer : {"ac-trainer", "the trainer"})
    if (says(exclusion.options, trainer) || says(exclusion.reason, trainer))
      return Refusal::untrained;
  return says(exclusion.reason, "planned") ? Refusal::unplanned : Refusal::impossible;
}

std::string message(const Exclusion& exclusion, const model::ModelSpec& spec,
                    const StepConfig& config) {
  const std::string given =
      exclusion.given == nullptr ? exclusion.options : exclusion.given(spec, config);
  return given + ": " + exclusion.reason + "; " + exclusion.instead;
}

std::string exclusions_page() {
  std::string page =
      "# What is refused\n\n"
      "Every command that plans, and the trainer, refuse these configurations with this reason and "
      "this way out\n(exit code 2). Each row stands in the source beside the pass that it belongs "
      "to; a test compares this page\nwith those rows. A row is *impossible*: mathematics, "
      "hardware or the library forbids it; *unplanned*: a mechanism is\nmissing here; *untrained*: "
      "it is planned, and `ac-trainer` does not run it. What was only never compared with "
      "PyTorch\nis not refused: it is planned, with a grade ([evidence](evidence.md)).\n";
  constexpr const char* kinds[] = {"impossible", "unplanned", "untrained"};
  for (const ExclusionGroup& group : exclusions()) {
    page +=
        "\n## " + std::string(group.of) + "\n| refused | | why | instead |\n|---|---|---|---|\n";
    for (const Exclusion& e : group.exclusions)
      page += "| " + std::string(e.options) + " | " + kinds[static_cast<std::size_t>(kind_of(e))] +
              " | " + e.reason + " | " + e.instead + " |\n";
  }
  return page;
}

const Exclusion* find_exclusion(const model::ModelSpec& asked, const StepConfig& config) {
  const std::optional<model::ModelSpec> own = model::as_layers_have_it(asked, config);
  const model::ModelSpec& spec = own ? *own : asked;
  for (const ExclusionGroup& group : exclusions()) {
    if (!covers(group.asked, kind_of(spec, config))) continue;
    for (const Exclusion& exclusion : group.exclusions)
      if (exclusion.refuses(spec, config)) return &exclusion;
  }
  return nullptr;
}

void validate(const model::ModelSpec& spec, const StepConfig& config) {
  const Exclusion* exclusion = find_exclusion(spec, config);
  if (exclusion != nullptr) throw UserError(message(*exclusion, spec, config));
}

}  // namespace ac_advisor::passes
