#include <fmt/format.h>

#include "ac_advisor/gate/baseline.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/version.hpp"
#include "files/fingerprint.hpp"

namespace ac_advisor::gate {

const std::string& op_table_version() {
  static const std::string text = [] {
    std::string rows;
    for (const ir::OpRow& row : ir::op_table())
      rows += fmt::format("{} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(row.kind), row.name,
                          row.derive != nullptr, static_cast<int>(row.cost), row.flops_per_output,
                          row.traffic, int{row.dispatches}, int{row.launches}, int{row.mutates},
                          row.workspace != nullptr);
    return fmt::format("{}-{}", version, files::fingerprint(rows));
  }();
  return text;
}

}  // namespace ac_advisor::gate
