// One row an option: its name, how to read it from a StepConfig and how to set it.
#include "ac_advisor/profile/config_fields.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::profile {

bool is_newer_default(const Field& field) {
  return (field.name == std::string("threads") && field.value == FieldValue(std::int64_t{1})) ||
         (field.name == std::string("cuda_graph") && field.value == FieldValue(std::string("off")));
}

namespace {

constexpr std::array ac_modes{AcMode::none,    AcMode::full,  AcMode::selective, AcMode::attention,
                              AcMode::grouped, AcMode::every, AcMode::sqrt,      AcMode::budget};
constexpr std::array scopes{AcScope::block, AcScope::submodule};
constexpr std::array losses{LossKind::ce, LossKind::lc_ce, LossKind::chunked};
constexpr std::array kernel_kinds{Kernels::eager, Kernels::fused};
constexpr std::array optimizers{Optimizer::adamw, Optimizer::adamw_foreach, Optimizer::sgd};
constexpr std::array shardings{Sharding::none,  Sharding::ddp,   Sharding::zero1,
                               Sharding::zero2, Sharding::fsdp2, Sharding::hsdp};
constexpr std::array units{FsdpUnit::block, FsdpUnit::segment};
constexpr std::array cuda_graphs{CudaGraph::off, CudaGraph::step, CudaGraph::segments};
constexpr std::array attentions{Attention::automatic, Attention::flash, Attention::cudnn,
                                Attention::efficient, Attention::math,  Attention::eager};
constexpr std::array dtypes{DType::bf16, DType::f32};

[[noreturn]] void refuse(const std::string& text) {
  throw UserError(fmt::format("\"{}\" is not a value of it", text));
}

template <typename E, std::size_t N>
E enum_from(const std::array<E, N>& values, const std::string& text) {
  for (E value : values)
    if (text == to_option(value)) return value;
  refuse(text);
}

std::string head(const std::string& text) { return text.substr(0, text.find(':')); }

std::string ac_name(AcMode mode) {
  StepConfig c;
  c.memory.ac = mode;
  c.memory.ac_arg = 1;
  return head(ac_option(c));
}

/// N of "grouped:N"; 0 without one.
std::int64_t argument(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return 0;
  std::int64_t n = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, n);
  if (error != std::errc{} || stop != end) refuse(text);
  return n;
}

void set_ac(StepConfig& c, const std::string& text) {
  for (AcMode mode : ac_modes) {
    if (head(text) != ac_name(mode)) continue;
    c.memory.ac_arg = mode == AcMode::budget && text.find(':') != std::string::npos
                          ? parse_size("--ac", text.substr(text.find(':') + 1))
                          : argument(text);
    c.memory.ac = mode;
    return;
  }
  refuse(text);
}

void set_loss(StepConfig& c, const std::string& text) {
  for (LossKind loss : losses) {
    StepConfig like;
    like.memory.loss = loss;
    like.memory.chunk_tokens = 1;
    if (head(text) != head(loss_option(like))) continue;
    c.memory.chunk_tokens = argument(text);
    c.memory.loss = loss;
    return;
  }
  refuse(text);
}

void set_shard(StepConfig& c, const std::string& text) {
  for (Sharding shard : shardings) {
    StepConfig like;
    like.layout.shard = shard;
    like.layout.hsdp_shards = 2;
    if (head(text) != head(shard_option(like))) continue;
    c.layout.hsdp_shards = argument(text);
    c.layout.shard = shard;
    return;
  }
  refuse(text);
}

std::string block_modes_text(const StepConfig& c) {
  std::string text;
  for (AcMode mode : c.memory.block_modes) text += (text.empty() ? "" : " ") + ac_name(mode);
  return text;
}

void set_block_modes(StepConfig& c, const std::string& text) {
  c.memory.block_modes.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    StepConfig one;
    set_ac(one, text.substr(at, end - at));
    c.memory.block_modes.push_back(one.memory.ac);
    at = end + 1;
  }
}

struct Row {
  const char* name;
  FieldValue (*get)(const StepConfig&);
  void (*set)(StepConfig&, const FieldValue&);
};

using Text = std::string;
using Int = std::int64_t;
const Text& text(const FieldValue& v) { return std::get<Text>(v); }

// A field whose type is the variant's own, and one that is an enum with a text form.
#define AC_PLAIN(name, member, type)                                             \
  Row {                                                                          \
    name, [](const StepConfig& c) -> FieldValue { return c.member; },            \
        [](StepConfig& c, const FieldValue& v) { c.member = std::get<type>(v); } \
  }
