#include <fmt/format.h>

#include <cstdint>

#include "ac_advisor/gate/baseline.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/version.hpp"

namespace ac_advisor::gate {
namespace {

/// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

}  // namespace

const std::string& op_table_version() {
  static const std::string text = [] {
    std::string rows;
    for (const ir::OpRow& row : ir::op_table())
      rows += fmt::format("{} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(row.kind), row.name,
                          row.derive != nullptr, static_cast<int>(row.cost), row.flops_per_output,
                          row.traffic, int{row.dispatches}, int{row.launches}, int{row.mutates},
                          row.workspace != nullptr);
    return fmt::format("{}-{:016x}", version, hash(rows));
  }();
  return text;
}

}  // namespace ac_advisor::gate
