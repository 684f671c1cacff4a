#include "ac_advisor/passes/exclusion.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "passes/exclusions/cases.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

std::string page_file() { return std::string(source_dir) + "/docs/exclusions.md"; }

std::string refused(const model::ModelSpec& spec, const StepConfig& config) {
  try {
    passes::validate(spec, config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const std::span<const Case> group : {declare_cases(),
                                            graph_cases(),
                                            lower_cases(),
                                            sharding_cases(),
                                            offload_cases(),
                                            pipeline_cases(),
                                            tensor_parallel_cases(),
                                            megatron_cases(),
                                            optimizer_cases(),
                                            adapter_method_cases(),
                                            adapters_cases(),
                                            packing_cases(),
                                            context_cases(),
                                            experts_cases(),
                                            float8_cases(),
                                            compiled_cases(),
                                            litgpt_cases(),
                                            layer_cases(),
                                            task_cases(),
                                            trainer_cases()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace

TEST_CASE("each exclusion refuses its configuration, and says what, why and what instead") {
  for (const Case& one : all_cases()) {
    INFO(std::string(one.options));
    model::ModelSpec spec = small_model();
    StepConfig config = small_config();
    CHECK(refused(spec, config) == "accepted");
    one.change(spec, config);
    const std::string said = refused(spec, config);
    CHECK(said.find(one.says) != std::string::npos);
    const passes::Exclusion* row = nullptr;
    for (const passes::ExclusionGroup& group : passes::exclusions())
      for (const passes::Exclusion& e : group.exclusions)
        if (e.options == std::string(one.options)) row = &e;
    REQUIRE(row != nullptr);
    CHECK(said == passes::message(*row, spec, config));
    CHECK(said.find(row->reason) != std::string::npos);
    CHECK(said.find(row->instead) != std::string::npos);
  }
}

TEST_CASE("no exclusion is without a case here, and none stands twice") {
  std::set<std::string> tried, rows;
  for (const Case& one : all_cases()) tried.insert(one.options);
  for (const passes::ExclusionGroup& group : passes::exclusions())
    for (const passes::Exclusion& e : group.exclusions) {
      CHECK(rows.insert(e.options).second);
      INFO(e.options);
      CHECK(tried.contains(e.options));
    }
}

TEST_CASE("docs/exclusions.md is the table of exclusions (AC_ADVISOR_UPDATE_DOCS=1 writes it)") {
  if (std::getenv("AC_ADVISOR_UPDATE_DOCS") != nullptr)
    std::ofstream(page_file()) << passes::exclusions_page();
  std::stringstream page;
  page << std::ifstream(page_file()).rdbuf();
  CHECK(page.str() == passes::exclusions_page());
}

}  // namespace ac_advisor::test
