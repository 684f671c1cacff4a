#include "ac_advisor/snapshot/write_plan.hpp"

#include <map>
#include <unordered_map>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/reserved.hpp"
#include "advise/budget.hpp"
#include "advise/planned.hpp"
#include "advise/storage_category.hpp"
#include "pickle_writer.hpp"

namespace ac_advisor::snapshot {
namespace {

using simulate::CachingAllocator;
using simulate::Request;

/// Where the replica's addresses, which begin at 0, would be on a device.
constexpr std::int64_t first_address = 0x7f0000000000;

/// What asked for memory: a storage (no_id: a workspace), and the op that ran.
using Source = std::pair<ir::StorageId, ir::OpId>;

struct Live {
  Source source;
  std::int64_t address = 0, requested = 0;
  int stream = 0;
};

class Writer {
 public:
  Writer(const passes::StepProgram& step, const passes::Schedule& schedule, bool expandable)
      : p_(step.program),
        categories_(advise::storage_categories(step, schedule)),
        expandable_(expandable) {
    out_.begin_dict();
    out_.text("device_traces");
    out_.begin_list();
    out_.begin_list();
  }

  void observe(const CachingAllocator& allocator, const Request& r) {
    if (r.handle == CachingAllocator::failed) {  // the end
      out_.end_list();
      out_.end_list();
      return segments(allocator.snapshot());
    }
    if (r.handle < 0) return;  // of zero bytes
    if (r.frees) {
      const Live l = live_.at(r.handle);
      event("free_requested", l);
      event("free_completed", l);
      live_.erase(r.handle);
      return;
    }
    const Live l{{r.storage, r.op}, first_address + allocator.address(r.handle), r.bytes, r.stream};
    if (allocator.reserved() != reserved_) grown(allocator, l);
    live_[r.handle] = l;
    event("alloc", l, category(r.storage));
  }

  std::string take() {
    settings();
    out_.text("external_annotations");
    out_.begin_list();
    out_.end_list();
    out_.end_dict();
    return out_.take();
  }

 private:
  [[nodiscard]] const char* category(ir::StorageId s) const {
    return profile::to_string(s == ir::no_id ? profile::Category::workspace
                                             : categories_[static_cast<std::size_t>(s)]);
  }

  /// One frame: the module, the op and its number in the schedule. Equal ones are written once.
  void frames(const Source& source) {
    out_.text("frames");
    const auto [known, fresh] = frames_.try_emplace(source, out_.next_memo());
    if (!fresh) return out_.again(known->second);
    const auto [s, op] = source;
    const bool before = op == ir::no_id;
    const bool states =
        !before && s != ir::no_id && p_.storage(s).role == ir::Role::optimizer_state;
    std::string module = before || states ? "" : to_string(p_.op(op).module);
    if (s != ir::no_id && (before || states)) module = to_string(p_.storage(s).module);
    std::string name = before ? "before the step" : ir::name_of(p_, p_.op(op));
    if (s == ir::no_id) name = before ? "cuBLAS workspace" : name + " workspace";
    out_.begin_list();
    out_.begin_dict();
    out_.entry("name", name);
    out_.entry("filename", module.empty() ? "step" : module);
    out_.entry("line", before ? 0 : op);
    out_.end_dict();
    out_.end_list();
  }

  void event(const char* action, const Live& l, const char* category = nullptr) {
    out_.begin_dict();
    out_.entry("action", action);
    out_.entry("addr", l.address);
    out_.entry("size", l.requested);
    out_.entry("stream", l.stream);
    out_.entry("time_us", ++time_);  // the order is predicted, the moment is not
    out_.entry("compile_context", "");
    out_.entry("user_metadata", "");
    if (category != nullptr) out_.entry("category", category);
    frames(l.source);
    out_.end_dict();
  }

  /// Bytes of each segment that have memory, from its begin.
  static std::map<std::int64_t, std::int64_t> mapped(
      const std::vector<CachingAllocator::BlockInfo>& blocks) {
    std::map<std::int64_t, std::int64_t> sizes;
    for (const CachingAllocator::BlockInfo& b : blocks)
      sizes[b.segment] = std::max(sizes[b.segment], b.address + b.size - b.segment);
    return sizes;
  }

