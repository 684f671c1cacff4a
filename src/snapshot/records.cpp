// Keys and values as torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot) and
// torch/csrc/cuda/memory_snapshot.cpp write them, v2.0 to v2.11.
#include "records.hpp"

#include <algorithm>
#include <array>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::snapshot {
namespace {

using Kind = Value::Kind;

// Interned first, in this order: a key's id is its place here.
enum Key : std::uint32_t {
  empty,
  action,
  addr,
  size,
  stream,
  time_us,
  frames_key,
  user_metadata,
  compile_context,
  category,
  device_free,
  filename,
  name,
  line,
  address,
  requested_size,
  state,
  history_key,
  total_size,
  segment_type,
  segment_pool_id,
  is_expandable,
  blocks_key,
  device,
  stage,
  real_size,
  key_count
};
constexpr std::array<std::string_view, key_count> keys{"",
                                                       "action",
                                                       "addr",
                                                       "size",
                                                       "stream",
                                                       "time_us",
                                                       "frames",
                                                       "user_metadata",
                                                       "compile_context",
                                                       "category",
                                                       "device_free",
                                                       "filename",
                                                       "name",
                                                       "line",
                                                       "address",
                                                       "requested_size",
                                                       "state",
                                                       "history",
                                                       "total_size",
                                                       "segment_type",
                                                       "segment_pool_id",
                                                       "is_expandable",
                                                       "blocks",
                                                       "device",
                                                       "stage",
                                                       "real_size"};

constexpr std::pair<std::string_view, Action> actions[] = {
    {"alloc", Action::alloc},
    {"free_requested", Action::free_requested},
    {"free_completed", Action::free_completed},
    {"segment_alloc", Action::segment_alloc},
    {"segment_free", Action::segment_free},
    {"segment_map", Action::segment_map},
    {"segment_unmap", Action::segment_unmap},
    {"snapshot", Action::snapshot},
    {"oom", Action::oom},
};

Action action_of(std::string_view word) {
  for (const auto& [text, value] : actions)
    if (text == word) return value;
  return Action::other;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15U + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdU;
}

/// Calls use(key, value) for every key that is text.
template <typename Use>
void each(std::span<const Value> pairs, const Use& use) {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    if (pairs[i].kind() == Kind::string)
      use(static_cast<std::uint32_t>(pairs[i].index()), pairs[i + 1]);
}

/// Beyond these no sum of a few of them leaves 64 bits.
constexpr std::int64_t most_number = std::int64_t{1} << 60, most_size = std::int64_t{1} << 44;

std::int64_t whole(const PickleStore& store, Value v) {
  return store.is_integer(v) ? std::clamp(store.integer(v), -most_number, most_number) : 0;
}

TextId text_of(Value v) { return v.kind() == Kind::string ? static_cast<TextId>(v.index()) : 0; }

/// What a dict is, by the key that no other has.
Records::Kind kind_of(std::span<const Value> pairs) {
  bool has[key_count] = {};
  each(pairs, [&](std::uint32_t key, Value) {
    if (key < key_count) has[key] = true;
  });
  if (has[action]) return Records::event;
  if (has[blocks_key]) return Records::segment;
  if (has[filename] && has[line]) return Records::frame;
  if (has[state] && has[size]) return Records::block;
  if (has[real_size]) return Records::history;
  if (has[stage] && has[time_us]) return Records::annotation;
  return Records::none;
}

}  // namespace

Records::Records(PickleStore& store, std::string origin) : stacks(1), origin_(std::move(origin)) {
  for (const std::string_view key : keys) static_cast<void>(store.intern(key));
}

void Records::shape(PickleStore& store, Value dict, std::span<const Value> pairs) {
  const auto made = [&](Kind kind, std::size_t count) {
    store.set_shape(dict, {kind, static_cast<std::uint32_t>(count - 1)});
  };
  switch (kind_of(pairs)) {
    case frame: {
      const std::uint32_t id = frame_of(store, pairs);
      return store.set_shape(dict, {frame, id});
    }
    case event:
      read_event(store, pairs);
      return made(event, events.size());
    case block:
      read_block(store, pairs);
      return made(block, blocks.size());
    case segment:
      read_segment(store, pairs);
      return made(segment, segments.size());
    case annotation:
      read_annotation(store, pairs);
      return made(annotation, annotations.size());
    case history:
      read_history(store, pairs);
      return made(history, histories_.size());
    default:
      return;
  }
}

std::int64_t Records::size_of(const PickleStore& store, Value v) const {
  const std::int64_t size = whole(store, v);
  if (size < 0 || size > most_size)
    throw UserError(origin_ + ": a size of " + std::to_string(size) +
                    " bytes, which no device has; expected 0 to 2^44");
  return size;
}

/// `dryrun` puts functions of its own around PyTorch's ops: a program on a GPU has no such frames,
/// and autograd's threads have none at all.
constexpr std::string_view emulated_ops = "/ac_advisor_values/";

std::uint32_t Records::frame_of(PickleStore& store, std::span<const Value> pairs) {
  Frame f;
  each(pairs, [&](std::uint32_t key, Value v) {
    if (key == filename) f.file = text_of(v);
    if (key == name) f.name = text_of(v);
    if (key == line) f.line = static_cast<std::int32_t>(whole(store, v));
  });
  const std::uint64_t hash = mixed(mixed(f.file, f.name), static_cast<std::uint64_t>(f.line));
  std::vector<std::uint32_t>& same = frame_ids_[hash];
  for (const std::uint32_t id : same)
    if (frames[id] == f) return id;
  frames.push_back(f);
  ours_.push_back(store.text(f.file).find(emulated_ops) != std::string_view::npos);
  same.push_back(static_cast<std::uint32_t>(frames.size() - 1));
  return same.back();
}

