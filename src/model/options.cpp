// Every option of the command-line contract (design, section 8), one row each.
#include "ac_advisor/model/options.hpp"

#include "options_choices.hpp"
#include "options_preset.hpp"
#include "options_settle.hpp"

namespace ac_advisor {
namespace options {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 31;
constexpr std::int64_t most_ranks = 1 << 20, most_threads = 4096;

struct Option {
  std::string_view name;
  bool takes_value;
  void (*apply)(const Given&, StepConfig&);
};

void refuse_empty(const Given& given) {
  if (given.value.empty()) refuse(given, "needs a value");
}

void apply_kernels(const Given& given, StepConfig& c) {
  if (given.value == "compiled")
    refuse(given, "not yet; use fused, which has the fusions that matter most for memory");
  c.memory.kernels = parse_choice(given, kernels);
}

void apply_optimizer(const Given& given, StepConfig& c) {
  if (given.value.find('8') != std::string_view::npos)
    refuse(given,
           "8-bit optimizers are out of scope: their block-wise states are not modelled; "
           "use adamw, adamw-foreach or sgd");
  c.optimizer.kind = parse_choice(given, optimizers);
}

void apply_dropout(const Given& given, StepConfig& c) {
  c.run.dropout = parse_decimal(given, "0.1");
  if (c.run.dropout < 0 || c.run.dropout >= 1)
    refuse(given, std::string("P must be at least 0 and below 1; the nearest is ") +
                      (c.run.dropout < 0 ? "0" : "0.99"));
}

void apply_capacity_factor(const Given& given, StepConfig& c) {
  constexpr double least = 0.01, most = 1024;
  c.run.capacity_factor = parse_decimal(given, "1.25");
  if (c.run.capacity_factor < least || c.run.capacity_factor > most)
    refuse(given, std::string("F must be from 0.01 to 1024; the nearest is ") +
                      (c.run.capacity_factor < least ? "0.01" : "1024"));
}

void apply_dtype(const Given& given, DType& dtype) {
  if (given.value.starts_with("fp8") || given.value.starts_with("float8"))
    refuse(given, "FP8 is out of scope: its scales and casts are not modelled; use bf16");
  dtype = parse_choice(given, dtypes);
}

constexpr Option table[] = {
    {"--framework", true, [](const Given& g, StepConfig& c) { c.runtime.framework = g.value; }},
    {"--batch", true,
     [](const Given& g, StepConfig& c) {
       c.run.batch = parse_whole(g, g.value, {"N", 1, most_tokens});
     }},
    {"--seq", true,
     [](const Given& g, StepConfig& c) {
       c.run.seq = parse_whole(g, g.value, {"N", 1, most_tokens});
     }},
    {"--grad-accum", true,
     [](const Given& g, StepConfig& c) {
       c.run.grad_accum = parse_whole(g, g.value, {"N", 1, most_tokens});
     }},
    {"--gpu", true, [](const Given& g, StepConfig& c) { c.device.gpu = g.value; }},
    {"--world", true,
     [](const Given& g, StepConfig& c) {
       c.layout.world = parse_whole(g, g.value, {"N", 1, most_ranks});
     }},
    {"--threads", true,
     [](const Given& g, StepConfig& c) {
       c.device.threads = parse_whole(g, g.value, {"N", 1, most_threads});
     }},
    {"--shard", true, apply_shard},
    {"--fsdp-unit", true,
     [](const Given& g, StepConfig& c) { c.layout.fsdp_unit = parse_choice(g, fsdp_units); }},
    {"--keep-last-block", false,
     [](const Given&, StepConfig& c) { c.layout.keep_last_block = true; }},
    {"--no-sync", false, [](const Given&, StepConfig& c) { c.layout.no_sync = true; }},
    {"--ac", true, apply_ac},
    {"--ac-scope", true,
     [](const Given& g, StepConfig& c) { c.memory.scope = parse_choice(g, scopes); }},
    {"--loss", true, apply_loss},
    {"--hold-output", false, [](const Given&, StepConfig& c) { c.memory.hold_output = true; }},
    {"--no-hold-output", false, [](const Given&, StepConfig& c) { c.memory.hold_output = false; }},
    {"--kernels", true, apply_kernels},
    {"--optimizer", true, apply_optimizer},
    {"--attn", true,
     [](const Given& g, StepConfig& c) { c.run.attention = parse_choice(g, attentions); }},
    {"--cuda-graph", true,
     [](const Given& g, StepConfig& c) { c.runtime.cuda_graph = parse_choice(g, cuda_graphs); }},
    {"--param-dtype", true,
     [](const Given& g, StepConfig& c) { apply_dtype(g, c.precision.param_dtype); }},
    {"--compute-dtype", true,
     [](const Given& g, StepConfig& c) { apply_dtype(g, c.precision.compute_dtype); }},
    {"--reduce-dtype", true,
     [](const Given& g, StepConfig& c) { apply_dtype(g, c.precision.reduce_dtype); }},
    {"--autocast", false, [](const Given&, StepConfig& c) { c.precision.autocast = true; }},
    {"--dropout", true, apply_dropout},
    {"--capacity-factor", true, apply_capacity_factor},
    {"--alloc-conf", true,
     [](const Given& g, StepConfig& c) {
       c.runtime.expandable_segments = parse_choice(g, alloc_confs);
     }},
    {"--force", false, [](const Given&, StepConfig& c) { c.runtime.force = true; }},
};

/// Asked for often enough to deserve a reason (design, section 10, item 13).
struct OutOfScope {
  std::string_view name, what;
};
constexpr OutOfScope out_of_scope[] = {
    {"--tp", "tensor parallelism splits the matrices of a block, which no pass here does"},
    {"--pp", "pipeline parallelism has a schedule of its own, which no pass here makes"},
    {"--cp", "context parallelism splits the sequence, which no pass here does"},
    {"--ep", "expert parallelism moves tokens between ranks, which no pass here does"},
    {"--lora", "adapters with frozen weights are not modelled"},
    {"--offload", "copies to the host and back are not modelled"},
    {"--fp8", "the scales and casts of FP8 are not modelled"},
    {"--packing", "packed sequences are not modelled"},
    {"--clip-grad", "the temporaries of gradient clipping are not modelled"},
};

void apply(const Given& given, Choices& choices) {
  for (const Option& option : table) {
    if (option.name != given.option) continue;
    if (option.takes_value)
      refuse_empty(given);
    else if (!given.value.empty())
      refuse(given, "takes no value; write " + std::string(option.name) + " alone");
    option.apply(given, choices.config);
    choices.options.push_back(option.name);
    return;
  }
  for (const OutOfScope& option : out_of_scope)
    if (option.name == given.option)
      refuse(given, "out of scope for now: " + std::string(option.what) +
                        "; drop the option to plan without it");
  std::vector<std::string_view> names;
  for (const Option& option : table) names.push_back(option.name);
  const std::string_view near = nearest(given.option, names);
  refuse({given.option, {}},
         "unknown option" + (near.empty() ? "" : "; did you mean " + std::string(near) + "?"));
}

}  // namespace
}  // namespace options

StepConfig resolve_options(const OptionList& list) {
  options::Choices hand, preset;
  for (const auto& [option, value] : list)
    if (option == "--framework") preset.config.runtime.framework = value;
  for (const auto& [option, value] : options::framework_preset(preset.config.runtime.framework))
    options::apply({option, value}, preset);
  hand.config = preset.config;
  for (const auto& [option, value] : list) options::apply({option, value}, hand);
  return options::settle(hand, preset);
}

}  // namespace ac_advisor
