// docs/schema/graph-1.json, once more: the one file that has megabytes, read without a document of
// it. What is read here read_by_names takes, too, for the same graph (fuzz/graph_fuzz.cpp).
#include "scan_graph.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <unordered_map>

#include "lifetimes.hpp"

namespace ac_advisor::graph {
namespace {

/// Thrown and caught in this file alone.
struct Unusual {};

/// JSON as it comes. All that is taken is valid JSON; what is not taken may be.
class Text {
 public:
  explicit Text(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  /// The next character that is no white space is `c`: it is taken.
  bool next(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!next(c)) throw Unusual{};
  }
  void expect_end() {
    if (next('\0') || at_ != end_) throw Unusual{};
  }

  /// ASCII without escapes.
  std::string_view string() {
    expect('"');
    const char* const begin = at_;
    while (at_ != end_ && *at_ != '"') {
      if (*at_ < ' ' || *at_ > '~' || *at_ == '\\') throw Unusual{};
      ++at_;
    }
    if (at_ == end_) throw Unusual{};
    return {begin, static_cast<std::size_t>(at_++ - begin)};
  }

  /// Digits alone, of a number up to `most`.
  std::int64_t integer(std::int64_t most) {
    const char* const begin = skip_to_digit();
    std::int64_t value = 0;
    constexpr std::ptrdiff_t most_digits = 18;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
      if (at_ - begin == most_digits) throw Unusual{};
      value = 10 * value + (*at_++ - '0');
    }
    if (*begin == '0' && at_ - begin > 1) throw Unusual{};
    if (at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) throw Unusual{};
    if (value > most) throw Unusual{};
    return value;
  }

  double number(double most) {
    const char* const begin = skip_to_digit();
    std::array<char, 40> text{};
    std::size_t length = 0;
    for (; at_ != end_ && std::string_view("0123456789.eE+-").find(*at_) != std::string_view::npos;
         ++at_) {
      if (length + 1 == text.size()) throw Unusual{};
      text[length++] = *at_;
    }
    const auto digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
    if (*begin == '0' && digit(1)) throw Unusual{};
    const auto* const point = std::find(text.begin(), text.end(), '.');
    if (point != text.end() && !digit(static_cast<std::size_t>(point - text.begin()) + 1))
      throw Unusual{};
    // Not from_chars, which libc++ 14 (the page's) lacks for double.
    char* after = nullptr;
    const double value = std::strtod(text.data(), &after);
    if (after != text.data() + length || !(value <= most)) throw Unusual{};
    return value;
  }

  bool truth() {
    skip_space();
    for (const auto& [word, value] : {std::pair{std::string_view("true"), true}, {"false", false}})
      if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    throw Unusual{};
  }

 private:
  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  const char* skip_to_digit() {
    skip_space();
    if (at_ == end_ || *at_ < '0' || *at_ > '9') throw Unusual{};
    return at_;
  }

  const char* at_;
  const char* end_;
};

class Scanner {
 public:
  Scanner(std::string_view text, Graph& graph) : t_(text), g_(graph) {}

  void read() {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    constexpr std::array<std::string_view, 14> keys{
        "schema",   "name",    "made_by",    "batch",   "seq",    "modules", "blocks",
        "storages", "tensors", "parameters", "buffers", "inputs", "others",  "micro_batches"};
    const auto read_key = [&](std::size_t key) {
      switch (key) {
        case 0:
          if (t_.string() != schema) throw Unusual{};
          return;
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
          return indices(g_.blocks);
        case 7:
          return list([&] { g_.storages.push_back(t_.integer(most_bytes)); });
        case 8:
          return list([&] { tensor(); });
        case 9:
          return list([&] { parameter(); });
        case 10:
          return indices(g_.buffers);
        case 11:
          return indices(g_.inputs);
        case 12:
          return indices(g_.others);
        default:
          return micro_batches();
      }
    };
    if (object(keys, read_key) != (1U << keys.size()) - 1) throw Unusual{};
    t_.expect_end();
    check();
  }

 private:
  template <typename Entry>
  void list(const Entry& entry) {
    t_.expect('[');
    if (t_.next(']')) return;
    do entry();
    while (t_.next(','));
    t_.expect(']');
  }

