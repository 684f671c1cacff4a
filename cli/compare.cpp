#include <fstream>

#include "ac_advisor/model/error.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace ac_advisor::cli {
namespace {

std::string read_file(const std::string& file) {
  constexpr std::size_t most = std::size_t{64} << 20;
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  for (char buffer[1 << 16]; stream.read(buffer, sizeof buffer), stream.gcount() > 0;) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most)
      throw UserError(file + ": larger than 64 MiB, which no profile or sweep is");
  }
  if (!stream.eof())
    throw UserError(file + ": cannot be read; give what plan or advise --format json wrote");
  return text;
}

/// A sweep says so in its first lines; everything else is read, or refused, as a profile.
bool is_sweep(const std::string& text) {
  return text.substr(0, 200).find(reports::sweep_schema) != std::string::npos;
}

}  // namespace

std::string run_compare(const Arguments& arguments) {
  const std::string &a = arguments.positional.at(0), &b = arguments.positional.at(1);
  const std::string a_text = read_file(a), b_text = read_file(b);
  const reports::Style style = terminal_style(arguments.output, arguments.rows);
  const auto rendered = [&](auto diff) {
    diff.a_origin = a;
    diff.b_origin = b;
    return render(diff, arguments.format, style);
  };
  if (is_sweep(a_text) != is_sweep(b_text))
    throw UserError("compare: one is a sweep and the other a profile; give two of a kind");
  if (is_sweep(a_text))
    return rendered(
        reports::diff(reports::sweep_from_json(a_text, a), reports::sweep_from_json(b_text, b)));
  return rendered(profile::diff(profile::from_json(a_text, a), profile::from_json(b_text, b)));
}

}  // namespace ac_advisor::cli
