// The phases of an online step: which there are, what each holds, and that all of them have to fit.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::test {
namespace {

using profile::Category;
using profile::TaskPhase;

const model::ModelSpec& small() {
  static const model::ModelSpec model = model::load_model("llama-3.2-1b");
  return model;
}

OptionList with(OptionList list, const OptionList& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

const OptionList of_verl{{"--framework", "verl"}, {"--prompt", "256"}, {"--completion", "768"},
                         {"--world", "4"},        {"--batch", "2"},    {"--shard", "fsdp2"}};
const OptionList of_trl{{"--framework", "trl"},
                        {"--task", "grpo"},
                        {"--prompt", "256"},
                        {"--seq", "1024"},
                        {"--batch", "2"}};

profile::Profile planned(const OptionList& options) {
  return advise::plan(small(), resolve_options(options));
}

std::vector<std::string> names(const profile::Profile& p) {
  std::vector<std::string> all;
  for (const TaskPhase& phase : p.task_phases) all.push_back(phase.name);
  return all;
}

const TaskPhase& phase(const profile::Profile& p, const std::string& name) {
  const auto found = std::find_if(p.task_phases.begin(), p.task_phases.end(),
                                  [&](const TaskPhase& one) { return one.name == name; });
  REQUIRE(found != p.task_phases.end());
  return *found;
}

std::int64_t of(const profile::Profile& p, Category category) {
  return p.memory.at_peak[static_cast<std::size_t>(category)];
}

std::string refusal(const OptionList& options) {
  try {
    (void)resolve_options(options);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a step has the phases that its trainer runs, in their order") {
  using Names = std::vector<std::string>;
  CHECK(names(planned(of_verl)) == Names{"rollout", "old_log_prob", "update", "update_weights"});
  CHECK(names(planned(with(of_verl, {{"--ref", "model"}, {"--rollout", "served"}}))) ==
        Names{"rollout", "old_log_prob", "ref_log_prob", "update"});
  CHECK(names(planned(of_trl)) == Names{"rollout", "update"});
  CHECK(names(planned(with(of_trl, {{"--rollout", "vllm:0.3"}, {"--ref", "model"}}))) ==
        Names{"rollout", "old_log_prob", "ref_log_prob", "update"});
  // RLOO scores by the policy, too, whoever writes; with adapters a reference is the model.
  const OptionList rloo{{"--framework", "trl"},
                        {"--task", "rloo"},
                        {"--prompt", "256"},
                        {"--seq", "1024"},
                        {"--batch", "2"}};
  CHECK(names(planned(rloo)) == Names{"rollout", "old_log_prob", "ref_log_prob", "update"});
  CHECK(names(planned(with(rloo, {{"--ref", "none"}}))) ==
        Names{"rollout", "old_log_prob", "update"});
  CHECK(names(planned(with(rloo, {{"--lora", "8"}}))) ==
        Names{"rollout", "old_log_prob", "ref_log_prob", "update"});
  // A teacher reads what was written in the update itself.
  CHECK(names(planned({{"--framework", "trl"},
                       {"--task", "distillation"},
                       {"--teacher", "llama-3.2-1b"},
                       {"--prompt", "256"},
                       {"--rollout", "vllm:0.3"}})) == Names{"rollout", "update"});
  CHECK(names(advise::plan(small(), resolve_options({}))).empty());
  CHECK(names(planned(with(of_trl, {{"--world", "4"},
                                    {"--shard", "zero3"},
                                    {"--rollout", "served"},
                                    {"--ref", "model"}}))) ==
        Names{"rollout", "old_log_prob", "ref_log_prob", "update"});
}

TEST_CASE("a second model under FSDP2 is whole twice while it scores, and its shards alone later") {
  const OptionList sharded{{"--world", "4"}, {"--shard", "fsdp2"}, {"--rollout", "served"}};
  const profile::Profile with_one = planned(with(with(of_trl, sharded), {{"--ref", "model"}})),
                         without = planned(with(of_trl, sharded));
  const std::int64_t bf16 = 2 * with_one.parameters;
  CHECK(phase(with_one, "ref_log_prob").allocated - phase(with_one, "old_log_prob").allocated >
        bf16 * 3 / 2);
  const std::int64_t more =
      phase(with_one, "update").allocated - phase(without, "update").allocated;
  CHECK(more == doctest::Approx(4.0 * static_cast<double>(with_one.parameters) / 4).epsilon(0.01));
}

TEST_CASE("the update is the plan's own peak, and each phase's device is the sum of its parts") {
  const profile::Profile p = planned(with(of_verl, {{"--batch", "4"}}));
  const TaskPhase& update = phase(p, "update");
  CHECK(update.allocated == p.memory.peak_allocated);
  CHECK(update.reserved == p.memory.peak_reserved);
  // whole logits of a micro-batch
  CHECK(phase(p, "old_log_prob").largest == "[1, 4096, 128256] bf16, mm of lm_head");
  for (const TaskPhase& one : p.task_phases)
    CHECK(one.device == one.reserved + p.fit.context + p.fit.communication + one.engine);
}

TEST_CASE("what is moved to the host between phases is in none of those that do not need it") {
  const profile::Profile all = planned(with(of_verl, {{"--phase-offload", "all"}})),
                         states = planned(with(of_verl, {{"--phase-offload", "optimizer"}})),
                         none = planned(of_verl);
  const std::int64_t moments = of(none, Category::optimizer_states),
                     shards = of(none, Category::parameters);
  // 4 bytes of each parameter's two moments, a quarter of them on each of four ranks
  CHECK(moments ==
        doctest::Approx(2.0 * 4 * static_cast<double>(none.parameters) / 4).epsilon(0.001));
  for (const char* name : {"rollout", "old_log_prob", "update_weights"}) {
    CAPTURE(name);
    CHECK(phase(none, name).allocated - phase(states, name).allocated == moments);
    CHECK(phase(states, name).optimizer_states == 0);
  }
  CHECK(phase(states, "rollout").allocated - phase(all, "rollout").allocated == shards);
  CHECK(phase(states, "old_log_prob").allocated == phase(all, "old_log_prob").allocated);
  CHECK(phase(all, "update").allocated == phase(none, "update").allocated);
}

TEST_CASE("an engine that sleeps keeps what its file says, and has its share while it writes") {
  const profile::Profile awake = planned(with(of_verl, {{"--rollout", "vllm:0.5"}})),
                         one = planned(with(of_verl, {{"--rollout", "vllm:tp1,util=0.5,sleep=1"}})),
                         two = planned(with(of_verl, {{"--rollout", "vllm:tp2,util=0.5,sleep=2"}}));
  const std::int64_t share = awake.fit.usable / 2;
  CHECK(phase(awake, "update").engine == share);
  CHECK(phase(one, "update").engine == std::int64_t{774} << 20);
  CHECK(phase(two, "update").engine == std::int64_t{2440} << 20);
  for (const profile::Profile* p : {&awake, &one, &two}) {
    CHECK(phase(*p, "rollout").engine == share);
    CHECK(p->fit.engine == phase(*p, "update").engine);
  }
  // its weights are back, in bf16, half of them on each of two ranks
  CHECK(phase(two, "update_weights").engine ==
        (std::int64_t{2440} << 20) + model::parameter_count(small()) * 2 / 2);
}

TEST_CASE("PPO's critic has phases of its own, and each worker keeps what it has in the other's") {
  const OptionList of_ppo = with(of_verl, {{"--task", "ppo"}});
  const profile::Profile p = planned(of_ppo), grpo = planned(of_verl);
  CHECK(names(p) == std::vector<std::string>{"rollout", "old_log_prob", "values", "update_critic",
                                             "update", "update_weights"});
  // two moments and a parameter in fp32 each, a quarter of them on each of four ranks; the tied
  // model's head is one score and its bias
  const std::int64_t critic = phase(p, "rollout").critic;
  CHECK(critic ==
        doctest::Approx(3.0 * 4 * static_cast<double>(model::parameter_count(small())) / 4)
            .epsilon(0.001));
  for (const char* name : {"rollout", "old_log_prob", "update", "update_weights"}) {
    CAPTURE(name);
    CHECK(phase(p, name).allocated - phase(grpo, name).allocated == critic);
    CHECK(phase(grpo, name).critic == 0);
  }
  CHECK(of(p, Category::waiting_worker) == critic);
  CHECK(phase(p, "update_critic").parameters == phase(p, "update").parameters);
  CHECK(phase(p, "values").allocated < phase(p, "update_critic").allocated);
  CHECK(phase(p, "values").critic == doctest::Approx(static_cast<double>(critic)).epsilon(0.001));

  const profile::Profile waits = planned(with(of_ppo, {{"--critic-offload", "optimizer"}}));
  CHECK(phase(waits, "update").critic ==
        doctest::Approx(static_cast<double>(critic) / 3).epsilon(0.001));
  CHECK(phase(waits, "update_critic").allocated == phase(p, "update_critic").allocated);
  const profile::Profile parked = planned(with(of_ppo, {{"--phase-offload", "all"}}));
  CHECK(phase(parked, "update").critic == 0);
  CHECK(parked.memory.peak_allocated == grpo.memory.peak_allocated);
  CHECK(phase(parked, "update_critic").parameters == 0);

  const profile::Profile small_critic = planned(with(of_ppo, {{"--critic", "qwen2.5-0.5b"}}));
  CHECK(phase(small_critic, "update").critic < critic / 2);
  const profile::Profile q = profile::from_json(profile::to_json(p), "p.json");
  CHECK(phase(q, "values").critic == phase(p, "values").critic);
  CHECK(q.config == p.config);
}

TEST_CASE("a critic's micro-batches are the fewest of 32768 tokens, or of the rows that are said") {
  const auto rows = [](const OptionList& more) {
    const profile::Profile p =
        planned(with(of_verl, with({{"--task", "ppo"}, {"--grad-accum", "20"}}, more)));
    const auto note = std::find_if(p.assumptions.begin(), p.assumptions.end(),
                                   [](const std::string& a) { return has(a, "the critic,"); });
    REQUIRE(note != p.assumptions.end());
    return note->substr(note->find("are of ") + 7, 3);
  };
  CHECK(rows({}) == "20 ");                          // of 40 rows two, as 32 rows are 32768 tokens
  CHECK(rows({{"--critic-batch", "12"}}) == "10 ");  // four
  CHECK(rows({{"--critic-batch", "64"}}) == "40 ");
  CHECK(has(refusal(with(of_verl, {{"--critic-batch", "2"}})), "only PPO has a critic"));
  CHECK(has(refusal(with(of_trl, {{"--critic-offload", "all"}})), "--framework verl --task ppo"));
}

TEST_CASE("a phase that does not fit decides, whatever the update needs") {
  const profile::Profile p = planned(with(of_verl, {{"--rollout", "vllm:tp1,util=0.98,sleep=1"}}));
  CHECK(p.memory.peak_reserved < p.fit.limit());
  CHECK_FALSE(p.fit.fits);
  CHECK(p.fit.required == phase(p, "rollout").device + p.fit.margin);
  CHECK(planned(with(of_verl, {{"--rollout", "vllm:tp1,util=0.5,sleep=1"}})).fit.fits);
}

TEST_CASE("what scores has no gradients, no checkpoints and no optimizer") {
  for (const OptionList& options : {of_trl, of_verl}) {
    StepConfig c = resolve_options(options);
    c.task.scorer = Scorer::policy;
    c.memory.ac = AcMode::none;
    const passes::StepProgram step = passes::build_step(small(), c);
    const ir::Program& p = step.program;
    for (const ir::Op& op : p.ops) {
      CHECK(op.phase < ir::Phase::backward);
      for (const ir::ValueId v : p.outputs(op))  // what is gathered is a parameter's
        if (p.storage(p.storage_of(v)).role != ir::Role::gathered)
          CHECK_FALSE(p.value(v).requires_grad);
    }
    for (const ir::Storage& storage : p.storages) {
      CHECK(storage.role != ir::Role::optimizer_state);
      CHECK(storage.role != ir::Role::gradient);
    }
  }
}

TEST_CASE("more rows to score are more logits, and nothing else of the step") {
  const profile::Profile eight = planned(with(of_verl, {{"--score-batch", "8"}})),
                         twelve = planned(with(of_verl, {{"--score-batch", "12"}}));
  const std::int64_t row = std::int64_t{1024} * 128256 * 2;
  const std::int64_t more =
      phase(twelve, "old_log_prob").allocated - phase(eight, "old_log_prob").allocated;
  CHECK(more >= 4 * row);
  CHECK(more < 5 * row);
  CHECK(phase(eight, "update").allocated == phase(twelve, "update").allocated);
}

TEST_CASE("prompt, completion and sequence agree, groups are whole, and others have none of it") {
  CHECK(resolve_options(of_verl).run.seq == 1024);
  CHECK(resolve_options(of_trl).task.completion == 768);
  CHECK(has(refusal(with(of_verl, {{"--seq", "2048"}})), "drop one of --completion and --seq"));
  CHECK(resolve_options({{"--framework", "verl"}, {"--world", "4"}}).task.prompt == 512);
  CHECK(refusal(with(of_verl, {{"--group", "8"}})).empty());  // 4 ranks of 2 rows
  CHECK(has(refusal(with(of_verl, {{"--group", "16"}})), "8 completions"));
  CHECK(has(refusal(with(of_trl, {{"--phase-offload", "all"}})), "use --framework verl"));
  CHECK(has(refusal(with(of_trl, {{"--score-batch", "4"}})), "use --framework verl"));
  CHECK(has(refusal(with(of_verl, {{"--packing", "5"}})), "leave --packing out"));
  CHECK(has(refusal({{"--completion", "5"}}), "use --task grpo"));
  CHECK(has(refusal(with(of_verl, {{"--rollout", "vllm:tp2"}})), "its share of the device"));
  CHECK(has(refusal(with(of_verl, {{"--rollout", "vllm:util=0.5,sleep=3"}})), "sleep="));
  CHECK(has(refusal(with(of_verl, {{"--rollout", "vllm:0.5,naps"}})), "naps is no part"));
  CHECK(has(refusal(with(of_verl, {{"--rollout", "vllm:utl=0.5"}})), "util=SHARE"));
  // What a step trains for is not given up for an option by hand.
  const advise::Resolved fused = advise::resolve(small(), with(of_verl, {{"--kernels", "fused"}}));
  CHECK(fused.config.task.kind == Task::grpo);
  CHECK(passes::find_exclusion(small(), fused.config) != nullptr);
}

TEST_CASE("an engine's words are read and written alike") {
  for (const char* text : {"vllm:0.3", "vllm:tp2,util=0.5,sleep=1", "vllm:tp1,util=0.25,sleep=2"})
    CHECK(rollout_option(resolve_options(with(of_verl, {{"--rollout", text}}))) == text);
  CHECK(rollout_option(resolve_options(with(of_verl, {{"--rollout", "vllm:util=0.5,tp4"}}))) ==
        "vllm:tp4,util=0.5,sleep=0");
}

TEST_CASE("phases survive JSON") {
  const profile::Profile p = planned(of_verl);
  const profile::Profile q = profile::from_json(profile::to_json(p), "p.json");
  REQUIRE(q.task_phases.size() == p.task_phases.size());
  for (std::size_t i = 0; i < p.task_phases.size(); ++i) {
    CHECK(q.task_phases[i].name == p.task_phases[i].name);
    CHECK(q.task_phases[i].planned == p.task_phases[i].planned);
    CHECK(q.task_phases[i].device == p.task_phases[i].device);
    CHECK(q.task_phases[i].largest == p.task_phases[i].largest);
  }
  CHECK(q.config == p.config);
}

TEST_CASE("the longest completion is the longest sequence less its prompt") {
  const OptionList hand = with(of_verl, {{"--rollout", "vllm:tp1,util=0.5,sleep=1"}});
  const auto sought = [&](advise::Sought what) {
    advise::Space space;
    space.hand = {{"--framework", "verl"},
                  {"--prompt", "256"},
                  {"--world", "4"},
                  {"--shard", "fsdp2"},
                  {"--rollout", "vllm:tp1,util=0.5,sleep=1"}};
    return advise::largest(what, small(), resolve_options(hand), space);
  };
  const advise::Largest completion = sought(advise::Sought::completion),
                        seq = sought(advise::Sought::seq);
  REQUIRE_FALSE(completion.found.empty());
  CHECK(completion.found.front().value == seq.found.front().value - 256);
  CHECK(has(completion.answer, "the largest completion of"));
  StepConfig c = resolve_options(hand);
  c.run.seq = seq.found.front().value;
  c.task.completion = completion.found.front().value;
  CHECK(advise::plan(small(), c).fit.fits);
}

}  // namespace ac_advisor::test
