#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

StepConfig adapted(Quantization how = Quantization::none) {
  StepConfig c = small_config();
  c.adapters.rank = 8;
  c.adapters.targets = "all-linear";
  c.adapters.quantize = how;
  return c;
}

double matmul_flops(const StepConfig& config) {
  const passes::StepProgram step = passes::build_step(small_model(), config);
  double total = 0;
  for (const ir::Op& op : step.program.ops)
    if (ir::row(op.kind).cost == ir::CostClass::matmul) total += ir::flops(step.program, op);
  return total;
}

}  // namespace

TEST_CASE("adapters over a frozen base: they alone have gradients and optimizer states") {
  const passes::StepProgram step = passes::build_step(small_model(), adapted());
  std::int64_t trained = 0, frozen = 0;
  for (const passes::Parameter& parameter : step.parameters) {
    (parameter.trained ? trained : frozen) += step.program.value(parameter.value).shape.numel();
    CHECK((parameter.gradient != ir::no_id) == parameter.trained);
  }
  // q, o: 64 to 64; k, v: 64 to 32; gate, up: 64 to 160; down: 160 to 64; rank 8, four blocks
  CHECK(trained == 4 * 8 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 160)));
  CHECK(frozen == model::parameter_count(small_model()));
  CHECK(step.optimized.size() == 4 * 7 * 2);
  CHECK(step.optimizer_states.size() == 3 * step.optimized.size());
}

TEST_CASE("PEFT's other methods train what its own layers declare") {
  struct Case {
    const char* adapter;
    std::int64_t trained;
  };
  // four blocks of q, o: 64 to 64; k, v: 64 to 32; gate, up: 64 to 160; down: 160 to 64
  const Case cases[] = {
      {"ia3", 4 * (32 + 32 + 160)},  // outputs of k and v, the input of down
      {"ln-tuning", (4 * 2 + 1) * 64},
      {"prompt-tuning:20", 20 * 64},
      {"p-tuning:20", 20 * 64 + 3 * (64 * 64 + 64)},
      {"prefix-tuning:20", 20 * 4 * 2 * 32},
      {"loha:8", 4 * 2 * 8 * ((64 + 64) + (64 + 32))},  // of q and v
      // q: 8 x 8 times (8 x 2)(2 x 8); v: 4 x 8 times (8 x 2)(2 x 8)
      {"lokr:2", 4 * (8 * 8 + 4 * 8 + 2 * 2 * (8 + 8))},
      {"lokr:32:4", 4 * (4 * 4 + 16 * 16 + 4 * 4 + 8 * 16)},
      {"vera:16", 4 * ((64 + 16) + (32 + 16))},
      {"miss:16", 4 * 16 * (64 + 32)},
      {"miss:16:8", 4 * 2 * 16 * 8},
      {"oft:16", 4 * 2 * (64 / 16) * (16 * 15 / 2)},  // both have 64 inputs
      // A, B, E, and the rank
      {"adalora:8", 4 * (8 * (64 + 64) + 8 * (64 + 32) + 2 * (8 + 1))},
      {"trainable-tokens:10", 10 * 64},
      {"glora:8", 4 * 2 * 8 * ((64 + 64) + (64 + 32))},
      {"delora:8", 4 * (8 * ((64 + 64) + (64 + 32)) + 2)},
  };
  for (const Case& one : cases) {
    INFO(one.adapter);
    const StepConfig config = resolve_options({{"--adapter", one.adapter}, {"--seq", "32"}});
    CHECK(given_adapters(config) == std::string("--adapter ") + one.adapter);
    const passes::StepProgram step = passes::build_step(small_model(), config);
    std::int64_t trained = 0;
    for (const passes::Parameter& p : step.parameters)
      if (p.trained) trained += step.program.value(p.value).shape.numel();
    CHECK(trained == one.trained);
  }
}

