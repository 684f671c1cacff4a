// Launches of one compiled graph. What is followed of torch/_inductor (v2.11): which nodes are in
// memory (realized.hpp) and how they lie there (layouts.hpp); which nodes are one kernel
// (fusion.hpp), in which order they run and whose memory they take over (memory_order.hpp); a
// pointwise kernel writes over what it reads last (scheduler.py: can_inplace).
#include "kernels.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "float8_forms.hpp"
#include "fusion.hpp"
#include "layouts.hpp"
#include "memory_order.hpp"
#include "product_copies.hpp"
#include "realized.hpp"
#include "reduction_splits.hpp"

namespace ac_advisor::passes::compile {
namespace {

using ir::CompiledGraph;
using ir::OpKind;

/// Rows of a persistent reduction that share one partial sum of a column: codegen/triton.py,
/// MixOrderReduction's rsplit.
constexpr std::int64_t rows_a_partial_sum = 16;
/// A longer row is walked over in a loop (choices.py: should_use_persistent_reduction); a shorter
/// one too, where what is loaded does not lie together.
constexpr std::int64_t most_at_once = 1024, most_apart = 64;
/// ir.py, Layout._pad_strides: a stride above that is a multiple of that many bytes.
constexpr std::int64_t least_padded = 1024, padding_bytes = 128;

/// Of a tensor that a generated kernel makes, with what lies between its rows.
std::int64_t padded_bytes(const Node& node) {
  const std::int64_t element = size_of(node.dtype), aligned = padding_bytes / element;
  std::int64_t stride = 1;
  for (std::size_t i = node.shape.rank(); i-- > 1;) {
    stride *= node.shape[i];
    if (stride > least_padded) stride = (stride + aligned - 1) / aligned * aligned;
  }
  return node.shape.rank() == 0 ? element : stride * node.shape[0] * element;
}

struct Kernel {
  Sort sort = Sort::pointwise;
  std::int64_t space = 0;      ///< elements that it walks over
  std::vector<NodeId> writes;  ///< realized nodes, in order
  NodeSet reads;               ///< realized nodes and given ones that it reads and does not write
  bool reduces = false;        ///< over the columns of a row
};

class Writer {
 public:
  Writer(const JointGraph& graph, std::span<const NodeId> given, const std::vector<bool>& donated,
         std::span<const NodeId> results, Runner runner, Realized realized,
         std::vector<bool> swapped)
      : g_(graph),
        m_(std::move(realized)),
        runner_(runner),
        swapped_(std::move(swapped)),
        given_(graph.nodes.size(), -1),
        kernel_of_(graph.nodes.size(), -1),
        reads_of_(graph.nodes.size()),
        read_in_parts_(graph.nodes.size()),
        loads_of_(graph.nodes.size()),
        overwritten_(graph.nodes.size(), false),
        places_(graph.nodes.size(), -1),
        results_(results.begin(), results.end()) {
    for (std::size_t i = 0; i < given.size(); ++i)
      given_[static_cast<std::size_t>(given[i])] = static_cast<std::int32_t>(i);
    out_.given = static_cast<std::int32_t>(given.size());
    number_ = given_;
    donated_ = donated;
  }

  CompiledGraph run() {
    find_kernels();
    order();
    for (std::int32_t k : order_) count_uses(k);
    for (step_ = 0; step_ < order_.size(); ++step_) emit(order_[step_]);
    for (NodeId n : results_) out_.results.push_back(n < 0 ? -1 : operand(n));
    return std::move(out_);
  }

 private:
  /// What a kernel alone writes and reads.
  struct Workspace {
    std::int32_t number;
    DType dtype;
    std::int64_t bytes;
  };
  [[nodiscard]] const Node& node(NodeId n) const { return g_.node(n); }
  [[nodiscard]] bool is_given(NodeId n) const { return m_.is_given(n); }
  [[nodiscard]] bool realized(NodeId n) const { return m_.realized(n); }
  [[nodiscard]] bool is_output(NodeId n) const { return m_.is_output(n); }
  [[nodiscard]] bool is_result(NodeId n) const { return m_.is_result(n); }
  [[nodiscard]] NodeId buffer(NodeId n) const { return m_.buffer(n); }
  [[nodiscard]] Sort sort_of(NodeId n) const { return m_.sort_of(n); }
  [[nodiscard]] bool swapped(NodeId n) const { return swapped_[static_cast<std::size_t>(n)]; }

