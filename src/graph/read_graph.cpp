// Reads docs/schema/graph-1.json and graph-2.json. The file may be anybody's: every index is
// checked before it is used, and that nothing is read, freed or made twice against the order of the
// ops.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/error.hpp"
#include "check_scale.hpp"
#include "files/fingerprint.hpp"
#include "json/node.hpp"
#include "lifetimes.hpp"
#include "read_scale.hpp"
#include "scan_graph.hpp"

namespace ac_advisor::graph {
namespace {

using json::Json;
using json::Node;

/// A list of whole numbers from 0 to below `end`.
Indices indices(const Node& node, std::size_t end) {
  const Json& list = node.json();
  if (!list.is_array()) node.fail("must be a list");
  if (list.size() > most_operands && end > 0 && list.size() > end)
    node.fail(fmt::format("has more than {} entries", end));
  Indices found;
  found.reserve(list.size());
  for (const Json& one : list) {
    if (!one.is_number_integer() || one.get<std::int64_t>() < 0 ||
        one.get<std::int64_t>() >= static_cast<std::int64_t>(end))
      throw UserError(
          fmt::format("{}: {} must be a whole number below {}", node.where(), one.dump(), end));
    found.push_back(one.get<Index>());
  }
  return found;
}

Index index(const Node& node, std::size_t end) {
  return static_cast<Index>(node.integer(0, static_cast<std::int64_t>(end) - 1));
}

class Reader {
 public:
  Reader(const Node& root, Graph& graph) : root_(root), g_(graph) {}

  void read() {
    root_.allow_only({"schema", "name", "made_by", "batch", "seq", "modules", "blocks", "storages",
                      "tensors", "parameters", "buffers", "inputs", "others", "micro_batches",
                      "scale"});
    constexpr std::int64_t most = std::int64_t{1} << 31;
    g_.name = root_.at("name").text();
    const Node made_by = root_.at("made_by");
    for (const char* key : {"torch", "gpu"}) static_cast<void>(made_by.at(key).text());
    for (const char* key : {"model", "transformers"})
      if (const auto from = made_by.find(key)) static_cast<void>(from->text());
    if (const auto names = made_by.find("given")) g_.given = names->text();
    if (const auto type = made_by.find("autocast")) {
      g_.autocast = type->text() == "bf16";
      if (!g_.autocast) type->fail("must be \"bf16\"");
    }
    g_.batch = root_.at("batch").integer(1, most);
    g_.seq = root_.at("seq").integer(1, most);
    for (const Node& m : root_.at("modules").list()) {
      g_.modules.push_back({m.at("path").text()});
      static_cast<void>(m.at("class").text());
    }
    if (g_.modules.empty()) root_.at("modules").fail("has no module; the first is the model");
    g_.blocks = indices(root_.at("blocks"), g_.modules.size());
    if (g_.blocks.size() > most_blocks)
      root_.at("blocks").fail(fmt::format("has more than {} entries", most_blocks));
    for (const Node& bytes : root_.at("storages").list())
      g_.storages.push_back(bytes.integer(0, most_bytes));
    const std::vector<Node> tensors = root_.at("tensors").list();
    g_.tensors.reserve(tensors.size());
    for (const Node& tensor : tensors) read_tensor(tensor);
    for (const Node& p : root_.at("parameters").list())
      g_.parameters.push_back(
          {p.at("name").text(), index(p.at("tensor"), g_.tensors.size()), p.at("trained").truth()});
    place_modules(g_);
    g_.buffers = indices(root_.at("buffers"), g_.tensors.size());
    g_.inputs = indices(root_.at("inputs"), g_.tensors.size());
    g_.others = indices(root_.at("others"), g_.storages.size());
    lifetimes_.emplace(g_);
    const std::vector<Node> micro_batches = root_.at("micro_batches").list();
    if (micro_batches.size() != g_.micro_batches.size())
      root_.at("micro_batches").fail("must have two: the first, and one that follows it");
    for (std::size_t i = 0; i < micro_batches.size(); ++i)
      read_micro_batch(micro_batches[i], g_.micro_batches[i]);
    const bool scales = root_.at("schema").view() == schema_with_scale;
    if (!scales && root_.has("scale"))
      root_.at("scale").fail(fmt::format("is of \"{}\"", schema_with_scale));
    if (!scales) return;
    g_.scale = read_scale(root_.at("scale"), [&](const Node& node) { return op_of(node); });
    if (const ScaleFault fault = fault_of_scale(g_))
      throw UserError(fmt::format("{}: {}: {}", root_.where().substr(0, root_.where().rfind(": ")),
                                  fault.where, fault.what));
  }

 private:
  void read_tensor(const Node& node) {
    Tensor tensor;
    tensor.storage = index(node.at("storage"), g_.storages.size());
    tensor.dtype = static_cast<DType>(node.at("dtype").one_of(dtype_names));
    std::int64_t bytes = size_of(tensor.dtype);
    for (const Node& size : node.at("shape").list()) {
      tensor.shape.push_back(size.integer(0, most_bytes));
      if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(1, tensor.shape.back()), &bytes) ||
          bytes > most_bytes)
        node.at("shape").fail("has more elements than any tensor");
    }
    if (tensor.shape.size() > most_dimensions)
      node.at("shape").fail(fmt::format("has more than {} dimensions", most_dimensions));
    g_.tensors.push_back(std::move(tensor));
  }

