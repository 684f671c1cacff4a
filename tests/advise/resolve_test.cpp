#include "ac_advisor/advise/resolve.hpp"

#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::test {

TEST_CASE("a preset's attention that a model cannot run falls back, and one sentence says so") {
  const model::ModelSpec gemma = model::load_model("gemma-2-2b");
  const advise::Resolved resolved = advise::resolve(gemma, {{"--framework", "torchtitan"}});
  CHECK(passes::find_exclusion(gemma, resolved.config) == nullptr);
  CHECK(resolved.config.run.attention == Attention::automatic);
  CHECK(resolved.config.memory.ac == AcMode::selective);  // the rest of the preset stays
  REQUIRE(resolved.notes.size() == 2);
  for (const char* part : {"--framework torchtitan", "--transformer-impl torchtitan",
                           "--transformer-impl hf", "gemma-2-2b"})
    CHECK(resolved.notes[0].find(part) != std::string::npos);
  for (const char* part : {"--framework torchtitan", "--attn cudnn", "--attn auto", "gemma-2-2b"})
    CHECK(resolved.notes[1].find(part) != std::string::npos);
  CHECK_NOTHROW(static_cast<void>(advise::plan(gemma, resolved.config, false)));
}

TEST_CASE("a framework's own layers are planned where it has the model, by its preset") {
  for (const char* framework : {"torchtitan", "torchtune"}) {
    const OptionList options{{"--framework", framework}, {"--world", "8"}};
    const advise::Resolved own = advise::resolve(model::load_model("llama-3.1-8b"), options);
    CHECK(to_option(own.config.run.transformer_impl) == std::string(framework));
    CHECK(own.notes.empty());
    const model::ModelSpec gemma = model::load_model("gemma-3-1b");
    const advise::Resolved other = advise::resolve(gemma, options);
    CHECK(other.config.run.transformer_impl == TransformerImpl::hf);
    OptionList by_hand = options;
    by_hand.emplace_back("--transformer-impl", framework);
    CHECK_THROWS_WITH_AS(
        static_cast<void>(advise::plan(gemma, advise::resolve(gemma, by_hand).config, false)),
        doctest::Contains("use --transformer-impl hf"), UserError);
  }
}

TEST_CASE("a preset on eight ranks falls back without leaving them unsharded") {
  const model::ModelSpec gemma = model::load_model("gemma-2-2b");
  const advise::Resolved resolved =
      advise::resolve(gemma, {{"--framework", "torchtitan"}, {"--world", "8"}});
  CHECK(resolved.config.layout.shard == Sharding::fsdp2);
  CHECK(resolved.config.run.attention == Attention::automatic);
}

// Liger: next power of two of tokens / ceil(vocabulary / width); ceil(128256 / 2048) = 63.
TEST_CASE("Liger's chunk is that of the batch, unless it was given by hand") {
  const model::ModelSpec llama = model::load_model("llama-3.2-1b");
  OptionList options{{"--framework", "liger"}, {"--batch", "8"}, {"--seq", "2048"}};
  const auto chunk = [&] { return advise::resolve(llama, options).config.memory.chunk_tokens; };
  CHECK(chunk() == 512);  // 16384 / 63 = 260.06
  options[1].second = "2";
  CHECK(chunk() == 128);  // 4096 / 63 = 65.02
  CHECK(advise::resolve(llama, options).derived == OptionList{{"--loss", "chunked:128"}});
  options.emplace_back("--loss", "chunked:512");
  CHECK(chunk() == 512);
}

TEST_CASE("what was given by hand does not fall back: it is refused by its name") {
  const model::ModelSpec gemma = model::load_model("gemma-2-2b");
  const OptionList hand{{"--framework", "torchtitan"}, {"--attn", "cudnn"}};
  const advise::Resolved resolved = advise::resolve(gemma, hand);
  CHECK(resolved.notes.size() == 1);  // of TorchTitan's layers alone
  CHECK(resolved.options.front() == hand.front());
  CHECK_THROWS_WITH_AS(static_cast<void>(advise::plan(gemma, resolved.config, false)),
                       doctest::Contains("--attn cudnn for gemma2"), UserError);
}

TEST_CASE("a preset's choice that is not in the way stays, and the reason is the one there is") {
  const model::ModelSpec llama = model::load_model("llama-3.2-1b");
  const advise::Resolved resolved = advise::resolve(llama, {{"--framework", "megatron"},
                                                            {"--transformer-impl", "local"},
                                                            {"--world", "2"},
                                                            {"--pp", "2"}});
  CHECK(resolved.notes.empty());
  CHECK(resolved.config.memory.kernels == Kernels::fused);
  CHECK_THROWS_WITH_AS(static_cast<void>(advise::plan(llama, resolved.config, false)),
                       doctest::Contains("micro-batches fill N stages"), UserError);
}

TEST_CASE("a model that takes all of a preset is resolved without a word") {
  const model::ModelSpec llama = model::load_model("llama-3.1-8b");
  for (const char* framework : {"hf", "automodel", "torchtitan", "megatron", "deepspeed"}) {
    const advise::Resolved resolved = advise::resolve(llama, {{"--framework", framework}});
    CHECK(resolved.notes.empty());
    CHECK(resolved.config == resolve_options({{"--framework", framework}}));
  }
}

TEST_CASE("selective under ddp is refused by the framework whose rule it is, and by no other") {
  const model::ModelSpec llama = model::load_model("llama-3.1-8b");
  for (const char* framework : {"hf", "liger", "torchtitan", "deepspeed", "automodel"}) {
    const StepConfig c = resolve_options({{"--framework", framework},
                                          {"--ac", "selective"},
                                          {"--ac-scope", "block"},
                                          {"--shard", "ddp"},
                                          {"--world", "2"},
                                          {"--attn", "auto"}});
    CHECK((passes::find_exclusion(llama, c) != nullptr) == (std::string(framework) == "automodel"));
  }
}

}  // namespace ac_advisor::test