  /// Where an operand is read: at the place that is written, with heads and tokens the other way
  /// round, or in parts.
  struct Place {
    bool permuted = false, in_parts = false;
    bool other_rows = false, other_columns = false;  ///< that another operand names
    double walks = 1;  ///< over what is read, for each walk over what is written
  };
  /// How much of its operand, along a row, a node goes over for each of its own elements.
  [[nodiscard]] double walks_over(NodeId n, NodeId in) const {
    const Target t = node(n).target;
    if (t != Target::slice && t != Target::cat && t != Target::slice_scatter) return 1;
    const std::int64_t width = node(in).shape.back();
    return width == 0 ? 1 : static_cast<double>(node(n).shape.back()) / static_cast<double>(width);
  }
  [[nodiscard]] static bool is_at_places(Target t) {
    return t == Target::index || t == Target::gather || adds_into(t);
  }
  /// Whether heads and tokens are loops of their own: they change places where another kernel's are
  /// the other way round (scheduler.py: reorder_loops_by_dep_pair).
  [[nodiscard]] bool goes_by_head(NodeId n) const {
    const Node& made = node(n);
    return made.shape.rank() == 4 ||
           (sort_of(n) != Sort::pointwise && node(made.inputs[0]).shape.rank() == 4);
  }
  /// A copy of what is permuted, as rows for a product. What it copies is of the size of what that
  /// was made of, so that to fuse them would count as a higher peak (scheduler.py:
  /// can_fusion_increase_peak_memory, before loops are merged).
  [[nodiscard]] bool copies_rows(NodeId n) const {
    const auto& users = node(n).users;
    return node(n).target == Target::clone && node(n).shape.rank() == 4 &&
           std::any_of(users.begin(), users.end(), [&](NodeId user) {
             return node(user).target == Target::view && node(user).shape.rank() != 4;
           });
  }
  [[nodiscard]] bool in_another_order(NodeId made, NodeId read, const Place& place) const {
    if (runner_ == Runner::trainer || copies_rows(made)) return place.permuted;
    if (node(read).shape.rank() != 4 || goes_by_head(made)) return false;
    return place.permuted == (swapped(made) == swapped(read));
  }
  /// What a kernel for realized node `made` reads, through nodes that are written into it.
  void collect_reads(NodeId n, NodeId made, Place place, SchedulerNode& into) {
    const Target t = node(n).target;
    const bool of_four = t == Target::permute && node(n).shape.rank() == 4;
    const bool turned = of_four && node(n).index == permuted::rows;
    place.permuted = place.permuted != (of_four && !turned);
    place.in_parts = place.in_parts || turned || t == Target::slice || t == Target::select ||
                     t == Target::cat || t == Target::slice_scatter || t == Target::split;
    const double walks = place.walks;
    const Place around = place;
    for (NodeId in : node(n).inputs) {
      place = around;
      if (in == node(n).inputs[0] && is_at_places(t))
        (t == Target::gather ? place.other_columns : place.other_rows) = true;
      place.walks = walks * walks_over(n, in);
      if (!is_given(in) && !realized(in)) {
        collect_reads(in, made, place, into);
        continue;
      }
      if (place.walks != 1) into.walks.try_emplace(in, place.walks);
      if (into.reads.insert(in)) loads_of_[static_cast<std::size_t>(made)].push_back(in);
      const bool scattered = !is_given(in) && adds_into(node(in).target);
      if (place.in_parts || in_another_order(made, in, place)) into.elsewhere.insert(in);
      const bool one_column = node(in).shape.rank() > 0 && node(in).shape.back() == 1;
      const bool indirect = place.other_rows || (place.other_columns && !one_column);
      if (indirect || scattered) into.indirect.insert(in);
      if (place.in_parts || indirect) read_in_parts_[static_cast<std::size_t>(made)].insert(in);
    }
  }

  [[nodiscard]] std::int64_t space_of(NodeId n) const {
    if (adds_into(node(n).target)) return node(node(n).inputs[2]).shape.numel();
    std::int64_t most = node(n).has_tensor ? node(n).shape.numel() : 0;
    if (sort_of(n) != Sort::pointwise)
      for (NodeId in : node(n).inputs) most = std::max(most, node(in).shape.numel());
    return most;
  }

  [[nodiscard]] std::int32_t writer_of(NodeId n) const {
    if (is_output(n)) n = node(n).inputs[0];
    return kernel_of_[static_cast<std::size_t>(n)];
  }
  [[nodiscard]] SchedulerNode scheduler_node(NodeId n) {
    SchedulerNode made;
    made.sort = sort_of(n);
    made.space = space_of(n);
    made.maxima = node(n).target == Target::amax || node(n).target == Target::max;
    made.rows = node(n).has_tensor ? node(n).shape.numel() : 0;
    made.in_one = made.sort == Sort::column_sum && made.rows > 0 &&
                  outer_reduction_splits(made.space / made.rows, made.rows) == 1;
    made.copies = node(n).target == Target::clone && node(node(n).inputs[0]).target == Target::view;
    if (made.sort == Sort::library)
      for (NodeId in : node(n).inputs) made.reads.insert(buffer(in));
    else
      collect_reads(n, n, {}, made);
    for (NodeId in : node(n).inputs)  // a view lasts as long as what it is of
      if (!is_given(in) && is_alias(node(in).target)) made.reads.insert(buffer(node(in).inputs[0]));
    if (node(n).target == Target::wait)  // ir.py: _WaitKernel.get_volatile_reads
      for (NodeId in : node(n).inputs)
        if (!is_given(in)) made.reads.insert(buffer(node(in).inputs[0]));
    if (node(n).has_tensor)
      made.writes = {n};
    else
      for (NodeId user : node(n).users) made.writes.push_back(user);
    return made;
  }

