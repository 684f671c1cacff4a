// Launches of one compiled graph. What is followed of torch/_inductor (v2.11): pointwise nodes are
// written into their readers (lowering.py, ir.py: Pointwise.inner_fn) unless a result, a reduction
// or a library's kernel needs them in memory (ir.py: realize); kernels over one iteration space
// that share a buffer are one (scheduler.py: can_fuse_vertical, can_fuse_horizontal), a sum over
// rows among them (codegen/simd.py: MixOrderReduction); a pointwise kernel writes over what it
// reads last (scheduler.py: can_inplace).
#include "kernels.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

namespace ac_advisor::passes::compile {
namespace {

using ir::CompiledGraph;
using ir::OpKind;

/// Rows of a persistent reduction that share one partial sum of a column: codegen/triton.py,
/// MixOrderReduction's rsplit; and of a reduction that is split by itself (ir.py: num_splits).
constexpr std::int64_t rows_a_partial_sum = 16, rows_a_split = 128;

/// MixOrderReduction.can_fuse (scheduler.py): whether sums over rows and over columns of one tensor
/// become one kernel.
bool mixes_orders(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t fits_cache = 5 * (std::int64_t{1} << 20), widest = 1024 * 16;
  return rows * columns >= fits_cache && rows >= 2 * columns && rows >= 4096 && columns <= widest;
}

enum class Sort : std::uint8_t { library, pointwise, row_sum, column_sum };

struct Kernel {
  Sort sort = Sort::pointwise;
  std::int64_t space = 0;      ///< elements that it walks over
  std::vector<NodeId> writes;  ///< realized nodes, in order
  std::set<NodeId> reads;      ///< realized nodes and given ones that it reads and does not write
  bool reduces = false;        ///< over the columns of a row
  /// Reads at other places than it writes: parts, joins, scattered gradients.
  bool moves = false;
};

class Writer {
 public:
  Writer(const JointGraph& graph, std::span<const NodeId> given, const std::vector<bool>& donated,
         std::span<const NodeId> results)
      : g_(graph),
        given_(graph.nodes.size(), -1),
        realized_(graph.nodes.size(), false),
        needed_(graph.nodes.size(), false),
        moves_(graph.nodes.size(), false),
        kernel_of_(graph.nodes.size(), -1),
        reads_of_(graph.nodes.size()),
        results_(results.begin(), results.end()) {
    for (std::size_t i = 0; i < given.size(); ++i)
      given_[static_cast<std::size_t>(given[i])] = static_cast<std::int32_t>(i);
    out_.given = static_cast<std::int32_t>(given.size());
    number_ = given_;
    donated_ = donated;
  }

  CompiledGraph run() {
    find_needed();
    realize();
    for (NodeId n = 0; n < g_.size(); ++n)
      if (realized(n) && g_.node(n).target != Target::getitem) place(n);
    join_neighbours();
    order();
    for (std::int32_t k : order_) count_uses(k);
    for (std::int32_t k : order_) emit(k);
    for (NodeId n : results_) out_.results.push_back(n < 0 ? -1 : operand(n));
    return std::move(out_);
  }

 private:
  [[nodiscard]] const Node& node(NodeId n) const { return g_.node(n); }
  [[nodiscard]] bool is_given(NodeId n) const { return given_[static_cast<std::size_t>(n)] >= 0; }
  [[nodiscard]] bool realized(NodeId n) const { return realized_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] bool is_view(NodeId n) const {
    const Target t = node(n).target;
    return row(t).view || (t == Target::getitem && node(node(n).inputs[0]).target == Target::split);
  }
  [[nodiscard]] bool is_library(NodeId n) const {
    switch (node(n).target) {
      case Target::mm:
      case Target::addmm:
      case Target::sdpa_cudnn:
      case Target::sdpa_flash:
      case Target::sdpa_cudnn_backward:
      case Target::sdpa_flash_backward:
        return true;
      default:
        return false;
    }
  }
  /// The buffer that a node is, or is a view of.
  [[nodiscard]] NodeId buffer(NodeId n) const {
    while (!is_given(n) && is_view(n)) n = node(n).inputs[0];
    return n;
  }

  void find_needed() {
    for (NodeId n : results_)
      if (n >= 0) needed_[static_cast<std::size_t>(n)] = true;
    for (NodeId n = g_.size(); n-- > 0;) {
      if (!needed_[static_cast<std::size_t>(n)] || is_given(n)) continue;
      for (NodeId in : node(n).inputs) needed_[static_cast<std::size_t>(in)] = true;
    }
  }

