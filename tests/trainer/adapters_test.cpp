// LoRA over a frozen base, whole and in 4 bits: against PEFT's and bitsandbytes' own gradients
// (tests/oracle/adapters, written by tests/oracle/peft_reference.py), and the plan's bytes.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/kernels/dynamic_map.hpp"
#include "trainer/kernels/int8.hpp"
#include "trainer/kernels/nf4.hpp"
#include "trainer/run_step.hpp"
#include "trainer/weights/safetensors.hpp"

namespace ac_advisor {
namespace {

namespace fs = std::filesystem;

std::string adapters_of(const std::string& name) {
  return test::source_folder() + "/tests/oracle/adapters/" + name;
}

/// A folder of its own with the base's weights and an adapter's files, as a user would have it.
struct Folder {
  fs::path path;
  Folder(const std::string& family, const std::string& adapters) {
    static int made = 0;
    path = fs::temp_directory_path() / fmt::format("adapters_test.{}.{}", getpid(), made++);
    fs::create_directory(path);
    fs::copy(test::source_folder() + "/tests/oracle/models/" + family + "/model.safetensors", path);
    for (const char* file : {"adapter_model.safetensors", "adapter_config.json"})
      fs::copy(adapters_of(adapters) + "/" + file, path);
  }
  ~Folder() { fs::remove_all(path); }
};

struct Case {
  const char *name, *family;
  OptionList options;
  double bound;  ///< of ‖Δ‖/‖g‖: fp32; of a packed base products are rounded to bf16
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"llama", "llama", {{"--lora", "4"}}, 1e-5},
      {"qwen3", "qwen3", {{"--lora", "8"}, {"--lora-targets", "all-linear"}}, 1e-5},
      {"phi3", "phi3", {{"--lora", "4"}, {"--lora-targets", "qkv_proj,down_proj"}}, 1e-5},
      {"llama_dora", "llama", {{"--lora", "4"}, {"--dora", ""}}, 1e-5},
      {"qwen3_dora",
       "qwen3",
       {{"--lora", "8"}, {"--lora-targets", "all-linear"}, {"--dora", ""}},
       1e-5},
      {"wide_nf4_qv", "wide", {{"--lora", "4"}, {"--quantize", "nf4"}}, 2e-2},
      {"wide_nf4",
       "wide",
       {{"--lora", "8"}, {"--lora-targets", "all-linear"}, {"--quantize", "nf4"}},
       2e-2},
      {"wide_nf4_dora",
       "wide",
       {{"--lora", "4"}, {"--lora-targets", "all-linear"}, {"--quantize", "nf4"}, {"--dora", ""}},
       2e-2},
      {"wide_nf4_double",
       "wide",
       {{"--lora", "8"}, {"--lora-targets", "all-linear"}, {"--quantize", "nf4-double"}},
       2e-2},
      {"wide_int8",
       "wide",
       {{"--lora", "8"}, {"--lora-targets", "all-linear"}, {"--quantize", "int8"}},
       1e-4},
      {"wide_nf4_biased",
       "wide_qwen2",
       {{"--lora", "8"}, {"--lora-targets", "all-linear"}, {"--quantize", "nf4"}},
       2e-2},
      {"wide_int8_biased",
       "wide_qwen2",
       {{"--lora", "8"}, {"--lora-targets", "all-linear"}, {"--quantize", "int8"}},
       2e-3},  // sums in another order move an fp16 step and that a code; other tokens are within
               // 1e-4
      {"wide_nf4_prepared",
       "wide_bf16",
       {{"--lora", "8"},
        {"--lora-targets", "all-linear"},
        {"--quantize", "nf4"},
        {"--kbit-prepare", ""}},
       2e-2},
      {"wide_nf4_dora_prepared",
       "wide_bf16",
       {{"--lora", "4"},
        {"--lora-targets", "all-linear"},
        {"--quantize", "nf4"},
        {"--dora", ""},
        {"--kbit-prepare", ""}},
       2e-2}};
  return all;
}