  /// Of the keys, each at most once; a bit for each that is there.
  template <std::size_t n, typename Value>
  std::uint32_t object(const std::array<std::string_view, n>& keys, const Value& value) {
    static_assert(n < 32);
    std::uint32_t there = 0;
    std::ptrdiff_t after = 0;  // the one before: they mostly come in the order of `keys`
    t_.expect('{');
    if (t_.next('}')) return there;
    do {
      const std::string_view key = t_.string();
      auto place = std::find(keys.begin() + after, keys.end(), key);
      if (place == keys.end()) place = std::find(keys.begin(), keys.end(), key);
      const auto found = static_cast<std::size_t>(place - keys.begin());
      if (found == n || (there >> found & 1U) != 0) throw Unusual{};
      there |= 1U << found;
      after = static_cast<std::ptrdiff_t>(found) + 1;
      t_.expect(':');
      value(found);
    } while (t_.next(','));
    t_.expect('}');
    return there;
  }

  static void require(bool holds) {
    if (!holds) throw Unusual{};
  }

  Index index() { return static_cast<Index>(t_.integer(std::numeric_limits<Index>::max())); }
  void indices(Indices& into) {
    list([&] { into.push_back(index()); });
  }
  template <typename Names>
  std::size_t one_of(const Names& names) {
    const std::string_view word = t_.string();
    const auto found = std::find(std::begin(names), std::end(names), word);
    require(found != std::end(names));
    return static_cast<std::size_t>(found - std::begin(names));
  }

  void made_by() {
    constexpr std::array<std::string_view, 3> keys{"torch", "gpu", "model"};
    const std::uint32_t there = object(keys, [&](std::size_t) { t_.string(); });
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
      if (key == 0) tensor.storage = index();
      if (key == 1) tensor.dtype = static_cast<DType>(one_of(dtype_names));
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
      if (key == 1) p.tensor = index();
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
      if (key == 0) list([&] { op(micro); });
      if (key == 1) indices(micro.outputs);
      if (key == 2) micro.loss = index();
      if (key == 3) list([&] { gradient(micro); });
    });
    require(there == 15U);
  }

  std::array<std::int64_t, 3> three() {
    std::array<std::int64_t, 3> numbers{};
    std::size_t count = 0;
    list([&] {
      require(count < numbers.size());
      numbers[count++] = t_.integer(std::numeric_limits<Index>::max());
    });
    require(count == numbers.size());
    return numbers;
  }

  void gradient(MicroBatch& micro) {
    const auto [parameter, storage, whole] = three();
    micro.gradients.push_back(
        {static_cast<Index>(parameter), static_cast<Index>(storage), static_cast<Index>(whole)});
  }

  void op(MicroBatch& micro) {
    constexpr std::array<std::string_view, 12> keys{"op",      "phase", "module", "in",
                                                    "out",     "frees", "drops",  "launches",
                                                    "product", "flops", "node",   "forward"};
    Op op;
    const auto read_key = [&](std::size_t key) {
      switch (key) {
        case 0:
          op.name = name_of(t_.string());
          return;
        case 1:
          op.phase = static_cast<Phase>(one_of(phase_names));
          return;
        case 2:
          op.module = index();
          return;
        case 3:
          return indices(op.in);
        case 4:
          return indices(op.out);
        case 5:
          return indices(op.frees);
        case 6:
          return indices(op.drops);
        case 7:
          op.launches = t_.integer(most_launches);
          return;
        case 8: {
          const auto [rows, columns, inner] = three();
          op.product = Product{rows, columns, inner};
          return;
        }
        case 9: {
          constexpr double most_flops = 1e30;
          op.flops = t_.number(most_flops);
          return;
        }
        case 10:
          op.node = index();
          return;
        default:
          op.forward = index();
      }
    };
    require((object(keys, read_key) & 3U) == 3U);
    micro.ops.push_back(std::move(op));
  }

  Index name_of(std::string_view name) {
    const auto [at, added] = names_.try_emplace(name, static_cast<Index>(g_.op_names.size()));
    if (added) g_.op_names.emplace_back(name);
    return at->second;
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
  std::unordered_map<std::string_view, Index> names_;
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
