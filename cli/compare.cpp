#include <fstream>
#include <sstream>

#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {
namespace {

profile::Profile read_profile(const std::string& file) {
  constexpr std::size_t most = std::size_t{64} << 20;
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    throw UserError(file + ": cannot be read; give a profile that plan --format json wrote");
  std::string text(most + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > most) throw UserError(file + ": larger than 64 MiB, which no profile is");
  return profile::from_json(text, file);
}

}  // namespace

std::string run_compare(const Arguments& a) {
  profile::Diff diff =
      profile::diff(read_profile(a.positional.at(0)), read_profile(a.positional.at(1)));
  diff.a_origin = a.positional[0];
  diff.b_origin = a.positional[1];
  return render(diff, a.format, terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
