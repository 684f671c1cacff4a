#include "scan_scale.hpp"

#include <limits>

namespace ac_advisor::graph {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 59;  // of the digits that Text takes

class Scanner {
 public:
  Scanner(Text& text, OpScanner& ops) : t_(text), o_(ops) {}

  Scale read() {
    constexpr std::array<std::string_view, 12> keys{
        "directions", "refused", "batch_from", "seq_step", "sizes",         "held_out",
        "storages",   "tensors", "tokens",     "forms",    "micro_batches", "programs"};
    Scale scale;
    const auto read_key = [&](std::size_t key) {
      switch (key) {
        case 0:
          return list([&] { direction(scale); });
        case 1:
          return refused(scale);
        case 2:
          scale.batch_from = t_.integer(most);
          return;
        case 3:
          scale.seq_step = t_.integer(most);
          return;
        case 4:
          return list([&] { scale.sizes.push_back(size()); });
        case 5:
          return list([&] { scale.held_out.push_back(size()); });
        case 6:
          return list([&] { scale.storages.push_back(o_.numbers<2>()); });
        case 7:
          return list([&] { scale.tensors.push_back(o_.numbers<3>()); });
        case 8:
          scale.tokens = o_.index();
          return;
        case 9:
          return list([&] { scale.forms.push_back(form()); });
        case 10:
          return two(scale.micro_batches, [&](OpForms& micro) {
            object(form_keys, [&](std::size_t k) { op_forms(k, micro); });
          });
        default:
          return list([&] { scale.programs.push_back(program()); });
      }
    };
    require(object(keys, read_key) == (1U << keys.size()) - 1);
    return scale;
  }

 private:
  static constexpr std::array<std::string_view, 3> form_keys{"products", "flops", "launches"};

  template <typename Entry>
  void list(const Entry& entry) {
    scan_list(t_, entry);
  }
  template <std::size_t n, typename Value>
  std::uint32_t object(const std::array<std::string_view, n>& keys, const Value& value) {
    return scan_object(t_, keys, value);
  }
  template <typename Two, typename Entry>
  void two(Two& into, const Entry& entry) {
    std::size_t count = 0;
    list([&] {
      require(count < into.size());
      entry(into[count++]);
    });
    require(count == into.size());
  }

  void direction(Scale& scale) {
    constexpr std::array<std::string_view, 2> names{"batch", "seq"};
    bool& scales = o_.one_of(names) == 0 ? scale.batch : scale.seq;
    require(!scales);
    scales = true;
  }

  void refused(Scale& scale) {
    constexpr std::array<std::string_view, 2> names{"batch", "seq"};
    object(names, [&](std::size_t key) {
      (key == 0 ? scale.batch_refused : scale.seq_refused) = t_.string();
    });
  }

  std::array<std::int64_t, 3> three() {
    std::array<std::int64_t, 3> found{};
    two(found, [&](std::int64_t& number) { number = t_.signed_integer(most); });
    return found;
  }
  Size size() {
    std::array<std::int64_t, 2> found{};
    two(found, [&](std::int64_t& number) { number = t_.integer(most); });
    return {found[0], found[1]};
  }

  Form form() {
    constexpr std::array<std::string_view, 6> keys{"terms", "points", "reduction",
                                                   "over",  "ceil",   "floor"};
    constexpr std::uint32_t kinds = 7;  // the first three keys
    Form form;
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      if (key == 0)
        list([&] {
          const auto [coefficient, b, s] = three();
          form.terms.push_back({coefficient, b, s});
        });
      if (key == 1)
        list([&] {
          const auto [b, s, value] = three();
          form.points.push_back({{b, s}, value});
        });
      if (key == 2) form.reduction = three();
      if (key == 3) form.over = t_.integer(most);
      if (key == 4) form.ceil = t_.integer(most);
      if (key == 5) form.floor = t_.integer(most);
    });
    const std::uint32_t kind = there & kinds;
    require(kind == 1 || kind == 2 || kind == 4);
    return form;
  }

  void op_forms(std::size_t key, OpForms& forms) {
    if (key == 0) list([&] { forms.products.push_back(o_.numbers<4>()); });
    if (key == 1) list([&] { forms.flops.push_back(o_.numbers<2>()); });
    if (key == 2) list([&] { forms.launches.push_back(o_.numbers<2>()); });
  }

  Program program() {
    constexpr std::array<std::string_view, 2> keys{"sizes", "micro_batches"};
    Program program;
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      if (key == 0)
        list([&] { program.sizes.push_back(size()); });
      else
        two(program.micro_batches, [&](Program::MicroBatch& micro) { micro_batch(micro); });
    });
    require(there == 3U);
    return program;
  }

  void micro_batch(Program::MicroBatch& micro) {
    constexpr std::array<std::string_view, 4> keys{"products", "flops", "launches", "runs"};
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      if (key < 3) return op_forms(key, micro.forms);
      list([&] { micro.runs.push_back(run()); });
    });
    require(there >> 3U != 0);
  }

  Run run() {
    constexpr std::array<std::string_view, 3> keys{"at", "count", "ops"};
    Run run;
    const std::uint32_t there = object(keys, [&](std::size_t key) {
      if (key == 0) run.at = o_.index();
      if (key == 1) run.count = o_.index();
      if (key == 2) list([&] { run.ops.push_back(o_.op()); });
    });
    require(there == 7U);
    return run;
  }

  Text& t_;
  OpScanner& o_;
};

}  // namespace

Scale scan_scale(Text& text, OpScanner& ops) { return Scanner(text, ops).read(); }

}  // namespace ac_advisor::graph