  void grown(const CachingAllocator& allocator, const Live& asking) {
    reserved_ = allocator.reserved();
    for (const auto& [address, size] : mapped(allocator.snapshot())) {
      std::int64_t& known = segments_[address];
      if (size == known) continue;
      Live l = asking;
      l.address = first_address + address + known;
      l.requested = size - known;
      event(expandable_ ? "segment_map" : "segment_alloc", l);
      known = size;
    }
  }

  void segments(const std::vector<CachingAllocator::BlockInfo>& blocks) {
    const std::map<std::int64_t, std::int64_t> sizes = mapped(blocks);
    out_.text("segments");
    out_.begin_list();
    for (std::size_t i = 0; i < blocks.size();) {
      std::size_t end = i;
      std::int64_t used = 0;
      for (; end < blocks.size() && blocks[end].segment == blocks[i].segment; ++end)
        used += blocks[end].used ? blocks[end].size : 0;
      out_.begin_dict();
      out_.entry("device", 0);
      out_.entry("address", first_address + blocks[i].segment);
      out_.entry("total_size", sizes.at(blocks[i].segment));
      out_.entry("allocated_size", used);
      out_.entry("active_size", used);
      out_.entry("requested_size", used);
      out_.entry("stream", blocks[i].stream);
      out_.entry("segment_type", blocks[i].small ? "small" : "large");
      out_.text("segment_pool_id");
      out_.pair(0, 0);
      out_.text("is_expandable");
      out_.boolean(expandable_);
      no_frames();
      out_.text("blocks");
      out_.begin_list();
      for (; i < end; ++i) block(blocks[i]);
      out_.end_list();
      out_.end_dict();
    }
    out_.end_list();
  }

  void block(const CachingAllocator::BlockInfo& b) {
    const auto live = b.used ? live_.find(b.handle) : live_.end();
    out_.begin_dict();
    out_.entry("address", first_address + b.address);
    out_.entry("size", b.size);
    out_.entry("requested_size", live == live_.end() ? 0 : live->second.requested);
    out_.entry("state", b.used ? "active_allocated" : "inactive");
    if (live == live_.end())
      no_frames();
    else
      frames(live->second.source);
    out_.end_dict();
  }

  void no_frames() {
    out_.text("frames");
    out_.begin_list();
    out_.end_list();
  }

  void settings() {
    out_.text("allocator_settings");
    out_.begin_dict();
    out_.entry("PYTORCH_CUDA_ALLOC_CONF", expandable_ ? "expandable_segments:True" : "");
    out_.entry("max_split_size", -1);
    out_.text("expandable_segments");
    out_.boolean(expandable_);
    out_.end_dict();
  }

  const ir::Program& p_;
  std::vector<profile::Category> categories_;
  bool expandable_;
  PickleWriter out_;
  std::unordered_map<CachingAllocator::Handle, Live> live_;
  std::map<Source, std::uint32_t> frames_;
  std::map<std::int64_t, std::int64_t> segments_;
  std::int64_t reserved_ = 0, time_ = 0;
};

}  // namespace

std::string plan_snapshot(const model::ModelSpec& model, const StepConfig& config) {
  const simulate::Device& device = simulate::find_device(config.device.gpu);
  if (!device.cuda)
    throw UserError("--format snapshot: " + device.name +
                    " has no caching allocator; give a GPU with --gpu");
  const advise::Solved solved = advise::solve(model, config, device);
  const passes::Schedule schedule = passes::make_schedule(solved.step);
  const bool expandable = config.runtime.expandable_segments;
  Writer writer(solved.step, schedule, expandable);
  static_cast<void>(simulate::walk_allocator(
      solved.step, schedule, advise::memory_model(device, config), advise::cublas_handles(config),
      {expandable, 0},
      [&](const CachingAllocator& allocator, const Request& r) { writer.observe(allocator, r); }));
  return writer.take();
}

}  // namespace ac_advisor::snapshot
