// Files of those who train models with an encoder of images: what is trained of it, and how large
// its images are.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "intake/mapped.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

constexpr const char* qwen = "Qwen/Qwen2.5-VL-7B-Instruct";
constexpr const char* third = "Qwen/Qwen3-VL-2B-Instruct";

intake::Training swift(const std::string& arguments, const OptionList& given = {},
                       const std::vector<std::string>& ignore = {},
                       const std::string& model = qwen) {
  return intake::read_training(
      {"run.sh", "", given, ignore},
      "swift sft --model " + model + " --max_length 2048 " + arguments + "\n");
}

intake::Training factory(const std::string& lines, const OptionList& given = {},
                         const std::string& model = qwen) {
  return intake::read_training({"sft.yaml", "llamafactory", given, {}},
                               "model_name_or_path: " + model + "\ncutoff_len: 2048\n" + lines);
}

json read_json(const std::string& file) {
  std::ifstream stream(std::string(source_dir) + "/tests/oracle/" + file);
  return json::parse(stream);
}

std::string words_of(const OptionList& options) {
  std::string words;
  for (const auto& [name, value] : options) words += " " + name + " " + value;
  return words;
}

/// Elements that a step's optimizer has states of.
std::int64_t trained_elements(const model::ModelSpec& spec, const OptionList& options) {
  const passes::StepProgram step = passes::build_step(spec, resolve_options(options));
  std::int64_t elements = 0;
  for (const passes::Parameter& parameter : step.parameters)
    if (parameter.trained) elements += step.program.value(parameter.value).shape.numel();
  return elements;
}

}  // namespace

TEST_CASE("images: what a tool's own code trains is what the step of its file trains") {
  const json document = read_json("trained_parts.json");
  int compared = 0;
  for (const json& draw : document.at("draws")) {
    const std::string name = draw.at("model");
    const model::ModelSpec spec =
        model::parse_config(document.at("models").at(name).dump(), name, name);
    json file = draw.at("training");
    const bool factory = draw.at("tool") == "llamafactory";
    file[factory ? "cutoff_len" : "max_length"] = 64;
    file[factory ? "disable_gradient_checkpointing" : "gradient_checkpointing"] = factory;
    CAPTURE(draw.dump());
    const auto read = [&] {
      return intake::read_training(
          {"a.yaml", draw.at("tool"), {{"--image-pixels", "56x56"}}, {}, {}, &spec}, file.dump());
    };
    if (draw.contains("error") || draw.at("elements") == 0) {
      CHECK(contains(why_not(read), "nothing is trained then"));
      continue;
    }
    if (const std::string why = why_not(read); contains(why, "DeepStack's mergers")) continue;
    OptionList options = read().options;
    options.emplace_back("--image-pixels", "56x56");
    CAPTURE(words_of(options));
    CHECK(trained_elements(spec, options) == draw.at("elements").get<std::int64_t>());
    ++compared;
  }
  CHECK(compared > 30);
}

TEST_CASE("images: ms-swift trains the decoder alone unless it is told otherwise") {
  const intake::Training t = swift("--tuner_type full");
  CHECK(option(t, "--freeze") == "tower,projector");
  CHECK(option(t, "--images") == "1");
  CHECK(option(t, "--image-pixels") == "1260x1260");  // as many tokens as a row has room for
  CHECK(option(t, "--tower-ac").empty());             // runs without gradients
  CHECK(assumes(t, "one image a row"));
  CHECK(assumes(t, "an upper bound"));
  const intake::Training all = swift("--tuner_type full --freeze_vit false --freeze_aligner false");
  CHECK(option(all, "--freeze").empty());
  CHECK(option(all, "--tower-ac") == "(flag)");
  CHECK(option(all, "--input-require-grads") == "on");
  CHECK(option(swift("--freeze_aligner false"), "--freeze") == "tower");
  CHECK(
      option(swift("--freeze_vit false --vit_gradient_checkpointing false"), "--tower-ac").empty());
  CHECK(contains(why_not([&] { return swift("--freeze_llm true"); }), "nothing is trained then"));
}