TEST_CASE("LoRA of experts: matrices of each, of twice the rank where two weights are one") {
  constexpr std::int64_t rank = 8, experts = 8, wide = 32, shared = 48;
  constexpr std::int64_t attention = rank * (2 * (64 + 64) + 2 * (64 + 32)),
                         router = rank * (64 + experts),
                         gate_up = 2 * rank * experts * (64 + 2 * wide),
                         down = rank * experts * (wide + 64);
  struct Case {
    const char *family, *targets;
    std::int64_t trained;
  };
  // PEFT 0.21's get_nb_trainable_parameters of such a model
  const Case cases[] = {
      {"mixtral", "all-linear", 4 * (attention + router + gate_up + down)},
      {"mixtral", "w1,w2,w3", 4 * (gate_up + down)},
      {"mixtral", "experts.w2,gate", 4 * (router + down)},
      {"olmoe", "gate_proj,up_proj,down_proj", 4 * (gate_up + down)},
      {"gpt_oss", "all-linear", 4 * attention},
      {"qwen2_moe", "all-linear",
       4 * (attention + rank * (3 * (64 + shared) + 64 + 1))},  // its gate is a linear layer, too
      {"qwen2_moe", "down_proj", 4 * rank * (64 + shared)},
  };
  for (const Case& one : cases) {
    INFO(one.family, " ", one.targets);
    model::ModelSpec m = small_model();
    m.family = one.family;
    with_mixture(m, experts, wide);
    if (m.family == "qwen2_moe") {
      m.moe->shared_intermediate = shared;
      m.moe->shared_gate = true;
    }
    StepConfig config = adapted();
    config.adapters.targets = one.targets;
    const passes::StepProgram step = passes::build_step(m, config);
    std::int64_t trained = 0;
    for (const passes::Parameter& p : step.parameters) {
      if (!p.trained) continue;
      trained += step.program.value(p.value).shape.numel();
      CHECK(p.gradient != ir::no_id);
    }
    CHECK(trained == one.trained);
  }
}

TEST_CASE("a method of PEFT's is named with its number where it needs one") {
  const auto refused = [](const char* adapter) -> std::string {
    try {
      static_cast<void>(resolve_options({{"--adapter", adapter}}));
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(refused("prompt-tuning").find("prompt-tuning:32") != std::string::npos);
  CHECK(refused("ia3:8").find("takes no argument") != std::string::npos);
  CHECK(refused("loha:0").find("at least 1") != std::string::npos);
  CHECK(refused("boft").find("prefix-tuning:TOKENS") != std::string::npos);
  CHECK(refused("vera") == "accepted");
}

TEST_CASE("quantized layers multiply as much as others do") {
  const double plain = matmul_flops(adapted());
  CHECK(matmul_flops(adapted(Quantization::nf4)) == plain);
  CHECK(matmul_flops(adapted(Quantization::nf4_double)) == plain);
  CHECK(matmul_flops(adapted(Quantization::int8)) == plain);
}

TEST_CASE("an input that several 8-bit layers keep is there once in the next step's forward") {
  StepConfig config = adapted(Quantization::int8);
  config.memory.hold_output = config.memory.held_until_next = true;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  std::vector<ir::StorageId> made;
  for (const passes::Carried& c : step.carried) made.push_back(step.program.storage_of(c.made));
  CHECK(made.size() > 4);
  std::sort(made.begin(), made.end());
  CHECK(std::adjacent_find(made.begin(), made.end()) == made.end());
}

TEST_CASE("a frozen LM head gets no gradient in a chunked loss, ours or Liger's") {
  const model::ModelSpec model = small_model();
  for (const Kernels kernels : {Kernels::eager, Kernels::fused}) {
    StepConfig config = adapted();
    config.memory.loss = LossKind::chunked;
    config.memory.chunk_tokens = 16;
    config.memory.kernels = kernels;
    const passes::StepProgram step = passes::build_step(model, config);
    for (const ir::Value& value : step.program.values) {
      const ir::Shape& s = value.shape;
      const bool of_head = s.rank() == 2 && s[0] == model.vocab && s[1] == model.hidden;
      if (of_head) CHECK(step.program.storage(value.storage).role == ir::Role::parameter);
    }
  }
}

TEST_CASE("a fused rotation has both gradients where only the queries have adapters") {
  // Windows that need a mask: keys are repeated for it, and must need a gradient like the queries.
  const model::ModelSpec model = model::load_model("gemma-3-1b");
  const StepConfig config = resolve_options(
      {{"--lora", "8"}, {"--kernels", "fused"}, {"--seq", "512"}, {"--gpu", "rtx-4090"}});
  const passes::StepProgram step = passes::build_step(model, config);
  int rotations = 0;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == ir::OpKind::rope_backward) {
      ++rotations;
      for (const ir::ValueId v : step.program.inputs(op)) CHECK(v != ir::no_id);
    }
  CHECK(rotations == model.layers);
}

TEST_CASE("autocast caches the casts of adapters and makes those of the frozen base anew") {
  StepConfig config = adapted();
  config.precision.autocast = true;
  config.precision.param_dtype = DType::f32;
  config.memory.ac = AcMode::full;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  const passes::Schedule schedule = passes::make_schedule(step);
  const ir::Program& p = step.program;
  int of_adapters = 0, of_base = 0;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    if (op.kind != ir::OpKind::cast || op.phase != ir::Phase::forward) continue;
    const ir::ValueId weight = p.input(op, 0);
    if (p.storage(p.storage_of(weight)).role != ir::Role::parameter) continue;
    const auto made = static_cast<std::size_t>(p.storage_of(p.output(op, 0)));
    const auto last = static_cast<std::size_t>(schedule.last_use[made]);
    const bool trained = p.value(weight).requires_grad;
    ++(trained ? of_adapters : of_base);
    if (op.module.block < 0) continue;  // the LM head's is saved
    if (trained)
      CHECK(p.ops[last].module.leaf == ir::Module::loss);
    else  // in a checkpointed block nothing saves it
      CHECK(p.ops[last].kind == ir::OpKind::mm);
  }
  CHECK(of_adapters == 4 * 7 * 2);
  CHECK(of_base == 4 * 7 + 1);
}

