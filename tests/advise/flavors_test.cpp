// Which of a framework's own models an export names: data/flavors/, read from its package.
#include "advise/flavors.hpp"

#include <doctest/doctest.h>

#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

using namespace ac_advisor;

namespace {

model::ModelSpec llama(void (*change)(model::ModelSpec&)) {
  model::ModelSpec spec = model::load_model("llama-3.1-8b");
  spec.name = "mine";
  change(spec);
  return spec;
}

std::string exported(const std::string& framework, const model::ModelSpec& spec,
                     OptionList options = {}) {
  options.emplace_back("--framework", framework);
  try {
    const advise::ExportResult result =
        advise::export_setting(framework, spec, advise::resolve(spec, options).config);
    std::string text = result.text;
    for (const std::string& note : result.notes) text += note + "\n";
    return text;
  } catch (const UserError& error) {
    return std::string("refused: ") + error.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

/// Llama 2 7B: models/llama/configuration_llama.py's defaults of 2023.
void llama_2(model::ModelSpec& m) {
  m.vocab = 32000, m.kv_heads = 32, m.intermediate = 11008, m.rope_theta = 10000;
  m.rope_scaling.reset();
  m.max_positions = 4096;
}

}  // namespace

TEST_CASE("a flavor is named where every dimension is the model's") {
  const model::ModelSpec same = model::load_model("llama-3.1-8b");
  CHECK(advise::find_flavor("torchtitan", same)->name == "8B");
  CHECK(advise::find_flavor("torchtune", same)->name == "llama3_1_8b");
  CHECK(advise::find_flavor("litgpt", same)->name.find("Llama-3.1-8B") != std::string::npos);
  CHECK(advise::find_flavor("torchtune", model::load_model("llama-3.2-1b"))->name == "llama3_2_1b");
  CHECK(advise::find_flavor("torchtitan", model::load_model("qwen3-0.6b"))->name == "0.6B");
  CHECK(advise::find_flavor("torchtitan", model::load_model("llama-3.2-1b")) == nullptr);
}

TEST_CASE("one dimension that differs is another model, and said") {
  // Each of them alone, beside Llama 3.1 8B's own.
  const std::pair<void (*)(model::ModelSpec&), const char*> changes[] = {
      {[](model::ModelSpec& m) { m.vocab = 32000; }, "vocabulary 32000 (not 128256)"},
      {[](model::ModelSpec& m) { m.kv_heads = 32; }, "key-value heads 32 (not 8)"},
      {[](model::ModelSpec& m) { m.intermediate = 11008; }, "MLP width 11008 (not 14336)"},
      {[](model::ModelSpec& m) { m.rope_theta = 10000; }, "rope_theta 10000 (not 500000)"},
      {[](model::ModelSpec& m) { m.rope_scaling.reset(); }, "rotary scaling 1 (not 8)"},
      {[](model::ModelSpec& m) { m.rms_norm_eps = 1e-6; }, "rms_norm_eps 1e-06 (not 1e-05)"},
      {[](model::ModelSpec& m) { m.tied_embeddings = true; }, "tied embeddings"},
      {[](model::ModelSpec& m) { m.qkv_bias = true; }, "biases of q, k and v"}};
  for (const auto& [change, said] : changes) {
    const model::ModelSpec other = llama(change);
    CHECK(advise::find_flavor("torchtitan", other) == nullptr);
    CHECK(has(advise::nearest_flavor("torchtitan", other), said));
  }
}

TEST_CASE("Llama 2 is no TorchTitan flavor and no llama3_1_8b: its sizes are written out") {
  const model::ModelSpec spec = llama(llama_2);
  const std::string titan = exported("torchtitan", spec);
  CHECK(has(titan, "flavor = \"mine\""));
  CHECK(has(titan, "llama3_args[\"mine\"] = TransformerModelArgs(dim=4096, n_layers=32"));
  // int(8 * 4096 / 3) = 10922; 1.0 times that is below 11008, which is one multiple of 11008.
  CHECK(has(titan, "multiple_of=11008, ffn_dim_multiplier=1"));
  CHECK(has(titan, "RoPEScalingArgs(scaling_factor=1)"));
  CHECK(has(exported("torchtune", spec), "torchtune.models.llama2.llama2_7b"));
  const model::ModelSpec wider = llama([](model::ModelSpec& m) { llama_2(m), m.vocab = 32016; });
  CHECK(has(exported("torchtune", wider),
            "torchtune.models.llama3.llama3\n  vocab_size: 32016\n  num_layers: 32\n"));
}

TEST_CASE("what a framework's classes cannot have is refused") {
  CHECK(has(exported("torchtitan", model::load_model("llama-3.2-1b")), "tied embeddings"));
  CHECK(has(exported("torchtitan", llama([](model::ModelSpec& m) { m.mlp_bias = true; })),
            "biases of other projections"));
  CHECK(has(exported("litgpt", llama([](model::ModelSpec& m) { m.vocab = 32016; })),
            "vocabulary 32016"));
  CHECK(has(exported("torchtitan", model::load_model("qwen3-0.6b"),
                     {{"--world", "8"}, {"--pp", "2"}, {"--grad-accum", "4"}}),
            "refused: "));
}

TEST_CASE("torchtune's named builders take no dropout, and that of 405B no DoRA") {
  const model::ModelSpec spec = model::load_model("llama-3.1-8b");
  const std::string dropped = exported("torchtune", spec, {{"--dropout", "0.1"}});
  CHECK(has(dropped, "torchtune.models.llama3_1.llama3_1\n"));
  CHECK(has(dropped, "  attn_dropout: 0.1\n"));
  const std::string dora = exported("torchtune", model::load_model("llama-3.1-405b"),
                                    {{"--lora", "16"}, {"--dora", ""}});
  CHECK(has(dora, "torchtune.models.llama3_1.lora_llama3_1\n"));
  CHECK(has(dora, "  use_dora: True\n"));
  CHECK(has(exported("torchtune", spec,
                     {{"--lora", "16"}, {"--lora-targets", "gate_proj,up_proj,down_proj"}}),
            "lora_attn_modules must name"));
}