  void read_micro_batch(const Node& node, MicroBatch& micro) {
    node.allow_only({"ops", "outputs", "loss", "gradients"});
    const std::vector<Node> ops = node.at("ops").list();
    micro.ops.reserve(ops.size());
    for (const Node& op : ops) read_op(op, micro);
    micro.outputs = indices(node.at("outputs"), g_.storages.size());
    micro.loss = index(node.at("loss"), g_.storages.size());
    for (const Node& gradient : node.at("gradients").list()) {
      const std::vector<Node> numbers = gradient.list();
      if (numbers.size() != 3)
        gradient.fail("must be a parameter's number, a storage's and an op's");
      micro.gradients.push_back({index(numbers[0], g_.parameters.size()),
                                 index(numbers[1], g_.storages.size()),
                                 index(numbers[2], micro.ops.size())});
    }
    if (const Fault fault = lifetimes_->end(micro)) {
      const Node field = node.at(fault.field);
      (field.json().is_array() && std::string_view(fault.field) == "gradients"
           ? field.list()[fault.entry]
           : field)
          .fail(fault.what);
    }
  }

  /// References are in range; whether the op can run here is not seen yet.
  Op op_of(const Node& node) {
    node.allow_only({"op", "phase", "module", "in", "out", "frees", "drops", "launches", "product",
                     "flops", "node", "forward"});
    Op op;
    op.name = name_of(node.at("op").text());
    op.phase = static_cast<Phase>(node.at("phase").one_of(phase_names));
    if (const auto module = node.find("module")) op.module = index(*module, g_.modules.size());
    read_list(node, "in", g_.tensors.size(), op.in);
    read_list(node, "out", g_.storages.size(), op.out);
    read_list(node, "frees", g_.storages.size(), op.frees);
    read_list(node, "drops", g_.storages.size(), op.drops);
    if (op.in.size() + op.out.size() > most_operands)
      node.fail(fmt::format("has more than {} operands", most_operands));
    if (const auto launches = node.find("launches"))
      op.launches = launches->integer(0, most_launches);
    if (const auto flops = node.find("flops")) op.flops = flops->number(0, 1e30);
    if (const auto product = node.find("product")) read_product(*product, op);
    if (const auto number = node.find("node"))
      op.node = static_cast<Index>(number->integer(0, std::numeric_limits<Index>::max()));
    if (const auto forward = node.find("forward"))
      op.forward = static_cast<Index>(forward->integer(0, std::numeric_limits<Index>::max()));
    return op;
  }

  void read_op(const Node& node, MicroBatch& micro) {
    Op op = op_of(node);
    if (!micro.ops.empty() && op.phase < micro.ops.back().phase)
      node.at("phase").fail("comes after a later phase");
    if (const auto forward = node.find("forward")) {
      if (op.phase != Phase::backward) forward->fail("is of ops of the backward alone");
      op.forward = index(*forward, micro.ops.size());
      if (micro.ops[static_cast<std::size_t>(op.forward)].phase == Phase::backward)
        forward->fail("is an op of the backward");
    }
    if (const Fault fault = lifetimes_->run(op)) node.at(fault.field).fail(fault.what);
    micro.ops.push_back(std::move(op));
  }

  static void read_list(const Node& node, const char* key, std::size_t end, Indices& into) {
    if (const auto list = node.find(key)) into = indices(*list, end);
  }

  static void read_product(const Node& node, Op& op) {
    const std::vector<Node> sizes = node.list();
    if (sizes.size() != 3) node.fail("must be [rows, columns, inner]");
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    op.product =
        Product{sizes[0].integer(0, most), sizes[1].integer(0, most), sizes[2].integer(0, most)};
  }

  Index name_of(const std::string& name) {
    const auto [at, added] = names_.try_emplace(name, static_cast<Index>(g_.op_names.size()));
    if (added) g_.op_names.push_back(name);
    return at->second;
  }

  const Node& root_;
  Graph& g_;
  std::optional<Lifetimes> lifetimes_;
  std::unordered_map<std::string, Index> names_;
};

}  // namespace

bool is_graph(const std::string& text) {
  // At the head of the file, where the capture writes it, or anywhere in a short one.
  constexpr std::size_t head = 4096;
  return std::string_view(text).substr(0, head).find("\"ac-advisor/graph/") !=
         std::string_view::npos;
}

Graph read_by_names(const std::string& text, const std::string& origin) {
  const Json document = json::parse_document(text, origin);
  const Node root(document, origin, {}, "; is this a graph that ac_advisor.capture wrote?");
  if (const Node version = root.at("schema");
      version.view() != schema && version.view() != schema_with_scale)
    version.fail(fmt::format("is not \"{}\" or \"{}\": capture the model again with this release",
                             schema, schema_with_scale));
  Graph graph;
  Reader(root, graph).read();
  return graph;
}

Graph read_graph(const std::string& text, const std::string& origin) {
  Graph graph;
  if (!scan_graph(text, graph)) graph = read_by_names(text, origin);
  graph.digest = files::fingerprint(text);
  return graph;
}

}  // namespace ac_advisor::graph
