#include "memory_json.hpp"

namespace ac_advisor::profile {
namespace {

template <typename Figures, typename Io>
void visit_peaks(Figures& m, const Io& io) {
  io("peak_allocated_bytes", m.peak_allocated);
  io("peak_reserved_bytes", m.peak_reserved);
  io("peak_excluding_workspace_bytes", m.peak_excluding_workspace);
  io("first_step_peak_bytes", m.first_step_peak);
  io("resident_bytes", m.resident);
  io("peak_phase", m.peak_phase);
  io("peak_step", m.peak_step);
  io("peak_op", m.peak_op);
  io("peak_module", m.peak_module);
}

template <typename Figures, typename Io>
void visit_parts(Figures& m, const Io& io) {
  io("peak_by_phase", m.peak_by_phase);
  io("peak_by_phase_excluding_workspace", m.peak_by_phase_excluding_workspace);
  io("at_peak_by_module", m.at_peak_by_module);
}

template <typename Tensor, typename Io>
void visit_tensor(Tensor& t, const Io& io) {
  io("module", t.module);
  io("op", t.op);
  io("shape", t.shape);
  io("dtype", t.dtype);
}

template <typename Figures, typename Io>
void visit_rank(Figures& r, const Io& io) {
  io("pp_rank", r.pp_rank);
  io("stages", r.stages);
  io("count", r.count);
  io("peak_allocated_bytes", r.peak_allocated);
}

Category category_of(const Reader& reader) {
  if (reader.is_absent()) return Category::unknown;
  std::array<const char*, category_count> names{};
  for (std::size_t i = 0; i < category_count; ++i) names[i] = to_string(static_cast<Category>(i));
  return static_cast<Category>(reader.node().one_of(names));
}

/// [op, phase, bytes]
TimelinePoint read_point(const Reader& reader) {
  const std::vector<Reader> parts = reader.list();
  if (parts.size() != 3) reader.node().fail("must be a list of three");
  TimelinePoint point;
  point.op = static_cast<std::int32_t>(parts[0].node().integer(
      std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
  point.phase = static_cast<std::uint8_t>(parts[1].node().one_of(phase_names));
  parts[2] >> point.allocated_bytes;
  return point;
}

}  // namespace

Json memory_json(const Memory& m) {
  Json out;
  visit_peaks(m, Writing{out});
  if (m.reference_forward_peak > 0) out["reference_forward_peak_bytes"] = m.reference_forward_peak;
  if (m.host_pinned > 0) out["host_pinned_bytes"] = m.host_pinned;
  out["at_peak"] = Json::object();
  for (std::size_t i = 0; i < category_count; ++i)
    if (!is_optional(static_cast<Category>(i)) || m.at_peak[i] != 0)
      out["at_peak"][to_string(static_cast<Category>(i))] = m.at_peak[i];
  visit_parts(m, Writing{out});
  for (const RankMemory& rank : m.ranks) {
    Json& written = out["ranks"].emplace_back();
    visit_rank(rank, Writing{written});
    if (rank.cp_rank > 0) written["cp_rank"] = rank.cp_rank;
    if (rank.peak_reserved) written["peak_reserved_bytes"] = *rank.peak_reserved;
  }
  out["largest"] = Json::array();
  for (const LiveTensor& t : m.largest) {
    Json& tensor = out["largest"].emplace_back();
    visit_tensor(t, Writing{tensor});
    tensor["category"] = to_string(t.category);
    tensor["bytes"] = t.bytes;
  }
  out["timeline"] = Json::array();
  for (const TimelinePoint& p : m.timeline)
    out["timeline"].push_back({p.op, phase_names[p.phase], p.allocated_bytes});
  return out;
}

void read_memory(const Reader& r, Memory& m) {
  visit_peaks(m, Reading{r});
  if (r.has("reference_forward_peak_bytes"))
    r.at("reference_forward_peak_bytes") >> m.reference_forward_peak;
  if (r.has("host_pinned_bytes")) r.at("host_pinned_bytes") >> m.host_pinned;
  const Reader categories = r.at("at_peak");
  for (std::size_t i = 0; i < category_count; ++i)
    if (const char* name = to_string(static_cast<Category>(i));
        !is_optional(static_cast<Category>(i)) || categories.has(name))
      categories.at(name) >> m.at_peak[i];
  visit_parts(m, Reading{r});
  if (r.has("ranks"))
    for (const Reader& rank : r.at("ranks").list()) {
      RankMemory& read = m.ranks.emplace_back();
      visit_rank(read, Reading{rank});
      if (rank.has("cp_rank")) rank.at("cp_rank") >> read.cp_rank;
      if (rank.has("peak_reserved_bytes"))
        rank.at("peak_reserved_bytes") >> read.peak_reserved.emplace();
    }
  for (const Reader& item : r.at("largest").list()) {
    LiveTensor& tensor = m.largest.emplace_back();
    visit_tensor(tensor, Reading{item});
    tensor.category = category_of(item.at("category"));
    item.at("bytes") >> tensor.bytes;
  }
  for (const Reader& point : r.at("timeline").list()) m.timeline.push_back(read_point(point));
}

}  // namespace ac_advisor::profile
