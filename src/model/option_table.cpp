// Every option of a training step, one row each (design, sections 8 and 11).
#include "ac_advisor/model/option_table.hpp"

#include <memory>
#include <unordered_map>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"
#include "option_rows.hpp"
#include "options_choices.hpp"

namespace ac_advisor {
namespace options {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 31;
constexpr std::int64_t most_images = 1 << 16, most_documents = 65535;
constexpr std::int64_t most_ranks = 1 << 20, most_threads = 4096, most_stages = 1024;

double parse_dropout(const Given& given) {
  const double p = parse_decimal(given, "0.1");
  if (p < 0 || p >= 1) refuse(given, "P must be at least 0 and below 1");
  return p;
}

double parse_norm(const Given& given) {
  const double norm = parse_decimal(given, "1.0");
  if (norm < 0) refuse(given, "NORM must be at least 0; 0 does not clip");
  return norm;
}

double parse_capacity_factor(const Given& given) {
  constexpr double least = 0.01, most = 1024;
  const double factor = parse_decimal(given, "1.25");
  if (factor < least || factor > most) refuse(given, "F must be from 0.01 to 1024");
  return factor;
}

/// What one GPU has of a network: InfiniBand's generations at four lanes; AWS' instances of eight.
struct Network {
  std::string_view name;
  double gbps;
};
constexpr Network networks[] = {{"edr", 100}, {"hdr", 200},    {"ndr", 400},
                                {"xdr", 800}, {"efa-p4d", 50}, {"efa-p5", 400}};

/// "400" of "400gbe", "400Gbps" and their like; other text as it is.
std::string_view without_unit(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  if (digits == 0 || digits == std::string_view::npos) return text;
  std::string unit(text.substr(digits));
  for (char& c : unit) c = static_cast<char>(c | 0x20);
  for (const std::string_view known : {"g", "gb", "gbe", "gbps", "gbit", "gbit/s", "gb/s"})
    if (unit == known) return text.substr(0, digits);
  return text;
}

double parse_network(const Given& written) {
  const Given given{written.option, without_unit(written.value)};
  std::string names;
  for (const Network& network : networks) {
    if (given.value == network.name) return network.gbps;
    names += (names.empty() ? "" : ", ") + std::string(network.name);
  }
  const bool number = !given.value.empty() &&
                      given.value.find_first_not_of("0123456789.") == std::string_view::npos;
  if (!number) refuse(given, "must be one of " + names + ", or the Gbit/s of one GPU, such as 400");
  constexpr double least = 0.1, most = 100'000;
  const double gbps = parse_decimal(given, "400");
  if (gbps != 0 && (gbps < least || gbps > most))
    refuse(given, "must be from 0.1 to 100000 Gbit/s");
  return gbps;
}

std::string shard_conflict(const StepConfig& c) { return "--shard " + shard_option(c); }
std::string ac_conflict(const StepConfig& c) { return "--ac " + ac_option(c); }

constexpr Requirement gathers_blocks = {[](const StepConfig& c) { return c.layout.gathers(); },
                                        shard_conflict, "only fsdp2 and hsdp:N gather blocks",
                                        "use --shard fsdp2 --world N"};
constexpr Requirement has_units = {[](const StepConfig& c) { return c.layout.gathers(); },
                                   shard_conflict, "only fsdp2 and hsdp:N have units",
                                   "use --shard fsdp2 --world N"};
constexpr Requirement is_ddp = {
    [](const StepConfig& c) { return c.layout.shard == Sharding::ddp; }, shard_conflict,
    "only ddp has buckets of gradients, and hooks of them", "use --shard ddp --world N"};
constexpr Requirement is_fsdp1 = {
    [](const StepConfig& c) { return c.layout.shard == Sharding::fsdp1; }, shard_conflict,
    "it is FullyShardedDataParallel's", "use --shard fsdp1 --world N"};
constexpr Requirement has_overlap = {
    [](const StepConfig& c) { return c.layout.zero() && !c.layout.zero3(); }, shard_conflict,
    "it is about the buckets of DeepSpeed's ZeRO 1 and 2; ZeRO 3 overlaps by default",
    "use --shard zero1 or zero2"};
constexpr Requirement has_any_checkpoints = {
    [](const StepConfig& c) { return c.memory.ac != AcMode::none || c.memory.tower_ac; },
    ac_conflict, "nothing is checkpointed", "use --ac full"};
constexpr Requirement splits_layers = {[](const StepConfig& c) { return c.layout.tp > 1; },
                                       [](const StepConfig&) { return std::string("--tp 1"); },
                                       "it is about layers that ranks share", "give --tp T"};
constexpr Requirement splits_sequences = {
    [](const StepConfig& c) { return c.layout.cp > 1 && !c.megatron(); },
    [](const StepConfig& c) { return std::string(c.megatron() ? "--transformer-impl" : "--cp 1"); },
    "it is about sequences that ranks share by PyTorch's ring attention or by Ulysses",
    "give --cp N"};
constexpr Requirement has_ring = {
    [](const StepConfig& c) { return splits_sequences.holds(c) && !c.layout.ulysses(); },
    [](const StepConfig& c) {
      return c.layout.ulysses() ? std::string("--cp-method ulysses") : splits_sequences.conflict(c);
    },
    "it is about a ring, whose ranks differ; under Ulysses all hold alike",
    "leave it out, or give --cp N"};
constexpr Requirement has_stages = {[](const StepConfig& c) { return c.layout.pp > 1; },
                                    [](const StepConfig&) { return std::string("--pp 1"); },
                                    "it is about a model in stages", "give --pp N"};
constexpr Requirement has_images = {[](const StepConfig& c) { return c.run.images > 0; },
                                    [](const StepConfig&) { return std::string("--images 0"); },
                                    "it is about an encoder of images that runs",
                                    "give --images N"};
bool has_encoder_or_adapters(const StepConfig& c) { return c.run.images > 0 || c.adapters.used(); }
constexpr Requirement has_parts = {
    has_encoder_or_adapters, [](const StepConfig&) { return std::string("--images 0"); },
    "it is about an encoder of images that runs, or has adapters", "give --images N"};
constexpr Requirement hooks_inputs = {
    has_encoder_or_adapters, [](const StepConfig&) { return std::string("--lora 0"); },
    "it is about a frozen base and its adapters, or an encoder of images",
    "give --lora RANK, such as 16, or --adapter METHOD"};
constexpr Requirement has_adapters = {[](const StepConfig& c) { return c.adapters.used(); },
                                      [](const StepConfig&) { return std::string("--lora 0"); },
                                      "it is about a frozen base and its adapters",
                                      "give --lora RANK, such as 16, or --adapter METHOD"};
constexpr Requirement of_litgpt = {
    [](const StepConfig& c) { return c.litgpt() && c.adapters.quantized(); },
    [](const StepConfig& c) {
      return c.litgpt() ? std::string("--quantize ") + to_option(c.adapters.quantize)
                        : "--framework " + c.runtime.framework;
    },
    "it was compared beside layers that litgpt quantizes",
    "give --framework litgpt --quantize nf4"};
// A preset's scope is kept where nothing is checkpointed: savings add checkpointing later.
constexpr Requirement has_scope = {
    [](const StepConfig& c) {
      return c.memory.ac == AcMode::full || c.memory.ac == AcMode::every ||
             c.memory.ac == AcMode::none;
    },
    ac_conflict, "goes with full and every:K only, the other modes name their own regions",
    "use --ac full or --ac-scope block"};

constexpr Requirement has_logits = {
    [](const StepConfig& c) {
      return c.memory.loss == LossKind::ce || c.memory.loss == LossKind::ce_no_upcast ||
             c.memory.loss == LossKind::ce_compiled;
    },
    [](const StepConfig& c) { return "--loss " + loss_option(c); },
    "it is the logits that are cast, and there are none", "use --loss ce"};

constexpr OptionRow needing(OptionRow row, const Requirement& needs) {
  row.needs = &needs;
  return row;
}
constexpr OptionRow bare(std::string_view value, OptionRow row) {
  row.bare = value;
  return row;
}
constexpr OptionRow newer(OptionRow row) {
  row.newer = true;
  return row;
}

/// A model by its name or file, which is read at once.
template <OtherModel TaskChoice::*Model>
constexpr OptionRow model_row(const Words& w) {
  OptionRow row = with(w);
  row.parse = [](const OptionRow&, std::string_view, std::string_view text, StepConfig& c) {
    c.task.*Model = {std::string(text), std::make_shared<const model::ModelSpec>(
                                            model::load_model(std::string(text)))};
  };
  row.get = [](const StepConfig& c) -> OptionValue { return (c.task.*Model).name; };
  row.text = [](const StepConfig& c) { return (c.task.*Model).name; };
  row.set = [](const OptionRow& r, const OptionValue& v, StepConfig& c) {
    const auto& name = std::get<std::string>(v);
    c.task.*Model = {name, nullptr};
    if (name.empty()) return;
    try {
      r.parse(r, r.name, name, c);
    } catch (const UserError&) {  // of a profile from elsewhere: its name alone
    }
  };
  return row;
}

/// In JSON a boolean: in what it computes is compute_dtype.
constexpr OptionRow autocast_row(const Words& w) {
  OptionRow row = flag<&StepConfig::precision, &Precision::autocast>(w);
  row.words = autocast_words;
  row.parse = [](const OptionRow&, std::string_view written, std::string_view text, StepConfig& c) {
    refuse_unsupported({written, text});
    apply_autocast({written, text}, c);
  };
  row.text = [](const StepConfig& c) { return std::string(autocast_option(c)); };
  return row;
}

/// The default fits every framework: a row is asked when it has another value.
constexpr Requirement of_framework = {
    [](const StepConfig& c) {
      const std::string_view framework =
          c.megatron() ? "megatron" : to_option(c.run.transformer_impl);
      return c.runtime.framework == framework;
    },
    [](const StepConfig& c) { return "--framework " + c.runtime.framework; },
    "each framework has layers of its own beside transformers'",
    "use --framework megatron for transformer_engine and local, else the framework of that name"};

constexpr Requirement of_megatron_core = {
    [](const StepConfig& c) { return c.megatron(); },
    [](const StepConfig&) { return std::string("--transformer-impl hf"); },
    "it is planned as Megatron-core and Transformer Engine do it",
    "use --framework megatron --transformer-impl transformer_engine"};
constexpr Requirement has_fused_products = {
    [](const StepConfig& c) {
      return c.megatron() && c.optimizer.kind != Optimizer::adamw_foreach;
    },
    [](const StepConfig& c) {
      return c.megatron() ? std::string("--optimizer adamw-foreach") : of_megatron_core.conflict(c);
    },
    "it is planned as Megatron-core's and Transformer Engine's layers do it, with Apex's kernel, "
    "whose FusedAdam is the optimizer then, too",
    "use --framework megatron --transformer-impl transformer_engine --optimizer adamw"};
constexpr Requirement shares_experts = {
    [](const StepConfig& c) { return c.megatron() || c.layout.gathers(); }, shard_conflict,
    "experts are shared as Megatron-core does it, or as transformers does beside FSDP2",
    "use --shard fsdp2 or hsdp:N, or --framework megatron --transformer-impl transformer_engine"};
constexpr Requirement of_distributed_optimizer = {
    [](const StepConfig& c) { return c.megatron() && c.layout.shard == Sharding::zero1; },
    shard_conflict, "they are copies of Megatron-core's distributed optimizer",
    "use --framework megatron --transformer-impl transformer_engine --shard zero1"};

std::string task_conflict(const StepConfig& c) {
  return "--task " + std::string(to_option(c.task.kind));
}
constexpr Requirement of_trl = {
    [](const StepConfig& c) {
      return c.runtime.framework == "trl" ||
             (c.verl() && (c.task.kind == Task::grpo || c.task.has_critic())) ||
             (c.llamafactory() && !c.task.online()) ||
             (c.runtime.framework == "ms-swift" &&
              (c.task.kind == Task::dpo || c.task.kind == Task::kto));
    },
    [](const StepConfig& c) { return "--framework " + c.runtime.framework; },
    "other tasks than sft are planned as TRL's trainers do them, grpo and ppo as verl's workers "
    "do, all but those as LLaMA-Factory's stages do, and dpo and kto as ms-swift's trainers do",
    "use --framework trl"};
constexpr Requirement has_reference = {[](const StepConfig& c) { return c.task.compares(); },
                                       task_conflict,
                                       "only DPO, KTO, GRPO, RLOO and PPO compare with a reference",
                                       "use --task dpo, kto, grpo, rloo or ppo"};
constexpr Requirement writes_answers = {
    [](const StepConfig& c) { return c.task.online(); }, task_conflict,
    "only GRPO, RLOO, PPO and distillation train on completions that are written between their "
    "steps",
    "use --task grpo, rloo, ppo or distillation"};
constexpr Requirement compares_answers = {
    [](const StepConfig& c) { return c.task.online() && c.task.compares(); }, task_conflict,
    "only GRPO, RLOO and PPO have several completions of a prompt", "use --task grpo, rloo or ppo"};
constexpr Requirement has_teacher = {[](const StepConfig& c) { return c.task.distills(); },
                                     task_conflict, "only distillation has a teacher",
                                     "use --task distillation"};
constexpr Requirement has_critic = {[](const StepConfig& c) { return c.task.has_critic(); },
                                    task_conflict, "only PPO has a critic",
                                    "use --framework verl --task ppo"};
constexpr Requirement scores_answers = {
    [](const StepConfig& c) { return !c.task.supervised() && c.task.kind != Task::reward; },
    task_conflict, "it is about answers whose tokens are scored, and a prompt's that are not",
    "use --task dpo, kto, orpo, simpo, grpo, rloo, ppo or distillation"};
constexpr Requirement of_transformers_loop = {
    [](const StepConfig& c) {
      const std::string& f = c.runtime.framework;
      return f == "hf" || f == "hf-trainer" || f == "trl";
    },
    [](const StepConfig& c) { return "--framework " + c.runtime.framework; },
    "the routers' auxiliary loss is planned in transformers' and TRL's loops",
    "use --framework hf, hf-trainer or trl"};
constexpr Requirement of_verl = {
    [](const StepConfig& c) { return c.verl(); },
    [](const StepConfig& c) { return "--framework " + c.runtime.framework; },
    "only verl's worker has such a setting", "use --framework verl"};

using enum OptionGroup;
using S = StepConfig;
constexpr OptionRow table[] = {
    name<&S::runtime, &RuntimeChoice::framework>(
        {"--framework", "framework", "NAME",
         "hf, hf-trainer, trl, llamafactory, verl, torchtune, litgpt, liger, automodel, "
         "torchtitan, megatron or "
         "deepspeed: a "
         "preset of the options below; explicit options override it (hf)",
         model}),
    needing(
        newer(choice<&S::task, &TaskChoice::kind, tasks>(
            {"--task", "task", "NAME",
             "what the step trains for, by --framework trl or llamafactory: sft, dpo, orpo, simpo "
             "(pairs of a "
             "chosen and a rejected answer), kto (answers that are good or bad), reward (a "
             "reward model of such pairs), grpo or rloo (completions that the model writes, by "
             "their rewards; trl has them, and verl grpo), ppo (such completions, by a critic's "
             "values of them; verl) or distillation (such completions, by a teacher's "
             "distributions; trl) (sft)",
             task})),
        of_trl),
    needing(newer(model_row<&TaskChoice::teacher>(
                {"--teacher", "teacher", "MODEL",
                 "with --task distillation, the model that is learned from, given as "
                 "MODEL is, of the same vocabulary (none)",
                 task})),
            has_teacher),
    needing(
        newer(choice<&S::task, &TaskChoice::reference, references>(
            {"--ref", "ref", "WHAT",
             "with --task dpo or kto, what the reference's log-probabilities come from: model (a "
             "second one; without --lora the default), adapter (the model with its adapters "
             "off; with --lora the default) or precomputed (before training); with --task "
             "grpo, rloo or ppo model, adapter or none (beta 0, grpo's and ppo's default; rloo's "
             "are dpo's)",
             task})),
        has_reference),
    needing(
        newer(whole<&S::task, &TaskChoice::prompt>(
            {"--prompt", "prompt", "N",
             "with --task dpo, kto, orpo, simpo, grpo, rloo, ppo or distillation: tokens of each "
             "sequence that are the prompt's, which are not scored (0)",
             task},
            0, most_tokens)),
        scores_answers),
    needing(
        newer(mode<apply_rollout, rollout_option>(
            {"--rollout", "rollout", "WHO",
             "with --task grpo, rloo, ppo or distillation, who writes the completions: generate "
             "(transformers, on this model), vllm:SHARE (an engine on this device, with that "
             "share of it; "
             "vllm:tp2,util=SHARE,sleep=1 says how many ranks share its layers and at which "
             "level it sleeps while it writes nothing) or served (elsewhere) (generate)",
             task},
            rollout_words, "^(generate|vllm:[0-9a-z.,=]+|served)$")),
        writes_answers),
    needing(
        newer(whole<&S::task, &TaskChoice::completion>(
            {"--completion", "completion", "N",
             "with --task grpo, rloo, ppo or distillation: tokens of the longest completion; --seq "
             "is then --prompt and it (0: what --seq leaves)",
             task},
            0, most_tokens)),
        writes_answers),
    needing(newer(whole<&S::task, &TaskChoice::group>(
                {"--group", "group", "N",
                 "with --task grpo, rloo or ppo: completions of each prompt (num_generations, "
                 "rollout.n), of "
                 "which a step over all ranks has whole groups (0: not said)",
                 task},
                0, most_tokens)),
            compares_answers),
    needing(newer(whole<&S::task, &TaskChoice::score_batch>(
                {"--score-batch", "score_batch", "N",
                 "with --framework verl: rows of a micro-batch that is scored without gradients "
                 "(log_prob_micro_batch_size_per_gpu) (0: as --batch)",
                 task},
                0, most_tokens)),
            of_verl),
    needing(newer(flag<&S::task, &TaskChoice::entropy_loss>(
                {"--entropy-loss", "entropy_loss", "",
                 "with --framework verl: the policy's entropy is part of the loss (entropy_coeff "
                 "other than 0)",
                 task})),
            of_verl),
    needing(newer(choice<&S::task, &TaskChoice::router_loss, router_losses>(
                {"--router-aux-loss", "router_aux_loss", "WHEN",
                 "of a mixture of experts, the routers' auxiliary loss: auto (TRL adds it by the "
                 "configuration's router_aux_loss_coef, others by its output_router_logits), on or "
                 "off (auto)",
                 task})),
            of_transformers_loop),
    needing(newer(choice<&S::task, &TaskChoice::parked, parkings>(
                {"--phase-offload", "phase_offload", "WHAT",
                 "with --framework verl, what is moved to the host's memory while the trainer does "
                 "not need it: none, optimizer (optimizer_offload) or all (param_offload, too) "
                 "(none)",
                 task})),
            of_verl),
    needing(newer(model_row<&TaskChoice::critic>(
                {"--critic", "critic", "MODEL",
                 "with --task ppo, the critic's model, given as MODEL is: its token classifier of "
                 "one label (critic.model.path) (the actor's)",
                 task})),
            has_critic),
    needing(newer(whole<&S::task, &TaskChoice::critic_batch>(
                {"--critic-batch", "critic_batch", "N",
                 "with --task ppo, rows of a critic's micro-batch at most (0: as many as have the "
                 "32768 tokens of verl 0.9.1's ppo_infer_max_token_len_per_gpu)",
                 task},
                0, most_tokens)),
            has_critic),
    needing(newer(choice<&S::task, &TaskChoice::critic_parked, parkings>(
                {"--critic-offload", "critic_offload", "WHAT",
                 "with --task ppo, what of the critic waits in the host's memory, as "
                 "--phase-offload says it of the actor: none, optimizer or all (as "
                 "--phase-offload)",
                 task})),
            has_critic),
    needing(newer(choice<&S::run, &ModelRun::transformer_impl, transformer_impls>(
                {"--transformer-impl", "transformer_impl", "WHOSE",
                 "whose layers: hf (transformers', in any framework's loop); with --framework "
                 "torchtitan, "
                 "torchtune or litgpt its own, by that name, where it has the model (its default); "
                 "with --framework megatron transformer_engine or local: the step as Megatron-core "
                 "runs it, of Transformer Engine's layers or its own (hf)",
                 model})),
            of_framework),
    whole<&S::run, &ModelRun::batch>(
        {"--batch", "batch", "N", "sequences per rank and micro-batch, or pairs of --task (1)",
         model},
        1, most_tokens),
    whole<&S::run, &ModelRun::seq>(
        {"--seq", "seq", "N", "tokens per sequence; 8k is 8192 (2048)", model}, 1, most_tokens),
    newer(whole<&S::run, &ModelRun::packing>(
        {"--packing", "packing", "DOCS",
         "documents packed into one row of batch * seq tokens, each attending to itself alone: "
         "with --attn flash by flash_attn_varlen_func, otherwise by a mask (0: not packed)",
         model},
        0, most_documents)),
    newer(flag<&S::run, &ModelRun::position_ids>(
        {"--position-ids", "position_ids", "",
         "the batch carries position_ids, (batch, seq), so tables of angles are made for each "
         "sequence; without them the model counts positions once for all",
         model},
        "--no-position-ids")),
    whole<&S::run, &ModelRun::grad_accum>(
        {"--grad-accum", "grad_accum", "N", "micro-batches per step (1)", model}, 1, most_tokens),
    name<&S::device, &DeviceChoice::gpu>(
        {"--gpu", "gpu", "NAME",
         "h100-80gb, h200, … (see ac-advisor devices), 24GiB (any memory, rates of the nearest "
         "GPU; "
         "24GiB@l4: of that one), cpu (exact bytes), or a file that calibrate wrote (h100-80gb)",
         device}),
    whole<&S::layout, &Layout::world>(
        {"--world", "world", "N",
         "ranks; with --tp T and --pp P, N / (T * P) of them see different data (1)", parallelism},
        1, most_ranks),
    newer(whole<&S::layout, &Layout::tp>(
        {"--tp", "tp", "T",
         "ranks that share each layer: tensor and sequence parallelism by PyTorch's DTensor, as "
         "TorchTitan's llama (1)",
         parallelism},
        1, most_ranks)),
    needing(newer(flag<&S::layout, &Layout::sequence_parallel>(
                {"--sp", "sequence_parallel", "",
                 "with --tp: norms and the residual stream are parts of each sequence (default)",
                 parallelism},
                "--no-sp")),
            splits_layers),
    needing(newer(flag<&S::layout, &Layout::loss_parallel>(
                {"--loss-parallel", "loss_parallel", "",
                 "with --tp: the loss is computed on parts of the vocabulary, without whole logits "
                 "(default)",
                 parallelism},
                "--no-loss-parallel")),
            splits_layers),
    newer(whole<&S::layout, &Layout::cp>(
        {"--cp", "cp", "N",
         "ranks that share each sequence: context parallelism by PyTorch's ring attention, as in "
         "TorchTitan, by DeepSpeed's Ulysses or by Transformer Engine's ring; --seq counts the "
         "whole sequence (1)",
         parallelism},
        1, most_ranks)),
    needing(
        newer(choice<&S::layout, &Layout::cp_method, cp_methods>(
            {"--cp-method", "cp_method", "NAME",
             "with --cp: keys and values reach the other ranks by one allgather, or from rank "
             "to rank by alltoall; or ulysses: each rank attends with a part of the heads, as in "
             "DeepSpeed (allgather)",
             parallelism})),
        splits_sequences),
    needing(newer(mode<apply_cp_rank, cp_rank_text>(
                {"--cp-rank", "cp_rank", "R",
                 "with --cp: the rank of a sequence whose step is shown, or usual: the last but "
                 "one, which holds the most of a long one (usual)",
                 parallelism},
                cp_rank_words, "^(usual|[0-9]+)$")),
            has_ring),
    needing(
        newer(whole<&S::layout, &Layout::ep>(
            {"--ep", "ep", "N",
             "ranks that share each layer's experts: expert parallelism, tokens going to the "
             "ranks that have theirs, by transformers' or TorchTitan's all-to-all beside FSDP2 or "
             "as Megatron-core does it (1)",
             parallelism},
            1, most_ranks)),
        shares_experts),
    needing(
        newer(whole<&S::layout, &Layout::etp>(
            {"--etp", "etp", "T", "ranks that share each expert (0: as many as --tp)", parallelism},
            0, most_ranks)),
        of_megatron_core),
    newer(whole<&S::layout, &Layout::pp>(
        {"--pp", "pp", "N",
         "ranks that have a part of the blocks each: a pipeline by torch.distributed.pipelining; "
         "--grad-accum is its number of micro-batches (1)",
         parallelism},
        1, most_stages)),
    needing(
        newer(mode<apply_pp_schedule, pp_schedule_option>(
            {"--pp-schedule", "pp_schedule", "NAME",
             "1f1b, gpipe, interleaved:V (V stages per rank), or with backwards in two parts zb1, "
             "zb1:V, zbv, dualpipev (two stages per rank): the order of micro-batches (1f1b)",
             parallelism},
            pp_schedule_words, "^(1f1b|gpipe|interleaved:[0-9]+|zb1(:[0-9]+)?|zbv|dualpipev)$")),
        has_stages),
    needing(newer(mode<apply_pp_layers, pp_layers_text>(
                {"--pp-layers", "pp_layers", "A,B,…",
                 "blocks of each stage (as TorchTitan splits: embedding and head count as one "
                 "block each)",
                 parallelism},
                {}, "^([0-9]+(,[0-9]+)*)?$")),
            has_stages),
    needing(newer(mode<apply_pp_rank, pp_rank_text>(
                {"--pp-rank", "pp_rank", "R",
                 "the rank of the pipeline whose step is shown, or highest: that of the highest "
                 "allocated peak (highest)",
                 parallelism},
                pp_rank_words, "^(highest|[0-9]+)$")),
            has_stages),
    newer(whole<&S::device, &DeviceChoice::threads>(
        {"--threads", "threads", "N", "CPU threads per rank, with --gpu cpu (1)", device}, 1,
        most_threads)),
    mode<apply_shard, shard_option>(
        {"--shard", "shard", "MODE",
         "none, ddp, zero1, zero2, zero3, fsdp1, fsdp2 or hsdp:N (N ranks a "
         "shard group); several ranks: fsdp2 "
         "or the preset's (none)",
         parallelism},
        shard_words, "^(none|ddp|zero1|zero2|zero3|fsdp1|fsdp2|hsdp:[0-9]+)$"),
    needing(newer(mode<apply_compression, compression_option>(
                {"--grad-compression", "grad_compression", "HOW",
                 "with ddp, what is sent of a bucket of gradients: bf16, fp16, topk:RATIO (the "
                 "largest elements) or powersgd:RANK (factors); its error is kept. advise: auto, "
                 "which of them pays on which network (none)",
                 parallelism},
                compression_words, "^(none|bf16|fp16|topk:[0-9.e-]+|powersgd:[0-9]+)$")),
            is_ddp),
    needing(newer(whole<&S::layout, &Layout::optimizer_instances>(
                {"--optimizer-instances", "optimizer_instances", "N",
                 "with zero1 of Megatron-core: copies of its distributed optimizer, each over a "
                 "part of the ranks (1)",
                 parallelism},
                1, most_ranks)),
            of_distributed_optimizer),
    needing(choice<&S::layout, &Layout::fsdp_unit, fsdp_units>(
                {"--fsdp-unit", "fsdp_unit", "UNIT",
                 "what one fully_shard wraps: block, segment (of --ac grouped:K), or torchtitan: a "
                 "block, the embedding, the final norm with the head; accelerate: the same, a tied "
                 "embedding with norm and head (block)",
                 parallelism}),
            has_units),
    needing(flag<&S::layout, &Layout::keep_last_block>(
                {"--keep-last-block", "keep_last_block", "",
                 "fsdp2: the last block is not resharded after forward", parallelism},
                "--no-keep-last-block"),
            gathers_blocks),
    needing(newer(mode<apply_reshard, reshard_text>(
                {"--reshard-after-forward", "reshard_after_forward", "WHEN",
                 "fsdp2: true (each unit is gathered again for backward), false (it stays), or N: "
                 "it is kept in parts on N ranks, a node's (true)",
                 parallelism},
                reshard_words, "^(true|false|[0-9]+)$")),
            gathers_blocks),
    needing(newer(choice<&S::layout, &Layout::backward_prefetch, backward_prefetches>(
                {"--backward-prefetch", "backward_prefetch", "WHEN",
                 "fsdp1: the next unit of backward is gathered before this one's gradients are "
                 "computed (pre), after (post), or when it is needed (none) (pre)",
                 parallelism})),
            is_fsdp1),
    needing(newer(flag<&S::layout, &Layout::bucket_views>(
                {"--gradient-as-bucket-view", "gradient_as_bucket_view", "",
                 "ddp: gradients are views of the buckets that are reduced, not tensors beside "
                 "them, which is PyTorch's default",
                 parallelism},
                "--no-gradient-as-bucket-view")),
            is_ddp),
    needing(newer(flag<&S::layout, &Layout::overlap_comm>(
                {"--overlap-comm", "overlap_comm", "",
                 "zero1, zero2: a full bucket of gradients is reduced while backward goes on, into "
                 "a second one",
                 parallelism},
                "--no-overlap-comm")),
            has_overlap),
    flag<&S::layout, &Layout::no_sync>(
        {"--no-sync", "no_sync", "", "gradients are reduced after the last micro-batch only",
         parallelism},
        "--sync-each-batch"),
    newer(whole<&S::layout, &Layout::node_size>(
        {"--node-size", "node_size", "N",
         "ranks of a node, which links join (0: the device's, 8 for most)", parallelism},
        0, most_ranks)),
    newer(decimal<&S::layout, &Layout::network_gbps, parse_network>(
        {"--network", "network_gbps", "NAME",
         "between nodes: edr, hdr, ndr, xdr, efa-p4d, efa-p5, or Gbit/s of one GPU (0: the "
         "device's)",
         parallelism})),
    mode<apply_ac, ac_option>(
        {"--ac", "ac", "MODE",
         "activation checkpointing: none, full, selective, attention, grouped:K (K blocks a "
         "segment), every:K (every K-th block), sqrt, budget:SIZE (40GiB; the cheapest that "
         "fits), memory-budget:F (PyTorch's own, 0 to 1; needs --kernels compiled), or of "
         "--transformer-impl first:N (N blocks of each stage) and modules:PARTS (with + between "
         "them, of core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, shared_experts) (none)",
         memory},
        ac_mode_words,
        "^(none|full|selective|attention|sqrt|grouped:[0-9]+|every:[0-9]+|first:[0-9]+|"
        "modules:[a-z_]+(\\+[a-z_]+)*|budget:[0-9]+([KMGT]iB|[kMGT]B)?|"
        "memory-budget:([01]|[01]?\\.[0-9]+))$"),
    mode<apply_block_modes, block_modes_text>(
        {"", "block_modes", "", "what budget: chose, a mode per block; empty otherwise", internal},
        {}, ""),
    needing(choice<&S::memory, &MemoryTechniques::scope, scopes>(
                {"--ac-scope", "ac_scope", "SCOPE",
                 "block or submodule: what one checkpoint wraps, with --ac full and every:K "
                 "(block)",
                 memory}),
            has_scope),
    needing(newer(flag<&S::memory, &MemoryTechniques::reentrant>(
                {"--ac-reentrant", "ac_reentrant", "",
                 "torch.utils.checkpoint(use_reentrant=True): transformers' default before 5.0, "
                 "and that of PEFT's prepare_model_for_kbit_training",
                 memory},
                "--no-ac-reentrant")),
            has_any_checkpoints),
    mode<apply_loss, loss_option>(
        {"--loss", "loss", "LOSS",
         "ce, ce-no-upcast (in the logits' own dtype), ce-compiled (by torch.compile), lc-ce (no "
         "logits in memory), tiled (TRL's, 4096 tokens x 32768 words at a time), chunked:TOKENS "
         "(of TOKENS tokens at a time) or "
         "chunked-logits:N (torchtune's, N parts of the sequence) (ce)",
         memory},
        loss_words,
        "^(ce|ce-no-upcast|ce-compiled|lc-ce|tiled|chunked:[0-9]+|chunked-logits:[0-9]+)$"),
    needing(newer(choice<&S::memory, &MemoryTechniques::wide_output, output_dtypes>(
                {"--output-dtype", "output_fp32", "TYPE",
                 "bf16 (as computed) or fp32: the logits are cast once more for the loop, as "
                 "accelerate's convert_outputs_to_fp32 does (bf16)",
                 precision})),
            has_logits),
    flag<&S::memory, &MemoryTechniques::hold_output>(
        {"--hold-output", "hold_output", "",
         "the loop keeps the model's output through backward (default, but for chunked)", memory},
        "--no-hold-output"),
    newer(choice<&S::memory, &MemoryTechniques::held_until_next, held_untils>(
        {"--held-until", "held_until_next_forward", "WHEN",
         "when what the loop holds of a step goes: next-forward, as its names are assigned again "
         "after it (hf's default), or backward, before the next forward begins (with "
         "--hold-output or --no-hold-output by hand)",
         memory})),
    choice<&S::memory, &MemoryTechniques::kernels, kernels>(
        {"--kernels", "kernels", "KIND",
         "eager, fused, or compiled: each block by torch.compile (eager)", memory}),
    newer(choice<&S::memory, &MemoryTechniques::compile_unit, compile_units>(
        {"--compile-unit", "compile_unit", "UNIT",
         "of --kernels compiled, what is one graph: block, as torchtitan compiles, or model with "
         "its loss, as torch.compile(model) (block)",
         memory})),
    newer(choice<&S::memory, &MemoryTechniques::offload, offloads>(
        {"--offload", "offload", "WHAT",
         "activations: what autograd saves waits in pinned host memory, as TRL's "
         "activation_offloading has it; parameters: FSDP's CPU offloading, with gradients and "
         "the optimizer on the host, with zero3 DeepSpeed's offload_param and offload_optimizer; "
         "optimizer: torchao's CPUOffloadOptimizer, whose states and step are the host's, with "
         "zero1, zero2 or zero3 DeepSpeed's offload_optimizer; gradients: torchao's with "
         "offload_gradients=True (none)",
         memory})),
    needing(newer(flag<&S::memory, &MemoryTechniques::fused_gradients>(
                {"--gradient-accumulation-fusion", "gradient_accumulation_fusion", "",
                 "Megatron-LM's: the products of weights' gradients add to the fp32 main gradients "
                 "themselves; the gradients in bf16 are one tensor a shape, which stays (its "
                 "default, and with --framework megatron --transformer-impl ours)",
                 memory},
                "--no-gradient-accumulation-fusion")),
            has_fused_products),
    choice<&S::optimizer, &OptimizerChoice::kind, optimizers>(
        {"--optimizer", "optimizer", "NAME",
         "adamw (fused), adamw-foreach, sgd, sgd-momentum, adamw-8bit, paged-adamw, "
         "paged-adamw-8bit or lion (bitsandbytes'), adamw-8bit-torchao, adafactor "
         "(transformers'), or muon (torch.optim.Muon of the blocks' matrices, adamw of all else) "
         "(adamw)",
         memory}),
    newer(flag<&S::optimizer, &OptimizerChoice::wide_embedding_states>(
        {"--fp32-embedding-states", "fp32_embedding_states", "",
         "8-bit optimizers of bitsandbytes keep the input embedding's states in fp32, as "
         "transformers.Trainer has them",
         memory},
        "--no-fp32-embedding-states")),
    newer(flag<&S::optimizer, &OptimizerChoice::master_weights>(
        {"--master-weights", "master_weights", "",
         "adamw keeps fp32 copies of parameters in 16 bits, and fp32 moments: Transformer Engine's "
         "FusedAdam(master_weights=True)",
         memory},
        "--no-master-weights")),
    newer(flag<&S::optimizer, &OptimizerChoice::in_backward>(
        {"--optimizer-in-backward", "optimizer_in_backward", "",
         "each parameter is updated as soon as its gradient is there, which is dropped then",
         memory},
        "--no-optimizer-in-backward")),
    newer(flag<&S::optimizer, &OptimizerChoice::ema>(
        {"--ema", "ema", "", "keep an exponential moving average of the parameters", memory},
        "--no-ema")),
    newer(decimal<&S::optimizer, &OptimizerChoice::clip_grad, parse_norm>(
        {"--clip-grad", "clip_grad", "NORM",
         "gradients are clipped to this norm, by torch.nn.utils.clip_grad_norm_ (0: not)",
         memory})),
    newer(whole<&S::adapters, &Adapters::rank>(
        {"--lora", "lora", "RANK",
         "low-rank adapters of this rank over a frozen base, as PEFT's; 0: all parameters are "
         "trained (0)",
         adapters},
        0, 65536)),
    newer(mode<apply_adapter, adapter_option>(
        {"--adapter", "adapter", "METHOD",
         "another of PEFT's methods over a frozen base: ia3, ln-tuning, prompt-tuning:TOKENS, "
         "p-tuning:TOKENS, prefix-tuning:TOKENS, trainable-tokens:N, loha:RANK, lokr:RANK (or "
         "RANK:FACTOR), vera:RANK, miss:RANK (or RANK:MINI), oft:BLOCK, road:VARIANT, "
         "adalora:RANK, glora:RANK or delora:RANK (none)",
         adapters},
        adapter_words,
        "^(none|ia3|ln-tuning|(prompt-tuning|p-tuning|prefix-tuning|trainable-tokens):[0-9]+"
        "|(loha|vera|oft|road|adalora|glora|delora)(:[0-9]+)?|(lokr|miss)(:[0-9]+(:[0-9]+)?)?)$")),
    needing(newer(mode<apply_lora_targets, lora_targets_text>(
                {"--lora-targets", "lora_targets", "NAMES",
                 "what gets adapters: endings of modules' names, q_proj,v_proj say, or all-linear "
                 "(PEFT's for the family)",
                 adapters},
                {}, "^([a-z0-9_.]+(,[a-z0-9_.]+)*|all-linear)?$")),
            has_adapters),
    needing(newer(choice<&S::adapters, &Adapters::dtype, adapter_dtypes>(
                {"--lora-dtype", "lora_dtype", "TYPE",
                 "fp32 or bf16: the adapters, their gradients and states (fp32, as PEFT's)",
                 adapters})),
            has_adapters),
    needing(newer(decimal<&S::adapters, &Adapters::dropout, parse_dropout>(
                {"--lora-dropout", "lora_dropout", "P", "dropout of the adapters' input (0)",
                 adapters})),
            has_adapters),
    needing(newer(flag<&S::adapters, &Adapters::dora>(
                {"--dora", "dora", "", "adapters with a trained magnitude for each output (DoRA)",
                 adapters})),
            has_adapters),
    needing(newer(choice<&S::adapters, &Adapters::quantize, quantizations>(
                {"--quantize", "quantize", "HOW",
                 "none, nf4, nf4-double (its scales quantized too) or int8: the frozen linear "
                 "layers but the LM head, as bitsandbytes stores them (none)",
                 adapters})),
            has_adapters),
    needing(
        newer(choice<&S::adapters, &Adapters::saves_inputs, bitsandbytes_versions>(
            {"--bitsandbytes", "bitsandbytes", "VERSION",
             "of --quantize with --framework litgpt: 0.50, or 0.41: the inputs of layers in 4 bits "
             "are kept, as before 0.43.2 (0.50)",
             adapters})),
        of_litgpt),
    needing(newer(flag<&S::adapters, &Adapters::stable_embedding>(
                {"--stable-embedding", "stable_embedding", "",
                 "of --quantize with --framework litgpt: the embedding is replaced by "
                 "bitsandbytes' StableEmbedding after all else was frozen (litgpt's default)",
                 adapters},
                "--no-stable-embedding")),
            of_litgpt),
    needing(newer(choice<&S::adapters, &Adapters::input_grads, input_grads>(
                {"--input-require-grads", "input_require_grads", "WHEN",
                 "auto (where activations are checkpointed, as PEFT does), on or off: the "
                 "embedding's output gets a gradient (auto)",
                 adapters})),
            hooks_inputs),
    needing(newer(flag<&S::adapters, &Adapters::kbit_prepare>(
                {"--kbit-prepare", "kbit_prepare", "",
                 "PEFT's prepare_model_for_kbit_training: what is not quantized is cast to fp32",
                 adapters},
                "--no-kbit-prepare")),
            has_adapters),
    choice<&S::run, &ModelRun::attention, attentions>(
        {"--attn", "attn", "BACKEND",
         "auto, flash, cudnn, efficient, math, eager or flash1, of PyTorch 2.0 and 2.1 (auto)",
         model}),
    newer(choice<&S::runtime, &RuntimeChoice::cuda_graph, cuda_graphs>(
        {"--cuda-graph", "cuda_graph", "WHAT",
         "off, step or segments: captured and replayed by the trainer; with --kernels compiled, "
         "segments is torch.compile's mode reduce-overhead (off)",
         device})),
    choice<&S::precision, &Precision::param_dtype, dtypes>(
        {"--param-dtype", "param_dtype", "TYPE", "bf16, fp16 or fp32: parameters as stored (bf16)",
         precision}),
    choice<&S::precision, &Precision::compute_dtype, dtypes>(
        {"--compute-dtype", "compute_dtype", "TYPE",
         "bf16, fp16 or fp32: of the computation (the parameters'; bf16 under fsdp1 and 2)",
         precision}),
    choice<&S::precision, &Precision::reduce_dtype, dtypes>(
        {"--reduce-dtype", "reduce_dtype", "TYPE",
         "bf16, fp16 or fp32: gradients between ranks (the computation's)", precision}),
    bare("bf16", autocast_row({"--autocast", "autocast", "TYPE",
                               "none, bf16 or fp16 (alone: bf16): torch.autocast around forward "
                               "and loss; parameters are fp32 unless given (none)",
                               precision})),
    newer(choice<&S::precision, &Precision::fp8, fp8_recipes>(
        {"--fp8", "fp8", "RECIPE",
         "tensorwise or rowwise: the blocks' linear layers are torchao's Float8Linear; mx: its "
         "MXFP8Linear, from compute capability 10.0 on; with --transformer-impl transformer_engine "
         "delayed or tensorwise: its recipes of FP8 (none)",
         precision})),
    newer(flag<&S::precision, &Precision::fp8_all_gather>(
        {"--fp8-all-gather", "fp8_all_gather", "",
         "with --fp8 tensorwise and fsdp2 or hsdp:N: their weights are gathered in 8 bits, by "
         "scales that are computed after the optimizer's step",
         precision})),
    newer(flag<&S::optimizer, &OptimizerChoice::grad_scaler>(
        {"--grad-scaler", "grad_scaler", "",
         "torch.amp.GradScaler: the loss is scaled, gradients are checked and unscaled (default "
         "where fp32 parameters compute in fp16)",
         precision},
        "--no-grad-scaler")),
    decimal<&S::run, &ModelRun::dropout, parse_dropout>(
        {"--dropout", "dropout", "P", "attention dropout (0: the model's)", model}),
    decimal<&S::run, &ModelRun::capacity_factor, parse_capacity_factor>(
        {"--capacity-factor", "capacity_factor", "F",
         "mixture of experts: an expert's load over the balanced one (1)", model}),
    newer(flag<&S::run, &ModelRun::balanced_routing>(
        {"--balanced-routing", "balanced_routing", "",
         "of the trainer: routers choose experts in turn, whatever the scores, as TorchTitan's "
         "debug.moe_force_load_balance; --ep needs it there",
         model})),
    newer(whole<&S::run, &ModelRun::images>(
        {"--images", "images", "N",
         "images in each sequence, of a model with an encoder of them; their tokens are among "
         "--seq's (0)",
         model},
        0, most_images)),
    needing(newer(mode<apply_image_pixels, image_pixels_text>(
                {"--image-pixels", "image_pixels", "HxW",
                 "pixels of each image, height and width, after its processor's limits; each is "
                 "rounded to whole merged patches (the encoder's own size)",
                 model},
                {}, "^([0-9]+x[0-9]+)?$")),
            has_images),
    needing(newer(mode<apply_freeze, freeze_text>(
                {"--freeze", "freeze", "PARTS",
                 "what is not trained, and with --lora gets no adapters, with commas between: "
                 "tower (the "
                 "encoder of images), projector (or merger, aligner), decoder (nothing)",
                 model},
                {}, "^((tower|projector|decoder)(,(tower|projector|decoder))*)?$")),
            has_parts),
    needing(newer(flag<&S::memory, &MemoryTechniques::tower_ac>(
                {"--tower-ac", "tower_ac", "",
                 "each layer of the encoder of images is checkpointed; --ac is of the decoder's "
                 "blocks",
                 memory},
                "--no-tower-ac")),
            has_images),
    newer(choice<&S::runtime, &RuntimeChoice::torch, torches>(
        {"--torch", "torch", "VERSION",
         "the PyTorch whose step it is, by its wheel for CUDA 13: 2.11 or 2.15 (2.11)", device})),
    choice<&S::runtime, &RuntimeChoice::expandable_segments, alloc_confs>(
        {"--alloc-conf", "expandable_segments", "CONF",
         "PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True or :False (:False)", device}),
    newer(mode<apply_cublas_workspace, cublas_workspace_text>(
        {"--cublas-workspace", "cublas_workspace", "CONF",
         "CUBLAS_WORKSPACE_CONFIG: :KIB:COUNT, such as :4096:8, which deterministic training sets "
         "(PyTorch's default for the device)",
         device},
        {}, "^((:[0-9]+:[0-9]+)+)?$")),
    needing(newer(flag<&S::runtime, &RuntimeChoice::deterministic>(
                {"--deterministic", "deterministic", "",
                 "Megatron-LM's --deterministic-mode: a mixture of experts puts tokens back in "
                 "order by another kernel, which keeps more, and FlashAttention's backward sums "
                 "the queries' gradients in as many parts as fill the device",
                 device})),
            of_megatron_core),
    choice<&S::runtime, &RuntimeChoice::kind, runtimes>(
        {"", "runtime", "", "whose step it is: PyTorch's or the trainer's", internal}),
    flag<&S::runtime, &RuntimeChoice::force>(
        {"--force", "force", "", "plan a combination that a framework refuses", model}),
    flag<&S::runtime, &RuntimeChoice::under_dispatch_mode>(
        {"", "under_dispatch_mode", "", "references were taken under a TorchDispatchMode",
         internal}),
};

constexpr NeededOption needed_by_most[] = {
    {"--gpu", "GPU to plan for (h100-80gb); see ac-advisor devices"},
    {"--batch", "sequences per GPU and micro-batch (1)"},
    {"--seq", "tokens per sequence; 8k is 8192 (2048)"},
    {"--framework", "whose training loop (hf); see ac-advisor frameworks"},
    {"--world", "GPUs, over all nodes (1)"},
    {"--shard", "none, ddp, zero1, zero2, zero3, fsdp1, fsdp2, hsdp:N"},
    {"--grad-accum", "micro-batches per step (1)"},
    {"--ac", "checkpointing: none, full, selective, every:K, …"},
    {"--loss", "ce, chunked:TOKENS, lc-ce, … (ce)"},
    {"--kernels", "eager, fused or compiled (eager)"},
    {"--attn", "attention: auto, flash, math, … (auto)"},
    {"--optimizer", "adamw, adamw-8bit, sgd, … (adamw)"},
    {"--param-dtype", "dtype of the weights: bf16 or fp32"},
    {"--autocast", "mixed precision over fp32 weights: bf16 or fp16"},
    {"--lora", "rank of LoRA adapters on a frozen base (0: none)"},
    {"--quantize", "of a frozen base: nf4, int8, … (none)"},
};

}  // namespace
}  // namespace options

bool OptionRow::is_default(const StepConfig& config) const {
  static const StepConfig plain;
  return get(config) == get(plain);
}

const char* title_of(OptionGroup group) {
  constexpr const char* titles[] = {"Model and batch", "Task",        "Memory techniques",
                                    "Adapters",        "Parallelism", "Precision",
                                    "Device",          "Internal"};
  static_assert(std::size(titles) == option_group_count);
  return titles[static_cast<std::size_t>(group)];
}

std::span<const OptionRow> option_table() { return options::table; }

std::span<const NeededOption> options_needed_by_most() { return options::needed_by_most; }

const OptionRow* find_option(std::string_view name) {
  static const std::unordered_map<std::string_view, const OptionRow*> rows = [] {
    std::unordered_map<std::string_view, const OptionRow*> all;
    for (const OptionRow& row : options::table)
      for (const std::string_view word : {row.name, row.off})
        if (row.on_command_line() && !word.empty()) all.emplace(word, &row);
    return all;
  }();
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : found->second;
}

const OptionRow* find_option_key(std::string_view key) {
  for (const OptionRow& row : options::table)
    if (row.key == key) return &row;
  return nullptr;
}

}  // namespace ac_advisor
