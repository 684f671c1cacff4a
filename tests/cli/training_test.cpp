// A training file where MODEL stands, through the program.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "cli/arguments.hpp"
#include "cli/command_table.hpp"
#include "cli/training.hpp"
#include "reports/json_schema.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

cli::Result run(std::vector<const char*> words) {
  words.insert(words.begin(), "ac-advisor");
  const cli::Arguments a =
      cli::with_training(cli::parse_arguments(static_cast<int>(words.size()), words.data(), 80));
  return cli::tell_training(a, cli::find_command(a.command)->run(a));
}

std::string example(const char* name) {
  return std::string(source_dir) + "/examples/training/" + name;
}

}  // namespace

TEST_CASE("a plan of a training file is the plan of its options, and its JSON has the mapping") {
  if (!has_yaml) return;
  const std::string file = example("trl-sft.yaml");
  const auto of_file = nlohmann::json::parse(
      run({"plan", file.c_str(), "--gpu", "rtx-4090", "--format", "json"}).text);
  const auto by_hand = nlohmann::json::parse(run({"plan",           "llama-3.1-8b",
                                                  "--framework",    "trl",
                                                  "--batch",        "2",
                                                  "--grad-accum",   "4",
                                                  "--seq",          "2048",
                                                  "--param-dtype",  "bf16",
                                                  "--optimizer",    "paged-adamw-8bit",
                                                  "--lora",         "16",
                                                  "--lora-targets", "all-linear",
                                                  "--lora-dropout", "0.05",
                                                  "--quantize",     "nf4",
                                                  "--gpu",          "rtx-4090",
                                                  "--format",       "json"})
                                                 .text);
  CHECK(of_file.at("memory") == by_hand.at("memory"));
  CHECK(of_file.at("config") == by_hand.at("config"));
  CHECK(of_file.at("training").at("tool") == "trl");
  for (const std::string& error : schema_errors(of_file.dump())) FAIL_CHECK(error);
}

TEST_CASE("a training file that names an id of the Hub is planned without --model") {
  if (!has_yaml) return;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / "ac_advisor_names_an_id.yaml";
  std::ofstream(file) << "model_name_or_path: Qwen/Qwen2.5-0.5B-Instruct\n"
                         "per_device_train_batch_size: 2\n"
                         "max_length: 256\n";
  const auto of_file =
      nlohmann::json::parse(run({"plan", file.c_str(), "--tool", "trl", "--format", "json"}).text);
  std::filesystem::remove(file);
  CHECK(of_file.at("model").at("name") == "Qwen/Qwen2.5-0.5B-Instruct");
  CHECK(of_file.at("parameters") == 494'032'768);  // as published
}

TEST_CASE("DeepSpeed's file is found beside the training file") {
  if (!has_yaml) return;
  const std::string file = example("llamafactory-full.yaml");
  const auto json =
      nlohmann::json::parse(run({"plan", file.c_str(), "--world", "8", "--format", "json"}).text);
  CHECK(json.at("config").at("shard") == "zero3");
  CHECK(json.at("config").at("grad_accum") == 2);
}

TEST_CASE("the mapping stands below plan's table, and alone in explain --mapping") {
  if (!has_yaml) return;
  const std::string file = example("trl-sft.yaml");
  const std::string alone = run({"explain", file.c_str(), "--mapping"}).text;
  CHECK(alone.find("--optimizer paged-adamw-8bit") != std::string::npos);
  CHECK(run({"plan", file.c_str()}).text.ends_with(alone));
}

TEST_CASE(
    "oom plans the training file that is given after the log, and its changes keep what it says") {
  if (!has_yaml) return;
  const std::string log = std::string(binary_dir) + "/oom-" + std::to_string(::getpid()) + ".log";
  std::ofstream(log)
      << "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU "
         "0 has a total capacity of 23.53 GiB of which 0.50 GiB is free. Of the "
         "allocated memory 20.00 GiB is allocated by PyTorch, and 0.10 GiB is "
         "reserved by PyTorch but unallocated.\n";
  const std::string file = example("trl-sft.yaml");
  const auto found = nlohmann::json::parse(
      run({"oom", log.c_str(), file.c_str(), "--gpu", "rtx-4090", "--format", "json"}).text);
  std::filesystem::remove(log);
  const auto planned = nlohmann::json::parse(
      run({"plan", file.c_str(), "--gpu", "rtx-4090", "--format", "json"}).text);
  CHECK(found.at("plan").at("config") == planned.at("config"));
  CHECK(found.at("training") == planned.at("training"));
  for (const std::string& error : schema_errors(found.dump())) FAIL_CHECK(error);
  CHECK_THROWS_WITH_AS(static_cast<void>(run({"oom", log.c_str(), "--tool", "trl"})),
                       doctest::Contains("--tool is of a training file"), UserError);
}

TEST_CASE("explain --mapping writes its JSON alone, and no other format") {
  if (!has_yaml) return;
  const std::string file = example("trl-sft.yaml");
  const auto alone =
      nlohmann::json::parse(run({"explain", file.c_str(), "--mapping", "--format", "json"}).text);
  const auto planned = nlohmann::json::parse(
      run({"plan", file.c_str(), "--gpu", "rtx-4090", "--format", "json"}).text);
  CHECK(alone == planned.at("training"));
  CHECK_THROWS_WITH_AS(
      static_cast<void>(run({"explain", file.c_str(), "--mapping", "--format", "csv"})),
      doctest::Contains("writes table or json"), UserError);
}

TEST_CASE("bytes of a training file that are no UTF-8 are replaced in the JSON") {
  if (!has_yaml) return;
  const std::string file =
      std::string(binary_dir) + "/not-utf8-" + std::to_string(::getpid()) + ".yaml";
  std::ofstream(file) << "model_name_or_path: tiny-llama\nmax_length: 64\n"
                         "dataset_name: \xff\xfe\n\xc3\x28_key: 1\n";
  cli::Result result;
  CHECK_NOTHROW(result = run({"plan", file.c_str(), "--tool", "trl", "--format", "json"}));
  std::filesystem::remove(file);
  CHECK(nlohmann::json::parse(result.text).at("training").at("tool") == "trl");
}

TEST_CASE("options of training files are refused where MODEL is none") {
  CHECK_THROWS_WITH_AS(static_cast<void>(run({"explain", "tiny-llama", "--mapping"})),
                       doctest::Contains("--mapping is of a training file"), UserError);
}

}  // namespace ac_advisor::test
