// docs/schema/graph-1.json and graph-2.json, once more: the one file that has megabytes, read
// without a document of it. What is read here read_by_names takes, too, for the same graph
// (fuzz/graph_fuzz.cpp).
#include "scan_graph.hpp"

#include <algorithm>
#include <array>

#include "check_scale.hpp"
#include "lifetimes.hpp"
#include "scan_op.hpp"
#include "scan_scale.hpp"
#include "scan_text.hpp"

namespace ac_advisor::graph {
namespace {

class Scanner {
 public:
  Scanner(std::string_view text, Graph& graph) : t_(text), g_(graph), o_(t_, graph) {}

  void read() {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    constexpr std::array<std::string_view, 15> keys{
        "schema",  "name",   "made_by",  "batch",         "seq",
        "modules", "blocks", "storages", "tensors",       "parameters",
        "buffers", "inputs", "others",   "micro_batches", "scale"};
    constexpr std::uint32_t all_but_scale = (1U << (keys.size() - 1)) - 1;
    bool scales = false;
    const auto read_key = [&](std::size_t key) {
      switch (key) {
        case 0: {
          const std::string_view named = t_.string();
          scales = named == schema_with_scale;
          require(scales || named == schema);
          return;
        }
        case 1:
          g_.name = t_.string();
          return;
        case 2:
          return made_by();
        case 3:
          g_.batch = t_.integer(most);
          return;
        case 4:
          g_.seq = t_.integer(most);
          return;
        case 5:
          return list([&] { module(); });
        case 6:
          return o_.indices(g_.blocks);
        case 7:
          return list([&] { g_.storages.push_back(t_.integer(most_bytes)); });
        case 8:
          return list([&] { tensor(); });
        case 9:
          return list([&] { parameter(); });
        case 10:
          return o_.indices(g_.buffers);
        case 11:
          return o_.indices(g_.inputs);
        case 12:
          return o_.indices(g_.others);
        case 13:
          return micro_batches();
        default:
          require(!g_.modules.empty() && !g_.micro_batches[1].ops.empty());  // it comes last
          g_.scale = scan_scale(t_, o_);
      }
    };
    require(object(keys, read_key) == (all_but_scale | (scales ? all_but_scale + 1 : 0)));
    t_.expect_end();
    check();
  }

 private:
  template <typename Entry>
  void list(const Entry& entry) {
    scan_list(t_, entry);
  }
  template <std::size_t n, typename Value>
  std::uint32_t object(const std::array<std::string_view, n>& keys, const Value& value) {
    return scan_object(t_, keys, value);
  }

  void made_by() {
    constexpr std::array<std::string_view, 6> keys{"torch",        "gpu",      "model",
                                                   "transformers", "autocast", "given"};
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      const std::string_view text = t_.string();
      if (key == 4) require(g_.autocast = text == "bf16");
      if (key == 5) g_.given = text;
    });
    require((there & 3U) == 3U);
  }

  void module() {
    constexpr std::array<std::string_view, 2> keys{"path", "class"};
    Module m;
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      const std::string_view text = t_.string();
      if (key == 0) m.path = text;
    });
    require(there == 3U);
    g_.modules.push_back(std::move(m));
  }

  void tensor() {
    constexpr std::array<std::string_view, 3> keys{"storage", "dtype", "shape"};
    Tensor tensor;
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      if (key == 0) tensor.storage = o_.index();
      if (key == 1) tensor.dtype = static_cast<DType>(o_.one_of(dtype_names));
      if (key == 2) list([&] { tensor.shape.push_back(t_.integer(most_bytes)); });
    });
    require(there == 7U && tensor.shape.size() <= most_dimensions);
    std::int64_t bytes = size_of(tensor.dtype);
    for (const std::int64_t size : tensor.shape)
      require(!__builtin_mul_overflow(bytes, std::max<std::int64_t>(1, size), &bytes) &&
              bytes <= most_bytes);
    g_.tensors.push_back(std::move(tensor));
  }

  void parameter() {
    constexpr std::array<std::string_view, 3> keys{"name", "tensor", "trained"};
    Parameter p;
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      if (key == 0) p.name = t_.string();
      if (key == 1) p.tensor = o_.index();
      if (key == 2) p.trained = t_.truth();
    });
    require(there == 7U);
    g_.parameters.push_back(std::move(p));
  }

  void micro_batches() {
    std::size_t count = 0;
    list([&] {
      require(count < g_.micro_batches.size());
      micro_batch(g_.micro_batches[count++]);
    });
    require(count == g_.micro_batches.size());
  }

  void micro_batch(MicroBatch& micro) {
    constexpr std::array<std::string_view, 4> keys{"ops", "outputs", "loss", "gradients"};
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      if (key == 0) list([&] { micro.ops.push_back(o_.op()); });
      if (key == 1) o_.indices(micro.outputs);
      if (key == 2) micro.loss = o_.index();
      if (key == 3) list([&] { gradient(micro); });
    });
    require(there == 15U);
  }

  void gradient(MicroBatch& micro) {
    const auto [parameter, storage, whole] = o_.numbers<3>();
    micro.gradients.push_back({parameter, storage, whole});
  }

  /// What needs all of the file: that each index is in range, and the order of the ops.
  void check() const {
    require(g_.batch > 0 && g_.seq > 0 && !g_.modules.empty());
    require(g_.blocks.size() <= most_blocks);
    below(g_.blocks, g_.modules.size());
    below(g_.buffers, g_.tensors.size());
    below(g_.inputs, g_.tensors.size());
    below(g_.others, g_.storages.size());
    for (const Tensor& tensor : g_.tensors) below(tensor.storage, g_.storages.size());
    for (const Parameter& p : g_.parameters) below(p.tensor, g_.tensors.size());
    Lifetimes lifetimes(g_);
    for (const MicroBatch& micro : g_.micro_batches) check(micro, lifetimes);
    require(!fault_of_scale(g_));
    place_modules(g_);
  }

  void check(const MicroBatch& micro, Lifetimes& lifetimes) const {
    Phase phase = Phase::forward;
    for (std::size_t i = 0; i < micro.ops.size(); ++i) {
      const Op& op = micro.ops[i];
      require(op.phase >= phase);
      phase = op.phase;
      below(op.module, g_.modules.size());
      below(op.in, g_.tensors.size());
      for (const Indices* list : {&op.out, &op.frees, &op.drops}) below(*list, g_.storages.size());
      require(op.in.size() + op.out.size() <= most_operands);
      if (op.forward >= 0) {
        require(op.phase == Phase::backward);
        below(op.forward, i);
        require(micro.ops[static_cast<std::size_t>(op.forward)].phase != Phase::backward);
      }
      require(!lifetimes.run(op));
    }
    below(micro.outputs, g_.storages.size());
    below(micro.loss, g_.storages.size());
    for (const Gradient& gradient : micro.gradients) {
      below(gradient.parameter, g_.parameters.size());
      below(gradient.storage, g_.storages.size());
      below(gradient.whole, micro.ops.size());
    }
    require(!lifetimes.end(micro));
  }

  static void below(Index index, std::size_t end) {
    require(static_cast<std::size_t>(index) < end);
  }
  static void below(const Indices& list, std::size_t end) {
    require(list.size() <= std::max(most_operands, end));
    for (const Index index : list) below(index, end);
  }

  Text t_;
  Graph& g_;
  OpScanner o_;
};

}  // namespace

bool scan_graph(std::string_view text, Graph& graph) {
  try {
    Scanner(text, graph).read();
    return true;
  } catch (const Unusual&) {
    return false;
  }
}

}  // namespace ac_advisor::graph
