#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/snapshot/snapshot.hpp"
#include "records.hpp"

namespace ac_advisor::snapshot {
namespace {

/// What people hand over instead, told by its first bytes.
struct Mistaken {
  std::string_view head, what;
};
constexpr Mistaken mistaken[] = {
    {"PK\x03\x04",
     "a zip file, as torch.save writes; write it with "
     "torch.cuda.memory._dump_snapshot, or unpack it"},
    {"{", "JSON; a trace is read by `diagnose`, a saved result by `report`"},
    {"<", "a web page; give the .pickle that it was made of"},
    {"SQLite", "an SQLite file; a trace of Nsight Systems is read by `diagnose`"},
};

void check_head(ByteReader& source) {
  const std::string_view head = source.head();
  if (head.empty()) throw UserError(source.origin() + ": is empty");
  for (const Mistaken& m : mistaken)
    if (head.starts_with(m.head)) throw UserError(source.origin() + ": is " + std::string(m.what));
  // Protocol 2 and later say so; older ones begin with a dict or a list.
  if (head[0] != '\x80' && head[0] != '(' && head[0] != '}' && head[0] != ']')
    throw UserError(source.origin() +
                    ": is not a pickle; give what torch.cuda.memory._dump_snapshot wrote");
}

class Assembly {
 public:
  Assembly(const PickleStore& store, Records& records, Snapshot& to)
      : store_(store), records_(records), to_(to) {}

  void run(Value root) {
    if (root.kind() == Value::Kind::list) {  // segments alone, as old scripts wrote
      segments(root);
      to_.notes.emplace_back("the file has segments only: no history of allocations");
      return;
    }
    if (root.kind() != Value::Kind::dict || store_.shape(root).kind != 0) refuse();
    bool found = false;
    const std::span<const Value> pairs = store_.elements(root);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view key = text(pairs[i]);
      const Value value = pairs[i + 1];
      if (key == "segments") {
        segments(value);
        found = true;
      } else if (key == "device_traces") {
        traces(value);
        found = true;
      } else if (key == "external_annotations") {
        annotations(value);
      } else if (key == "allocator_settings") {
        settings(value);
      }
    }
    if (!found) refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw UserError(to_.origin +
                    ": is a pickle without \"segments\" and \"device_traces\"; give what "
                    "torch.cuda.memory._dump_snapshot wrote");
  }
  [[nodiscard]] std::string_view text(Value v) const {
    return v.kind() == Value::Kind::string ? store_.text(v.index()) : std::string_view();
  }

  void segments(Value list) {
    for (const Value item : store_.elements(list))
      if (const auto shape = store_.shape(item); shape.kind == Records::segment)
        to_.segments.push_back(std::move(records_.segments[shape.index]));
    std::sort(to_.segments.begin(), to_.segments.end(), [](const Segment& a, const Segment& b) {
      return a.device != b.device ? a.device < b.device : a.address < b.address;
    });
  }

  void traces(Value list) {
    std::size_t unknown = 0;
    const std::span<const Value> devices = store_.elements(list);
    // Of one device, and in order: the usual case keeps the events where they are.
    std::size_t total = 0, used = 0;
    for (const Value device : devices) total += store_.elements(device).size();
    for (const Value device : devices) {
      std::deque<Event>& trace = to_.traces.emplace_back();
      const std::span<const Value> events = store_.elements(device);
      bool in_place = events.size() == total && total == records_.events.size() && used == 0;
      for (std::size_t i = 0; in_place && i < events.size(); ++i)
        in_place =
            store_.shape(events[i]).kind == Records::event && store_.shape(events[i]).index == i;
      used += events.size();
      if (in_place && total > 0) {
        trace = std::move(records_.events);
        records_.events.clear();
      } else {
        for (const Value item : events)
          if (const auto shape = store_.shape(item);
              shape.kind == Records::event && shape.index < records_.events.size())
            trace.push_back(records_.events[shape.index]);
      }
      for (const Event& e : trace) unknown += e.action == Action::other ? 1 : 0;
    }
    if (unknown > 0)
      to_.notes.push_back(std::to_string(unknown) +
                          " events of kinds that this version does not know were left out");
  }

  void annotations(Value list) {
    for (const Value item : store_.elements(list))
      if (const auto shape = store_.shape(item); shape.kind == Records::annotation)
        to_.annotations.push_back(std::move(records_.annotations[shape.index]));
  }

  void settings(Value dict) {
    AllocatorSettings& s = to_.settings;
    s.known = true;
    const std::span<const Value> pairs = store_.elements(dict);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view key = text(pairs[i]);
      const Value value = pairs[i + 1];
      if (key == "PYTORCH_CUDA_ALLOC_CONF" || key == "PYTORCH_ALLOC_CONF")
        s.text = std::string(text(value));
      else if (key == "expandable_segments")
        s.expandable_segments = value.kind() == Value::Kind::boolean && value.payload() == 1;
      else if (key == "max_split_size" && store_.is_integer(value))
        s.max_split_size = store_.integer(value);
      else if (key == "roundup_power2_divisions")
        divisions(value);
    }
  }

  void divisions(Value dict) {
    const std::span<const Value> pairs = store_.elements(dict);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string mib(text(pairs[i]));
      if (mib.empty() || mib.size() > 9 || !store_.is_integer(pairs[i + 1])) continue;
      if (mib.find_first_not_of("0123456789") != std::string::npos) continue;
      to_.settings.roundup_power2_divisions[std::stoll(mib)] = store_.integer(pairs[i + 1]);
    }
  }

  const PickleStore& store_;
  Records& records_;
  Snapshot& to_;
};

Snapshot read_source(ByteReader& source) {
  check_head(source);
  Snapshot snapshot;
  snapshot.origin = source.origin();
  PickleStore store;
  Records records(store, source.origin());
  const Value root = read_pickle(
      source, store,
      [&](PickleStore& s, Value d, std::span<const Value> pairs) { records.shape(s, d, pairs); });
  Assembly(store, records, snapshot).run(root);
  snapshot.frames = std::move(records.frames);
  snapshot.stacks = std::move(records.stacks);
  snapshot.texts = store.take_texts();
  return snapshot;
}

}  // namespace

Snapshot read(const std::string& path) {
  ByteReader source(files::open_source(path), path);
  return read_source(source);
}

Snapshot read_bytes(std::string_view bytes, const std::string& origin) {
  ByteReader source(files::open_bytes(bytes, origin), origin);
  return read_source(source);
}

}  // namespace ac_advisor::snapshot
