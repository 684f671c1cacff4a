// Commands that answer about the same step say the same: plan, explain, advise, --solve, budget.
#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/advise/module_costs.hpp"
#include "ac_advisor/evidence/evidence.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "advise/largest_fit.hpp"

using namespace ac_advisor;

namespace {

std::string refusal(const OptionList& options) {
  try {
    static_cast<void>(resolve_options(options));
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

bool any_has(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

bool fits_by_itself(const model::ModelSpec& model, const StepConfig& config) {
  advise::SharedRanks ranks;
  return advise::tried(model, config, ranks).fits;
}

advise::Largest longest(const char* name, OptionList hand) {
  const model::ModelSpec model = model::load_model(name);
  const StepConfig base = resolve_options(hand);
  advise::Space space;
  space.hand = hand;
  return advise::largest(advise::Sought::seq, model, base, space);
}

}  // namespace

TEST_CASE("the longest sequence is sought from the prompt on") {
  const advise::Largest l = longest(
      "tiny-llama",
      {{"--framework", "trl"}, {"--task", "grpo"}, {"--prompt", "300"}, {"--rollout", "served"}});
  REQUIRE_FALSE(l.found.empty());
  CHECK(l.found.front().value > 300);
}

TEST_CASE("what is written between steps bounds the largest batch as what a step allocates does") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const OptionList hand{{"--framework", "trl"}, {"--task", "grpo"}, {"--prompt", "512"},
                        {"--seq", "1024"},      {"--lora", "16"},   {"--ac", "full"},
                        {"--grad-accum", "64"}};
  advise::Space space;
  space.hand = hand;
  StepConfig c = resolve_options(hand);
  const advise::Largest l = advise::largest(advise::Sought::batch, model, c, space);
  REQUIRE(l.found.size() == 1);
  CHECK(l.found.front().exact);
  c.run.batch = l.found.front().value;
  CHECK(advise::plan(model, c).fit.fits);
  ++c.run.batch;
  const profile::Profile beyond = advise::plan(model, c);
  CHECK_FALSE(beyond.fit.fits);
  CHECK(beyond.memory.peak_reserved < beyond.fit.limit());  // its step would fit
}

TEST_CASE("two options that set the same thing to different values are refused in either order") {
  const OptionList::value_type fp16{"--autocast", "fp16"}, bf16{"--compute-dtype", "bf16"};
  const std::string one = refusal({fp16, bf16}), other = refusal({bf16, fp16});
  CHECK(one.find("drop one of them") != std::string::npos);
  CHECK(one == other);
  CHECK(refusal({{"--autocast", "fp16"}, {"--compute-dtype", "fp16"}}).empty());
  CHECK(refusal({{"--compute-dtype", "fp16"}, {"--autocast", "bf16"}}) ==
        refusal({{"--autocast", "bf16"}, {"--compute-dtype", "fp16"}}));
}

TEST_CASE("of options in any order the step is the same") {
  OptionList options{{"--framework", "hf-trainer"}, {"--world", "8"},        {"--shard", "fsdp2"},
                     {"--param-dtype", "fp32"},     {"--autocast", "fp16"},  {"--loss", "ce"},
                     {"--ac", "every:2"},           {"--no-hold-output", ""}};
  options.erase(options.begin() + 4);
  std::sort(options.begin(), options.end());
  const StepConfig first = resolve_options(options);
  int compared = 0;
  while (std::next_permutation(options.begin(), options.end()) && ++compared < 500)
    CHECK(resolve_options(options) == first);
  CHECK(compared == 500);
}

TEST_CASE("what has no effect is told in one order, whatever that of the options") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const OptionList one{{"--threads", "4"}, {"--capacity-factor", "2"}, {"--no-sync", ""}};
  const OptionList other(one.rbegin(), one.rend());
  CHECK(advise::resolve(model, one).notes == advise::resolve(model, other).notes);
}

TEST_CASE("of an option that is given twice the last counts") {
  CHECK(resolve_options({{"--batch", "2"}, {"--batch", "4"}}).run.batch == 4);
  CHECK_FALSE(
      resolve_options({{"--hold-output", ""}, {"--no-hold-output", ""}}).memory.hold_output);
}

TEST_CASE("what an option by hand leads to is not blamed on the framework") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const advise::Resolved resolved =
      advise::resolve(model, {{"--autocast", "fp16"}, {"--param-dtype", "bf16"}});
  CHECK(resolved.notes.empty());
  CHECK(resolved.config.precision.compute_dtype == DType::f16);
  CHECK(passes::find_exclusion(model, resolved.config) != nullptr);  // which plan then says
}