void compare(const Case& c, const OptionList& options) {
  const Folder folder(c.family, c.name);
  const trainer::Weights weights(folder.path.string());
  const trainer::SafetensorsFile expected(adapters_of(c.name) + "/expected.safetensors");
  const at::Tensor ids = test::read_all(expected, "ids");
  const StepConfig config = test::trainer_config(test::with(
      test::with({{"--batch", "2"}, {"--seq", "24"}, {"--attn", "eager"}}, c.options), options));
  const auto built = trainer::build(test::oracle_model(c.family), config);
  const trainer::Data data = [&](std::int64_t, at::Tensor to) { to.copy_(ids); };
  const auto alone = trainer::make_single();
  trainer::MemoryTracker::install();
  trainer::Rank rank(*built, *alone, data, 1);
  rank.load_weights(&weights);
  std::vector<at::Tensor> gradients;
  rank.capture_gradients(&gradients);
  const std::string case_name = c.name;
  CAPTURE(case_name);
  CHECK(rank.step().loss ==
        doctest::Approx(test::read_all(expected, "loss").item<double>()).epsilon(c.bound / 10));
  std::size_t adapters = 0;
  for (const auto& [name, entry] : expected.entries())
    adapters += name.starts_with("grad.") ? 1 : 0;
  REQUIRE(gradients.size() == adapters);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::string& name = built->parameters[built->trained[i]].name;
    CAPTURE(name);
    CHECK(test::largest_difference({gradients[i]}, {test::read_all(expected, "grad." + name)}) <
          c.bound);
  }
}

}  // namespace

TEST_CASE(
    "PEFT's loss and the gradients of its adapters are met, a packed base and DoRA included") {
  for (const Case& c : cases()) {
    compare(c, {});
    compare(c, {{"--ac", "full"}, {"--kernels", "fused"}});
  }
}

TEST_CASE("NF4 codes and scales are bitsandbytes' to the bit") {
  for (const std::string name : {"wide_nf4_qv", "wide_nf4", "wide_nf4_prepared"}) {
    const std::string family = name.ends_with("_prepared") ? "wide_bf16" : "wide";
    const trainer::SafetensorsFile expected(adapters_of(name) + "/expected.safetensors"),
        base(test::source_folder() + "/tests/oracle/models/" + family + "/model.safetensors");
    int compared = 0;
    for (const auto& [key, entry] : expected.entries()) {
      if (!key.ends_with(".codes")) continue;
      const std::string layer = key.substr(0, key.size() - 6);
      const at::Tensor weight = test::read_all(base, layer + ".weight"),
                       codes = test::read_all(expected, key),
                       scales = test::read_all(expected, layer + ".absmax");
      const at::Tensor made = at::empty_like(codes), made_scales = at::empty_like(scales);
      trainer::nf4::quantize(weight, made, made_scales);
      CAPTURE(key);
      CHECK(at::equal(made, codes));
      CHECK(at::equal(made_scales, scales));
      const at::Tensor back = at::empty_like(weight);
      trainer::nf4::dequantize(codes, {scales}, back);
      // No weight is farther off than half the widest gap of the code book, of its block's largest.
      const double widest = (1.0 - 0.6961928009986877) / 2;
      CHECK((back - weight).abs().max().item<double>() <=
            widest * weight.abs().max().item<double>());
      ++compared;
    }
    CHECK(compared == 14);
  }
}