/// A list of frames becomes a number, once; the same list may be of many events.
StackId Records::stack_of(PickleStore& store, Value list) {
  if (list.kind() != Value::Kind::list) return 0;
  if (const auto shape = store.shape(list); shape.kind != none)
    return shape.kind == stack ? shape.index : 0;
  std::vector<std::uint32_t> ids;
  std::uint64_t hash = 0;
  for (const Value item : store.elements(list)) {
    if (const auto shape = store.shape(item); shape.kind == frame && !ours_[shape.index]) {
      ids.push_back(shape.index);
      hash = mixed(hash, shape.index);
    }
  }
  StackId id = 0;
  if (!ids.empty()) {
    std::vector<std::uint32_t>& same = stack_ids_[hash];
    for (const std::uint32_t known : same)
      if (stacks[known] == ids) id = known;
    if (id == 0) {
      id = static_cast<StackId>(stacks.size());
      same.push_back(id);
      stacks.push_back(std::move(ids));
    }
  }
  store.set_shape(list, {stack, id});
  return id;
}

void Records::read_event(PickleStore& store, std::span<const Value> pairs) {
  Event e;
  each(pairs, [&](std::uint32_t key, Value v) {
    switch (key) {
      case action:
        e.action = action_of(store.text(text_of(v)));
        return;
      case addr:
      case device_free:
        e.address = whole(store, v);
        return;
      case size:
        e.size = std::max<std::int64_t>(0, whole(store, v));  // checked below: an oom's may be any
        return;
      case stream:
        e.stream = whole(store, v);
        return;
      case time_us:
        e.time_us = whole(store, v);
        return;
      case frames_key:
        e.stack = stack_of(store, v);
        return;
      case user_metadata:
        e.metadata = text_of(v);
        return;
      case compile_context:
        e.compile_context = text_of(v);
        return;
      case category:
        e.category = text_of(v);
        return;
      default:
        return;
    }
  });
  if (e.action != Action::oom && e.size > most_size)
    throw UserError(origin_ + ": an event of " + std::to_string(e.size) +
                    " bytes, which no device has; expected 0 to 2^44");
  events.push_back(e);
}

void Records::read_history(PickleStore& store, std::span<const Value> pairs) {
  History h;
  each(pairs, [&](std::uint32_t key, Value v) {
    if (key == addr) h.address = whole(store, v);
    if (key == real_size) h.size = size_of(store, v);
    if (key == frames_key) h.stack = stack_of(store, v);
  });
  histories_.push_back(h);
}

void Records::read_block(PickleStore& store, std::span<const Value> pairs) {
  Block b;
  b.requested = -1;
  each(pairs, [&](std::uint32_t key, Value v) {
    switch (key) {
      case address:
        b.address = whole(store, v);
        return;
      case size:
        b.size = size_of(store, v);
        return;
      case requested_size:
        b.requested = size_of(store, v);
        return;
      case frames_key:
        b.stack = stack_of(store, v);
        return;
      case state: {
        const std::string_view word = store.text(text_of(v));
        b.state = word == "active_allocated" ? BlockState::allocated
                  : word == "inactive"       ? BlockState::inactive
                                             : BlockState::pending_free;
        return;
      }
      case history_key:  // torch 2.0: the newest is first
        for (const Value item : store.elements(v))
          if (const auto shape = store.shape(item); shape.kind == history) {
            const History& h = histories_[shape.index];
            b.stack = h.stack;
            b.requested = h.size;
            break;
          }
        return;
      default:
        return;
    }
  });
  if (b.requested < 0) b.requested = b.size;
  blocks.push_back(b);
}

void Records::read_segment(PickleStore& store, std::span<const Value> pairs) {
  Segment s;
  each(pairs, [&](std::uint32_t key, Value v) {
    switch (key) {
      case address:
        s.address = whole(store, v);
        return;
      case total_size:
        s.size = size_of(store, v);
        return;
      case stream:
        s.stream = whole(store, v);
        return;
      case device:
        s.device = static_cast<std::int32_t>(whole(store, v));
        return;
      case segment_type:
        s.large = store.text(text_of(v)) != "small";
        return;
      case is_expandable:
        s.expandable = v == Value(Value::Kind::boolean, 1);
        return;
      case segment_pool_id: {
        const std::span<const Value> parts = store.elements(v);
        for (std::size_t i = 0; i < 2 && i < parts.size(); ++i) s.pool[i] = whole(store, parts[i]);
        return;
      }
      case blocks_key:
        for (const Value item : store.elements(v))
          if (const auto shape = store.shape(item); shape.kind == block)
            s.blocks.push_back(blocks[shape.index]);
        return;
      default:
        return;
    }
  });
  std::int64_t at = s.address;  // torch 2.0 has no addresses of blocks: they fill their segment
  for (Block& b : s.blocks) {
    b.address = at;
    at += b.size;
  }
  segments.push_back(std::move(s));
}

void Records::read_annotation(PickleStore& store, std::span<const Value> pairs) {
  Annotation a;
  each(pairs, [&](std::uint32_t key, Value v) {
    if (key == name) a.name = std::string(store.text(text_of(v)));
    if (key == device) a.device = static_cast<std::int32_t>(whole(store, v));
    if (key == time_us) a.time_us = whole(store, v);
    if (key == stage) a.start = store.text(text_of(v)) == "START";
  });
  annotations.push_back(std::move(a));
}

}  // namespace ac_advisor::snapshot