TEST_CASE("an option that changes nothing of the step is told") {
  const model::ModelSpec dense = model::load_model("llama-3.2-1b");
  const std::pair<OptionList::value_type, const char*> options[] = {
      {{"--capacity-factor", "2"}, "no experts"},
      {{"--threads", "4"}, "--gpu cpu"},
      {{"--network", "hdr"}, "one node"},
      {{"--reduce-dtype", "fp32"}, "no other rank"},
      {{"--fp32-embedding-states", ""}, "8-bit"}};
  const StepConfig plain = resolve_options({});
  const profile::Profile without = advise::plan(dense, plain, false);
  for (const auto& [bound_option, why] : options) {
    const auto& option = bound_option;
    CAPTURE(option.first);
    const advise::Resolved resolved = advise::resolve(dense, {option});
    CHECK(any_has(resolved.notes, option.first));
    CHECK(any_has(resolved.notes, why));
    const profile::Profile with = advise::plan(dense, resolved.config, false);
    CHECK(with.memory.peak_allocated == without.memory.peak_allocated);
    CHECK(with.memory.peak_reserved == without.memory.peak_reserved);
    CHECK(with.time.step == without.time.step);
    // What changes nothing needs no step that it was compared in.
    REQUIRE(with.evidence);
    CHECK(evidence::sentence(*with.evidence) == evidence::sentence(*without.evidence));
  }
  // Beside what each needs: the same step without the last of them.
  const std::pair<OptionList, const char*> lists[] = {
      {{{"--world", "4"}, {"--shard", "ddp"}, {"--reduce-dtype", "fp32"}}, "in their own dtype"},
      {{{"--world", "4"}, {"--shard", "zero2"}, {"--reduce-dtype", "fp32"}}, "in their own dtype"},
      {{{"--ac", "none"}, {"--ac-scope", "submodule"}}, "nothing is checkpointed"},
      {{{"--world", "4"}, {"--shard", "fsdp2"}, {"--fsdp-unit", "segment"}}, "grouped:K"},
      {{{"--world", "4"}, {"--shard", "ddp"}, {"--no-sync", ""}}, "one micro-batch"},
      {{{"--world", "4"}, {"--node-size", "8"}}, "of one node"},
      {{{"--lora", "16"}, {"--freeze", "tower"}}, "no encoder of images"},
      {{{"--framework", "megatron"}, {"--transformer-impl", "local"}, {"--balanced-routing", ""}},
       "no experts"},
      {{{"--framework", "megatron"},
        {"--transformer-impl", "local"},
        {"--world", "2"},
        {"--shard", "zero1"},
        {"--overlap-comm", ""}},
       "DeepSpeed's buckets"}};
  for (const auto& [bound_list, why] : lists) {
    const auto& list = bound_list;
    OptionList fewer = list;
    fewer.pop_back();
    CAPTURE(list.back().first);
    CHECK(any_has(advise::resolve(dense, list).notes, why));
    CHECK_FALSE(any_has(advise::resolve(dense, fewer).notes, why));
    const profile::Profile with = advise::plan(dense, resolve_options(list), false),
                           less = advise::plan(dense, resolve_options(fewer), false);
    CHECK(with.memory.peak_allocated == less.memory.peak_allocated);
    CHECK(with.memory.peak_reserved == less.memory.peak_reserved);
    CHECK(with.time.step == less.time.step);
  }
  const OptionList ranks{{"--world", "16"}, {"--network", "hdr"}, {"--reduce-dtype", "fp32"}};
  CHECK(advise::resolve(dense, ranks).notes.empty());
  CHECK(advise::resolve(model::load_model("mixtral-8x7b"), {{"--capacity-factor", "2"}})
            .notes.empty());
}

TEST_CASE("--solve seq says where the model's positions end it, and is exact to eight tokens") {
  const advise::Largest capped = longest("llama-60m", {{"--gpu", "l40s"}});
  REQUIRE(capped.found.size() == 1);
  CHECK(capped.found[0].value == 2048);
  CHECK(capped.found[0].capped);
  CHECK(capped.answer.find("max_position_embeddings is 2048") != std::string::npos);

  const model::ModelSpec model = model::load_model("gemma-2-2b");
  const advise::Largest found = longest("gemma-2-2b", {{"--gpu", "rtx-4090"}});
  REQUIRE(found.found.size() == 1);
  const advise::Found& best = found.found[0];
  CHECK_FALSE(best.capped);
  CHECK(best.value % 8 == 0);
  StepConfig longer = best.profile.config;
  CHECK(fits_by_itself(model, longer));
  longer.run.seq += 8;
  CHECK_FALSE(fits_by_itself(model, longer));
}

