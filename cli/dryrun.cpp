#include "ac_advisor/dryrun/dryrun.hpp"

#include <cstdlib>

#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/not_measured.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {
namespace {

/// Under torchrun each rank writes a file of its own.
std::string output_of_rank(const std::string& file) {
  const char* rank = std::getenv("RANK");
  const char* world = std::getenv("WORLD_SIZE");
  if (file.empty() || rank == nullptr || world == nullptr || std::string(world) == "1") return file;
  return file + ".rank" + rank;
}

}  // namespace

Result run_dryrun(const Arguments& a) {
  if (a.format == "html")
    throw UserError("dryrun --format html: write json, then ac-advisor report FILE");
  const dryrun::Request request{a.positional, a.dryrun.gpu, a.dryrun.world, a.dryrun.rank};
  const dryrun::Run run = dryrun::run(request);
  if (const std::string name = run.unanswered(); !name.empty())
    throw NotMeasured("not measured: the program called " + name +
                      ", which the emulated device does not answer");
  if (run.records.empty()) {
    const std::string text =
        "not measured: the program did not use a CUDA device (it ended with " + run.ended + ")";
    throw NotMeasured(text);
  }
  const std::string output = output_of_rank(a.output);
  write_output(render(dryrun::profile_of(run, request), a.format, terminal_style(output, a.rows)),
               output);
  return {"", run.exit_code};
}

}  // namespace ac_advisor::cli
