#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/variant_options.hpp"
#include "model/options_preset.hpp"

using namespace ac_advisor;

namespace {

StepConfig resolve(const OptionList& options) { return resolve_options(options); }

std::string error(const OptionList& options) {
  try {
    static_cast<void>(resolve_options(options));
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

bool says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (text.find(part) == std::string::npos) {
      MESSAGE(text << " lacks " << part);
      return false;
    }
  return true;
}

const OptionList eight_ranks = {{"--shard", "fsdp2"}, {"--world", "8"}};

OptionList with(OptionList options, const OptionList& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

TEST_CASE("without options: hf, one rank, batch 1, sequence 2048, H100") {
  const StepConfig c = resolve({});
  CHECK(c.runtime.framework == "hf");
  CHECK(c.run.batch == 1);
  CHECK(c.run.seq == 2048);
  CHECK(c.run.grad_accum == 1);
  CHECK(c.layout.world == 1);
  CHECK(c.device.gpu == "h100-80gb");
  CHECK(c.layout.shard == Sharding::none);
  CHECK(c.runtime.kind == Runtime::pytorch);
  CHECK_FALSE(c.runtime.force);
}

TEST_CASE("the documented H100 recipe is read as written") {
  const StepConfig c = resolve({{"--batch", "8"},
                                {"--seq", "2048"},
                                {"--kernels", "fused"},
                                {"--shard", "fsdp2"},
                                {"--world", "8"},
                                {"--ac", "full"},
                                {"--keep-last-block", ""},
                                {"--ac-scope", "submodule"},
                                {"--loss", "lc-ce"},
                                {"--hold-output", ""},
                                {"--param-dtype", "bf16"}});
  CHECK(c.run.batch == 8);
  CHECK(c.memory.kernels == Kernels::fused);
  CHECK(c.layout.shard == Sharding::fsdp2);
  CHECK(c.layout.world == 8);
  CHECK(c.memory.ac == AcMode::full);
  CHECK(c.layout.keep_last_block);
  CHECK(c.memory.scope == AcScope::submodule);
  CHECK(c.memory.loss == LossKind::lc_ce);
  CHECK(c.memory.hold_output);
  CHECK(c.precision.param_dtype == DType::bf16);
  CHECK(c.precision.compute_dtype == DType::bf16);
}

TEST_CASE("what is printed is read back") {
  for (const char* ac :
       {"none", "full", "selective", "attention", "grouped:2", "every:3", "sqrt", "budget:40GiB",
        "first:3", "modules:core_attn", "modules:moe_act+layernorm+mla_up_proj", "budget:16GB",
        "budget:123456789", "memory-budget:0.5", "memory-budget:0"})
    CHECK(ac_option(resolve({{"--ac", ac}})) == ac);
  for (const char* loss : {"ce", "ce-no-upcast", "lc-ce", "chunked:1024"})
    CHECK(loss_option(resolve({{"--loss", loss}})) == loss);
  for (const char* shard : {"ddp", "zero1", "zero2", "fsdp2", "hsdp:4"})
    CHECK(shard_option(resolve({{"--world", "8"}, {"--shard", shard}})) == shard);
  CHECK(shard_option(resolve({})) == "none");
  for (const char* kernels : {"eager", "fused", "compiled"})
    CHECK(std::string(to_option(resolve({{"--kernels", kernels}}).memory.kernels)) == kernels);
  for (const char* optimizer :
       {"adamw", "adamw-foreach", "sgd", "sgd-momentum", "adamw-8bit", "paged-adamw",
        "paged-adamw-8bit", "adamw-8bit-torchao", "adafactor", "lion", "muon"})
    CHECK(std::string(to_option(resolve({{"--optimizer", optimizer}}).optimizer.kind)) ==
          optimizer);
  for (const char* attn : {"auto", "flash", "cudnn", "efficient", "math", "eager"})
    CHECK(std::string(to_option(resolve({{"--attn", attn}}).run.attention)) == attn);
  for (const char* unit : {"block", "segment", "torchtitan"})
    CHECK(std::string(to_option(
              resolve(with(eight_ranks, {{"--fsdp-unit", unit}})).layout.fsdp_unit)) == unit);
  CHECK(std::string(to_option(AcScope::submodule)) == "submodule");
  CHECK(std::string(to_option(DType::f32)) == "fp32");
}

TEST_CASE("every framework has a preset, and an option by hand wins over it") {
  const auto names = options::framework_names();
  for (const char* name : {"hf", "hf-trainer", "trl", "torchtune", "litgpt", "liger", "automodel",
                           "torchtitan", "megatron", "deepspeed"}) {
    CAPTURE(name);
    REQUIRE(std::find(names.begin(), names.end(), name) != names.end());
    const OptionList framework = {{"--framework", name}};
    CHECK(resolve(framework).runtime.framework == name);
    CHECK(resolve(with(framework, {{"--world", "8"}})).layout.shard != Sharding::none);
    for (const char* value : {"eager", "fused"})
      CHECK(std::string(to_option(
                resolve(with(framework, {{"--kernels", value}})).memory.kernels)) == value);
    for (const char* value : {"ce", "lc-ce", "chunked:64"})
      CHECK(loss_option(resolve(with(framework, {{"--loss", value}}))) == value);
    CHECK(resolve(with(framework, {{"--optimizer", "sgd"}})).optimizer.kind == Optimizer::sgd);
    CHECK(ac_option(resolve(with(framework, {{"--ac", "every:2"}}))) == "every:2");
  }
}

TEST_CASE("torchtune's recipes are its preset, adapters in the base's dtype") {
  const StepConfig c = resolve(with(eight_ranks, {{"--framework", "torchtune"}, {"--lora", "8"}}));
  CHECK(loss_option(c) == "chunked-logits:8");
  CHECK(c.layout.shard == Sharding::fsdp2);
  CHECK(c.memory.ac == AcMode::full);
  CHECK_FALSE(c.memory.hold_output);
  CHECK(c.precision.reduce_dtype == DType::bf16);
  CHECK(c.adapters.dtype == DType::bf16);
  CHECK(c.adapters.targets == "q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj");
  CHECK(c.adapters.input_grads == InputGrads::off);
  // PEFT's are fp32 where nobody says otherwise.
  CHECK(resolve({{"--lora", "8"}}).adapters.dtype == DType::f32);
}

TEST_CASE("the order of options does not let the preset win") {
  CHECK(resolve({{"--kernels", "fused"}, {"--framework", "hf"}}).memory.kernels == Kernels::fused);
}

TEST_CASE("an option given twice: the last one counts") {
  CHECK(resolve({{"--batch", "2"}, {"--batch", "4"}}).run.batch == 4);
  const StepConfig c = resolve({{"--ac", "grouped:4"}, {"--ac", "full"}});
  CHECK(c.memory.ac == AcMode::full);
  CHECK(c.memory.ac_arg == 0);
}

TEST_CASE("several ranks are fsdp2 where the preset names no sharding of its own") {
  CHECK(resolve({{"--world", "8"}, {"--shard", "zero3"}}).layout.shard == Sharding::zero3);
  CHECK(resolve({{"--framework", "torchtitan"}, {"--world", "8"}}).layout.shard == Sharding::fsdp2);
}

TEST_CASE("litgpt's preset has its own layers, targets and optimizers") {
  const OptionList lora = {{"--framework", "litgpt"}, {"--lora", "8"}};
  const StepConfig c = resolve(lora);
  CHECK(c.litgpt());
  CHECK_FALSE(c.megatron());
  CHECK(c.adapters.targets == "query,value");
  CHECK(c.adapters.dtype == DType::bf16);
  CHECK(c.adapters.dropout == 0.05);
  CHECK(c.memory.wide_output);
  CHECK(c.optimizer.kind == Optimizer::adamw_foreach);
  CHECK_FALSE(c.adapters.stable_embedding);
  const StepConfig quantized = resolve(with(lora, {{"--quantize", "nf4"}}));
  CHECK(quantized.optimizer.kind == Optimizer::paged_adamw);
  CHECK(quantized.adapters.stable_embedding);
  CHECK_FALSE(quantized.adapters.saves_inputs);
  CHECK(says(error({{"--stable-embedding", ""}, {"--lora", "8"}, {"--quantize", "nf4"}}),
             {"--framework hf", "--framework litgpt"}));
  CHECK(says(error(with(lora, {{"--bitsandbytes", "0.41"}})), {"--quantize none", "nf4"}));
}

TEST_CASE("the chunked loss holds no output unless asked to: Liger's returns no logits") {
  for (const auto name : options::framework_names()) {
    if (name == "verl") continue;  // whose loss is its own
    const OptionList chunked = {{"--framework", std::string(name)}, {"--loss", "chunked:64"}};
    CHECK_FALSE(resolve(chunked).memory.hold_output);
    CHECK(resolve(with(chunked, {{"--hold-output", ""}})).memory.hold_output);
  }
  CHECK_FALSE(resolve({{"--no-hold-output", ""}, {"--loss", "lc-ce"}}).memory.hold_output);
}

TEST_CASE("fp32 parameters compute in fp32, but under fsdp2 in bf16") {
  const StepConfig alone = resolve({{"--param-dtype", "fp32"}});
  CHECK(alone.precision.compute_dtype == DType::f32);
  CHECK(alone.precision.reduce_dtype == DType::f32);
  const StepConfig sharded = resolve(with(eight_ranks, {{"--param-dtype", "fp32"}}));
  CHECK(sharded.precision.param_dtype == DType::f32);
  CHECK(sharded.precision.compute_dtype == DType::bf16);
}

TEST_CASE("dtypes by hand stay as they are") {
  const StepConfig c = resolve(
      with(eight_ranks,
           {{"--param-dtype", "fp32"}, {"--compute-dtype", "fp32"}, {"--reduce-dtype", "bf16"}}));
  CHECK(c.precision.compute_dtype == DType::f32);
  CHECK(c.precision.reduce_dtype == DType::bf16);
}

TEST_CASE("TorchTitan reduces in fp32 under fsdp2") {
  const StepConfig c = resolve(with(eight_ranks, {{"--framework", "torchtitan"}}));
  CHECK(c.precision.compute_dtype == DType::bf16);
  CHECK(c.precision.reduce_dtype == DType::f32);
}

TEST_CASE("TorchTitan clips gradients, alone and in stages of split layers") {
  const OptionList titan = with(eight_ranks, {{"--framework", "torchtitan"}});
  const OptionList stages{{"--tp", "2"}, {"--pp", "2"}, {"--grad-accum", "2"}};
  CHECK(resolve(titan).optimizer.clip_grad == 1.0);
  CHECK(resolve(with(titan, stages)).optimizer.clip_grad == 1.0);
  CHECK(resolve(with(titan, {{"--clip-grad", "0"}})).optimizer.clip_grad == 0.0);
}

TEST_CASE("TorchTitan compiles its loss with its blocks") {
  const OptionList compiled =
      with(eight_ranks, {{"--framework", "torchtitan"}, {"--kernels", "compiled"}});
  CHECK(resolve(compiled).memory.loss == LossKind::ce_compiled);
  CHECK(resolve(with(compiled, {{"--loss", "ce"}})).memory.loss == LossKind::ce);
  CHECK(resolve(with(eight_ranks, {{"--framework", "torchtitan"}})).memory.loss == LossKind::ce);
  CHECK(resolve({{"--kernels", "compiled"}}).memory.loss == LossKind::ce);
  for (const char* parts : {"--tp", "--pp"})
    CHECK(resolve(with(compiled, {{parts, "2"}})).memory.loss == LossKind::ce_compiled);
}

TEST_CASE("a preset's sub-module scope yields to a mode that has no scope") {
  for (const auto name : options::framework_names())
    for (const char* ac : {"selective", "attention", "grouped:2", "sqrt", "budget:1GiB"})
      CHECK(resolve({{"--framework", std::string(name)}, {"--ac", ac}}).memory.scope ==
            AcScope::block);
}

TEST_CASE("a preset's resharding yields to a sharding that gathers nothing") {
  for (const auto name : options::framework_names())
    CHECK_FALSE(resolve({{"--framework", std::string(name)}, {"--world", "2"}, {"--shard", "ddp"}})
                    .layout.keep_last_block);
}

TEST_CASE("sharding and world that contradict are refused with both values") {
  CHECK(says(error({{"--shard", "none"}, {"--world", "8"}}),
             {"--shard none --world 8", "--world 1", "fsdp2"}));
  CHECK(says(error({{"--shard", "ddp"}, {"--world", "1"}}),
             {"--shard ddp --world 1", "two ranks", "--shard none"}));
  CHECK(says(error({{"--shard", "fsdp2"}}), {"--shard fsdp2", "give --world N"}));
}

TEST_CASE("hsdp:N divides the world, the nearest N is named") {
  CHECK(resolve({{"--world", "16"}, {"--shard", "hsdp:8"}}).layout.hsdp_shards == 8);
  CHECK(says(error({{"--world", "16"}, {"--shard", "hsdp:5"}}),
             {"--shard hsdp:5 --world 16", "divisible", "hsdp:4"}));
  CHECK(says(error({{"--world", "8"}, {"--shard", "hsdp:8"}}), {"hsdp:4"}));
  CHECK(says(error({{"--world", "7"}, {"--shard", "hsdp:2"}}), {"use --shard fsdp2"}));
  CHECK(says(error({{"--world", "8"}, {"--shard", "hsdp:1"}}), {"at least 2"}));
  CHECK(says(error({{"--world", "8"}, {"--shard", "hsdp"}}), {"hsdp:8"}));
  // Of a pipeline's stage, the ranks that it is on.
  const OptionList staged{{"--world", "16"}, {"--pp", "4"}, {"--grad-accum", "4"}};
  OptionList two = staged, four = staged;
  two.emplace_back("--shard", "hsdp:2");
  four.emplace_back("--shard", "hsdp:4");
  CHECK(resolve(two).layout.hsdp_shards == 2);
  CHECK(says(error(four), {"the 4 ranks that see different data", "hsdp:2"}));
}

TEST_CASE("what only fsdp2 has is refused elsewhere") {
  CHECK(says(error({{"--keep-last-block", ""}}), {"--keep-last-block", "--shard none", "fsdp2"}));
  CHECK(says(error({{"--fsdp-unit", "segment"}, {"--world", "2"}, {"--shard", "zero1"}}),
             {"--fsdp-unit segment", "--shard zero1"}));
  CHECK(says(error({{"--no-sync", ""}, {"--world", "2"}, {"--shard", "zero2"}}),
             {"--no-sync --shard zero2", "zero1"}));
}

TEST_CASE("sub-module scope by hand goes with full and every:K only") {
  CHECK(resolve({{"--ac", "every:2"}, {"--ac-scope", "submodule"}}).memory.scope ==
        AcScope::submodule);
  CHECK(says(error({{"--ac", "selective"}, {"--ac-scope", "submodule"}}),
             {"--ac selective --ac-scope submodule", "full"}));
}

TEST_CASE("the global batch is batch x micro-batches x ranks, whichever of them is left open") {
  const auto run = [](OptionList list) { return resolve_options(list).run; };
  CHECK(run({{"--global-batch", "64"}, {"--batch", "4"}, {"--world", "8"}}).grad_accum == 2);
  CHECK(run({{"--global-batch", "64"}, {"--grad-accum", "4"}, {"--world", "8"}}).batch == 2);
  CHECK(run({{"--global-batch", "64"}, {"--world", "8"}}).grad_accum == 8);
  CHECK(run({{"--global-batch", "16"}, {"--batch", "8"}, {"--grad-accum", "2"}}).batch == 8);
  CHECK(says(
      error({{"--global-batch", "8"}, {"--tp", "4"}, {"--world", "2"}}),
      {"--world 2 is not divisible by --tp 4", "multiple of 4"}));  // no rank is left that has data
  CHECK(error({{"--global-batch", "60"}, {"--batch", "4"}, {"--world", "8"}}) ==
        "--global-batch 60 --batch 4 --world 8: not a multiple of 32 sequences; try 32 or 64");
  CHECK(error({{"--global-batch", "3"}, {"--world", "8"}}).find("try 8") != std::string::npos);
  CHECK(error({{"--global-batch", "60"}, {"--batch", "8"}, {"--grad-accum", "2"}})
            .find("they make 16 sequences per step") != std::string::npos);
}

TEST_CASE("numbers are read to their last character, within their range") {
  CHECK(says(error({{"--batch", "0"}}), {"--batch 0", "at least 1"}));
  CHECK(says(error({{"--batch", "-3"}}), {"--batch -3", "at least 1"}));
  CHECK(says(error({{"--batch", "8x"}}), {"--batch 8x", "whole number", "did you mean 8?"}));
  CHECK(says(error({{"--batch", "1.5"}}), {"whole number"}));
  CHECK(says(error({{"--batch", " 8"}}), {"whole number"}));
  CHECK(says(error({{"--batch", "+8"}}), {"whole number"}));
  CHECK(says(error({{"--batch", ""}}), {"--batch", "needs a value"}));
  CHECK(says(error({{"--seq", "99999999999999999999"}}), {"at most 2147483648"}));
  CHECK(says(error({{"--seq", "-99999999999999999999"}}), {"at least 1"}));
  CHECK(says(error({{"--world", "1048577"}}), {"at most 1048576"}));
  CHECK(says(error({{"--grad-accum", "0"}}), {"--grad-accum 0"}));
  CHECK(resolve({{"--seq", "2147483648"}}).run.seq == 2147483648);
}

TEST_CASE("numbers as people write them: 8k of a context, 1e3, and nothing else") {
  CHECK(resolve({{"--seq", "8k"}}).run.seq == 8192);
  CHECK(resolve({{"--seq", "128K"}}).run.seq == 131072);
  CHECK(resolve({{"--seq", "1M"}}).run.seq == 1048576);
  CHECK(resolve({{"--batch", "1e3"}}).run.batch == 1000);
  CHECK(resolve({{"--loss", "chunked:1k"}}).memory.chunk_tokens == 1024);
  CHECK(says(error({{"--batch", "1.5e0"}}), {"whole number"}));
  CHECK(says(error({{"--batch", "1e99"}}), {"--batch 1e99"}));
  CHECK(says(error({{"--seq", "8kk"}}), {"whole number"}));
  CHECK(says(error({{"--batch", "-1e3"}}), {"--batch -1e3"}));
  CHECK(says(error({{"--world", "2M"}}), {"--world 2M", "at most 1048576"}));
}

TEST_CASE("names of devices and frameworks are read in any case, paths as they are") {
  CHECK(resolve({{"--gpu", "H100"}}).device.gpu == "h100");
  CHECK(resolve({{"--gpu", "A100-80GB"}}).device.gpu == "a100-80gb");
  CHECK(resolve({{"--gpu", "./Mine.json"}}).device.gpu == "./Mine.json");
  CHECK(resolve({{"--framework", "TorchTitan"}}).runtime.framework == "torchtitan");
  CHECK(resolve({{"--framework", "TorchTitan"}}).memory.ac == AcMode::selective);
}

TEST_CASE("arguments of modes are read as strictly") {
  CHECK(says(error({{"--ac", "grouped:0"}}), {"--ac grouped:0: K must be at least 1"}));
  CHECK(says(error({{"--ac", "grouped"}}), {"grouped:2"}));
  CHECK(says(error({{"--ac", "grouped:"}}), {"whole number"}));
  CHECK(says(error({{"--ac", "every:2:3"}}), {"whole number", "every:2"}));
  CHECK(says(error({{"--ac", "sqrt:3"}}), {"takes no argument"}));
  CHECK(says(error({{"--ac", "first:0"}}), {"--ac first:0: N must be at least 1"}));
  for (const char* parts : {"modules", "modules:", "modules:mlp+", "modules:mlp,moe"})
    CHECK(says(error({{"--ac", parts}}), {"modules needs parts with + between them", "moe_act"}));
  CHECK(says(error({{"--ac", "memory-budget"}}), {"memory-budget needs a share from 0 to 1"}));
  CHECK(says(error({{"--ac", "memory-budget:1.5"}}), {"--ac memory-budget:1.5", "from 0 to 1"}));
  CHECK(says(error({{"--ac", "memory-budget:half"}}), {"--ac half", "must be a decimal number"}));
  CHECK(says(error({{"--ac", "budget"}}), {"budget:40GiB"}));
  CHECK(says(error({{"--ac", "budget:0"}}), {"positive"}));
  CHECK(says(error({{"--ac", "selectiv"}}), {"did you mean selective?"}));
  CHECK(says(error({{"--loss", "chunked"}}), {"chunked:1024"}));
  CHECK(says(error({{"--loss", "chunked:0"}}), {"TOKENS must be at least 1"}));
  CHECK(says(error({{"--loss", "ce:1"}}), {"takes no argument"}));
  CHECK(says(error({{"--loss", "lcce"}}), {"did you mean lc-ce?"}));
  CHECK(says(error({{"--loss", "ce-compile"}}), {"did you mean ce-compiled?"}));
  CHECK(says(error({{"--shard", "fsdp"}}), {"did you mean fsdp2?"}));
}

TEST_CASE("--network is a network's name or the Gbit/s of one GPU, --node-size a number of ranks") {
  CHECK(resolve({}).layout.network_gbps == 0);  // the device's
  CHECK(resolve({}).layout.node_size == 0);
  CHECK(resolve(with(eight_ranks, {{"--network", "ndr"}})).layout.network_gbps == 400);
  CHECK(resolve(with(eight_ranks, {{"--network", "efa-p4d"}})).layout.network_gbps == 50);
  CHECK(resolve(with(eight_ranks, {{"--network", "12.5"}})).layout.network_gbps == 12.5);
  for (const char* ten : {"10gbe", "10Gbps", "10GbE", "10gbit", "10g"})
    CHECK(resolve(with(eight_ranks, {{"--network", ten}})).layout.network_gbps == 10);
  CHECK(resolve(with(eight_ranks, {{"--node-size", "4"}})).layout.node_size == 4);
  CHECK(says(error({{"--network", "infiniband"}}),
             {"--network infiniband", "edr, hdr, ndr, xdr, efa-p4d, efa-p5", "Gbit/s"}));
  CHECK(says(error({{"--network", "0.01"}}), {"--network 0.01", "from 0.1 to 100000 Gbit/s"}));
  // 0 is the device's, as it stands in a saved configuration
  CHECK(resolve(with(eight_ranks, {{"--network", "0"}})).layout.network_gbps == 0);
  for (const char* value : {"", "-5", "1e3", "nan", "1.2.3", "400x", "gbe"})
    CHECK(says(error({{"--network", value}}), {"--network"}));
  CHECK(says(error({{"--node-size", "-1"}}), {"--node-size -1"}));
}

TEST_CASE("dropout and capacity factor are finite and in range") {
  CHECK(resolve({{"--dropout", "0.1"}}).run.dropout == doctest::Approx(0.1));
  CHECK(resolve({{"--capacity-factor", "1.25"}}).run.capacity_factor == doctest::Approx(1.25));
  for (const char* value : {"1", "-0.1", "nan", "inf", "0.1x", "", "+0.1", " 0.1", "0.1 ",
                            "0x0.1p0", "1e999", "1e-999", "-", "e1"})
    CHECK(says(error({{"--dropout", value}}), {"--dropout"}));
  for (const char* value : {".25", "2.5e-1", "0.250", "25e-2"})
    CHECK(resolve({{"--dropout", value}}).run.dropout == 0.25);
  for (const char* value : {"0", "-1", "1e9", "nan", "much"})
    CHECK(says(error({{"--capacity-factor", value}}), {"--capacity-factor"}));
}

TEST_CASE("sizes have units, decimals are exact") {
  CHECK(parse_size("--x", "40GiB") == 40LL << 30);
  CHECK(parse_size("--x", "16GB") == 16'000'000'000);
  CHECK(parse_size("--x", "1.5TiB") == 3LL << 39);
  CHECK(parse_size("--x", "0.5kB") == 500);
  CHECK(parse_size("--x", "123456") == 123456);
  CHECK(parse_size("--x", "9223372036854775807") == 9223372036854775807);
  const auto refused = [](const char* text) {
    try {
      static_cast<void>(parse_size("--limit", text));
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  CHECK(parse_size("--x", "40gb") == 40'000'000'000);
  CHECK(parse_size("--x", "2gib") == 2LL << 30);
  CHECK(says(refused("40G"), {"--limit 40G", "GiB or GB"}));
  CHECK(says(refused("9223372036854775808"), {"at most"}));
  CHECK(says(refused("8388608TiB"), {"at most"}));
  for (const char* text : {"", "GiB", "-1GiB", "1.GiB", "1.5", "1.1234567GiB", "1 GiB", "1e3"})
    CHECK(says(refused(text), {"--limit"}));
}

TEST_CASE("words that are not known are named with the nearest known one") {
  CHECK(says(error({{"--framework", "torchtitn"}}),
             {"--framework torchtitn", "did you mean torchtitan?"}));
  CHECK(says(error({{"--kernels", "fusedd"}}), {"did you mean fused?"}));
  CHECK(says(error({{"--optimizer", "adam"}}), {"did you mean adamw?"}));
  CHECK(says(error({{"--attn", "flash2"}}), {"did you mean flash?"}));
  CHECK(says(error({{"--param-dtype", "bf61"}}), {"did you mean bf16?"}));
  CHECK(says(error({{"--alloc-conf", "expandable_segments"}}), {"expandable_segments:True"}));
  CHECK(says(error({{"--bacth", "8"}}), {"--bacth: unknown option", "did you mean --batch?"}));
  CHECK(says(error({{"--ac-scope", "module"}}), {"submodule"}));
}

TEST_CASE("a flag takes no value") {
  CHECK(says(error({{"--force", "yes"}}), {"--force yes", "takes no value"}));
  CHECK(resolve({{"--force", ""}}).runtime.force);
  CHECK(resolve({{"--alloc-conf", "expandable_segments:True"}}).runtime.expandable_segments);
  CHECK(resolve({{"--no-sync", ""}, {"--world", "2"}, {"--shard", "ddp"}}).layout.no_sync);
}

TEST_CASE("autocast alone is bf16, over fp32 parameters unless they are given") {
  for (const char* value : {"", "bf16"}) {
    const StepConfig c = resolve({{"--autocast", value}});
    CHECK(c.precision.autocast);
    CHECK(c.precision.param_dtype == DType::f32);
    CHECK(c.precision.compute_dtype == DType::bf16);
    CHECK(c.precision.reduce_dtype == DType::f32);
  }
  CHECK(resolve({{"--autocast", ""}, {"--param-dtype", "bf16"}}).precision.param_dtype ==
        DType::bf16);
  CHECK_FALSE(resolve({{"--autocast", "none"}}).precision.autocast);
  CHECK(says(error({{"--autocast", "bf61"}}), {"did you mean bf16?"}));
}

TEST_CASE("TorchTitan runs autocast where FSDP is off, and nothing where it is on") {
  const OptionList titan = {{"--framework", "torchtitan"}};
  CHECK(resolve(titan).precision.autocast);
  CHECK(resolve(titan).precision.compute_dtype == DType::bf16);
  CHECK(resolve(with(titan, {{"--world", "8"}, {"--shard", "ddp"}})).precision.autocast);
  CHECK_FALSE(resolve(with(titan, {{"--world", "8"}})).precision.autocast);
  CHECK_FALSE(resolve(with(titan, {{"--compute-dtype", "fp32"}})).precision.autocast);
  CHECK_FALSE(resolve(with(titan, {{"--autocast", "none"}})).precision.autocast);
}

TEST_CASE("options of adapters ask for adapters, and say what they take") {
  CHECK(says(error({{"--quantize", "nf4"}}), {"--quantize nf4", "frozen base", "--lora RANK"}));
  CHECK(says(error({{"--lora-targets", "q_proj"}}), {"--lora-targets q_proj", "--lora RANK"}));
  CHECK(says(error({{"--lora", "-1"}}), {"--lora -1"}));
  CHECK(says(error({{"--lora", "8"}, {"--quantize", "fp4"}}), {"--quantize fp4", "nf4"}));
  CHECK(says(error({{"--lora", "8"}, {"--lora-targets", "q_proj,,v_proj"}}),
             {"--lora-targets q_proj,,v_proj", "all-linear"}));
  CHECK(says(error({{"--lora", "8"}, {"--lora-dropout", "1"}}), {"--lora-dropout 1"}));
  CHECK(resolve({{"--lora", "8"}, {"--lora-targets", "W_pack"}}).adapters.targets == "W_pack");
}

TEST_CASE("transformers' own names of kernels and optimizers are answered with the option's") {
  CHECK(says(error({{"--attn", "sdpa"}}), {"--attn sdpa", "transformers' sdpa is auto"}));
  CHECK(says(error({{"--optimizer", "paged_adamw_8bit"}}), {"is paged-adamw-8bit"}));
}

TEST_CASE("--world counts all ranks: with --tp T, N / T of them see different data") {
  const StepConfig alone = resolve({{"--world", "4"}, {"--tp", "4"}});
  CHECK(alone.layout.shard == Sharding::none);
  CHECK(alone.layout.data_ranks() == 1);
  const auto again = options_of(alone);
  REQUIRE(again);
  CHECK(resolve(*again) == alone);
  const StepConfig both = resolve({{"--world", "8"}, {"--tp", "2"}, {"--global-batch", "32"}});
  CHECK(both.layout.shard == Sharding::fsdp2);
  CHECK(both.layout.data_ranks() == 4);
  CHECK(both.run.grad_accum == 8);
  CHECK(says(error({{"--tp", "8"}}), {"--tp 8", "--world N"}));
  CHECK(says(error({{"--world", "8"}, {"--tp", "2"}, {"--shard", "none"}}),
             {"--shard none", "--world 8 --tp 2"}));
  CHECK(
      says(error({{"--world", "4"}, {"--tp", "4"}, {"--shard", "fsdp2"}}), {"--world 8 or more"}));
  CHECK(says(error({{"--world", "8"}, {"--no-loss-parallel", ""}}), {"give --tp T"}));
}

TEST_CASE("what is out of scope is refused by name, with the reason") {
  CHECK(says(error({{"--pp", "2"}}), {"--pp 2", "give --world N"}));
  CHECK(says(error({{"--pp", "2"}, {"--world", "3"}}),
             {"--world 3 is not divisible by --pp 2", "multiple of 2"}));
  CHECK(says(error({{"--pp-rank", "1"}}), {"--pp 1 --pp-rank 1", "give --pp N"}));
  CHECK(says(error({{"--pp", "2"}, {"--world", "2"}, {"--pp-schedule", "zb2"}}),
             {"--pp-schedule zb2", "zb1", "zbv", "dualpipev"}));
  CHECK(says(error({{"--pp", "2"}, {"--world", "2"}, {"--pp-schedule", "zbv:3"}}),
             {"--pp-schedule zbv:3"}));
  CHECK(says(error({{"--pp", "2"}, {"--world", "2"}, {"--pp-schedule", "zb1:1"}}),
             {"--pp-schedule zb1:1", "2"}));
  CHECK(says(error({{"--pp", "2"}, {"--world", "2"}, {"--pp-schedule", "interleaved"}}),
             {"--pp-schedule interleaved", "interleaved:2"}));
  CHECK(says(error({{"--pp", "2"}, {"--world", "2"}, {"--pp-layers", "2,,2"}}),
             {"--pp-layers 2,,2", "6,6,5"}));
  for (const char* size : {"448", "448x", "x448", "0x448", "448x70000", "448*448"})
    CHECK(says(error({{"--images", "1"}, {"--image-pixels", size}}), {"--image-pixels"}));
  CHECK(says(error({{"--images", "1"}, {"--image-pixels", "448"}}), {"such as 448x672"}));
  for (const char* parts : {"vit", "tower,", "tower,,decoder", ","})
    CHECK(says(error({{"--images", "1"}, {"--freeze", parts}}),
               {"--freeze", "tower, projector and decoder"}));
  CHECK(says(error({{"--freeze", "tower"}}), {"--images 0 --freeze tower", "give --images N"}));
  CHECK(says(error({{"--tower-ac", ""}}), {"--images 0", "--tower-ac", "give --images N"}));
  CHECK(says(error({{"--cp", "2"}}), {"--cp 2: give --world N"}));
  CHECK(says(error({{"--cp-method", "alltoall"}}), {"--cp 1 --cp-method alltoall", "give --cp N"}));
  CHECK(says(error({{"--cp-rank", "1"}}), {"--cp 1 --cp-rank 1", "give --cp N"}));
  CHECK(
      says(error({{"--cp", "2"}, {"--world", "2"}, {"--cp-method", "ulysses"}, {"--cp-rank", "1"}}),
           {"--cp-method ulysses --cp-rank 1", "all hold alike", "leave it out"}));
  CHECK(says(error({{"--cp", "3"}, {"--world", "8"}, {"--tp", "2"}}),
             {"--world 8 is not divisible by --cp 3 x --tp 2", "a multiple of 6"}));
  CHECK(says(error({{"--optimizer-instances", "2"}, {"--world", "4"}, {"--shard", "ddp"}}),
             {"--shard ddp --optimizer-instances 2", "--shard zero1"}));
  CHECK(says(error({{"--ep", "8"}}),
             {"--ep 8", "--shard fsdp2", "--transformer-impl transformer_engine"}));
  CHECK(says(error({{"--fp8", "int8"}}), {"--fp8 int8", "tensorwise"}));
  CHECK(says(error({{"--param-dtype", "fp8"}}), {"FP8", "--fp8 tensorwise"}));
}

TEST_CASE("a hostile value is shortened and escaped in the message") {
  const std::string text = error({{"--ac", "\x1b[31m" + std::string(100000, 'x')}});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.size() < 400);
}

TEST_CASE(
    "hf's loop holds a step's output through the next forward unless something else is said") {
  CHECK(resolve({}).memory.held_until_next);
  for (const char* by_hand : {"--hold-output", "--no-hold-output"}) {
    CHECK_FALSE(resolve({{by_hand, ""}}).memory.held_until_next);
    CHECK(resolve({{by_hand, ""}, {"--held-until", "next-forward"}}).memory.held_until_next);
  }
  CHECK_FALSE(resolve({{"--held-until", "backward"}}).memory.held_until_next);
  for (const char* frames : {"hf-trainer", "trl", "torchtitan", "automodel"})
    CHECK_FALSE(resolve({{"--framework", frames}}).memory.held_until_next);
}

TEST_CASE("the frozen base of an adapter stays in bf16 under transformers' Trainer") {
  const OptionList trainer{{"--framework", "hf-trainer"}};
  CHECK(resolve(trainer).precision.param_dtype == DType::f32);
  for (const OptionList& layout :
       {OptionList{}, OptionList{{"--world", "2"}, {"--shard", "fsdp2"}}}) {
    const OptionList adapted = with(with(trainer, {{"--lora", "16"}}), layout);
    CHECK(resolve(adapted).precision.param_dtype == DType::bf16);
    CHECK(resolve(adapted).adapters.dtype == DType::f32);  // what is trained is cast
    CHECK(resolve(with(adapted, {{"--param-dtype", "fp32"}})).precision.param_dtype == DType::f32);
  }
}

TEST_CASE("checkpoints are reentrant where PEFT's kbit preparation leaves PyTorch's default") {
  const OptionList kbit{{"--lora", "16"}, {"--quantize", "int8"}, {"--kbit-prepare", ""}};
  CHECK(resolve(with(kbit, {{"--ac", "full"}})).memory.reentrant);
  CHECK_FALSE(resolve(with(kbit, {{"--ac", "full"}, {"--no-ac-reentrant", ""}})).memory.reentrant);
  CHECK_FALSE(resolve(kbit).memory.reentrant);
  CHECK_FALSE(resolve({{"--ac", "full"}}).memory.reentrant);
  CHECK(resolve({{"--ac", "full"}, {"--ac-reentrant", ""}}).memory.reentrant);
  CHECK_THROWS_WITH_AS(resolve({{"--ac-reentrant", ""}}),
                       "--ac none --ac-reentrant: nothing is checkpointed; use --ac full, or drop "
                       "--ac-reentrant",
                       UserError);
}

TEST_CASE("options of one kind of sharding are refused beside another") {
  const OptionList ddp{{"--world", "2"}, {"--shard", "ddp"}};
  CHECK_FALSE(resolve(ddp).layout.bucket_views);  // PyTorch's and accelerate's default
  CHECK(resolve(with(ddp, {{"--gradient-as-bucket-view", ""}})).layout.bucket_views);
  for (const auto& [option, value] : OptionList{{"--backward-prefetch", "post"},
                                                {"--overlap-comm", ""},
                                                {"--reshard-after-forward", "false"}})
    CHECK_THROWS_AS(resolve(with(ddp, {{option, value}})), UserError);
  const auto fsdp1 = [](const char* framework) {
    return resolve({{"--framework", framework}, {"--world", "2"}, {"--shard", "fsdp1"}})
        .layout.backward_prefetch;
  };
  CHECK(fsdp1("hf") == BackwardPrefetch::pre);  // what accelerate config writes
  CHECK(fsdp1("hf-trainer") == BackwardPrefetch::none);
  const OptionList fsdp2{{"--world", "8"}, {"--shard", "fsdp2"}};
  CHECK_FALSE(
      resolve(with(fsdp2, {{"--reshard-after-forward", "false"}})).layout.reshard_after_forward);
  CHECK(resolve(with(fsdp2, {{"--reshard-after-forward", "4"}})).layout.reshard_to == 4);
  CHECK_THROWS_AS(resolve(with(fsdp2, {{"--reshard-after-forward", "1"}})), UserError);
}

TEST_CASE("a task of pairs settles its reference and its loss, and says what it cannot take") {
  const OptionList dpo = {{"--framework", "trl"}, {"--task", "dpo"}};
  CHECK(resolve(dpo).task.reference == Reference::model);
  CHECK(resolve(with(dpo, {{"--lora", "16"}})).task.reference == Reference::adapter);
  CHECK(resolve(dpo).memory.loss == LossKind::tiled);
  CHECK(resolve({{"--framework", "trl"}, {"--task", "orpo"}}).memory.loss == LossKind::ce);
  CHECK(resolve({{"--framework", "trl"}}).task.kind == Task::sft);
  CHECK(says(error({{"--task", "dpo"}}), {"--framework hf --task dpo", "use --framework trl"}));
  CHECK(says(error({{"--framework", "trl"}, {"--task", "embed"}}),
             {"--task embed", "not planned yet",
              "dpo, kto, orpo, simpo, reward, grpo, rloo, ppo and distillation"}));
  CHECK(says(error({{"--framework", "trl"}, {"--task", "dpp"}}), {"--task dpp", "dpo"}));
  CHECK(says(error({{"--framework", "trl"}, {"--ref", "model"}}), {"--task sft --ref model"}));
  CHECK(says(error(with(dpo, {{"--ref", "adapter"}})), {"--ref adapter", "--lora RANK"}));
  CHECK(says(error(with(dpo, {{"--ref", "none"}})), {"--ref none", "--task orpo or simpo"}));
  CHECK(resolve(with(dpo, {{"--loss", "ce"}})).memory.loss == LossKind::ce);  // TRL 1.14
  CHECK(says(error(with(dpo, {{"--loss", "lc-ce"}})), {"--task dpo --loss lc-ce", "--loss ce"}));
  CHECK(says(error({{"--framework", "trl"}, {"--task", "reward"}, {"--prompt", "8"}}),
             {"--task reward --prompt 8",
              "use --task dpo, kto, orpo, simpo, grpo, rloo, ppo or distillation"}));
}

TEST_CASE("GRPO has no reference unless one is asked for, needs a prompt, and says who writes") {
  const OptionList kto = {{"--framework", "trl"}, {"--task", "kto"}, {"--batch", "4"}};
  CHECK(resolve(kto).task.reference == Reference::model);
  CHECK(resolve(with(kto, {{"--lora", "8"}})).task.reference == Reference::adapter);
  CHECK(resolve(kto).rows() == 4);  // not pairs
  CHECK(says(error({{"--framework", "trl"}, {"--task", "kto"}}), {"--batch 1", "use --batch 2"}));
  CHECK(says(error(with(kto, {{"--ref", "none"}})), {"--ref none", "precomputed"}));
  const OptionList grpo = {{"--framework", "trl"}, {"--task", "grpo"}, {"--prompt", "64"}};
  CHECK(resolve(grpo).task.reference == Reference::none);
  CHECK(resolve(grpo).task.rollout == Rollout::generate);
  CHECK(resolve(grpo).memory.loss == LossKind::tiled);
  CHECK(resolve(with(grpo, {{"--rollout", "vllm:0.45"}})).task.engine_share == 0.45);
  CHECK(rollout_option(resolve(with(grpo, {{"--rollout", "vllm:0.45"}}))) == "vllm:0.45");
  CHECK(says(error({{"--framework", "trl"}, {"--task", "grpo"}}), {"--task grpo", "--prompt N"}));
  CHECK(says(error(with(grpo, {{"--ref", "precomputed"}})), {"--ref precomputed", "--ref none"}));
  CHECK(says(error(with(grpo, {{"--ref", "adapter"}})), {"--ref adapter", "--lora RANK"}));
  CHECK(says(error(with(grpo, {{"--rollout", "vllm"}})), {"its share of the device", "vllm:0.3"}));
  CHECK(says(error(with(grpo, {{"--rollout", "vllm:1.5"}})), {"above 0 and below 1"}));
  CHECK(says(error(with(grpo, {{"--rollout", "served:2"}})), {"takes no argument"}));
  CHECK(says(error(with(grpo, {{"--rollout", "sglang"}})), {"generate, vllm:SHARE"}));
  CHECK(says(error({{"--framework", "trl"}, {"--rollout", "served"}}),
             {"--task sft --rollout served", "use --task grpo"}));
}

TEST_CASE("distillation has a teacher, no reference, and no autocast where nothing is sharded") {
  const OptionList plain = {{"--framework", "trl"}, {"--task", "distillation"}, {"--prompt", "64"}};
  const OptionList taught = with(plain, {{"--teacher", "llama-3.1-8b"}});
  const StepConfig c = resolve(taught);
  CHECK(c.task.teacher.name == "llama-3.1-8b");
  CHECK(c.task.teacher.model->layers == 32);
  CHECK(c.task.reference == Reference::none);
  CHECK(c.memory.loss == LossKind::tiled);
  CHECK_FALSE(c.precision.autocast);
  CHECK(c.precision.compute_dtype == DType::f32);  // as both are loaded, whatever bf16=True says
  CHECK(resolve(with(taught, {{"--param-dtype", "bf16"}})).precision.compute_dtype == DType::bf16);
  const OptionList zero2 = {{"--world", "2"}, {"--shard", "zero2"}};
  CHECK(resolve(with(taught, zero2)).precision.param_dtype == DType::bf16);  // DeepSpeed casts it
  CHECK(resolve(with(taught, {{"--completion", "100"}})).run.seq == 164);
  CHECK(says(error(plain), {"--task distillation", "give --teacher MODEL"}));
  // A profile that was written elsewhere is still read.
  StepConfig written;
  const OptionRow& row = *find_option("--teacher");
  row.set(row, OptionValue{std::string("not/here.json")}, written);
  CHECK(written.task.teacher.name == "not/here.json");
  CHECK(written.task.teacher.model == nullptr);
  CHECK(says(error(with(plain, {{"--teacher", "no-such-model"}})), {"no-such-model"}));
  CHECK(says(error(with(taught, {{"--ref", "model"}})), {"--task distillation --ref model"}));
  CHECK(says(error(with(taught, {{"--group", "4"}})), {"--group", "use --task grpo, rloo or ppo"}));
  CHECK(says(error({{"--framework", "trl"}, {"--teacher", "llama-3.1-8b"}}),
             {"--task sft --teacher", "use --task distillation"}));
}

TEST_CASE("RLOO has a reference unless it is told to have none, as its beta is 0.05") {
  const OptionList rloo = {{"--framework", "trl"}, {"--task", "rloo"}, {"--prompt", "64"}};
  CHECK(resolve(rloo).task.reference == Reference::model);
  CHECK(resolve(with(rloo, {{"--lora", "8"}})).task.reference == Reference::adapter);
  CHECK(resolve(with(rloo, {{"--ref", "none"}})).task.reference == Reference::none);
  CHECK(resolve(with(rloo, {{"--completion", "100"}})).run.seq == 164);
  CHECK(resolve(rloo).memory.loss == LossKind::tiled);
  CHECK(says(error({{"--framework", "trl"}, {"--task", "rloo"}}), {"--task rloo", "--prompt N"}));
  CHECK(says(error(with(rloo, {{"--ref", "precomputed"}})), {"--task rloo", "--ref none"}));
  CHECK(says(error(with(rloo, {{"--group", "3"}})), {"--group 3", "no multiple of it"}));
  CHECK(says(error({{"--framework", "verl"}, {"--task", "rloo"}, {"--prompt", "64"}}),
             {"--framework verl --task rloo", "use --framework trl"}));
}
