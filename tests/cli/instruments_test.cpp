// measure --trace and --counters, with a trainer that a script plays: which runs there are, and
// what of each goes into the profile.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "shell.hpp"
#include "test_paths.hpp"

namespace ac_advisor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A measured profile of the step that took `seconds`.
profile::Profile measured(double seconds) {
  profile::Profile p =
      advise::plan(model::load_model("tiny-llama"),
                   resolve_options({{"--gpu", "h200"}, {"--batch", "1"}, {"--seq", "64"}}));
  p.source = "measured";
  p.time.step = seconds;
  p.time.basis = profile::TimeBasis::measured;
  p.absent["kernels.bytes"] = "not counted: measure with --counters";
  return p;
}

/// As the run with counters has it: phase i has read i + 1 bytes, and written 10.
profile::Profile counted() {
  profile::Profile p = measured(0.3);
  p.absent.erase("kernels.bytes");
  p.instruments.emplace();
  for (std::size_t i = 0; i < 5; ++i) {
    p.instruments->dram_read_bytes[i] = static_cast<double>(i + 1);
    p.instruments->dram_write_bytes[i] = 10;
    p.kernels.bytes[i] = static_cast<double>(i + 11);
  }
  return p;
}

using test::Ran;

/// measure on "a GPU" with a trainer that answers with these files, by instrument.
Ran measure(const std::string& options, const profile::Profile& plain,
            const profile::Profile& with_counters, const std::string& environment = "") {
  const fs::path folder =
      fs::path(test::binary_dir) / ("instruments_test." + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "plain.json") << "[" << profile::to_json(plain, -1) << "]";
  std::ofstream(folder / "counters.json") << "[" << profile::to_json(with_counters, -1) << "]";
  const fs::path trainer = folder / "trainer";
  std::ofstream(trainer) << "#!/bin/sh\n"
                            "cd '"
                         << folder.string()
                         << "'\n"
                            "field() { sed -n 's/.*\"'$1'\": \"\\(.*\\)\".*/\\1/p' \"$2\"; }\n"
                            "instrument=$(field instrument \"$1\")\n"
                            "echo \"run:${instrument:-plain}\" >> runs\n"
                            "case $instrument in counters) from=counters;; *) from=plain;; esac\n"
                            "cp $from.json \"$(field output \"$1\")\"\n";
  fs::permissions(trainer, fs::perms::owner_all);
  fs::remove(folder / "runs");
  const std::string line =
      environment + " AC_TRAINER='" + trainer.string() + "' " + std::string(test::program) +
      " measure tiny-llama --gpu h200 --batch 1 --seq 64 --format json " + options + " 2>/dev/null";
  Ran ran = test::shell(line);
  std::ifstream runs(folder / "runs");
  std::string all;
  for (std::string word; runs >> word;) all += word + " ";
  fs::remove_all(folder);
  ran.out = all + "\n" + ran.out;
  return ran;
}

Json result(const Ran& ran) { return Json::parse(ran.out.substr(ran.out.find('\n'))); }

}  // namespace

TEST_CASE("each instrument is a run of its own, and what it adds to a step is told") {
  const Ran ran = measure("--counters", measured(0.2), counted());
  REQUIRE(ran.code == 0);
  CHECK(ran.out.starts_with("run:plain run:counters \n"));
  const Json json = result(ran);
  const Json& instruments = json["instruments"];
  CHECK(instruments["runs"].size() == 2);
  CHECK(instruments["overhead_percent"]["counters"].get<double>() == doctest::Approx(50.0));
  CHECK(instruments["dram_read_bytes"]["forward"] == 1.0);
  CHECK(instruments["dram_write_bytes"]["optimizer"] == 10.0);
  CHECK(json["kernels"]["bytes"]["loss"] == 12.0);
  CHECK_FALSE(json["absent"].contains("kernels.bytes"));
  CHECK(instruments["idle_seconds"].is_null());
  CHECK(json["absent"]["instruments.idle_seconds"] == "not asked for: measure with --trace");
}

TEST_CASE("without an instrument there is one run, and what it lacks is said") {
  const Ran ran = measure("", measured(0.2), counted());
  REQUIRE(ran.code == 0);
  CHECK(ran.out.starts_with("run:plain \n"));
  CHECK_FALSE(result(ran).contains("instruments"));
  CHECK(result(ran)["kernels"]["bytes"].is_null());
}

TEST_CASE("a trace in which nothing was recorded is absent with the reason, and no figure is 0") {
  const Ran ran = measure("--trace --counters", measured(0.2), counted());
  REQUIRE(ran.code == 0);
  CHECK(ran.out.starts_with("run:plain run:trace run:counters \n"));
  const Json json = result(ran);
  CHECK(json["instruments"]["idle_seconds"].is_null());
  CHECK_FALSE(json["instruments"].contains("step"));
  CHECK_FALSE(json["absent"]["instruments.idle_seconds"].get<std::string>().empty());
  CHECK_FALSE(json["instruments"]["overhead_percent"].contains("trace"));
}

TEST_CASE("instruments of several processes are refused before anything runs") {
  for (const char* launched : {"WORLD_SIZE=2 RANK=0", "OMPI_COMM_WORLD_SIZE=4", "SLURM_NTASKS=2"})
    for (const char* option : {"--trace", "--counters"}) {
      const Ran ran = measure(option, measured(0.2), counted(), launched);
      CHECK(ran.code == 2);
      CHECK_FALSE(ran.out.starts_with("run:"));
    }
  CHECK(measure("--trace --world 2 --shard fsdp2 --collectives nccl", measured(0.2), counted())
            .code == 2);
  CHECK(measure("--counters", measured(0.2), counted(), "WORLD_SIZE=1 RANK=0").code == 0);
}

TEST_CASE("counters that the device refuses are absent with its reason") {
  profile::Profile refused = measured(0.2);
  refused.instruments.emplace();
  for (const char* field : {"instruments.dram_read_bytes", "instruments.dram_write_bytes",
                            "instruments.dram_percent_of_peak"})
    refused.absent[field] = "counters need CAP_SYS_ADMIN";
  const Ran ran = measure("--counters", measured(0.2), refused);
  REQUIRE(ran.code == 0);
  const Json json = result(ran);
  CHECK(json["instruments"]["dram_read_bytes"].is_null());
  CHECK(json["absent"]["instruments.dram_read_bytes"] == "counters need CAP_SYS_ADMIN");
  CHECK(json["instruments"]["runs"].size() == 1);
  CHECK(json["kernels"]["bytes"].is_null());
}

}  // namespace ac_advisor
