#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ac_advisor::snapshot {

/// Index into `Snapshot::texts`; 0 is the empty text.
using TextId = std::uint32_t;
/// Index into `Snapshot::stacks`; 0 is the stack without frames.
using StackId = std::uint32_t;

struct Frame {
  TextId file = 0, name = 0;
  std::int32_t line = 0;
  bool operator==(const Frame&) const = default;
};

enum class Action : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
  other
};

/// One event of the allocator. Sizes in bytes, as they were asked for: not rounded to blocks.
struct Event {
  std::int64_t address = 0;  ///< of an oom: the bytes that the device had left
  std::int64_t size = 0;
  std::int64_t stream = 0;
  std::int64_t time_us = 0;  ///< 0: not recorded (before torch 2.1)
  StackId stack = 0;
  TextId metadata = 0, compile_context = 0, category = 0;
  Action action = Action::other;
};

enum class BlockState : std::uint8_t { allocated, pending_free, inactive };

/// A part of a segment, as the allocator had it when the snapshot was taken.
struct Block {
  std::int64_t address = 0, size = 0, requested = 0;
  StackId stack = 0;
  BlockState state = BlockState::inactive;
};

struct Segment {
  std::int64_t address = 0, size = 0, stream = 0;
  std::int32_t device = 0;
  bool large = true, expandable = false;
  std::int64_t pool[2] = {0, 0};  ///< of a CUDA graph or torch.cuda.MemPool; 0, 0: the default
  std::vector<Block> blocks;
};

/// What `torch.profiler.record_function` told while the history was recorded.
struct Annotation {
  std::string name;
  std::int32_t device = 0;
  std::int64_t time_us = 0;
  bool start = false;
};

struct AllocatorSettings {
  std::string text;  ///< PYTORCH_CUDA_ALLOC_CONF, as it was set
  bool known = false;
  bool expandable_segments = false;
  std::int64_t max_split_size = -1;  ///< bytes; -1: no limit
  /// Divisions of the powers of two, by the size in MiB from which they hold; 0: none.
  std::map<std::int64_t, std::int64_t> roundup_power2_divisions;
};

/// What `torch.cuda.memory._dump_snapshot` wrote.
struct Snapshot {
  std::string origin;
  std::deque<std::string> texts;
  std::vector<Frame> frames;                       ///< distinct ones
  std::vector<std::vector<std::uint32_t>> stacks;  ///< distinct, indices of frames, innermost first
  std::vector<Segment> segments;
  std::vector<std::deque<Event>> traces;  ///< of each device, oldest first
  std::vector<Annotation> annotations;
  AllocatorSettings settings;
  std::vector<std::string> notes;  ///< what the file has and this reader left out

  [[nodiscard]] std::string_view text(TextId id) const { return texts[id]; }
};

/// Reads a snapshot of torch 2.0 to 2.11, plain or gzip; runs none of it. Throws UserError naming
/// the file, the byte, and for a pickle of something else what it refers to.
[[nodiscard]] Snapshot read(const std::string& path);
[[nodiscard]] Snapshot read_bytes(std::string_view bytes, const std::string& origin);

}  // namespace ac_advisor::snapshot
