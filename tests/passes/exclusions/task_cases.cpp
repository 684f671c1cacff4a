// Refused: what a task of pairs is not planned with.
#include <memory>

#include "ac_advisor/graph/graph.hpp"
#include "passes/exclusions/cases.hpp"

namespace ac_advisor::test {
namespace {

void dpo(StepConfig& c) {
  c.task.kind = Task::dpo;
  c.task.reference = Reference::model;
  c.memory.loss = LossKind::tiled;
}

void verl(StepConfig& c) {
  c.runtime.framework = "verl";
  c.task.kind = Task::grpo;
  c.task.prompt = 8;
  c.task.rollout = Rollout::served;
  c.run.packing = c.run.batch;
  c.run.attention = Attention::flash;
  sharded(c, Sharding::fsdp2);
}

void ppo(StepConfig& c, const model::ModelSpec* critic = nullptr) {
  verl(c);
  c.task.kind = Task::ppo;
  if (critic != nullptr) c.task.critic = {"big", std::make_shared<const model::ModelSpec>(*critic)};
}

void llamafactory(StepConfig& c) {
  dpo(c);
  c.runtime.framework = "llamafactory";
  c.memory.loss = LossKind::ce;
}

void swift(StepConfig& c) {
  dpo(c);
  c.runtime.framework = "ms-swift";
  c.memory.loss = LossKind::ce;
  c.precision.autocast = true;
  c.precision.param_dtype = c.precision.compute_dtype = DType::bf16;
}

model::ModelSpec distilled(StepConfig& c) {
  c.runtime.framework = "trl";
  c.task.kind = Task::distillation;
  c.task.prompt = 8;
  c.memory.loss = LossKind::tiled;
  c.memory.hold_output = false;
  return small_model();
}

void taught_by(StepConfig& c, const model::ModelSpec& teacher) {
  c.task.teacher = {"big", std::make_shared<const model::ModelSpec>(teacher)};
}

const Case cases[] = {
    {"--task distillation, a teacher that is not found here",
     [](auto&, StepConfig& c) {
       distilled(c);
       c.task.teacher = {"big", nullptr};
     },
     "--task distillation --teacher big"},
    {"--task distillation, a teacher of another vocabulary",
     [](auto&, StepConfig& c) {
       model::ModelSpec teacher = distilled(c);
       teacher.vocab = 640;
       taught_by(c, teacher);
     },
     "--task distillation --teacher big of 640 words for one of 512"},
    {"--task distillation, a teacher that is an imported graph, or refused by itself",
     [](auto&, StepConfig& c) {
       model::ModelSpec teacher = distilled(c);
       import(teacher, c);
       taught_by(c, teacher);
     },
     "--task distillation --teacher big"},
    {"--task distillation, a head with a bias, or dropout in either model",
     [](auto&, StepConfig& c) {
       model::ModelSpec teacher = distilled(c);
       teacher.residual_dropout = 0.1;
       taught_by(c, teacher);
     },
     "--task distillation --teacher big"},
    {"--task distillation --autocast bf16 or fp16",
     [](auto&, StepConfig& c) {
       taught_by(c, distilled(c));
       c.precision.autocast = true;
       c.precision.param_dtype = DType::f32;
     },
     "--task distillation --autocast bf16"},
    {"--task distillation --shard fsdp1, fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       taught_by(c, distilled(c));
       c.task.rollout = Rollout::served;
       sharded(c, Sharding::fsdp2);
     },
     "--task distillation --shard fsdp2"},
    {"--framework llamafactory --task other than sft, --shard fsdp1, fsdp2, hsdp:N or zero3",
     [](auto&, StepConfig& c) {
       llamafactory(c);
       sharded(c, Sharding::fsdp2);
     },
     "--framework llamafactory --task dpo --shard fsdp2"},
    {"--framework ms-swift --task dpo or kto, --shard other than none and ddp",
     [](auto&, StepConfig& c) {
       swift(c);
       sharded(c, Sharding::fsdp2);
     },
     "--framework ms-swift --task dpo --shard fsdp2"},
    {"--framework ms-swift --task dpo or kto, --autocast none or fp16, a mixture of experts",
     [](auto&, StepConfig& c) {
       swift(c);
       c.precision.autocast = false;
     },
     "--framework ms-swift --task dpo --autocast none"},
    {"--framework ms-swift --ref precomputed",
     [](auto&, StepConfig& c) {
       swift(c);
       c.task.reference = Reference::precomputed;
     },
     ""},
    {"--framework llamafactory --task reward --world N",
     [](auto&, StepConfig& c) {
       llamafactory(c);
       c.task.kind = Task::reward;
       c.task.reference = Reference::none;
       sharded(c, Sharding::ddp);
     },
     ""},
    {"--framework llamafactory --ref precomputed",
     [](auto&, StepConfig& c) {
       llamafactory(c);
       c.task.reference = Reference::precomputed;
     },
     ""},
    {"--task ppo --framework trl",
     [](auto&, StepConfig& c) {
       ppo(c);
       c.runtime.framework = "trl";
     },
     ""},
    {"--task ppo --critic MODEL, one that is not found here",
     [](auto&, StepConfig& c) {
       ppo(c);
       c.task.critic = {"big", nullptr};
     },
     "--task ppo --critic big"},
    {"--task ppo, a critic of a family without a classifier of tokens",
     [](model::ModelSpec& m, StepConfig& c) {
       ppo(c);
       m.family = "cohere";
     },
     "--task ppo for cohere"},
    {"--task ppo --critic MODEL, one that is refused by itself",
     [](model::ModelSpec& m, StepConfig& c) {
       model::ModelSpec critic = m;
       critic.layers = 5000;
       ppo(c, &critic);
     },
     "--task ppo --critic big"},
    {"--task ppo, a row of more than 32768 tokens, without --critic-batch N",
     [](auto&, StepConfig& c) {
       ppo(c);
       c.run.seq = 40000;
     },
     "--task ppo --seq 40000"},
    {"--framework verl --task other than grpo and ppo",
     [](auto&, StepConfig& c) {
       verl(c);
       c.task.kind = Task::sft;
     },
     "--framework verl --task sft"},
    {"--framework verl, --shard other than fsdp1, fsdp2 and hsdp:N",
     [](auto&, StepConfig& c) {
       verl(c);
       sharded(c, Sharding::ddp);
     },
     "--framework verl --shard ddp"},
    {"--framework verl --rollout generate",
     [](auto&, StepConfig& c) {
       verl(c);
       c.task.rollout = Rollout::generate;
     },
     ""},
    {"--framework verl, --attn other than flash",
     [](auto&, StepConfig& c) {
       verl(c);
       c.run.attention = Attention::cudnn;
     },
     "--framework verl --attn cudnn"},
    {"--task dpo, kto or --ref model, --shard fsdp1",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.task.kind = Task::kto;
       c.task.reference = Reference::precomputed;
       sharded(c, Sharding::fsdp1);
     },
     "--task kto --shard fsdp1"},
    {"--task grpo or rloo --rollout generate --shard fsdp1, fsdp2 or hsdp:N",
     [](auto&, StepConfig& c) {
       c.task.kind = Task::grpo;
       sharded(c, Sharding::fsdp2);
     },
     "--task grpo --rollout generate --shard fsdp2"},
    {"--task other than sft --tp, --pp, --cp, --ep",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.layout.world = c.layout.tp = 2;
     },
     "--task dpo --tp 2"},
    {"--task other than sft --packing DOCS",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.run.packing = 4;
     },
     "--task dpo --packing 4"},
    {"--task other than sft --position-ids",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.run.position_ids = true;
     },
     "--task dpo --position-ids"},
    {"--task other than sft --images N",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.run.images = 1;
     },
     "--task dpo --images 1"},
    {"--task other than sft, an imported graph",
     [](model::ModelSpec& m, StepConfig& c) {
       dpo(c);
       m.graph = std::make_shared<graph::Graph>();
     },
     "--task dpo for small"},
    {"--task reward, a family without a classifier",
     [](model::ModelSpec& m, StepConfig& c) {
       c.task.kind = Task::reward;
       m.family = "granite";
     },
     "--task reward for granite"},
    {"--task of preferences, a model with dropout, or --dropout P",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.run.dropout = 0.1;
     },
     "--task dpo --dropout"},
    {"--task other than sft --adapter METHOD",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.adapters.method = static_cast<AdapterMethod>(1);
     },
     "--task dpo --adapter"},
    {"--task of preferences --dora --lora-dropout P",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.adapters.rank = 4;
       c.adapters.dora = true;
       c.adapters.dropout = 0.1;
     },
     "--task dpo --dora --lora-dropout"},
    {"--task grpo or rloo --ref model --lora RANK",
     [](auto&, StepConfig& c) {
       c.task.kind = Task::rloo;
       c.task.reference = Reference::model;
       c.adapters.rank = 4;
     },
     "--task rloo --ref model --lora"},
    {"--task dpo, kto, grpo or rloo --ref model --quantize HOW",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.adapters.rank = 4;
       c.adapters.quantize = Quantization::nf4;
     },
     "--task dpo --ref model --quantize nf4"},
    {"--task orpo or simpo --quantize HOW",
     [](auto&, StepConfig& c) {
       c.task.kind = Task::orpo;
       c.adapters.rank = 4;
       c.adapters.quantize = Quantization::nf4;
     },
     "--task orpo --quantize nf4"},
    {"--task other than sft --kernels fused or compiled",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.memory.kernels = Kernels::fused;
     },
     "--task dpo --kernels fused"},
    {"--task other than sft --cuda-graph, --fp8 RECIPE, --offload other than activations",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.memory.offload = Offload::optimizer;
     },
     "--task dpo"},
    {"--task other than sft --output-dtype fp32",
     [](auto&, StepConfig& c) {
       c.task.kind = Task::orpo;
       c.memory.wide_output = true;
     },
     "--task orpo --output-dtype fp32"},
    {"--task other than sft, ac-trainer",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.runtime.kind = Runtime::ac_trainer;
     },
     "--task dpo"},
    {"--prompt N --seq S, N not below S",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.task.prompt = 32;
     },
     "--prompt 32 --seq 32"},
    {"--task other than sft --seq 1",
     [](auto&, StepConfig& c) {
       dpo(c);
       c.run.seq = 1;
     },
     "--task dpo --seq 1"},
};

}  // namespace

std::span<const Case> task_cases() { return cases; }

}  // namespace ac_advisor::test
