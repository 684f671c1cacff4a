#include "stack_marks.hpp"

#include <algorithm>
#include <string_view>

namespace ac_advisor::snapshot {
namespace {

/// A frame whose file and function contain these words (empty: any) sets the mark.
struct Rule {
  std::string_view file, name;
  std::uint16_t mark;
};

// Files and functions of PyTorch 2.0 to 2.11, and of the libraries that are named.
constexpr Rule rules[] = {
    {"torch/nn/modules/module.py", "call_impl", in_module_call},
    {"torch/nn/modules/module.py", "_apply", in_module_setup},
    {"torch/nn/modules/module.py", "to", in_module_setup},
    {"torch/nn/modules/module.py", "load_state_dict", in_module_setup},
    {"torch/nn/parameter.py", "", in_module_setup},
    {"torch/nn/init.py", "", in_module_setup},
    {"torch/nn/modules/", "__init__", in_module_setup},
    {"torch/nn/modules/", "reset_parameters", in_module_setup},
    {"transformers/modeling_utils.py", "", in_module_setup},
    {"transformers/core_model_loading.py", "", in_module_setup},
    {"bitsandbytes/nn/modules.py", "_quantize", in_module_setup},
    {"bitsandbytes/nn/modules.py", "cuda", in_module_setup},
    {"bitsandbytes/nn/modules.py", "to", in_module_setup},
    {"bitsandbytes/functional.py", "quantize_4bit", in_module_setup},
    {"torch/_tensor.py", "backward", in_backward},
    {"torch/autograd/graph.py", "_engine_run_backward", in_backward},
    {"torch/autograd/", "backward", in_backward},
    {".py", "backward", in_backward},
    {"", "torch::autograd::Engine::", in_backward},
    {"", "torch::autograd::AccumulateGrad", in_backward},
    {"fsdp", "_backward", in_backward},
    {"torch/utils/checkpoint.py", "recompute_fn", in_recompute},
    {"torch/utils/checkpoint.py", "unpack_hook", in_recompute},
    {"torch/utils/checkpoint.py", "backward", in_recompute},
    {"tensor_parallel/random.py", "backward", in_recompute},
    {"torch/optim/", "step", in_optimizer},
    {"torch/optim/optimizer.py", "wrapper", in_optimizer},  // profile_hook_step, of any subclass
    {"torch/optim/", "_init_group", in_optimizer},
    {"torch/optim/", "adam", in_optimizer},
    {"/optim/", "step", in_optimizer},
    {"/optimizers/", "step", in_optimizer},
    {"/optimizer/", "step", in_optimizer},
    {"deepspeed/ops/", "step", in_optimizer},
    {"deepspeed/runtime/", "step", in_optimizer},
    {"torch/nn/utils/clip_grad.py", "", in_optimizer},
    {"torch/amp/grad_scaler.py", "", in_optimizer},
    {".py", "zero_grad", in_zero_grad},
    {"_fsdp_collectives.py", "all_gather", in_gather},
    {"_fsdp_param.py", "all_gather", in_gather},
    {"_fsdp_param.py", "unshard", in_gather},
    {"_fsdp_param_group.py", "unshard", in_gather},
    {"torch/distributed/fsdp/_flat_param.py", "unshard", in_gather},
    {"torch/distributed/fsdp/_flat_param.py", "alloc_padded", in_gather},
    {"_fsdp_collectives.py", "reduce", in_communication},
    {"torch/distributed/distributed_c10d.py", "", in_communication},
    {"torch/nn/parallel/distributed.py", "__init__", in_communication},
    {"torch/nn/parallel/distributed.py", "_ddp_init_helper", in_buckets},
    {"torch/nn/parallel/distributed.py", "_pre_forward", in_buckets},  // Reducer::rebuild_buckets
    {"", "getCurrentCUDABlasHandle", in_workspace},
    {"", "getCUDABlasLtWorkspace", in_workspace},
    {"", "getWorkspace", in_workspace},
    {"torch/nn/modules/loss.py", "", in_loss},
    {"torch/nn/functional.py", "cross_entropy", in_loss},
    {"transformers/loss/", "", in_loss},
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::uint16_t marks_of(std::string_view file, std::string_view name) {
  std::uint16_t marks = 0;
  if (file.ends_with(".py")) marks = in_python;
  for (const Rule& rule : rules) {
    // "to" and "step" must be the whole name: PyTorch has functions that contain them.
    const bool whole = rule.name == "to" || rule.name == "step" || rule.name == "backward";
    const bool named = whole ? name == rule.name || name.ends_with("." + std::string(rule.name))
                             : has(name, rule.name);
    if (named && has(file, rule.file)) marks |= rule.mark;
  }
  return marks;
}

/// PyTorch's own code and what only wraps a call, of which a user would not think.
bool is_own(std::string_view file, std::string_view name) {
  return !file.ends_with(".py") || has(file, "/torch/") || file.starts_with("torch/") ||
         has(name, "<frozen") || has(file, "<frozen") || has(file, "contextlib.py") ||
         has(file, "threading.py") || has(file, "<eval_with_key>");
}

/// What every C++ stack of an allocation begins with.
constexpr std::string_view plumbing[] = {
    "unwind::unwind",
    "CapturedTraceback",
    "gather_with_cpp",
    "CachingAllocator",
    "empty_generic",
    "empty_cuda",
    "empty_strided",
    "at::detail::",
    "StorageImpl",
    "c10::impl::",
    "c10::Dispatcher",
    "at::_ops::",
    "wrapper_CUDA",
    "wrapper_",
    "at::empty",
    "c10::cuda::",
    "(anonymous namespace)::structured",
    "create_out",
    "resize_out",
    "TensorImpl",
};

bool is_plumbing(std::string_view name) {
  return std::any_of(std::begin(plumbing), std::end(plumbing),
                     [&](std::string_view part) { return has(name, part); });
}

std::string_view base(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? file : file.substr(slash + 1);
}

std::string line_of(const Snapshot& s, const Frame& f) {
  const std::string_view file = base(s.text(f.file)), name = s.text(f.name);
  if (file.ends_with(".py") || !has(name, "("))
    return std::string(file) + ":" + std::to_string(f.line) + " " + std::string(name);
  // A C++ function without its parameters; its file is rarely known.
  return std::string(name.substr(0, name.find('(', has(name, "(anonymous") ? name.find(')') : 0)));
}

}  // namespace

std::vector<std::uint16_t> stack_marks(const Snapshot& snapshot) {
  std::vector<std::uint16_t> frames;
  frames.reserve(snapshot.frames.size());
  for (const Frame& f : snapshot.frames)
    frames.push_back(marks_of(snapshot.text(f.file), snapshot.text(f.name)));
  std::vector<std::uint16_t> stacks;
  stacks.reserve(snapshot.stacks.size());
  for (const std::vector<std::uint32_t>& stack : snapshot.stacks) {
    std::uint16_t marks = 0;
    for (const std::uint32_t f : stack) marks |= frames[f];
    // A recomputed forward is inside of backward, wherever its thread's stack begins.
    if ((marks & in_recompute) != 0) marks |= in_backward;
    stacks.push_back(marks);
  }
  return stacks;
}

std::int64_t site_frame(const Snapshot& snapshot, StackId stack) {
  const std::vector<std::uint32_t>& frames = snapshot.stacks[stack];
  for (const std::uint32_t f : frames)
    if (!is_own(snapshot.text(snapshot.frames[f].file), snapshot.text(snapshot.frames[f].name)))
      return f;
  for (const std::uint32_t f : frames)
    if (snapshot.text(snapshot.frames[f].file).ends_with(".py")) return f;
  for (const std::uint32_t f : frames)
    if (!is_plumbing(snapshot.text(snapshot.frames[f].name))) return f;
  return frames.empty() ? std::int64_t{-1} : std::int64_t{frames.front()};
}

std::string site(const Snapshot& snapshot, StackId stack) {
  const std::int64_t frame = site_frame(snapshot, stack);
  return frame < 0 ? "" : line_of(snapshot, snapshot.frames[static_cast<std::size_t>(frame)]);
}

std::vector<std::string> stack_lines(const Snapshot& snapshot, StackId stack, std::size_t most) {
  std::vector<std::string> lines;
  for (const std::uint32_t f : snapshot.stacks[stack]) {
    if (lines.size() == most) break;
    lines.push_back(line_of(snapshot, snapshot.frames[f]));
  }
  return lines;
}

}  // namespace ac_advisor::snapshot
