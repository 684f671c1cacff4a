// Cases of another tool's training file: what it says is the plan, and a verdict names its key.
#include "gate/gate_folder.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;
using gate::Outcome;
using test::Json;

namespace {

const std::string sft =
    "base_model: ../model\nsequence_len: 128\nmicro_batch_size: 2\nattn_implementation: "
    "flash_attention_2\nbf16: true\ngradient_checkpointing: true\n";

Json gate_of(Json more = Json::object()) {
  Json c = {{"name", "sft"},
            {"training", "configs/sft.yaml"},
            {"limits", {{"peak_allocated", {{"regression", {{"percent", 1}}}}}}}};
  c.update(more);
  return {{"cases", {c}}};
}

gate::Verdict verdict(const std::string& before, const std::string& after,
                      const Json& gate = gate_of()) {
  const test::GateFolder folder;
  folder.write_gate(gate);
  folder.write("model/config.json", test::small_llama().dump());
  folder.write("configs/sft.yaml", before);
  folder.update();
  folder.write("configs/sft.yaml", after);
  const gate::Report report = folder.check();
  REQUIRE(report.cases.size() == 1);
  REQUIRE(report.cases[0].verdicts.size() >= 1);
  return report.cases[0].verdicts[0];
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("training: the file as it was passes, a changed key is named with its line") {
  if (!test::has_yaml) return;
  CHECK(verdict(sft, sft).outcome == Outcome::passes);
  // What changes neither memory nor launches is no other plan.
  CHECK(verdict(sft, sft + "learning_rate: 1e-5\n").outcome == Outcome::passes);
  const gate::Verdict v = verdict(sft, replaced(sft, "sequence_len: 128", "sequence_len: 256"));
  CHECK(v.outcome == Outcome::other_fingerprint);
  CHECK(contains(v.place.file, "configs/sft.yaml"));
  CHECK(v.place.line == 2);
  CHECK(contains(v.message, "--seq 128 → 256"));
  CHECK(contains(v.message, "configs/sft.yaml:2 has sequence_len: 256."));
  const gate::Verdict gone = verdict(sft, replaced(sft, "gradient_checkpointing: true\n", ""));
  CHECK(contains(gone.message, "--ac full → none"));
  CHECK(contains(gone.message, "leaves gradient_checkpointing at axolotl's default"));
}

TEST_CASE("training: the case's own options win, and what the file refuses is bad input") {
  if (!test::has_yaml) return;
  const Json own = gate_of({{"options", {{"seq", 64}}}});
  CHECK(verdict(sft, replaced(sft, "sequence_len: 128", "sequence_len: 256"), own).outcome ==
        Outcome::passes);
  const gate::Verdict refused = verdict(sft, sft + "neftune_noise_alpha: 5\n");
  CHECK(refused.outcome == Outcome::bad_input);
  CHECK(contains(refused.message, "sft.yaml:7: neftune_noise_alpha: 5: changes the step"));
  CHECK(verdict(sft + "neftune_noise_alpha: 5\n", sft + "neftune_noise_alpha: 6\n",
                gate_of({{"ignore", {"neftune_noise_alpha"}}}))
            .outcome == Outcome::passes);
}

TEST_CASE("training: tool and ignore go with it, a profile and a command do not") {
  const auto why = [](const Json& gate) {
    try {
      static_cast<void>(gate::parse_gate_file(gate.dump(), "ac-advisor.json"));
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(why(gate_of({{"tool", "axolotl"}})).empty());
  Json without = gate_of({{"tool", "axolotl"}, {"model", "model"}});
  without["cases"][0].erase("training");
  CHECK(contains(why(without), "goes with \"training\" only"));
  CHECK(contains(why(gate_of({{"source", "measured"}, {"profile", "run.json"}})),
                 "it goes with neither"));
}