#define AC_ENUM(name, member, values)                                                     \
  Row {                                                                                   \
    name, [](const StepConfig& c) -> FieldValue { return Text(to_option(c.member)); },    \
        [](StepConfig& c, const FieldValue& v) { c.member = enum_from(values, text(v)); } \
  }

const std::array table{
    AC_PLAIN("framework", runtime.framework, Text),
    AC_PLAIN("batch", run.batch, Int),
    AC_PLAIN("seq", run.seq, Int),
    AC_PLAIN("grad_accum", run.grad_accum, Int),
    AC_PLAIN("gpu", device.gpu, Text),
    AC_PLAIN("world", layout.world, Int),
    AC_PLAIN("threads", device.threads, Int),
    Row{"shard", [](const StepConfig& c) -> FieldValue { return shard_option(c); },
        [](StepConfig& c, const FieldValue& v) { set_shard(c, text(v)); }},
    AC_ENUM("fsdp_unit", layout.fsdp_unit, units),
    AC_PLAIN("keep_last_block", layout.keep_last_block, bool),
    AC_PLAIN("no_sync", layout.no_sync, bool),
    Row{"ac", [](const StepConfig& c) -> FieldValue { return ac_option(c); },
        [](StepConfig& c, const FieldValue& v) { set_ac(c, text(v)); }},
    Row{"block_modes", [](const StepConfig& c) -> FieldValue { return block_modes_text(c); },
        [](StepConfig& c, const FieldValue& v) { set_block_modes(c, text(v)); }},
    AC_ENUM("ac_scope", memory.scope, scopes),
    Row{"loss", [](const StepConfig& c) -> FieldValue { return loss_option(c); },
        [](StepConfig& c, const FieldValue& v) { set_loss(c, text(v)); }},
    AC_PLAIN("hold_output", memory.hold_output, bool),
    AC_ENUM("kernels", memory.kernels, kernel_kinds),
    AC_ENUM("optimizer", optimizer.kind, optimizers),
    AC_ENUM("attn", run.attention, attentions),
    AC_ENUM("cuda_graph", runtime.cuda_graph, cuda_graphs),
    AC_ENUM("param_dtype", precision.param_dtype, dtypes),
    AC_ENUM("compute_dtype", precision.compute_dtype, dtypes),
    AC_ENUM("reduce_dtype", precision.reduce_dtype, dtypes),
    AC_PLAIN("autocast", precision.autocast, bool),
    AC_PLAIN("dropout", run.dropout, double),
    AC_PLAIN("capacity_factor", run.capacity_factor, double),
    AC_PLAIN("expandable_segments", runtime.expandable_segments, bool),
    Row{"runtime",
        [](const StepConfig& c) -> FieldValue {
          return Text(c.runtime.kind == Runtime::pytorch ? "pytorch" : "ac-trainer");
        },
        [](StepConfig& c, const FieldValue& v) {
          if (text(v) != "pytorch" && text(v) != "ac-trainer") refuse(text(v));
          c.runtime.kind = text(v) == "pytorch" ? Runtime::pytorch : Runtime::ac_trainer;
        }},
    AC_PLAIN("force", runtime.force, bool),
    AC_PLAIN("under_dispatch_mode", runtime.under_dispatch_mode, bool),
};
#undef AC_PLAIN
#undef AC_ENUM

}  // namespace

std::vector<Field> config_fields(const StepConfig& config) {
  std::vector<Field> fields;
  fields.reserve(table.size());
  for (const Row& row : table) fields.push_back({row.name, row.get(config)});
  return fields;
}

bool set_config_field(StepConfig& config, const Field& field) {
  for (const Row& row : table) {
    if (field.name != row.name) continue;
    FieldValue value = field.value;
    const std::size_t type = row.get(config).index();
    // JSON writes 1.0 as a number that a reader may take for an integer.
    if (type == 2 && value.index() == 1) value = static_cast<double>(std::get<Int>(value));
    if (value.index() != type) refuse(to_string(value));
    row.set(config, value);
    return true;
  }
  return false;
}

std::string to_string(const FieldValue& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const std::int64_t* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const double* d = std::get_if<double>(&value)) return fmt::format("{}", *d);
  return std::get<std::string>(value);
}

}  // namespace ac_advisor::profile
