#include "values.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

namespace ac_advisor::passes {
namespace {

struct Word {
  std::string_view name;
  ir::Module leaf;
};
/// What modules are commonly called; for reports alone, nothing is planned by it.
constexpr Word words[] = {
    {"q_proj", ir::Module::q_proj},
    {"k_proj", ir::Module::k_proj},
    {"v_proj", ir::Module::v_proj},
    {"qkv_proj", ir::Module::qkv_proj},
    {"o_proj", ir::Module::o_proj},
    {"q_norm", ir::Module::q_norm},
    {"k_norm", ir::Module::k_norm},
    {"gate_proj", ir::Module::gate_proj},
    {"up_proj", ir::Module::up_proj},
    {"gate_up_proj", ir::Module::gate_up_proj},
    {"down_proj", ir::Module::down_proj},
    {"input_layernorm", ir::Module::norm1},
    {"norm1", ir::Module::norm1},
    {"post_attention_layernorm", ir::Module::norm2},
    {"norm2", ir::Module::norm2},
    {"self_attn", ir::Module::attention},
    {"attention", ir::Module::attention},
    {"attn", ir::Module::attention},
    {"mlp", ir::Module::mlp},
    {"ffn", ir::Module::mlp},
    {"feed_forward", ir::Module::mlp},
};
constexpr Word outer_words[] = {
    {"embed_tokens", ir::Module::embed},
    {"norm", ir::Module::final_norm},
    {"lm_head", ir::Module::lm_head},
    {"rotary_emb", ir::Module::rotary},
};

template <std::size_t N>
const Word* find(const Word (&list)[N], std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(list), std::end(list), [&](const Word& w) { return w.name == name; });
  return found == std::end(list) ? nullptr : found;
}

/// By the last of the path's parts that is a word.
ir::Module leaf_of(std::string_view path, bool in_block) {
  while (!path.empty()) {
    const std::size_t dot = path.rfind('.');
    const std::string_view part = dot == std::string_view::npos ? path : path.substr(dot + 1);
    if (const Word* word = in_block ? find(words, part) : find(outer_words, part))
      return word->leaf;
    path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }
  return in_block ? ir::Module::block : ir::Module::root;
}

}  // namespace

DType dtype_of(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::float32:
      return DType::f32;
    case graph::DType::bfloat16:
    case graph::DType::float16:
    case graph::DType::int16:
      return DType::bf16;
    case graph::DType::int32:
      return DType::i32;
    case graph::DType::float64:
    case graph::DType::int64:
    case graph::DType::complex64:
      return DType::i64;
    default:
      return DType::u8;
  }
}

ir::Shape shape_of(const std::vector<std::int64_t>& sizes) {
  const std::size_t more = sizes.size() - std::min(sizes.size(), ir::Shape::max_rank);
  ir::Shape shape(std::span<const std::int64_t>(sizes).subspan(more));
  for (std::size_t i = 0; i < more; ++i) shape.set(0, ir::checked_mul(shape[0], sizes[i]));
  return shape;
}

ir::ValueId make_storage(ir::Program& program, const graph::Graph& graph, graph::Index storage,
                         const graph::Tensor* tensor, ir::Role role, ir::ModulePath module) {
  const std::int64_t bytes = graph.storages[static_cast<std::size_t>(storage)];
  const ir::ValueId value = tensor == nullptr ? program.make({bytes}, DType::u8, role, module)
                                              : program.make(shape_of(tensor->shape),
                                                             dtype_of(tensor->dtype), role, module);
  program.storage(program.value(value).storage).bytes = bytes;
  return value;
}

ir::ValueId view_of(ir::Program& program, ir::ValueId storage, const graph::Tensor& tensor) {
  const ir::Shape shape = shape_of(tensor.shape);
  const DType dtype = dtype_of(tensor.dtype);
  if (program.value(storage).shape == shape && program.value(storage).dtype == dtype)
    return storage;
  const ir::ValueId view = program.reshape(storage, shape);
  program.value(view).dtype = dtype;
  return view;
}

std::vector<ir::ModulePath> places_of(const graph::Graph& graph) {
  std::vector<ir::ModulePath> places;
  for (const graph::Module& module : graph.modules) {
    std::string_view path = module.path;
    if (module.block >= 0) {
      const graph::Index block = graph.blocks[static_cast<std::size_t>(module.block)];
      path.remove_prefix(
          std::min(path.size(), graph.modules[static_cast<std::size_t>(block)].path.size()));
    }
    places.push_back({static_cast<std::int16_t>(module.block), leaf_of(path, module.block >= 0)});
  }
  return places;
}

}  // namespace ac_advisor::passes