  void find_kernels() {
    std::vector<NodeId> made_by;  // the realized node of a scheduler's node
    std::vector<SchedulerNode> nodes;
    for (NodeId n = 0; n < g_.size(); ++n) {
      if (!realized(n) || is_output(n)) continue;
      SchedulerNode made = scheduler_node(n);
      reads_of_[static_cast<std::size_t>(n)] = made.reads;
      if (made.sort == Sort::pointwise && made.reads.size() == 1) {
        const NodeId read = *made.reads.begin();
        if (!is_given(read) && sort_of(read) == Sort::column_sum) {  // written with the sum
          tails_[read] = n;
          continue;
        }
      }
      if (ends_sums(n, made)) {
        ends_.push_back({n, std::move(made.reads)});
        continue;
      }
      made_by.push_back(n);
      nodes.push_back(std::move(made));
    }
    std::vector<BufferUse> buffers(g_.nodes.size());
    for (NodeId n = 0; n < g_.size(); ++n)
      buffers[static_cast<std::size_t>(n)] = {node(n).bytes(), node(n).shape.numel(), 0,
                                              !is_given(n)};
    for (SchedulerNode& made : nodes) {
      // What a column's sum is made of is read in its place.
      for (const auto& [sum, tail] : tails_)
        if (made.reads.erase(tail)) made.reads.insert(sum);
      for (NodeId read : made.reads) ++buffers[static_cast<std::size_t>(read)].readers;
    }
    for (const std::vector<std::int32_t>& group : fuse_nodes(nodes, buffers)) {
      Kernel kernel;
      for (std::int32_t i : group) {
        const SchedulerNode& part = nodes[static_cast<std::size_t>(i)];
        const NodeId n = made_by[static_cast<std::size_t>(i)];
        kernel.writes.push_back(n);
        kernel.reads.insert(part.reads);
        kernel.space = std::max(kernel.space, part.space);
        kernel.reduces = kernel.reduces || part.sort == Sort::row_sum;
        if (part.sort == Sort::library || part.sort == Sort::column_sum) kernel.sort = part.sort;
        kernel_of_[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(kernels_.size());
        if (const auto tail = tails_.find(n); tail != tails_.end())
          kernel_of_[static_cast<std::size_t>(tail->second)] =
              static_cast<std::int32_t>(kernels_.size());
      }
      for (NodeId n : kernel.writes) kernel.reads.erase(n);
      for (const auto& [sum, tail] : tails_)
        if (kernel.reads.erase(sum)) kernel.reads.insert(tail);
      kernels_.push_back(std::move(kernel));
    }
    for (EndOfSums& end : ends_) place_end(end);
  }

  /// What is made of several columns' sums: their last kernel, which adds up their partial sums,
  /// writes it.
  struct EndOfSums {
    NodeId made;
    NodeSet reads;
    std::int32_t kernel = -1;  ///< that makes all of the sums; -1: several do
  };
  [[nodiscard]] bool is_column_sum(NodeId n) const {
    return !is_given(n) && sort_of(n) == Sort::column_sum;
  }
  [[nodiscard]] bool ends_sums(NodeId n, const SchedulerNode& made) const {
    if (made.sort != Sort::pointwise || made.reads.size() < 2) return false;
    const auto sums = std::count_if(made.reads.begin(), made.reads.end(),
                                    [this](NodeId read) { return is_column_sum(read); });
    return sums > 1 && std::all_of(made.reads.begin(), made.reads.end(), [&](NodeId read) {
             return node(read).shape.numel() == node(n).shape.numel() &&
                    (is_given(read) || is_column_sum(read));
           });
  }
  void place_end(EndOfSums& end) {
    std::vector<std::int32_t> makers;
    for (NodeId read : end.reads)
      if (is_column_sum(read)) makers.push_back(kernel_of_[static_cast<std::size_t>(read)]);
    const bool one = std::count(makers.begin(), makers.end(), makers[0]) ==
                     static_cast<std::ptrdiff_t>(makers.size());
    Kernel* kernel = &kernels_[static_cast<std::size_t>(makers[0])];
    if (one && !kernel->reduces) {
      end.kernel = makers[0];
      for (NodeId read : end.reads)
        if (is_given(read)) kernel->reads.insert(read);
    } else {
      kernels_.push_back({Sort::pointwise, node(end.made).shape.numel(), {end.made}, end.reads});
      makers[0] = static_cast<std::int32_t>(kernels_.size()) - 1;
    }
    kernel_of_[static_cast<std::size_t>(end.made)] = makers[0];
  }
  [[nodiscard]] const EndOfSums* end_of(NodeId sum) const {
    for (const EndOfSums& end : ends_)
      if (end.kernel >= 0 && end.reads.contains(sum)) return &end;
    return nullptr;
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
    for (std::size_t k = 0; k < kernels_.size(); ++k) visit(static_cast<std::int32_t>(k));
    reorder();
  }

  /// Whether a node writes into a buffer that is there: under a name of its own, which takes no
  /// memory and orders those that read it after it (memory.py: mutation_real_name).
  [[nodiscard]] bool mutates(NodeId n) const {
    return !is_given(n) && (adds_into(node(n).target) || works_in_place(node(n).target));
  }

  void reorder() {
    std::vector<std::int32_t> numbers(g_.nodes.size(), -1);
    std::vector<BufferMemory> buffers;
    const auto number_of = [&](NodeId n) {
      std::int32_t& number = numbers[static_cast<std::size_t>(n)];
      if (number < 0) {
        number = static_cast<std::int32_t>(buffers.size());
        const Target t = node(n).target;
        const bool given = is_given(n) && t != Target::placeholder && t != Target::tangent;
        const bool lasts = is_given(n) && !given;
        buffers.push_back({lasts || mutates(n) ? 0 : node(n).bytes(), given, is_result(n)});
      }
      return number;
    };
    std::vector<LaunchMemory> launches;
    for (std::int32_t k : order_) {
      const Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
      LaunchMemory launch;
      for (NodeId n : kernel.reads) {
        launch.reads.push_back(number_of(n));
        if (mutates(n)) launch.reads.push_back(number_of(buffer(node(n).inputs[0])));
      }
      for (NodeId n : kernel.writes) {
        if (!node(n).has_tensor)
          for (NodeId user : node(n).users) launch.makes.push_back(number_of(user));
        else
          launch.makes.push_back(number_of(n));
        if (const auto tail = tails_.find(n); tail != tails_.end())
          launch.makes.push_back(number_of(tail->second));
      }
      for (const EndOfSums& end : ends_)
        if (end.kernel == k) launch.makes.push_back(number_of(end.made));
      launches.push_back(std::move(launch));
    }
    OrderedLaunches ordered = order_for_peak_memory(launches, buffers);
    for (std::int32_t& i : ordered.order) i = order_[static_cast<std::size_t>(i)];
    order_ = std::move(ordered.order);
    pool_ = ReusePool(std::move(ordered.memory));
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
    return make({node(n).shape, node(n).dtype, over, -1, swapped(n)});
  }
  /// A node in memory as what reads it sees it: its buffer, or a view of that in its shape. Of a
  /// matrix that is transposed, the matrix: a product's form says the rest.
  std::int32_t operand(NodeId n) {
    while (!is_given(n) && ((node(n).target == Target::permute && node(n).shape.rank() <= 3) ||
                            node(n).target == Target::expand))  // a mask, to each head
      n = node(n).inputs[0];
    const NodeId whole = buffer(n);
    const std::int32_t in = number_[static_cast<std::size_t>(whole)];
    if (node(whole).shape == node(n).shape && swapped(whole) == swapped(n)) return in;
    const auto [at, is_new] = views_.try_emplace(n, 0);
    if (is_new) at->second = make({node(n).shape, node(n).dtype, -1, in, swapped(n)});
    return at->second;
  }
  void number(NodeId n, std::int32_t value) { number_[static_cast<std::size_t>(n)] = value; }

  void emit(std::int32_t k) {
    const Kernel& kernel = kernels_[static_cast<std::size_t>(k)];
    if (kernel.sort == Sort::library)
      emit_library(kernel);
    else
      emit_generated(kernel);
    for (const Workspace& own : workspaces_) pool_.free(own.number, own.dtype, own.bytes, step_);
    workspaces_.clear();
    for (NodeId read : kernel.reads)
      if (--uses_[static_cast<std::size_t>(read)] == 0) free(read);
  }

  void free(NodeId n) {
    if (is_given(n) || is_result(n) || overwritten_[static_cast<std::size_t>(n)]) return;
    if (number_[static_cast<std::size_t>(n)] < 0) return;  // a sum, stored as what is made of it
    pool_.free(number_[static_cast<std::size_t>(n)], key_of(n), storage_of(n), step_);
  }
  /// float8_e5m2, which a gradient is cast to, and float8_e4m3fn do not take each other's memory.
  [[nodiscard]] DType key_of(NodeId n) const {
    if (node(n).dtype != DType::f8) return node(n).dtype;
    while (!is_given(n) && node(n).target != Target::convert) n = node(n).inputs[0];
    return node(n).index > 0 ? DType::u8 : DType::f8;
  }
  /// What is reused is of one size; that of scores a generated kernel pads.
  [[nodiscard]] std::int64_t storage_of(NodeId n) const {
    const bool padded =
        !is_given(n) && node(n).shape.rank() == 4 && sort_of(n) == Sort::pointwise && !is_output(n);
    return padded ? padded_bytes(node(n)) : node(n).bytes();
  }
  /// In memory that is free, or new.
  std::int32_t allocate(NodeId n) {
    return make(n, pool_.allocate(key_of(n), storage_of(n), step_));
  }

  [[nodiscard]] std::vector<std::int32_t> numbers(const NodeSet& nodes) const {
    std::vector<std::int32_t> all;
    for (NodeId n : nodes) {
      all.push_back(number_[static_cast<std::size_t>(n)]);
      if (all.back() < 0) throw std::logic_error("a kernel reads what no kernel before it makes");
    }
    return all;
  }

  [[nodiscard]] ir::Product product(const Node& made, std::size_t x) const {
    const bool across = node(made.inputs[x]).target == Target::permute;
    const Node& w = node(made.inputs[x + 1]);
    const bool twice = w.target == Target::dequantize_4bit ||  // [N, K], not turned
                       (w.target == Target::permute && !w.inputs.empty() &&
                        node(w.inputs[0]).target == Target::permute);
    return {static_cast<std::int32_t>(node(made.inputs[x]).shape.back()), across  ? ir::Form::tn
                                                                          : twice ? ir::Form::nn
                                                                                  : ir::Form::nt};
  }
  /// Of values and places, also of those that nothing reads.
  std::int32_t output_of(const Node& made, std::int64_t which) {
    for (NodeId user : made.users)
      if (node(user).index == which) {
        number(user, make(user));
        return number_[static_cast<std::size_t>(user)];
      }
    return make({made.shape, which == 0 ? made.dtype : DType::i64});
  }

  /// Inductor reduces over ranks in place (fx_passes/reinplace.py). What is waited for is the
  /// collective's own result; until then the collective's operand stays.
  static bool works_in_place(Target t) { return t == Target::wait || t == Target::all_reduce; }
  void emit_in_place(const Kernel& kernel) {
    const NodeId n = kernel.writes.front(), given = node(n).inputs[0], whole = buffer(given);
    number(n, operand(given));
    overwritten_[static_cast<std::size_t>(whole)] = true;
    overwritten_[static_cast<std::size_t>(n)] = is_given(whole) || is_result(whole);
    CompiledGraph::Launch launch;
    launch.kind = OpKind::hold;
    launch.inputs = {operand(given)};
    if (node(n).target == Target::all_reduce) {
      launch.kind = OpKind::tp_all_reduce;
      launch.attributes = ir::TpReduce{true};
      launch.leaf = node(n).module.leaf;
      launch.block = node(n).module.block;
    } else if (!is_given(given)) {
      launch.inputs.push_back(operand(node(given).inputs[0]));
    }
    out_.launches.push_back(std::move(launch));
  }

  /// Once a view as complex numbers is done with, what it is of may be handed on; no tensor asks
  /// for memory that complex numbers were made in (codegen/wrapper.py: FreeIfNotReusedLine).
  void emit_alias(NodeId n) {
    const NodeId whole = buffer(node(n).inputs[0]);
    number(n, number_[static_cast<std::size_t>(whole)]);
    overwritten_[static_cast<std::size_t>(whole)] = true;
    overwritten_[static_cast<std::size_t>(n)] =
        node(n).target != Target::as_complex || is_given(whole) || is_result(whole);
  }

  void emit_library(const Kernel& kernel) {
    const NodeId n = kernel.writes.front();
    const Node& made = node(n);
    if (works_in_place(made.target)) return emit_in_place(kernel);
    if (is_alias(made.target)) return emit_alias(n);
    CompiledGraph::Launch launch;
    launch.leaf = made.module.leaf;
    launch.block = made.module.block;
    for (NodeId in : made.inputs) launch.inputs.push_back(operand(in));
    switch (made.target) {
      case Target::mm:
      case Target::addmm: {
        launch.kind = made.target == Target::addmm ? OpKind::addmm
                      : made.shape.rank() == 3     ? OpKind::bmm
                                                   : OpKind::mm;
        launch.attributes = product(made, made.target == Target::addmm ? 1 : 0);
        number(n, allocate(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      }
      case Target::scaled_mm:
        launch.kind = OpKind::fp8_product;
        launch.attributes =
            ir::Product{static_cast<std::int32_t>(node(made.inputs[0]).shape.back()), ir::Form::nt};
        number(n, allocate(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      case Target::seeds:
        launch.kind = OpKind::random;
        number(n, allocate(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      case Target::empty:
        launch.kind = OpKind::empty;
        number(n, allocate(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      case Target::grouped_mm: {
        launch.kind = OpKind::grouped_mm;
        ir::Product each = product(made, 0);
        if (made.shape.rank() == 3)  // a weight's gradient: each expert has a share of the rows
          each.inner = static_cast<std::int32_t>(each.inner / made.shape[0]);
        launch.attributes = each;
        number(n, make(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      }
      case Target::all_to_all:
        launch.kind = OpKind::ring_exchange;
        number(n, make(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      case Target::all_gather:
      case Target::reduce_scatter: {
        if (made.shape.rank() == 1) {  // keys and values of a ring
          launch.kind = OpKind::cp_all_gather;
          number(n, make(n));
          launch.outputs = {number_[static_cast<std::size_t>(n)]};
          break;
        }
        const bool gathers = made.target == Target::all_gather;
        const std::int64_t here = node(made.inputs[0]).shape[0],
                           ranks = gathers ? made.shape[0] / here : here / made.shape[0];
        const auto count = static_cast<std::int32_t>(ranks);
        launch.kind = gathers ? OpKind::tp_all_gather : OpKind::tp_reduce_scatter;
        if (gathers)
          launch.attributes = ir::TpGather{ir::Joined::tokens, count};
        else
          launch.attributes = ir::TpScatter{count};
        number(n, make(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      }
      case Target::gemm_4bit:
        return emit_four_bit_product(n, std::move(launch));
      case Target::dequantize_scales:
      case Target::dequantize_4bit:
        launch.kind = OpKind::dequantize;
        launch.attributes =
            ir::Dequantize{made.target == Target::dequantize_4bit ? 64 : 256, false};
        number(n, make(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      case Target::complex_mul:
      case Target::complex_rows:
      case Target::conjugate:
        launch.kind = made.target == Target::conjugate     ? OpKind::clone
                      : made.target == Target::complex_mul ? OpKind::complex_mul
                                                           : OpKind::index;
        number(n, make(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      case Target::histc:
        launch.kind = OpKind::histc;
        launch.attributes = ir::Histc{static_cast<std::int32_t>(made.shape.back())};
        number(n, make(n));
        launch.outputs = {number_[static_cast<std::size_t>(n)]};
        break;
      case Target::topk:
      case Target::sort:
        launch.kind = made.target == Target::topk ? OpKind::topk : OpKind::sort;
        if (made.target == Target::topk)
          launch.attributes = ir::TopK{static_cast<std::int32_t>(made.index)};
        for (std::int64_t i = 0; i < 2; ++i) launch.outputs.push_back(output_of(made, i));
        break;
      default: {
        const bool forward = !is_attention_backward(made.target);
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

  /// What the op makes for itself: scales in fp32, and with their offset, until it returns; the
  /// weight until its product.
  void emit_four_bit_product(NodeId n, CompiledGraph::Launch product) {
    const Node& made = node(n);
    const bool nested = made.index > 0, biased = made.number > 0;
    const std::int64_t inner = node(made.inputs[0]).shape.back();
    const std::int32_t codes = product.inputs[1], scales = product.inputs[2];
    const auto launched = [&](OpKind kind, const ir::Attributes& attributes,
                              std::vector<std::int32_t> in, const ir::Shape& shape, DType dtype) {
      CompiledGraph::Launch launch = product;
      launch.kind = kind;
      launch.attributes = attributes;
      launch.inputs = std::move(in);
      launch.outputs = {make({shape, dtype})};
      out_.launches.push_back(std::move(launch));
      return out_.launches.back().outputs[0];
    };
    std::int32_t widened = scales;
    std::vector<std::int32_t> held;
    if (nested) {
      const ir::Shape blocks = node(made.inputs[2]).shape;
      const std::int32_t without_offset = launched(OpKind::dequantize, ir::Dequantize{256, false},
                                                   {scales, product.inputs[3]}, blocks, DType::f32);
      widened =
          launched(OpKind::add, ir::Add{}, {without_offset, product.inputs[4]}, blocks, DType::f32);
      held = {without_offset, widened};
    }
    const std::int32_t weight = launched(OpKind::dequantize, ir::Dequantize{64, false},
                                         {codes, widened}, {made.shape.back(), inner}, made.dtype);
    number(n, make(n));
    product.kind = OpKind::mm_quantized;
    product.attributes =
        ir::QuantizedProduct{static_cast<std::int32_t>(inner), {64, nested}, biased, false};
    product.inputs.insert(product.inputs.begin() + 1, weight);
    product.outputs = {number_[static_cast<std::size_t>(n)]};
    CompiledGraph::Launch hold = product;
    out_.launches.push_back(std::move(product));
    if (held.empty()) return;
    hold.kind = OpKind::hold;
    hold.attributes = {};
    hold.inputs = std::move(held);
    hold.outputs.clear();
    out_.launches.push_back(std::move(hold));
  }

  /// The nodes of a kernel that `n` needs.
  [[nodiscard]] NodeSet ancestors(NodeId n, const Kernel& kernel) const {
    NodeSet found;
    std::vector<NodeId> rest{n};
    while (!rest.empty()) {
      const NodeId current = rest.back();
      rest.pop_back();
      for (NodeId read : reads_of_[static_cast<std::size_t>(current)]) {
        const bool inside =
            std::find(kernel.writes.begin(), kernel.writes.end(), read) != kernel.writes.end();
        if (inside && found.insert(read)) rest.push_back(read);
      }
    }
    return found;
  }

  /// decide_inplace_update (scheduler.py): an operand of the output's size that this node alone
  /// still reads, what it needs aside, at the places that it writes.
  std::int32_t memory_for(NodeId n, const Kernel& kernel, NodeSet& taken) {
    if (adds_into(node(n).target)) {
      overwritten_[static_cast<std::size_t>(buffer(node(n).inputs[0]))] = true;
      return number_[static_cast<std::size_t>(buffer(node(n).inputs[0]))];
    }
    if (sort_of(n) != Sort::pointwise) return -1;
    const NodeSet before = ancestors(n, kernel);
    const auto readers = [&](NodeId read) {
      return std::count_if(kernel.writes.begin(), kernel.writes.end(), [&](NodeId w) {
        return !before.contains(w) && reads_of_[static_cast<std::size_t>(w)].contains(read);
      });
    };
    for (NodeId read : loads_of_[static_cast<std::size_t>(n)]) {
      if (!kernel.reads.contains(read) || readers(read) != 1) continue;
      if (read_in_parts_[static_cast<std::size_t>(n)].contains(read)) continue;
      if (!is_given(read) && works_in_place(node(read).target)) continue;  // a MutationOutput
      const std::int32_t from = number_[static_cast<std::size_t>(read)];
      const bool own = is_given(read) ? donated_[static_cast<std::size_t>(from)] : !is_result(read);
      if (!own || taken.contains(read) || uses_[static_cast<std::size_t>(read)] != 1 ||
          storage_of(read) != storage_of(n) || node(read).dtype != node(n).dtype)
        continue;
      taken.insert(read);
      overwritten_[static_cast<std::size_t>(read)] = true;
      return from;
    }
    return -1;
  }

  void emit_generated(const Kernel& kernel) {
    CompiledGraph::Launch launch;
    launch.kind = OpKind::generated;
    launch.leaf = node(kernel.writes.front()).module.leaf;
    launch.block = node(kernel.writes.front()).module.block;
    launch.inputs = numbers(kernel.reads);
    std::vector<NodeId> stored;
    std::vector<CompiledGraph::Launch> after;
    NodeSet taken;
    for (NodeId n : kernel.writes) {
      if (sort_of(n) == Sort::column_sum) {
        const EndOfSums* end = end_of(n);
        const std::int32_t sum =
            end != nullptr ? part_of_end(n, *end, kernel, after) : column_sum(n, kernel, after);
        if (sum < 0) continue;
        launch.outputs.push_back(sum);
        stored.push_back(n);
        continue;
      }
      if (!read_elsewhere(n, kernel)) {
        if (!read_in_next_loop(n, kernel)) continue;
        number(n, allocate(n));
        launch.outputs.push_back(number_[static_cast<std::size_t>(n)]);
        stored.push_back(n);
        workspaces_.push_back({number_[static_cast<std::size_t>(n)], node(n).dtype, storage_of(n)});
        continue;
      }
      const std::int32_t over = memory_for(n, kernel, taken);
      number(n, over >= 0 ? make(n, over) : allocate(n));
      launch.outputs.push_back(number_[static_cast<std::size_t>(n)]);
      stored.push_back(n);
    }
    launch.attributes = ir::Generated{1, write_body(kernel, stored)};
    if (sums_all(kernel) && kernel.space > most_unsplit) split(kernel, launch);
    out_.launches.push_back(std::move(launch));
    for (auto& one : after) out_.launches.push_back(std::move(one));
  }

  [[nodiscard]] bool sums_all(const Kernel& kernel) const {
    return std::any_of(kernel.writes.begin(), kernel.writes.end(), [&](NodeId n) {
      return node(n).target == Target::sum && node(n).shape.rank() == 0;
    });
  }
  /// Sums of all elements are split in two: partial sums, and theirs.
  void split(const Kernel& kernel, CompiledGraph::Launch& last) {
    const std::int64_t parts = (kernel.space + most_unsplit - 1) / most_unsplit;
    CompiledGraph::Launch first = last;
    first.outputs.clear();
    for (NodeId n : kernel.writes)
      if (node(n).target == Target::sum) first.outputs.push_back(make({{parts}, node(n).dtype}));
    last.inputs = first.outputs;
    out_.launches.push_back(std::move(first));
  }

  std::int32_t add_to_body(ir::GeneratedBody& body, NodeId n, Target target,
                           std::vector<std::int32_t> inputs) {
    const Node& made = node(n);
    places_[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(body.nodes.size());
    placed_.push_back(n);
    body.nodes.push_back(
        {target, std::move(inputs), made.shape, made.dtype, made.index, made.number, made.tokens});
    return places_[static_cast<std::size_t>(n)];
  }
  /// Of a node in the body, after what it needs.
  std::int32_t place(ir::GeneratedBody& body, NodeId n) {
    if (const std::int32_t known = places_[static_cast<std::size_t>(n)]; known >= 0) return known;
    std::vector<std::int32_t> inputs;
    inputs.reserve(node(n).inputs.size());
    for (NodeId in : node(n).inputs) inputs.push_back(place(body, in));
    return add_to_body(body, n, node(n).target, std::move(inputs));
  }
  /// The nodes between what the kernel reads and what it stores.
  std::int32_t write_body(const Kernel& kernel, const std::vector<NodeId>& stored) {
    ir::GeneratedBody body;
    for (NodeId read : kernel.reads) add_to_body(body, read, Target::placeholder, {});
    for (NodeId n : stored) body.writes.push_back(place(body, n));
    for (NodeId n : placed_) places_[static_cast<std::size_t>(n)] = -1;
    placed_.clear();
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

  /// The sums of parts that end split reductions, and what is made of them.
  std::int32_t write_end_body(const std::vector<std::int32_t>& inputs, NodeId end) {
    ir::GeneratedBody body;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      body.nodes.push_back({Target::placeholder, {}, {node(end).shape.numel()}, DType::f32});
    std::vector<std::int32_t> all(inputs.size());
    std::iota(all.begin(), all.end(), 0);
    body.writes = {static_cast<std::int32_t>(inputs.size())};
    body.nodes.push_back({node(end).target, std::move(all), node(end).shape, node(end).dtype});
    out_.bodies.push_back(std::move(body));
    return static_cast<std::int32_t>(out_.bodies.size()) - 1;
  }

  /// scheduler.py: a buffer that only its own kernel reads is never stored.
  [[nodiscard]] bool read_elsewhere(NodeId n, const Kernel& kernel) const {
    return is_result(n) || uses_[static_cast<std::size_t>(n)] > 0 || kernel.writes.size() == 1;
  }

  /// The loop over a row's columns in which a kernel makes each of its nodes
  /// (codegen/simd.py: generate_node_schedule).
  [[nodiscard]] std::map<NodeId, int> loops_of(const Kernel& kernel) const {
    std::map<NodeId, int> loops;
    std::set<NodeId> not_ready_yet;  // sums of the loop that is written
    int loop = 0;
    for (NodeId n : kernel.writes) {
      const bool whole = space_of(n) == kernel.space;
      const NodeSet before = ancestors(n, kernel);
      const bool closes = std::any_of(before.begin(), before.end(),
                                      [&](NodeId on) { return not_ready_yet.contains(on); });
      if (!whole || closes) {
        ++loop;
        not_ready_yet.clear();
      }
      loops[n] = loop;
      if (whole && sort_of(n) == Sort::row_sum) not_ready_yet.insert(n);
    }
    return loops;
  }
  /// What one loop makes and a later one reads is stored between them (codegen/common.py:
  /// must_keep_buffers); a short row is in registers whole.
  [[nodiscard]] bool read_in_next_loop(NodeId n, const Kernel& kernel) const {
    if (runner_ == Runner::trainer || !kernel.reduces || kernel.sort != Sort::pointwise ||
        sort_of(n) != Sort::pointwise || node(n).shape.numel() != kernel.space)
      return false;
    const auto rows = std::find_if(kernel.writes.begin(), kernel.writes.end(),
                                   [&](NodeId sum) { return sort_of(sum) == Sort::row_sum; });
    const bool apart = padded_bytes(node(n)) != node(n).bytes();
    const std::int64_t at_once = apart ? most_apart : most_at_once;
    if (kernel.space / node(*rows).shape.numel() <= at_once) return false;
    const std::map<NodeId, int> loops = loops_of(kernel);
    return std::any_of(kernel.writes.begin(), kernel.writes.end(), [&](NodeId reader) {
      return loops.at(reader) > loops.at(n) &&
             reads_of_[static_cast<std::size_t>(reader)].contains(n);
    });
  }

  /// Partial sums of a column in fp32. Beside a sum over rows ATen adds them up and copies the
  /// result to the gradient's dtype (codegen/simd.py: "workspace…view(…).sum(dim=0).to(…)"), else a
  /// second kernel does.
  std::int32_t column_sum(NodeId n, const Kernel& kernel,
                          std::vector<CompiledGraph::Launch>& after) {
    const Node& sum = node(n);
    const std::int64_t columns = sum.shape.numel(), rows = kernel.space / columns;
    const auto tail = tails_.find(n);
    const NodeId last = tail == tails_.end() ? n : tail->second;
    const std::int64_t splits = kernel.reduces
                                    ? std::max<std::int64_t>(1, rows / rows_a_partial_sum)
                                    : outer_reduction_splits(rows, columns);
    if (!kernel.reduces && splits == 1) {
      number(last, make(last));
      return number_[static_cast<std::size_t>(last)];
    }
    const CompiledGraph::Made parts{{splits, columns}, DType::f32};
    const std::int64_t bytes = parts.shape.numel() * size_of(parts.dtype);
    CompiledGraph::Made workspace = parts;
    workspace.over = pool_.allocate(parts.dtype, bytes, step_);
    const std::int32_t partial = make(workspace);
    workspaces_.push_back({partial, DType::f32, bytes});
    std::int32_t from = partial;
    if (kernel.reduces) {
      from = make({ir::Shape{columns}, DType::f32});
      after.push_back(
          {OpKind::sum, ir::Sum{}, sum.module.leaf, {partial}, {from}, sum.module.block});
    }
    if (kernel.reduces && node(last).dtype == DType::f32) {  // nothing to copy
      number(last, from);
      return partial;
    }
    number(last, make(last));
    const std::int32_t whole = number_[static_cast<std::size_t>(last)];
    if (kernel.reduces)
      after.push_back({OpKind::cast, {}, sum.module.leaf, {from}, {whole}, sum.module.block});
    else
      after.push_back({OpKind::generated,
                       ir::Generated{1, write_sum_body(parts, last)},
                       sum.module.leaf,
                       {from},
                       {whole},
                       sum.module.block});
    return partial;
  }

  /// The same of a sum that `end` is made of, with others: after the last of them. Where they are
  /// not split the kernel writes that alone: -1 of all but the last.
  std::int32_t part_of_end(NodeId n, const EndOfSums& end, const Kernel& kernel,
                           std::vector<CompiledGraph::Launch>& after) {
    const std::int64_t columns = node(n).shape.numel(),
                       splits = outer_reduction_splits(kernel.space / columns, columns);
    std::vector<std::int32_t>& parts = parts_[end.made];
    parts.push_back(-1);
    if (splits > 1) {
      CompiledGraph::Made workspace{{splits, columns}, DType::f32};
      const std::int64_t bytes = workspace.shape.numel() * size_of(workspace.dtype);
      workspace.over = pool_.allocate(workspace.dtype, bytes, step_);
      parts.back() = make(workspace);
      workspaces_.push_back({parts.back(), workspace.dtype, bytes});
    }
    const auto sums = std::count_if(end.reads.begin(), end.reads.end(),
                                    [this](NodeId read) { return is_column_sum(read); });
    if (static_cast<std::ptrdiff_t>(parts.size()) < sums) return parts.back();
    const std::int32_t last = parts.back();
    number(end.made, make(end.made));
    const std::int32_t whole = number_[static_cast<std::size_t>(end.made)];
    if (splits == 1) return whole;
    std::vector<std::int32_t> inputs = std::exchange(parts, {});
    for (NodeId read : end.reads)
      if (is_given(read)) inputs.push_back(number_[static_cast<std::size_t>(read)]);
    const ir::Generated body{1, write_end_body(inputs, end.made)};
    after.push_back({OpKind::generated,
                     body,
                     node(n).module.leaf,
                     std::move(inputs),
                     {whole},
                     node(n).module.block});
    return last;
  }

  const JointGraph& g_;
  Realized m_;
  Runner runner_;
  std::vector<bool> swapped_;  ///< in memory
  std::vector<std::int32_t> given_, number_;
  std::vector<bool> donated_, visited_;
  std::vector<std::int32_t> kernel_of_;
  std::vector<NodeSet> reads_of_;              ///< of a realized node
  std::vector<NodeSet> read_in_parts_;         ///< of those, not whole
  std::vector<std::vector<NodeId>> loads_of_;  ///< the same in the order in which it loads them
  std::vector<bool> overwritten_;              ///< whose memory another has
  std::vector<std::int32_t> places_;           ///< in the body that is written; -1: none yet
  std::vector<NodeId> placed_;                 ///< those that have one
  std::map<NodeId, std::int32_t> views_;       ///< of a buffer, in another shape
  std::vector<EndOfSums> ends_;
  std::map<NodeId, std::vector<std::int32_t>> parts_;  ///< of an end's sums, so far
  std::map<NodeId, NodeId> tails_;  ///< of a sum over rows: what alone is made of it
  std::vector<NodeId> results_;
  std::vector<Kernel> kernels_;
  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> uses_;
  ReusePool pool_;
  std::vector<Workspace> workspaces_;  ///< of the launch
  std::size_t step_ = 0;               ///< of the launch that is emitted
  CompiledGraph out_;
};

}  // namespace

ir::CompiledGraph write_kernels(const JointGraph& graph, std::span<const NodeId> given,
                                const std::vector<bool>& donated, std::span<const NodeId> results,
                                Runner runner) {
  const auto written = [&](const JointGraph& of, std::span<const NodeId> from,
                           std::span<const NodeId> to, Realized realized,
                           std::vector<bool> swapped) {
    return Writer(of, from, donated, to, runner, std::move(realized), std::move(swapped)).run();
  };
  Realized realized(graph, given, results);
  if (const auto with = with_float8_forms(graph, given, results, realized); with) {
    Realized again(with->graph, with->given, with->results);
    std::vector<bool> swapped = swapped_in_memory(with->graph, again);
    return written(with->graph, with->given, with->results, std::move(again), std::move(swapped));
  }
  if (runner == Runner::trainer)
    return written(graph, given, results, std::move(realized), swapped_as_traced(graph));
  std::vector<bool> swapped = swapped_in_memory(graph, realized);
  const auto with = with_copies_for_products(graph, given, results, realized, swapped);
  if (!with) return written(graph, given, results, std::move(realized), std::move(swapped));
  Realized again(with->graph, with->given, with->results);
  swapped = swapped_in_memory(with->graph, again);
  return written(with->graph, with->given, with->results, std::move(again), std::move(swapped));
}

}  // namespace ac_advisor::passes::compile