TEST_CASE("a fused backward that begins a recomputation writes over what that has made") {
  StepConfig config = adapted(Quantization::nf4);
  config.adapters.targets = "q_proj";
  config.memory.ac = AcMode::full;
  config.memory.kernels = Kernels::fused;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  const passes::Schedule schedule = passes::make_schedule(step);
  int projections = 0;
  for (const ir::Op& op : step.program.ops) {
    if (op.kind != ir::OpKind::mm_quantized || op.phase != ir::Phase::forward) continue;
    if (op.module.leaf != ir::Module::gate_proj && op.module.leaf != ir::Module::up_proj) continue;
    ++projections;
    const auto made = static_cast<std::size_t>(step.program.storage_of(step.program.output(op, 0)));
    CHECK(step.program.op(schedule.last_use[made]).phase == ir::Phase::forward);
  }
  CHECK(projections == 4 * 2);
}

TEST_CASE("TRL's LM head makes each tile of logits once forward and once backward") {
  model::ModelSpec model = small_model();
  model.vocab = 70000;  // three tiles of at most 32768 words
  StepConfig config = adapted();
  config.memory.loss = LossKind::tiled;
  config.run.batch = 5;
  config.run.seq = 1025;  // 5120 tokens that are predicted: two tiles of at most 4096
  const passes::StepProgram step = passes::build_step(model, config);
  std::array<int, ir::phase_count> tiles{};
  for (const ir::Op& op : step.program.ops) {
    if (op.kind != ir::OpKind::mm || op.module.leaf != ir::Module::loss) continue;
    const ir::Shape& tile = step.program.value(step.program.output(op, 0)).shape;
    CHECK(tile[0] <= 4096);
    CHECK(tile[1] <= 32768);
    ++tiles[static_cast<std::size_t>(op.phase)];
  }
  CHECK(tiles[static_cast<std::size_t>(ir::Phase::loss)] == 2 * 3);
  CHECK(tiles[static_cast<std::size_t>(ir::Phase::backward)] == 2 * 3);
}

TEST_CASE("torchtune's chunks: N products with the LM head, N losses, one gradient of the hidden") {
  model::ModelSpec model = small_model();
  StepConfig config = small_config();
  config.memory.loss = LossKind::chunked_logits;
  config.memory.chunk_tokens = 4;
  const passes::StepProgram step = passes::build_step(model, config);
  int products = 0, losses = 0, joined = 0;
  for (const ir::Op& op : step.program.ops) {
    const bool head = op.module.leaf == ir::Module::lm_head;
    if (op.kind == ir::OpKind::mm && head && op.phase < ir::Phase::backward) ++products;
    if (op.kind == ir::OpKind::nll_loss) ++losses;
    if (op.kind == ir::OpKind::cat && head && op.phase == ir::Phase::backward) {
      ++joined;
      CHECK(op.inputs == 4);
    }
  }
  CHECK(products == 4);
  CHECK(losses == 4);
  CHECK(joined == 1);
}

TEST_CASE("--kbit-prepare stores in fp32 what is not quantized, whatever was loaded") {
  const StepConfig config =
      resolve_options({{"--lora", "8"}, {"--quantize", "nf4"}, {"--kbit-prepare", ""}});
  CHECK(config.precision.param_dtype == DType::f32);
  CHECK_THROWS_AS(static_cast<void>(resolve_options({{"--lora", "8"},
                                                     {"--quantize", "nf4"},
                                                     {"--kbit-prepare", ""},
                                                     {"--param-dtype", "bf16"}})),
                  UserError);
}

TEST_CASE("SFTTrainer's adapters are bf16 over a quantized base alone") {
  const OptionList trl{{"--framework", "trl"}, {"--lora", "8"}};
  OptionList quantized = trl;
  quantized.emplace_back("--quantize", "nf4");
  CHECK(resolve_options(trl).adapters.dtype == DType::f32);
  CHECK(resolve_options(quantized).adapters.dtype == DType::bf16);
  quantized.emplace_back("--lora-dtype", "fp32");
  CHECK(resolve_options(quantized).adapters.dtype == DType::f32);
}

}  // namespace ac_advisor::test
