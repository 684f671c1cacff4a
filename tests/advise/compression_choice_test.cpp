// When compressed gradients pay: the times of plans beside each other.
#include "ac_advisor/advise/compression_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "reports/compression_choice.hpp"

namespace ac_advisor::test {
namespace {

const OptionList two_nodes = {{"--world", "16"},
                              {"--batch", "4"},
                              {"--seq", "2048"},
                              {"--param-dtype", "fp32"},
                              {"--autocast", "bf16"}};

model::ModelSpec llama() { return model::load_model("llama-3.2-1b"); }

OptionList with(OptionList options, const OptionList& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::size_t index_of(const advise::CompressionChoice& c, const std::string& hook) {
  return static_cast<std::size_t>(std::find(c.hooks.begin(), c.hooks.end(), hook) -
                                  c.hooks.begin());
}

}  // namespace

TEST_CASE("compression pays on slow networks, and not on fast ones") {
  const advise::CompressionChoice c = advise::compression_choice(llama(), two_nodes);
  REQUIRE(c.rows.size() == 7);
  CHECK(c.rows.front().gbps == 10);
  CHECK(c.rows.front().best != 0);
  const std::size_t bf16 = index_of(c, "bf16");
  bool paid = true;
  for (const advise::NetworkRow& row : c.rows) {
    const bool pays = row.steps[bf16].seconds <= 0.99 * row.steps[0].seconds;
    CHECK((paid || !pays));  // not again on a faster network
    paid = pays;
    // What is said to pay is a plan of its own that is faster.
    if (row.best != 0) CHECK(row.steps[row.best].seconds <= 0.99 * row.steps[0].seconds);
  }
  CHECK_FALSE(paid);
  // 2 bytes an element in place of 4, where the network is most of what a step waits for.
  const advise::NetworkRow& slowest = c.rows.front();
  CHECK(slowest.steps[bf16].seconds < 0.7 * slowest.steps[0].seconds);
}

TEST_CASE("each time is that of the plan of the same options") {
  const advise::CompressionChoice c =
      advise::compression_choice(llama(), with(two_nodes, {{"--network", "hdr"}}));
  REQUIRE(c.rows.size() == 1);
  CHECK(c.rows.front().gbps == 200);
  for (std::size_t i = 0; i < c.hooks.size(); ++i) {
    OptionList options = with(
        two_nodes, {{"--network", "hdr"}, {"--shard", "ddp"}, {"--grad-compression", c.hooks[i]}});
    const profile::Profile p = advise::plan(llama(), resolve_options(options), false);
    CHECK(p.time.step == doctest::Approx(c.rows.front().steps[i].seconds).epsilon(1e-12));
    CHECK(p.memory.peak_reserved == c.memory[i].peak_reserved);
  }
}

TEST_CASE("within a node nothing pays, and the answer says so") {
  OptionList options = two_nodes;
  options[0].second = "8";
  const advise::CompressionChoice c = advise::compression_choice(llama(), options);
  REQUIRE(c.rows.size() == 1);
  CHECK(c.rows.front().gbps == 0);
  CHECK(c.rows.front().best == 0);
  CHECK(c.answer.find("Within a node no compression pays") != std::string::npos);
}

TEST_CASE("hooks that are refused are told with their reason, and other sharding is an error") {
  const advise::CompressionChoice c =
      advise::compression_choice(llama(), with(two_nodes, {{"--grad-accum", "2"}}));
  CHECK(c.rows.front().best == 0);
  CHECK(c.rows.front().steps[1].refused.find("--no-sync") != std::string::npos);
  const std::string text = reports::table(c, {});
  CHECK(text.find("n/a: bf16") != std::string::npos);
  CHECK_THROWS_AS(static_cast<void>(
                      advise::compression_choice(llama(), with(two_nodes, {{"--shard", "fsdp2"}}))),
                  UserError);
}

}  // namespace ac_advisor::test