TEST_CASE("images: ms-swift's adapters by name are where the names are, whatever is frozen") {
  CHECK(option(swift("--target_modules q_proj v_proj"), "--freeze") == "tower,projector");
  const intake::Training named = swift("--target_modules gate_proj qkv");
  CHECK(option(named, "--freeze") == "projector");
  CHECK(option(named, "--lora-targets") == "gate_proj,qkv");
}

TEST_CASE("images: limits of pixels are the command's, or its environment's") {
  const auto size = [](const std::string& script) {
    return option(intake::read_training({"run.sh", "", {}, {}}, script), "--image-pixels");
  };
  const std::string command = "swift sft --model " + std::string(qwen) + " --max_length 4096 ";
  CHECK(size("MAX_PIXELS=1003520 " + command) == "980x980");  // 35 x 35 of 1280 tokens
  CHECK(size("export IMAGE_MAX_TOKEN_NUM=256\n" + command) == "448x448");
  CHECK(size("MAX_PIXELS=1003520 " + command + "--max_pixels 200704") == "448x448");
  CHECK(option(intake::read_training({"a.yaml", "ms-swift", {}, {}},
                                     "model: " + std::string(qwen) +
                                         "\nmax_length: 4096\nENV:\n  MAX_PIXELS: 1003520\n"),
               "--image-pixels") == "980x980");
  CHECK(option(swift("--max_pixels 200704", {}, {}, third), "--image-pixels") == "448x448");
  CHECK(contains(why_not([&] { return swift("--max_pixels 100"); }), "have no room"));
}

TEST_CASE("images: rows of text alone, and images by hand") {
  const intake::Training none = swift("", {{"--images", "0"}});
  CHECK(option(none, "--image-pixels").empty());
  CHECK(option(none, "--freeze") == "tower,projector");  // where adapters are not
  CHECK(assumes(none, "rows of text alone"));
  CHECK(contains(why_not([&] {
                   return swift("--tuner_type full --freeze_vit false", {{"--images", "0"}});
                 }),
                 "freeze_vit"));
  const intake::Training two = swift("", {{"--images", "2"}, {"--image-pixels", "448x672"}});
  CHECK(option(two, "--images").empty());
  CHECK(option(two, "--image-pixels").empty());
  CHECK(option(two, "--freeze") == "tower,projector");
}

TEST_CASE("images: a model without an encoder has nothing to freeze") {
  const intake::Training t = swift("--freeze_vit false", {}, {}, "Qwen/Qwen2.5-7B-Instruct");
  CHECK(option(t, "--freeze").empty());
  CHECK(option(t, "--images").empty());
}

TEST_CASE("images: LLaMA-Factory's parts") {
  const std::string full = "finetuning_type: full\nbf16: true\n",
                    lora = "finetuning_type: lora\nbf16: true\n";
  const intake::Training t = factory(full);
  CHECK(option(t, "--freeze") == "tower,projector");
  CHECK(option(t, "--image-pixels") == "756x756");
  CHECK(value(t, "image_max_pixels") == "589824");
  CHECK(option(factory(full + "freeze_vision_tower: false\n"), "--freeze") == "projector");
  CHECK(option(factory(full + "freeze_vision_tower: false\n"), "--tower-ac") == "(flag)");
  CHECK(option(factory(full + "image_max_pixels: 200704\n"), "--image-pixels") == "448x448");
  // blocks of a frozen decoder are no checkpoints
  const intake::Training decoder =
      factory(full + "freeze_language_model: true\nfreeze_multi_modal_projector: false\n");
  CHECK(option(decoder, "--ac") == "none");
  // `all` never means a projector's layers
  CHECK(option(factory(lora + "freeze_multi_modal_projector: false\n"), "--freeze") ==
        "tower,projector");
  CHECK(contains(why_not([&] { return factory(full + "freeze_vision_tower: false\n", {}, third); }),
                 "DeepStack's mergers"));
}

}  // namespace ac_advisor::test