TEST_CASE("NF4's scales in 8 bits, and rows in 8 bits, are bitsandbytes' to the bit") {
  const trainer::SafetensorsFile base(test::source_folder() +
                                      "/tests/oracle/models/wide/model.safetensors");
  const auto layers = [&](const char* name, auto check) {
    const trainer::SafetensorsFile expected(adapters_of(name) + "/expected.safetensors");
    int compared = 0;
    for (const auto& [key, entry] : expected.entries()) {
      if (!key.ends_with(".codes")) continue;
      const std::string layer = key.substr(0, key.size() - 6);
      CAPTURE(layer);
      check(expected, layer, test::read_all(base, layer + ".weight"));
      ++compared;
    }
    CHECK(compared == 14);
    return test::read_all(expected, expected.has("map") ? "map" : "loss");
  };
  const at::Tensor map = layers(
      "wide_nf4_double", [](const auto& file, const std::string& layer, const at::Tensor& weight) {
        const auto expected = [&](const char* what) { return test::read_all(file, layer + what); };
        const at::Tensor codes = at::empty_like(expected(".codes")),
                         bytes = at::empty_like(expected(".absmax")),
                         nested = at::empty_like(expected(".nested")),
                         offset = at::empty_like(expected(".offset")),
                         scales = at::empty(bytes.sizes(), at::kFloat);
        trainer::nf4::quantize(weight, codes, scales);
        trainer::nf4::quantize_scales(scales, bytes, nested, offset);
        CHECK(at::equal(codes, expected(".codes")));
        CHECK(at::equal(bytes, expected(".absmax")));
        CHECK(at::equal(nested, expected(".nested")));
        CHECK(at::equal(offset, expected(".offset")));
        // Both ways back are one: widened scales first, or a scale at a time.
        at::Tensor widened = at::empty_like(scales);
        trainer::nf4::dequantize_scales(bytes, nested, widened);
        widened += offset;
        const at::Tensor first = at::empty_like(weight), second = at::empty_like(weight);
        trainer::nf4::dequantize(codes, {widened}, first);
        trainer::nf4::dequantize(codes, {bytes, nested, offset}, second);
        CHECK(at::equal(first, second));
        CHECK((first - weight).norm().item<double>() < 0.15 * weight.norm().item<double>());
      });
  const auto& signed_map = trainer::dynamic_map::signed_map();
  CHECK(std::equal(signed_map.begin(), signed_map.end(), map.const_data_ptr<float>()));
  static_cast<void>(
      layers("wide_int8", [](const auto& file, const std::string& layer, const at::Tensor& weight) {
        const at::Tensor codes = at::empty(weight.sizes(), at::kByte),
                         scales = at::empty({weight.size(0)}, at::kFloat),
                         back = at::empty_like(weight);
        trainer::int8::quantize(weight.to(at::kHalf), codes, scales);
        CHECK(at::equal(codes, test::read_all(file, layer + ".codes")));
        CHECK(at::equal(scales, test::read_all(file, layer + ".absmax")));
        trainer::int8::dequantize(codes, scales, back);
        CHECK((back - weight).norm().item<double>() < 0.01 * weight.norm().item<double>());
      }));
}

