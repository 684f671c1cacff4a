#include "ac_advisor/advise/explain.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/module_costs.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::test {
namespace {

bool says(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

std::string gib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(bytes) / (1 << 30));
  return text;
}

const advise::ModuleCost& of(const advise::ModuleCosts& costs, const std::string& kind) {
  const auto found = std::find_if(costs.kinds.begin(), costs.kinds.end(),
                                  [&](const auto& cost) { return cost.kind == kind; });
  REQUIRE(found != costs.kinds.end());
  return *found;
}

}  // namespace

TEST_CASE("of a mixture of experts selective and full are compared by their own plans") {
  const model::ModelSpec model = model::load_model("mixtral-8x7b");
  for (const char* world : {"8", "64"}) {
    const OptionList hand{
        {"--framework", "automodel"}, {"--ac", "selective"}, {"--ac-scope", "block"},
        {"--world", world},           {"--batch", "1"},      {"--seq", "1024"}};
    StepConfig c = resolve_options(hand);
    const profile::Profile selective = advise::plan(model, c);
    c.memory.ac = AcMode::full;
    const profile::Profile full = advise::plan(model, c, false);
    REQUIRE(says(selective.warnings, "mixture of experts"));
    CHECK(says(selective.warnings, "its peak is " + gib(selective.memory.peak_allocated) +
                                       " GiB, that of full " + gib(full.memory.peak_allocated)));
    const std::int64_t saved = selective.memory.peak_allocated - full.memory.peak_allocated;
    CHECK(says(selective.warnings,
               saved > 0 ? gib(saved) + " GiB less" : std::string("full saves nothing more")));
  }
}

TEST_CASE("explain compares a mode with another by the figures of both plans") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  StepConfig c = resolve_options({{"--batch", "8"}, {"--ac", "grouped:4"}});
  const profile::Profile grouped = advise::plan(model, c, false);
  const std::vector<std::string> lines = advise::explain_mode(model, c);
  c.memory.ac = AcMode::full;
  c.memory.ac_arg = 0;
  const profile::Profile full = advise::plan(model, c, false);
  CHECK(says(lines, "against --ac full: peak " + gib(grouped.memory.peak_allocated) +
                        " GiB against " + gib(full.memory.peak_allocated)));
}

TEST_CASE("explain offers the loss that the framework has, with the figures of its plan") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  // Liger's chunk: the next power of two of 8 x 2048 / ceil(128256 / 2048) = 260.06...
  for (const auto& [bound_framework, loss] :
       {std::pair{"hf", "chunked:512"}, std::pair{"automodel", "lc-ce"}}) {
    const auto& framework = bound_framework;
    CAPTURE(framework);
    const OptionList hand{{"--framework", framework}, {"--batch", "8"}, {"--loss", "ce"}};
    OptionList offered = hand;
    offered.back().second = loss;
    const std::string peak =
        gib(advise::plan(model, resolve_options(offered), false).memory.peak_allocated);
    const std::vector<std::string> lines = advise::explain_mode(model, resolve_options(hand));
    CHECK(says(lines, std::string("with --loss ") + loss + ", which "));
    CHECK(says(lines, "peak " + peak + " GiB against"));
  }
}

TEST_CASE("explain says what compilation changes, and that it recomputes within the backward") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const auto with = [&](const char* kernels, const char* ac) {
    return resolve_options({{"--batch", "8"}, {"--kernels", kernels}, {"--ac", ac}});
  };
  const auto launches = [&](const StepConfig& c) {
    const auto all = advise::plan(model, c, false).kernels.launches;
    return std::pair{all[0], all[2] + all[3]};
  };
  const auto none = launches(with("compiled", "none")), full = launches(with("compiled", "full")),
             eager = launches(with("eager", "full"));
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const std::vector<std::string> lines = advise::explain_mode(model, with("compiled", "full"));
  CHECK(says(lines, "part of the compiled backward: " + number(full.second) + " launches there, " +
                        number(none.second) + " without"));
  CHECK(says(lines, "its launches: " + number(full.first) + " in forward, " + number(full.second) +
                        " in backward, against " + number(eager.first) + " and " +
                        number(eager.second)));
  CHECK(says(lines, "compilation, against --kernels eager --ac full: peak "));
  const double seconds = advise::plan(model, with("compiled", "full"), false).time.step -
                         advise::plan(model, with("compiled", "none"), false).time.step;
  const advise::ModuleCosts costs = advise::module_costs(model, with("compiled", "full"));
  CHECK(of(costs, "whole block").recompute_seconds == doctest::Approx(seconds));
}

TEST_CASE(
    "module kinds: an eager norm keeps what its seven launches make, a fused one x and 1/rms") {
  // Llama's eager RMSNorm in bf16 keeps x in fp32 (4 BSH), 1/rms (4 BS) and the normalised x in
  // bf16 (2 BSH) for backward; two norms a block and the last one. A checkpoint keeps its input,
  // which the residual stream has anyway, and what follows keeps the output.
  const model::ModelSpec model = model::load_model("tiny-llama");
  const StepConfig c = resolve_options({{"--batch", "2"}, {"--seq", "64"}, {"--gpu", "cpu"}});
  const std::int64_t rows = 2 * 64, norms = 2 * model.layers + 1;
  const advise::ModuleCosts costs = advise::module_costs(model, c);
  const advise::ModuleCost& norm = of(costs, "norms");
  CHECK(norm.kept_bytes >= norms * rows * (4 * model.hidden + 4));
  CHECK(norm.saved_bytes > 0);
  CHECK(norm.saved_bytes <= norm.kept_bytes);
  CHECK(norm.recompute_seconds > 0);
  StepConfig fused = c;
  fused.memory.kernels = Kernels::fused;
  const advise::ModuleCosts fused_costs = advise::module_costs(model, fused);
  CHECK(of(fused_costs, "norms").kept_bytes < norm.kept_bytes);
}