TEST_CASE("--solve model names each sample that is no row, and why") {
  const OptionList hand{{"--gpu", "rtx-4090"}, {"--attn", "cudnn"}, {"--batch", "1"}};
  const StepConfig base = resolve_options(hand);
  const advise::Largest largest = advise::largest_model(base, [&](const model::ModelSpec& model) {
    const advise::Resolved resolved = advise::resolve(model, hand);
    advise::Space space;
    space.hand = hand;
    return advise::Around{resolved.config, space};
  });
  CHECK(largest.found.size() + largest.left_out.size() == model::sample_names().size());
  const auto why = [&](const std::string& name) {
    for (const advise::NotPlanned& one : largest.left_out)
      if (one.technique == name) return one.why;
    return std::string();
  };
  CHECK(why("gemma-2-2b").find("--attn cudnn") != std::string::npos);  // eager attention only
  CHECK(why("llama-3.1-405b") == "does not fit");
}

TEST_CASE("explain takes what plan takes, though the step without checkpoints is refused") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const StepConfig c =
      advise::resolve(
          model,
          {{"--framework", "trl"}, {"--world", "8"}, {"--ac", "full"}, {"--kernels", "compiled"}})
          .config;
  StepConfig none = c;
  none.memory.ac = AcMode::none;
  REQUIRE(passes::find_exclusion(model, c) == nullptr);
  REQUIRE(passes::find_exclusion(model, none) != nullptr);
  CHECK(any_has(advise::explain_mode(model, c), "against --ac none: not planned ("));
  CHECK(advise::module_costs(model, c).kinds.empty());
}

TEST_CASE("a plan says that its checkpoints are reentrant, and no other does") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  OptionList options{{"--lora", "16"}, {"--quantize", "int8"}, {"--ac", "full"}, {"--seq", "512"}};
  const auto told = [&] {
    return any_has(advise::plan(model, resolve_options(options), false).assumptions,
                   "checkpoints are reentrant");
  };
  CHECK_FALSE(told());
  options.emplace_back("--kbit-prepare", "");
  CHECK(told());
  options.emplace_back("--no-ac-reentrant", "");
  CHECK_FALSE(told());
}

TEST_CASE("a budget that none's own peak is within is none's step, beside adapters too") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const OptionList lora{{"--lora", "16"}, {"--batch", "2"}, {"--seq", "1024"}};
  const profile::Profile none = advise::plan(model, resolve_options(lora), false);
  OptionList budget = lora;
  budget.emplace_back("--ac", "budget:" + std::to_string(none.memory.peak_allocated));
  const profile::Profile solved = advise::plan(model, resolve_options(budget), false);
  CHECK(solved.memory.peak_allocated == none.memory.peak_allocated);
  CHECK(solved.time.step == none.time.step);
}

TEST_CASE("max b of a row whose chunk is Liger's names the chunk that it was planned with") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const OptionList hand{
      {"--framework", "liger"}, {"--batch", "2"}, {"--seq", "1024"}, {"--ac", "full"}};
  const StepConfig base = advise::resolve(model, hand).config;
  advise::Space space = advise::space_around(model, base, hand);
  space.set("--loss", {"chunked:512"});
  const advise::Sweep sweep = advise::sweep(model, base, space);
  REQUIRE_FALSE(sweep.rows.empty());
  const auto fits = [&](StepConfig c, std::int64_t batch, const std::string& loss) {
    OptionList options = hand;
    std::erase_if(options, [](const auto& o) { return o.first == "--batch"; });
    options.emplace_back("--batch", std::to_string(batch));
    options.emplace_back("--loss", loss);
    options.emplace_back("--kernels", to_option(c.memory.kernels));
    return fits_by_itself(model, advise::resolve(model, options).config);
  };
  int checked = 0;
  for (const advise::Row& row : sweep.rows) {
    const StepConfig& c = row.profile.config;
    if (row.largest_batch == 0 || c.memory.loss != LossKind::chunked || ++checked > 2) continue;
    const std::string loss =
        row.largest_batch_loss.empty() ? loss_option(c) : row.largest_batch_loss;
    CHECK(fits(c, row.largest_batch, loss));
  }
  CHECK(checked > 0);
}
