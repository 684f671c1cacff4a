#include "ac_advisor/profile/diff.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/profile/config_fields.hpp"
#include "profile/full_profile.hpp"

using namespace ac_advisor;

namespace {

std::int64_t sum_of_deltas(const std::vector<profile::Change>& changes) {
  std::int64_t sum = 0;
  for (const profile::Change& c : changes) sum += c.delta();
  return sum;
}

}  // namespace

TEST_CASE("a profile does not differ from itself") {
  const profile::Profile p = test::full_profile();
  const profile::Diff d = profile::diff(p, p);
  CHECK(d.fields.empty());
  for (const auto* list : {&d.totals, &d.categories, &d.modules, &d.phases, &d.launches})
    for (const profile::Change& c : *list) CHECK(c.delta() == 0);
}

TEST_CASE("a diff names the option that differs, with both values") {
  const profile::Profile a = test::full_profile();
  profile::Profile b = a;
  b.config.memory.ac = AcMode::full;
  b.config.memory.ac_arg = 0;
  const profile::Diff d = profile::diff(a, b);
  REQUIRE(d.fields.size() == 1);
  CHECK(d.fields[0].field == "ac");
  CHECK(d.fields[0].a == "grouped:2");
  CHECK(d.fields[0].b == "full");
}

TEST_CASE("a diff names each figure of the model that differs") {
  const profile::Profile a = test::full_profile();
  for (const auto& [change, bound_field] :
       std::initializer_list<std::pair<void (*)(model::ModelSpec&), const char*>>{
           {[](model::ModelSpec& m) { m.rms_norm_eps = 1e-6; }, "model.rms_norm_eps"},
           {[](model::ModelSpec& m) { m.window[1] = 256; }, "model.window"},
           {[](model::ModelSpec& m) { m.attention_softcap.reset(); }, "model.attention_softcap"},
           {[](model::ModelSpec& m) { m.sparse_block[1] = true; }, "model.sparse_block"}}) {
    const auto& field = bound_field;
    profile::Profile b = a;
    change(b.model);
    const profile::Diff d = profile::diff(a, b);
    CAPTURE(field);
    CHECK(std::any_of(d.fields.begin(), d.fields.end(),
                      [&](const profile::FieldChange& f) { return f.field == field; }));
  }
}

TEST_CASE("changes by category and by module sum to the change of the peak") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const auto plan = [&](const char* ac) {
    return advise::plan(model, resolve_options({{"--ac", ac}, {"--batch", "2"}}));
  };
  const profile::Profile a = plan("none"), b = plan("full");
  const profile::Diff d = profile::diff(a, b);
  const std::int64_t delta = b.memory.peak_allocated - a.memory.peak_allocated;
  CHECK(delta < 0);
  CHECK(d.totals.at(0).name == "peak_allocated");
  CHECK(d.totals.at(0).delta() == delta);
  CHECK(sum_of_deltas(d.categories) == delta);
  CHECK(sum_of_deltas(d.modules) == delta);
}

TEST_CASE("modules are listed by the size of their change, also where one side lacks them") {
  profile::Profile a = test::full_profile(), b = a;
  a.memory.at_peak_by_module = {{"blocks.0", 10}, {"lm_head", 5}, {"loss", 7}};
  b.memory.at_peak_by_module = {{"blocks.0", 11}, {"lm_head", 105}, {"norm", 30}};
  const profile::Diff d = profile::diff(a, b);
  REQUIRE(d.modules.size() == 4);
  CHECK(d.modules[0].name == "lm_head");
  CHECK(d.modules[0].delta() == 100);
  CHECK(d.modules[1].name == "norm");
  CHECK(d.modules[2].name == "loss");
  CHECK(d.modules[2].delta() == -7);
  CHECK(d.modules[3].name == "blocks.0");
}
