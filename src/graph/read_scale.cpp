#include "read_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace ac_advisor::graph {
namespace {

using json::Node;

constexpr std::int64_t most_number = std::int64_t{1} << 59;

template <std::size_t n>
std::array<std::int64_t, n> numbers(const Node& node, std::int64_t low, std::int64_t most) {
  const std::vector<Node> list = node.list();
  if (list.size() != n) node.fail(fmt::format("must have {} numbers", n));
  std::array<std::int64_t, n> found{};
  for (std::size_t i = 0; i < n; ++i) found[i] = list[i].integer(low, most);
  return found;
}
template <std::size_t n>
std::vector<std::array<Index, n>> references(const Node& node) {
  std::vector<std::array<Index, n>> found;
  for (const Node& one : node.list()) {
    const auto wide = numbers<n>(one, 0, std::numeric_limits<Index>::max());
    std::transform(wide.begin(), wide.end(), found.emplace_back().begin(),
                   [](std::int64_t number) { return static_cast<Index>(number); });
  }
  return found;
}
std::vector<Size> sizes(const Node& node) {
  std::vector<Size> found;
  for (const Node& one : node.list()) {
    const auto [batch, seq] = numbers<2>(one, 0, most_number);
    found.push_back({batch, seq});
  }
  return found;
}

Form read_form(const Node& node) {
  node.allow_only({"terms", "points", "reduction", "over", "ceil", "floor"});
  Form form;
  if (int{node.has("terms")} + int{node.has("points")} + int{node.has("reduction")} != 1)
    node.fail("must have terms, points or a reduction");
  if (const auto reduction = node.find("reduction"))
    form.reduction = numbers<3>(*reduction, -most_number, most_number);
  if (const auto terms = node.find("terms"))
    for (const Node& term : terms->list()) {
      const auto [coefficient, b, s] = numbers<3>(term, -most_number, most_number);
      form.terms.push_back({coefficient, b, s});
    }
  if (const auto points = node.find("points"))
    for (const Node& point : points->list()) {
      const auto [b, s, value] = numbers<3>(point, -most_number, most_number);
      form.points.push_back({{b, s}, value});
    }
  for (const auto& [key, number] :
       {std::pair{"over", &form.over}, {"ceil", &form.ceil}, {"floor", &form.floor}})
    if (const auto given = node.find(key)) *number = given->integer(0, most_number);
  return form;
}

OpForms read_op_forms(const Node& node) {
  OpForms forms;
  if (const auto list = node.find("products")) forms.products = references<4>(*list);
  if (const auto list = node.find("flops")) forms.flops = references<2>(*list);
  if (const auto list = node.find("launches")) forms.launches = references<2>(*list);
  return forms;
}

Program read_program(const Node& node, const ReadOp& read_op) {
  node.allow_only({"sizes", "micro_batches"});
  Program program;
  program.sizes = sizes(node.at("sizes"));
  const std::vector<Node> micro_batches = node.at("micro_batches").list();
  if (micro_batches.size() != program.micro_batches.size())
    node.at("micro_batches").fail("must have two");
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    micro_batches[m].allow_only({"products", "flops", "launches", "runs"});
    program.micro_batches[m].forms = read_op_forms(micro_batches[m]);
    for (const Node& one : micro_batches[m].at("runs").list()) {
      one.allow_only({"at", "count", "ops"});
      constexpr std::int64_t most = std::numeric_limits<Index>::max();
      Run run{static_cast<Index>(one.at("at").integer(0, most)),
              static_cast<Index>(one.at("count").integer(0, most)),
              {}};
      for (const Node& op : one.at("ops").list()) run.ops.push_back(read_op(op));
      program.micro_batches[m].runs.push_back(std::move(run));
    }
  }
  return program;
}

}  // namespace

Scale read_scale(const Node& node, const ReadOp& read_op) {
  node.allow_only({"directions", "refused", "batch_from", "seq_step", "sizes", "held_out",
                   "storages", "tensors", "tokens", "forms", "micro_batches", "programs"});
  constexpr std::string_view names[] = {"batch", "seq"};
  Scale scale;
  for (const Node& one : node.at("directions").list()) {
    bool& direction = one.one_of(names) == 0 ? scale.batch : scale.seq;
    if (direction) one.fail("is there twice");
    direction = true;
  }
  const Node refused = node.at("refused");
  refused.allow_only({names[0], names[1]});
  if (const auto why = refused.find("batch")) scale.batch_refused = why->text();
  if (const auto why = refused.find("seq")) scale.seq_refused = why->text();
  scale.batch_from = node.at("batch_from").integer(0, most_number);
  scale.seq_step = node.at("seq_step").integer(0, most_number);
  scale.sizes = sizes(node.at("sizes"));
  scale.held_out = sizes(node.at("held_out"));
  scale.storages = references<2>(node.at("storages"));
  scale.tensors = references<3>(node.at("tensors"));
  scale.tokens =
      static_cast<Index>(node.at("tokens").integer(0, std::numeric_limits<Index>::max()));
  for (const Node& form : node.at("forms").list()) scale.forms.push_back(read_form(form));
  const std::vector<Node> micro_batches = node.at("micro_batches").list();
  if (micro_batches.size() != scale.micro_batches.size())
    node.at("micro_batches").fail("must have two");
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    micro_batches[m].allow_only({"products", "flops", "launches"});
    scale.micro_batches[m] = read_op_forms(micro_batches[m]);
  }
  for (const Node& program : node.at("programs").list())
    scale.programs.push_back(read_program(program, read_op));
  return scale;
}

}  // namespace ac_advisor::graph