  [[nodiscard]] Sort sort_of(NodeId n) const {
    const Node& made = node(n);
    if (is_library(n)) return Sort::library;
    if (made.target == Target::mean) return Sort::row_sum;
    if (made.target == Target::var_mean) return Sort::row_sum;
    if (made.target != Target::sum) return Sort::pointwise;
    return made.shape.back() == 1 ? Sort::row_sum : Sort::column_sum;
  }

  void realize() {
    const auto mark = [&](NodeId n) {
      if (!is_given(n)) realized_[static_cast<std::size_t>(n)] = true;
    };
    for (NodeId n : results_)
      if (n >= 0) mark(buffer(n));
    for (NodeId n = 0; n < g_.size(); ++n) {
      if (!needed_[static_cast<std::size_t>(n)] || is_given(n)) continue;
      const Sort sort = sort_of(n);
      if (sort == Sort::library)
        for (NodeId in : node(n).inputs) mark(buffer(in));
      const bool output = node(n).target == Target::getitem && !is_view(n);
      if (sort != Sort::pointwise || output) mark(n);
    }
  }

  /// What a kernel for realized node n reads, through nodes that are written into it.
  void collect_reads(NodeId n, Kernel& kernel) const {
    for (NodeId in : node(n).inputs) {
      const Target t = node(in).target;
      if (t == Target::slice || t == Target::cat || t == Target::slice_scatter ||
          t == Target::split)
        kernel.moves = true;
      if (is_given(in) || realized(in))
        kernel.reads.insert(in);
      else
        collect_reads(in, kernel);
    }
  }

  [[nodiscard]] std::int64_t space_of(NodeId n) const {
    std::int64_t most = node(n).has_tensor ? node(n).shape.numel() : 0;
    if (sort_of(n) != Sort::pointwise)
      for (NodeId in : node(n).inputs) most = std::max(most, node(in).shape.numel());
    return most;
  }

  [[nodiscard]] std::int32_t writer_of(NodeId n) const {
    if (node(n).target == Target::getitem && !is_view(n)) n = node(n).inputs[0];
    return kernel_of_[static_cast<std::size_t>(n)];
  }
  [[nodiscard]] bool depends(std::int32_t kernel, std::int32_t on) const {
    if (kernel == on) return true;
    for (NodeId read : kernels_[static_cast<std::size_t>(kernel)].reads) {
      const std::int32_t writer = is_given(read) ? -1 : writer_of(read);
      if (writer >= 0 && writer != kernel && depends(writer, on)) return true;
    }
    return false;
  }

  [[nodiscard]] std::int64_t columns_of(const Kernel& kernel) const {
    return node(kernel.writes.front()).shape.numel();
  }

  /// Whether `n`'s kernel can be part of `with`: one iteration space, or rows of it; a buffer that
  /// both read or that passes between them; nothing between them that needs the one and makes what
  /// the other needs.
  [[nodiscard]] bool fuses(const Kernel& made, std::int32_t with) const {
    const Kernel& other = kernels_[static_cast<std::size_t>(with)];
    if (other.sort == Sort::library || made.sort == Sort::library) return false;
    const bool rows = made.space < other.space && other.reduces && other.space % made.space == 0;
    if (made.space != other.space && !rows) return false;
    if (made.sort == Sort::column_sum || other.sort == Sort::column_sum) {
      const std::int64_t columns = columns_of(made.sort == Sort::column_sum ? made : other);
      const bool over_rows = made.reduces || other.reduces;
      const bool mixes = over_rows && mixes_orders(other.space / columns, columns);
      const bool beside = made.sort == other.sort && columns_of(other) == columns && !over_rows;
      if (!mixes && !beside) return false;
    }
    bool shares = false, passes = false;
    for (NodeId read : made.reads) {
      const std::int32_t writer = is_given(read) ? -1 : writer_of(read);
      passes = passes || writer == with;
      shares = shares || other.reads.contains(read);
      if (writer >= 0 && writer != with && depends(writer, with)) return false;
    }
    if (rows && !passes) return false;
    return shares || passes;
  }