TEST_CASE("adapters: predicted is measured to the byte in every mode, loss, kernel and sharding") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const char* modes[] = {"none", "full", "selective", "attention", "grouped:2", "every:2"};
  const char* losses[] = {"ce", "lc-ce", "chunked:24"};
  const char* shards[] = {"none", "ddp", "fsdp2", "hsdp:2"};
  int index = 0, compared = 0, shared = 0;
  for (const char* base : {"none", "nf4", "nf4-double", "int8", "none --dora", "nf4 --dora",
                           "nf4 --kbit-prepare", "int8 --kbit-prepare"})
    for (const char* shard : shards)
      for (const char* mode : modes) {
        ++index;
        const std::string_view all = base, extra = all.substr(std::min(all.size(), all.find(' ')));
        const bool dora = extra == " --dora";
        const std::string quantize(all.substr(0, all.size() - extra.size()));
        OptionList options{{"--seq", "24"},
                           {"--lora", "4"},
                           {"--lora-targets", index % 2 == 0 ? "all-linear" : "q_proj,v_proj"},
                           {"--quantize", quantize},
                           {"--lora-dropout", index % 5 < 2 && !dora ? "0.1" : "0"},
                           {"--ac", mode},
                           {"--loss", losses[index % 3]},
                           {"--kernels", index % 4 < 2 ? "eager" : "fused"},
                           {"--optimizer", index % 5 == 0 ? "adamw-foreach" : "adamw"},
                           {"--grad-accum", index % 3 == 0 ? "2" : "1"},
                           {"--shard", shard}};
        if (std::string_view(shard) != "none") options.emplace_back("--world", "4");
        const bool gathered =
            std::string_view(shard) == "fsdp2" || std::string_view(shard) == "hsdp:2";
        if (gathered && quantize != "none")
          options.insert(options.end(), {{"--param-dtype", "bf16"}, {"--compute-dtype", "bf16"}});
        if (!extra.empty()) options.emplace_back(std::string(extra.substr(1)), "");
        StepConfig config;
        try {
          config = test::trainer_config(options);
          static_cast<void>(trainer::build(model, config));
        } catch (const UserError&) {
          continue;  // what the planner refuses
        }
        const std::string label =
            fmt::format("{} {} {} {} {}", base, shard, mode, loss_option(config),
                        to_option(config.memory.kernels));
        CAPTURE(label);
        const profile::Memory predicted = advise::plan(model, config).memory;
        const test::Outcome run =
            test::run_steps(model, config, 2, test::random_tokens(model.vocab), /*emulated=*/true);
        if (gathered && quantize != "none") ++shared;
        // A base in 4 bits computes in bf16, where oneDNN has scratch of its own.
        if (!config.adapters.four_bit()) CHECK(run.peak == predicted.peak_allocated);
        CHECK(run.declared_peak == predicted.peak_excluding_workspace);
        ++compared;
      }
  CHECK(compared >= 130);
  CHECK(shared >= 20);
}

TEST_CASE("adapters: what dropout leaves is the same when it is recomputed, and is not all") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const auto run = [&](const char* ac, const char* dropout) {
    const OptionList options{{"--seq", "24"},
                             {"--lora", "4"},
                             {"--lora-targets", "all-linear"},
                             {"--lora-dropout", dropout},
                             {"--ac", ac}};
    return test::run_steps(model, test::trainer_config(options), 2,
                           test::random_tokens(model.vocab))
        .gradients;
  };
  const auto kept = run("none", "0.3");
  for (const char* ac : {"full", "selective", "grouped:2"})
    CHECK(test::bit_identical(run(ac, "0.3"), kept));
  CHECK(test::largest_difference(run("none", "0"), kept) > 1e-3);
}

TEST_CASE("adapters: ranks' gradients are those of one rank with the whole batch") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const OptionList lora{{"--seq", "24"}, {"--lora", "4"}, {"--lora-targets", "all-linear"}};
  const test::Outcome alone =
      test::run_steps(model, test::trainer_config(test::with(lora, {{"--batch", "4"}})), 2,
                      test::random_tokens(model.vocab));
  for (const char* shard : {"ddp", "fsdp2", "hsdp:2"}) {
    CAPTURE(shard);
    const test::Outcome ranks =
        test::run_steps(model,
                        test::trainer_config(test::with(
                            lora, {{"--batch", "1"}, {"--shard", shard}, {"--world", "4"}})),
                        2, test::random_tokens(model.vocab));
    CHECK(ranks.gradients.size() == alone.gradients.size());
    CHECK(test::largest_difference(ranks.gradients, alone.gradients) < 1e-5);
    CHECK(test::largest_difference(ranks.parameters, alone.parameters) < 1e-4);  // AdamW divides
  }
}

