// Cases whose program is run on an emulated device. A whole PyTorch program:
// tests/emulator/gate_test.py.
#include "gate/gate_folder.hpp"

#include "ac_advisor/model/error.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;
using gate::Outcome;
using test::Json;

namespace {

Json command_gate(const Json& command, const Json& more = Json::object()) {
  Json item = {{"name", "run"},
               {"command", command},
               {"limits", {{"peak_allocated", {{"budget", "1GiB"}}}}}};
  item.update(more);
  return {{"cases", {item}}};
}

/// Beside the tests, where dryrun looks for it.
bool has_emulator() {
  return std::filesystem::exists(std::filesystem::path(test::binary_dir) / "emulator");
}

void refuses(const Json& gate, const char* part) {
  const test::GateFolder folder;
  folder.write_gate(gate);
  CHECK_THROWS_WITH_AS(static_cast<void>(folder.gate()), doctest::Contains(part), UserError);
}

}  // namespace

TEST_CASE("command: what it is run as is read, and what does not go with it is refused by name") {
  const test::GateFolder folder;
  folder.write_gate(
      command_gate({"python", "train.py"}, {{"gpu", "a100-80gb"}, {"world", 8}, {"rank", 3}}));
  const gate::Command command = folder.gate().cases.at(0).command.value();
  CHECK(command.words == std::vector<std::string>{"python", "train.py"});
  CHECK(command.gpu == "a100-80gb");
  CHECK(command.world == 8);
  CHECK(command.rank == 3);

  refuses(command_gate(Json::array()), "must be the program and its arguments");
  refuses(command_gate("python train.py"), "must be a list");
  refuses(command_gate({"true"}, {{"model", "m"}}), "\"cases[0].model\": \"m\" does not go with");
  refuses(command_gate({"true"}, {{"options", {{"ac", "full"}}}}), "does not go with \"command\"");
  refuses(command_gate({"true"}, {{"source", "measured"}}), "must be \"emulated\"");
  refuses(command_gate({"true"}, {{"world", 0}}), "must be an integer from 1");
  refuses(command_gate({"true"}, {{"world", 2}, {"rank", 2}}), "must be an integer from 0 to 1");
  refuses(command_gate({"true"}, {{"gpu", "gtx-9999"}}), "gtx-9999");
  refuses(command_gate({"true"}, {{"gpu", "cpu"}}), "is no GPU");
  refuses(command_gate({"true"}, {{"limits", {{"step_seconds", {{"budget", 1}}}}}}),
          "kernels do not run there");
  Json planned = test::small_gate({{"peak_allocated", {{"budget", "1GiB"}}}});
  planned["cases"][0]["world"] = 8;
  refuses(planned, "give --world among the options");
  planned["cases"][0].erase("world");
  planned["cases"][0]["source"] = "emulated";
  refuses(planned, "goes with \"command\"");
}

TEST_CASE("command: what fails, or uses no GPU, was not measured: exit code 3, never a pass") {
  for (const auto& [command, why] :
       {std::pair<Json, const char*>{{"true"}, "it used no CUDA device"},
        {{"sh", "-c", "exit 7"}, "it ended with exit code 7"},
        {{"/no/such/program"}, "it ended with exit code 127"}}) {
    const test::GateFolder folder;
    folder.write_gate(command_gate(command));
    const gate::Report report = folder.check();
    REQUIRE(report.cases.size() == 1);
    const gate::Verdict& v = report.cases[0].verdicts.at(0);
    if (!has_emulator()) {  // as under sanitizers
      CHECK(v.outcome == Outcome::bad_input);
      CHECK(v.message.find("this build has no emulated device") != std::string::npos);
      continue;
    }
    CHECK(v.outcome == Outcome::not_measured);
    CHECK(v.message.find(why) != std::string::npos);
    CHECK(gate::exit_code(report) == 3);
  }
}
