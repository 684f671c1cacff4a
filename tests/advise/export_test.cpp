// Key names and their meaning: the sources named at the head of each src/advise/export_*.cpp.
#include "ac_advisor/advise/export.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

using namespace ac_advisor;

namespace {

model::ModelSpec llama_1b() { return model::load_model("llama-3.2-1b"); }
model::ModelSpec llama_8b() { return model::load_model("llama-3.1-8b"); }

StepConfig eight_ranks(Sharding shard) {
  StepConfig c;
  c.run.batch = 8;
  c.layout.world = 8;
  c.layout.shard = shard;
  return c;
}

StepConfig with_ac(AcMode ac, std::int64_t arg = 0) {
  StepConfig c;
  c.memory.ac = ac;
  c.memory.ac_arg = arg;
  return c;
}

/// The text, then the notes.
std::string exported(const std::string& target, const model::ModelSpec& spec, const StepConfig& c) {
  const advise::ExportResult result = advise::export_setting(target, spec, c);
  std::string text = result.text;
  for (const std::string& note : result.notes) text += note + "\n";
  return text;
}

std::string error(const std::string& target, const model::ModelSpec& spec, const StepConfig& c) {
  try {
    static_cast<void>(advise::export_setting(target, spec, c));
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

bool says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (text.find(part) == std::string::npos) {
      MESSAGE(text << " lacks " << std::string(part));
      return false;
    }
  return true;
}

/// What the target takes at all: its own kernels, an untied model.
StepConfig plain(const std::string& target) {
  if (target == "verl")
    return resolve_options({{"--framework", "verl"}, {"--world", "8"}, {"--shard", "fsdp2"}});
  if (target == "llamafactory")
    return resolve_options({{"--framework", target},
                            {"--param-dtype", "bf16"},
                            {"--autocast", "none"},
                            {"--no-ac-reentrant", ""}});
  StepConfig c;
  if (target == "megatron") c.memory.kernels = Kernels::fused;
  if (target == "litgpt") {
    c.run.transformer_impl = TransformerImpl::litgpt;
    c.memory.wide_output = true;
    c.optimizer.kind = Optimizer::adamw_foreach;
  }
  if (target == "torchtune") {
    c.memory.loss = LossKind::chunked_logits;
    c.memory.chunk_tokens = 8;
  }
  return c;
}

}  // namespace

TEST_CASE("every target stamps its version and takes a plain setting") {
  CHECK(advise::export_targets() == std::vector<std::string>{"automodel", "deepspeed", "hf",
                                                             "litgpt", "llamafactory", "megatron",
                                                             "torchtitan", "torchtune", "verl"});
  for (const std::string& target : advise::export_targets()) {
    const auto result = advise::export_setting(target, llama_8b(), plain(target));
    CHECK(result.target == target);
    CHECK(result.version.find_first_of("0123456789") != std::string::npos);
    CHECK(result.text.back() == '\n');
  }
}

TEST_CASE("an unknown target is refused with the known ones") {
  CHECK(says(error("nanotron", llama_1b(), {}), {"nanotron", "automodel, deepspeed, hf"}));
}

TEST_CASE("what no framework has is refused by all") {
  for (const std::string& target : advise::export_targets()) {
    if (target == "litgpt" || target == "verl") continue;  // whose plans have none of it
    StepConfig c = plain(target);
    c.memory.ac = AcMode::budget;
    c.memory.ac_arg = 40LL << 30;
    CHECK(
        says(error(target, llama_8b(), c), {"--ac budget:40GiB has no equivalent", "each block"}));
    c = plain(target);
    c.layout.world = 8;
    c.layout.shard = Sharding::fsdp2;
    c.layout.fsdp_unit = FsdpUnit::segment;
    CHECK(says(error(target, llama_8b(), c), {"--fsdp-unit segment"}));
    c = plain(target);
    c.memory.loss = LossKind::ce_no_upcast;
    CHECK(says(error(target, llama_8b(), c), {"--loss ce-no-upcast"}));
    c = plain(target);
    c.optimizer.ema = true;
    CHECK(says(error(target, llama_8b(), c), {"--ema"}));
    c = plain(target);
    c.optimizer.in_backward = true;
    if (target != "torchtune")
      CHECK(says(error(target, llama_8b(), c), {"--optimizer-in-backward"}));
    c = plain(target);
    c.layout.world = 8;
    c.layout.shard = Sharding::ddp;
    c.compression.kind = Compression::bf16;
    if (target != "hf")
      CHECK(says(error(target, llama_8b(), c), {"--grad-compression bf16", "export to hf"}));
  }
}

TEST_CASE("packed documents are exported to transformers and TRL, and refused for others") {
  for (const std::string& target : advise::export_targets()) {
    if (target == "verl") continue;  // each of whose rows is a document
    StepConfig c = plain(target);
    c.run.packing = 8;
    c.run.attention = Attention::flash;
    if (target == "llamafactory") {
      CHECK(says(error(target, llama_8b(), c), {"--packing 8", "use --packing 1, one a row"}));
      c.run.packing = c.run.batch;
      CHECK(says(exported(target, llama_8b(), c), {"neat_packing: true", "flash_attn: fa2"}));
      continue;
    }
    if (target != "hf") {
      const bool planned = target != "litgpt" && target != "megatron" && target != "torchtune";
      CHECK(says(error(target, llama_8b(), c), {planned ? "export to hf" : "packed row"}));
      continue;
    }
    CHECK(says(exported(target, llama_8b(), c), {"per_device_train_batch_size: 8"}));
    c.runtime.framework = "trl";
    c.memory.loss = LossKind::tiled;
    c.memory.hold_output = false;
    c.run.batch = 2;
    CHECK(
        says(exported(target, llama_8b(), c), {"per_device_train_batch_size: 2", "packing: true"}));
  }
}

TEST_CASE(
    "GRPO is exported as TRL's configuration has it: lengths, who writes, whether a reference") {
  StepConfig c = plain("hf");
  c.runtime.framework = "trl";
  c.memory.loss = LossKind::tiled;
  c.memory.hold_output = false;
  c.task.kind = Task::grpo;
  c.task.prompt = 512;
  c.run.seq = 1536;
  const std::string alone = exported("hf", llama_8b(), c);
  CHECK(says(alone, {"trl.GRPOConfig", "max_completion_length: 1024"}));
  for (const char* absent : {"use_vllm", "beta", "max_length:"})
    CHECK(alone.find(absent) == std::string::npos);
  c.task.rollout = Rollout::vllm;
  c.task.engine_share = 0.3;
  c.task.reference = Reference::model;
  CHECK(says(exported("hf", llama_8b(), c), {"use_vllm: true", "vllm_mode: colocate",
                                             "vllm_gpu_memory_utilization: 0.3", "beta: 0.04"}));
}

TEST_CASE("RLOO is exported with its own beta, which is 0 where there is no reference") {
  StepConfig c = plain("hf");
  c.runtime.framework = "trl";
  c.memory.loss = LossKind::tiled;
  c.memory.hold_output = false;
  c.task.kind = Task::rloo;
  c.task.prompt = 512;
  c.task.group = 4;
  c.run.seq = 1536;
  CHECK(says(exported("hf", llama_8b(), c), {"trl.RLOOConfig", "max_completion_length: 1024",
                                             "num_generations: 4", "beta: 0.0\n", "RLOOTrainer"}));
  c.task.reference = Reference::model;
  CHECK(says(exported("hf", llama_8b(), c), {"beta: 0.05\n"}));
}

TEST_CASE("distillation is exported with its teacher, in the dtype that is planned") {
  StepConfig c = plain("hf");
  c.runtime.framework = "trl";
  c.memory.loss = LossKind::tiled;
  c.memory.hold_output = false;
  c.task.kind = Task::distillation;
  c.task.teacher = {"Qwen/Qwen3-8B", std::make_shared<const model::ModelSpec>(llama_8b())};
  c.task.prompt = 512;
  c.run.seq = 1536;
  const std::string text = exported("hf", llama_8b(), c);
  CHECK(says(text, {"trl.DistillationConfig", "max_completion_length: 1024",
                    "teacher_model_name_or_path: \"Qwen/Qwen3-8B\"", "dtype: bfloat16"}));
  for (const char* absent : {"num_generations:", "beta"})
    CHECK(text.find(absent) == std::string::npos);
}

TEST_CASE("autocast, clipping and optimizers are in each framework's own words") {
  StepConfig c;
  c.precision.autocast = true;
  c.precision.param_dtype = DType::f32;
  c.optimizer.clip_grad = 0.5;
  CHECK(says(exported("hf", llama_8b(), c), {"bf16: true", "max_grad_norm: 0.5"}));
  CHECK(says(exported("automodel", llama_8b(), c), {"autocast_dtype: bfloat16"}));
  CHECK(says(exported("deepspeed", llama_8b(), c),
             {"\"torch_autocast\"", "\"gradient_clipping\": 0.5"}));
  CHECK(says(exported("torchtitan", llama_8b(), c),
             {"mixed_precision_param = \"bfloat16\"", "max_norm = 0.5"}));
  c.memory.kernels = Kernels::fused;
  CHECK(says(error("megatron", llama_8b(), c), {"--autocast bf16", "--bf16"}));
  c = {};
  c.optimizer.kind = Optimizer::paged_adamw_8bit;
  CHECK(says(exported("hf", llama_8b(), c), {"optim: paged_adamw_8bit"}));
  CHECK(says(exported("automodel", llama_8b(), c), {"bitsandbytes.optim.PagedAdamW8bit"}));
  CHECK(says(error("torchtitan", llama_8b(), c), {"--optimizer paged-adamw-8bit"}));
  CHECK(says(error("deepspeed", llama_8b(), c), {"deepspeed.initialize(optimizer"}));
}

TEST_CASE("blocks are compiled by a switch of torchtitan's, by hand in hf, and nowhere else") {
  StepConfig c;
  c.memory.kernels = Kernels::compiled;
  CHECK(says(exported("torchtitan", llama_8b(), c),
             {"[compile]\nenable = true\ncomponents = [\"model\"]"}));
  c.memory.loss = LossKind::ce_compiled;
  CHECK(says(exported("torchtitan", llama_8b(), c), {"components = [\"model\", \"loss\"]"}));
  c.memory.kernels = Kernels::eager;
  CHECK(says(exported("torchtitan", llama_8b(), c), {"components = [\"loss\"]"}));
  CHECK(says(error("hf", llama_8b(), c), {"--loss ce-compiled", "use --loss ce"}));
  c.memory.kernels = Kernels::compiled;
  c.memory.loss = LossKind::ce;
  CHECK(says(exported("hf", llama_8b(), c), {"block.compile(fullgraph=True)"}));
  CHECK(says(error("deepspeed", llama_8b(), c), {"--kernels compiled", "torchtitan or hf"}));
  c.memory.compile_unit = CompileUnit::model;
  c.run.attention = Attention::cudnn;
  CHECK(says(exported("hf", llama_8b(), c), {"\ntorch_compile: true\n"}));
  CHECK_FALSE(says(exported("hf", llama_8b(), c), {"block.compile"}));
  CHECK(says(error("torchtitan", llama_8b(), c), {"--compile-unit model", "export to hf"}));
  c.memory.compile_unit = CompileUnit::block;
  c.memory.ac = AcMode::memory_budget;
  c.memory.memory_budget = 0.5;
  CHECK(says(error("torchtitan", llama_8b(), c),
             {"--ac memory-budget:0.5", "activation_memory_budget"}));
}

TEST_CASE("expandable segments are an environment variable everywhere") {
  for (const std::string& target : advise::export_targets()) {
    StepConfig c = plain(target);
    c.runtime.expandable_segments = true;
    CHECK(says(exported(target, llama_8b(), c), {"expandable_segments:True"}));
  }
}

TEST_CASE("automodel: the documented recipe") {
  StepConfig c = eight_ranks(Sharding::fsdp2);
  c.memory.kernels = Kernels::fused;
  c.memory.ac = AcMode::full;
  c.memory.loss = LossKind::lc_ce;
  c.layout.keep_last_block = true;
  CHECK(says(exported("automodel", llama_1b(), c),
             {"strategy: fsdp2", "activation_checkpointing: true", "output_hidden_states: true",
              "linear_ce.FusedLinearCrossEntropy", "local_batch_size: 8", "global_batch_size: 64",
              "reshard_after_forward: null", "torch_dtype: bfloat16", "use_liger_kernel: true",
              "reduce_dtype: bfloat16", "force_hf: true"}));
}

TEST_CASE("automodel: selective, hsdp, dtypes, attention") {
  StepConfig c = eight_ranks(Sharding::hsdp);
  c.layout.hsdp_shards = 4;
  c.memory.ac = AcMode::selective;
  c.precision.param_dtype = DType::f32;
  c.precision.reduce_dtype = DType::f32;
  c.run.attention = Attention::cudnn;
  CHECK(says(exported("automodel", llama_1b(), c),
             {"dp_replicate_size: 2", "activation_checkpointing: selective", "torch_dtype: float32",
              "param_dtype: bfloat16", "reduce_dtype: float32", "sdpa_method: [cudnn_attention]",
              "reshard_after_forward: true", "masked_ce.MaskedCrossEntropy"}));
}

TEST_CASE("automodel: sub-module checkpointing is that of its own implementations") {
  StepConfig c = eight_ranks(Sharding::fsdp2);
  c.memory.ac = AcMode::full;
  c.memory.scope = AcScope::submodule;
  const std::string text = exported("automodel", llama_1b(), c);
  CHECK(text.find("force_hf: true") == std::string::npos);
  model::ModelSpec mistral = llama_8b();
  mistral.family = "mistral";
  CHECK(says(error("automodel", mistral, c), {"--ac-scope submodule", "--ac-scope block"}));
}

TEST_CASE("automodel: its own adapters are the recipe's, PEFT's and DoRA are refused") {
  StepConfig c = eight_ranks(Sharding::fsdp2);
  c.runtime.framework = "automodel";
  c.adapters.rank = 16;
  c.adapters.dtype = DType::bf16;
  c.adapters.targets = "all-linear";
  CHECK(says(exported("automodel", llama_1b(), c),
             {"_target_: nemo_automodel.components._peft.lora.PeftConfig",
              "target_modules: \"*_proj\"", "dim: 16", "alpha: 32", "lora_dtype: bfloat16"}));
  c.adapters.targets = "q_proj,v_proj";
  CHECK(says(exported("automodel", llama_1b(), c), {"target_modules: [\"*q_proj\", \"*v_proj\"]"}));
  c.adapters.quantize = Quantization::nf4;
  CHECK(says(error("automodel", llama_1b(), c), {"--quantize nf4", "export to hf"}));
  c.adapters.quantize = Quantization::none;
  c.adapters.dora = true;
  CHECK(says(error("automodel", llama_1b(), c), {"--dora", "drop --dora"}));
  c.runtime.framework = "hf";
  CHECK(says(error("automodel", llama_1b(), c), {"--lora 16", "--framework automodel"}));
}

TEST_CASE("automodel: what it has not is refused with the way out") {
  CHECK(says(error("automodel", llama_1b(), with_ac(AcMode::grouped, 2)),
             {"--ac grouped:2 has no equivalent in NeMo AutoModel 0.5.0", "--ac full"}));
  CHECK(says(error("automodel", llama_1b(), with_ac(AcMode::attention)), {"--ac attention"}));
  StepConfig c = eight_ranks(Sharding::ddp);
  c.memory.ac = AcMode::selective;
  CHECK(says(error("automodel", llama_1b(), c), {"--shard ddp", "--shard fsdp2"}));
  c.memory.ac = AcMode::full;
  CHECK(says(error("automodel", llama_1b(), c), {"--ac-scope submodule"}));
  CHECK(says(error("automodel", llama_1b(), eight_ranks(Sharding::zero2)), {"--shard zero2"}));
  c = {};
  c.memory.loss = LossKind::chunked;
  c.memory.chunk_tokens = 512;
  CHECK(says(error("automodel", llama_1b(), c), {"--loss chunked:512", "lc-ce"}));
}

TEST_CASE("torchtitan: selective per op, FSDP2 with fp32 masters, a known flavor") {
  StepConfig c = eight_ranks(Sharding::fsdp2);
  c.memory.ac = AcMode::selective;
  c.precision.param_dtype = DType::f32;
  c.precision.reduce_dtype = DType::f32;
  CHECK(says(exported("torchtitan", llama_8b(), c),
             {"name = \"llama3\"", "flavor = \"8B\"", "mode = \"selective\"",
              "selective_ac_option = \"op\"", "early_stop = true", "dtype = \"float32\"",
              "mixed_precision_param = \"bfloat16\"", "data_parallel_shard_degree = 8",
              "local_batch_size = 8", "global_batch_size = 64", "implementation = \"fused\""}));
}

TEST_CASE("torchtitan: torchao's float8 layers by its converter, hf's by hand, nowhere else") {
  StepConfig c = eight_ranks(Sharding::fsdp2);
  c.precision.param_dtype = DType::f32;
  c.precision.reduce_dtype = DType::f32;
  c.precision.fp8 = Fp8Recipe::tensorwise;
  CHECK(says(exported("torchtitan", llama_8b(), c),
             {"converters = [\"quantize.linear.float8\"]", "[quantize.linear.float8]",
              "filter_fqns = [\"output\"]"}));
  CHECK(exported("torchtitan", llama_8b(), c).find("recipe_name") == std::string::npos);
  c.precision.fp8_all_gather = true;
  CHECK(says(
      exported("torchtitan", llama_8b(), c),
      {"enable_fsdp_float8_all_gather = true", "precompute_float8_dynamic_scale_for_fsdp = true"}));
  c.precision.fp8_all_gather = false;
  c.precision.fp8 = Fp8Recipe::rowwise;
  CHECK(says(exported("torchtitan", llama_8b(), c), {"recipe_name = \"rowwise\""}));
  CHECK(says(error("automodel", llama_8b(), c), {"--fp8 rowwise", "export to torchtitan"}));
  CHECK(says(error("deepspeed", llama_8b(), c), {"--fp8 rowwise"}));
  StepConfig alone = plain("hf");
  alone.precision.fp8 = Fp8Recipe::rowwise;
  CHECK(says(exported("hf", llama_1b(), alone),
             {"convert_to_float8_training", "from_recipe_name(\"rowwise\")"}));
  alone.precision.fp8 = Fp8Recipe::mx;
  alone.device.gpu = "b200";
  CHECK(says(exported("hf", llama_1b(), alone), {"MXFP8Linear", "multiples of 32"}));
  CHECK(says(error("torchtitan", llama_8b(), alone), {"--fp8 mx", "MXLinearConfig"}));
}

TEST_CASE("torchtitan: ranks that share sequences, which nobody else's plan is of") {
  StepConfig c = resolve_options({{"--framework", "torchtitan"},
                                  {"--world", "16"},
                                  {"--cp", "4"},
                                  {"--shard", "fsdp2"},
                                  {"--seq", "32768"}});
  // Its mesh of shards is data_parallel_shard_degree x context_parallel_degree.
  CHECK(says(exported("torchtitan", llama_8b(), c),
             {"data_parallel_shard_degree = 4\n", "context_parallel_degree = 4\n"}));
  CHECK(says(error("automodel", llama_8b(), c), {"--cp 4", "export to torchtitan"}));
  c.layout.cp_method = CpMethod::all_to_all;
  CHECK(says(error("torchtitan", llama_8b(), c), {"--cp-method alltoall", "allgather"}));
}

TEST_CASE("torchtitan: stages, and what of them is sharded") {
  StepConfig c = eight_ranks(Sharding::hsdp);
  c.precision.reduce_dtype = DType::f32;
  c.layout.world = 32;
  c.layout.hsdp_shards = 4;
  c.layout.pp = 4;
  c.layout.pp_schedule = PipelineSchedule::interleaved;
  c.layout.pp_chunks = 2;
  c.run.batch = 2;
  c.run.grad_accum = 8;
  c.memory.hold_output = false;
  CHECK(says(exported("torchtitan", llama_8b(), c),
             {"data_parallel_replicate_degree = 2\n", "data_parallel_shard_degree = 4\n",
              "pipeline_parallel_degree = 4\n", "pipeline_parallel_schedule = \"Interleaved1F1B\"",
              "pipeline_parallel_microbatch_size = 2\n", "local_batch_size = 16\n",
              "global_batch_size = 128\n"}));
}

TEST_CASE("torchtitan: every:K starts at another block, and says so") {
  // 32 blocks, K 3: it wraps 2, 5, …, 29 (10); the plan 0, 3, …, 30 (11).
  CHECK(says(exported("torchtitan", llama_8b(), with_ac(AcMode::every, 3)),
             {"selective_ac_option = \"3\"", "blocks 2, 5", "10 blocks, not 11"}));
}

TEST_CASE("torchtitan: a size without a flavor is named in a note, with its name escaped") {
  model::ModelSpec spec = llama_8b();
  spec.layers = 4;
  spec.window.resize(4);
  spec.name = "a\"\n[x]";
  CHECK(says(exported("torchtitan", spec, {}),
             {"flavor = \"a\\\"\\n[x]\"", "llama3_args[\"a\\\"\\n[x]\"] = "}));
}

TEST_CASE("flash1 is exported to no framework: they run the second version") {
  StepConfig c;
  c.run.attention = Attention::flash1;
  for (const char* framework : {"hf", "automodel", "torchtitan"}) {
    CAPTURE(framework);
    CHECK(says(error(framework, llama_8b(), c), {"--attn flash1", "use --attn"}));
  }
  c = eight_ranks(Sharding::zero2);
  c.run.attention = Attention::flash1;
  CHECK(says(error("deepspeed", llama_8b(), c), {"--attn flash1", "use --attn flash"}));
}

TEST_CASE("torchtitan: what it has not is refused with the way out") {
  CHECK(says(error("torchtitan", llama_8b(), with_ac(AcMode::sqrt)), {"--ac sqrt", "TorchTitan"}));
  CHECK(says(error("torchtitan", llama_8b(), with_ac(AcMode::attention)), {"--ac attention"}));
  StepConfig c;
  c.memory.loss = LossKind::lc_ce;
  CHECK(says(error("torchtitan", llama_8b(), c), {"--loss lc-ce", "--loss ce"}));
  c = {};
  c.memory.kernels = Kernels::fused;
  CHECK(says(error("torchtitan", llama_8b(), c), {"--kernels fused", "torch.compile"}));
  c = {};
  c.optimizer.kind = Optimizer::sgd;
  CHECK(says(error("torchtitan", llama_8b(), c), {"--optimizer sgd"}));
  c = {};
  c.run.attention = Attention::flash;
  CHECK(says(error("torchtitan", llama_8b(), c), {"--attn flash", "cudnn"}));
  c = eight_ranks(Sharding::fsdp2);
  CHECK(says(error("torchtitan", llama_8b(), c), {"--reduce-dtype bf16", "fp32"}));
  CHECK(says(error("torchtitan", llama_8b(), eight_ranks(Sharding::zero1)), {"--shard zero1"}));
  c = with_ac(AcMode::full);
  c.memory.scope = AcScope::submodule;
  CHECK(says(error("torchtitan", llama_8b(), c), {"--ac-scope submodule"}));
  model::ModelSpec gemma = llama_8b();
  gemma.family = "gemma2";
  CHECK(says(error("torchtitan", gemma, {}), {"gemma2", "llama3 and qwen3"}));
}

TEST_CASE("megatron: a plan of its own step is its own flags, and nobody else's") {
  StepConfig c = resolve_options({{"--framework", "megatron"},
                                  {"--transformer-impl", "transformer_engine"},
                                  {"--world", "8"},
                                  {"--tp", "2"},
                                  {"--pp", "2"},
                                  {"--shard", "zero1"},
                                  {"--grad-accum", "4"},
                                  {"--pp-layers", "15,17"},
                                  {"--cublas-workspace", ":4096:8"}});
  CHECK(says(exported("megatron", llama_8b(), c),
             {"--transformer-impl transformer_engine\n", "--tensor-model-parallel-size 2\n",
              "--sequence-parallel\n", "--pipeline-model-parallel-size 2\n",
              "--use-distributed-optimizer\n", "--decoder-first-pipeline-num-layers 15\n",
              "--decoder-last-pipeline-num-layers 17\n", "CUBLAS_WORKSPACE_CONFIG=:4096:8"}));
  CHECK(says(error("torchtitan", llama_8b(), c), {"--transformer-impl", "export to megatron"}));
  CHECK_FALSE(says(exported("megatron", llama_8b(), c), {"--no-gradient-accumulation-fusion"}));
  StepConfig shared = c;
  shared.memory.fused_gradients = false;
  shared.run.attention = Attention::flash;
  shared.layout.world = 16;
  shared.memory.loss = LossKind::ce_compiled;
  shared.layout.cp = shared.layout.optimizer_instances = 2;
  CHECK(
      says(exported("megatron", llama_8b(), shared),
           {"--no-gradient-accumulation-fusion\n", "--context-parallel-size 2\n",
            "--cp-comm-type p2p\n", "--global-batch-size 8\n", "--cross-entropy-loss-fusion\n",
            "--cross-entropy-fusion-impl native\n", "--num-distributed-optimizer-instances 2\n"}));
  model::ModelSpec mixture = llama_8b();
  mixture.moe = model::MoeSpec{.experts = 8, .top_k = 2, .intermediate = 14336};
  mixture.moe->megatron.emplace();
  shared.layout.ep = 2;
  shared.runtime.deterministic = true;
  CHECK(says(exported("megatron", mixture, shared),
             {"--expert-model-parallel-size 2\n", "--expert-tensor-parallel-size 2\n",
              "--deterministic-mode\n"}));
  StepConfig by_transformers;
  by_transformers.layout.world = by_transformers.layout.ep = 2;
  by_transformers.layout.shard = Sharding::fsdp2;
  CHECK(says(error("hf", model::load_model("mixtral-8x7b"), by_transformers),
             {"--ep 2", "DistributedConfig"}));
  model::ModelSpec dropping = llama_8b();
  dropping.residual_dropout = 0.05;
  CHECK(says(exported("megatron", dropping, c), {"--hidden-dropout 0.05\n"}));
  c.layout.pp = 4;
  c.layout.pp_layers = {8, 9, 7, 8};
  CHECK(says(error("megatron", llama_8b(), c), {"--pp-layers 8,9,7,8", "the same to all stages"}));
}

TEST_CASE("megatron: FP8 is Transformer Engine's format and recipe") {
  for (const char* recipe : {"delayed", "tensorwise"}) {
    const StepConfig c = resolve_options({{"--framework", "megatron"},
                                          {"--transformer-impl", "transformer_engine"},
                                          {"--fp8", recipe}});
    CHECK(says(exported("megatron", llama_8b(), c),
               {"--fp8-format hybrid\n", (std::string("--fp8-recipe ") + recipe + "\n").c_str()}));
  }
}

TEST_CASE("megatron: full is uniform by one block, grouped:K by K, attention is core_attn") {
  StepConfig c = with_ac(AcMode::full);
  c.memory.kernels = Kernels::fused;
  CHECK(says(exported("megatron", llama_8b(), c),
             {"--recompute-granularity full", "--recompute-method uniform",
              "--recompute-num-layers 1\n", "--untie-embeddings-and-output-weights", "--bf16",
              "--micro-batch-size 1", "--seq-length 2048"}));
  c.memory.ac = AcMode::grouped;
  c.memory.ac_arg = 4;
  CHECK(says(exported("megatron", llama_8b(), c), {"--recompute-num-layers 4\n"}));
  c.memory.ac = AcMode::attention;
  CHECK(says(exported("megatron", llama_8b(), c),
             {"--recompute-granularity selective", "--recompute-modules core_attn"}));
  // ⌈√32⌉ = 6 segments; ⌈32 / 6⌉ = 6 blocks each.
  c.memory.ac = AcMode::sqrt;
  CHECK(says(exported("megatron", llama_8b(), c), {"--recompute-num-layers 6\n", "balanced"}));
}

TEST_CASE("megatron: first:N is block by N, modules:PARTS are --recompute-modules") {
  const auto flags = [](const char* ac) {
    return exported("megatron", llama_8b(),
                    resolve_options({{"--framework", "megatron"},
                                     {"--transformer-impl", "transformer_engine"},
                                     {"--ac", ac}}));
  };
  CHECK(says(flags("first:3"), {"--recompute-granularity full", "--recompute-method block",
                                "--recompute-num-layers 3\n"}));
  CHECK(says(flags("modules:mlp+core_attn"),
             {"--recompute-granularity selective", "--recompute-modules core_attn mlp"}));
}

TEST_CASE("megatron: sharding") {
  StepConfig c = eight_ranks(Sharding::zero1);
  c.memory.kernels = Kernels::fused;
  CHECK(says(exported("megatron", llama_8b(), c),
             {"--use-distributed-optimizer", "--global-batch-size 64"}));
  c.layout.shard = Sharding::fsdp2;
  CHECK(
      says(exported("megatron", llama_8b(), c), {"--use-torch-fsdp2", "--ckpt-format torch_dist"}));
  CHECK(says(error("megatron", llama_1b(), c), {"tied embeddings", "--shard zero1"}));
  c.layout.shard = Sharding::hsdp;
  c.layout.hsdp_shards = 4;
  CHECK(says(exported("megatron", llama_8b(), c), {"--use-megatron-fsdp", "optim_grads_params",
                                                   "--num-distributed-optimizer-instances 2"}));
  c.layout.keep_last_block = true;
  CHECK(says(error("megatron", llama_8b(), c), {"--keep-last-block"}));
}

TEST_CASE("megatron: what it has not is refused with the way out") {
  StepConfig c = with_ac(AcMode::selective);
  CHECK(says(error("megatron", llama_8b(), c), {"--kernels eager", "--kernels fused"}));
  c.memory.kernels = Kernels::fused;
  CHECK(says(error("megatron", llama_8b(), c), {"--ac selective", "modules, not ops"}));
  c.memory.ac = AcMode::every;
  c.memory.ac_arg = 2;
  CHECK(says(error("megatron", llama_8b(), c), {"--ac every:2", "first blocks"}));
  c.memory.ac = AcMode::full;
  c.memory.scope = AcScope::submodule;
  CHECK(says(error("megatron", llama_8b(), c), {"--ac-scope submodule"}));
  c = plain("megatron");
  c.memory.loss = LossKind::lc_ce;
  CHECK(says(error("megatron", llama_8b(), c), {"--loss lc-ce"}));
  c = plain("megatron");
  c.run.attention = Attention::efficient;
  CHECK(says(error("megatron", llama_8b(), c), {"--attn efficient"}));
}

TEST_CASE("hf: checkpointing is the Trainer's on one rank, Accelerate's under FSDP2") {
  CHECK(says(exported("hf", llama_1b(), with_ac(AcMode::full)),
             {"activation_checkpointing: true", "use_reentrant: false", "distributed_type: 'NO'",
              "optim: adamw_torch_fused", "dtype=torch.bfloat16"}));
  StepConfig c = eight_ranks(Sharding::fsdp2);
  c.memory.ac = AcMode::full;
  CHECK(says(exported("hf", llama_1b(), c),
             {"activation_checkpointing: false", "fsdp_activation_checkpointing: true",
              "fsdp_version: 2", "num_processes: 8", "mixed_precision: 'no'"}));
}

TEST_CASE("hf: every:K, hsdp, fp32 masters, accumulation that synchronises each time") {
  StepConfig c = eight_ranks(Sharding::hsdp);
  c.layout.hsdp_shards = 4;
  c.memory.ac = AcMode::every;
  c.memory.ac_arg = 2;
  c.precision.param_dtype = DType::f32;
  c.run.grad_accum = 4;
  CHECK(says(exported("hf", llama_1b(), c),
             {"every_n_layers: 2", "parallelism_config_dp_replicate_size: 2",
              "parallelism_config_dp_shard_size: 4", "mixed_precision: 'bf16'", "bf16: true",
              "sync_each_batch: true", "gradient_accumulation_steps: 4"}));
  c.layout.no_sync = true;
  CHECK(exported("hf", llama_1b(), c).find("sync_each_batch") == std::string::npos);
}

TEST_CASE("hf: Liger's loss chooses its chunk") {
  // 8·2048 tokens, ⌈128256 / 2048⌉ = 63: ⌈16384 / 63⌉ = 261 → 512.
  StepConfig c;
  c.run.batch = 8;
  c.memory.loss = LossKind::chunked;
  c.memory.chunk_tokens = 512;
  CHECK(says(exported("hf", llama_1b(), c),
             {"use_liger_kernel: true", "fused_linear_cross_entropy: true", "rms_norm: false"}));
  c.memory.chunk_tokens = 1024;
  CHECK(says(error("hf", llama_1b(), c), {"--loss chunked:1024", "chunked:512"}));
  c.memory.loss = LossKind::lc_ce;
  CHECK(says(error("hf", llama_1b(), c), {"--loss lc-ce", "chunked:512"}));
}

TEST_CASE("hf: a communication hook is registered in code, by accelerate where it has it") {
  StepConfig c = plain("hf");
  c.layout.world = 8;
  c.layout.shard = Sharding::ddp;
  c.compression = {.kind = Compression::powersgd, .rank = 2};
  CHECK(says(exported("hf", llama_1b(), c),
             {"DDPCommunicationHookType.POWER_SGD", "\"matrix_approximation_rank\": 2"}));
  c.compression = {.kind = Compression::fp16};
  CHECK(says(exported("hf", llama_1b(), c), {"DDPCommunicationHookType.FP16"}));
  c.compression = {.kind = Compression::topk, .ratio = 0.01};
  CHECK(says(exported("hf", llama_1b(), c), {"topk_hook.py"}));
}

TEST_CASE("muon: hf's Trainer is told to make both optimizers, recipes of one refuse it") {
  StepConfig c = plain("hf");
  c.optimizer.kind = Optimizer::muon;
  CHECK(says(exported("hf", llama_1b(), c), {"create_optimizer", "torch.optim.Muon"}));
  for (const char* target : {"automodel", "torchtitan", "deepspeed"})
    CHECK(says(error(target, llama_8b(), c), {"--optimizer muon"}));
}

TEST_CASE("hf: fsdp1 is accelerate's first FSDP with its defaults, and no other target has it") {
  StepConfig c = eight_ranks(Sharding::fsdp1);
  c.memory.ac = AcMode::full;
  CHECK(says(exported("hf", llama_1b(), c),
             {"fsdp_version: 1", "fsdp_sharding_strategy: FULL_SHARD",
              "fsdp_backward_prefetch: BACKWARD_PRE", "fsdp_use_orig_params: true",
              "fsdp_activation_checkpointing: true", "activation_checkpointing: false"}));
  for (const char* target : {"automodel", "torchtitan", "deepspeed", "megatron", "torchtune"})
    CHECK(says(error(target, llama_8b(), eight_ranks(Sharding::fsdp1)),
               {"--shard fsdp1", "export to hf"}));
}

TEST_CASE("hf: what it has not is refused with the way out") {
  CHECK(
      says(error("hf", llama_1b(), with_ac(AcMode::grouped, 4)), {"--ac grouped:4", "--ac full"}));
  CHECK(says(error("hf", llama_1b(), with_ac(AcMode::selective)), {"--ac selective"}));
  StepConfig staged = eight_ranks(Sharding::zero2);
  staged.precision.param_dtype = DType::bf16;
  CHECK(says(exported("hf", llama_1b(), staged),
             {"bf16: true", "mixed_precision: 'bf16'", "distributed_type: DEEPSPEED",
              "zero_stage: 2", "offload_optimizer_device: none"}));
  staged.layout.overlap_comm = true;
  CHECK(says(error("hf", llama_1b(), staged), {"--overlap-comm", "deepspeed_config_file"}));
  StepConfig c = eight_ranks(Sharding::fsdp2);
  c.precision.reduce_dtype = DType::f32;
  CHECK(says(error("hf", llama_1b(), c), {"--reduce-dtype fp32", "--reduce-dtype bf16"}));
  c = eight_ranks(Sharding::fsdp2);
  c.layout.keep_last_block = true;
  CHECK(says(error("hf", llama_1b(), c), {"--keep-last-block"}));
}

TEST_CASE("deepspeed: JSON with ZeRO's stage and the three batch sizes that must agree") {
  StepConfig c = eight_ranks(Sharding::zero2);
  c.run.grad_accum = 4;
  const auto result = advise::export_setting("deepspeed", llama_1b(), c);
  const nlohmann::json json = nlohmann::json::parse(result.text);
  CHECK(json.at("zero_optimization").at("stage") == 2);
  CHECK(json.at("zero_optimization").at("reduce_bucket_size") == 500000000);
  CHECK(json.at("bf16").at("enabled") == true);
  CHECK(json.at("train_batch_size") == 8 * 8 * 4);
  CHECK(json.at("train_micro_batch_size_per_gpu") == 8);
  CHECK(json.at("gradient_accumulation_steps") == 4);
  CHECK(json.at("communication_data_type") == "bf16");
  CHECK(json.at("optimizer").at("type") == "AdamW");
}

TEST_CASE("deepspeed: stages, SGD, and no MiCS, which 0.19.8 refuses") {
  const auto json = [](const StepConfig& c) {
    return nlohmann::json::parse(advise::export_setting("deepspeed", llama_1b(), c).text);
  };
  CHECK(json({}).at("zero_optimization").at("stage") == 0);
  CHECK(json(eight_ranks(Sharding::zero1)).at("zero_optimization").at("stage") == 1);
  CHECK(json(eight_ranks(Sharding::fsdp2)).at("zero_optimization").at("stage") == 3);
  const nlohmann::json third = json(eight_ranks(Sharding::zero3)).at("zero_optimization");
  CHECK(third.at("stage") == 3);
  CHECK(third.at("stage3_prefetch_bucket_size") == 50000000);
  StepConfig c = eight_ranks(Sharding::hsdp);
  c.layout.hsdp_shards = 4;
  CHECK(says(error("deepspeed", llama_1b(), c), {"--shard hsdp:4", "MiCS", "--shard zero3"}));
  c = eight_ranks(Sharding::zero1);
  c.optimizer.kind = Optimizer::sgd;
  CHECK(json(c).at("zero_allow_untested_optimizer") == true);
}

TEST_CASE("deepspeed: checkpointing is a line of the model's code") {
  CHECK(says(exported("deepspeed", llama_1b(), with_ac(AcMode::full)),
             {"model.activation_checkpointing_enable()"}));
  CHECK(says(exported("deepspeed", llama_1b(), with_ac(AcMode::every, 2)), {"every_n_layers=2"}));
}

TEST_CASE("deepspeed: what it has not is refused with the way out") {
  CHECK(says(error("deepspeed", llama_1b(), with_ac(AcMode::grouped, 2)),
             {"--ac grouped:2", "PipelineModule", "--ac full"}));
  CHECK(says(error("deepspeed", llama_1b(), with_ac(AcMode::selective)), {"--ac selective"}));
  StepConfig c;
  c.memory.loss = LossKind::lc_ce;
  CHECK(says(error("deepspeed", llama_1b(), c), {"--loss lc-ce", "--loss ce"}));
  c = eight_ranks(Sharding::fsdp2);
  c.layout.keep_last_block = true;
  CHECK(says(error("deepspeed", llama_1b(), c), {"--keep-last-block"}));
}

TEST_CASE("SFTTrainer's settings are exported with its LM head alone, adapters as a note") {
  StepConfig c;
  c.runtime.framework = "trl";
  c.run.seq = 1024;
  c.memory.loss = LossKind::tiled;
  c.adapters.rank = 16;
  c.adapters.targets = "q_proj,v_proj";
  c.adapters.quantize = Quantization::nf4;
  const std::string text = exported("hf", llama_1b(), c);
  CHECK(text.find("HfArgumentParser(trl.SFTConfig)") != std::string::npos);
  CHECK(text.find("max_length: 1024") != std::string::npos);
  CHECK(text.find("LoraConfig(r=16, lora_alpha=32, target_modules=[\"q_proj\", \"v_proj\"])") !=
        std::string::npos);
  CHECK(text.find("load_in_4bit=True") != std::string::npos);
  CHECK(text.find("activation_offloading") == std::string::npos);
  c.adapters = {};
  c.memory.offload = Offload::activations;
  CHECK(exported("hf", llama_1b(), c).find("activation_offloading: true") != std::string::npos);
  c.runtime.framework = "hf";
  CHECK_THROWS_AS(exported("hf", llama_1b(), c), UserError);
  c.memory.offload = Offload::none;
  c.runtime.framework = "trl";
  c.memory.loss = LossKind::ce;
  CHECK_THROWS_AS(exported("hf", llama_1b(), c), UserError);
  c.memory.loss = LossKind::tiled;
  c.runtime.framework = "hf";
  CHECK_THROWS_AS(exported("hf", llama_1b(), c), UserError);
}

TEST_CASE("torchtune's recipes are exported in its YAML's own keys") {
  StepConfig c = plain("torchtune");
  c.memory.ac = AcMode::full;
  CHECK(says(exported("torchtune", llama_8b(), c),
             {"over a configuration of full_finetune_single_device",
              "_component_: torchtune.models.llama3_1.llama3_1_8b",
              "torchtune.modules.loss.CEWithChunkedOutputLoss\n  num_output_chunks: 8",
              "torch.optim.AdamW\n  fused: True", "enable_activation_checkpointing: True",
              "clip_grad_norm: null", "dtype: bf16"}));
  c.layout.world = 8;
  c.layout.shard = Sharding::fsdp2;
  c.memory.offload = Offload::parameters;
  CHECK(says(exported("torchtune", llama_8b(), c),
             {"full_finetune_distributed", "fsdp_cpu_offload: True", "--nproc_per_node 8"}));
  c.memory.offload = Offload::none;
  c.adapters.rank = 16;
  c.adapters.dtype = DType::bf16;
  c.adapters.targets = "q_proj,o_proj";
  CHECK(says(exported("torchtune", llama_1b(), c),
             {"lora_finetune_distributed", "torchtune.models.llama3_2.lora_llama3_2_1b",
              "lora_attn_modules: ['q_proj', 'output_proj']", "apply_lora_to_mlp: False",
              "lora_rank: 16\n  lora_alpha: 32"}));
  c.adapters.targets = "q_proj,up_proj";
  CHECK(says(error("torchtune", llama_1b(), c), {"--lora-targets", "name all three"}));
  c.adapters.targets = "q_proj";
  c.adapters.dtype = DType::f32;
  CHECK(says(error("torchtune", llama_1b(), c), {"--lora-dtype bf16"}));
}

TEST_CASE("verl's critic is exported beside the actor, with the tokens that its trainer reads") {
  StepConfig c = resolve_options({{"--framework", "verl"},
                                  {"--task", "ppo"},
                                  {"--critic", "qwen2.5-1.5b"},
                                  {"--critic-batch", "4"},
                                  {"--critic-offload", "all"},
                                  {"--world", "8"},
                                  {"--shard", "fsdp2"},
                                  {"--prompt", "512"},
                                  {"--completion", "1024"},
                                  {"--batch", "2"},
                                  {"--rollout", "vllm:tp2,util=0.5,sleep=2"}});
  CHECK(says(
      exported("verl", llama_8b(), c),
      {"algorithm.adv_estimator=gae", "critic.model.path=", "qwen2.5-1.5b", "critic.strategy=fsdp2",
       "critic.ppo_micro_batch_size_per_gpu=2", "critic.fsdp.param_offload=True",
       "critic.fsdp.optimizer_offload=True", "actor.fsdp_config.optimizer_offload=False",
       "+critic.ppo_infer_max_token_len_per_gpu=6144"}));
  c.task.critic = {};
  c.task.critic_batch = 0;
  const std::string own = exported("verl", llama_8b(), c);
  CHECK(says(own, {"critic.model.path="}));
  CHECK(own.find("ppo_infer_max_token_len_per_gpu") == std::string::npos);
}

TEST_CASE("verl's overrides are exported in their own names") {
  StepConfig c = resolve_options({{"--framework", "verl"},
                                  {"--world", "16"},
                                  {"--prompt", "512"},
                                  {"--completion", "1024"},
                                  {"--batch", "2"},
                                  {"--grad-accum", "4"},
                                  {"--group", "8"},
                                  {"--score-batch", "4"},
                                  {"--phase-offload", "optimizer"},
                                  {"--rollout", "vllm:tp4,util=0.6,sleep=1"}});
  // 16 ranks x 2 x 4 rows are 16 prompts of 8 completions; two nodes of eight
  CHECK(says(exported("verl", llama_8b(), c), {"python3 -m verl.trainer.main_ppo \\\n",
                                               "algorithm.adv_estimator=grpo",
                                               "data.max_prompt_length=512",
                                               "data.max_response_length=1024",
                                               "actor.ppo_mini_batch_size=16",
                                               "actor.ppo_micro_batch_size_per_gpu=2",
                                               "rollout.log_prob_micro_batch_size_per_gpu=4",
                                               "rollout.n=8",
                                               "actor.strategy=fsdp \\\n",
                                               "fsdp_config.model_dtype=fp32",
                                               "fsdp_config.param_offload=False",
                                               "fsdp_config.optimizer_offload=True",
                                               "model.enable_gradient_checkpointing=True",
                                               "actor.optim.clip_grad=1.0",
                                               "actor.use_kl_loss=False",
                                               "actor.entropy_coeff=0 \\\n",
                                               "rollout.tensor_model_parallel_size=4",
                                               "rollout.gpu_memory_utilization=0.6",
                                               "rollout.free_cache_engine=True",
                                               "trainer.nnodes=2",
                                               "trainer.n_gpus_per_node=8"}));
  c.layout.shard = Sharding::hsdp;
  c.layout.hsdp_shards = 8;
  c.adapters.rank = 16;
  c.adapters.targets = "all-linear";
  c.task.reference = Reference::adapter;
  c.task.parked = Parked::all;
  CHECK(says(exported("verl", llama_8b(), c),
             {"actor.strategy=fsdp2", "fsdp_config.fsdp_size=8", "model.lora_rank=16",
              "model.target_modules=all-linear", "actor.use_kl_loss=True",
              "fsdp_config.param_offload=True"}));
  c.memory.ac = AcMode::selective;
  CHECK(says(error("verl", llama_8b(), c), {"--ac selective", "use --ac full"}));
  c.memory.ac = AcMode::full;
  c.memory.scope = AcScope::submodule;
  CHECK(says(error("verl", llama_8b(), c), {"--ac-scope submodule", "--ac-scope block"}));
  c = plain("verl");
  CHECK(says(error("hf", llama_8b(), c), {"--framework verl", "export to verl"}));
  CHECK(says(error("verl", llama_8b(), plain("hf")), {"--framework hf", "--framework verl"}));
  c.task.rollout = Rollout::served;
  CHECK(says(error("verl", llama_8b(), c), {"--rollout served", "use --rollout vllm"}));
}

TEST_CASE("litgpt's scripts are exported in their arguments' own names") {
  StepConfig c = plain("litgpt");
  c.run.batch = 4;
  c.run.grad_accum = 8;
  CHECK(exported("litgpt", llama_8b(), c).find("lora_") == std::string::npos);
  CHECK(says(exported("litgpt", llama_8b(), c),
             {"precision: bf16-true", "  global_batch_size: 32\n  micro_batch_size: 4\n",
              "max_seq_length: 2048", "optimizer: AdamW", "litgpt finetune_full"}));
  c.adapters.rank = 8;
  c.adapters.dtype = DType::bf16;
  c.adapters.targets = "query,value,head";
  c.adapters.quantize = Quantization::nf4_double;
  c.optimizer.kind = Optimizer::paged_adamw;
  CHECK(says(
      exported("litgpt", llama_8b(), c),
      {"quantize: bnb.nf4-dq\nlora_r: 8\nlora_alpha: 16\n", "lora_query: true\nlora_key: false",
       "lora_projection: false\nlora_mlp: false\nlora_head: true", "litgpt finetune_lora",
       "--no-stable-embedding (its own: --stable-embedding)"}));
  c.adapters.targets = "all-linear";
  c.adapters.stable_embedding = true;
  CHECK(says(exported("litgpt", llama_8b(), c), {"lora_mlp: true\nlora_head: false"}));
  CHECK(says(error("hf", llama_8b(), c), {"export to litgpt"}));
  c.run.transformer_impl = TransformerImpl::hf;
  CHECK(says(error("litgpt", llama_8b(), c), {"--framework litgpt"}));
  c = plain("litgpt");
  c.optimizer.kind = Optimizer::adafactor;
  CHECK(says(error("litgpt", llama_8b(), c), {"--optimizer adafactor"}));
}

TEST_CASE("what torchtune's recipes lack is refused with the way out") {
  const StepConfig c = plain("torchtune");
  StepConfig other = c;
  other.memory.loss = LossKind::ce;
  CHECK(says(error("torchtune", llama_8b(), other), {"--output-dtype fp32"}));
  other = c;
  other.layout.world = 8;
  other.layout.shard = Sharding::ddp;
  CHECK(says(error("torchtune", llama_8b(), other), {"--shard ddp", "use --shard fsdp2"}));
  other = c;
  other.memory.ac = AcMode::selective;
  CHECK(says(error("torchtune", llama_8b(), other), {"--ac selective", "full or every:K"}));
  other = c;
  other.memory.kernels = Kernels::compiled;
  CHECK(says(error("torchtune", llama_8b(), other), {"the loss's chunks"}));
  CHECK(says(error("hf", llama_8b(), c), {"--loss chunked-logits:8", "export to torchtune"}));
}

TEST_CASE("shards on the host are exported where FSDP2's policy, or DeepSpeed's, has a key") {
  StepConfig c = eight_ranks(Sharding::fsdp2);
  c.memory.offload = Offload::parameters;
  CHECK(says(exported("hf", llama_8b(), c), {"fsdp_offload_params: true"}));
  StepConfig flat = c;
  flat.layout.shard = Sharding::fsdp1;
  CHECK(says(exported("hf", llama_8b(), flat), {"fsdp_version: 1", "fsdp_offload_params: true"}));
  CHECK(says(exported("deepspeed", llama_8b(), c), {"\"offload_param\"", "\"offload_optimizer\""}));
  CHECK(says(error("automodel", llama_8b(), c), {"--offload parameters", "export to torchtitan"}));
  c.precision.param_dtype = c.precision.reduce_dtype = DType::f32;
  CHECK(says(exported("torchtitan", llama_8b(), c), {"enable_cpu_offload = true"}));
  c.memory.offload = Offload::none;
  CHECK_FALSE(says(exported("torchtitan", llama_8b(), c), {"enable_cpu_offload"}));
}