TEST_CASE("module kinds: whole blocks save and cost what --ac full does") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  StepConfig c = resolve_options({{"--batch", "4"}, {"--loss", "lc-ce"}});
  const advise::ModuleCosts costs = advise::module_costs(model, c);
  const profile::Profile none = advise::plan(model, c, false);
  c.memory.ac = AcMode::full;
  const profile::Profile full = advise::plan(model, c, false);
  const advise::ModuleCost& whole = of(costs, "whole block");
  CHECK(whole.peak_bytes == full.memory.peak_allocated);
  CHECK(whole.peak_saved_bytes == none.memory.peak_allocated - full.memory.peak_allocated);
  CHECK(whole.recompute_seconds == doctest::Approx(full.time.recompute));
}

TEST_CASE("module kinds: a linear layer's checkpoint drops nothing and recomputes nothing") {
  // Its input is kept by the checkpoint as by the layer, its output by whoever reads it.
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const advise::ModuleCosts costs =
      advise::module_costs(model, resolve_options({{"--batch", "4"}, {"--ac", "full"}}));
  CHECK(of(costs, "projections").saved_bytes == 0);
  CHECK(of(costs, "embedding").saved_bytes == 0);
  CHECK(of(costs, "projections").saved_bytes_per_millisecond() == 0);
}

TEST_CASE("module kinds: the order is that of bytes saved for a millisecond, and is said") {
  for (const char* name : {"llama-3.2-1b", "gemma-2-2b", "tiny-llama"}) {
    const model::ModelSpec model = model::load_model(name);
    const advise::ModuleCosts costs = advise::module_costs(model, resolve_options({}));
    REQUIRE(costs.kinds.size() == 7);
    for (std::size_t i = 1; i < costs.kinds.size(); ++i)
      CHECK(costs.kinds[i - 1].saved_bytes_per_millisecond() >=
            costs.kinds[i].saved_bytes_per_millisecond());
    std::size_t at = 0;
    const std::string order = advise::checkpoint_order(costs);
    for (const advise::ModuleCost& cost : costs.kinds) {
      if (cost.saved_bytes <= 0) continue;
      const std::size_t found = order.find(cost.kind, at);
      REQUIRE(found != std::string::npos);
      at = found;
    }
    CHECK(costs.kept_elsewhere_bytes > 0);
  }
}

TEST_CASE("under ZeRO 3 a checkpoint around what is in no block costs what its module keeps") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  for (const OptionList& more : {OptionList{}, OptionList{{"--lora", "8"}}}) {
    OptionList options{{"--framework", "deepspeed"},
                       {"--shard", "zero3"},
                       {"--world", "2"},
                       {"--batch", "1"},
                       {"--seq", "256"}};
    options.insert(options.end(), more.begin(), more.end());
    const advise::ModuleCosts costs = advise::module_costs(model, resolve_options(options));
    for (const char* kind : {"embedding", "loss", "MLP", "whole block"})
      CHECK(of(costs, kind).peak_bytes > 0);
    // logits in fp32 and bf16, (256, 128256), are made again
    CHECK(of(costs, "loss").kept_bytes >= std::int64_t{256} * 128256 * 4);
  }
}

TEST_CASE("explain --trace names the attention that the plan takes") {
  const model::ModelSpec model = model::load_model("gpt2");
  const auto attention = [&](const OptionList& options) {
    std::set<std::string> names;
    for (const advise::Decision& d : advise::selective_trace(model, resolve_options(options)))
      if (d.op.starts_with("_scaled_dot_product")) names.insert(d.op);
    return names;
  };
  using Names = std::set<std::string>;
  const OptionList step{{"--batch", "1"}, {"--seq", "512"}, {"--ac", "selective"}};
  const auto with = [&](const char* kernel) {
    OptionList options = step;
    options.emplace_back("--attn", kernel);
    return options;
  };
  CHECK(attention(step) == Names{"_scaled_dot_product_cudnn_attention"});  // on an H100
  CHECK(attention(with("flash")) == Names{"_scaled_dot_product_flash_attention"});
  CHECK(attention(with("efficient")) == Names{"_scaled_dot_product_efficient_attention"});
  CHECK(attention(with("eager")).empty());
}

TEST_CASE("what LLM.int8() keeps of each layer's input is an activation") {
  const model::ModelSpec model = model::load_model("llama-3.2-1b");
  const profile::Profile p = advise::plan(model, resolve_options({{"--batch", "4"},
                                                                  {"--seq", "1024"},
                                                                  {"--lora", "16"},
                                                                  {"--quantize", "int8"},
                                                                  {"--ac", "none"}}));
  const auto of = [&](profile::Category c) {
    return p.memory.at_peak[static_cast<std::size_t>(c)];
  };
  // Of its linear layers (q, k, v, o; gate, up; down) the inputs, a byte each.
  const std::int64_t kept = model.layers * 4 * 1024 * (6 * model.hidden + model.intermediate);
  CHECK(of(profile::Category::activations) > kept);
  CHECK(of(profile::Category::temporaries) < kept);
}

}  // namespace ac_advisor::test
