#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/trace/machine.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {

std::string run_doctor(const Arguments& a) {
  return render(trace::examine(trace::look_at_machine()), a.format,
                terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
