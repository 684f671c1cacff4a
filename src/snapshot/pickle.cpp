// The stack machine that a pickle is a program of (CPython's Lib/pickletools.py has the opcodes).
#include "pickle.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::snapshot {

using Kind = Value::Kind;

std::uint32_t PickleStore::intern(std::string_view text) {
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<std::uint32_t>(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(texts_.back(), id);
  return id;
}

std::span<const Value> PickleStore::elements(Value v) const {
  if (v.kind() != Kind::list && v.kind() != Kind::tuple && v.kind() != Kind::dict) return {};
  const Container& c = containers_[v.index()];
  return c.kind != 0 ? std::span<const Value>() : std::span(pool_).subspan(c.offset, c.count);
}

PickleStore::Shape PickleStore::shape(Value v) const {
  if (v.kind() != Kind::list && v.kind() != Kind::dict) return {};
  const Container& c = containers_[v.index()];
  return {c.kind, c.kind == 0 ? 0 : static_cast<std::uint32_t>(c.offset)};
}

void PickleStore::set_shape(Value v, Shape shape) {
  Container& c = containers_[v.index()];
  if (c.kind == 0 && c.capacity > 0 && c.offset + c.capacity == pool_.size())
    pool_.resize(c.offset);  // the usual case: what was read last is shaped first
  c = {shape.index, 0, 0, shape.kind};
}

Value PickleStore::integer_value(std::int64_t value) {
  constexpr std::int64_t most = std::int64_t{1} << 58;
  if (value > -most && value < most) return {Kind::integer, value};
  wide_.push_back(value);
  return {Kind::wide, static_cast<std::int64_t>(wide_.size() - 1)};
}

Value PickleStore::container(Kind kind) {
  containers_.emplace_back();
  return {kind, static_cast<std::int64_t>(containers_.size() - 1)};
}

void PickleStore::append(Value to, std::span<const Value> items) {
  Container& c = containers_[to.index()];
  const std::size_t needed = c.count + items.size();
  if (needed > c.capacity) {
    if (c.capacity == 0 || c.offset + c.capacity != pool_.size()) {  // move it to the end
      const std::size_t from = c.offset;
      c.offset = pool_.size();
      pool_.resize(pool_.size() + c.count);
      std::copy_n(pool_.begin() + static_cast<std::ptrdiff_t>(from), c.count,
                  pool_.begin() + static_cast<std::ptrdiff_t>(c.offset));
      // Room to grow, for a list that moved once is likely to move again.
      c.capacity = static_cast<std::uint32_t>(c.count == 0 ? needed : 2 * needed);
    } else {
      c.capacity = static_cast<std::uint32_t>(needed);
    }
    pool_.resize(c.offset + c.capacity);
  }
  std::copy(items.begin(), items.end(),
            pool_.begin() + static_cast<std::ptrdiff_t>(c.offset + c.count));
  c.count = static_cast<std::uint32_t>(needed);
}

class PickleReader {
 public:
  PickleReader(ByteReader& source, PickleStore& store, const Shaper& shaper)
      : in_(source), store_(store), shaper_(shaper) {}

  Value read() {
    for (;;) {
      const std::uint8_t op = in_.byte();
      if (op == '.') return pop();
      step(op);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(in_.origin() + ": byte " + std::to_string(in_.position()) + ": " + what);
  }
  [[noreturn]] void refuse(const std::string& name) const {
    fail("refers to " + name +
         ", which a memory snapshot does not; nothing of it was run. A snapshot is what "
         "torch.cuda.memory._dump_snapshot writes");
  }

  void push(Value v) { stack_.push_back(v); }
  Value pop() {
    const Value v = top();
    stack_.pop_back();
    return v;
  }
  [[nodiscard]] Value top() const {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("a value is missing");
    return stack_.back();
  }
  /// What was pushed since the last mark; drop_marked takes it away.
  [[nodiscard]] std::span<const Value> marked() const {
    if (marks_.empty()) fail("a mark is missing");
    return std::span(stack_).subspan(marks_.back());
  }
  void drop_marked() {
    stack_.resize(marks_.back());
    marks_.pop_back();
  }

  void put(std::uint64_t index) {
    // Every entry takes bytes of the file, so a larger number is not a pickle's.
    if (index > in_.position() + 1024) fail("memo " + std::to_string(index) + " is out of range");
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = top();
  }
  void get(std::uint64_t index) {
    if (index >= memo_.size()) fail("memo " + std::to_string(index) + " was never set");
    push(memo_[index]);
  }

  void integer(std::int64_t value) { push(store_.integer_value(value)); }
  void real(double value) {
    store_.reals_.push_back(value);
    push({Kind::real, static_cast<std::int64_t>(store_.reals_.size() - 1)});
  }
  void text(std::string_view value) { push({Kind::string, store_.intern(value)}); }

  /// Two's complement; what does not fit 64 bits is the nearest that does.
  void long_integer(std::size_t size) {
    const std::string_view bytes = in_.bytes(size);
    const bool negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    bool fits = true;
    for (std::size_t i = 0; i < size; ++i) {
      const auto byte = static_cast<std::uint8_t>(bytes[i]);
      if (i < 8)
        value = (value & ~(std::uint64_t{255} << (8 * i))) | std::uint64_t{byte} << (8 * i);
      else
        fits = fits && byte == (negative ? 0xff : 0);
    }
    if (fits && size > 8) fits = (static_cast<std::int64_t>(value) < 0) == negative;
    if (!fits)
      value = static_cast<std::uint64_t>(negative ? std::numeric_limits<std::int64_t>::min()
                                                  : std::numeric_limits<std::int64_t>::max());
    integer(static_cast<std::int64_t>(value));
  }

  template <typename Number>
  [[nodiscard]] Number parsed(std::string_view digits) const {
    Number value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::invalid_argument || end != digits.data() + digits.size())
      fail("\"" + std::string(digits.substr(0, 40)) + "\" is not a number");
    return value;
  }

  /// Quoted as Python quotes; names and paths have no escapes that matter here.
  void quoted(std::string_view line) {
    if (line.size() < 2 || line.front() != line.back()) fail("a string has no quotes");
    text(line.substr(1, line.size() - 2));
  }

  void fill_list(Value list, std::span<const Value> items) {
    if (list.kind() != Kind::list) fail("items for what is not a list");
    if (store_.shape(list).kind != 0) fail("items for a list that was complete");
    for (const Value item : items)  // a dict that came item by item is complete here
      if (item.kind() == Kind::dict && store_.shape(item).kind == 0)
        shaper_(store_, item, store_.elements(item));
    store_.append(list, items);
  }
  void fill_dict(Value dict, std::span<const Value> pairs, bool whole) {
    if (dict.kind() != Kind::dict || pairs.size() % 2 != 0) fail("pairs for what is not a dict");
    if (store_.shape(dict).kind != 0) fail("pairs for a dict that was complete");
    if (whole && store_.elements(dict).empty()) shaper_(store_, dict, pairs);
    if (store_.shape(dict).kind == 0) store_.append(dict, pairs);
  }
  void tuple(std::size_t size) {
    if (stack_.size() < size + (marks_.empty() ? 0 : marks_.back())) fail("a value is missing");
    const Value made = store_.container(Kind::tuple);
    store_.append(made, std::span(stack_).last(size));
    stack_.resize(stack_.size() - size);
    push(made);
  }

  void step(std::uint8_t op);
  void appends() {
    const std::span<const Value> items = marked();
    const std::size_t at = marks_.back();
    if (at == 0) fail("items for no list");
    fill_list(stack_[at - 1], items);
    drop_marked();
  }
  void set_items() {
    const std::span<const Value> pairs = marked();
    const std::size_t at = marks_.back();
    if (at == 0) fail("pairs for no dict");
    fill_dict(stack_[at - 1], pairs, true);
    drop_marked();
  }

  ByteReader& in_;
  PickleStore& store_;
  const Shaper& shaper_;
  std::vector<Value> stack_, memo_;
  std::vector<std::size_t> marks_;
};

namespace {

/// Opcodes that make objects, which no snapshot needs, and names for the error.
struct Refused {
  std::uint8_t op;
  const char* name;
};
constexpr Refused refused[] = {
    {'R', "a call (REDUCE)"},
    {'b', "an object's state (BUILD)"},
    {'o', "an object (OBJ)"},
    {0x81, "an object (NEWOBJ)"},
    {0x92, "an object (NEWOBJ_EX)"},
    {'P', "a persistent id (PERSID)"},
    {'Q', "a persistent id (BINPERSID)"},
    {0x82, "an extension (EXT1)"},
    {0x83, "an extension (EXT2)"},
    {0x84, "an extension (EXT4)"},
    {0x8f, "a set (EMPTY_SET)"},
    {0x90, "a set (ADDITEMS)"},
    {0x91, "a set (FROZENSET)"},
    {0x97, "a buffer outside of the file (NEXT_BUFFER)"},
    {0x98, "a buffer outside of the file (READONLY_BUFFER)"},
};

}  // namespace

void PickleReader::step(std::uint8_t op) {
  switch (op) {
    // Of these, nearly all of a snapshot is made.
    case 'h':
      return get(in_.byte());
    case 'j':
      return get(in_.unsigned_integer(4));
    case 'q':
      return put(in_.byte());
    case 'r':
      return put(in_.unsigned_integer(4));
    case 0x94:
      memo_.push_back(top());
      return;
    case 'K':
      return integer(in_.byte());
    case 'M':
      return integer(static_cast<std::int64_t>(in_.unsigned_integer(2)));
    case 'J':
      return integer(static_cast<std::int32_t>(in_.unsigned_integer(4)));
    case 0x8a:
      return long_integer(in_.byte());
    case '(':
      return marks_.push_back(stack_.size());
    case '}':
      return push(store_.container(Kind::dict));
    case ']':
      return push(store_.container(Kind::list));
    case 'u':
      return set_items();
    case 'e':
      return appends();
    case 's': {
      const Value value = pop(), key = pop();
      const Value pair[2] = {key, value};
      return fill_dict(top(), pair, false);
    }
    case 'a': {
      const Value item = pop();
      return fill_list(top(), {&item, 1});
    }
    case 'N':
      return push({});
    case 0x88:
      return push({Kind::boolean, 1});
    case 0x89:
      return push({Kind::boolean, 0});
    case 0x8c:
      return text(in_.bytes(in_.byte()));
    case 'X':
      return text(in_.bytes(in_.unsigned_integer(4)));
    case 0x8d:
      return text(in_.bytes(in_.unsigned_integer(8)));
    case 'G': {
      const std::string_view b = in_.bytes(8);
      std::uint64_t bits = 0;
      for (const char c : b) bits = bits << 8 | static_cast<std::uint8_t>(c);
      return real(std::bit_cast<double>(bits));
    }
    case ')':
      return tuple(0);
    case 0x85:
      return tuple(1);
    case 0x86:
      return tuple(2);
    case 0x87:
      return tuple(3);
    case 't': {
      const std::size_t size = marked().size();
      const Value made = store_.container(Kind::tuple);
      store_.append(made, std::span<const Value>(stack_).last(size));
      drop_marked();
      return push(made);
    }
    // Framing, and the rarer or older forms of the same.
    case 0x80:
      if (const int protocol = in_.byte(); protocol > 5)
        fail("protocol " + std::to_string(protocol) + " of pickle; 0 to 5 are known");
      return;
    case 0x95:
      return static_cast<void>(in_.unsigned_integer(8));
    case '0':
      return static_cast<void>(pop());
    case '1':
      static_cast<void>(marked());
      return drop_marked();
    case '2':
      return push(top());
    case 0x8b:
      return long_integer(in_.unsigned_integer(4));
    case 'I': {
      const std::string_view digits = in_.line();
      if (digits == "00" || digits == "01") return push({Kind::boolean, digits == "01" ? 1 : 0});
      return integer(parsed<std::int64_t>(digits));
    }
    case 'L': {
      std::string_view digits = in_.line();
      if (digits.ends_with('L')) digits.remove_suffix(1);
      return integer(parsed<std::int64_t>(digits));
    }
    case 'F':
      return real(parsed<double>(in_.line()));
    case 'S':
      return quoted(in_.line());
    case 'V':
      return text(in_.line());
    case 'U':
    case 'C':
      return text(in_.bytes(in_.byte()));
    case 'T':
    case 'B':
      return text(in_.bytes(in_.unsigned_integer(4)));
    case 0x8e:
    case 0x96:
      return text(in_.bytes(in_.unsigned_integer(8)));
    case 'g':
      return get(static_cast<std::uint64_t>(parsed<std::uint32_t>(in_.line())));
    case 'p':
      return put(static_cast<std::uint64_t>(parsed<std::uint32_t>(in_.line())));
    case 'l':
    case 'd': {
      const std::vector<Value> items(marked().begin(), marked().end());
      drop_marked();
      push(store_.container(op == 'l' ? Kind::list : Kind::dict));
      return op == 'l' ? fill_list(top(), items) : fill_dict(top(), items, !items.empty());
    }
    case 'c':
    case 'i': {
      const std::string module(in_.line());
      refuse(module + "." + std::string(in_.line()));
    }
    case 0x93: {
      const Value name = pop(), module = pop();
      const auto word = [&](Value v) {
        return v.kind() == Kind::string ? std::string(store_.text(v.index())) : std::string("?");
      };
      refuse(word(module) + "." + word(name));
    }
    default:
      for (const Refused& r : refused)
        if (r.op == op) refuse(r.name);
      fail("opcode " + std::to_string(op) + " is none of pickle's");
  }
}

Value read_pickle(ByteReader& source, PickleStore& store, const Shaper& shaper) {
  return PickleReader(source, store, shaper).read();
}

}  // namespace ac_advisor::snapshot