  void place(NodeId n) {
    Kernel made;
    made.sort = sort_of(n);
    made.space = space_of(n);
    made.reduces = made.sort == Sort::row_sum;
    if (made.sort == Sort::library)
      for (NodeId in : node(n).inputs) made.reads.insert(buffer(in));
    else
      collect_reads(n, made);
    const Target t = node(n).target;
    made.moves = made.moves || t == Target::cat || t == Target::slice_scatter;
    made.writes = {n};
    if (made.sort == Sort::pointwise && made.reads.size() == 1) {
      const NodeId read = *made.reads.begin();
      if (!is_given(read) && sort_of(read) == Sort::column_sum) {  // written with the sum
        tails_[read] = n;
        kernel_of_[static_cast<std::size_t>(n)] = writer_of(read);
        return;
      }
    }
    reads_of_[static_cast<std::size_t>(n)] = made.reads;
    moves_[static_cast<std::size_t>(n)] = made.moves;
    for (auto k = static_cast<std::int32_t>(kernels_.size()); k-- > 0;)
      if (fuses(made, k)) {
        join(k, made);
        return;
      }
    kernel_of_[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(kernels_.size());
    kernels_.push_back(std::move(made));
  }

  void join(std::int32_t into, Kernel& from) {
    Kernel& with = kernels_[static_cast<std::size_t>(into)];
    for (NodeId n : from.writes) kernel_of_[static_cast<std::size_t>(n)] = into;
    with.writes.insert(with.writes.end(), from.writes.begin(), from.writes.end());
    with.reads.insert(from.reads.begin(), from.reads.end());
    with.reduces = with.reduces || from.reduces;
    with.space = std::max(with.space, from.space);
    for (NodeId written : with.writes) with.reads.erase(written);
  }

  /// can_fuse_horizontal: kernels that neither needs the other for, over one space, with a tensor
  /// that both read.
  void join_neighbours() {
    for (std::size_t b = 1; b < kernels_.size(); ++b)
      for (std::size_t a = 0; a < b; ++a) {
        Kernel &first = kernels_[a], &second = kernels_[b];
        const auto i = static_cast<std::int32_t>(a), j = static_cast<std::int32_t>(b);
        if (second.writes.empty() || first.writes.empty()) continue;
        if (first.space != second.space || depends(j, i) || !fuses(second, i) || depends(i, j))
          continue;
        join(i, second);
        second.writes.clear();
        second.reads.clear();
      }
  }

  void visit(std::int32_t k) {
    if (visited_[static_cast<std::size_t>(k)]) return;
    visited_[static_cast<std::size_t>(k)] = true;
    for (NodeId read : kernels_[static_cast<std::size_t>(k)].reads)
      if (!is_given(read)) visit(writer_of(read));
    order_.push_back(k);
  }
  /// In the order of the traced graph, what a kernel needs before it.
  void order() {
    visited_.assign(kernels_.size(), false);
    for (std::size_t k = 0; k < kernels_.size(); ++k)
      if (!kernels_[k].writes.empty()) visit(static_cast<std::int32_t>(k));
  }

  void count_uses(std::int32_t k) {
    uses_.resize(g_.nodes.size(), 0);
    for (NodeId read : kernels_[static_cast<std::size_t>(k)].reads)
      ++uses_[static_cast<std::size_t>(read)];
  }

  std::int32_t make(const CompiledGraph::Made& made) {
    out_.made.push_back(made);
    return out_.given + static_cast<std::int32_t>(out_.made.size()) - 1;
  }
  std::int32_t make(NodeId n, std::int32_t over = -1) {
    return make({node(n).shape, node(n).dtype, over, -1, node(n).swapped});
  }
  /// A node in memory as what reads it sees it: its buffer, or a view of that in its shape. Of a
  /// matrix that is transposed, the matrix: a product's form says the rest.
  std::int32_t operand(NodeId n) {
    while (!is_given(n) && node(n).target == Target::permute && node(n).shape.rank() == 2)
      n = node(n).inputs[0];
    const NodeId whole = buffer(n);
    const std::int32_t in = number_[static_cast<std::size_t>(whole)];
    if (node(whole).shape == node(n).shape && node(whole).swapped == node(n).swapped) return in;
    const auto [at, is_new] = views_.try_emplace(n, 0);
    if (is_new) at->second = make({node(n).shape, node(n).dtype, -1, in, node(n).swapped});
    return at->second;
  }
  void number(NodeId n, std::int32_t value) { number_[static_cast<std::size_t>(n)] = value; }

  [[nodiscard]] bool is_result(NodeId n) const {
    return std::any_of(results_.begin(), results_.end(),
                       [&](NodeId r) { return r >= 0 && buffer(r) == n; });
  }

  void emit(std::int32_t k) {
    const Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
    if (kernel.sort == Sort::library)
      emit_library(kernel);
    else
      emit_generated(kernel);
    for (NodeId read : kernel.reads) --uses_[static_cast<std::size_t>(read)];
  }

  [[nodiscard]] std::vector<std::int32_t> numbers(const std::set<NodeId>& nodes) const {
    std::vector<std::int32_t> all;
    for (NodeId n : nodes) all.push_back(number_[static_cast<std::size_t>(n)]);
    return all;
  }

  void emit_library(const Kernel& kernel) {
    const NodeId n = kernel.writes.front();
    const Node& made = node(n);
    CompiledGraph::Launch launch;
    launch.leaf = made.module.leaf;
    for (NodeId in : made.inputs) launch.inputs.push_back(operand(in));
    switch (made.target) {
      case Target::mm:
      case Target::addmm: {
        const std::size_t x = made.target == Target::addmm ? 1 : 0;
        const bool across = node(made.inputs[x]).target == Target::permute;
        const Node& w = node(made.inputs[x + 1]);
        const bool twice =
            w.target == Target::permute && node(w.inputs[0]).target == Target::permute;
        launch.kind = made.target == Target::addmm ? OpKind::addmm : OpKind::mm;
        launch.attributes = ir::Product{
            static_cast<std::int32_t>(node(made.inputs[x]).shape.back()), across  ? ir::Form::tn
                                                                          : twice ? ir::Form::nn
                                                                                  : ir::Form::nt};
        number(n, make(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      }
      default: {
        const bool forward = made.target == Target::sdpa_cudnn || made.target == Target::sdpa_flash;
        launch.kind = forward ? OpKind::sdpa : OpKind::sdpa_backward;
        launch.attributes = ir::Sdpa{made.number, 0, static_cast<ir::SdpaKernel>(made.index)};
        for (NodeId user : made.users) {
          number(user, make(user));
          launch.outputs.push_back(number_[static_cast<std::size_t>(user)]);
        }
        break;
      }
    }
    out_.launches.push_back(std::move(launch));
  }

  /// decide_inplace_update (scheduler.py): an operand of the output's size that this node alone
  /// still reads, at the places that it writes.
  std::int32_t memory_for(NodeId n, const Kernel& kernel, std::set<NodeId>& taken) {
    if (sort_of(n) != Sort::pointwise || moves_[static_cast<std::size_t>(n)]) return -1;
    const auto readers = [&](NodeId read) {
      return std::count_if(kernel.writes.begin(), kernel.writes.end(), [&](NodeId w) {
        return reads_of_[static_cast<std::size_t>(w)].contains(read);
      });
    };
    for (NodeId read : reads_of_[static_cast<std::size_t>(n)]) {
      if (!kernel.reads.contains(read) || readers(read) != 1) continue;
      const std::int32_t from = number_[static_cast<std::size_t>(read)];
      const bool own = is_given(read) ? donated_[static_cast<std::size_t>(from)] : !is_result(read);
      if (!own || taken.contains(read) || uses_[static_cast<std::size_t>(read)] != 1 ||
          node(read).bytes() != node(n).bytes() || node(read).dtype != node(n).dtype)
        continue;
      taken.insert(read);
      return from;
    }
    return -1;
  }

  void emit_generated(const Kernel& kernel) {
    CompiledGraph::Launch launch;
    launch.kind = OpKind::generated;
    launch.leaf = node(kernel.writes.front()).module.leaf;
    launch.inputs = numbers(kernel.reads);
    std::vector<NodeId> stored;
    std::vector<CompiledGraph::Launch> after;
    std::set<NodeId> taken;
    for (NodeId n : kernel.writes) {
      if (sort_of(n) == Sort::column_sum) {
        launch.outputs.push_back(column_sum(n, kernel, after));
        stored.push_back(n);
        continue;
      }
      if (!read_elsewhere(n, kernel)) continue;
      number(n, make(n, memory_for(n, kernel, taken)));
      launch.outputs.push_back(number_[static_cast<std::size_t>(n)]);
      stored.push_back(n);
    }
    launch.attributes = ir::Generated{1, write_body(kernel, stored)};
    out_.launches.push_back(std::move(launch));
    for (auto& one : after) out_.launches.push_back(std::move(one));
  }

  /// The nodes between what the kernel reads and what it stores.
  std::int32_t write_body(const Kernel& kernel, const std::vector<NodeId>& stored) {
    ir::GeneratedBody body;
    std::map<NodeId, std::int32_t> places;
    const auto add = [&](NodeId n, Target target, std::vector<std::int32_t> inputs) {
      const Node& made = node(n);
      places[n] = static_cast<std::int32_t>(body.nodes.size());
      body.nodes.push_back({target, std::move(inputs), made.shape, made.dtype, made.index,
                            made.number, made.tokens});
      return places[n];
    };
    for (NodeId read : kernel.reads) add(read, Target::placeholder, {});
    const std::function<std::int32_t(NodeId)> place = [&](NodeId n) {
      if (const auto found = places.find(n); found != places.end()) return found->second;
      std::vector<std::int32_t> inputs;
      for (NodeId in : node(n).inputs) inputs.push_back(place(in));
      return add(n, node(n).target, std::move(inputs));
    };
    for (NodeId n : stored) body.writes.push_back(place(n));
    out_.bodies.push_back(std::move(body));
    return static_cast<std::int32_t>(out_.bodies.size()) - 1;
  }
  /// The sum of `parts` that ends a split reduction, written as `last`.
  std::int32_t write_sum_body(const CompiledGraph::Made& parts, NodeId last) {
    const Node& whole = node(last);
    ir::GeneratedBody body;
    body.nodes = {{Target::placeholder, {}, parts.shape, parts.dtype},
                  {Target::sum, {0}, whole.shape, whole.dtype}};
    body.writes = {1};
    out_.bodies.push_back(std::move(body));
    return static_cast<std::int32_t>(out_.bodies.size()) - 1;
  }

  /// scheduler.py: a buffer that only its own kernel reads is never stored.
  [[nodiscard]] bool read_elsewhere(NodeId n, const Kernel& kernel) const {
    return is_result(n) || uses_[static_cast<std::size_t>(n)] > 0 || kernel.writes.size() == 1;
  }

  /// Partial sums of a column in fp32. Beside a sum over rows ATen adds them up and copies the
  /// result to the gradient's dtype (codegen/simd.py: "workspace…view(…).sum(dim=0).to(…)"), else a
  /// second kernel does.
  std::int32_t column_sum(NodeId n, const Kernel& kernel,
                          std::vector<CompiledGraph::Launch>& after) {
    const Node& sum = node(n);
    const std::int64_t columns = sum.shape.numel(), rows = kernel.space / columns;
    const std::int64_t together = kernel.reduces ? rows_a_partial_sum : rows_a_split;
    const CompiledGraph::Made parts{{std::max<std::int64_t>(1, rows / together), columns},
                                    DType::f32};
    const std::int32_t partial = make(parts);
    std::int32_t from = partial;
    if (kernel.reduces) {
      from = make({ir::Shape{columns}, DType::f32});
      after.push_back({OpKind::sum, ir::Sum{}, sum.module.leaf, {partial}, {from}});
    }
    const auto tail = tails_.find(n);
    const NodeId last = tail == tails_.end() ? n : tail->second;
    number(last, make(last));
    const std::int32_t whole = number_[static_cast<std::size_t>(last)];
    if (kernel.reduces)
      after.push_back({OpKind::cast, {}, sum.module.leaf, {from}, {whole}});
    else
      after.push_back({OpKind::generated,
                       ir::Generated{1, write_sum_body(parts, last)},
                       sum.module.leaf,
                       {from},
                       {whole}});
    return partial;
  }

  const JointGraph& g_;
  std::vector<std::int32_t> given_, number_;
  std::vector<bool> donated_, realized_, needed_, visited_, moves_;
  std::vector<std::int32_t> kernel_of_;
  std::vector<std::set<NodeId>> reads_of_;  ///< of a realized node
  std::map<NodeId, std::int32_t> views_;    ///< of a buffer, in another shape
  std::map<NodeId, NodeId> tails_;          ///< of a sum over rows: what alone is made of it
  std::vector<NodeId> results_;
  std::vector<Kernel> kernels_;
  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> uses_;
  CompiledGraph out_;
};

}  // namespace

ir::CompiledGraph write_kernels(const JointGraph& graph, std::span<const NodeId> given,
                                const std::vector<bool>& donated, std::span<const NodeId> results) {
  return Writer(graph, given, donated, results).run();
}

}  // namespace ac_advisor::passes::compile
