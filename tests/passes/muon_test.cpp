// torch.optim.Muon beside the AdamW of what is no matrix of a block.
#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/passes.hpp"

namespace ac_advisor::test {
namespace {

bool has_adamw(const OptionList& options) {
  const passes::StepProgram step =
      passes::build_step(model::load_model("tiny-llama"), resolve_options(options));
  return std::any_of(step.program.ops.begin(), step.program.ops.end(),
                     [](const ir::Op& op) { return op.kind == ir::OpKind::adamw_fused; });
}

}  // namespace

TEST_CASE("Muon has no AdamW beside it where every trained tensor is a block's matrix") {
  const OptionList whole{{"--optimizer", "muon"}};
  const OptionList adapters{
      {"--optimizer", "muon"}, {"--lora", "8"}, {"--lora-targets", "all-linear"}};
  CHECK(has_adamw(whole));  // norms, the embedding, the head
  CHECK_FALSE(has_adamw(adapters));
}

}  // namespace ac_advisor::test