TEST_CASE("adapters: ranks that share a packed base have the gradients of one that has it whole") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  for (const char* base : {"nf4", "nf4-double"}) {
    const OptionList packed{
        {"--seq", "24"},      {"--lora", "4"},           {"--lora-targets", "all-linear"},
        {"--quantize", base}, {"--param-dtype", "bf16"}, {"--compute-dtype", "bf16"},
        {"--batch", "1"}};
    const auto run = [&](const OptionList& ranks) {
      return test::run_steps(model, test::trainer_config(test::with(packed, ranks)), 2,
                             test::random_tokens(model.vocab));
    };
    const auto on_three = [&](const char* shard) {  // shards of codes that are padded
      return run({{"--world", "3"}, {"--shard", shard}});
    };
    const test::Outcome whole = on_three("ddp"), shared = on_three("fsdp2");
    CAPTURE(base);
    CHECK(shared.gradients.size() == whole.gradients.size());
    CHECK(test::largest_difference(shared.gradients, whole.gradients) < 2e-2);  // reduced in bf16
  }
}

TEST_CASE("adapters begin as PEFT's, alone are trained, under PEFT's names") {
  const model::ModelSpec model = model::load_model("tiny-llama");
  const auto built = trainer::build(
      model, test::trainer_config({{"--seq", "24"}, {"--lora", "4"}, {"--quantize", "nf4"}}));
  const auto alone = trainer::make_single();
  const trainer::Data data = test::random_tokens(model.vocab);
  trainer::MemoryTracker::install();
  trainer::Rank rank(*built, *alone, data, 1);
  rank.load_weights(nullptr);
  std::vector<at::Tensor> before;
  for (std::size_t i = 0; i < built->parameters.size(); ++i) before.push_back(rank.parameter(i));
  const double bound = 1.0 / std::sqrt(static_cast<double>(model.hidden));
  for (const std::size_t i : built->trained) {
    const double largest = before[i].abs().max().item<double>();
    if (built->parameters[i].holds == trainer::Holds::adapter_a)
      CHECK((largest <= bound && largest > 0.9 * bound));
    else
      CHECK(largest == 0.0);
  }
  for (int i = 0; i < 2; ++i) static_cast<void>(rank.step());
  for (std::size_t i = 0; i < built->parameters.size(); ++i) {
    const bool trained =
        std::find(built->trained.begin(), built->trained.end(), i) != built->trained.end();
    CAPTURE(built->parameters[i].name);
    CHECK(at::equal(rank.parameter(i), before[i]) == !trained);
  }
  CHECK(built->trained.size() == 2 * 2 * static_cast<std::size_t>(model.layers));
  CHECK(built->parameters[built->trained[0]].name ==
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
}

TEST_CASE("adapters that the run has not and settings that it has not are refused by name") {
  const auto refusal = [](const Folder& folder, const OptionList& options) {
    try {
      const trainer::Weights weights(folder.path.string());
      const auto built = trainer::build(test::oracle_model("llama"), test::trainer_config(options));
      trainer::check_weights(weights, built->parameters);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const Folder folder("llama", "llama");
  CHECK(refusal(folder, {{"--lora", "4"}}).empty());
  CHECK(contains(refusal(folder, {}), "is of no adapter of this run; give --lora 4"));
  CHECK(contains(refusal(folder, {{"--lora", "8"}}), "has shape [4, 32]"));
  CHECK(contains(refusal(folder, {{"--lora", "4"}, {"--lora-targets", "q_proj"}}),
                 "v_proj.lora_A.weight\" is of no adapter"));
  const auto config = [&](const char* text) {
    std::ofstream(folder.path / "adapter_config.json") << text;
  };
  config(R"({"r": 4, "lora_alpha": 4})");
  CHECK(contains(refusal(folder, {{"--lora", "4"}}), "\"lora_alpha\" is 4 with \"r\" 4"));
  config(R"({"r": 4, "lora_alpha": 8, "use_rslora": true})");
  CHECK(contains(refusal(folder, {{"--lora", "4"}}), "\"use_rslora\" is true"));
  config(R"({"r": "4"})");
  CHECK(contains(refusal(folder, {{"--lora", "4"}}), "\"r\" must be a number"));
}

}  // namespace ac_advisor
