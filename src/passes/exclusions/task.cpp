// What other tasks than the next token refuse. They are planned as TRL's trainers run them.
#include <algorithm>
#include <string>
#include <string_view>

#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"

namespace ac_advisor::passes {
namespace {

using model::ModelSpec;

bool preference(const StepConfig& c) { return c.task.preference(); }
bool other(const StepConfig& c) { return !c.task.supervised(); }
bool of_trl(const StepConfig& c) { return other(c) && !c.verl() && !c.llamafactory(); }
bool of_swift(const StepConfig& c) { return other(c) && c.runtime.framework == "ms-swift"; }
bool padded(const StepConfig& c) { return other(c) && !c.verl(); }
std::string task(const StepConfig& c) { return std::string("--task ") + to_option(c.task.kind); }
std::string with(const StepConfig& c, const std::string& option) { return task(c) + " " + option; }

std::string in_parts(const ModelSpec&, const StepConfig& c) {
  const Layout& l = c.layout;
  const auto given = [&](const char* name, std::int64_t ranks) {
    return ranks > 1 ? std::string(" ") + name + " " + std::to_string(ranks) : std::string();
  };
  return task(c) + given("--tp", l.tp) + given("--pp", l.pp) + given("--cp", l.cp) +
         given("--ep", l.ep);
}

bool drops(const ModelSpec& m) {
  return m.attention_dropout > 0 || m.residual_dropout > 0 || m.embedding_dropout > 0;
}

std::string of_teacher(const ModelSpec&, const StepConfig& c) {
  return with(c, "--teacher " + c.task.teacher.name);
}
bool has_teacher(const StepConfig& c) { return c.task.distills() && c.task.teacher.model; }

std::string of_critic(const ModelSpec&, const StepConfig& c) {
  return with(c, "--critic " + c.task.critic.name);
}
/// The critic as the model of the step.
StepConfig alone(StepConfig c) {
  c.task.of_critic = true;
  c.adapters = {};
  return c;
}

/// transformers 5.23: whose class is GenericForTokenClassification.
bool classifies_tokens(const std::string& family) {
  constexpr std::string_view families[] = {
      "deepseek_v3", "gemma",   "gemma2",    "glm",        "glm4",    "gpt_oss",  "llama",
      "ministral3",  "mistral", "mixtral",   "nemotron",   "phi",     "phi3",     "qwen2",
      "qwen2_moe",   "qwen3",   "qwen3_moe", "qwen3_next", "smollm3", "stablelm", "starcoder2"};
  return std::find(std::begin(families), std::end(families), family) != std::end(families);
}

/// The teacher's own forward on one device, as a plain loop has it.
StepConfig taught_by(const StepConfig& c) {
  StepConfig own;
  own.device = c.device;
  own.run.batch = c.run.batch;
  own.run.seq = c.run.seq;
  own.run.attention = c.run.attention;
  own.precision.param_dtype = own.precision.compute_dtype = own.precision.reduce_dtype =
      c.reference_dtype();
  return own;
}

constexpr Exclusion exclusions_of_tasks[] = {
    {"--task ppo --framework trl", "TRL 1.16 has no trainer of it", "use --framework verl",
     [](const ModelSpec&, const StepConfig& c) { return c.task.has_critic() && !c.verl(); }},
    {"--task distillation, a teacher that is not found here",
     "its configuration is what it is planned by", "give --teacher MODEL as it is found",
     [](const ModelSpec&, const StepConfig& c) { return c.task.distills() && !has_teacher(c); },
     of_teacher},
    {"--task distillation --shard fsdp1, fsdp2 or hsdp:N",
     "TRL 1.16 leaves a teacher on the host there (accelerate's prepare_model in evaluation_mode "
     "places none), and its forward ends in a RuntimeError",
     "use --shard zero3, zero2 or ddp",
     [](const ModelSpec&, const StepConfig& c) { return c.task.distills() && c.layout.fsdp(); },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--shard " + shard_option(c)); }},
    {"--task distillation, a teacher of another vocabulary",
     "DistillationTrainer compares whole distributions and refuses other sizes (TRL 1.16)",
     "choose a teacher of the same vocab_size",
     [](const ModelSpec& m, const StepConfig& c) {
       return has_teacher(c) && c.task.teacher.model->vocab != m.vocab;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return of_teacher(m, c) + " of " + std::to_string(c.task.teacher.model->vocab) +
              " words for one of " + std::to_string(m.vocab);
     }},
    {"--task distillation, a teacher that is an imported graph, or refused by itself",
     "its forward is planned as that of a model of its own",
     "see what ac-advisor plan says of the teacher, or choose another",
     [](const ModelSpec&, const StepConfig& c) {
       return has_teacher(c) && (c.task.teacher.model->graph != nullptr ||
                                 find_exclusion(*c.task.teacher.model, taught_by(c)) != nullptr);
     },
     of_teacher},
    {"--task distillation, a head with a bias, or dropout in either model",
     "what DistillationTrainer makes of them is not planned yet", "use another model",
     [](const ModelSpec& m, const StepConfig& c) {
       return has_teacher(c) && (m.head_bias || drops(m) || c.run.dropout > 0 ||
                                 c.task.teacher.model->head_bias || drops(*c.task.teacher.model));
     },
     [](const ModelSpec& m, const StepConfig& c) { return of_teacher(m, c) + " for " + m.family; }},
    {"--task distillation --autocast bf16 or fp16",
     "its loss runs in the place of the forward that accelerate has put torch.autocast around "
     "(TRL 1.16, models/utils.py, _ForwardRedirection), so nothing is autocast",
     "leave --autocast out, and load both models in bf16: --param-dtype bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return c.task.distills() && c.precision.autocast;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, std::string("--autocast ") + autocast_option(c));
     }},
    {"--task dpo, kto or --ref model, --shard fsdp1",
     "a sharded reference, and a second forward of what is sharded, are not planned yet",
     "use --shard fsdp2, or with --task dpo --ref precomputed",
     [](const ModelSpec&, const StepConfig& c) {
       const bool second = c.task.runs_reference() || c.task.reference == Reference::model ||
                           c.task.kind == Task::kto;
       return of_trl(c) && second && c.layout.shard == Sharding::fsdp1;
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--shard " + shard_option(c)); }},
    {"--task grpo or rloo --rollout generate --shard fsdp1, fsdp2 or hsdp:N",
     "what writing a token gathers of shards is not planned yet",
     "use --rollout vllm:SHARE or served",
     [](const ModelSpec&, const StepConfig& c) {
       return c.task.online() && c.task.rollout == Rollout::generate && c.layout.fsdp() &&
              !c.verl();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, "--rollout generate --shard " + shard_option(c));
     }},
    {"--task other than sft --tp, --pp, --cp, --ep",
     "layers, sequences or experts that ranks share are not planned in such a step", "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       const Layout& l = c.layout;
       return other(c) && (l.tp > 1 || l.pp > 1 || l.cp > 1 || l.ep > 1);
     },
     in_parts},
    {"--task other than sft --packing DOCS",
     "such rows are padded: TRL 1.16 has switched its padding_free off, and LLaMA-Factory packs "
     "sft "
     "alone",
     "leave --packing out",
     [](const ModelSpec&, const StepConfig& c) { return padded(c) && c.run.packing > 0; },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, "--packing " + std::to_string(c.run.packing));
     }},
    {"--task other than sft --position-ids", "TRL gives none with such rows",
     "leave --position-ids out",
     [](const ModelSpec&, const StepConfig& c) { return other(c) && c.run.position_ids; },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--position-ids"); }},
    {"--task other than sft --images N", "rows with images are not planned yet",
     "leave --images out",
     [](const ModelSpec&, const StepConfig& c) { return other(c) && c.run.images > 0; },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, "--images " + std::to_string(c.run.images));
     }},
    {"--task other than sft, an imported graph",
     "a captured graph has the forward and loss that it was captured with",
     "give the model's config.json",
     [](const ModelSpec& m, const StepConfig& c) { return other(c) && m.graph != nullptr; },
     [](const ModelSpec& m, const StepConfig& c) { return task(c) + " for " + m.name; }},
    {"--task reward, a family without a classifier",
     "transformers' AutoModelForSequenceClassification has no class of it", "use another model",
     [](const ModelSpec& m, const StepConfig& c) {
       return of_trl(c) && c.task.kind == Task::reward &&
              model::class_facts(m.family).no_classifier;
     },
     [](const ModelSpec& m, const StepConfig& c) { return task(c) + " for " + m.family; }},
    {"--task of preferences, a model with dropout, or --dropout P",
     "TRL switches dropout modules off and leaves what is a function on: not planned yet",
     "use --task sft",
     [](const ModelSpec& m, const StepConfig& c) {
       return preference(c) && (c.run.dropout > 0 || drops(m));
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return c.run.dropout > 0 ? with(c, "--dropout") : task(c) + " for " + m.family;
     }},
    {"--task other than sft --adapter METHOD",
     "of PEFT's methods LoRA alone is planned in such a step", "use --lora RANK",
     [](const ModelSpec&, const StepConfig& c) {
       return other(c) && c.adapters.of_another_method();
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--adapter"); }},
    {"--task of preferences --dora --lora-dropout P",
     "TRL sets the dropout to 0, and DoRA then keeps what it would not without: not planned yet",
     "leave --lora-dropout out",
     [](const ModelSpec&, const StepConfig& c) {
       return preference(c) && c.adapters.dora && c.adapters.dropout > 0;
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--dora --lora-dropout"); }},
    {"--task dpo, kto, grpo or rloo --ref model --quantize HOW",
     "the reference of a quantized base is that base with its adapters off: a second one is not "
     "planned",
     "use --ref adapter",
     [](const ModelSpec&, const StepConfig& c) {
       return c.task.reference == Reference::model && c.adapters.quantize != Quantization::none;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, std::string("--ref model --quantize ") + to_option(c.adapters.quantize));
     }},
    {"--task grpo or rloo --ref model --lora RANK",
     "TRL keeps no second model beside adapters: its reference is the model with them off",
     "use --ref adapter",
     [](const ModelSpec&, const StepConfig& c) {
       return c.task.online() && c.task.reference == Reference::model && c.adapters.used() &&
              !c.verl();
     },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--ref model --lora"); }},
    {"--task orpo or simpo --quantize HOW",
     "ORPO's and CPO's code prepares and casts a quantized model another way: not planned yet",
     "use --task dpo, or leave --quantize out",
     [](const ModelSpec&, const StepConfig& c) {
       return of_trl(c) && (c.task.kind == Task::orpo || c.task.kind == Task::simpo) &&
              c.adapters.quantize != Quantization::none;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, std::string("--quantize ") + to_option(c.adapters.quantize));
     }},
    {"--task other than sft --kernels fused or compiled",
     "Liger's kernels and torch.compile are not planned in such a step yet", "use --kernels eager",
     [](const ModelSpec&, const StepConfig& c) {
       return other(c) && c.memory.kernels != Kernels::eager;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return with(c, std::string("--kernels ") + to_option(c.memory.kernels));
     }},
    {"--task other than sft --cuda-graph, --fp8 RECIPE, --offload other than activations",
     "such a step is not planned yet", "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return other(c) && !c.task.scores() &&
              (c.runtime.cuda_graph != CudaGraph::off || c.precision.float8() ||
               (c.memory.offload != Offload::none && c.memory.offload != Offload::activations));
     },
     [](const ModelSpec&, const StepConfig& c) { return task(c); }},
    {"--task other than sft --output-dtype fp32",
     "accelerate's cast of what the model returns is in the plan already, where it is one",
     "leave --output-dtype out",
     [](const ModelSpec&, const StepConfig& c) { return other(c) && c.memory.wide_output; },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--output-dtype fp32"); }},
    {"--task other than sft, ac-trainer", "the trainer runs supervised steps",
     "plan it, or use --task sft",
     [](const ModelSpec&, const StepConfig& c) {
       return other(c) && c.runtime.kind == Runtime::ac_trainer;
     },
     [](const ModelSpec&, const StepConfig& c) { return task(c); }},
    {"--framework llamafactory --task other than sft, --shard fsdp1, fsdp2, hsdp:N or zero3",
     "its stages over shards are not planned yet", "use --shard zero2 or ddp, or --framework trl",
     [](const ModelSpec&, const StepConfig& c) {
       return c.llamafactory() && other(c) && (c.layout.fsdp() || c.layout.zero3());
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--framework llamafactory " + with(c, "--shard " + shard_option(c));
     }},
    {"--framework ms-swift --task dpo or kto, --shard other than none and ddp",
     "its trainers over shards, whose logits are in bf16, are not planned yet",
     "use --shard ddp, or --framework trl",
     [](const ModelSpec&, const StepConfig& c) {
       return of_swift(c) && c.layout.shard != Sharding::none && c.layout.shard != Sharding::ddp;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--framework ms-swift " + with(c, "--shard " + shard_option(c));
     }},
    {"--framework ms-swift --task dpo or kto, --autocast none or fp16, a mixture of experts",
     "its logits are planned in fp32, of autocast in bf16, and a router's loss is not planned",
     "use --autocast bf16 and a dense model, or --framework trl",
     [](const ModelSpec& m, const StepConfig& c) {
       return of_swift(c) &&
              (m.moe || !c.precision.autocast || c.precision.compute_dtype != DType::bf16);
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return "--framework ms-swift " +
              with(c, m.moe ? "for " + m.family : std::string("--autocast ") + autocast_option(c));
     }},
    {"--framework ms-swift --ref precomputed", "its trainers run the reference in every step",
     "use --ref model, or adapter with --lora",
     [](const ModelSpec&, const StepConfig& c) {
       return of_swift(c) && c.task.reference == Reference::precomputed;
     }},
    {"--framework llamafactory --task reward --world N",
     "its LM head has no gradient, and what DDP and ZeRO make of that is not planned yet",
     "use --world 1, or --framework trl",
     [](const ModelSpec&, const StepConfig& c) {
       return c.value_head() && c.layout.replica_ranks() > 1;
     }},
    {"--framework llamafactory --ref precomputed", "its trainers run the reference in every step",
     "use --ref model, or adapter with --lora",
     [](const ModelSpec&, const StepConfig& c) {
       return c.llamafactory() && c.task.reference == Reference::precomputed;
     }},
    {"--framework verl --task other than grpo and ppo",
     "its other workers, a reward model's and supervised tuning's, are not planned yet",
     "use --task grpo or ppo, or --framework trl",
     [](const ModelSpec&, const StepConfig& c) {
       return c.verl() && c.task.kind != Task::grpo && !c.task.has_critic();
     },
     [](const ModelSpec&, const StepConfig& c) { return "--framework verl " + task(c); }},
    {"--task ppo --critic MODEL, one that is not found here",
     "its configuration is what it is planned by", "give --critic MODEL as it is found",
     [](const ModelSpec&, const StepConfig& c) {
       return !c.task.critic.name.empty() && c.task.critic.model == nullptr;
     },
     of_critic},
    {"--task ppo, a critic of a family without a classifier of tokens",
     "transformers' AutoModelForTokenClassification has no class of it, or one of another form, "
     "and the head that verl then takes from TRL is not planned",
     "give another model with --critic MODEL",
     [](const ModelSpec& m, const StepConfig& c) {
       const model::ModelSpec& critic = model::critics_model(m, c);
       return c.task.has_critic() && (critic.graph != nullptr || !classifies_tokens(critic.family));
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return c.task.critic.name.empty() ? task(c) + " for " + m.family : of_critic(m, c);
     }},
    {"--task ppo, a row of more than 32768 tokens, without --critic-batch N",
     "verl 0.9.1 asserts that no row is longer than ppo_infer_max_token_len_per_gpu, 32768 unless "
     "it is set",
     "give --critic-batch 1, and set critic.ppo_infer_max_token_len_per_gpu to the row's length",
     [](const ModelSpec&, const StepConfig& c) {
       return c.task.has_critic() && c.task.critic_batch == 0 && c.run.seq > critic_tokens;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return task(c) + " --seq " + std::to_string(c.run.seq);
     }},
    {"--framework verl, --shard other than fsdp1, fsdp2 and hsdp:N",
     "its worker shards by FSDP, of either version", "use --shard fsdp1 or fsdp2 and --world N",
     [](const ModelSpec&, const StepConfig& c) { return c.verl() && !c.layout.fsdp(); },
     [](const ModelSpec&, const StepConfig& c) {
       return "--framework verl --shard " + shard_option(c);
     }},
    {"--framework verl --rollout generate", "its completions are an engine's",
     "use --rollout vllm:SHARE or served",
     [](const ModelSpec&, const StepConfig& c) {
       return c.verl() && c.task.rollout == Rollout::generate;
     }},
    {"--framework verl, --attn other than flash",
     "its rows have no padding, and their documents are what flash_attn_varlen_func is told of",
     "use --attn flash",
     [](const ModelSpec&, const StepConfig& c) {
       return c.verl() && c.run.attention != Attention::flash;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--framework verl --attn ") + to_option(c.run.attention);
     }},
    {"--prompt N --seq S, N not below S", "no token would be scored", "give a --prompt below --seq",
     [](const ModelSpec&, const StepConfig& c) {
       return c.task.prompt > 0 && c.task.prompt >= c.run.seq;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--prompt " + std::to_string(c.task.prompt) + " --seq " + std::to_string(c.run.seq);
     }},
    {"--task other than sft --seq 1", "leaves no next token to score", "give 2 or more",
     [](const ModelSpec&, const StepConfig& c) { return other(c) && c.run.seq < 2; },
     [](const ModelSpec&, const StepConfig& c) { return with(c, "--seq 1"); }},
    {"--task ppo --critic MODEL, one that is refused by itself",
     "what its own update asks for is refused",
     "see what ac-advisor plan says of it, or choose "
     "another",
     [](const ModelSpec&, const StepConfig& c) {
       return c.task.has_critic() && c.task.critic.model != nullptr && !c.task.of_critic &&
              find_exclusion(*c.task.critic.model, alone(c)) != nullptr;
     },
     of_critic},
};

}  // namespace

extern const ExclusionGroup task_exclusions;
const ExclusionGroup task_exclusions{"task", exclusions_of_tasks, Of::any};

}  // namespace ac_advisor::passes
