// Writes at computed places, element by element.
#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer::cpu {

void index_put(const Call& c) {
  if (c.inputs() == 4) return aten::put_in_rows(c);
  const at::Tensor target = c.in(0), index = c.in(1), values = c.in(2);
  if (values.dim() == 2) {  // rows
    const MemoryTracker::Scope outside(nullptr);
    c.out().index_copy_(0, index, values);
    return;
  }
  const auto where = index.accessor<std::int64_t, 1>(), what = values.accessor<std::int64_t, 1>();
  auto out = target.accessor<std::int64_t, 1>();
  for (std::int64_t i = 0; i < index.size(0); ++i) out[where[i]] = what[i];
  static_cast<void>(c.out());
}

void histc(const Call& c) {
  const at::Tensor counts = c.out(), experts = c.in(0);
  counts.zero_();
  const auto ids = experts.accessor<std::int32_t, 1>();
  auto out = counts.accessor<std::int32_t, 1>();
  for (std::int64_t i = 0; i < experts.size(0); ++i) ++out[ids[i]];
}

/// With labels (the chunked loss): adds each row's entry at its label, and clears the rows that are
/// ignored. With indices (topk's gradient): writes each row's entries at its indices.
void scatter(const Call& c) {
  const at::Tensor y = c.out(), index = c.in(1), what = c.in(2);
  if (c.in(0).data_ptr() != y.data_ptr()) y.copy_(c.in(0));
  if (index.dim() == 2) {
    y.scatter_(-1, index, what);
    return;
  }
  const auto targets = index.accessor<std::int64_t, 1>();
  const auto entries = what.accessor<float, 2>();
  auto rows = y.accessor<float, 2>();
  for (std::int64_t r = 0; r < index.size(0); ++r) {
    if (targets[r] == ignored_label)
      y[r].zero_();
    else
      rows[r][targets[r]] += entries[r][0];
  }
}

}  // namespace ac_advisor::trainer::cpu
