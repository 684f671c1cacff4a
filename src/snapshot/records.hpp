#pragma once

#include <map>

#include "ac_advisor/snapshot/snapshot.hpp"
#include "pickle.hpp"

namespace ac_advisor::snapshot {

/// Makes the dicts of a snapshot into records as soon as each is read: an event of a trace takes
/// 64 bytes, its dict would take 300.
class Records {
 public:
  enum Kind : std::uint32_t { none, frame, event, block, segment, annotation, history, stack };

  /// `origin`: the file's name, for errors.
  Records(PickleStore& store, std::string origin);
  void shape(PickleStore& store, Value dict, std::span<const Value> pairs);

  std::vector<Frame> frames;
  std::vector<std::vector<std::uint32_t>> stacks;
  std::deque<Event> events;
  std::deque<Block> blocks;
  std::deque<Segment> segments;
  std::deque<Annotation> annotations;

 private:
  /// An entry of a block's history (torch 2.0).
  struct History {
    std::int64_t address = 0, size = 0;
    StackId stack = 0;
  };

  /// Throws UserError for what no device has.
  [[nodiscard]] std::int64_t size_of(const PickleStore& store, Value v) const;
  [[nodiscard]] std::uint32_t frame_of(PickleStore& store, std::span<const Value> pairs);
  [[nodiscard]] StackId stack_of(PickleStore& store, Value list);
  void read_event(PickleStore& store, std::span<const Value> pairs);
  void read_block(PickleStore& store, std::span<const Value> pairs);
  void read_segment(PickleStore& store, std::span<const Value> pairs);
  void read_annotation(PickleStore& store, std::span<const Value> pairs);
  void read_history(PickleStore& store, std::span<const Value> pairs);

  std::string origin_;
  std::vector<History> histories_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> frame_ids_, stack_ids_;
  std::vector<bool> ours_;  ///< of the frames: functions of the emulated device
};

}  // namespace ac_advisor::snapshot
